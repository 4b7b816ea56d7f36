"""The temp store: spilled frames come back, files go when nobody needs them, a bad disk is no disaster (B6, B7)."""

import errno
from pathlib import Path
from typing import Any, cast

import pytest

from ackwire.store.contract import SpillDamaged
from ackwire.store.files import DataFile, Files, OsFiles
from ackwire.store.temp import TempStore

HEAD_BYTES = 8


class PoorDisk:
    """A disk with room for so many bytes, or none for new files; all else is as `OsFiles` does it."""

    def __init__(self, room_bytes: int) -> None:
        self._files = OsFiles()
        self.room_bytes = room_bytes
        self.attempts = 0
        self.fails_reads = False

    def create(self, path: Path, size_bytes: int) -> DataFile:
        return _PoorFile(self, self._files.create(path, size_bytes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


class _PoorFile:
    def __init__(self, disk: PoorDisk, file: DataFile) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: bytes, offset: int) -> None:
        self._disk.attempts += 1
        if len(data) > self._disk.room_bytes:
            self._file.write(data[: self._disk.room_bytes], offset)  # as a disk does that fills up on the way
            raise OSError(errno.ENOSPC, "No space left on device")
        self._disk.room_bytes -= len(data)
        self._file.write(data, offset)

    def read(self, offset: int, length: int) -> bytes:
        if self._disk.fails_reads:
            raise OSError(errno.EIO, "Input/output error")
        return self._file.read(offset, length)

    def read_cached(self, offset: int, length: int) -> bytes | None:
        return self._file.read_cached(offset, length)

    def expect_read(self, offset: int, length: int) -> None:
        self._file.expect_read(offset, length)

    def sync(self) -> None:
        raise AssertionError("a temp store never syncs")

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def close(self) -> None:
        self._file.close()


def _store(directory: Path, bytes_max: int = 1 << 20, file_bytes: int = 1 << 20) -> TempStore:
    return TempStore(OsFiles(), directory, bytes_max, file_bytes=file_bytes)


def _kept(store: TempStore, frame: bytes) -> int:
    ticket = store.append(frame)
    assert ticket is not None
    assert ticket > 0
    return ticket


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("size_bytes", [0, 1, 4087, 4088, 4089, 100_000])
def test_B6_what_is_spilled_can_be_read_as_often_as_you_like(tmp_path: Path, size_bytes: int) -> None:
    store = _store(tmp_path)
    before, frame = _kept(store, b"before"), bytes(index % 251 for index in range(size_bytes))
    ticket = _kept(store, frame)
    _kept(store, b"behind")
    assert [store.read(ticket), store.read(ticket), store.read(before)] == [frame, frame, b"before"]
    store.close()


def test_B6_a_file_goes_when_nothing_in_it_is_needed(tmp_path: Path) -> None:
    store = _store(tmp_path, bytes_max=1000, file_bytes=100)
    tickets = [_kept(store, bytes(42)) for _ in range(6)]  # two to a file
    assert len(_names(tmp_path)) == 3
    store.free(tickets[2])
    assert len(_names(tmp_path)) == 3
    store.free(tickets[3])
    assert len(_names(tmp_path)) == 2
    assert store.used_bytes == 200
    assert store.read(tickets[4]) == bytes(42)
    for ticket in (0, 1, 4, 5):
        store.free(tickets[ticket])
    assert (store.used_bytes, _names(tmp_path)) == (0, [])
    store.close()


def test_B6_the_file_being_written_begins_again_when_all_in_it_is_freed(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for round_ in range(3):
        tickets = [_kept(store, b"%d-%d" % (round_, n)) for n in range(3)]
        assert [store.read(ticket) for ticket in tickets] == [b"%d-%d" % (round_, n) for n in range(3)]
        for ticket in tickets:
            store.free(ticket)
        assert store.used_bytes == 0
    assert len(_names(tmp_path)) == 1
    store.close()
    assert _names(tmp_path) == []


def test_B6_the_limit_is_kept_and_room_comes_back(tmp_path: Path) -> None:
    store = _store(tmp_path, bytes_max=2 * (HEAD_BYTES + 10))
    tickets = [_kept(store, bytes(10)) for _ in range(2)]
    assert not store.has_room(1)
    assert store.append(b"x") is None
    for ticket in tickets:
        store.free(ticket)
    assert store.has_room(10)
    assert not store.has_room(29)
    assert store.append(bytes(29)) is None
    _kept(store, bytes(10))
    store.close()


def test_B6_a_full_disk_is_a_full_temp_store_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = PoorDisk(room_bytes=30)
    store = TempStore(cast(Files, disk), tmp_path, 1 << 20)
    first = _kept(store, bytes(10))
    for _ in range(100):
        assert store.append(bytes(10)) is None
    assert not store.has_room(1)
    assert disk.attempts == 2, "a disk that refuses is not asked every time"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "No space left on device" in caplog.text
    assert store.read(first) == bytes(10)
    disk.room_bytes = 100
    store.free(first)
    assert store.read(_kept(store, b"again")) == b"again"
    store.close()


def test_B6_a_disk_that_has_room_again_is_found_without_anything_being_freed(tmp_path: Path) -> None:
    disk = PoorDisk(room_bytes=0)
    store = TempStore(cast(Files, disk), tmp_path, 1 << 20)
    assert store.append(b"x") is None
    disk.room_bytes = 100_000
    answers = [store.append(b"x") for _ in range(1000)]
    assert any(answers)
    assert store.has_room(1)
    store.close()


def test_B7_spilled_messages_are_gone_after_a_restart_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "spill-00000007.tmp").write_bytes(b"of a run that crashed")
    (tmp_path / "spill.txt").write_bytes(b"somebody else's")
    store = _store(tmp_path / ".")
    assert _names(tmp_path) == ["spill.txt"]
    store.close()


@pytest.mark.parametrize(
    ("offset", "data", "problem"),
    [
        (HEAD_BYTES + 3, b"?", "the checksum of 10 bytes is wrong"),
        (0, b"\0\0\0\x09", "the checksum of 9 bytes is wrong"),
        (0, b"\xff\xff\xff\xff", "a message would end at"),
    ],
)
def test_B6_damage_is_found_and_named(tmp_path: Path, offset: int, data: bytes, problem: str) -> None:
    store = _store(tmp_path)
    ticket = _kept(store, bytes(10))
    [name] = _names(tmp_path)
    file = OsFiles().open(tmp_path / name)
    file.write(data, offset)
    file.close()
    with pytest.raises(SpillDamaged, match=problem):
        store.read(ticket)
    store.free(ticket)
    store.close()


def test_B6_a_file_that_cannot_be_read_is_damage_too(tmp_path: Path) -> None:
    disk = PoorDisk(room_bytes=1000)
    store = TempStore(cast(Files, disk), tmp_path, 1 << 20)
    ticket = _kept(store, b"x")
    disk.fails_reads = True
    with pytest.raises(SpillDamaged, match=r"spill-00000001.tmp cannot be read at 0: Input/output error"):
        store.read(ticket)
    store.close()


def test_files_open_at_once_are_bounded(tmp_path: Path) -> None:
    """A large limit makes large files, not many."""
    store = _store(tmp_path, bytes_max=256 * 10_000, file_bytes=10)
    for _ in range(100):
        _kept(store, bytes(92))
    assert len(_names(tmp_path)) == 1
    store.close()
