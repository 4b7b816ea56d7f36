"""Messages that were asked of the store and may arrive later; the loop goes on meanwhile.

Code that walks through many messages is a generator. It yields a `Fetch` that has not arrived, and its caller goes on
with it once the fetch has (`when_arrived`); `job_of` is such a caller.
"""

import logging
from collections.abc import Callable, Iterator
from typing import final

from ackwire.broker.slices import Budget, Job, Slices
from ackwire.jms.message import Message

_log = logging.getLogger(__name__)


@final
class Fetch:
    """One request for messages."""

    __slots__ = ("_callbacks", "has_arrived", "messages")

    def __init__(self) -> None:
        self.has_arrived = False
        self.messages: list[Message | None] = []
        """The messages once they have arrived, in the order they were asked for; None for one that is lost or gone."""
        self._callbacks: list[Callable[[], None]] = []

    def when_arrived(self, callback: Callable[[], None]) -> None:
        """Call *callback* once the messages have arrived, after those that were registered before."""
        if self.has_arrived:
            callback()
        else:
            self._callbacks.append(callback)

    def arrive(self, messages: list[Message | None]) -> None:
        """The store has answered."""
        self.messages = messages
        self.has_arrived = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # a bug of ours, or a store that has failed: the others that wait go on
                _log.exception("what waited for messages has failed: %r", callback)


@final
class _SteppedJob:
    """Takes the steps of a generator, a slice at a time."""

    __slots__ = ("_slices", "_steps", "_units_per_step")

    def __init__(self, steps: Iterator[Fetch | None], slices: Slices, units_per_step: int) -> None:
        self._steps = steps
        self._slices = slices
        self._units_per_step = units_per_step

    def work(self, budget: Budget) -> bool:
        for fetch in self._steps:
            if fetch is not None and not fetch.has_arrived:
                fetch.when_arrived(self._go_on)
                return False
            if budget.spend(self._units_per_step):
                return True
        return False

    def _go_on(self) -> None:
        self._slices.start(self.work)


def job_of(steps: Iterator[Fetch | None], slices: Slices, units_per_step: int) -> Job:
    """A job for *slices* that takes *steps*; where messages have yet to arrive, it goes on when they have."""
    return _SteppedJob(steps, slices, units_per_step).work
