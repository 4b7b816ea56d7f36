"""Writes records behind all others: into the active segment, and into the next one when it is full.

It only writes; `group_commit.py` decides when to sync and who is answered then. A segment is made ahead (`make_spare`),
so that a full disk is noticed while there is still room for what must be recorded to make space.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ackwire.store.files import DataFile, Files
from ackwire.store.journal.pending_records import PendingRecord
from ackwire.store.journal.record import pack_record, record_bytes
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, ZEROS, SegmentHeader, segment_path
from ackwire.store.journal.shipping import Chunk, LogEnd

SPARE_NAME: Final = "spare"
NEW_NAME: Final = "new"
"""A segment while it is made on the spot. It gets its own name when it has its full size: so a segment that is shorter
than its header says was cut off by something else."""
_OPEN_FOR_READING: Final = 64
"""Segments that are kept open to read from."""


@final
class JournalWriter:
    """The end of the journal."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        *,
        store_id: bytes,
        seed: int,
        epoch: int,
        segment_bytes: int,
        next_segment: int,
        next_number: int,
        on_segment: Callable[[int, int], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self.store_id = store_id
        self.seed = seed
        self.epoch = epoch
        self._segment_bytes = segment_bytes
        self.next_segment = next_segment
        self.next_number = next_number
        self._on_segment = on_segment
        """Told number and size of each segment when it begins."""
        self.synced_number = next_number - 1
        """Everything up to this record is on the medium."""
        self.last_sequence = 0
        """The highest sequence of a message; goes into the header of each new segment."""
        self.on_write: Callable[[Chunk], None] | None = None
        """Called with what was written, before it is synced."""
        self._header = b""
        """Of the active segment, if it was begun here."""
        self._active: DataFile | None = None
        self.segment = 0
        self.offset = 0
        self.last_offset = 0
        """Where the last record begins, in that segment; 0 before the first is written."""
        self.payload_bytes = 0
        """Of all records that were written since the start."""
        self._end = 0
        self._spare: DataFile | None = None
        self._spare_is_filled = False
        self._dirty: dict[int, tuple[DataFile, int]] = {}
        """Segments with something that may not be on the medium, and the number of the last record written to each."""
        self._closable: list[DataFile] = []
        self._reading: OrderedDict[int, DataFile] = OrderedDict()

    @property
    def last_number(self) -> int:
        return self.next_number - 1

    def resume(self, segment: int, offset: int) -> None:
        """Go on in *segment*, which an earlier run has begun, from *offset* on."""
        self._active = self._files.open(segment_path(self._directory, segment))
        self.segment, self.offset, self._end = segment, offset, self._active.size_bytes
        self._dirty[segment] = (self._active, self.last_number)

    @property
    def segment_size_bytes(self) -> int:
        """The size of the active segment's file; 0 if there is none."""
        return self._end

    # ---- writing -----------------------------------------------------------------------------------------------

    def write(self, records: list[PendingRecord]) -> None:
        """Write *records*; each knows its place when this returns."""
        pieces: list[bytes | memoryview] = []
        start, first_number = self.offset, self.next_number
        for record in records:
            payload_bytes = record.payload_bytes
            self.payload_bytes += payload_bytes
            size_bytes = record_bytes(payload_bytes)
            if self._active is None or self.offset + size_bytes > self._end:
                self._write_pieces(pieces, start, first_number)
                self._begin_segment(size_bytes)
                pieces, start, first_number = [], self.offset, self.next_number
            record.segment, record.offset = self.segment, self.offset
            pieces += pack_record(
                record.kind, record.flags, self.epoch, self.next_number, self.synced_number, record.pieces(), self.seed
            )
            self.next_number += 1
            self.offset += size_bytes
        self._write_pieces(pieces, start, first_number)
        if records:
            self.last_offset = records[-1].offset

    def _write_pieces(self, pieces: list[bytes | memoryview], start: int, first_number: int) -> None:
        if pieces:
            assert self._active is not None
            data = b"".join(pieces)
            self._active.write(data, start)
            self._dirty[self.segment] = (self._active, self.last_number)
            if self.on_write is not None:
                if start == SEGMENT_HEADER_BYTES:
                    data, start = self._header + data, 0
                last = LogEnd(self.epoch, self.last_number)
                self.on_write(Chunk(self.segment, start, self._end, first_number, last, data))

    def write_copy(self, chunk: Chunk, last_offset: int) -> None:
        """Write what another broker has written, which was checked; *last_offset* is where its last record begins."""
        start = chunk.offset
        if not start:
            self._add_segment(chunk.segment, chunk.segment_bytes, chunk.data[:SEGMENT_HEADER_BYTES])
            start = SEGMENT_HEADER_BYTES
        assert self._active is not None
        data = chunk.data if chunk.offset else chunk.data[SEGMENT_HEADER_BYTES:]
        self._active.write(data, start)
        self.epoch, self.next_number = chunk.last.epoch, chunk.last.number + 1
        self.offset, self.last_offset = start + len(data), last_offset
        self._dirty[self.segment] = (self._active, self.last_number)

    def _begin_segment(self, needed_bytes: int) -> None:
        size_bytes = max(self._segment_bytes, SEGMENT_HEADER_BYTES + needed_bytes)
        number = self.next_segment
        header = SegmentHeader(number, self.epoch, self.store_id, self.next_number, self.last_sequence, size_bytes)
        self._add_segment(number, size_bytes, header.pack())

    def _add_segment(self, number: int, size_bytes: int, header: bytes) -> None:
        self.next_segment = number + 1
        path = segment_path(self._directory, number)
        if self._spare is not None and size_bytes == self._segment_bytes:
            file, self._spare = self._spare, None
            self._closable.append(file)  # until it is the active one: it may never be
            self._files.rename(self._directory / SPARE_NAME, path)
        else:
            file = self._files.create(self._directory / NEW_NAME, size_bytes)
            self._closable.append(file)
            self._files.rename(self._directory / NEW_NAME, path)
        file.write(header, 0)
        self._header = header
        self._closable.remove(file)
        if self._active is not None and self.segment not in self._dirty:
            self._closable.append(self._active)
        self._active, self.segment, self.offset, self._end = file, number, SEGMENT_HEADER_BYTES, size_bytes
        self._dirty[number] = (file, self.last_number)
        self._on_segment(number, size_bytes)

    @property
    def cut_off(self) -> str | None:
        """Says so if something else has cut off the file of the active segment."""
        if self._active is None or self._active.size_bytes >= self._end:
            return None
        path = segment_path(self._directory, self.segment)
        return f"{path} was cut off: it has {self._active.size_bytes} of {self._end} bytes"

    # ---- syncing -----------------------------------------------------------------------------------------------

    def unsynced(self) -> list[DataFile]:
        """The files that have to be synced for everything written so far to be durable."""
        return [file for file, _ in self._dirty.values()]

    @property
    def unsynced_segments(self) -> frozenset[int]:
        """The segments of those files."""
        return frozenset(self._dirty)

    def synced_up_to(self, number: int) -> None:
        """All files that were unsynced when *number* was the last record have been synced."""
        self.synced_number = max(self.synced_number, number)
        for segment, (file, last_written) in list(self._dirty.items()):
            if last_written <= number:
                del self._dirty[segment]
                if file is not self._active:
                    self._closable.append(file)

    def close_idle(self) -> None:
        """No sync is under way: close the files that are done."""
        for file in self._closable:
            file.close()
        self._closable.clear()

    # ---- segments made ahead -----------------------------------------------------------------------------------

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    @property
    def wants_zeros(self) -> bool:
        """Whether it is time to fill the spare segment: not before it is likely to be used."""
        return self._spare is not None and not self._spare_is_filled and self.offset > self._end // 2

    def make_spare(self) -> DataFile:
        """A segment for later. Runs beside the loop; `keep_spare` takes what it returns."""
        return self._files.create(self._directory / SPARE_NAME, self._segment_bytes)

    def take_spare(self) -> DataFile:
        """The spare segment, to be filled: the caller owns it until `keep_spare` takes it back."""
        assert self._spare is not None
        file, self._spare = self._spare, None
        return file

    def fill(self, file: DataFile) -> None:
        """Write zeros to a segment from `take_spare`. Runs beside the loop.

        A file system takes space without writing to it, and notes when the first bytes come to a block: a sync has to
        write such notes, to a journal of their own, besides the data. Here they are all written beforehand, in small
        steps, so that a sync of the active segment never waits for long.
        """
        for offset in range(0, self._segment_bytes, len(ZEROS)):
            file.write(ZEROS[: self._segment_bytes - offset], offset)
            file.sync()

    def keep_spare(self, file: DataFile, *, is_filled: bool = False) -> None:
        self._spare = file
        self._spare_is_filled = is_filled

    # ---- reading -----------------------------------------------------------------------------------------------

    def file(self, segment: int) -> DataFile:
        """*segment*, to read from."""
        if segment == self.segment and self._active is not None:
            return self._active
        file = self._reading.get(segment)
        if file is None:
            file = self._reading[segment] = self._files.open(segment_path(self._directory, segment), writable=False)
            if len(self._reading) > _OPEN_FOR_READING:
                self._reading.popitem(last=False)[1].close()
        else:
            self._reading.move_to_end(segment)
        return file

    def open_to_scan(self, segment: int) -> DataFile:
        """*segment*, for another thread."""
        return self._files.open(segment_path(self._directory, segment), writable=False)

    def remove(self, segment: int) -> None:
        """Delete a segment that is not needed any more. Runs beside the loop, after `forget`."""
        path = segment_path(self._directory, segment)
        if self._files.exists(path):
            self._files.remove(path)

    def forget(self, segment: int) -> None:
        """*segment* will not be read any more."""
        file = self._reading.pop(segment, None)
        if file is not None:
            file.close()

    def let_go(self) -> None:
        """Close the segments: they are about to be changed. No sync is under way. `resume` goes on."""
        self.close_idle()
        for file in (*self._reading.values(), *(it for it, _ in self._dirty.values() if it is not self._active)):
            file.close()
        if self._active is not None:
            self._active.close()
        self._active = None
        self.segment = self.offset = self.last_offset = self._end = 0
        self._dirty.clear()
        self._reading.clear()

    def close(self) -> None:
        """Let go of all files; what was written stays."""
        self.let_go()
        if self._spare is not None:
            self._spare.close()
            with suppress(OSError):  # the next start removes it
                self._files.remove(self._directory / SPARE_NAME)
        self._spare = None
