"""The traits of ActiveMQ's AMQ store are the journal's: files of 32 MB, each gone once all in it is consumed (K2)."""

from pathlib import Path

import pytest

from ackwire.config import Settings
from tests.helpers.store_on_disk import StoreOnDisk

pytestmark = pytest.mark.usefixtures("every_index")
MESSAGE_BYTES = 4 << 20


def test_K2_files_have_32_MiB_and_go_when_all_in_them_is_consumed(tmp_path: Path) -> None:
    segment_bytes = Settings().store.segment_bytes
    assert segment_bytes == 32 << 20
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=segment_bytes)
    with disk:
        sent = [disk.send("queue://orders", f"{number}" + "x" * MESSAGE_BYTES) for number in range(20)]
        first, second, *_ = disk.segments()
        assert [it.stat().st_size for it in disk.segments()] == [segment_bytes] * 3
        held = disk.store.journal.catalog.segments[1].live_messages
        assert 0 < held < len(sent)
        for message in sent[: held - 1]:
            disk.remove("queue://orders", message)
        disk.store.checkpoint()
        disk.settle()
        assert first.exists()
        disk.remove("queue://orders", sent[held - 1])
        disk.clock.advance(10)
        assert not first.exists()
        assert second.exists()
        left = len(sent) - held
        assert len(disk.texts()["queue://orders"]) == left
    with disk:
        assert len(disk.texts()["queue://orders"]) == left
        assert disk.store.report.damages == []
