"""The segments that a start finds: what their headers say, where their ends are lost, and how their tails are cut."""

import errno
from pathlib import Path
from typing import final

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Position, read_position
from ackwire.store.files import Files
from ackwire.store.index import DamagedIndex
from ackwire.store.journal.record import read_record, record_bytes, seed_of
from ackwire.store.journal.recovery_report import Quarantine, UnusableStore
from ackwire.store.journal.segment import (
    SEGMENT_HEADER_BYTES,
    ZEROS,
    SegmentHeader,
    SegmentScan,
    UnreadableSegment,
    read_header,
    segment_numbers,
    segment_path,
    used_end,
)
from ackwire.store.journal.writer import NEW_NAME, SPARE_NAME


@final
class SegmentFiles:
    """The files of one journal, while nothing else writes to them."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.files = files
        self.directory = directory
        self.store_id = b""
        self.seed = 0
        self.headers: dict[int, SegmentHeader | None] = {}
        self.bad_headers: dict[int, tuple[str, bytes]] = {}
        """Why they cannot be read, and their bytes."""
        self.readable_to: dict[int, int] = {}
        """Segments whose end is lost, and where it begins."""
        self._cut_off: dict[int, int] = {}
        """Segments whose file is shorter than it was made, and its size then; 0 where that is lost as well."""

    def path(self, number: int) -> Path:
        return segment_path(self.directory, number)

    # ---- what is there -----------------------------------------------------------------------------------------

    def read_headers(self, catalog: Catalog, known_id: bytes = b"") -> None:
        """See which segments there are, and tell *catalog*; *known_id* is that of the store where no header tells it.
        Raises `UnusableStore`."""
        self._remove_unfinished()
        for number in segment_numbers(self.files, self.directory):
            header = self.headers[number] = self._header(number)
            file = self.files.open(self.path(number), writable=False)
            size_bytes = file.size_bytes
            file.close()
            catalog.add_segment(number, size_bytes)
            made_bytes = SEGMENT_HEADER_BYTES if header is None else header.size_bytes
            if size_bytes < made_bytes:
                self._cut_off[number] = 0 if header is None else made_bytes
                self.readable_to[number] = size_bytes
        ids = {header.store_id for header in self.headers.values() if header is not None}
        if len(ids) > 1:
            raise UnusableStore(f"{self.directory} has segments of {len(ids)} different stores: take the others away")
        self.store_id = next(iter(ids), b"") or _store_id_of_index(catalog) or known_id
        if not self.store_id and any(map(self._has_bytes, self.headers)):
            raise UnusableStore(f"{self.directory} has no segment that can be read; restore one from a copy")
        self.seed = seed_of(self.store_id)

    def _remove_unfinished(self) -> None:
        for name in (SPARE_NAME, NEW_NAME):
            if self.files.exists(self.directory / name):
                self.files.remove(self.directory / name)

    def _header(self, number: int) -> SegmentHeader | None:
        file = self.files.open(self.path(number), writable=False)
        data = file.read(0, SEGMENT_HEADER_BYTES)
        file.close()
        try:
            return read_header(data)
        except UnreadableSegment as error:
            self.bad_headers[number] = (str(error), data)
            return None

    def _has_bytes(self, number: int) -> bool:
        file = self.files.open(self.path(number), writable=False)
        data = file.read(0, file.size_bytes)
        file.close()
        return len(data.rstrip(b"\0")) > SEGMENT_HEADER_BYTES + record_bytes(16)  # no more than a first start writes

    def has_record(self, position: Position, size_bytes: int) -> bool:
        """Whether the last record before a checkpoint is where it was, in a segment of *size_bytes*."""
        if position.offset > size_bytes or not position.last_offset:
            return position.offset <= size_bytes  # an older version did not say where the record is
        offset = position.last_offset
        file = self.files.open(self.path(position.segment), writable=False)
        try:
            data = memoryview(file.read(offset, position.offset - offset))
        finally:
            file.close()
        record = read_record(data, offset, offset, position.segment, self.seed)
        return record is not None and record.number == position.number

    def readable_end(self, number: int) -> tuple[int, int]:
        """Number and end of the last good record of a segment."""
        file = self.files.open(self.path(number), writable=False)
        try:
            scan = SegmentScan(file, number, self.seed, last_number=0, last_epoch=0)
            for _ in scan:
                pass
        finally:
            file.close()
        return scan.last_number, scan.end

    # ---- changing them -----------------------------------------------------------------------------------------

    def restore_sizes(self, catalog: Catalog, quarantine: Quarantine) -> None:
        """Report segments whose files are shorter than they were made, and make them as long again: what was in the
        rest is lost, and the report is in the quarantine."""
        for number, made_bytes in sorted(self._cut_off.items()):
            segment = catalog.segments[number]
            what = f"segment {number}: its file was cut off: it has {segment.size_bytes}"
            if not made_bytes:
                quarantine.put(f"{what} bytes, and all that was in it is lost", "")
                continue
            quarantine.put(f"{what} of {made_bytes} bytes, and what was in the others is lost", "")
            quarantine.flush()
            if self._lengthen(number, segment.size_bytes, made_bytes):
                segment.size_bytes = made_bytes

    def _lengthen(self, number: int, size_bytes: int, made_bytes: int) -> bool:
        """Write zeros behind the end of a file; False if the disk is full: the next start reports it again."""
        file = self.files.open(self.path(number))
        try:
            for offset in range(size_bytes, made_bytes, len(ZEROS)):
                file.write(ZEROS[: made_bytes - offset], offset)
            file.sync()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False
        finally:
            file.close()
        return True

    def cut(self, number: int, offset: int) -> int:
        """Zero a segment from *offset* on; returns how many bytes there were."""
        file = self.files.open(self.path(number))
        try:
            length = used_end(file, offset) - offset
            for start in range(0, length, len(ZEROS)):
                file.write(ZEROS[: length - start], offset + start)
            if length:
                file.sync()
        finally:
            file.close()
        return length

    def sync(self, number: int) -> None:
        file = self.files.open(self.path(number))
        file.sync()
        file.close()

    def write_again(self, number: int, start: int, end: int | None) -> None:
        """Write and sync what a segment has from *start* to *end*: it may be in the cache only, and after a sync that
        failed it may even be there although no sync will bring it to the medium."""
        file = self.files.open(self.path(number))
        try:
            until = file.size_bytes if end is None else end
            file.write(file.read(start, max(0, until - start)), start)
            file.sync()
        finally:
            file.close()


def _store_id_of_index(catalog: Catalog) -> bytes:
    """No segment says whose it is; the index may know."""
    try:
        position = read_position(catalog)
    except DamagedIndex:
        position = None
    return b"" if position is None else position.store_id
