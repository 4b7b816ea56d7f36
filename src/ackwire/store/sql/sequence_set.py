"""A sorted set of sequences that takes 8 bytes for each: a durable subscription may have millions pending."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, final

_CHUNK: Final = 1024
"""Sequences in one array: inserting in the middle moves at most so many."""


@final
class SequenceSet:
    """Sequences in order. Adding at the end and removing at the start are the usual cases."""

    __slots__ = ("_chunks", "_lasts")

    def __init__(self) -> None:
        self._chunks: list[array[int]] = []
        self._lasts: list[int] = []
        """The last sequence of each chunk."""

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks:
            yield from chunk

    def __contains__(self, sequence: int) -> bool:
        at = bisect_left(self._lasts, sequence)
        if at == len(self._chunks):
            return False
        chunk = self._chunks[at]
        position = bisect_left(chunk, sequence)
        return chunk[position] == sequence

    @property
    def first(self) -> int:
        return self._chunks[0][0]

    def before(self, sequence: int) -> int | None:
        """The largest one below *sequence*."""
        at = bisect_left(self._lasts, sequence)
        if at < len(self._chunks):
            position = bisect_left(self._chunks[at], sequence)
            if position:
                return self._chunks[at][position - 1]
        return self._lasts[at - 1] if at else None

    def after(self, sequence: int) -> int | None:
        """The smallest one above *sequence*."""
        at = bisect_right(self._lasts, sequence)
        if at == len(self._chunks):
            return None
        return self._chunks[at][bisect_right(self._chunks[at], sequence)]

    def add(self, sequence: int) -> bool:
        """Add *sequence*; False if it was there."""
        at = bisect_left(self._lasts, sequence)
        if at == len(self._chunks):
            return self._add_at_end(sequence)
        chunk = self._chunks[at]
        position = bisect_left(chunk, sequence)
        if chunk[position] == sequence:
            return False
        chunk.insert(position, sequence)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[at : at + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
            self._lasts.insert(at, chunk[_CHUNK - 1])
        return True

    def _add_at_end(self, sequence: int) -> bool:
        if self._chunks and len(self._chunks[-1]) < _CHUNK:
            self._chunks[-1].append(sequence)
            self._lasts[-1] = sequence
        else:
            self._chunks.append(array("q", (sequence,)))
            self._lasts.append(sequence)
        return True

    def remove(self, sequence: int) -> bool:
        """Remove *sequence*; False if it was not there."""
        at = bisect_left(self._lasts, sequence)
        if at == len(self._chunks):
            return False
        chunk = self._chunks[at]
        position = bisect_left(chunk, sequence)
        if chunk[position] != sequence:
            return False
        del chunk[position]
        if not chunk:
            del self._chunks[at], self._lasts[at]
        elif position == len(chunk):
            self._lasts[at] = chunk[-1]
        return True
