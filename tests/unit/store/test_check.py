"""The checker finds whatever is damaged, says where, and changes nothing (SEMANTICS K2, K7)."""

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ackwire.store.check import CheckReport, Finding, FindingKind
from ackwire.store.index import Changes, Table
from ackwire.store.index_files import content_files, copy_index, kind_of
from ackwire.store.indexes import open_index
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.offline import OfflineStore
from tests.helpers.store_on_disk import StoreOnDisk, checked, flip, offline_store, snapshot, where

pytestmark = pytest.mark.usefixtures("every_index")


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    """A closed store with something of everything."""
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    return disk


@pytest.fixture
def offline(disk: StoreOnDisk, tmp_path: Path) -> OfflineStore:
    return offline_store(disk.data, tmp_path / "scratch")


def kinds(report: CheckReport) -> set[FindingKind]:
    return {finding.kind for finding in report.findings}


def the_finding(report: CheckReport, kind: FindingKind) -> Finding:
    (finding,) = [it for it in report.findings if it.kind is kind]
    return finding


# ---- sound stores ----------------------------------------------------------------------------------------------


def test_K2_a_store_that_was_closed_is_sound(offline: OfflineStore) -> None:
    report = checked(offline)
    assert (report.findings, report.notes, report.is_sound) == ([], [], True)
    assert {repr(place): count for place, count in report.messages.items() if count} == {
        "queue://orders": 16,
        "queue://last": 2,
        "durable subscription s of client c": 1,
        "durable subscription s of client d": 1,
    }
    assert sum(it.records for it in report.segments) == report.segments[-1].last_record
    assert sum(it.kinds["message"] for it in report.segments) == 27


def test_K2_a_look_changes_nothing(offline: OfflineStore, disk: StoreOnDisk) -> None:
    path, offset = disk.record_with(b"m004")
    flip(path, offset + 50)
    before = snapshot(disk.data)
    checked(offline)
    assert snapshot(disk.data) == before


