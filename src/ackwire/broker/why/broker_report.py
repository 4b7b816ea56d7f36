"""`why broker`: how the broker stands, and what is wrong with it now.

The first lines are figures. What follows is only there if something is wrong: something is full, producers are blocked,
the event loop was held up lately or has no time left.
"""

from typing import Final

from ackwire.broker.loop_report import LIMITS_SECONDS, LongTurn, LoopReport
from ackwire.broker.why.limit_usage import broker_use
from ackwire.broker.why.reasons import why_producer
from ackwire.broker.why.store_report import database_line
from ackwire.broker.why_view import BrokerView

_BUSY: Final = 0.9
"""Share of the time from which on the loop counts as overloaded."""
_LONG_MS: Final = 1000 * LIMITS_SECONDS[-1]
_WRONG: Final = "wrong:"
"""How the sentence of a problem begins."""
_BLOCKED_NAMED_MAX: Final = 5
"""Blocked connections with a sentence of their own."""


def why_broker(broker: BrokerView) -> list[str]:
    """The state of the broker, and all present problems."""
    problems = [*_full(broker), *_blocked(broker), *_held_up(broker)]
    lines = ["; ".join((_figures(broker), *broker_use(broker)))]
    if broker.group_report is not None:
        for line in broker.group_report():
            (problems if line.startswith(_WRONG) else lines).append(line)
    database = broker.store.database()
    if database is not None:
        lines.append(database_line(database))
    if broker.loop_report is not None:
        lines.append(_loop(broker.loop_report()))
    return lines + (problems or ["nothing is wrong: no limit is reached, no producer is blocked, no turn was too long"])


def _figures(broker: BrokerView) -> str:
    flow = broker.flow
    clients = sum(1 for it in broker.clients.all() if it.connection_id != broker.broker_id)
    running_s = max(0, broker.clock.now_ms() - broker.started_ms) // 1000
    return (
        f"broker {broker.settings.broker.name} runs for {running_s} s: {clients} connections, "
        f"{len(broker.registry.router)} destinations, {flow.used_bytes} of {flow.memory_bytes_max} bytes of memory, "
        f"{len(broker.slices)} long jobs at work"
    )


def _loop(report: LoopReport) -> str:
    over = ", ".join(
        f"{count} over {1000 * limit:g} ms" for limit, count in zip(LIMITS_SECONDS, report.longer, strict=True)
    )
    text = f"event loop: busy {100 * report.recent_busy:.0f} % lately; {report.turns} turns, {over}"
    if report.longest is None:
        return text
    text += f"; the longest {_turn(report.longest)}"
    if report.longest_cpu is not None and report.longest_cpu is not report.longest:
        text += f"; most processor time {_turn(report.longest_cpu)}"
    return text


def _turn(turn: LongTurn) -> str:
    return (
        f"took {1000 * turn.seconds:.1f} ms, {1000 * turn.cpu_seconds:.1f} ms of it processor time, "
        f"{1000 * turn.doing_seconds:.1f} ms for {turn.doing}"
    )


def _full(broker: BrokerView) -> list[str]:
    full = broker.flow.is_full()
    return [] if full is None else [f"wrong: {full}"]


def _blocked(broker: BrokerView) -> list[str]:
    blocked = broker.flow.blocked()
    lines = [
        f"wrong: {line}"
        for connection, _ in blocked[:_BLOCKED_NAMED_MAX]
        for line in why_producer(broker, connection.connection_id)[:1]
    ]
    more = len(blocked) - _BLOCKED_NAMED_MAX
    return [*lines, f"wrong: {more} more connections are blocked"] if more > 0 else lines


def _held_up(broker: BrokerView) -> list[str]:
    if broker.loop_report is None:
        return []
    report = broker.loop_report()
    lines = []
    if report.recent is not None and 1000 * report.recent.seconds > _LONG_MS:
        ago_s = max(0, broker.clock.now_ms() - report.recent.ended_ms) // 1000
        waiting = report.recent.seconds - report.recent.cpu_seconds
        cause = "" if waiting < report.recent.seconds / 2 else "; most of it waited for the disk or the machine"
        lines.append(f"wrong: {ago_s} s ago all clients waited: a turn of the loop {_turn(report.recent)}{cause}")
    if report.recent_busy > _BUSY:
        busy = f"{100 * report.recent_busy:.0f} % busy"
        lines.append(f"wrong: the event loop has no time left ({busy}): clients wait for each other")
    return lines
