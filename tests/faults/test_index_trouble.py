"""An index that cannot be used: damaged, its seal damaged, or not to be opened for lack of memory (K2)."""

import shutil
import subprocess
import sys
from copy import copy
from pathlib import Path

import lmdb
import plyvel
import pytest

from ackwire.store.index import UnavailableIndex
from ackwire.store.index_files import IndexKind
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.leveldb_index import LeveldbIndex
from ackwire.store.lmdb_index import LmdbIndex
from ackwire.store.probe import probe
from tests.helpers.store_on_disk import StoreOnDisk, checked, flip, offline_store, snapshot

pytestmark = pytest.mark.usefixtures("every_index")
OPENED_BY = {IndexKind.LMDB: (lmdb, "open"), IndexKind.LEVELDB: (plyvel, "DB")}


@pytest.fixture
def disk(tmp_path: Path, every_index: IndexKind) -> StoreOnDisk:  # noqa: ARG001 - chosen before the store is made
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        for number in range(5):
            disk.send("queue://a", f"{number}")
    return disk


def files_of(disk: StoreOnDisk) -> dict[str, bytes]:
    """Without LMDB's list of processes that read, which each start makes anew."""
    return {name: data for name, data in snapshot(disk.data).items() if name != "index/lock.mdb"}


def content_of(files: dict[str, bytes], kind: IndexKind) -> dict[str, bytes]:
    """Without what LevelDB changes whenever it is opened."""
    return {name: data for name, data in files.items() if kind is IndexKind.LMDB or not name.startswith("index")}


def test_K2_a_flipped_bit_of_the_seal_is_reported_and_costs_nothing(disk: StoreOnDisk, tmp_path: Path) -> None:
    seal_bytes = (disk.data / "index.sum").stat().st_size
    for bit in range(0, 8 * seal_bytes, 7):  # each bit of a byte, and each byte
        damaged = StoreOnDisk(tmp_path / "damaged")
        shutil.copytree(disk.data, damaged.data)
        flip(damaged.data / "index.sum", bit // 8, 1 << bit % 8)
        with damaged:
            (said,) = damaged.store.report.damages
            assert said.startswith("index.sum is damaged")
            assert not damaged.store.report.is_rebuilt
            assert damaged.texts() == {"queue://a": ["0", "1", "2", "3", "4"]}
        with damaged:
            assert damaged.store.report.damages == []
        shutil.rmtree(damaged.data)


def test_a_seal_of_an_older_version_is_believed(disk: StoreOnDisk) -> None:
    seal = disk.data / "index.sum"
    seal.write_bytes(seal.read_bytes()[:15] + b"\n")
    with disk:
        assert disk.store.report.damages == []
        assert disk.store.journal.catalog.index.is_vouched_for


def test_a_changed_index_is_made_anew(disk: StoreOnDisk) -> None:
    flip(disk.index_file(), disk.index_file().stat().st_size // 2)
    with disk:
        assert disk.store.report.damages == ["the index is made anew: its file has changed since the last stop"]
        assert disk.texts() == {"queue://a": ["0", "1", "2", "3", "4"]}


TEXT = "Cannot allocate memory"
ERRORS = {
    IndexKind.LMDB: {
        "memory": lmdb.MemoryError(TEXT),
        "disk": lmdb.DiskError(TEXT),
        "permission": lmdb.ReadonlyError(TEXT),
        "lock": lmdb.LockError(TEXT),
        "unknown": lmdb.Error(TEXT),
    },
    IndexKind.LEVELDB: {
        "memory": MemoryError(TEXT),
        "disk": plyvel.IOError(b"IO error: index/000007.log: No space left on device"),
        "permission": plyvel.IOError(b"IO error: index/LOCK: Permission denied"),
        "lock": plyvel.IOError(b"IO error: lock index/LOCK: Resource temporarily unavailable"),
        "unknown": plyvel.Error(b"Not implemented: "),
    },
}


def refuse_to_open(patch: pytest.MonkeyPatch, kind: IndexKind, error: Exception) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise copy(error)  # which forgets its traceback, and with it what the test had open

    patch.setattr(*OPENED_BY[kind], refuse)


@pytest.mark.parametrize("reason", ERRORS[IndexKind.LMDB])
@pytest.mark.parametrize("crash", [False, True])
def test_K2_a_start_that_cannot_open_the_index_changes_nothing(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, reason: str, crash: bool
) -> None:
    if crash:
        (disk.data / "index.sum").unlink()
    before = files_of(disk)
    with monkeypatch.context() as patch:
        refuse_to_open(patch, disk.index_kind, ERRORS[disk.index_kind][reason])
        said = rf"{disk.index_kind.title} cannot open the index: .*Nothing was changed in"
        with pytest.raises(UnusableStore, match=said):
            disk.__enter__()
    assert files_of(disk) == before
    with disk:
        assert disk.store.report.damages == []


@pytest.mark.parametrize("error", [UnavailableIndex("the index cannot be read: no memory"), MemoryError()])
def test_K2_a_start_that_runs_out_of_memory_while_it_reads_loses_nothing(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = files_of(disk)

    def refuse(*_: object, **__: object) -> None:
        raise copy(error)

    with monkeypatch.context() as patch:
        patch.setattr(LmdbIndex if disk.index_kind is IndexKind.LMDB else LeveldbIndex, "items", refuse)
        with pytest.raises(UnusableStore, match="memory"):
            disk.__enter__()
    assert content_of(files_of(disk), disk.index_kind) == content_of(before, disk.index_kind)
    with disk:
        assert disk.store.report.damages == []


def test_K2_a_check_without_memory_calls_nothing_damaged(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_to_open(monkeypatch, disk.index_kind, ERRORS[disk.index_kind]["memory"])
    with pytest.raises(UnusableStore, match="Cannot allocate memory"):
        checked(offline_store(disk.data, tmp_path / "scratch"))


def test_K2_a_probe_that_gets_no_memory_says_nothing_about_the_index(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an address space of 2 GiB, LMDB cannot map its file; LevelDB cannot do without a second file."""
    limit, said = {
        IndexKind.LMDB: ("resource.RLIMIT_AS, (2 << 30, 2 << 30)", "address space"),
        IndexKind.LEVELDB: ("resource.RLIMIT_NOFILE, (FILES, FILES)", "Too many open files"),
    }[disk.index_kind]
    limited = f"{_PREPARE}; resource.setrlimit({limit}); {_RUN}"

    def run(argv: list[str], **options: object) -> "subprocess.CompletedProcess[bytes]":
        return real_run([sys.executable, "-c", limited, *argv[-2:]], **options)  # type: ignore[call-overload, no-any-return]

    real_run = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UnavailableIndex, match=said):
        probe(disk.index_kind, disk.data / "index")


_PREPARE = "import os, resource, runpy, sys, ackwire.store.leveldb_index; FILES = len(os.listdir('/proc/self/fd')) + 1"
_RUN = "runpy.run_module('ackwire.store.probe', run_name='__main__')"
