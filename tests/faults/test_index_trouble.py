"""An index that cannot be used: damaged, its seal damaged, or not to be opened for lack of memory (K2)."""

import shutil
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from ackwire.store.index import UnavailableIndex
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.lmdb_index import LmdbIndex
from ackwire.store.probe import probe
from tests.helpers.store_on_disk import StoreOnDisk, checked, flip, offline_store, snapshot


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        for number in range(5):
            disk.send("queue://a", f"{number}")
    return disk


def files_of(disk: StoreOnDisk) -> dict[str, bytes]:
    """Without LMDB's list of processes that read, which each start makes anew."""
    return {name: data for name, data in snapshot(disk.data).items() if name != "index/lock.mdb"}


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
    flip(disk.data / "index" / "data.mdb", 9000)
    with disk:
        assert disk.store.report.damages == ["the index is made anew: its file has changed since the last stop"]
        assert disk.texts() == {"queue://a": ["0", "1", "2", "3", "4"]}


ERRORS = [lmdb.MemoryError, lmdb.DiskError, lmdb.ReadonlyError, lmdb.LockError, lmdb.Error]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("crash", [False, True])
def test_K2_a_start_that_cannot_open_the_index_changes_nothing(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, error: type[lmdb.Error], crash: bool
) -> None:
    if crash:
        (disk.data / "index.sum").unlink()
    before = files_of(disk)

    def refuse(*_: object, **__: object) -> None:
        raise error("Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb, "open", refuse)
        with pytest.raises(UnusableStore, match=r"LMDB cannot open the index: .*Nothing was changed in"):
            disk.__enter__()
    assert files_of(disk) == before
    with disk:
        assert disk.store.report.damages == []


@pytest.mark.parametrize("error", [UnavailableIndex("LMDB cannot read the index: no memory"), MemoryError()])
def test_K2_a_start_that_runs_out_of_memory_while_it_reads_changes_nothing(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = files_of(disk)

    def refuse(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(LmdbIndex, "items", refuse)
        with pytest.raises(UnusableStore, match="memory"):
            disk.__enter__()
    assert files_of(disk) == before
    with disk:
        assert disk.store.report.damages == []


def test_K2_a_check_without_memory_calls_nothing_damaged(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise lmdb.MemoryError("Cannot allocate memory")

    monkeypatch.setattr(lmdb, "open", refuse)
    with pytest.raises(UnusableStore, match="Cannot allocate memory"):
        checked(offline_store(disk.data, tmp_path / "scratch"))


def test_K2_a_probe_that_gets_no_memory_says_nothing_about_the_index(
    disk: StoreOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an address space of 2 GiB, LMDB cannot map its file."""
    limited = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); {_RUN}"

    def run(argv: list[str], **options: object) -> "subprocess.CompletedProcess[bytes]":
        return real_run([sys.executable, "-c", limited, argv[-1]], **options)  # type: ignore[call-overload, no-any-return]

    real_run = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UnavailableIndex, match="address space"):
        probe(disk.data / "index")


_RUN = "runpy.run_module('ackwire.store.probe', run_name='__main__')"
