"""A bounded cache: the least recently used entry is removed first.

It serves to recognise duplicates (J4): the last count of each producer, the outcome of each transaction.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Final, Generic, TypeVar, final

PRODUCERS_REMEMBERED: Final = 50_000
"""Producers whose last count is known, to recognise what a client repeats after a failover."""

COMMITS_REMEMBERED: Final = 10_000
"""Finished transactions whose outcome is known, so that a commit repeated after a failover is recognised."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@final
class Recent(Generic[Key, Value]):
    """The *limit* entries that were set last, in that order."""

    def __init__(self, limit: int, on_forgotten: Callable[[Key], None] | None = None) -> None:
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._limit = limit
        self._on_forgotten = on_forgotten
        self._newest: Key | None = None
        self.changes = 0
        """How often something was set."""

    def __setitem__(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self.changes += 1
        if key == self._newest:  # it is at the end already, as for message after message of one producer
            return
        self._newest = key
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            forgotten, _ = self._entries.popitem(last=False)
            if self._on_forgotten is not None:
                self._on_forgotten(forgotten)

    def update(self, entries: Iterable[tuple[Key, Value]]) -> None:
        for key, value in entries:
            self[key] = value

    def pop(self, key: Key) -> Value | None:
        """Remove *key* and return its value."""
        if key == self._newest:
            self._newest = None
        return self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
        self._newest = None

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def __getitem__(self, key: Key) -> Value:
        return self._entries[key]

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def newest_first(self) -> Iterator[Key]:
        return reversed(self._entries)

    def keys(self) -> KeysView[Key]:
        return self._entries.keys()

    def values(self) -> ValuesView[Value]:
        return self._entries.values()

    def items(self) -> ItemsView[Key, Value]:
        return self._entries.items()
