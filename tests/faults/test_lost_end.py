"""The end of the journal is lost after it was synced: that is damage, reported by name and counted (K2).

The end of a file that was cut off looks like the end of a write that was never finished. What tells them apart: a
segment's header says how long its file is, and the index says where the last record before its checkpoint is.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.helpers.store_on_disk import StoreOnDisk, checked, offline_store, where

SEGMENT_BYTES = 16_384


def crashed(folder: Path, *, messages: int = 20) -> StoreOnDisk:
    """A store whose broker was killed, with messages that were answered after the last checkpoint."""
    disk = StoreOnDisk(folder, segment_bytes=SEGMENT_BYTES)
    disk.__enter__()
    for number in range(messages):
        disk.send("queue://a", f"{number}" + "x" * 200)
    disk.crash()
    return disk


def waiting(disk: StoreOnDisk) -> int:
    return len(list(disk.store.waiting(where("queue://a"))))


def test_K2_wherever_the_last_segment_is_cut_off_it_is_reported(tmp_path: Path) -> None:
    sound = crashed(tmp_path / "sound")
    (segment,) = sound.segments()
    records = sound.records(segment)[::3]
    cuts = {0, 1, 63, 64, *records, *(it + 1 for it in records), *(it - 1 for it in records), SEGMENT_BYTES - 1}
    for cut in sorted(cuts):
        disk = StoreOnDisk(tmp_path / "cut", segment_bytes=SEGMENT_BYTES)
        shutil.copytree(sound.data, disk.data)
        os.truncate(disk.segments()[0], cut)
        with disk:
            reported = " ".join(disk.store.report.damages)
            assert f"segment 1: its file was cut off: it has {cut}" in reported
            texts = disk.texts().get("queue://a", [])
            assert texts == [f"{number}" + "x" * 200 for number in range(len(texts))]
            disk.send("queue://b", "later")
        with disk:
            assert disk.store.report.damages == [], "it is reported once"
            assert waiting(disk) == len(texts)
            assert disk.texts()["queue://b"] == ["later"]
        shutil.rmtree(disk.data)


def test_K2_messages_before_the_checkpoint_are_counted_by_their_queue(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path, segment_bytes=SEGMENT_BYTES)
    with disk:
        for number in range(20):
            disk.send("queue://a" if number % 2 else "queue://b", "x" * 200)
    (segment,) = disk.segments()
    os.truncate(segment, disk.records(segment)[10])
    with disk:
        reported = "\n".join(disk.store.report.damages)
        lost = sum(map(int, re.findall(r"(\d+) messages of queue://[ab] are lost", reported)))
        assert "its file was cut off" in reported
        assert "were synced" in reported
        assert lost == 20 - sum(len(texts) for texts in disk.texts().values())
        assert lost > 0
    with disk:
        assert disk.store.report.damages == []


@pytest.mark.parametrize("how", ["zeros", "missing", "older copy"])
def test_K2_a_journal_that_ends_before_its_checkpoint_is_damaged(tmp_path: Path, how: str) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=SEGMENT_BYTES)
    with disk:
        for _ in range(5):
            disk.send("queue://a", "x" * 200)
    (segment,) = disk.segments()
    older = segment.read_bytes()
    with disk:
        for _ in range(5):
            disk.send("queue://a", "x" * 200)
    if how == "zeros":
        end = disk.records(segment)[8]
        segment.write_bytes(segment.read_bytes()[:end] + bytes(SEGMENT_BYTES - end))
    elif how == "missing":
        segment.unlink()
    else:
        segment.write_bytes(older)
    assert not checked(offline_store(disk.data, tmp_path / "scratch")).is_sound
    with disk:
        reported = "\n".join(disk.store.report.damages)
        assert "segment 1: " in reported
        assert "were synced" in reported
        assert f"{10 - waiting(disk)} messages of queue://a are lost" in reported
        left = [it.sequence for it in disk.store.waiting(where("queue://a"))]
        assert None not in disk.store.load(where("queue://a"), left)
        disk.send("queue://a", "later")
    with disk:
        assert disk.store.report.damages == []
        assert waiting(disk) == len(left) + 1


def test_K2_a_segment_in_the_middle_that_was_cut_off_is_reported_at_the_start(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path)
    with disk:
        for _ in range(30):
            disk.send("queue://a", "x" * 200)
    os.truncate(disk.segment_path(2), 2000)
    with disk:
        reported = "\n".join(disk.store.report.damages)
        assert "segment 2: its file was cut off: it has 2000 of 4096 bytes" in reported
        assert f"{30 - waiting(disk)} messages of queue://a are lost" in reported
        assert waiting(disk) < 30


def test_a_torn_write_is_no_damage(tmp_path: Path) -> None:
    """K2: what was being written when the power went was promised to nobody."""
    disk = crashed(tmp_path)
    (segment,) = disk.segments()
    last = disk.records(segment)[-1]
    data = segment.read_bytes()
    segment.write_bytes(data[: last + 40] + bytes(len(data) - last - 40))
    with disk:
        assert disk.store.report.damages == []
        assert disk.store.report.cut_bytes
        assert waiting(disk) == 19


def test_a_segment_of_an_older_version_is_read_and_not_written_to(tmp_path: Path) -> None:
    """Its header does not say how long it is, so a cut would not be noticed."""
    disk = StoreOnDisk(tmp_path, segment_bytes=SEGMENT_BYTES)
    with disk:
        disk.send("queue://a", "old")
    (segment,) = disk.segments()
    data = bytearray(segment.read_bytes())
    data[56:60] = bytes(4)
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4)
    segment.write_bytes(data)
    with disk:
        disk.send("queue://a", "new")
        assert disk.store.report.damages == []
    assert disk.segment_path(2).exists()
    with disk:
        assert disk.texts() == {"queue://a": ["old", "new"]}
