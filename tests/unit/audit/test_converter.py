"""The thread that makes Parquet files of chunks."""

import threading
from pathlib import Path

import pytest

from ackwire.audit import converter
from ackwire.audit.converter import Converter
from ackwire.audit.parquet_files import convert


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
