"""The spool keeps events through crashes and full disks, and says so when it cannot."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import ackwire.audit.spool
from ackwire.audit.chunks import Chunk
from ackwire.audit.spool import AuditUnusable
from tests.helpers.broker_rig import BrokerRig
from tests.unit.audit.rigs import FileAudit, events


class Disk:
    """Lets writes of the spool fail: none, all, or after some bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.takes_bytes = 0
        real = os.pwrite

        def pwrite(descriptor: int, data: Any, offset: int) -> int:
            if not self.is_full:
                return real(descriptor, data, offset)
            if self.takes_bytes:
                taken, self.takes_bytes = self.takes_bytes, 0
                return real(descriptor, data[:taken], offset)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("ackwire.audit.spool.os.pwrite", pwrite)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def rig_with(files: FileAudit) -> BrokerRig:
    rig = BrokerRig(clock=files.clock, audit=files.log)
    files.log.join(rig.broker.flow.on_audit_full)
    return rig


def send(rig: BrokerRig, count: int = 1) -> None:
    producer = rig.connect()
    for _ in range(count):
        producer.send("queue://orders")


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["number"] for row in rows]


# ---- the end of a process --------------------------------------------------------------------------------------


def test_what_was_flushed_is_there_after_the_end_of_the_process(tmp_path: Path) -> None:
    first = FileAudit(tmp_path)
    send(rig_with(first), 3)
    first.log.flush()
    first.spool.release()  # nothing else: it is gone
    second = FileAudit(tmp_path)
    assert len(second.chunks) == 1
    second.convert()
    assert [row["event"] for row in events(tmp_path)].count("sent") == 3


