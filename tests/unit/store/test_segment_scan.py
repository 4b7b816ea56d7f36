"""Segments are mostly zeros behind their last record, which may end with zeros itself."""

from pathlib import Path

import pytest

from ackwire.store.files import DataFile, OsFiles
from ackwire.store.journal.record import RecordKind, pack_record
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, Damage, SegmentScan, used_end

SEED = 4711
SEGMENT_BYTES = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    return OsFiles().create(tmp_path / "0000000001.log", SEGMENT_BYTES)


def write(file: DataFile, offset: int, number: int, payload: bytes) -> int:
    data = b"".join(pack_record(RecordKind.MESSAGE, 0, 1, number, 0, [payload], SEED))
    file.write(data, offset)
    return offset + len(data)


def scan(file: DataFile) -> SegmentScan:
    return SegmentScan(file, 1, SEED, last_number=0, last_epoch=0)


@pytest.mark.parametrize("zeros", [0, 1, 31, 5000, 300_000, SEGMENT_BYTES - SEGMENT_HEADER_BYTES - 80])
def test_last_record_is_whole_however_many_zeros_it_ends_with(file: DataFile, zeros: int) -> None:
    end = write(file, SEGMENT_HEADER_BYTES, 1, b"x")
    end = write(file, end, 2, b"" if zeros == 31 else bytes(zeros))
    scanned = scan(file)
    records = [it for it in scanned if not isinstance(it, Damage)]
    assert [(it.number, bytes(it.payload).strip(b"\0")) for it in records] == [(1, b"x"), (2, b"")]
    assert (scanned.end, scanned.torn_bytes) == (end, 0)


def test_torn_end_is_counted_up_to_its_last_byte(file: DataFile) -> None:
    end = write(file, SEGMENT_HEADER_BYTES, 1, bytes(600_000))
    file.write(b"torn\0\0n", end + 8)
    scanned = scan(file)
    assert [type(it) for it in scanned] != [Damage]
    assert (scanned.end, scanned.torn_bytes) == (end, 15)


def test_length_that_leads_behind_the_segment_is_no_record(file: DataFile) -> None:
    end = write(file, SEGMENT_HEADER_BYTES, 1, b"x")
    bad = pack_record(RecordKind.MESSAGE, 0, 1, 2, 0, [bytes(SEGMENT_BYTES)], SEED)[0]
    file.write(bytes(bad), end)
    scanned = scan(file)
    assert len(list(scanned)) == 1
    assert scanned.end == end
    assert scanned.torn_bytes > 0


@pytest.mark.parametrize("used", [0, 1, 1000, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, SEGMENT_BYTES])
def test_end_of_what_is_used_is_found(file: DataFile, used: int) -> None:
    file.write(b"\1" * used, 0)
    assert used_end(file, 0) == used
    assert used_end(file, min(used + 7, SEGMENT_BYTES)) == min(used + 7, SEGMENT_BYTES)
