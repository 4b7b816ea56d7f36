"""Files that are deleted, renamed or replaced under a running store: nothing more is answered (K1, K7)."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ackwire.errors import StoreFailed
from ackwire.store.files import OsFiles
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.util.clock import ManualClock
from tests.helpers.store_on_disk import StoreOnDisk, where

pytestmark = pytest.mark.usefixtures("every_index")


def replace_segment(data: Path) -> None:
    segment = max((data / "journal").glob("*.log"))
    shutil.copyfile(segment, data / "copy")
    (data / "copy").rename(segment)


def replace_lock(data: Path) -> None:
    (data / "lock").unlink()
    (data / "lock").write_text("another broker")
    OsFiles().touch(data / "journal")  # as another broker does before it reads


AT_ONCE: dict[str, tuple[Callable[[Path], object], str]] = {
    "journal deleted": (lambda data: shutil.rmtree(data / "journal"), "journal is gone, or was renamed"),
    "journal renamed": (lambda data: (data / "journal").rename(data / "old"), "journal is gone, or was renamed"),
    "last segment deleted": (lambda data: max((data / "journal").glob("*.log")).unlink(), ".log is gone"),
    "first segment deleted": (lambda data: min((data / "journal").glob("*.log")).unlink(), "0000000001.log is gone"),
    "segment replaced": (replace_segment, ".log is gone, or was renamed or replaced"),
    "taken over": (replace_lock, "lock is gone, or was replaced: another broker may use the store"),
}


def lost_bytes(data: Path) -> None:
    os.truncate(max((data / "journal").glob("*.log")), 2000)


WITHIN_A_SECOND: dict[str, tuple[Callable[[Path], object], str]] = {
    "data renamed": (lambda data: data.rename(data.with_name("old")), "journal is gone, or was renamed"),
    "lock deleted": (lambda data: (data / "lock").unlink(), "lock is gone"),
    "index deleted": (lambda data: shutil.rmtree(data / "index"), " is gone, or was replaced"),
    "parent renamed": (lambda data: data.parent.rename(data.parent.with_name("moved")), "journal is gone"),
    "segment cut off": (lost_bytes, "was cut off: it has "),
}


LONG_AFTER_MS = 3_600_000


def in_the_future() -> ManualClock:
    """A clock by which the directory has not changed for long: then only its times are compared."""
    return ManualClock(time.time_ns() // 1_000_000 + LONG_AFTER_MS)


def wait_for_another_time(directory: Path) -> None:
    """Until the file system, which tells times in steps of milliseconds, gives a change another one than the last."""
    probe = directory.parent / "probe"
    probe.touch()
    while probe.stat().st_mtime_ns <= directory.stat().st_ctime_ns:
        probe.touch()
    probe.unlink()


def send(disk: StoreOnDisk) -> list[str]:
    """Send a message, and what its sender is told."""
    told: list[str] = []
    disk.store.append(disk.message("queue://a", "x"), [where("queue://a")])
    disk.store.when_durable(lambda: told.append("stored"), lambda failure: told.append(str(failure)))
    disk.clock.advance(0)
    return told


def close(disk: StoreOnDisk) -> None:
    with pytest.raises(StoreFailed):
        disk.store.close()
    disk.store.abandon()


@pytest.mark.parametrize("policy", SyncPolicy)
@pytest.mark.parametrize("accident", AT_ONCE)
@pytest.mark.parametrize("has_settled", [False, True])
def test_K7_nothing_is_answered_that_the_next_start_would_not_find(
    tmp_path: Path, accident: str, policy: SyncPolicy, has_settled: bool
) -> None:
    happen, said = AT_ONCE[accident]
    disk = StoreOnDisk(tmp_path / "parent" / "data")
    if has_settled:
        disk.clock = in_the_future()
    disk.options = JournalOptions(segment_bytes=4096, free_bytes_min=0, sync=policy)
    disk.__enter__()
    for _ in range(20):
        disk.send("queue://a", "x" * 300)
    assert len(disk.segments()) > 1
    if has_settled:
        wait_for_another_time(disk.data / "journal")
    happen(disk.data)
    (told,) = send(disk)
    assert said in told
    assert "Nothing more is acknowledged" in told
    disk.store.abandon()


@pytest.mark.parametrize("accident", WITHIN_A_SECOND)
def test_K7_what_costs_no_answered_message_is_noticed_within_a_second(tmp_path: Path, accident: str) -> None:
    happen, said = WITHIN_A_SECOND[accident]
    disk = StoreOnDisk(tmp_path / "parent" / "data")
    disk.clock = in_the_future()
    disk.__enter__()
    disk.send("queue://a", "x" * 3000)
    happen(disk.data)
    assert disk.store.failure is None
    disk.clock.advance(1)
    assert said in str(disk.store.failure)
    disk.store.abandon()


@pytest.mark.parametrize("accident", [*AT_ONCE, *WITHIN_A_SECOND])
def test_K7_a_store_whose_files_are_gone_is_not_closed_in_silence(tmp_path: Path, accident: str) -> None:
    disk = StoreOnDisk(tmp_path / "parent" / "data")
    disk.__enter__()
    disk.send("queue://a", "x" * 3000)
    happen, said = (AT_ONCE | WITHIN_A_SECOND)[accident]
    happen(disk.data)
    with pytest.raises(StoreFailed) as failed:
        disk.store.close()
    assert said in str(failed.value)
    assert not (disk.data / "index.sum").exists()


def test_the_stores_own_changes_of_the_directory_are_no_accident(tmp_path: Path) -> None:
    """Segments come and go; what waits is found by the next start."""
    disk = StoreOnDisk(tmp_path / "parent" / "data")
    with disk:
        for _ in range(60):
            message = disk.send("queue://a", "x" * 1500)
            disk.clock.advance(1)
            disk.remove("queue://a", message)
        disk.send("queue://a", "the last one")
        assert disk.store.failure is None
        assert len(disk.segments()) < 10
    with disk:
        assert disk.texts() == {"queue://a": ["the last one"]}
