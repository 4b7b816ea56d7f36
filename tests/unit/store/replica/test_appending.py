"""What a copy refuses, and that nothing of it is written."""

from collections.abc import Callable

import pytest

from ackwire.store.journal.record import HEADER_BYTES, pack_record, seed_of
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, segment_path
from ackwire.store.journal.shipping import Chunk, LogEnd, RefusedChunk
from tests.helpers.replica import JOURNAL, ReplicaNode, chunks, ship
from tests.helpers.stored import Messages, Q

GOOD_BYTES = 4 * HEADER_BYTES


def group_with(messages: int) -> tuple[ReplicaNode, ReplicaNode]:
    """A master of epoch 2 with some messages of 1000 bytes in its journal, and a follower that has nothing of it."""
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(2)
    made = Messages()
    for _ in range(messages):
        store.append(made.make(Q, "x" * 1000), [Q])
        master.settle()
    follower.promise(2)
    return master, follower


def with_byte(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


FIRST: dict[str, Callable[[Chunk], Chunk]] = {
    "another segment": lambda it: it._replace(segment=2),
    "no header": lambda it: it._replace(offset=SEGMENT_HEADER_BYTES, data=it.data[SEGMENT_HEADER_BYTES:]),
    "a damaged header": lambda it: it._replace(data=with_byte(it.data, 20)),
    "a header of zeros": lambda it: it._replace(data=bytes(SEGMENT_HEADER_BYTES) + it.data[SEGMENT_HEADER_BYTES:]),
    "a header and nothing else": lambda it: it._replace(data=it.data[:SEGMENT_HEADER_BYTES]),
    "another size": lambda it: it._replace(segment_bytes=it.segment_bytes + 8),
    "a size beyond what a segment may have": lambda it: it._replace(segment_bytes=1 << 32),
    "a size that is too small": lambda it: it._replace(segment_bytes=64),
    "a first number that leaps": lambda it: it._replace(first_number=2),
    "nothing": lambda it: it._replace(data=b""),
}

LATER: dict[str, Callable[[Chunk], Chunk]] = {
    "a damaged record": lambda it: it._replace(data=with_byte(it.data, HEADER_BYTES + 3)),
    "a damaged marker": lambda it: it._replace(data=with_byte(it.data, 0)),
    "half a record": lambda it: it._replace(data=it.data[:-8]),
    "bytes behind its records": lambda it: it._replace(data=it.data + bytes(8)),
    "a lower offset: it overlaps": lambda it: it._replace(offset=it.offset - 8),
    "a higher offset: it leaves a hole": lambda it: it._replace(offset=it.offset + 8),
    "an odd offset": lambda it: it._replace(offset=it.offset + 1),
    "a negative offset": lambda it: it._replace(offset=-8),
    "the next segment, without a header": lambda it: it._replace(segment=it.segment + 1),
    "the same records again": lambda it: it._replace(first_number=it.first_number - 1),
    "a number that leaps": lambda it: it._replace(first_number=it.first_number + 1),
    "another last record": lambda it: it._replace(last=LogEnd(it.last.epoch, it.last.number + 1)),
    "another last epoch": lambda it: it._replace(last=LogEnd(1, it.last.number)),
    "more than the segment can hold": lambda it: it._replace(data=it.data * 20),
    "another size of the segment": lambda it: it._replace(segment_bytes=it.segment_bytes * 2),
}


def refused(follower: ReplicaNode, chunk: Chunk) -> str:
    """Why *chunk* is refused; nothing of it is written."""
    before, end, calls = follower.segments(), follower.copy.end(), len(follower.disk.calls)
    with pytest.raises(RefusedChunk) as caught:
        follower.copy.append(chunk)
    assert (follower.segments(), follower.copy.end()) == (before, end)
    done = [it for it in follower.disk.calls[calls:] if it.operation not in ("names", "read")]
    assert not done, "it is looked at before any space is taken"
    return str(caught.value)


@pytest.mark.parametrize("what", FIRST)
def test_a_first_chunk_is_refused_with(what: str) -> None:
    master, follower = group_with(1)
    first = chunks(master, 0, 1)[0]
    refused(follower, FIRST[what](first))
    ship(master, follower)
    assert follower.copy.durable() == master.source.end()  # type: ignore[union-attr]


@pytest.mark.parametrize("what", LATER)
def test_a_later_chunk_is_refused_with(what: str) -> None:
    master, follower = group_with(5)
    first, second, *_ = chunks(master, 0, 1)
    follower.copy.append(first)
    refused(follower, LATER[what](second))
    ship(master, follower)
    assert follower.copy.durable() == master.source.end()  # type: ignore[union-attr]


def test_a_chunk_that_was_taken_is_refused_the_second_time() -> None:
    master, follower = group_with(3)
    first, second, *_ = chunks(master, 0, 1)
    follower.copy.append(first)
    follower.copy.append(second)
    assert "3 is the next" in refused(follower, second)
    assert "3 is the next" in refused(follower, first)


def test_records_of_another_store_are_refused() -> None:
    master, follower = group_with(5)
    first, second, *_ = chunks(master, 0, 1)
    follower.copy.append(first)
    record = b"".join(pack_record(1, 0, 2, 2, 1, [bytes(16)], seed_of(b"another store id")))
    refused(follower, second._replace(data=record))


def test_a_segment_of_another_store_is_refused() -> None:
    master, follower = group_with(20)
    shipped = chunks(master, 0)
    follower.copy.append(shipped[0])
    later = shipped[1]
    foreign = SegmentHeader(later.segment, 2, b"another store id", later.first_number, 0, later.segment_bytes).pack()
    assert "another store" in refused(follower, later._replace(data=foreign + later.data[SEGMENT_HEADER_BYTES:]))


def test_an_epoch_that_was_not_promised_is_refused() -> None:
    master, _ = group_with(3)
    follower = ReplicaNode(5)
    follower.promise(1)
    assert "1 was promised" in refused(follower, chunks(master, 0)[0])


def test_an_epoch_below_the_last_one_is_refused() -> None:
    master, follower = group_with(3)
    first, second, *_ = chunks(master, 0, 1)
    follower.copy.append(first)
    seed = seed_of(master.source.store_id)  # type: ignore[union-attr]
    record = b"".join(pack_record(1, 0, 1, 2, 1, [bytes(16)], seed))
    why = refused(follower, second._replace(data=record, last=LogEnd(1, 2)))
    assert "epoch 1, behind one of 2" in why


def test_a_copy_whose_disk_fails_takes_nothing_more() -> None:
    master, follower = group_with(3)
    first, second, *_ = chunks(master, 0, 1)
    follower.copy.append(first)
    follower.disk.fail("write")
    with pytest.raises(Exception, match="could not write to"):
        follower.copy.append(second)
    with pytest.raises(Exception, match="could not write to"):
        follower.copy.append(second)
    assert len(follower.failures) == 1


def test_a_sync_that_fails_is_told_to_all_who_wait_and_nothing_is_called_durable() -> None:
    master, follower = group_with(3)
    ship(master, follower)
    before = follower.copy.durable()
    store = master.store
    assert store is not None
    store.append(Messages().make(Q, "y"), [Q])
    master.settle()
    for chunk in chunks(master, before.number):
        follower.copy.append(chunk)
    told: list[Exception | None] = []
    follower.disk.fail("sync")
    follower.copy.sync(told.append)
    follower.copy.sync(told.append)
    follower.settle()
    follower.copy.sync(told.append)
    assert len(told) == 3
    assert all(told)
    assert follower.copy.durable() == before


def test_one_sync_serves_all_that_came_while_another_was_under_way() -> None:
    master, follower = group_with(6)
    syncs = [0]
    told: list[Exception | None] = []
    shipped = chunks(master, 0, 1)
    for chunk in shipped:
        follower.copy.append(chunk)
        follower.copy.sync(told.append)
    before = len(follower.disk.calls)
    follower.settle()
    syncs[0] = sum(1 for it in follower.disk.calls[before:] if it.operation == "sync" and it.path.suffix == ".log")
    assert told == [None] * len(shipped)
    assert syncs[0] <= 3
    assert follower.copy.durable() == shipped[-1].last


def test_a_segment_that_disappears_while_nothing_comes_ends_the_service_of_the_copy() -> None:
    master, follower = group_with(20)
    ship(master, follower)
    follower.wait(1)
    follower.disk.lose(segment_path(JOURNAL, 1))
    follower.wait(1)
    assert "is gone" in str(follower.failures[0])
