"""`ackwire store`, in process: what only this shows is Ctrl-C at a chosen moment."""

import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ackwire.cli.main import main
from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message
from ackwire.store.contract import CursorRecord, Place
from ackwire.store.files import DataFile, OsFiles
from ackwire.store.journal.journal_store import JournalStore
from tests.helpers.store_on_disk import StoreOnDisk, where


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export; in its folder is nothing else."""
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    folder = tmp_path / "folder"
    folder.mkdir()
    assert main(["store", "export", str(disk.data), str(folder / "all.jsonl")]) == 0
    return folder / "all.jsonl"


def press_at_the_fifth_message(monkeypatch: pytest.MonkeyPatch, number: signal.Signals = signal.SIGINT) -> None:
    append = JournalStore.append

    def append_and_press(store: JournalStore, message: Message, places: Sequence[Place]) -> None:
        append(store, message, places)
        if message.sequence == 5:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(JournalStore, "append", append_and_press)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_K2_an_interrupted_import_leaves_nothing_of_a_new_store(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
    press_at_the_fifth_message(monkeypatch, number)
    try:
        assert main(["store", "import", str(exported.parent / "deep" / "new"), str(exported)]) == 1
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capsys.readouterr().err.endswith("interrupted; nothing was imported\n")
    assert list(exported.parent.iterdir()) == [exported]


def test_K2_an_import_that_fails_leaves_an_empty_directory_empty(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mounted = exported.parent / "mounted"
    (mounted / "lost+found").mkdir(parents=True)
    lines = exported.read_text().splitlines()
    exported.write_text("\n".join([*lines[:-2], "nonsense", lines[-1]]))
    assert main(["store", "import", str(mounted), str(exported)]) == 2
    assert "nothing was imported" in capsys.readouterr().err
    assert [path.name for path in mounted.iterdir()] == ["lost+found"]
    exported.write_text("\n".join(lines))
    assert main(["store", "import", str(mounted), str(exported)]) == 0
    assert main(["store", "check", str(mounted)]) == 0


def test_K2_a_full_disk_leaves_nothing_of_a_new_store(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: OsFiles, path: Path, __: int) -> DataFile:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(OsFiles, "create", full)
    assert main(["store", "import", str(exported.parent / "new"), str(exported)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(exported.parent.iterdir()) == [exported]


def test_import_into_a_place_that_cannot_be_made_is_one_line(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "import", "/proc/nowhere", str(exported)]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("ackwire: /proc/")


def test_K2_an_interrupted_import_leaves_a_sound_store_with_whole_messages(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the store was there before, and empty."""
    with StoreOnDisk(tmp_path / "new"):
        pass
    press_at_the_fifth_message(monkeypatch)
    assert main(["store", "import", str(tmp_path / "new"), str(exported)]) == 1
    told = capsys.readouterr().err
    assert "interrupted; what was imported is whole: imported: 2 of kind durable" in told
    assert "3 of kind message" in told
    assert main(["store", "check", str(tmp_path / "new")]) == 0
    assert "3 messages in queue://orders" in capsys.readouterr().out


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.send("queue://orders")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["store", "export", str(disk.data), str(tmp_path / "all.parquet")]) == 2
    assert capsys.readouterr().err == "ackwire: Parquet needs pyarrow: pip install 'ackwire[export]'\n"
    assert not list(tmp_path.glob("all.*"))


def test_K2_check_finds_what_would_stop_a_start_and_repair_removes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
        nowhere = where("ackwire/lost")
        disk.store.put_state_record(CursorRecord("lost", nowhere, parse_destination("topic://t"), None, 0, 0, (), ()))
        disk.settle()
    assert main(["store", "check", str(disk.data)]) == 1
    assert "cursor lost cannot be brought back" in capsys.readouterr().out
    assert main(["store", "repair", "--yes", str(disk.data)]) == 0
    assert main(["store", "check", str(disk.data)]) == 0
