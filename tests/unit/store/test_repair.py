"""Repair: afterwards the store is sound, what can be read is there, what was removed does not come back (K2, K7)."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ackwire.store.contract import Place
from ackwire.store.repair import RepairReport, repair
from tests.helpers.store_on_disk import StoreOnDisk, checked, flip, offline_store, snapshot, where

pytestmark = pytest.mark.usefixtures("every_index")


def repaired(disk: StoreOnDisk, tmp_path: Path) -> RepairReport:
    offline = offline_store(disk.data, tmp_path / "scratch")
    report = repair(offline, checked(offline))
    assert [it.what for it in report.after.findings if not it.is_known] == []
    return report


def filled(tmp_path: Path) -> tuple[StoreOnDisk, dict[str, list[str | None]]]:
    """A store with something of everything, closed, and what waits in it."""
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
        texts = disk.texts()
    return disk, texts


def texts_of(disk: StoreOnDisk) -> dict[str, list[str | None]]:
    with disk:
        return disk.texts()


def test_K7_a_message_that_cannot_be_read_is_given_up_and_the_others_stay(tmp_path: Path) -> None:
    disk, texts = filled(tmp_path)
    path, offset = disk.record_with(b"m004")
    flip(path, offset + 60)
    report = repaired(disk, tmp_path)
    assert report.lost == Counter({where("queue://orders"): 1})
    texts["queue://orders"].remove("m004" * 12)
    assert texts_of(disk) == texts


def test_K2_what_was_damaged_is_in_the_quarantine_and_known_afterwards(tmp_path: Path) -> None:
    disk, _ = filled(tmp_path)
    path, offset = disk.record_with(b"m004")
    original = path.read_bytes()
    flip(path, offset + 60)
    repaired(disk, tmp_path)
    copied = (disk.data / "quarantine" / f"{path.stem}-{offset}.bin").read_bytes()
    assert len(copied) >= 60
    assert copied[:60] == original[offset : offset + 60]
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert report.is_sound
    assert [it.is_known for it in report.findings] == [True]


def test_K7_what_was_removed_does_not_come_back_when_its_removal_is_damaged(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        message = disk.send("queue://orders", "consumed")
        disk.remove("queue://orders", message)
        disk.send("queue://orders", "behind it")
    path, offset = disk.record_with(b"behind it")
    flip(path, max(it for it in disk.records(path) if it < offset) + 33)
    repaired(disk, tmp_path)
    disk.lose_index()  # from now on the journal alone is asked
    assert texts_of(disk) == {"queue://orders": ["behind it"]}


@pytest.mark.parametrize("what", [b"job-1", b"n > 1", b"global"])
def test_K2_jobs_subscriptions_and_transactions_are_taken_from_the_index(tmp_path: Path, what: bytes) -> None:
    disk, texts = filled(tmp_path)
    path, offset = disk.record_with(what)
    flip(path, offset + 34)
    repaired(disk, tmp_path)
    disk.lose_index()
    with disk:
        assert [job.job_id for job in disk.store.jobs()] == ["job-1"]
        assert sorted((it.key.client_id, it.selector) for it in disk.store.durables()) == [("c", None), ("d", "n > 1")]
        assert len(disk.store.prepared()) == 1
        assert disk.texts() == texts


def test_K2_a_missing_index_is_made_anew(tmp_path: Path) -> None:
    disk, texts = filled(tmp_path)
    shutil.rmtree(disk.data / "index")
    report = repaired(disk, tmp_path)
    assert report.lost == Counter()
    assert texts_of(disk) == texts


def test_K2_a_damaged_index_is_put_aside(tmp_path: Path) -> None:
    disk, texts = filled(tmp_path)
    path = disk.index_file()
    flip(path, path.stat().st_size // 2)
    damaged = path.read_bytes()
    repaired(disk, tmp_path)
    (aside,) = (disk.data / "quarantine").glob("index-*")
    assert (aside / path.name).read_bytes() == damaged
    assert texts_of(disk) == texts


def test_K2_the_torn_end_is_cut_off(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        disk.send("queue://orders", "whole")
        disk.crash()
    path = disk.segments()[-1]
    data = path.read_bytes()
    end = disk.end(path)
    path.write_bytes(data[:end] + b"\xac\x57\x05 torn" + data[end + 8 :])
    repaired(disk, tmp_path)
    assert b" torn" not in path.read_bytes()
    assert texts_of(disk) == {"queue://orders": ["whole"]}


def test_K7_messages_of_a_lost_segment_are_given_up(tmp_path: Path) -> None:
    disk, texts = filled(tmp_path)
    disk.segment_path(2).unlink()
    repaired(disk, tmp_path)
    left = texts_of(disk)
    assert None not in left["queue://orders"]
    assert not set(texts["queue://orders"]) <= set(left["queue://orders"]), "some were in that segment"
    assert left["queue://last"] == texts["queue://last"]


@pytest.mark.parametrize("has_index", [True, False], ids=["with index", "without index"])
@pytest.mark.parametrize("seed", range(8))
def test_K7_whatever_bits_change_the_repaired_store_is_sound(tmp_path: Path, seed: int, has_index: bool) -> None:
    rng = random.Random(seed)
    disk, texts = filled(tmp_path)
    for path in rng.sample(disk.segments(), rng.randrange(1, 3)):
        flip(path, rng.randrange(len(path.read_bytes().rstrip(b"\0"))), 1 << rng.randrange(8))
    if not has_index:
        disk.lose_index()
    before = snapshot(disk.data)
    offline = offline_store(disk.data, tmp_path / "scratch")
    found = checked(offline)
    assert snapshot(disk.data) == before
    report = repair(offline, found)
    assert report.after.is_sound, [it.what for it in report.after.findings]
    left = texts_of(disk)
    for place, kept in left.items():
        assert None not in kept, "everything that is left can be read"
        if has_index:
            assert Counter(kept) <= Counter(texts[place]), "nothing comes back"
            assert sum((Counter(texts[place]) - Counter(kept)).values()) == report.lost[where_of(disk, place)]


def where_of(disk: StoreOnDisk, text: str) -> Place:
    return next(place for place in disk.store.journal.catalog.places if repr(place) == text)
