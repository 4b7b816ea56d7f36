"""The broker in numbers, in the text format 0.0.4 that Prometheus reads.

Names begin with `ackwire_`. The first `LABELLED_MAX` destinations have a label each; the rest, and all temporary ones,
are summed under `…other`, so that a scrape stays bounded whatever clients create.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ackwire import __version__
from ackwire.admin.destination_stats import Counts, destination_stats
from ackwire.broker.broker import Broker
from ackwire.broker.cursors import CursorInfo
from ackwire.broker.loop_report import LIMITS_SECONDS, LoopReport

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

LABELLED_MAX: Final = 1000
"""Destinations, and cursors, with a label of their own."""
OTHER: Final = "…other"

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Labels, int | float]]

_DESTINATIONS: Final = (
    ("pending", "pending", "gauge", "Messages that wait for a consumer."),
    ("in_flight", "in_flight", "gauge", "Messages that consumers have and have not acknowledged."),
    ("consumers", "consumers", "gauge", "Consumers."),
    ("bytes", "bytes", "gauge", "Bytes of messages, wherever they are."),
    ("enqueued", "enqueued_total", "counter", "Messages that came, since the broker started."),
    ("dequeued", "dequeued_total", "counter", "Messages that left, since the broker started."),
    ("expired", "expired_total", "counter", "Messages whose time was over, since the broker started."),
)
"""Field of `Counts`, end of the metric's name, type and meaning."""

_CURSORS: Final = (
    ("assigned", "The last number that was given to a message of the cursor."),
    ("committed", "Up to which number the cursor's messages were committed."),
    ("lag", "Messages of the cursor that are not committed, those without a number included."),
)


