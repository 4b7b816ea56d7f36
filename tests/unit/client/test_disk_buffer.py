"""`DiskBuffer`: what was appended is there after any accident, and what never was is not."""

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client import disk_buffer
from ackwire.client.buffers import ENTRY_BYTES, BufferFull
from ackwire.client.disk_buffer import MAGIC, DiskBuffer
from ackwire.client.errors import IllegalStateError


def contents(buffer: DiskBuffer) -> list[bytes]:
    return [entry.data for entry in buffer.first(10_000, 1 << 30)]


def written(folder: Path, *texts: bytes) -> list[Path]:
    """A buffer with these entries, closed; its files that hold entries."""
    buffer = DiskBuffer(folder)
    for text in texts:
        buffer.append(text, 7)
    buffer.close()
    return [path for path in sorted(folder.glob("*.buffer")) if path.stat().st_size > len(MAGIC)]


def found(folder: Path) -> list[bytes]:
    buffer = DiskBuffer(folder)
    try:
        return contents(buffer)
    finally:
        buffer.close()


def test_M2_entries_are_kept_in_order_through_a_restart(tmp_path: Path) -> None:
    written(tmp_path, b"one", b"", b"three")
    buffer = DiskBuffer(tmp_path)
    buffer.append(b"four", 8)
    assert contents(buffer) == [b"one", b"", b"three", b"four"]
    assert (buffer.count, buffer.size_bytes, buffer.oldest_ms) == (4, 12 + 4 * ENTRY_BYTES, 7)
    buffer.close()
    assert (buffer.count, buffer.oldest_ms) == (4, 7)


def test_M2_an_entry_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path / "a")
    buffer.append(b"one", 7)
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # as a killed process leaves it
    assert found(tmp_path / "b") == [b"one"]
    buffer.close()


def test_what_has_arrived_is_gone_after_a_restart(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    for text in (b"one", b"two", b"three"):
        buffer.append(text, 7)
    buffer.remove(entry.sequence for entry in buffer.first(2, 1 << 20))
    assert contents(buffer) == [b"three"]
    buffer.close()
    assert found(tmp_path) == [b"three"]


def test_what_arrived_out_of_order_is_skipped_now_and_may_come_again_later(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    for text in (b"one", b"two", b"three"):
        buffer.append(text, 7)
    _, two, _ = buffer.first(3, 1 << 20)
    buffer.remove([two.sequence])
    assert contents(buffer) == [b"one", b"three"]
    assert buffer.count == 2
    buffer.close()
    assert found(tmp_path) == [b"one", b"two", b"three"]


def test_removing_twice_is_removing_once(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    buffer.append(b"one", 7)
    for _ in range(2):
        buffer.remove([0])
    buffer.append(b"two", 7)
    assert (contents(buffer), buffer.count) == ([b"two"], 1)
    buffer.close()


def test_first_returns_no_more_than_asked_and_one_at_least(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    for text in (b"12345", b"67890", b"abc"):
        buffer.append(text, 7)
    assert [entry.data for entry in buffer.first(2, 1 << 20)] == [b"12345", b"67890"]
    assert [entry.data for entry in buffer.first(9, 10)] == [b"12345", b"67890"]
    assert [entry.data for entry in buffer.first(9, 1)] == [b"12345"]
    buffer.close()


@pytest.mark.parametrize("fsync", [False, True])
def test_M2_full_is_an_error_that_keeps_nothing_and_ends_when_one_has_arrived(tmp_path: Path, fsync: bool) -> None:
    buffer = DiskBuffer(tmp_path, bytes_max=2 * ENTRY_BYTES + 6, fsync=fsync)
    buffer.append(b"one", 7)
    buffer.append(b"two", 7)
    with pytest.raises(BufferFull):
        buffer.append(b"", 7)
    buffer.remove([0])
    buffer.append(b"new", 7)
    assert contents(buffer) == [b"two", b"new"]
    buffer.close()


def test_M2_a_torn_tail_is_cut_at_every_position(tmp_path: Path) -> None:
    (path,) = written(tmp_path / "whole", b"one", b"three", b"")
    data = path.read_bytes()
    ends = [len(MAGIC), len(MAGIC) + ENTRY_BYTES + 3, len(MAGIC) + 2 * ENTRY_BYTES + 8, len(data)]
    for cut in range(len(data) + 1):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        (folder / path.name).write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends[1:])
        assert found(folder) == [b"one", b"three", b""][:whole], cut
        assert not list(folder.glob("*.damaged")), cut
        written(folder, b"next")
        assert found(folder) == [*[b"one", b"three", b""][:whole], b"next"], cut


def test_M2_damage_in_one_entry_costs_that_entry_and_its_bytes_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = written(tmp_path / "whole", b"one", b"two", b"three")
    data = path.read_bytes()
    start = len(MAGIC) + ENTRY_BYTES + 3
    for position in range(start, start + ENTRY_BYTES + 3):
        folder = tmp_path / f"flip-{position}"
        folder.mkdir()
        (folder / path.name).write_bytes(data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            left = found(folder)
        in_data = position >= start + ENTRY_BYTES
        # Where the head is wrong nobody knows how long the entry is: all behind it is set aside.
        assert left == ([b"one", b"three"] if in_data else [b"one"]), position
        (aside,) = folder.glob("*.damaged")
        assert aside.stat().st_size == (ENTRY_BYTES + 3 if in_data else 2 * ENTRY_BYTES + 8)
        assert str(aside) in caplog.text


def test_damage_is_skipped_while_entries_around_it_arrive(tmp_path: Path) -> None:
    (path,) = written(tmp_path, b"one", b"two", b"three")
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + 2 * ENTRY_BYTES + 3] ^= 1
    path.write_bytes(data)
    buffer = DiskBuffer(tmp_path)
    buffer.append(b"four", 7)
    for expected in ([b"one", b"three", b"four"], [b"three", b"four"], [b"four"], []):
        assert contents(buffer) == expected
        buffer.remove(entry.sequence for entry in buffer.first(1, 1))
    buffer.close()


def test_a_file_that_is_none_of_ours_is_set_aside(tmp_path: Path) -> None:
    (path,) = written(tmp_path, b"one")
    other = path.with_name("0000000099.buffer")
    other.write_bytes(b"something else entirely")
    assert found(tmp_path) == [b"one"]
    (aside,) = tmp_path.glob("*.damaged")
    assert aside.read_bytes() == b"something else entirely"


def test_M2_a_torn_or_damaged_position_never_hides_an_entry(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path / "whole")
    for number in range(4):
        buffer.append(b"%d" % number, 7)
    buffer.remove([0])
    buffer.remove([1])
    buffer.close()
    position = (tmp_path / "whole" / "position").read_bytes()
    for cut in range(len(position) + 1):
        folder = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "position").write_bytes(position[:cut])
        assert found(folder)[-2:] == [b"2", b"3"], cut
    for place in range(len(position)):
        folder = tmp_path / f"flip-{place}"
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "position").write_bytes(position[:place] + bytes([position[place] ^ 0x81]) + position[place + 1 :])
        assert found(folder)[-2:] == [b"2", b"3"], place


def test_files_are_left_when_large_and_deleted_when_all_in_them_has_arrived(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path, file_bytes=100)
    for number in range(50):
        buffer.append(b"entry %02d" % number, 7)
    assert len(list(tmp_path.glob("*.buffer"))) > 10
    while batch := buffer.first(7, 1 << 20):
        buffer.remove(entry.sequence for entry in batch)
    assert len(list(tmp_path.glob("*.buffer"))) == 1
    assert (buffer.count, buffer.size_bytes, buffer.oldest_ms) == (0, 0, None)
    buffer.append(b"more", 7)
    assert contents(buffer) == [b"more"]
    buffer.close()
    assert found(tmp_path) == [b"more"]


def test_a_buffer_that_is_always_emptied_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_buffer, "EMPTY_FILE_BYTES", 200)
    buffer = DiskBuffer(tmp_path)
    for number in range(100):
        buffer.append(b"x" * 50, number)
        buffer.remove([number])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000
    buffer.close()
    assert found(tmp_path) == []


