"""The next segment of a journal: its space is taken early, and its blocks are written before they are needed."""

import os
from pathlib import Path

import pytest

from ackwire.store.files import OsFiles
from ackwire.store.journal.pending_records import PendingPayload
from ackwire.store.journal.record import RecordKind
from ackwire.store.journal.writer import SPARE_NAME, JournalWriter
from tests.helpers.journal import SMALL, JournalFactory
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stored import Messages, Q, kept

SEGMENT_BYTES = 600_000
BODY = "x" * 1500


def writer_in(folder: Path) -> JournalWriter:
    return JournalWriter(
        OsFiles(),
        folder,
        store_id=bytes(16),
        seed=1,
        epoch=1,
        segment_bytes=SEGMENT_BYTES,
        next_segment=1,
        next_number=1,
        on_segment=lambda _number, _size: None,
    )


def unwritten_at(path: Path) -> int:
    """Where the first block is that the file system has only promised; the size if there is none."""
    with path.open("rb") as file:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)


def test_a_filled_segment_has_no_block_that_was_never_written(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    spare = tmp_path / SPARE_NAME
    writer.keep_spare(writer.make_spare())
    if unwritten_at(spare) == SEGMENT_BYTES:
        pytest.skip("this file system does not tell")
    file = writer.take_spare()
    assert not writer.has_spare, "nobody may use it meanwhile"
    writer.fill(file)
    assert unwritten_at(spare) == SEGMENT_BYTES
    assert spare.read_bytes() == bytes(SEGMENT_BYTES)
    writer.keep_spare(file, is_filled=True)
    writer.close()


def test_the_next_segment_is_filled_when_half_of_this_one_is(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    sixth = bytes(SEGMENT_BYTES // 6)
    writer.write([PendingPayload(RecordKind.STATE_RECORD, sixth)])
    writer.keep_spare(writer.make_spare())
    wanted: list[bool] = []
    for _ in range(4):
        wanted.append(writer.wants_zeros)
        writer.write([PendingPayload(RecordKind.STATE_RECORD, sixth)])
    assert wanted == [False, False, True, True]
    writer.keep_spare(writer.take_spare(), is_filled=True)
    assert not writer.wants_zeros, "once is enough"
    writer.close()


def filled(disk: SimulatedDisk) -> int:
    return sum(call.operation == "write" and call.path.name == SPARE_NAME for call in disk.calls)


@pytest.mark.parametrize("seed", range(20))
def test_records_are_never_overwritten_whenever_the_zeros_come(seed: int) -> None:
    """The thread may be slow: the journal goes on in another segment then."""
    factory, messages = JournalFactory(seed), Messages()
    store = factory.open()
    for _ in range(40):
        store.append(messages.make(Q, BODY), [Q])
        store.when_durable(lambda: None)
        for _ in range(seed % 5 + 1):
            factory.step()
    factory.settle()
    expected = kept(store)
    assert filled(factory.disk) > 0
    factory.close()
    assert kept(factory.open()) == expected
    factory.close()


def test_a_disk_without_room_for_another_segment_keeps_its_spare_at_hand() -> None:
    factory, messages = JournalFactory(capacity_bytes=3 * SMALL.segment_bytes), Messages()
    store = factory.open()
    for _ in range(4):
        store.append(messages.make(Q, BODY), [Q])
        store.when_durable(lambda: None)
        factory.settle()
    assert filled(factory.disk) == 0
    factory.close()
