"""A whole journal on its way into a copy, into a directory beside the old one (`refill_files.py` says how it swaps)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

from ackwire.store.background import Background
from ackwire.store.files import DataFile, Files
from ackwire.store.journal.record import seed_of
from ackwire.store.journal.replica.chunk_check import SEGMENT_BYTES_MAX
from ackwire.store.journal.replica.refill_files import REFILL_NAME, mark_ready, remove_leftovers
from ackwire.store.journal.replica.walk import walk
from ackwire.store.journal.segment import (
    SEGMENT_HEADER_BYTES,
    UnreadableSegment,
    read_header,
    segment_path,
    used_end,
)
from ackwire.store.journal.shipping import Done, LogEnd, RefusedChunk, SnapshotSegment

_SEGMENTS_MAX: Final = 1_000_000


@final
class RefillFiles:
    """Implements `Refill`."""

    def __init__(
        self,
        files: Files,
        data: Path,
        background: Background,
        store_id: bytes,
        end: LogEnd,
        segments: Sequence[SnapshotSegment],
        *,
        swap: Callable[[LogEnd, Done], None],
        give_up: Callable[[Exception | None], None],
    ) -> None:
        """*swap* opens what is complete, *give_up* goes on with what was there, unless an error left it
        open which of the two counts. Raises `RefusedChunk`."""
        _check(segments)
        self._files = files
        self._data = data
        self._directory = data / REFILL_NAME
        self._background = background
        self._store_id = store_id
        self._seed = seed_of(store_id)
        self._log_end = end
        self._segments = {it.number: it for it in segments}
        self._left = list(segments)
        """Segments that are not complete, in order."""
        self._offset = 0
        """In the first of them."""
        self._file: DataFile | None = None
        self._last = LogEnd(0, 0)
        """Of the segments that were checked."""
        self._last_segment = 0
        self._swap = swap
        self._give_up = give_up
        self._is_over = False
        self._is_spoilt = False
        """Whether a piece could not be written, or is not good."""

    # ---- coming ------------------------------------------------------------------------------------------------

    def write(self, segment: int, offset: int, data: bytes, done: Done) -> None:
        """See `Refill`."""
        if self._is_over or not self._left:
            done(RefusedChunk("no more is expected"))
            return
        coming = self._left[0]
        if (segment, offset) != (coming.number, self._offset) or not data:
            done(RefusedChunk(f"{offset} of segment {segment} came, not {self._offset} of {coming.number}"))
            return
        if offset + len(data) > coming.used_bytes:
            done(RefusedChunk(f"segment {segment} goes beyond its {coming.used_bytes} bytes"))
            return
        self._offset += len(data)
        is_last = self._offset == coming.used_bytes
        if is_last:
            self._left.pop(0)
            self._offset = 0
        self._background.submit(lambda: self._write(coming, offset, data, is_last=is_last), done)

    def _write(self, segment: SnapshotSegment, offset: int, data: bytes, *, is_last: bool) -> None:
        if self._is_spoilt:
            raise RefusedChunk("a piece before this one could not be used")
        self._is_spoilt = True
        self._write_piece(segment, offset, data, is_last=is_last)
        self._is_spoilt = False

    def _write_piece(self, segment: SnapshotSegment, offset: int, data: bytes, *, is_last: bool) -> None:
        if self._last_segment == 0 and offset == 0:
            self._begin()
        if self._file is None:
            self._file = self._files.create(segment_path(self._directory, segment.number), segment.size_bytes)
        self._file.write(data, offset)
        if is_last:
            self._file.sync()
            self._check_segment(self._file, segment)
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self._files.make_directory(self._directory)
        remove_leftovers(self._files, self._data)

    # ---- checking ----------------------------------------------------------------------------------------------

    def _check_segment(self, file: DataFile, segment: SnapshotSegment) -> None:
        """Every record, one by one. Raises `RefusedChunk`. Runs beside the loop."""
        try:
            header = read_header(file.read(0, SEGMENT_HEADER_BYTES))
        except UnreadableSegment as error:
            raise RefusedChunk(f"segment {segment.number} cannot be read: {error}") from None
        if header is None or (header.store_id, header.number) != (self._store_id, segment.number):
            raise RefusedChunk(f"segment {segment.number} is another one, or of another store")
        if header.first_record != segment.first_number or header.size_bytes != segment.size_bytes:
            raise RefusedChunk(f"segment {segment.number} begins with another record, or has another size")
        follows = self._last_segment + 1 == segment.number and self._last_segment
        if header.first_record <= self._last.number or (follows and header.first_record != self._last.number + 1):
            raise RefusedChunk(f"segment {segment.number} does not go on where the one before it ends")
        expected, epoch, end = header.first_record, max(self._last.epoch, header.epoch), SEGMENT_HEADER_BYTES
        for record in walk(file.read, segment.number, self._seed, SEGMENT_HEADER_BYTES, segment.size_bytes):
            if record.number != expected or record.epoch < epoch:
                break
            expected, epoch, end = expected + 1, record.epoch, record.offset + record.size_bytes
        if used_end(file, end) > end:
            raise RefusedChunk(f"segment {segment.number} is damaged at {end}: record {expected} is not there")
        self._last, self._last_segment = LogEnd(epoch, expected - 1), segment.number

    def finish(self, done: Done) -> None:
        """See `Refill`."""
        if self._is_over:
            done(RefusedChunk("the refill is over"))
            return
        self._is_over = True
        if self._left:
            self._background.submit(self._close, lambda _: None)
            self._give_up(None)
            done(RefusedChunk(f"segment {self._left[0].number} has not come yet"))
            return

        def work() -> None:
            if self._is_spoilt or self._last != self._log_end:
                self._close()
                raise RefusedChunk(f"it ends with {self._last}, and should with {self._log_end}")
            mark_ready(self._files, self._data, list(self._segments))

        def marked(error: Exception | None) -> None:
            if error is None:
                self._swap(self._log_end, done)
                return
            self._give_up(None if isinstance(error, RefusedChunk) else error)
            done(error)

        self._background.submit(work, marked)

    def abandon(self, done: Done) -> None:
        """See `Refill`."""
        if self._is_over:
            done(None)
            return
        self._is_over = True

        def closed(_: Exception | None) -> None:
            self._give_up(None)
            done(None)

        self._background.submit(self._close, closed)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _check(segments: Sequence[SnapshotSegment]) -> None:
    """Before any space is taken for them."""
    if not 0 < len(segments) <= _SEGMENTS_MAX:
        raise RefusedChunk(f"a journal cannot have {len(segments)} segments")
    last = 0
    for it in segments:
        if it.number <= last:
            raise RefusedChunk(f"segment {it.number} comes behind {last}")
        if not SEGMENT_HEADER_BYTES < it.used_bytes <= it.size_bytes <= SEGMENT_BYTES_MAX:
            raise RefusedChunk(f"segment {it.number} cannot have {it.used_bytes} of {it.size_bytes} bytes")
        last = it.number
