"""Segments: the journal's files, and how one is read back whatever has happened to it.

`SegmentScan` reads records in order. Bytes that are no good record are `Damage` if good ones follow, and the torn end
if none do: what was being written when the power went.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, final

from crc32c import crc32c

from ackwire.store.files import DataFile, Files
from ackwire.store.journal.record import ALIGNMENT, HEADER, HEADER_BYTES, MARKER, Record, read_record, record_bytes

SEGMENT_HEADER: Final = Struct(">8sHBBIQ16sQQII")
SEGMENT_HEADER_BYTES: Final = SEGMENT_HEADER.size
_MAGIC: Final = b"ACKWIREJ"
_VERSION: Final = 1
_CRC32C: Final = 1
_SIZE_MAX: Final = (1 << 32) - 1
ZEROS: Final = bytes(1 << 18)
"""What a segment holds where nothing was written; read and written in pieces of this size."""
_ZEROS_READ: Final = 1 << 12
"""Records may end with zeros: so many are read although nothing follows."""
_NAME: Final = re.compile(r"([0-9]{10,20})\.log")


class UnreadableSegment(Exception):
    """The first bytes of a segment do not say what it is."""


class SegmentHeader(NamedTuple):
    """The header of a segment."""

    number: int
    epoch: int
    store_id: bytes
    first_record: int
    last_sequence: int
    size_bytes: int = 0
    """Of the file when it was made: one that is shorter was cut off. 0 where an older version made it."""

    def pack(self) -> bytes:
        head = SEGMENT_HEADER.pack(
            _MAGIC,
            _VERSION,
            _CRC32C,
            0,
            self.epoch,
            self.number,
            self.store_id,
            self.first_record,
            self.last_sequence,
            self.size_bytes if self.size_bytes <= _SIZE_MAX else 0,
            0,
        )[:-4]
        return head + crc32c(head).to_bytes(4)


def read_header(data: bytes) -> SegmentHeader | None:
    """The header that *data* begins with; None if the segment was made ahead and never used."""
    head = data[:SEGMENT_HEADER_BYTES]
    if not head.strip(b"\0"):
        return None
    if len(head) < SEGMENT_HEADER_BYTES or head[:8] != _MAGIC:
        raise UnreadableSegment("it is not a segment of a journal")
    _, version, algorithm, _, epoch, number, store_id, first_record, last_sequence, size_bytes, checksum = (
        SEGMENT_HEADER.unpack(head)
    )
    if version != _VERSION or algorithm != _CRC32C:
        raise UnreadableSegment(f"it has version {version} and checksum {algorithm}; this program knows 1 and 1")
    if crc32c(head[:-4]) != checksum:
        raise UnreadableSegment("its first 64 bytes are damaged")
    return SegmentHeader(number, epoch, store_id, first_record, last_sequence, size_bytes)


def segment_path(directory: Path, number: int) -> Path:
    return directory / segment_name(number)


def segment_name(number: int) -> str:
    return f"{number:010}.log"


def segment_numbers(files: Files, directory: Path) -> list[int]:
    """The segments there are, in order."""
    found = (_NAME.fullmatch(name) for name in files.names(directory))
    return sorted(int(match[1]) for match in found if match is not None)


def used_end(file: DataFile, start: int) -> int:
    """Where the bytes of *file* from *start* on are zero to the end. Most of a segment may be."""
    end = file.size_bytes
    while end > start:
        before = max(start, end - len(ZEROS))
        data = file.read(before, end - before)
        if data != (ZEROS if len(data) == len(ZEROS) else bytes(len(data))):
            return before + len(data.rstrip(b"\0"))
        end = before
    return start


class Damage(NamedTuple):
    """Bytes of a segment that are no good record, although good ones follow."""

    segment: int
    offset: int
    length: int


@final
class SegmentScan:
    """Reads the records of one segment, from *start* on, that follow the record *last_number* of *last_epoch*."""

    def __init__(
        self,
        file: DataFile,
        number: int,
        seed: int,
        *,
        start: int = SEGMENT_HEADER_BYTES,
        last_number: int,
        last_epoch: int,
    ) -> None:
        self._seed = seed
        self._number = number
        self._start = start
        self._bytes_max = max(0, file.size_bytes - start)
        self._used_bytes = used_end(file, start) - start
        self.data = file.read(start, min(self._bytes_max, self._used_bytes + _ZEROS_READ))
        """Without most of the zeros at the end."""
        self._view = memoryview(self.data)
        self.end = start
        """Behind the last good record so far."""
        self.torn_bytes = 0
        """After the scan: bytes behind the last good record, up to the last that is not zero."""
        self.last_number = last_number
        self.last_epoch = last_epoch

    def __iter__(self) -> Iterator[Record | Damage]:
        offset = self._start
        while True:
            record = self._good(offset)
            if record is None:
                following = self._next_good(offset)
                if following is None:
                    break
                yield Damage(self._number, offset, following.offset - offset)
                record = following
            self.last_number, self.last_epoch = record.number, record.epoch
            self.end = offset = record.offset + record.size_bytes
            yield record
        self.torn_bytes = max(0, self._start + self._used_bytes - offset)

    def _good(self, offset: int) -> Record | None:
        record = self._read(offset)
        if record is None and self._is_cut_off(offset):
            self.data += bytes(self._bytes_max - len(self.data))
            self._view = memoryview(self.data)
            record = self._read(offset)
        if record is None or record.number <= self.last_number or record.epoch < self.last_epoch:
            return None
        return record

    def _read(self, offset: int) -> Record | None:
        return read_record(self._view, self._start, offset, self._number, self._seed)

    def _is_cut_off(self, offset: int) -> bool:
        """Whether there may be a record that ends with more zeros than were read."""
        start = offset - self._start
        if len(self.data) == self._bytes_max or len(self.data) - start < HEADER_BYTES:
            return False
        return start + record_bytes(HEADER.unpack_from(self.data, start)[3]) > len(self.data)

    def _next_good(self, offset: int) -> Record | None:
        """The first good record behind *offset*, where there is none."""
        position = self.data.find(MARKER, offset - self._start + 1)
        while position >= 0:
            if position % ALIGNMENT == (-self._start) % ALIGNMENT:
                record = self._good(position + self._start)
                if record is not None:
                    return record
            position = self.data.find(MARKER, position + 1)
        return None
