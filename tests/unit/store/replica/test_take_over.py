"""A copy becomes the master's store, and a master a copy again."""

from itertools import pairwise

import pytest

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import read_position
from ackwire.store.compare import compare
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.recovery import Recovery
from ackwire.store.journal.replica.take_over import Mastered, NotTakenOver, Surroundings, take_over
from ackwire.store.journal.shipping import Chunk, LogEnd
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.journal import DATA, SMALL, DriftingClock
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.replica import AtOnce, Followers, ReplicaNode, chunks, ship, used_part
from tests.helpers.stored import Messages, Q, R, T, durable, kept, local_id, xa_id


def test_the_epoch_begins_when_the_quorum_has_its_first_record() -> None:
    node, quorum = ReplicaNode(), Followers()
    store = node.lead(3, quorum)
    assert not node.has_begun()
    assert {(end.epoch, end.number) for end, _ in quorum.asked} == {(3, 1)}
    quorum.has(1)
    assert node.has_begun()
    assert store.journal.writer.synced_number == 1


def test_the_first_record_of_an_epoch_is_shipped_by_the_tap() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    master.lead(1).append(Messages().make(), [Q])
    master.settle()
    follower.promise(1)
    ship(master, follower)
    shipped: list[Chunk] = []

    def ready(made: Mastered | None, _: Exception | None) -> None:
        assert made is not None
        made.source.on_chunk = shipped.append

    around = Surroundings(
        follower.clock, follower.writing, follower.indexing, follower.reading, follower.failures.append
    )
    end = follower.copy.end()
    take_over(follower.copy, 2, AtOnce(), around, ready=ready, begun=lambda: None)
    follower.settle()
    assert shipped[0].first_number == end.number + 1
    assert shipped[0].last.epoch == 2


def test_a_take_over_counts_as_a_crash_also_for_a_copy_that_began_with_nothing() -> None:
    """What senders repeat now may have left early: only a store that knows of a crash flags it (ADR 16)."""
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    assert not store.has_crashed(3600), "a group that begins"
    store.append(Messages().make(), [Q])
    master.settle()
    follower.promise(1)
    ship(master, follower)
    assert follower.lead(2).has_crashed(3600)


def test_chunks_of_the_tap_are_those_of_the_files() -> None:
    master = ReplicaNode(0)
    store = master.lead(1)
    assert master.source is not None
    tapped: list[Chunk] = []
    after = master.source.end().number
    master.source.on_chunk = tapped.append
    messages = Messages()
    for size in (10, 3000, 9000, 100, 5000, 5000, 20000, 1):
        store.append(messages.make(Q, "x" * size), [Q])
        master.settle()
    read = chunks(master, after, 1)
    assert b"".join(it.data for it in tapped) == b"".join(it.data for it in read)
    assert {it.segment_bytes for it in tapped} == {it.segment_bytes for it in read}
    assert [it.segment for it in tapped if not it.offset] == [it.segment for it in read if not it.offset]
    assert max(it.segment_bytes for it in tapped) > SMALL.segment_bytes, "a large record has a large segment"


@pytest.mark.parametrize("kept_records", [0, 1, 3, 4])
def test_a_group_whose_end_never_came_never_happened(kept_records: int) -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    messages = Messages()
    before = messages.make()
    store.append(before, [Q])
    master.settle()
    first = store.journal.writer.next_number
    with store.atomically():
        store.remove(Q, before)
        for _ in range(3):
            store.append(messages.make(R, "x" * 4000), [R])
    master.settle()
    last = store.journal.writer.last_number
    assert last - first == 4
    follower.promise(1)
    for chunk in chunks(master, 0, 1):
        if chunk.last.number < first + kept_records:
            follower.copy.append(chunk)
    follower.sync()
    taken = follower.lead(2)
    assert [it.sequence for it in taken.waiting(Q)] == [before.sequence]
    assert not list(taken.waiting(R))
    assert follower.source is not None
    assert follower.source.epochs()[-1] == (2, first)
    follower.step_down()
    found = kept(follower.lead(3))
    assert [it.sequence for it in found.waiting[Q]] == [before.sequence]
    master.step_down()
    master.promise(3)
    master.truncate_after(first - 1)
    ship(follower, master)
    assert used_part(master) == used_part(follower)


def test_an_epoch_that_is_not_above_the_log_is_refused_and_the_copy_goes_on() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    master.lead(5)
    follower.promise(5)
    ship(master, follower)
    with pytest.raises(NotTakenOver):
        follower.lead(5)
    store = master.store
    assert store is not None
    store.append(Messages().make(), [Q])
    master.settle()
    ship(master, follower)


def test_a_lower_epoch_than_promised_is_refused_and_the_copy_goes_on() -> None:
    follower = ReplicaNode(1)
    follower.promise(9)
    with pytest.raises(Exception, match="9, which was promised"):
        follower.lead(8)
    follower.lead(10)


def test_a_store_that_answers_before_its_sync_cannot_be_replicated() -> None:
    node = ReplicaNode(options=JournalOptions(sync=SyncPolicy.NEVER))
    with pytest.raises(NotTakenOver):
        node.lead(1)


