"""Reads the bytes of messages that are in the journal and not in the database yet."""

from collections.abc import Callable
from typing import Final, final

from ackwire.errors import AckwireError
from ackwire.store.files import DataFile
from ackwire.store.journal.record import Damaged, message_at, read_message_at
from ackwire.store.journal_sql.journaled_message import JournalFrame
from ackwire.store.sql.frames import Frame

_COPIED_BYTES_MAX: Final = 256 * 1024
"""A larger record is read in parts, so that its frame is never copied."""


class UnreadableFrame(AckwireError):
    """The journal cannot be read where a message is that the database does not have."""


@final
class FrameReader:
    """Implements `Frames`, for one thread; keeps the segment open that it has read last."""

    def __init__(self, open_segment: Callable[[int], DataFile], seed: Callable[[], int]) -> None:
        """*seed* is that of the journal's checksums, asked when something is read."""
        self._open_segment = open_segment
        self._seed = seed
        self._segment = 0
        self._file: DataFile | None = None

    def read(self, frame: Frame) -> bytes:
        """See `Frames`. Raises `UnreadableFrame`."""
        if isinstance(frame, bytes):
            return frame
        assert isinstance(frame, JournalFrame)
        data = frame.data
        if data is not None:
            return data
        try:
            return self._read(frame)
        except (OSError, Damaged) as error:
            raise UnreadableFrame(
                f"message {frame.sequence} at {frame.offset} of segment {frame.segment}: {error}"
            ) from None

    def _read(self, frame: JournalFrame) -> bytes:
        read = self._opened(frame.segment).read
        if frame.record_bytes > _COPIED_BYTES_MAX:
            return read_message_at(read, frame.offset, frame.record_bytes, frame.sequence, self._seed())[0]
        record = memoryview(read(frame.offset, frame.record_bytes))
        return message_at(record, 0, frame.sequence, self._seed())[0]

    def read_cached(self, frame: Frame) -> bytes | None:
        """See `Frames`."""
        if isinstance(frame, bytes):
            return frame
        assert isinstance(frame, JournalFrame)
        if frame.data is not None:
            return frame.data
        try:
            record = self._opened(frame.segment).read_cached(frame.offset, frame.record_bytes)
            return None if record is None else message_at(memoryview(record), 0, frame.sequence, self._seed())[0]
        except (OSError, Damaged):  # reported by the one who reads it for good
            return None

    def _opened(self, segment: int) -> DataFile:
        if self._file is None or self._segment != segment:
            self.release()
            self._file = self._open_segment(segment)
            self._segment = segment
        return self._file

    def release(self) -> None:
        """See `Frames`."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
