"""A whole journal comes in the place of an old one: whatever crashes, either the old one or the new one is complete."""

import pytest

from ackwire.store.journal.record import HEADER_BYTES
from ackwire.store.journal.segment import segment_path
from ackwire.store.journal.shipping import LogEnd, RecordGone, RefusedChunk, SnapshotSegment
from tests.helpers.replica import (
    JOURNAL,
    ReplicaNode,
    chunks,
    next_chunk,
    read_piece,
    refill,
    require_good,
    ship,
    snapshot_of,
    used_part,
)
from tests.helpers.simulated_disk import ENOSPC, Stopped
from tests.helpers.stored import Messages, Q, kept
from tests.helpers.stores import Crash


class Histories:
    """A master whose first segments are gone, and what a copy had of them."""

    def __init__(self) -> None:
        self.master = ReplicaNode(0)
        store = self.master.lead(1)
        messages = Messages()
        made = [messages.make(Q, "x" * 1000) for _ in range(12)]
        for message in made:
            store.append(message, [Q])
            self.master.settle()
        self.old = chunks(self.master, 0)
        for message in made:
            store.remove(Q, message)
        for _ in range(12):
            store.append(messages.make(Q, "y" * 1000), [Q])
            self.master.settle()
        self.master.clock.advance(60)  # the leases of what was read end
        self.master.wait(4)
        assert 1 not in self.master.segments()

    def node(self) -> ReplicaNode:
        """A node with the old copy."""
        node = ReplicaNode(1)
        node.promise(1)
        for chunk in self.old:
            node.copy.append(chunk)
        node.sync()
        node.copy.commit(node.copy.end().number)
        node.wait(2)
        return node


def two_histories() -> tuple[ReplicaNode, ReplicaNode]:
    """Such a master, and a node with the old copy."""
    histories = Histories()
    return histories.master, histories.node()


def test_a_refilled_copy_is_like_the_masters_journal() -> None:
    master, node = two_histories()
    told: list[Exception | None] = []
    assert master.source is not None
    master.source.read(1, 1000, lambda _, error: told.append(error))
    assert [type(it) for it in told] == [RecordGone]
    expected = kept_of(master)
    refill(master, node)
    assert node.copy.end() == node.copy.durable() == master.source.end()
    assert used_part(node) == used_part(master)
    assert node.node.known_durable == master.source.end()
    node.copy.commit(node.copy.end().number)
    node.settle()
    found = kept(node.lead(2))
    assert (found.waiting, found.messages, found.last_sequence) == expected


def kept_of(master: ReplicaNode) -> tuple[object, ...]:
    assert master.store is not None
    found = kept(master.store)
    return found.waiting, found.messages, found.last_sequence


def test_an_empty_disk_is_filled() -> None:
    master, _ = two_histories()
    node = ReplicaNode(9)
    node.promise(1)
    refill(master, node)
    assert used_part(node) == used_part(master)
    assert node.copy.store_id == master.source.store_id  # type: ignore[union-attr]


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_at_any_step_leaves_the_old_journal_or_the_new_one(crash: Crash) -> None:
    histories = Histories()
    master, node = histories.master, histories.node()
    assert master.source is not None
    old, new = used_part(node), used_part(master)
    before = len(node.disk.calls)
    refill(master, node)
    count = len(node.disk.calls) - before
    seen = set()
    for nth in range(1, count + 1, 1 if crash is Crash.POWER_CUT else 3):
        node = histories.node()
        node.disk.reseed(nth)
        node.disk.stop_at(nth)
        with pytest.raises(Stopped):
            refill(master, node)
        node.crash(crash)
        assert node.copy.needs_refill is None
        assert node.node.may_vote
        is_new = node.copy.end() == master.source.end()
        assert used_part(node) == (new if is_new else old)
        seen.add(is_new)
        node.promise(1)
        if not is_new:
            refill(master, node)
        ship(master, node)
        assert used_part(node) == new
    assert seen == {False, True}


def test_a_damaged_record_is_not_passed_over() -> None:
    master, node = two_histories()
    old = used_part(node)
    snapshot = snapshot_of(master)
    first = snapshot.segments[0]
    offset = next_offset(master, first)
    master.disk.flip_bit(segment_path(JOURNAL, first.number), offset + HEADER_BYTES + 1)
    told: list[Exception | None] = []
    coming = node.copy.begin_refill(snapshot.store_id, snapshot.end, snapshot.segments)
    for segment in snapshot.segments:
        data = read_piece(master, snapshot, segment.number, 0, segment.used_bytes)
        coming.write(segment.number, 0, data, told.append)
    node.settle()
    coming.finish(told.append)
    node.settle()
    assert any("damaged" in str(it) for it in told if it is not None)
    assert told[-1] is not None
    assert used_part(node) == old
    assert not node.failures, "the old copy goes on"
    node.close()