def test_K2_a_store_whose_process_was_killed_is_sound(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        disk.fill()
        disk.crash()
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert report.findings == []
    (note,) = report.notes
    assert "not a clean one" in note
    assert "replays" in note


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    (tmp_path / "data" / "journal").mkdir(parents=True)
    report = checked(offline_store(tmp_path / "data", tmp_path / "scratch"))
    assert (report.findings, report.segments) == ([], [])


@pytest.mark.parametrize("seed", range(4))
def test_K2_whatever_happened_the_journal_alone_and_the_index_agree(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = StoreOnDisk(tmp_path / "data")
    waiting = []
    with disk:
        for _ in range(120):
            match rng.randrange(8):
                case 0 | 1 | 2:
                    waiting.append(("queue://a", disk.send("queue://a", "x" * rng.randrange(400))))
                case 3:
                    disk.subscribe("c", "s", "topic://t")
                    message = disk.send("topic://t", places=["c/s", "queue://b"])
                    waiting += [("c/s", message), ("queue://b", message)]
                case 4 | 5 if waiting:
                    disk.remove(*waiting.pop(rng.randrange(len(waiting))))
                case 6 if rng.random() < 0.2:
                    disk.store.purge(where("queue://a"), disk.store.last_sequence() // 2, {disk.store.last_sequence()})
                    waiting = [it for it in waiting if it[0] != "queue://a"]
                case _:
                    disk.clock.advance(rng.choice((0, 1, 6)))
    assert checked(offline_store(disk.data, tmp_path / "scratch")).findings == []


def test_K2_a_job_that_compaction_wrote_again_behind_its_own_changes_is_no_damage(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        job = disk.schedule("job-1", "queue://later")
        old = [disk.send("queue://orders", "x" * 300) for _ in range(8)]
        disk.store.add_job(replace(job, due_ms=job.due_ms + 1))
        for _ in range(4):
            disk.send("queue://orders", "x" * 300)
        old += [disk.send("queue://orders", "x" * 300) for _ in range(20)]
        for message in old:
            disk.remove("queue://orders", message)
        disk.clock.advance(6)
        disk.clock.advance(6)
    assert not disk.segment_path(1).exists()
    assert b"job-1" in disk.segment_path(2).read_bytes()
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert report.findings == []


# ---- a damaged journal -----------------------------------------------------------------------------------------


def test_K7_a_damaged_message_is_found_where_it_is(offline: OfflineStore, disk: StoreOnDisk) -> None:
    path, offset = disk.record_with(b"m004")
    flip(path, offset + 60)
    report = checked(offline)
    journal, message = the_finding(report, FindingKind.JOURNAL), the_finding(report, FindingKind.MESSAGE)
    assert (journal.segment, journal.offset) == (int(path.stem), offset)
    assert "damaged bytes" in journal.what
    assert (message.segment, message.offset, message.place, message.sequence) == (
        int(path.stem),
        offset,
        where("queue://orders"),
        5,
    )
    assert not report.is_sound
    assert report.lost_by_place() == {where("queue://orders"): 1}


def test_K7_a_damaged_message_that_was_consumed_loses_nobody_anything(offline: OfflineStore, disk: StoreOnDisk) -> None:
    path, offset = disk.record_with(b"m003")
    flip(path, offset + 60)
    report = checked(offline)
    assert kinds(report) == {FindingKind.JOURNAL}


def test_K7_a_damaged_removal_is_found_by_the_message_that_would_come_back(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        message = disk.send("queue://orders", "consumed")
        disk.remove("queue://orders", message)
        disk.send("queue://orders", "behind it")
    path, offset = disk.record_with(b"behind it")
    flip(path, max(it for it in disk.records(path) if it < offset) + 33)  # the record before it is the removal
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    (back,) = report.differences.back
    assert (back.sequence, back.place) == (message.sequence, where("queue://orders"))
    assert "the index does not have it" in the_finding(report, FindingKind.INDEX).what


def test_K7_a_damaged_header_is_found(offline: OfflineStore, disk: StoreOnDisk) -> None:
    flip(disk.segment_path(2), 20)
    report = checked(offline)
    assert (the_finding(report, FindingKind.JOURNAL).segment, kinds(report)) == (2, {FindingKind.JOURNAL})


def test_K7_the_damaged_header_of_the_only_segment_is_found(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        disk.fill()
    flip(disk.segment_path(1), 30)
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert kinds(report) == {FindingKind.JOURNAL}


def test_K7_a_missing_segment_is_found_with_what_was_in_it(offline: OfflineStore, disk: StoreOnDisk) -> None:
    disk.segment_path(2).unlink()
    report = checked(offline)
    assert any("segment 2 is missing" in it.what for it in report.findings)
    assert not report.is_sound


def test_K7_a_renamed_segment_is_found(offline: OfflineStore, disk: StoreOnDisk) -> None:
    last = disk.segments()[-1]
    last.rename(last.with_name("0000000042.log"))
    assert any("was the file renamed?" in it.what for it in checked(offline).findings)


def test_K7_damage_at_the_end_that_the_index_knows_of_is_no_torn_end(offline: OfflineStore, disk: StoreOnDisk) -> None:
    path, offset = disk.record_with(b"and one more")
    flip(path, offset + 60)
    report = checked(offline)
    assert kinds(report) >= {FindingKind.JOURNAL, FindingKind.MESSAGE}
    assert FindingKind.TORN not in kinds(report)
    assert report.lost_by_place() == {where("queue://last"): 1}


def test_K7_a_message_that_cannot_be_decoded_is_found(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.send("queue://orders", "good")
        message = disk.message("queue://orders", "bad")
        message.frame = message.frame[:-20]
        disk.store.append(message, [where("queue://orders")])
        disk.settle()
    finding = the_finding(checked(offline_store(disk.data, tmp_path / "scratch")), FindingKind.MESSAGE)
    assert (finding.sequence, finding.place) == (message.sequence, where("queue://orders"))


def test_K2_the_torn_end_of_the_last_write_is_told_apart_from_damage(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        disk.fill()
        disk.crash()
    path = disk.segments()[-1]
    data = path.read_bytes()
    start, end = disk.records(path)[-1], disk.end(path)
    path.write_bytes(data[:end] + data[start : start + 20] + data[end + 20 :])
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert kinds(report) == {FindingKind.TORN}
    assert the_finding(report, FindingKind.TORN).offset == end
    assert report.segments[-1].torn_bytes > 0


def test_files_of_two_stores_in_one_directory_cannot_be_judged(tmp_path: Path, disk: StoreOnDisk) -> None:
    other = StoreOnDisk(tmp_path / "other")
    with other:
        other.send("queue://orders")
    data = other.segment_path(1).read_bytes()
    with StoreOnDisk(tmp_path / "data"):
        pass
    # The same header with another id needs its checksum made anew.
    from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, read_header

    header = read_header(data)
    assert header is not None
    strange = header._replace(store_id=bytes(16)).pack() + data[SEGMENT_HEADER_BYTES:]
    disk.segment_path(90).write_bytes(strange)
    with pytest.raises(UnusableStore, match="2 different stores"):
        checked(offline_store(disk.data, tmp_path / "scratch"))


# ---- a damaged index -------------------------------------------------------------------------------------------


def test_K2_a_missing_index_is_found(offline: OfflineStore, disk: StoreOnDisk) -> None:
    disk.lose_index()
    report = checked(offline)
    assert the_finding(report, FindingKind.INDEX).what == "the index is missing"
    assert len(report.findings) == 1


def test_K2_a_changed_index_is_found(offline: OfflineStore, disk: StoreOnDisk) -> None:
    flip(disk.index_file(), disk.index_file().stat().st_size // 2)
    report = checked(offline)
    assert "has changed since the last stop" in the_finding(report, FindingKind.INDEX).what


@pytest.mark.parametrize("kept", [0.002, 0.1, 0.4, 0.9])
def test_K2_an_index_that_was_cut_off_in_a_crash_is_found_and_ends_no_process(
    offline: OfflineStore, disk: StoreOnDisk, kept: float
) -> None:
    (disk.data / "index.sum").unlink()
    path = disk.index_file()
    os.truncate(path, int(path.stat().st_size * kept))
    assert kinds(checked(offline)) == {FindingKind.INDEX}


def test_K2_the_index_of_an_earlier_time_is_found(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        message = disk.send("queue://orders", "early")
    early = snapshot(disk.data)
    with disk:
        disk.remove("queue://orders", message)
    # An index that is only old is brought up to date; one that claims to be new is not believed.
    shutil.rmtree(disk.data / "index")
    (disk.data / "index").mkdir()
    for name, data in early.items():
        if name.startswith("index"):
            (disk.data / name).write_bytes(data)
    assert checked(offline_store(disk.data, tmp_path / "scratch")).findings == []


@pytest.mark.parametrize("seed", range(12))
def test_K2_no_change_of_an_unsealed_index_goes_unnoticed(disk: StoreOnDisk, tmp_path: Path, seed: int) -> None:
    """Nor does any end the checker: what it calls sound holds what it held."""
    rng = random.Random(seed)
    before = index_content(disk.data, tmp_path / "before")
    (disk.data / "index.sum").unlink()
    path = rng.choice(content_files(disk.data / "index"))
    data = path.read_bytes()
    flip(path, rng.choice([at for at, byte in enumerate(data) if byte]), 1 << rng.randrange(8))
    report = checked(offline_store(disk.data, tmp_path / "scratch"))
    assert kinds(report) <= {FindingKind.INDEX}
    if report.is_sound:
        assert index_content(disk.data, tmp_path / "after") == before


@pytest.mark.parametrize("table", [Table.PLACES, Table.STATE, Table.COUNTS, Table.COMMITS, Table.REMOVALS])
def test_K2_an_entry_under_a_wrong_key_is_found(disk: StoreOnDisk, tmp_path: Path, table: Table) -> None:
    """It would be read at each start, and never be deleted."""
    index = open_index(disk.index_kind, disk.data / "index")
    key, value = next(index.items(table))
    wrong = key[:-1] if table is Table.REMOVALS else key[:-1] + bytes((key[-1] ^ 0x40,))
    index.commit(Changes(puts={table: [(wrong, value)]}, deletes={table: [key]}))
    index.close()
    assert kinds(checked(offline_store(disk.data, tmp_path / "scratch"))) == {FindingKind.INDEX}


def index_content(data: Path, copy: Path) -> dict[Table, dict[bytes, bytes]]:
    """What the index holds, read from a *copy*."""
    kind = kind_of(data / "index")
    assert kind is not None
    copy_index(data / "index", copy)
    index = open_index(kind, copy)
    try:
        return {table: dict(index.items(table)) for table in Table}
    finally:
        index.abandon()


def test_strange_files_in_the_journal_are_noted(offline: OfflineStore, disk: StoreOnDisk) -> None:
    (disk.data / "journal" / "0000000001.log.bak").write_bytes(b"x")
    assert checked(offline).notes == ["journal/0000000001.log.bak is not a file of the journal"]
