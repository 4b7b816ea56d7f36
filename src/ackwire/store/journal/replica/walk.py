"""Reads consecutive records of a segment, a piece of its file at a time."""

from collections.abc import Callable, Iterator
from typing import Final

from ackwire.store.journal.record import HEADER, HEADER_BYTES, MARKER, Record, read_record, record_bytes

PIECE_BYTES: Final = 1 << 20
"""How much is read at once, unless one record is larger."""

Read = Callable[[int, int], bytes]
"""Bytes of a file, from an offset on."""


def walk(read: Read, segment: int, seed: int, start: int, end: int, piece_bytes: int = PIECE_BYTES) -> Iterator[Record]:
    """The good records from *start* to *end*, until one is not good."""
    base, data = start, memoryview(b"")
    offset = start
    while offset < end:
        record = read_record(data, base, offset, segment, seed)
        if record is None:
            needed = needed_bytes(data, offset - base)
            if offset + needed > end or offset + needed <= base + len(data):
                return
            base, data = offset, memoryview(read(offset, min(max(needed, piece_bytes), end - offset)))
            if len(data) < needed:
                return
            continue
        yield record
        offset += record.size_bytes


def needed_bytes(data: memoryview, start: int) -> int:
    """How much of the record at *start* must be there to read it, as far as *data* tells."""
    if len(data) - start < HEADER_BYTES:
        return HEADER_BYTES
    marker, _, _, length, _, _, _ = HEADER.unpack_from(data, start)
    return record_bytes(length) if marker == MARKER else HEADER_BYTES
