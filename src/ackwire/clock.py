"""Time, as the only way the rest of Ackwire may learn it.

`Clock` is what broker and server code asks; tests and simulations pass a `ManualClock`, so no test waits
and every run can be repeated. Wall time (`now_ms`) goes into messages; `monotonic` measures intervals.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; harmless when it has run."""
        ...


class Clock(Protocol):
    """Tells the time and calls back later."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as message timestamps count."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        """Run *callback* once, *delay_seconds* from now."""
        ...


class SystemClock:
    """The machine's time; timers run on the event loop of the calling thread."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_seconds, callback)


class _ManualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time that moves only when told to; timers run inside `advance`, in order of their due time."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = start_ms
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _ManualTimer]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(0.0, delay_seconds), next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move time on by *seconds*, running what falls due on the way."""
        until = self._elapsed + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = due
            if not timer.cancelled:
                timer.callback()
        self._elapsed = until
