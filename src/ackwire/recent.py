"""A bounded memory: what was not heard of for longest is forgotten first.

It is how repetitions are recognised (J4): the last count of each producer, the outcome of each transaction.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar, final

PRODUCERS_REMEMBERED: Final = 50_000
"""Producers whose last count is known, to recognise what a client repeats after a failover."""

COMMITS_REMEMBERED: Final = 10_000
"""Finished transactions whose outcome is known, so that a commit repeated after a failover is recognised."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@final
class Recent(OrderedDict[Key, Value], Generic[Key, Value]):
    """A dictionary of the *limit* entries that were set last."""

    def __init__(self, limit: int, on_forgotten: Callable[[Key], None] | None = None) -> None:
        super().__init__()
        self._limit = limit
        self._on_forgotten = on_forgotten
        self._newest: Key | None = None
        self.changes = 0
        """How often something was set."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.changes += 1
        if key == self._newest:  # it is at the end already, as for message after message of one producer
            return
        self._newest = key
        self.move_to_end(key)
        if len(self) > self._limit:
            forgotten, _ = self.popitem(last=False)
            if self._on_forgotten is not None:
                self._on_forgotten(forgotten)
