"""Cuts the end off a log: what a new master does not have was never confirmed to anyone."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from ackwire.store.files import Files
from ackwire.store.journal.replica.log_map import LogSegment
from ackwire.store.journal.replica.walk import walk
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, ZEROS, segment_path, used_end


class CutEnd(NamedTuple):
    """Where a log ends after a truncation."""

    segment: int
    """0 if nothing is left."""
    offset: int
    last_offset: int
    epoch: int


def truncate(
    files: Files,
    directory: Path,
    seed: int,
    segments: list[LogSegment],
    number: int,
    fallback: CutEnd,
    unsynced: AbstractSet[int] = frozenset(),
) -> CutEnd:
    """Drop all records behind *number* from *segments*, which are closed; durable when it returns, and so is all that
    is left, of which *unsynced* are the segments that may be in the cache only.

    Later segments go first, the last of them before the others: a crash in between leaves a log that ends somewhere
    between its old and its new end. *fallback* is the end if *number* is in none of the segments.
    """
    later = [it for it in segments if it.first_number > number]
    for segment in sorted(later, key=lambda it: it.number, reverse=True):
        files.remove(segment_path(directory, segment.number))
    kept = [it for it in segments if it.first_number <= number]
    if not kept:
        return fallback
    last = max(kept, key=lambda it: it.number)
    for segment in kept:
        if segment.number in unsynced and segment is not last:
            _sync(files, segment_path(directory, segment.number))
    file = files.open(segment_path(directory, last.number))
    try:
        end, last_offset, epoch = SEGMENT_HEADER_BYTES, 0, last.epoch
        for record in walk(file.read, last.number, seed, SEGMENT_HEADER_BYTES, last.end or file.size_bytes):
            if record.number > number:
                break
            end, last_offset, epoch = record.offset + record.size_bytes, record.offset, record.epoch
        length = used_end(file, end) - end
        for start in range(0, length, len(ZEROS)):
            file.write(ZEROS[: length - start], end + start)
        file.sync()
    finally:
        file.close()
    return CutEnd(last.number, end, last_offset, epoch)


def _sync(files: Files, path: Path) -> None:
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()
