"""Measurements of the broker's event loop, for `why broker` and `/metrics`.

Plain values. `server/loop_monitor.py` measures; the broker core never does.
"""

from dataclasses import dataclass
from typing import Final

LIMITS_SECONDS: Final = (0.005, 0.02, 0.05)
"""Turns longer than each of these are counted: the budget of one slice of work, the goal, and the most we accept."""

RECENT_SECONDS: Final = 60.0
"""The window in which a long turn counts as a problem of now."""


@dataclass(frozen=True, slots=True)
class LongTurn:
    """One turn of the loop that took long."""

    seconds: float
    """From the moment events were there until the loop looked for events again."""
    cpu_seconds: float
    """Processor time of the loop's thread in it, too high by 2 ms at most. The rest is waiting: for the disk, for
    another thread of the broker, or for the machine."""
    doing: str
    """The longest step in it: a peer and its command, a timer or a callback."""
    doing_seconds: float
    ended_ms: int
    """When, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The turns of the loop since the broker was ready."""

    turns: int
    busy_seconds: float
    """Time in turns: what is left of the uptime the loop has slept."""
    longer: tuple[int, ...]
    """How many turns were longer than each of `LIMITS_SECONDS`."""
    longest: LongTurn | None
    """None while no turn was longer than the first limit."""
    longest_cpu: LongTurn | None
    """The one with the most processor time: it does not depend on what else the machine does."""
    recent: LongTurn | None
    """The longest within the last `RECENT_SECONDS` to twice that."""
    recent_busy: float
    """Share of that time that the loop was busy, 0 to 1."""