def next_offset(master: ReplicaNode, segment: SnapshotSegment) -> int:
    chunk = next_chunk(master, segment.first_number, 1)
    assert chunk is not None
    return chunk.offset


def test_what_cannot_be_a_journal_is_refused_before_any_space_is_taken() -> None:
    _, node = two_histories()
    good = SnapshotSegment(1, 8192, 100, 1)
    bad = [
        [],
        [good, good],
        [good._replace(used_bytes=9000)],
        [good._replace(size_bytes=1 << 40)],
        [good._replace(used_bytes=64)],
        [good._replace(number=0)],
    ]
    for segments in bad:
        with pytest.raises(RefusedChunk):
            node.copy.begin_refill(bytes(16), LogEnd(1, 1), segments)
    with pytest.raises(RefusedChunk, match="was promised"):
        node.copy.begin_refill(bytes(16), LogEnd(2, 1), [good])
    assert node.copy.end().number > 0
    node.close()


def test_pieces_out_of_order_are_refused() -> None:
    master, node = two_histories()
    snapshot = snapshot_of(master)
    coming = node.copy.begin_refill(snapshot.store_id, snapshot.end, snapshot.segments)
    told: list[Exception | None] = []
    number = snapshot.segments[0].number
    coming.write(number, 8, b"x", told.append)
    coming.write(number + 1, 0, b"x", told.append)
    coming.write(number, 0, bytes(snapshot.segments[0].used_bytes + 1), told.append)
    coming.finish(told.append)
    assert [type(it) for it in told] == [RefusedChunk] * 4
    node.settle()
    node.close()


def test_an_abandoned_refill_leaves_the_copy_as_it_was() -> None:
    master, node = two_histories()
    old, end = used_part(node), node.copy.end()
    snapshot = snapshot_of(master)
    coming = node.copy.begin_refill(snapshot.store_id, snapshot.end, snapshot.segments)
    data = read_piece(master, snapshot, snapshot.segments[0].number, 0, 500)
    coming.write(snapshot.segments[0].number, 0, data, lambda _: None)
    coming.abandon(require_good)
    node.settle()
    assert (used_part(node), node.copy.end()) == (old, end)
    refill(master, node)
    assert node.copy.end() == snapshot.end


def test_a_full_disk_leaves_the_copy_as_it_was() -> None:
    master, node = two_histories()
    old = used_part(node)
    snapshot = snapshot_of(master)
    coming = node.copy.begin_refill(snapshot.store_id, snapshot.end, snapshot.segments)
    told: list[Exception | None] = []
    node.disk.fail("create", error=ENOSPC)
    segment = snapshot.segments[0]
    coming.write(segment.number, 0, read_piece(master, snapshot, segment.number, 0, 500), told.append)
    node.settle()
    assert isinstance(told[0], OSError)
    coming.abandon(require_good)
    node.settle()
    assert used_part(node) == old
    assert not node.failures


def test_pinned_segments_stay_until_the_snapshot_is_released() -> None:
    master = ReplicaNode(0)
    store = master.lead(1)
    messages = Messages()
    made = [messages.make(Q, "x" * 1000) for _ in range(20)]
    for message in made:
        store.append(message, [Q])
        master.settle()
    snapshot = snapshot_of(master)
    for message in made:
        store.remove(Q, message)
    master.wait(5)
    assert {it.number for it in snapshot.segments} <= set(master.segments())
    snapshot.release()
    master.wait(5)
    assert snapshot.segments[0].number not in master.segments()


def test_a_pin_ends_when_the_journal_has_grown_too_much() -> None:
    master = ReplicaNode(0)
    store = master.lead(1)
    store.journal.pins.bytes_max = 50_000
    messages = Messages()
    snapshot = snapshot_of(master)
    for _ in range(100):
        message = messages.make(Q, "x" * 1000)
        store.append(message, [Q])
        master.settle()
        store.remove(Q, message)
        master.settle()
    master.wait(3)
    told: list[Exception | None] = []
    snapshot.read(1, 0, 100, lambda _, error: told.append(error))
    assert [type(it) for it in told] == [RecordGone]
