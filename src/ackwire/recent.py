"""A bounded memory: what was not heard of for longest is forgotten first.

It is how repetitions are recognised (J4): the last count of each producer, the outcome of each transaction.
"""

from collections import OrderedDict
from collections.abc import Hashable
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

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)
