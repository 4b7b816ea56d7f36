"""The thread that makes Parquet files of chunks."""

import threading
from pathlib import Path

import pytest

from ackwire.audit import converter
from ackwire.audit.child import ChildFailed, ConvertingChild
from ackwire.audit.converter import Converter
from ackwire.audit.parquet_files import convert
from tests.helpers.broker_rig import BrokerRig
from tests.unit.audit.rigs import FileAudit, events


def chunk_in(folder: Path, name: str = "a.spool") -> Path:
    chunk = folder / name
    chunk.write_bytes(b"something")
    return chunk


def test_a_chunk_goes_when_its_file_is_there(tmp_path: Path) -> None:
    seen: list[tuple[Path, Path]] = []

    def note(chunk: Path, directory: Path) -> Path | None:
        assert chunk.exists()
        seen.append((chunk, directory))
        return None

    working = Converter(tmp_path, note)
    working.start()
    chunk = chunk_in(tmp_path)
    working.add(chunk)
    working.stop(10)
    assert seen == [(chunk, tmp_path)]
    assert not chunk.exists()


def test_a_chunk_that_the_disk_refuses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "RETRY_SECONDS", 0.01)
    tries: list[Path] = []
    done = threading.Event()

    def refuse_twice(chunk: Path, _: Path) -> Path | None:
        tries.append(chunk)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        done.set()
        return None

    working = Converter(tmp_path, refuse_twice)
    working.start()
    chunk = chunk_in(tmp_path)
    working.add(chunk)
    assert done.wait(10)
    working.stop(10)
    assert len(tries) == 3
    assert not chunk.exists()


def test_a_chunk_that_makes_no_sense_is_put_aside_and_the_next_one_is_converted(tmp_path: Path) -> None:
    working = Converter(tmp_path, convert)
    working.start()
    chunk = chunk_in(tmp_path)
    working.add(chunk)
    working.stop(10)
    assert [it.name for it in tmp_path.iterdir()] == ["a.spool.unreadable"]


# ---- in a process of its own -----------------------------------------------------------------------------------


def test_the_child_makes_the_same_file(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    rig = BrokerRig(clock=files.clock, audit=files.log)
    rig.connect("p").send("queue://orders")
    files.close()
    (chunk,) = files.chunks
    child = ConvertingChild()
    made = child.convert(chunk, tmp_path)
    there = events(tmp_path)
    assert files.convert() == [made]
    assert events(tmp_path) == there
    child.stop()


def test_the_child_says_what_is_wrong(tmp_path: Path) -> None:
    child = ConvertingChild()
    with pytest.raises(OSError, match="No such file"):
        child.convert(tmp_path / "nothing.spool", tmp_path)
    with pytest.raises(ValueError, match="has no header"):
        child.convert(chunk_in(tmp_path), tmp_path)
    child.stop()


def test_a_child_that_has_died_is_replaced(tmp_path: Path) -> None:
    child = ConvertingChild()
    child.start()
    assert child._process is not None
    child._process.kill()
    with pytest.raises(ChildFailed):
        child.convert(chunk_in(tmp_path), tmp_path)
    with pytest.raises(ValueError, match="has no header"):
        child.convert(chunk_in(tmp_path), tmp_path)
    child.stop()
