"""`ackwire store`, in process: what only this shows is Ctrl-C at a chosen moment."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ackwire.cli.main import main
from ackwire.message import Message
from ackwire.store.contract import Place
from ackwire.store.engine import JournalStore
from tests.helpers.store_on_disk import StoreOnDisk


def test_K2_an_interrupted_import_leaves_a_sound_store_with_whole_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    assert main(["store", "export", str(disk.data), str(tmp_path / "all.jsonl")]) == 0
    append = JournalStore.append

    def append_and_press(store: JournalStore, message: Message, places: Sequence[Place]) -> None:
        append(store, message, places)
        if message.sequence == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(JournalStore, "append", append_and_press)
    assert main(["store", "import", str(tmp_path / "new"), str(tmp_path / "all.jsonl")]) == 1
    assert "interrupted; what was imported is whole: imported: 2 of kind durable, 3 of kind message" in (
        capsys.readouterr().err
    )
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