def test_a_torn_end_is_left_out_and_all_before_it_is_read(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    rig = rig_with(files)
    send(rig)
    files.log.flush()
    whole = files.spool._path.stat().st_size
    send(rig)
    files.log.flush()
    for size in range(whole, files.spool._path.stat().st_size):
        torn = tmp_path / "torn.spool"
        torn.write_bytes(files.spool._path.read_bytes()[:size])
        chunk = Chunk(torn)
        (section,) = chunk.sections()
        assert sum(block.events for block in section.blocks) == 3  # started, sent, stored
        assert chunk.unread_bytes == size - whole


def test_a_conversion_that_is_done_again_makes_the_same_file(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    send(rig_with(files), 5)
    files.close()
    (chunk,) = files.chunks
    data = chunk.read_bytes()
    (file,) = files.convert()
    once = events(tmp_path)
    chunk.write_bytes(data)
    files.chunks.append(chunk)
    assert files.convert() == [file]
    assert events(tmp_path) == once
    assert not list(tmp_path.rglob("*.tmp"))


def test_after_a_stop_in_peace_nothing_is_restored(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    assert files.log.started(7) == "not audited before"
    files.log.stopped(9)
    files.close()
    again = FileAudit(tmp_path)
    assert again.log.started(9) is None


def test_after_a_crash_everything_is_restored(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    files.log.started(7)
    files.log.flush()
    files.spool.release()
    assert FileAudit(tmp_path).log.started(7) == "the last run ended without a stop"


def test_what_happened_while_nobody_looked_is_noticed(tmp_path: Path) -> None:
    files = FileAudit(tmp_path)
    files.log.started(7)
    files.log.stopped(9)
    files.close()
    assert FileAudit(tmp_path).log.started(10) == "the broker ran without an audit"


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    FileAudit(tmp_path)
    with pytest.raises(AuditUnusable, match="is in use by a test"):
        FileAudit(tmp_path)


# ---- a disk that takes no more ---------------------------------------------------------------------------------


def test_events_wait_in_memory_while_the_disk_is_full_and_none_is_lost(tmp_path: Path, disk: Disk) -> None:
    files = FileAudit(tmp_path, when_full="drop")
    rig = rig_with(files)
    send(rig)
    files.log.flush()
    disk.is_full = True
    send(rig, 3)
    files.log.flush()
    disk.takes_bytes = 10  # a part of a block must not stay
    rig.clock.advance(2)
    disk.is_full = False
    rig.clock.advance(2)
    send(rig)
    rows = files.finish()
    assert numbers(rows) == list(range(1, len(rows) + 1))
    assert [row["event"] for row in rows].count("sent") == 5


def test_B6_sends_wait_while_the_disk_of_the_audit_is_full(tmp_path: Path, disk: Disk) -> None:
    files = FileAudit(tmp_path)
    rig = rig_with(files)
    producer, consumer = rig.connect("p"), rig.consumer("queue://orders")
    producer.send("queue://orders")
    disk.is_full = True
    files.log.flush()
    producer.send("queue://orders")
    assert producer.stored == 1
    assert "audit" in str(rig.broker.flow.is_full())
    consumer.ack()  # consumers go on
    disk.is_full = False
    rig.clock.advance(2)
    assert producer.stored == 2
    assert len(consumer.delivered) == 2
    rows = files.finish()
    assert numbers(rows) == list(range(1, len(rows) + 1))


def test_B6_what_was_held_for_longer_than_a_chunk_lasts_is_told_rightly(tmp_path: Path, disk: Disk) -> None:
    """The tick that finds the disk well again lets producers go on, and then ends the chunk."""
    files = FileAudit(tmp_path)
    rig = rig_with(files)
    producer, consumer = rig.connect("p"), rig.consumer("queue://orders")
    rig.consumer("queue://bills")
    for name in ("orders", "bills"):
        producer.send(f"queue://{name}")
    disk.is_full = True
    files.log.flush()
    for name in ("bills", "orders", "bills"):
        producer.send(f"queue://{name}")
    rig.clock.advance(2 * files.settings.roll_seconds)
    disk.is_full = False
    rig.clock.advance(2)
    consumer.ack_each()
    rows = files.finish()
    assert numbers(rows) == list(range(1, len(rows) + 1))
    sent = ["queue://orders", "queue://bills", "queue://bills", "queue://orders", "queue://bills"]
    assert [row["place"] for row in rows if row["event"] == "stored"] == sent
    assert [row["destination"] for row in rows if row["event"] == "sent"] == sent
    assert {row["consumer"] for row in rows if row["event"] == "acked"} == {consumer.subscription.consumer_id}


@pytest.mark.parametrize("takes_bytes", [0, 10])
def test_a_disk_that_is_full_when_a_chunk_begins(tmp_path: Path, disk: Disk, takes_bytes: int) -> None:
    files = FileAudit(tmp_path)
    rig = rig_with(files)
    rig.clock.advance(2 * files.settings.roll_seconds)
    assert len(files.chunks) == 1
    disk.is_full = True
    disk.takes_bytes = takes_bytes
    send(rig)
    files.log.flush()
    disk.is_full = False
    rig.clock.advance(2)
    rows = files.finish()
    assert numbers(rows) == list(range(1, len(rows) + 1))
    assert [row["event"] for row in rows].count("sent") == 1


def test_a_chunk_ends_with_so_many_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ackwire.audit.spool.__file__.endswith(".so"):
        pytest.skip("it changes what is fixed once it is compiled")
    monkeypatch.setattr("ackwire.audit.spool._ROLL_EVENTS", 10)
    files = FileAudit(tmp_path)
    rig = rig_with(files)
    for _ in range(4):
        send(rig, 3)
        files.log.flush()
    rows = files.finish()
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert numbers(rows) == list(range(1, len(rows) + 1))


def test_what_memory_has_no_room_for_is_dropped_and_its_numbers_are_missing(tmp_path: Path, disk: Disk) -> None:
    files = FileAudit(tmp_path, when_full="drop", buffer_bytes_max=4096)
    rig = rig_with(files)
    send(rig)
    files.log.flush()
    disk.is_full = True
    for _ in range(100):
        send(rig)
        files.log.flush()
    disk.is_full = False
    rig.clock.advance(2)
    send(rig)
    rows = files.finish()
    missing = set(range(1, rows[-1]["number"] + 1)) - set(numbers(rows))
    assert len(missing) == files.spool.dropped > 0
    assert rows[-1]["destination"] == "queue://orders", "texts that were dropped are defined again"


def test_a_disk_with_little_space_counts_as_full(tmp_path: Path) -> None:
    files = FileAudit(tmp_path, free_bytes_min=1 << 60)
    rig = rig_with(files)
    rig.clock.advance(2)
    assert "audit.free_bytes_min" in str(rig.broker.flow.is_full())