class DatabaseFigures(Protocol):
    """What the metrics show of a database (`store.contract.DatabaseState`)."""

    @property
    def is_reachable(self) -> bool: ...

    @property
    def away_seconds(self) -> float: ...

    @property
    def reconnects(self) -> int: ...

    @property
    def transactions(self) -> int: ...

    @property
    def rows_written(self) -> int: ...


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What the metrics and the health check show of the store."""

    kind: str
    used_bytes: Callable[[], int]
    bytes_max: int
    database: Callable[[], "DatabaseFigures | None"] = lambda: None
    """How its database stands; None for a store without one."""


async def render(broker: Broker, store: StoreInfo, uptime_seconds: float) -> str:
    """The whole text."""
    lines = _broker(broker, store, uptime_seconds)
    database = store.database()
    if database is not None:
        lines += database_metrics(database)
    if broker.view.loop_report is not None:
        lines += _loop(broker.view.loop_report())
    places = await _places(broker)
    for field, end, kind, meaning in _DESTINATIONS:
        samples = [((("destination", name),), getattr(counts, field)) for name, counts in places.items()]
        lines += metric(f"ackwire_destination_{end}", kind, meaning, samples)
    standing = broker.cursors.all()[:LABELLED_MAX]
    for field, meaning in _CURSORS:
        lines += metric(f"ackwire_cursor_{field}", "gauge", meaning, _of_cursors(field, standing))
    return "\n".join(lines) + "\n"


def _broker(broker: Broker, store: StoreInfo, uptime_seconds: float) -> list[str]:
    flow, temp = broker.flow, broker.flow.temp
    figures: tuple[tuple[str, str, float], ...] = (
        ("uptime_seconds", "Since the broker started.", round(uptime_seconds, 3)),
        ("connections", "Clients that are connected.", _clients(broker)),
        ("destinations", "Queues and topics, temporary ones included.", len(broker.registry.router)),
        ("destinations_limit", "Their limit (destinations.count_max).", broker.settings.destinations.count_max),
        ("scheduled_jobs", "Messages that wait for their time.", len(broker.scheduler)),
        ("scheduled_jobs_limit", "Their limit (scheduler.jobs_max).", broker.settings.scheduler.jobs_max),
        ("scheduled_bytes", "Bytes of these messages.", broker.scheduler.used_bytes),
        ("scheduled_limit_bytes", "Their limit (scheduler.job_bytes_max).", broker.settings.scheduler.job_bytes_max),
        ("held_producers", "Connections whose sends wait for space.", len(flow.blocked())),
        ("blocked_bytes", "Bytes of sends that wait for space.", flow.blocked_bytes),
        ("blocked_limit_bytes", "Their limit (limits.blocked_bytes_max).", flow.blocked_bytes_max),
        ("receive_used_bytes", "Room for frames that have arrived in part.", broker.receive_room.used_bytes),
        ("receive_limit_bytes", "Its limit (limits and handshake, receive_bytes_max).", broker.receive_room.bytes_max),
        ("receive_waiting", "Connections whose frame waits for such room.", broker.receive_room.waiting_count),
        ("memory_used_bytes", "Bytes of messages in memory.", flow.used_bytes),
        ("memory_limit_bytes", "Their limit (limits.memory_bytes_max).", flow.memory_bytes_max),
        ("store_used_bytes", "Bytes of the store's files.", store.used_bytes()),
        ("store_limit_bytes", "Their limit (limits.store_bytes_max).", store.bytes_max),
        ("temp_used_bytes", "Bytes of the temp store's files.", 0 if temp is None else temp.used_bytes),
        ("temp_limit_bytes", "Their limit (limits.temp_bytes_max).", 0 if temp is None else temp.bytes_max),
        (
            "transactions",
            "Open transactions, prepared ones included.",
            sum(1 for _ in broker.transaction_manager.transactions),
        ),
        ("staged_parts", "Parts of batches that are staged.", broker.staging.part_count),
        ("staged_messages", "Messages that are staged and not committed.", broker.staging.count),
    )
    lines = metric("ackwire_info", "gauge", "Which broker this is.", [(_identity(broker, store), 1)])
    for name, meaning, value in figures:
        lines += metric(f"ackwire_{name}", "gauge", meaning, [((), value)])
    dropped = "Sends that waited for space when their client left, and were dropped."
    return lines + metric("ackwire_dropped_sends_total", "counter", dropped, [((), flow.dropped_sends)])


def database_metrics(state: DatabaseFigures) -> list[str]:
    """The lines about a database."""
    figures: tuple[tuple[str, str, str, float], ...] = (
        ("reachable", "gauge", "1 while the database can be used, 0 while it is away.", int(state.is_reachable)),
        ("away_seconds", "gauge", "How long the database has been away; 0 while it is not.", state.away_seconds),
        ("reconnects_total", "counter", "New connections in the place of lost ones.", state.reconnects),
        ("transactions_total", "counter", "Transactions committed.", state.transactions),
        ("rows_written_total", "counter", "Rows inserted, changed or deleted by them.", state.rows_written),
    )
    return [
        line
        for name, kind, meaning, value in figures
        for line in metric(f"ackwire_store_{name}", kind, meaning, [((), value)])
    ]


def _loop(report: LoopReport) -> list[str]:
    name, meaning = "ackwire_loop_turn_seconds", "Turns of the event loop: how long clients wait for each other."
    shorter = [report.turns - count for count in report.longer]
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} histogram"]
    lines += [f'{name}_bucket{{le="{limit:g}"}} {n}' for limit, n in zip(LIMITS_SECONDS, shorter, strict=True)]
    lines += [f'{name}_bucket{{le="+Inf"}} {report.turns}']
    lines += [f"{name}_sum {_number(report.busy_seconds)}", f"{name}_count {report.turns}"]
    longest = (
        ("longest_turn", "The longest turn since the start, and what it was doing.", report.longest),
        ("recent_longest_turn", "The longest turn of the last minute or two.", report.recent),
    )
    for end, told, turn in longest:
        label, seconds = ("", 0.0) if turn is None else (turn.doing, turn.seconds)
        lines += metric(f"ackwire_loop_{end}_seconds", "gauge", told, [((("doing", label),), seconds)])
    cpu = 0.0 if report.longest_cpu is None else report.longest_cpu.cpu_seconds
    lines += metric("ackwire_loop_longest_turn_cpu_seconds", "gauge", "Most processor time of a turn.", [((), cpu)])
    return lines


def _identity(broker: Broker, store: StoreInfo) -> Labels:
    return (("broker", broker.settings.broker.name), ("store", store.kind), ("version", __version__))


def _clients(broker: Broker) -> int:
    """Connections, without the broker's own, on which it listens to questions."""
    return sum(1 for connection in broker.connections() if connection.connection_id != broker.broker_id)


async def _places(broker: Broker) -> dict[str, Counts]:
    places: dict[str, Counts] = {}
    async for name, is_temporary, counts in destination_stats(broker):
        if is_temporary or len(places) >= LABELLED_MAX:
            name = OTHER
        places.setdefault(name, Counts()).add(counts)
    return places


def _of_cursors(field: str, cursors: Sequence[CursorInfo]) -> Samples:
    for facts in cursors:
        yield (("cursor", facts.name), ("destination", repr(facts.destination))), getattr(facts, field)


def metric(name: str, kind: str, meaning: str, samples: Samples) -> list[str]:
    """The lines of one metric; none if there are no samples."""
    lines = [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    return [f"# HELP {name} {_escaped(meaning)}", f"# TYPE {name} {kind}", *lines] if lines else []


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
