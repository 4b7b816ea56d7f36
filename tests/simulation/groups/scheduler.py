"""Time of a simulated group: events in the order of one clock, which each node sees through a clock of its own.

A node's clock runs a little faster or slower than the true one. A node that is paused does nothing: what falls due is
done when it goes on, in order, and its clock has gone on meanwhile. What a node has planned is forgotten when its
process ends.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from random import Random

from ackwire.store.background import Background
from ackwire.util.clock import Timer
from tests.helpers.simulated_disk import Stopped


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


class Process:
    """One process of a node: its clock, and a way to run things in it. Implements `Clock`."""

    def __init__(self, scheduler: Scheduler, rate: float) -> None:
        self._scheduler = scheduler
        self._rate = rate
        self.paused_until = 0.0
        self.is_over = False
        self.on_stopped: Callable[[], None] = lambda: None
        """Called when its machine stops in the middle of a call of the disk."""

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
            try:
                callback()
            except Stopped:
                self.on_stopped()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self._scheduler.now + seconds)


class _Piece:
    """Work, and who is to hear of it."""

    def __init__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._work = work
        self._done = done
        self._error: Exception | None = None
        self._is_worked = False
        self.is_told = False

    def work(self) -> None:
        if self._is_worked:
            return
        self._is_worked = True
        try:
            self._work()
        except Exception as error:
            self._error = error

    def tell(self) -> None:
        if not self.is_told:
            self.is_told = True
            self._done(self._error)


class SlowBackground(Background):
    """A thread of a process: works in order, each piece after a while, and tells the loop a while later."""

    def __init__(self, process: Process, scheduler: Scheduler, random: Random, slowest_seconds: float) -> None:
        self._process = process
        self._scheduler = scheduler
        self._random = random
        self._slowest_seconds = slowest_seconds
        self._free_at = 0.0
        self._told_at = 0.0
        self._pieces: deque[_Piece] = deque()

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        piece = _Piece(work, done)
        self._pieces.append(piece)
        now = self._scheduler.now
        self._free_at = max(now, self._free_at) + self._random.random() * self._slowest_seconds
        self._told_at = max(self._free_at, self._told_at) + self._random.random() * 0.002
        self._scheduler.call_later(self._free_at - now, lambda: self._process.run(piece.work))
        self._scheduler.call_later(self._told_at - now, lambda: self._process.run(lambda: self._tell(piece)))

    def _tell(self, piece: _Piece) -> None:
        if piece in self._pieces:
            self._pieces.remove(piece)
        piece.work()
        piece.tell()

    def finish(self) -> None:
        """As the loop does when it waits for the thread: everything is done at once."""
        while self._pieces:
            self._tell(self._pieces[0])
