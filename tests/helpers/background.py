"""A `Background` that works when a test says so: before, between and after whatever the loop does.

A piece of work has two steps, its work and then its `done` on the loop, and much may happen between them. Without a
random source the steps come in the order of a quick thread; with one, later work may be done before the loop hears of
the earlier one.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TypeAlias, final

Done: TypeAlias = Callable[[Exception | None], None]


@final
class ControlledBackground:
    """Implements `ackwire.store.background.Background`."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random
        self._to_do: deque[tuple[Callable[[], None], Done]] = deque()
        self._to_tell: deque[tuple[Done, Exception | None]] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._to_do and not self._to_tell

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self._to_do.append((work, done))

    def step(self) -> bool:
        """Do the next piece of work, or tell the loop of one that is done; False if there is neither."""
        if self.is_idle:
            return False
        if self._is_time_to_work():
            self._work()
        else:
            done, error = self._to_tell.popleft()
            done(error)
        return True

    def _is_time_to_work(self) -> bool:
        if not self._to_do or not self._to_tell:
            return bool(self._to_do)
        return self._random is not None and self._random.random() < 0.5

    def _work(self) -> None:
        work, done = self._to_do.popleft()
        try:
            work()
        except Exception as error:
            self._to_tell.append((done, error))
        else:
            self._to_tell.append((done, None))

    def run_all(self) -> None:
        """Go on until nothing is left, what is submitted meanwhile included."""
        while self.step():
            pass

    def finish(self) -> None:
        self.run_all()

    def drop(self) -> None:
        """The process has ended: nothing of it will ever happen."""
        self._to_do.clear()
        self._to_tell.clear()
