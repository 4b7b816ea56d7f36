"""The format on disk does not change by accident: what an earlier version wrote is opened, and would be written again.

`earlier_version.zip` is the data folder that `write_everything` left when version 0.1.0 ran it. A change of the format
on purpose gets a second archive beside it, and the first must still open.
"""

from pathlib import Path
from zipfile import ZipFile

from ackwire.jms.destinations import parse_destination
from ackwire.store.contract import BatchRecord, CursorRecord, StagedRecord
from ackwire.wire.openwire import commands
from tests.helpers.store_on_disk import StoreOnDisk, where
from tests.helpers.stored import difference, kept

ARCHIVE = Path(__file__).parent / "earlier_version.zip"
ORDERS, LAST = parse_destination("queue://orders"), parse_destination("queue://last")


def write_everything(disk: StoreOnDisk) -> None:
    """Every kind of record, a clean stop, a new start, and a crash behind the index's last checkpoint."""
    with disk:
        messages = disk.fill()
        disk.store.mark_dispatched(ORDERS, 10)
        disk.store.put_state_record(CursorRecord("reader", ORDERS, ORDERS, "n = 1", 3, 2, (5, 2), ()))
        disk.store.put_state_record(StagedRecord("spark", "part 1", 7, 1000, True, ((LAST, (5, 3)),)))
        disk.store.put_state_record(BatchRecord("spark", 6, 2000))
        disk.settle()
        disk.clock.advance(20)  # checkpoints, and segments that go
        disk.store.remove_many(ORDERS, [it.sequence for it in messages[:12]])
        disk.settle()
        disk.clock.advance(20)
    disk.__enter__()
    job = disk.schedule("job-3", "queue://later")
    disk.store.add_job(job)  # known: only when it is due
    disk.store.drop_state_record("batch spark")
    disk.store.unmark_dispatched(ORDERS, 5)
    disk.store.remember_count(b"a producer that is not heard of otherwise", 12)
    disk.prepare(2, [disk.unstamped("queue://paid")], [])
    disk.store.decide(commands.XATransactionId(2, b"global", b"branch"))
    with disk.store.atomically():
        disk.store.append(disk.message("queue://grouped", "a"), [where("queue://grouped")])
        disk.store.append(disk.message("queue://grouped", "b"), [where("queue://grouped")])
        disk.store.committed(commands.LocalTransactionId(4, commands.ConnectionId("c")))
    disk.settle()
    disk.store.purge(LAST, disk.store.last_sequence(), [])
    disk.send("queue://gone", "with its queue")
    disk.store.remove_place(where("queue://gone"))
    disk.settle()
    disk.crash()


def segments(data: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in sorted((data / "journal").glob("*.log"))}


def test_K2_a_store_of_an_earlier_version_is_opened_with_all_that_is_in_it(tmp_path: Path) -> None:
    ZipFile(ARCHIVE).extractall(tmp_path)
    write_everything(StoreOnDisk(tmp_path / "today"))
    with StoreOnDisk(tmp_path / "data") as earlier, StoreOnDisk(tmp_path / "today") as today:
        assert not earlier.store.report.damages
        assert not earlier.store.report.is_rebuilt
        assert difference(kept(earlier.store), kept(today.store)) == ""
        texts = earlier.texts()
    assert texts["queue://grouped"] == ["a", "b"]
    assert texts["durable subscription s of client d"] == ["for both"]
    assert len(texts["queue://orders"]) == 8


def test_K2_the_journal_is_written_byte_for_byte_as_by_an_earlier_version(tmp_path: Path) -> None:
    ZipFile(ARCHIVE).extractall(tmp_path)
    write_everything(StoreOnDisk(tmp_path / "today"))
    earlier, today = segments(tmp_path / "data"), segments(tmp_path / "today")
    assert earlier
    assert [*today] == [*earlier]
    assert [name for name in earlier if earlier[name] != today[name]] == []
