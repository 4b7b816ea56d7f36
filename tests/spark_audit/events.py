"""A broker's audit, made by hand: `Scribe` writes down what a broker would, `write` puts it where the broker puts it.

The truth is kept beside it in plain Python: `Scribe.copies` is the life of every message copy as it happened, so that
tests compare the tables with what was done, and not with another way to read the events.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackwire.tabular.audit_schema import AUDIT

Event = dict[str, Any]
DLQ = "queue://ActiveMQ.DLQ"
NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


@dataclass(slots=True)
class Copy:
    """The life of one message copy, as it happened."""

    place: str
    sequence: int
    message_id: str
    destination: str
    persistent: bool
    size: int
    sent_time: datetime
    stored_time: datetime
    dispatches: list[tuple[datetime, str]] = field(default_factory=list)
    redeliveries: int = 0
    end_kind: str = "pending"
    end_time: datetime | None = None
    ack_type: str | None = None
    cause: str | None = None
    consumer: str | None = None
    transaction: str | None = None


class Scribe:
    """Does what a broker does to messages, and writes it down as events."""

    def __init__(self, broker: str = "test", start: datetime = NINE) -> None:
        self.broker = broker
        self.now = start
        self.events: list[Event] = []
        self.copies: list[Copy] = []
        self._sequence = 0
        self._run = ""
        self._number = 0
        self._promised = 0
        self.start()

    def wait(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def event(self, event: str, **values: Any) -> Event:
        self._number += 1
        self.now += timedelta(microseconds=137)
        row = {"time": self.now, "event": event, "run": self._run, "number": self._number, "broker": self.broker}
        self.events.append(row | values)
        return self.events[-1]

    # ---- runs

    def start(self) -> None:
        self._run = f"{self.broker}-{int(self.now.timestamp() * 1000)}"
        self._number = 0
        self.event("started")

    def restart(self) -> None:
        self.census()
        self.event("stopped")
        for copy in self.pending():
            if not copy.persistent:
                self._lost_at_start(copy)
        self.wait(seconds=2)
        self._begin_again()

    def sync(self) -> None:
        """All that happened so far is on the medium, and producers are told so."""
        self.event("durable", count=self._number)
        self._promised = len(self.copies)

    def crash(self, *, losing: Sequence[Copy] = (), undoing: Sequence[Copy] = ()) -> None:
        """Stop at once and start again; what is *losing* is not found, what is *undoing* is there as if not ended."""
        for copy in undoing:
            copy.end_kind, copy.end_time, copy.ack_type, copy.consumer, copy.transaction = (
                "pending",
                None,
                None,
                None,
                None,
            )
        for copy in self.pending():
            if not copy.persistent or copy in losing:
                self._lost_at_start(copy)
        self.wait(seconds=2)
        self._begin_again(restoring=self.pending())

    def _lost_at_start(self, copy: Copy) -> None:
        was_promised = copy.persistent and self.copies.index(copy) < self._promised
        copy.end_kind = "lost" if was_promised else "lost_in_crash"

    def _begin_again(self, restoring: Sequence[Copy] = ()) -> None:
        self.start()
        for copy in restoring:
            self.event("restored", place=copy.place, sequence=copy.sequence)
        self.census()

    def census(self) -> None:
        for place in sorted({it.place for it in self.copies}):
            self.event("census", place=place, count=sum(it.place == place for it in self.pending()))

    def pending(self) -> list[Copy]:
        return [it for it in self.copies if it.end_kind == "pending"]

    # ---- messages

    def send(self, queue: str = "queue://orders", *, persistent: bool = True, size: int = 100) -> Copy:
        sent_time = self.now
        message_id = f"ID:producer:1:1:1:{self._sequence + 1}"
        common = {
            "destination": queue, "message_id": message_id, "sent_time": sent_time, "size": size, "priority": 4,
            "persistent": persistent, "client_id": "shop",
        }  # fmt: skip
        self.event("sent", **common, sequence=self._sequence + 1)
        return self.store(queue, **common)

    def publish(self, topic: str, places: Iterable[str]) -> list[Copy]:
        message_id = f"ID:producer:1:1:1:{self._sequence + 1}"
        common = {
            "destination": topic, "message_id": message_id, "sent_time": self.now, "size": 10, "priority": 4,
            "persistent": True,
        }  # fmt: skip
        self.event("sent", **common)
        return [self.store(it, **common) for it in places]

    def store(self, place: str, **common: Any) -> Copy:
        self._sequence += 1
        row = self.event("stored", place=place, **(common | {"sequence": self._sequence}))
        copy = Copy(
            place, self._sequence, common["message_id"], common["destination"], common["persistent"], common["size"],
            common["sent_time"], row["time"],
        )  # fmt: skip
        self.copies.append(copy)
        return copy

    def dispatch(self, copy: Copy, consumer: str = "c1") -> None:
        row = self._about(copy, "dispatched", consumer=consumer, redelivery_count=copy.redeliveries)
        copy.dispatches.append((row["time"], consumer))

    def back(self, copy: Copy) -> None:
        copy.redeliveries += 1
        self._about(copy, "redelivered", consumer=copy.dispatches[-1][1], redelivery_count=copy.redeliveries)

    def ack(self, copy: Copy, ack_type: str = "standard", transaction: str | None = None) -> None:
        consumer = copy.dispatches[-1][1]
        copy.ack_type, copy.consumer, copy.transaction = ack_type, consumer, transaction
        self._end(copy, "acked", consumer=consumer, ack_type=ack_type, transaction=transaction)

    def consume(self, copy: Copy, consumer: str = "c1", work_ms: float = 5, **how: Any) -> None:
        self.dispatch(copy, consumer)
        self.wait(milliseconds=work_ms)
        self.ack(copy, **how)

    def kill(self, copy: Copy, cause: str) -> Copy:
        """A dead letter: it leaves its place, and a copy is stored on the dead-letter queue."""
        copy.cause = cause
        self._end(copy, "dead_lettered", cause=cause)
        return self.store(
            DLQ, destination=copy.destination, message_id=copy.message_id, sent_time=copy.sent_time, size=copy.size,
            priority=4, persistent=copy.persistent,
        )  # fmt: skip

    def end(self, copy: Copy, kind: str) -> None:
        """Expired, purged or discarded."""
        self._end(copy, kind)

    def _end(self, copy: Copy, kind: str, **values: Any) -> None:
        row = self._about(copy, kind, **values)
        copy.end_kind, copy.end_time = kind, row["time"]

    def _about(self, copy: Copy, event: str, **values: Any) -> Event:
        return self.event(
            event, place=copy.place, destination=copy.destination, sequence=copy.sequence, message_id=copy.message_id,
            size=copy.size, persistent=copy.persistent, **values,
        )  # fmt: skip


def write(folder: Path, events: Sequence[Event], name: str | None = None) -> Path:
    """One file, below the day and hour of its first event."""
    first = events[0]
    target = folder / f"date={first['time']:%Y-%m-%d}" / f"hour={first['time']:%H}"
    target.mkdir(parents=True, exist_ok=True)
    columns = [pa.array([it.get(column.name) for it in events], column.type) for column in AUDIT]
    path = target / (name or f"{first['run']}-{first['number']}.parquet")
    pq.write_table(pa.Table.from_arrays(columns, schema=AUDIT), path.with_suffix(".tmp"))
    return path.with_suffix(".tmp").rename(path)


def write_all(folder: Path, events: Sequence[Event], per_file: int = 50) -> list[Path]:
    """Files as the broker rolls them: by count, by run, and by hour."""
    paths, part = [], [events[0]]
    for event in events[1:]:
        same = event["run"] == part[0]["run"] and f"{event['time']:%F%H}" == f"{part[0]['time']:%F%H}"
        if not same or len(part) == per_file:
            paths.append(write(folder, part))
            part = []
        part.append(event)
    return [*paths, write(folder, part)]
