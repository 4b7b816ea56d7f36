"""Looks at what another node sends before any of it is written."""

from typing import NamedTuple

from ackwire.store.journal.record import ALIGNMENT, record_bytes, seed_of
from ackwire.store.journal.replica.walk import walk
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, UnreadableSegment, read_header
from ackwire.store.journal.shipping import Chunk, LogEnd, RefusedChunk
from ackwire.store.journal.writer import JournalWriter

SEGMENT_BYTES_MAX = (1 << 32) - 1
"""What a segment's header can say of its size."""


class CheckedChunk(NamedTuple):
    """What a good chunk tells."""

    store_id: bytes
    seed: int
    epochs: list[tuple[int, int]]
    """(epoch, its first record in the chunk), of all its records."""
    last_offset: int
    """Where its last record begins in the segment."""
    last_sequence: int
    """As the segment's header says, if it begins with one."""


def checked_chunk(chunk: Chunk, end: LogEnd, writer: JournalWriter, store_id: bytes) -> CheckedChunk:
    """Raises `RefusedChunk` unless all of *chunk* belongs behind *end*, where *writer* stands."""
    if chunk.first_number != end.number + 1:
        raise RefusedChunk(f"it begins with record {chunk.first_number}, and {end.number + 1} is the next")
    if not SEGMENT_HEADER_BYTES < chunk.segment_bytes <= SEGMENT_BYTES_MAX:
        raise RefusedChunk(f"a segment cannot have {chunk.segment_bytes} bytes")
    if chunk.offset < 0 or chunk.offset % ALIGNMENT or chunk.offset + len(chunk.data) > chunk.segment_bytes:
        raise RefusedChunk(f"{len(chunk.data)} bytes do not fit at {chunk.offset} of {chunk.segment_bytes}")
    last_sequence = 0
    if chunk.offset:
        here = (writer.segment, writer.offset, writer.segment_size_bytes)
        if (chunk.segment, chunk.offset, chunk.segment_bytes) != here:
            raise RefusedChunk(
                f"it belongs at {chunk.offset} of segment {chunk.segment} ({chunk.segment_bytes} bytes), and the log "
                f"ends at {here[1]} of segment {here[0]} ({here[2]} bytes)"
            )
        seed, start, lowest_epoch = writer.seed, 0, end.epoch
    else:
        header = _header(chunk, writer, store_id)
        store_id, last_sequence = header.store_id, header.last_sequence
        seed, start, lowest_epoch = seed_of(store_id), SEGMENT_HEADER_BYTES, max(end.epoch, header.epoch)
    return _checked_records(chunk, store_id, seed, start, lowest_epoch, last_sequence)


def _header(chunk: Chunk, writer: JournalWriter, store_id: bytes) -> SegmentHeader:
    if chunk.segment != writer.next_segment:
        raise RefusedChunk(f"it begins segment {chunk.segment}, and {writer.next_segment} is the next")
    try:
        header = read_header(chunk.data)
    except UnreadableSegment as error:
        raise RefusedChunk(f"its segment cannot be read: {error}") from None
    if header is None:
        raise RefusedChunk("its segment has no header")
    if store_id and header.store_id != store_id:
        raise RefusedChunk("it is of another store")
    said = (header.number, header.first_record, header.size_bytes)
    if said != (chunk.segment, chunk.first_number, chunk.segment_bytes):
        raise RefusedChunk(f"its segment's header says {said} of number, first record and size")
    return header


def _checked_records(
    chunk: Chunk, store_id: bytes, seed: int, start: int, lowest_epoch: int, last_sequence: int
) -> CheckedChunk:
    data = memoryview(chunk.data)
    expected, epoch, position, last_offset = chunk.first_number, lowest_epoch, start, start
    epochs: list[tuple[int, int]] = []
    for record in walk(
        lambda offset, length: chunk.data[offset : offset + length], 0, seed, start, len(data), len(data)
    ):
        if record.number != expected:
            raise RefusedChunk(f"record {record.number} is in the place of {expected}")
        if record.epoch < epoch:
            raise RefusedChunk(f"record {record.number} is of epoch {record.epoch}, behind one of {epoch}")
        if not epochs or epochs[-1][0] != record.epoch:
            epochs.append((record.epoch, record.number))
        epoch, expected, last_offset = record.epoch, expected + 1, record.offset
        position += record_bytes(len(record.payload))
    if position != len(data):
        raise RefusedChunk(f"the record at {chunk.offset + position} of segment {chunk.segment} is damaged")
    if not epochs or chunk.last != LogEnd(epoch, expected - 1):
        raise RefusedChunk(f"it ends with {LogEnd(epoch, expected - 1)}, and should with {chunk.last}")
    return CheckedChunk(store_id, seed, epochs, chunk.offset + last_offset, last_sequence)
