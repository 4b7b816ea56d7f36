"""What is known of a replicated log without reading it: where segments begin and end, and when epochs began."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from ackwire.store.journal.shipping import Chunk


@dataclass(slots=True)
class LogSegment:
    """A segment of the log."""

    number: int
    size_bytes: int
    """Of the file."""
    first_number: int
    """The first record in it."""
    epoch: int
    """Of that record."""
    end: int = 0
    """Behind its last record; 0 where that is not known."""


@final
class LogMap:
    """The segments and epochs of one log."""

    def __init__(self) -> None:
        self.segments: dict[int, LogSegment] = {}
        """In order of their numbers."""
        self._epochs: list[tuple[int, int]] = []

    # ---- epochs ------------------------------------------------------------------------------------------------

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, its first record), ascending; the first pair may have begun earlier."""
        return list(self._epochs)

    def saw(self, epoch: int, number: int) -> None:
        """Record *number*, behind all that were seen, is of that epoch."""
        if not self._epochs or self._epochs[-1][0] != epoch:
            self._epochs.append((epoch, number))

    def saw_earlier(self, epochs: Iterable[tuple[int, int]]) -> None:
        """The same for records before all that were seen, in order."""
        earlier = list(epochs)
        if earlier and self._epochs and earlier[-1][0] == self._epochs[0][0]:
            self._epochs[0] = earlier.pop()
        self._epochs[:0] = earlier

    def epoch_at(self, number: int) -> int:
        """The epoch of a record; 0 if it is not known."""
        at = bisect_right(self._epochs, number, key=lambda it: it[1])
        return self._epochs[at - 1][0] if at else 0

    # ---- segments ----------------------------------------------------------------------------------------------

    def took(self, chunk: Chunk, first_epoch: int) -> None:
        """*chunk* was written behind all others."""
        if not chunk.offset:
            self.segments[chunk.segment] = LogSegment(
                chunk.segment, chunk.segment_bytes, chunk.first_number, first_epoch
            )
        self.segments[chunk.segment].end = chunk.offset + len(chunk.data)

    def holding(self, number: int) -> LogSegment | None:
        """The segment in which record *number* is, or behind whose last record it would be."""
        found = None
        for segment in reversed(self.segments.values()):
            if segment.first_number <= number:
                found = segment
                break
        return found

    def cut(self, number: int, end: int) -> None:
        """Nothing is behind record *number* any more, which ends at *end* of its segment."""
        for segment in [it for it in self.segments.values() if it.first_number > number]:
            del self.segments[segment.number]
        if self.segments:
            last = next(reversed(self.segments.values()))
            last.end = end
        self._epochs = [it for it in self._epochs if it[1] <= number]
