"""A set whose entries are numbered in the order of insertion, so that a reader can stop and go on later.

A reader keeps only the number of the last entry that it has seen. It does not see entries that are removed meanwhile,
nor those with numbers above its limit. So reading a hundred thousand entries in portions needs no copy.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from typing import Final, Generic, TypeVar, final

_COMPACT_FROM: Final = 64
"""Gaps are closed when there are more of them than this, and more than entries."""

E = TypeVar("E", bound=Hashable)


@final
class NumberedSet(Generic[E]):
    """Entries in the order of insertion, with ascending numbers."""

    __slots__ = ("_entries", "_number_of", "_numbers", "last_number")

    def __init__(self) -> None:
        self._numbers = array("q")
        self._entries: list[E | None] = []
        """None: a gap."""
        self._number_of: dict[E, int] = {}
        self.last_number = 0
        """Of the entry that came last, whether or not it is still here."""

    def __len__(self) -> int:
        return len(self._number_of)

    def add(self, entry: E) -> None:
        """Enter *entry*, which is not here, at the end."""
        self.last_number += 1
        self._numbers.append(self.last_number)
        self._entries.append(entry)
        self._number_of[entry] = self.last_number

    def discard(self, entry: E) -> None:
        """Remove *entry*, if it is here."""
        number = self._number_of.pop(entry, None)
        if number is None:
            return
        self._entries[bisect_left(self._numbers, number)] = None
        gaps = len(self._entries) - len(self._number_of)
        if gaps > _COMPACT_FROM and gaps > len(self._number_of):
            self._entries = list(self._number_of)
            self._numbers = array("q", self._number_of.values())

    def number_of(self, entry: E) -> int | None:
        """The number of *entry*; None if it is not here, or not any more."""
        return self._number_of.get(entry)

    def between(self, after: int, last: int, count_max: int) -> list[tuple[int, E]]:
        """The entries with numbers above *after*, up to *last*: the first *count_max* at most. None means no more."""
        start, end = bisect_right(self._numbers, after), bisect_right(self._numbers, last)
        found: list[tuple[int, E]] = []
        for index in range(start, end):
            entry = self._entries[index]
            if entry is not None:
                found.append((self._numbers[index], entry))
                if len(found) == count_max:
                    break
        return found