def test_M2_a_folder_is_used_by_one_buffer_at_a_time(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    with pytest.raises(IllegalStateError, match=f"in use by another buffer, of process {os.getpid()}"):
        DiskBuffer(tmp_path)
    code = "import sys; from ackwire.client.disk_buffer import DiskBuffer; DiskBuffer(sys.argv[1])"
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "in use by another buffer" in other.stderr
    buffer.close()
    DiskBuffer(tmp_path).close()


def test_a_closed_buffer_says_so(tmp_path: Path) -> None:
    buffer = DiskBuffer(tmp_path)
    buffer.close()
    buffer.close()
    for use in (lambda: buffer.append(b"", 7), lambda: buffer.first(1, 1), lambda: buffer.remove([0])):
        with pytest.raises(IllegalStateError):
            use()


def failing_after(count: int) -> Callable[[int, bytes, int], int]:
    real = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal count
        if count <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, data[:count], offset)
        count -= written
        return written

    return pwrite


@pytest.mark.parametrize("room", range(0, ENTRY_BYTES + 8, 3))
def test_M2_a_disk_that_is_full_is_an_error_and_damages_nothing(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = DiskBuffer(tmp_path)
    buffer.append(b"one", 7)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing_after(room))
        with pytest.raises(BufferFull, match="No space left"):
            buffer.append(b"too much", 7)
    assert contents(buffer) == [b"one"]
    buffer.append(b"two", 7)
    assert contents(buffer) == [b"one", b"two"]
    buffer.close()
    assert found(tmp_path) == [b"one", b"two"]
    assert not list(tmp_path.glob("*.damaged"))


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=40)),
        st.tuples(st.just("remove"), st.integers(1, 5)),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("tear"), st.integers(1, 30)),
    ),
    max_size=40,
)


@given(steps=_STEPS)
def test_M2_a_disk_buffer_behaves_as_a_list_that_survives(
    steps: list[tuple[str, bytes | int | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("buffer")
    model: list[bytes] = []
    buffer = DiskBuffer(folder, file_bytes=120)
    for step, value in steps:
        if isinstance(value, bytes):
            buffer.append(value, 7)
            model.append(value)
        elif step == "remove":
            assert isinstance(value, int)
            buffer.remove(entry.sequence for entry in buffer.first(value, 1 << 20))
            del model[:value]
        else:
            buffer.close()
            if isinstance(value, int):  # an append that the crash caught half way
                newest = max(folder.glob("*.buffer"))
                unfinished = disk_buffer._record(b"never finished", 7)
                with newest.open("ab") as file:
                    file.write(unfinished[:value])
            buffer = DiskBuffer(folder, file_bytes=120)
        assert contents(buffer) == model
        assert buffer.count == len(model)
    buffer.close()
    assert not list(folder.glob("*.damaged"))
    shutil.rmtree(folder)
