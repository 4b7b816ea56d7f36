"""Both file systems, the real one and the simulated one, do what `Files` says; crashes only the simulated one has."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ackwire.store.files import DataFile, Files, LockHeld, OsFiles
from tests.helpers.simulated_disk import EIO, ENOSPC, Effect, SimulatedDisk, Stopped

FOLDER = Path("/data")
FILE = FOLDER / "file"


@pytest.fixture(params=["os", "simulated"])
def files(request: pytest.FixtureRequest) -> Files:
    return OsFiles() if request.param == "os" else SimulatedDisk()


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    made = tmp_path / "a" / "b"
    files.make_directory(made)
    return made


# ---- what both do ----------------------------------------------------------------------------------------------


def test_directory_may_exist_and_names_are_sorted(files: Files, folder: Path) -> None:
    files.make_directory(folder)
    for name in ("c", "a", "b"):
        files.create(folder / name, 0).close()
    files.make_directory(folder / "d")
    assert files.names(folder) == ["a", "b", "c", "d"]
    assert files.names(folder / "nowhere") == []
    assert files.names(folder.parent) == [folder.name]


def test_new_file_is_zeros_and_takes_writes_anywhere(files: Files, folder: Path) -> None:
    file = files.create(folder / "f", 16)
    file.write(b"abc", 4)
    assert file.read(0, 100) == bytes(4) + b"abc" + bytes(9)
    file.write(b"end", 20)
    assert file.size_bytes == 23
    assert file.read(14, 100) == bytes(6) + b"end"
    assert file.read(50, 10) == b""
    file.expect_read(0, 10)
    file.sync()
    file.close()
    assert files.read(folder / "f") == bytes(4) + b"abc" + bytes(13) + b"end"


def test_opened_file_has_what_was_written(files: Files, folder: Path) -> None:
    first = files.create(folder / "f", 4)
    first.write(b"abcd", 0)
    second = files.open(folder / "f", writable=False)
    assert second.read(1, 2) == b"bc"
    with pytest.raises(OSError, match=r"."):
        second.write(b"x", 0)
    first.close()
    second.close()


def test_file_that_is_there_cannot_be_created_and_one_that_is_not_cannot_be_opened(files: Files, folder: Path) -> None:
    files.create(folder / "f", 4).close()
    refused: list[Callable[[], object]] = [
        lambda: files.open(folder / "g"),
        lambda: files.read(folder / "g"),
        lambda: files.remove(folder / "g"),
        lambda: files.rename(folder / "g", folder / "h"),
        lambda: files.create(folder / "nowhere" / "g", 4),
    ]
    for call in refused:
        with pytest.raises(FileNotFoundError):
            call()
    with pytest.raises(FileExistsError):
        files.create(folder / "f", 4)


def test_rename_remove_replace_exist(files: Files, folder: Path) -> None:
    files.replace(folder / "f", b"old")
    files.replace(folder / "f", b"new")
    files.rename(folder / "f", folder / "g")
    assert (files.exists(folder / "f"), files.exists(folder / "g"), files.exists(folder)) == (False, True, True)
    assert files.read(folder / "g") == b"new"
    files.remove(folder / "g")
    assert files.names(folder) == []


def test_removed_file_can_be_read_by_who_has_it_open(files: Files, folder: Path) -> None:
    file = files.create(folder / "f", 3)
    file.write(b"abc", 0)
    files.remove(folder / "f")
    assert file.read(0, 3) == b"abc"
    file.close()


def test_lock_admits_one_and_says_who(files: Files, folder: Path) -> None:
    lock = files.lock(folder / "lock", "process 1")
    with pytest.raises(LockHeld) as refused:
        files.lock(folder / "lock", "process 2")
    assert refused.value.holder == "process 1"
    lock.release()
    assert files.read(folder / "lock") == b""
    files.lock(folder / "lock", "process 2").release()


def test_closed_file_is_of_no_use(files: Files, folder: Path) -> None:
    file = files.create(folder / "f", 3)
    file.close()
    for use in (file.sync, lambda: file.read(0, 1), lambda: file.write(b"x", 0), file.close):
        with pytest.raises(OSError, match=r"."):
            use()


def test_free_bytes_is_a_number(files: Files, folder: Path) -> None:
    assert files.free_bytes(folder) > 0


# ---- crashes ---------------------------------------------------------------------------------------------------


def disk_with_file(seed: int = 0, size_bytes: int = 4096) -> tuple[SimulatedDisk, DataFile]:
    disk = SimulatedDisk(seed)
    disk.make_directory(FOLDER)
    return disk, disk.create(FILE, size_bytes)


@pytest.mark.parametrize("reordered", [True, False])
def test_synced_bytes_outlive_a_power_cut(reordered: bool) -> None:
    for seed in range(20):
        disk, file = disk_with_file(seed)
        file.write(b"a" * 4096, 0)
        file.sync()
        disk.power_cut(reordered=reordered)
        assert disk.read(FILE) == b"a" * 4096


def test_power_cut_keeps_a_prefix_of_the_unsynced_writes_the_last_of_them_torn() -> None:
    found = set()
    for seed in range(200):
        disk, file = disk_with_file(seed, 30)
        for index, letter in enumerate((b"a", b"b", b"c")):
            file.write(letter * 10, 10 * index)
        disk.power_cut()
        text = disk.read(FILE).rstrip(b"\0")
        assert (b"a" * 10 + b"b" * 10 + b"c" * 10).startswith(text)
        found.add(len(text))
    assert {0, 10, 20, 30} < found, "whole writes and torn ones"


def test_power_cut_tears_large_writes_between_sectors_too() -> None:
    lengths = []
    for seed in range(100):
        disk, file = disk_with_file(seed)
        file.write(b"a" * 4096, 0)
        disk.power_cut()
        lengths.append(len(disk.read(FILE).rstrip(b"\0")))
    assert [it for it in lengths if it % 512]
    assert [it for it in lengths if 0 < it < 4096 and it % 512 == 0]


def test_reordered_power_cut_leaves_holes() -> None:
    holes = 0
    for seed in range(50):
        disk, file = disk_with_file(seed)
        file.write(b"a" * 4096, 0)
        disk.power_cut(reordered=True)
        sectors = [disk.read(FILE)[at : at + 512] for at in range(0, 4096, 512)]
        assert set(sectors) <= {b"a" * 512, bytes(512)}, "a sector is written as a whole"
        holes += b"\0a" in b"".join(sectors)
    assert holes


def test_power_cut_forgets_what_the_file_had_grown_by() -> None:
    disk, file = disk_with_file(1, 0)
    file.write(b"synced", 0)
    file.sync()
    file.write(b"unsynced", 100)
    lengths = set()
    for _ in range(10):
        disk.power_cut()
        lengths.add(len(disk.read(FILE)))
    assert len(lengths) == 1, "after the first one there is nothing left to lose"


def test_killed_process_loses_nothing_but_has_not_synced() -> None:
    lost = 0
    for seed in range(20):
        disk, file = disk_with_file(seed, 3)
        file.write(b"abc", 0)
        disk.process_kill()
        assert disk.read(FILE) == b"abc"
        disk.power_cut()
        lost += disk.read(FILE) != b"abc"
    assert lost


def test_sync_by_the_next_process_serves_the_killed_one() -> None:
    for seed in range(20):
        disk, file = disk_with_file(seed, 3)
        file.write(b"abc", 0)
        disk.process_kill()
        disk.open(FILE).sync()
        disk.power_cut()
        assert disk.read(FILE) == b"abc"


@pytest.mark.parametrize("crash", [SimulatedDisk.power_cut, SimulatedDisk.process_kill])
def test_handles_and_locks_end_with_the_process(crash: Callable[[SimulatedDisk], None]) -> None:
    disk, file = disk_with_file()
    lock = disk.lock(FOLDER / "lock", "one")
    assert (disk.open_paths, disk.locked_paths) == ([FILE], [FOLDER / "lock"])
    crash(disk)
    assert (disk.open_paths, disk.locked_paths) == ([], [])
    for use in (file.sync, lambda: file.read(0, 1), lambda: file.write(b"x", 0)):
        with pytest.raises(OSError, match="gone"):
            use()
    disk.lock(FOLDER / "lock", "two")
    lock.release()
    assert disk.locked_paths == [FOLDER / "lock"], "the lock of the dead is not the lock of the living"


def test_everything_stops_in_the_middle_of_a_call() -> None:
    disk, file = disk_with_file()
    disk.stop_at(2)
    file.write(b"abc", 0)
    for _ in range(2):
        with pytest.raises(Stopped):
            file.sync()
    with pytest.raises(Stopped):
        disk.exists(FILE)
    disk.process_kill()
    assert disk.read(FILE)[:3] == b"abc"


# ---- faults ----------------------------------------------------------------------------------------------------


def test_nth_call_of_an_operation_fails_and_the_next_does_not() -> None:
    disk, file = disk_with_file()
    disk.fail("write", 2, error=ENOSPC)
    file.write(b"a", 0)
    with pytest.raises(OSError, match="simulated ENOSPC") as failed:
        file.write(b"b", 1)
    assert failed.value.errno == errno.ENOSPC
    file.write(b"c", 2)
    assert file.read(0, 3) == b"a\0c"


def test_any_call_can_be_chosen_by_its_number() -> None:
    disk, file = disk_with_file()
    before = len(disk.calls)
    file.write(b"a", 0)
    file.sync()
    disk.replace(FOLDER / "small", b"x")
    operations = [call.operation for call in disk.calls[before:]]
    assert operations == ["write", "sync", "replace"]
    disk.fail("any", 3)
    file.write(b"a", 0)
    file.sync()
    with pytest.raises(OSError, match="simulated EIO"):
        disk.replace(FOLDER / "small", b"y")
    assert disk.read(FOLDER / "small") == b"x"


def test_short_write() -> None:
    lengths = set()
    for seed in range(30):
        disk, file = disk_with_file(seed)
        disk.fail("write", effect=Effect.PARTLY)
        with pytest.raises(OSError, match="simulated EIO"):
            file.write(b"a" * 10, 0)
        lengths.add(len(file.read(0, 10).rstrip(b"\0")))
    assert len(lengths) > 3


def test_failed_sync_loses_what_a_later_sync_does_not_bring_back() -> None:
    lost = 0
    for seed in range(30):
        disk, file = disk_with_file(seed, 6)
        file.write(b"abc", 0)
        disk.fail("sync", effect=Effect.PARTLY)
        with pytest.raises(OSError, match="simulated EIO"):
            file.sync()
        file.write(b"def", 3)
        file.sync()
        assert file.read(0, 6) == b"abcdef", "the cache has it"
        disk.power_cut()
        assert disk.read(FILE)[3:] == b"def"
        lost += disk.read(FILE)[:3] != b"abc"
    assert lost


@pytest.mark.parametrize("operation", ["rename", "remove"])
def test_directory_change_whose_sync_failed_may_be_undone(operation: str) -> None:
    there = set()
    for seed in range(20):
        disk, _ = disk_with_file(seed)
        disk.fail("any", effect=Effect.PARTLY)
        with pytest.raises(OSError, match="simulated EIO"):
            disk.rename(FILE, FOLDER / "new") if operation == "rename" else disk.remove(FILE)
        assert not disk.exists(FILE)
        disk.power_cut()
        assert disk.exists(FOLDER / "new") == (operation == "rename" and not disk.exists(FILE))
        there.add(disk.exists(FILE))
    assert there == {True, False}


def test_replacement_that_fails_leaves_the_old_bytes_and_maybe_its_own_beside_them() -> None:
    disk, _ = disk_with_file()
    disk.replace(FILE, b"old")
    disk.fail("replace", effect=Effect.PARTLY)
    with pytest.raises(OSError, match="simulated EIO"):
        disk.replace(FILE, b"new")
    assert disk.names(FOLDER) == ["file", "file.new"]
    assert disk.read(FILE) == b"old"


def test_disk_is_full_when_a_file_is_created_or_grows() -> None:
    disk = SimulatedDisk(capacity_bytes=1000)
    disk.make_directory(FOLDER)
    file = disk.create(FILE, 900)
    assert disk.free_bytes(FOLDER) == 100
    with pytest.raises(OSError, match="full"):
        disk.create(FOLDER / "other", 101)
    assert disk.names(FOLDER) == ["file"]
    file.write(bytes(900), 0)
    with pytest.raises(OSError, match="full") as failed:
        file.write(bytes(101), 900)
    assert failed.value.errno == errno.ENOSPC
    disk.remove(FILE)
    disk.create(FILE, 1000)


def test_broken_disk_can_be_read_only() -> None:
    disk, file = disk_with_file()
    disk.break_down()
    for use in (
        file.sync,
        lambda: file.write(b"x", 0),
        lambda: disk.remove(FILE),
        lambda: disk.create(FOLDER / "f", 1),
    ):
        for _ in range(2):
            with pytest.raises(OSError, match="simulated EIO"):
                use()
    assert file.read(0, 1) == b"\0"
    disk.repair()
    file.sync()


def test_flipped_bit_is_on_the_medium() -> None:
    disk, file = disk_with_file()
    file.write(b"a", 0)
    file.sync()
    disk.flip_bit(FILE, 0, bit=1)
    assert disk.read(FILE)[:1] == b"c"
    disk.power_cut()
    assert disk.read(FILE)[:1] == b"c"


def test_read_fails() -> None:
    disk, file = disk_with_file()
    disk.fail("read", error=EIO, times=2)
    with pytest.raises(OSError, match="simulated EIO"):
        file.read(0, 1)
    with pytest.raises(OSError, match="simulated EIO"):
        disk.read(FILE)
    assert file.read(0, 1) == b"\0"