def test_everything_but_messages_passes_on_too() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    messages = Messages()
    store.add_destination(T)
    store.add_durable(durable())
    store.add_job(messages.job())
    message = messages.make()
    store.append(message, [Q])
    store.committed(local_id(4))
    store.mark_dispatched(Q, message.sequence)
    master.settle()
    follower.promise(1)
    ship(master, follower)
    found = kept(follower.lead(2))
    master.step_down()
    assert found == kept(master.lead(2))
    assert found.dispatched_up_to == {Q: [message.sequence]}
    assert found.jobs
    assert found.durables
    assert xa_id(1) not in found.prepared


def test_the_catalog_is_that_of_the_journal_alone() -> None:
    """As an examination would compare them: to the last counter."""
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    store.journal.pins.pin(0, 0)
    messages = Messages()
    for number in range(60):
        message = messages.make(Q, "x" * 300)
        store.append(message, [Q, R])
        if number % 3:
            store.remove(Q, message)
        master.settle()
    follower.promise(1)
    ship(master, follower)
    follower.copy.commit(30)
    follower.wait(2)
    follower.copy.commit(follower.copy.end().number)
    follower.settle()
    index = MemoryIndex(follower.disk, IndexMedium())
    alone = Recovery(follower.disk, DATA, Catalog(index), OpenWireStoredForm(), follower.clock.now_ms)
    alone.run()
    assert not compare(alone.catalog, follower.copy.journal.catalog)


def test_a_master_that_steps_down_is_a_copy_with_its_tail() -> None:
    quorum = Followers()
    node = ReplicaNode(0)
    store = node.lead(1, quorum)
    quorum.has(1)
    node.settle()
    quorum.has(1)
    node.settle()
    messages = Messages()
    answered: list[int] = []
    for number in range(5):
        store.append(messages.make(), [Q])
        store.when_durable(lambda number=number: answered.append(number))  # type: ignore[misc]
        node.settle()
    end = store.journal.writer.last_number
    copy = node.step_down()
    assert answered == []
    assert copy.end() == copy.durable() == LogEnd(1, end)
    assert copy.committed() <= 1
    position = read_position(Catalog(MemoryIndex(node.disk, node.medium)))
    assert position is not None
    assert position.number <= 1
    assert copy.node.may_vote


def test_what_is_committed_is_applied_in_portions() -> None:
    """The loop is looked after between them: here each look at the clock takes 10 ms."""
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    messages = Messages()
    for _ in range(400):
        store.append(messages.make(), [Q])
        store.when_durable(lambda: None)
        master.settle()
    follower.promise(1)
    ship(master, follower)
    follower.copy.close()
    follower.clock = DriftingClock(0.01)
    follower.open()
    follower.copy.commit(follower.copy.end().number)
    applied = [follower.copy.position().number]
    for _ in range(1000):
        follower.clock.advance(0)
        follower.reading.run_all()
        if follower.copy.position().number != applied[-1]:
            applied.append(follower.copy.position().number)
    assert applied[-1] == follower.copy.end().number
    assert max(after - before for before, after in pairwise(applied)) <= 128


def test_a_take_over_waits_for_no_checkpoint_and_applies_what_is_left() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    messages = Messages()
    for _ in range(100):
        store.append(messages.make(), [Q])
    master.settle()
    follower.promise(1)
    ship(master, follower)
    follower.clock.advance(100)
    commits = [it for it in follower.disk.calls if it.operation == "commit"]
    ready: list[Mastered | None] = []
    around = Surroundings(
        follower.clock, follower.writing, follower.indexing, follower.reading, follower.failures.append
    )
    take_over(follower.copy, 2, Followers(), around, ready=lambda made, _: ready.append(made), begun=lambda: None)
    for _ in range(100):
        follower.clock.advance(0)
        follower.reading.run_all()
        follower.indexing.run_all()
    assert len(ready) == 1
    made = ready[0]
    assert made is not None
    assert sum(1 for _ in made.store.waiting(Q)) == 100
    assert [it for it in follower.disk.calls if it.operation == "commit"] == commits


def test_segments_that_the_master_removed_go_when_the_index_has_passed_that() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    assert master.source is not None
    follower.promise(1)
    ship(master, follower)
    master.source.on_chunk = follower.copy.append
    messages = Messages()
    for _ in range(60):
        message = messages.make(Q, "x" * 1000)
        store.append(message, [Q])
        master.settle()
        store.remove(Q, message)
        master.settle()
    master.clock.advance(60)  # the lease of what was read ends
    master.wait(5)
    follower.sync()
    assert 1 not in master.segments()
    follower.wait(3)
    assert 1 in follower.segments(), "nothing is committed as far as it knows"
    follower.copy.commit(follower.copy.end().number)
    before = len(follower.disk.calls)
    follower.wait(3)
    steps = [it.operation for it in follower.disk.calls[before:] if it.operation in ("commit", "remove")]
    assert steps[0] == "commit"
    assert "remove" in steps
    assert set(follower.segments()) == set(master.segments())
    follower.crash()
    assert follower.copy.needs_refill is None
    assert kept(follower.lead(2)).last_sequence == 60


def test_closing_a_copy_vouches_for_its_index_and_remembers_how_far_it_was_durable() -> None:
    master, follower = ReplicaNode(0), ReplicaNode(1)
    store = master.lead(1)
    store.append(Messages().make(), [Q])
    master.settle()
    follower.promise(1)
    ship(master, follower)
    follower.copy.commit(follower.copy.end().number)
    end = follower.copy.end()
    follower.close()
    assert follower.medium.is_sealed
    follower.open()
    assert follower.node.known_durable == follower.copy.end() == end
    assert follower.copy.report.cut_bytes == 0
