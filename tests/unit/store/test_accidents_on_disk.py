"""Accidents to the files of a stopped store: it starts all the same, serves the rest, and says what is lost (K2)."""

import os
from pathlib import Path

import pytest

from ackwire.store.journal.record import RecordKind
from tests.helpers.store_on_disk import StoreOnDisk, flip, where

pytestmark = pytest.mark.usefixtures("every_index")


def test_an_index_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    """K2: after a crash, when no seal vouches for it; LMDB alone would die of it, LevelDB alone would go back."""
    disk = StoreOnDisk(tmp_path)
    with disk:
        for _ in range(30):
            disk.send("queue://a", "x" * 200)
    (disk.data / "index.sum").unlink()
    os.truncate(disk.index_file(), disk.index_file().stat().st_size // 2)
    with disk:
        assert "the index is made anew" in disk.store.report.damages[0]
        assert len(list(disk.store.waiting(where("queue://a")))) == 30


def test_a_segment_that_is_missing_is_reported_once(tmp_path: Path) -> None:
    """K2: what was in it is not promised any more, and the rest is served."""
    disk = StoreOnDisk(tmp_path)
    with disk:
        for _ in range(30):
            disk.send("queue://a", "x" * 200)
    disk.segment_path(2).unlink()
    with disk:
        (damage,) = disk.store.report.damages
        waiting = [it.sequence for it in disk.store.waiting(where("queue://a"))]
        assert damage == f"{30 - len(waiting)} messages of queue://a are lost with the segments that held them"
        assert all(disk.store.load(where("queue://a"), waiting))
    with disk:
        assert disk.store.report.damages == []


def test_a_durable_subscription_whose_place_is_damaged_is_still_there(tmp_path: Path) -> None:
    """K2, A3: its own record says all that is needed."""
    disk = StoreOnDisk(tmp_path, segment_bytes=1 << 20)
    with disk:
        disk.send("queue://a")
        disk.subscribe("d", "s", "topic://t")
        disk.send("queue://a")
    segment = disk.segment_path(1)
    data = segment.read_bytes()
    last_place = [offset for offset in disk.records(segment) if data[offset + 2] == RecordKind.PLACE][-1]
    flip(segment, last_place + 40)
    disk.lose_index()
    with disk:
        assert [record.key.name for record in disk.store.durables()] == ["s"]
        assert len(disk.store.report.damages) == 1


def test_a_message_that_cannot_be_read_in_a_place_that_is_damaged(tmp_path: Path) -> None:
    """K2: two accidents at once cost the two, and no more."""
    disk = StoreOnDisk(tmp_path)
    with disk:
        message = disk.message("queue://orders", "bad")
        message.frame = message.frame[:-20]
        disk.store.append(message, [where("queue://orders")])
        disk.settle()
        disk.send("queue://b")
    path, offset = disk.record_with(b"orders")
    flip(path, offset + 33)
    disk.lose_index()
    with disk:
        assert len(disk.store.report.damages) == 2
        assert len(list(disk.store.waiting(where("queue://b")))) == 1
