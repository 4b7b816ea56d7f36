"""Time of a simulated group: events in the order of one clock, which each node sees through a clock of its own.

A node's clock runs a little faster or slower than the true one. A node that is paused does nothing: what falls due is
done when it goes on, in order, and its clock has gone on meanwhile. What a node has planned is forgotten when its
process ends.
"""

import heapq
import itertools
from collections.abc import Callable
from random import Random

from ackwire.store.background import Background
from ackwire.util.clock import Clock, Timer


class Scheduler:
    """Runs events one by one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + max(0.0, delay_seconds), next(self._order), callback))

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        if not self._events:
            return False
        due, _, callback = heapq.heappop(self._events)
        self.now = max(self.now, due)
        self.steps += 1
        callback()
        return True


class _Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Process(Clock):
    """One process of a node: its clock, and a way to run things in it."""

    def __init__(self, scheduler: Scheduler, rate: float) -> None:
        self._scheduler = scheduler
        self._rate = rate
        self.paused_until = 0.0
        self.is_over = False

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return self._scheduler.now * self._rate

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer()

        def due() -> None:
            if not timer.is_cancelled:
                self.run(callback, timer)

        self._scheduler.call_later(delay_seconds / self._rate, due)
        return timer

    def run(self, callback: Callable[[], None], timer: _Timer | None = None) -> None:
        """Run *callback* in this process now, or when it goes on."""
        if self.is_over or (timer is not None and timer.is_cancelled):
            return
        remaining = self.paused_until - self._scheduler.now
        if remaining > 0:
            self._scheduler.call_later(remaining, lambda: self.run(callback, timer))
        else:
            callback()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self._scheduler.now + seconds)


class SlowBackground(Background):
    """A thread of a process: works in order, each piece after a while, and tells the loop a while later."""

    def __init__(self, process: Process, scheduler: Scheduler, random: Random, slowest_seconds: float) -> None:
        self._process = process
        self._scheduler = scheduler
        self._random = random
        self._slowest_seconds = slowest_seconds
        self._free_at = 0.0
        self._told_at = 0.0
        self._waiting = 0

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._waiting += 1
        now = self._scheduler.now
        self._free_at = max(now, self._free_at) + self._random.random() * self._slowest_seconds
        self._scheduler.call_later(self._free_at - now, lambda: self._process.run(lambda: self._work(work, done)))

    def _work(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        now = self._scheduler.now
        self._told_at = max(self._told_at, now + self._random.random() * 0.002)

        def tell() -> None:
            self._waiting -= 1
            done(error)

        self._scheduler.call_later(self._told_at - now, lambda: self._process.run(tell))

    def finish(self) -> None:
        assert not self._waiting, "a simulated process never waits for its threads"
