"""Faults of an index in LevelDB's files: never believed when it is wrong, not given up when it is good (K2, K5).

LevelDB alone drops what is torn in its log, and goes back to an earlier time if a log is missing. What these tests
damage has no seal, as after a crash.
"""

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plyvel
import pytest

from ackwire.store.blocks import sealed
from ackwire.store.index import Changes, DamagedIndex, Table, UnavailableIndex
from ackwire.store.index_files import IndexKind, content_files
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.leveldb_index import LeveldbIndex
from tests.helpers.store_on_disk import StoreOnDisk, checked, flip, offline_store

Rows = dict[bytes, bytes]
_LOG_BLOCK_BYTES = 32_768
"""LevelDB's log is written in blocks of this size."""


def some_changes(commit: int) -> Changes:
    """What the *commit*th writes: a row of its own, a row of all, and a row that goes."""
    rows = [(key, sealed(key, b"%d" % commit * 30)) for key in (b"of %d" % commit, b"of all")]
    return Changes(puts={Table.STATE: rows}, deletes={Table.STATE: [b"of %d" % (commit - 5)]})


def rows_of(index: LeveldbIndex) -> Rows:
    return dict(index.items(Table.STATE))


def opened_rows(directory: Path) -> Rows | None:
    """What an index holds; None if it is not believed."""
    try:
        index = LeveldbIndex(directory)
    except DamagedIndex:
        return None
    try:
        return rows_of(index)
    except DamagedIndex:
        return None
    finally:
        index.abandon()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An index after some commits in two lives, and a crash: it has a sorted file and a log."""
    directory = tmp_path / "index"
    for life in range(2):
        index = LeveldbIndex(directory)
        for commit in range(10 * life, 10 * life + 10):
            index.commit(some_changes(commit))
        index.abandon()
    return directory


def copied(directory: Path, name: str) -> Path:
    copy = directory.with_name(name)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    return copy


def log_of(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def test_K2_no_byte_of_the_files_changes_unnoticed(directory: Path) -> None:
    """Either the index is not believed, or it holds what it held: not every byte of LevelDB's files means something."""
    expected = opened_rows(copied(directory, "sound"))
    assert expected
    outcomes = set()
    for path in content_files(directory):
        size_bytes = path.stat().st_size
        for at in range(0, size_bytes, max(1, size_bytes // 40)):
            damaged = copied(directory, "damaged")
            flip(damaged / path.name, at, 1 << at % 8)
            found = opened_rows(damaged)
            assert found in (None, expected), f"byte {at} of {path.name}"
            outcomes.add(found is None)
    assert outcomes == {True, False}


def test_K2_no_file_is_cut_off_or_deleted_unnoticed(directory: Path) -> None:
    expected = opened_rows(copied(directory, "sound"))
    for path in content_files(directory):
        size_bytes = path.stat().st_size
        for kept in (*range(0, size_bytes, max(1, size_bytes // 20)), None):
            damaged = copied(directory, "damaged")
            if kept is None:
                (damaged / path.name).unlink()
            else:
                (damaged / path.name).write_bytes(path.read_bytes()[:kept])
            found = opened_rows(damaged)
            assert found in (None, expected), f"{kept} bytes of {path.name}"


def test_K2_a_commit_that_is_lost_between_others_is_missed(tmp_path: Path) -> None:
    """LevelDB skips a block of zeros in its log, and goes on with what follows; the number of commits is right then."""
    directory = tmp_path / "index"
    index = LeveldbIndex(directory)
    keys = [b"%d" % commit for commit in range(7)]
    for key in keys:
        index.commit(Changes(puts={Table.STATE: [(key, sealed(key, key * 20_000))]}))
    index.abandon()
    data = log_of(directory).read_bytes()
    assert set(opened_rows(copied(directory, "sound")) or ()) == set(keys)
    for start in range(0, len(data) - _LOG_BLOCK_BYTES, _LOG_BLOCK_BYTES):
        damaged = copied(directory, "damaged")
        rest = data[start + _LOG_BLOCK_BYTES :]
        log_of(damaged).write_bytes(data[:start] + bytes(_LOG_BLOCK_BYTES) + rest)
        with pytest.raises(DamagedIndex):
            LeveldbIndex(damaged)


def test_K2_an_older_index_is_not_believed_for_a_newer_mark(directory: Path) -> None:
    older = copied(directory, "older")
    index = LeveldbIndex(directory)
    index.commit(some_changes(20))
    index.abandon()
    shutil.copyfile(directory / "commits", older / "commits")
    with pytest.raises(DamagedIndex, match="the last commits are missing"):
        LeveldbIndex(older)


def test_K2_a_crash_at_any_byte_of_a_commit_leaves_the_index_before_or_after_it(directory: Path) -> None:
    """The mark is written when the batch is durable: a torn one was not, and costs nothing, not even a new index."""
    index = LeveldbIndex(directory)
    before, mark = rows_of(index), (directory / "commits").read_bytes()
    start = log_of(directory).stat().st_size
    index.commit(some_changes(20))
    index.refresh()
    after = rows_of(index)
    index.abandon()
    log = log_of(directory)
    end = log.stat().st_size
    assert before != after
    assert end > start
    tails = (b"", b"\0", b"\xff")  # nothing, zeros, what was there before
    for kept in range(start, end, 5):
        torn = copied(directory, "torn")
        tail = tails[kept % len(tails)] * (end - kept)
        (torn / log.name).write_bytes(log.read_bytes()[:kept] + tail)
        assert opened_rows(copied(torn, "again")) is None, "it was durable, and is gone"
        (torn / "commits").write_bytes(mark)
        assert opened_rows(torn) == before, f"{kept} bytes, then {tail[:1]!r}"
    whole = copied(directory, "whole")
    (whole / "commits").write_bytes(mark)
    assert opened_rows(whole) == after


# ---- writes that fail ------------------------------------------------------------------------------------------


class FaultyDb:
    """A LevelDB whose writes fail: with nothing done, with half a record in the log, or with everything done."""

    def __init__(self, db: Any, faults: list[str], directory: Path) -> None:
        self._db = db
        self._faults = faults
        self._directory = directory
        self._is_broken = False
        self.get, self.iterator, self.snapshot, self.close = db.get, db.iterator, db.snapshot, db.close

    def write_batch(self, **options: bool) -> Any:
        if self._is_broken:
            raise plyvel.IOError(b"IO error: 000005.log: No space left on device")
        if not self._faults:
            return self._db.write_batch(**options)
        fault = self._faults.pop()
        self._is_broken = True
        return _FaultyBatch(self._db.write_batch(**options), fault, log_of(self._directory))


class _FaultyBatch:
    def __init__(self, batch: Any, fault: str, log: Path) -> None:
        self._batch = batch
        self._fault = fault
        self._log = log

    def __enter__(self) -> Any:
        return self._batch.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._fault == "done":
            self._batch.__exit__(None, None, None)
        elif self._fault == "half":
            with self._log.open("ab") as file:
                file.write(b"\x12\x34\x56\x78\x40\x00\x01half of a record")
        raise plyvel.IOError(b"IO error: 000005.log: No space left on device")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What goes wrong with the next writes."""
    faults: list[str] = []
    real = plyvel.DB
    monkeypatch.setattr(plyvel, "DB", lambda path, **options: FaultyDb(real(path, **options), faults, Path(path)))
    yield faults
    assert faults == []


@pytest.mark.parametrize("fault", ["nothing", "half", "done"])
def test_K7_a_commit_that_failed_can_be_repeated(tmp_path: Path, faults: list[str], fault: str) -> None:
    index = LeveldbIndex(tmp_path / "index")
    index.commit(some_changes(0))
    index.refresh()
    before = rows_of(index)
    faults += [fault, fault]
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            index.commit(some_changes(1))
    index.commit(some_changes(1))
    index.refresh()
    assert rows_of(index) == before | dict(some_changes(1).puts[Table.STATE])
    index.close()
    index = LeveldbIndex(tmp_path / "index")
    assert index.is_vouched_for
    assert len(rows_of(index)) == 3
    index.close()


@pytest.mark.parametrize("fault", ["nothing", "half", "done"])
def test_K7_an_index_whose_last_write_failed_is_not_sealed(tmp_path: Path, faults: list[str], fault: str) -> None:
    index = LeveldbIndex(tmp_path / "index")
    index.commit(some_changes(0))
    faults.append(fault)
    with pytest.raises(OSError, match="No space left"):
        index.commit(some_changes(1))
    index.close()
    assert not (tmp_path / "index.sum").exists()
    index = LeveldbIndex(tmp_path / "index")
    assert len(rows_of(index)) == (3 if fault == "done" else 2)
    index.close()


def test_K7_reads_go_on_while_the_disk_is_full(
    tmp_path: Path, faults: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LevelDB could not be opened again on such a disk."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    index = LeveldbIndex(tmp_path / "index")
    index.commit(some_changes(0))
    index.refresh()
    faults.append("nothing")
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                index.commit(some_changes(1))
            assert len(rows_of(index)) == 2
            assert index.get(Table.STATE, b"of all") is not None
    index.commit(some_changes(1))
    index.close()
    assert not list((tmp_path / "index").glob("trial"))


def test_K7_an_index_that_cannot_be_opened_again_is_unavailable(
    tmp_path: Path, faults: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails then, with the reason; the journal has everything."""

    def refuse(*_: object, **__: object) -> None:
        raise plyvel.IOError(b"IO error: MANIFEST-000009: Input/output error")

    index = LeveldbIndex(tmp_path / "index")
    faults.append("nothing")
    with pytest.raises(OSError, match="No space left"):
        index.commit(some_changes(1))
    with monkeypatch.context() as patch:
        patch.setattr(plyvel, "DB", refuse)
        with pytest.raises(UnavailableIndex, match="Input/output error"):
            index.commit(some_changes(1))
    with pytest.raises(UnavailableIndex):
        index.get(Table.STATE, b"of all")
    with pytest.raises(UnavailableIndex):
        rows_of(index)
    index.abandon()


@pytest.mark.parametrize("fault", ["nothing", "half", "done"])
def test_K7_a_store_goes_on_after_a_checkpoint_that_failed(tmp_path: Path, faults: list[str], fault: str) -> None:
    """K2: the journal has everything; the next tick tries again."""
    disk = StoreOnDisk(tmp_path / "data", index=IndexKind.LEVELDB)
    with disk:
        first = disk.send("queue://a", "first")
        disk.store.checkpoint()
        disk.settle()
        disk.send("queue://a", "second")
        disk.remove("queue://a", first)
        faults.append(fault)
        disk.store.checkpoint()
        disk.settle()
        assert disk.texts() == {"queue://a": ["second"]}
        disk.send("queue://a", "third")
        disk.clock.advance(1)
        assert disk.texts() == {"queue://a": ["second", "third"]}
        assert disk.store.failure is None
    assert (disk.data / "index.sum").exists()
    with disk:
        assert disk.texts() == {"queue://a": ["second", "third"]}
        assert disk.store.report.damages == []
    assert checked(offline_store(disk.data, tmp_path / "scratch")).findings == []


# ---- another process -------------------------------------------------------------------------------------------


def test_K2_a_start_fails_while_another_process_has_the_index(tmp_path: Path) -> None:
    """Beside the lock of the store there is LevelDB's own; nothing but the text of its log is changed."""
    disk = StoreOnDisk(tmp_path / "data", index=IndexKind.LEVELDB)
    with disk:
        disk.send("queue://a", "kept")
    holder = LeveldbIndex(disk.data / "index")
    before = {path.name: path.read_bytes() for path in content_files(disk.data / "index")}
    with pytest.raises(UnusableStore, match=r"LOCK.*Nothing was changed in"):
        disk.__enter__()
    assert {path.name: path.read_bytes() for path in content_files(disk.data / "index")} == before
    holder.close()
    with disk:
        assert disk.store.report.damages == []
        assert not disk.store.report.is_rebuilt
        assert disk.texts() == {"queue://a": ["kept"]}
