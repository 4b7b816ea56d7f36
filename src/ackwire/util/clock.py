"""Clocks: the only source of time for the rest of Ackwire.

`Clock` is what broker and server code asks; tests and simulations pass a `ManualClock`, so no test waits
and every run can be repeated. Wall time (`now_ms`) goes into messages; `monotonic` measures intervals.
"""

import asyncio
import concurrent.futures
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final, Protocol, final

from ackwire.compilation import mypyc_attr

_time_ns: Final = time.time_ns  # asked for every message


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; harmless when it has run."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
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


@final
class SystemClock(Clock):
    """The machine's time; timers run on the event loop of the calling thread."""

    def now_ms(self) -> int:
        return _time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_seconds, callback)


@final
class Turns:
    """Counts the iterations of an event loop, for code that reads the clock at most once in each iteration."""

    def __init__(self) -> None:
        self.number = 0
        self.after_pause = False
        """Whether the loop was idle for a while before this iteration."""


class _ManualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@mypyc_attr(allow_interpreted_subclasses=True)  # tests have one that drifts
class ManualClock(Clock):
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


class AdjustableClock(Clock):
    """The machine's time, plus what it was told to move on: for tests of programs with a broker in their process.

    Unlike a `ManualClock` it never stands still, so a caller that waits for some time does not wait for ever. It
    belongs to the event loop that sets timers; `advance` may be called from any thread.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake_up: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + round(self._ahead * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the broker was started again; what the old one had planned is off
            self._loop = loop
            self._timers.clear()
            self._wake_up = None
        timer = _ManualTimer(callback)
        entry = (self.monotonic() + max(0.0, delay_seconds), next(self._order), timer)
        heapq.heappush(self._timers, entry)
        if self._timers[0][2] is timer:
            self._set_alarm()
        return timer

    def advance(self, seconds: float, *, timeout_seconds: float = 60.0) -> None:
        """Move time on by *seconds*, and return when what fell due on the way has been done, in its order.

        Raises `TimeoutError` if that takes longer than *timeout_seconds* of the machine's time.
        """
        if not seconds >= 0:
            raise ValueError(f"time moves on, not back: {seconds} s")
        loop = self._loop
        if loop is None or loop.is_closed():
            self._ahead += seconds
            return
        try:
            if asyncio.get_running_loop() is loop:
                self._advance(seconds)
                return
        except RuntimeError:  # no loop runs in this thread
            pass
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        loop.call_soon_threadsafe(self._advance_for, seconds, done)
        try:
            done.result(timeout_seconds)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"what is due within {seconds:g} s was not done in {timeout_seconds:g} s") from None

    def _advance_for(self, seconds: float, done: "concurrent.futures.Future[None]") -> None:
        try:
            self._advance(seconds)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _advance(self, seconds: float) -> None:
        target = self._ahead + seconds
        try:
            while self._timers and self._timers[0][0] <= time.monotonic() + target:
                due, _, timer = heapq.heappop(self._timers)
                # Each timer sees the time at which it was due.
                self._ahead = min(target, max(self._ahead, due - time.monotonic()))
                if not timer.cancelled:
                    timer.callback()
        finally:
            self._ahead = target
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if self._timers and self._loop is not None:
            self._wake_up = self._loop.call_later(self._timers[0][0] - self.monotonic(), self._run_due)

    def _run_due(self) -> None:
        """Run the timers that are due now, each callback in an iteration of its own, like the loop's own timers."""
        self._wake_up = None
        loop = self._loop
        assert loop is not None
        while self._timers and self._timers[0][0] <= self.monotonic():
            _, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                loop.call_soon(self._run, timer)
        self._set_alarm()

    @staticmethod
    def _run(timer: _ManualTimer) -> None:
        if not timer.cancelled:
            timer.callback()
