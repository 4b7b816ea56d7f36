"""Measures every turn of the event loop and names what made a turn long.

A turn lasts from the moment epoll has returned until epoll is asked again: so long every client waits. `loop.py` calls
`begin` and `end`; in between `lap` is called after each step (a socket read, a callback, a flush) with what was done. A
lap costs a look at the clock. Only a step longer than `_NOTED_SECONDS` is remembered, and only for a turn longer than
5 ms a text is made of it; so the usual turn keeps no reference to anything and costs two looks at the clock.

Processor time is asked for every 2 ms at most (it is a system call), so that of a long turn is known to within 2 ms.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from ackwire.broker.loop_report import LIMITS_SECONDS, RECENT_SECONDS, LongTurn, LoopReport

_LONG_SECONDS: Final = LIMITS_SECONDS[0]
_NOTED_SECONDS: Final = 0.001
_CPU_SAMPLE_SECONDS: Final = 0.002
_WARNED_SECONDS: Final = 0.5
"""A turn this long is logged."""
_WARNINGS_SECONDS: Final = 10.0
"""At most one such line in this time."""
_TEXT_MAX: Final = 200
"""Characters of a description: names come from clients."""

_log = logging.getLogger(__name__)


@final
class LoopMonitor:
    """The turns of one loop; only for its thread."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._monotonic = monotonic
        self._cpu = cpu
        self._wall_ms = wall_ms
        self._began = 0.0
        self._lap_began = 0.0
        self._is_on = False
        self._noted_seconds = _NOTED_SECONDS
        self._noted: object = None
        """The longest step of this turn so far, if it is worth a name."""
        self._gc_began = 0.0
        self._gc_seconds = 0.0
        """Time in the garbage collector during this turn."""
        self._cpu_at = 0.0
        self._cpu_sampled = 0.0
        self._turns = 0
        self._busy = 0.0
        self._longer = [0] * len(LIMITS_SECONDS)
        self._longest: LongTurn | None = None
        self._longest_cpu: LongTurn | None = None
        self._window_began = 0.0
        self._window: LongTurn | None = None
        self._window_busy = 0.0
        self._last_window: LongTurn | None = None
        self._last_window_busy = 0.0
        self._last_window_seconds = 0.0
        self._warned_at = -_WARNINGS_SECONDS

    # ---- what the loop calls -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to measure: the broker is ready. What came before, the start itself, does not count."""
        self.stop()
        now = self._monotonic()
        self._turns = 0
        self._busy = self._window_busy = 0.0
        self._longer = [0] * len(LIMITS_SECONDS)
        self._longest = self._longest_cpu = self._window = self._last_window = None
        self._last_window_seconds = 0.0
        self._window_began = now
        self._noted = None
        self._noted_seconds = _NOTED_SECONDS
        self._is_on = True
        gc.callbacks.append(self._on_collection)
        self.begin()

    def stop(self) -> None:
        """Measure no more."""
        if self._is_on:
            self._is_on = False
            self._noted = None
            gc.callbacks.remove(self._on_collection)

    def begin(self) -> None:
        """A turn begins: there are events, or a timer is due."""
        now = self._monotonic()
        self._began = self._lap_began = now
        if now - self._cpu_sampled >= _CPU_SAMPLE_SECONDS:
            self._cpu_at = self._cpu()
            self._cpu_sampled = now

    def lap(self, done: object) -> float:
        """A step has ended: *done* is the callable that was called for it. Gives the length of the turn so far."""
        now = self._monotonic()
        seconds = now - self._lap_began
        self._lap_began = now
        if seconds > self._noted_seconds:
            self._noted_seconds = seconds
            self._noted = done
        return now - self._began

    def end(self) -> None:
        """The turn is over: the loop looks for events."""
        if not self._is_on:
            return
        seconds = self._monotonic() - self._began
        self._turns += 1
        self._busy += seconds
        if seconds > _LONG_SECONDS:
            self._was_long(seconds)
        if self._noted_seconds > _NOTED_SECONDS:
            self._noted = None
            self._noted_seconds = _NOTED_SECONDS
        self._gc_seconds = 0.0

    # ---- what operators ask ------------------------------------------------------------------------------------

    def report(self) -> LoopReport:
        """The figures so far."""
        now = self._monotonic()
        self._turn_window(now)
        seconds = self._last_window_seconds + now - self._window_began
        busy = self._last_window_busy + self._busy - self._window_busy
        known = [it for it in (self._window, self._last_window) if it is not None]
        return LoopReport(
            turns=self._turns,
            busy_seconds=self._busy,
            longer=tuple(self._longer),
            longest=self._longest,
            longest_cpu=self._longest_cpu,
            recent=max(known, key=lambda it: it.seconds, default=None),
            recent_busy=min(1.0, busy / seconds) if seconds > 0 else 0.0,
        )

    # ---- inside ------------------------------------------------------------------------------------------------

    def _was_long(self, seconds: float) -> None:
        now = self._monotonic()
        cpu_seconds = min(seconds, self._cpu() - self._cpu_at)
        for number, limit in enumerate(LIMITS_SECONDS):
            self._longer[number] += seconds > limit
        self._turn_window(now)
        longest, longest_cpu, window = self._longest, self._longest_cpu, self._window
        is_longest = longest is None or seconds > longest.seconds
        is_longest_cpu = longest_cpu is None or cpu_seconds > longest_cpu.cpu_seconds
        is_longest_of_window = window is None or seconds > window.seconds
        is_warned = seconds >= _WARNED_SECONDS and now - self._warned_at >= _WARNINGS_SECONDS
        if not (is_longest or is_longest_cpu or is_longest_of_window or is_warned):
            return  # a description costs more than the rest, and this one would not be kept
        turn = LongTurn(seconds, cpu_seconds, self._doing(seconds), self._noted_seconds, self._wall_ms())
        if is_longest:
            self._longest = turn
        if is_longest_cpu:
            self._longest_cpu = turn
        if is_longest_of_window:
            self._window = turn
        if is_warned:
            self._warned_at = now
            _log.warning(
                "the event loop was held up for %.0f ms (%.0f ms of processor time) by %s: all clients waited",
                1000 * seconds,
                1000 * cpu_seconds,
                turn.doing,
            )

    def _doing(self, seconds: float) -> str:
        doing = _described(self._noted)
        return f"garbage collection, during {doing}" if self._gc_seconds > seconds / 2 else doing

    def _turn_window(self, now: float) -> None:
        """Two windows follow each other, so that the recent past is never shorter than one."""
        passed = now - self._window_began
        if passed < RECENT_SECONDS:
            return
        if passed < 2 * RECENT_SECONDS:
            self._last_window = self._window
            self._last_window_busy = self._busy - self._window_busy
            self._last_window_seconds = passed
        else:
            self._last_window = None
            self._last_window_busy = self._last_window_seconds = 0.0
        self._window = None
        self._window_busy = self._busy
        self._window_began = now

    def _on_collection(self, phase: str, _info: object) -> None:
        """Any thread may collect; the loop waits for it in any case."""
        if phase == "start":
            self._gc_began = self._monotonic()
        else:
            self._gc_seconds += self._monotonic() - self._gc_began


def _described(done: object) -> str:
    """What a callable was for, in a line."""
    text = _owner_text(done) if done is not None else "many short steps"
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:_TEXT_MAX])
    return shown if len(text) <= _TEXT_MAX else f"{shown}…"


def _owner_text(done: object) -> str:
    if isinstance(done, asyncio.Handle):
        done = getattr(done, "_callback", done)
    while isinstance(done, partial):
        done = done.func
    owner: Any = getattr(done, "__self__", None)
    name = getattr(done, "__qualname__", None) or type(done).__qualname__
    if isinstance(owner, asyncio.Task):
        return f"task {getattr(owner.get_coro(), '__qualname__', owner.get_name())}"
    if isinstance(owner, asyncio.BaseTransport):
        owner = owner.get_protocol()
        owner = getattr(owner, "_app_protocol", owner)  # that of TLS has the peer behind it
    doing = getattr(owner, "doing", None)
    if isinstance(doing, str):
        return doing
    if owner is None or isinstance(owner, type(asyncio)):  # a function, or one of a C module
        return str(name)
    shown = repr(owner)
    return str(name) if shown.endswith(f"at {hex(id(owner))}>") else f"{name} of {shown}"  # an address helps no one
