"""How much of a long buffer is written in one turn of the loop.

Twice as much as came since the last portion: so the last one comes, however steadily records do. A portion has a
greatest size all the same. If more than that comes in each turn, the buffer becomes full, and stays so until it is
empty (`RecordBuffer.full_above`).
"""

from typing import Final, final

from ackwire.store.journal.record_buffer import RecordBuffer

PORTION_RECORDS: Final = 2000
PORTION_BYTES: Final = 1 << 20
"""Of messages. Unless more comes, this is a portion; it takes about 5 ms."""

_TIMES_MAX: Final = 8
"""How many times as much it may be."""


@final
class Portions:
    """Divides the buffer of one store."""

    def __init__(self, buffer: RecordBuffer) -> None:
        self._buffer = buffer
        self.records, self.size_bytes = PORTION_RECORDS, PORTION_BYTES
        """Tests have smaller ones."""
        self._left_records = self._left_bytes = 0
        """What was in the buffer behind the last portion."""

    @property
    def one_is_enough(self) -> bool:
        """Whether the buffer is not long."""
        return self._buffer.portion(self.records, self.size_bytes) is None

    def begin(self) -> None:
        """The next portion is the first, or one was written."""
        self._left_records, self._left_bytes = len(self._buffer.records), self._buffer.size_bytes

    def next(self) -> int | None:
        """How many records the next portion has; None if it is the last."""
        came_records = len(self._buffer.records) - self._left_records
        came_bytes = self._buffer.size_bytes - self._left_bytes
        return self._buffer.portion(
            min(max(self.records, 2 * came_records), _TIMES_MAX * self.records),
            min(max(self.size_bytes, 2 * came_bytes), _TIMES_MAX * self.size_bytes),
        )
