"""What a later master does not have is cut off, durably, and never what is committed."""

from random import Random

import pytest

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import read_position
from ackwire.store.journal.shipping import EMPTY, LogEnd
from tests.helpers.memory_index import MemoryIndex
from tests.helpers.replica import Followers, ReplicaNode, chunks, ship, used_part
from tests.helpers.simulated_disk import Stopped
from tests.helpers.stored import Messages, Q, kept
from tests.helpers.stores import Crash


def copy_of(records: int, *, seed: int = 0) -> tuple[ReplicaNode, ReplicaNode]:
    """A master of epoch 1 with so many records, in several segments, and a copy of them."""
    master, follower = ReplicaNode(2 * seed), ReplicaNode(2 * seed + 1)
    store = master.lead(1)
    store.journal.pins.pin(0, 0)
    messages = Messages()
    while store.journal.writer.last_number < records:
        store.append(messages.make(Q, "x" * 1000), [Q])
        store.when_durable(lambda: None)
        master.settle()
    follower.promise(1)
    ship(master, follower)
    return master, follower


def bytes_of(master: ReplicaNode, number: int) -> dict[int, bytes]:
    """What the used part of a log is that ends with record *number*."""
    found: dict[int, bytes] = {}
    for chunk in chunks(master, 0, 1):
        if chunk.last.number <= number:
            found[chunk.segment] = found.get(chunk.segment, b"").ljust(chunk.offset, b"\0") + chunk.data
    return {segment: data.rstrip(b"\0") for segment, data in found.items()}


@pytest.mark.parametrize("number", [0, 1, 2, 7, 8, 9, 15, 29, 30])
def test_a_truncated_log_is_like_one_that_never_had_more(number: int) -> None:
    master, follower = copy_of(30)
    follower.truncate_after(number)
    assert follower.copy.end() == follower.copy.durable() == (LogEnd(1, number) if number else EMPTY)
    assert follower.segments() == bytes_of(master, number)
    ship(master, follower)
    assert used_part(follower) == used_part(master)


def test_a_truncation_leaves_nothing_behind_that_is_called_durable_and_was_never_synced() -> None:
    """Records that came while a sync was slow, and went beyond a segment: only the last segment is cut."""
    for seed in range(8):
        master, follower = copy_of(1, seed=seed)
        store = master.store
        assert store is not None
        messages = Messages()
        messages.make()
        while store.journal.writer.segment < 4:
            store.append(messages.make(Q, "x" * 1000), [Q])
            store.when_durable(lambda: None)
            master.settle()
        for chunk in chunks(master, follower.copy.end().number, 1):
            follower.copy.append(chunk)
        follower.truncate_after(follower.copy.end().number - 1)
        said = follower.sync()
        assert said == follower.copy.end()
        follower.crash(Crash.POWER_CUT)
        assert follower.copy.end() == said


def test_committed_records_are_never_truncated() -> None:
    _, follower = copy_of(30)
    follower.copy.commit(20)
    told: list[Exception | None] = []
    follower.copy.truncate_after(19, told.append)
    follower.settle()
    assert [type(it) for it in told] == [ValueError]
    assert follower.copy.end().number == 30
    follower.truncate_after(20)
    assert follower.copy.end().number == 20


def test_after_a_truncation_the_index_is_not_ahead_of_the_log() -> None:
    _, follower = copy_of(30)
    follower.copy.commit(12)
    follower.wait(3)
    follower.truncate_after(12)
    follower.crash()
    position = read_position(Catalog(MemoryIndex(follower.disk, follower.medium)))
    assert position is not None
    assert position.number <= 12
    assert follower.copy.end() == LogEnd(1, 12)
    assert follower.copy.needs_refill is None


def test_a_piece_that_was_read_before_a_truncation_is_read_again_after_it() -> None:
    """The copy has read records 1 to 7 to apply 1 to 5; then those from 7 on are replaced by another master's."""
    first, follower = copy_of(20)
    follower.copy.commit(5)
    follower.settle()
    second = ReplicaNode(11)
    second.promise(1)
    for chunk in chunks(first, 0, 1)[:6]:
        second.copy.append(chunk)
    second.sync()
    store = second.lead(2)
    messages = Messages()
    for _ in range(30):
        messages.make()  # the sequences of the first master
    for _ in range(10):
        store.append(messages.make(Q, "of the second"), [Q])
        second.settle()
    follower.promise(2)
    follower.truncate_after(6)
    ship(second, follower)
    follower.copy.commit(follower.copy.end().number)
    follower.settle()
    expected = kept(store)
    assert kept(follower.lead(3)).waiting == expected.waiting


def test_a_divergent_tail_is_found_by_its_epochs() -> None:
    """The first master wrote more than it shipped, and the second went on from what it had."""
    first, second = copy_of(10)
    store = first.store
    assert store is not None
    messages = Messages()
    for _ in range(50):
        messages.make()
    for _ in range(5):
        store.append(messages.make(Q, "never shipped"), [Q])
        first.settle()
    second.lead(2)
    assert second.source is not None
    assert second.source.epochs() == [(1, 1), (2, 11)]
    copy = first.step_down()
    assert copy.end() > LogEnd(1, 10)
    assert copy.epochs()[-1][0] == 1
    first.promise(2)
    first.truncate_after(10)
    ship(second, first)
    assert used_part(first) == used_part(second)
    assert first.copy.epochs()[-1] == (2, 11)


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_at_any_step_of_a_truncation_leaves_a_log_between_both_ends(crash: Crash) -> None:
    master, follower = copy_of(26)
    follower.copy.commit(6)
    follower.wait(3)
    before = len(follower.disk.calls)
    follower.truncate_after(9)
    count = len(follower.disk.calls) - before
    assert count > 5
    for nth in range(1, count + 1):
        _, follower = copy_of(26, seed=nth)
        follower.copy.commit(6)
        follower.wait(3)
        follower.disk.stop_at(nth)
        with pytest.raises(Stopped):
            follower.truncate_after(9)
        follower.crash(crash)
        assert follower.copy.needs_refill is None
        end = follower.copy.end().number
        assert 9 <= end <= 26
        follower.promise(1)
        follower.truncate_after(9)
        assert {len(it) for it in follower.segments().values()} == {len(it) for it in bytes_of(master, 9).values()}


def test_a_truncation_that_fails_ends_the_service_of_the_copy() -> None:
    _, follower = copy_of(26)
    told: list[Exception | None] = []
    follower.disk.fail("remove")
    follower.copy.truncate_after(9, told.append)
    follower.settle()
    assert told[0] is not None
    assert len(follower.failures) == 1


def test_nothing_is_appended_and_no_second_truncation_begins_during_one() -> None:
    master, follower = copy_of(26)
    told: list[Exception | None] = []
    follower.copy.truncate_after(20, told.append)
    with pytest.raises(Exception, match="truncated"):
        follower.copy.append(chunks(master, 20)[0])
    with pytest.raises(Exception, match="truncated"):
        follower.copy.truncate_after(10, told.append)
    synced: list[Exception | None] = []
    follower.copy.sync(synced.append)
    follower.settle()
    assert told == [None]
    assert synced == [None]
    assert follower.copy.durable() == LogEnd(1, 20)


@pytest.mark.parametrize("seed", range(6))
def test_truncations_at_random_leave_what_a_fresh_copy_has(seed: int) -> None:
    master, follower = copy_of(40, seed=seed)
    random = Random(seed)
    for _ in range(12):
        lowest = follower.copy.committed()
        follower.truncate_after(random.randrange(lowest, follower.copy.end().number + 1))
        if random.random() < 0.4:
            follower.crash(random.choice(list(Crash)))
        ship(master, follower, random.choice((1, 3000, 1 << 16)))
        follower.copy.commit(random.randrange(lowest, lowest + 3))
        if random.random() < 0.5:
            follower.wait(2)
    assert used_part(follower) == used_part(master)
    expected = kept(master.store) if master.store is not None else None
    follower.copy.commit(40)
    found = kept(follower.lead(2))
    assert expected is not None
    assert (found.waiting, found.messages) == (expected.waiting, expected.messages)


def test_a_quorum_that_never_confirms_keeps_the_index_of_the_master_where_it_is() -> None:
    """So the master can become a copy, and its tail be truncated."""
    quorum = Followers()
    node = ReplicaNode(3)
    store = node.lead(1, quorum)
    quorum.has(1)
    node.settle()
    quorum.has(1)
    node.settle()
    messages = Messages()
    for _ in range(40):
        store.append(messages.make(Q, "x" * 1000), [Q])
        node.settle()
    store.checkpoint()
    node.wait(5)
    copy = node.step_down()
    assert copy.committed() <= 1
    node.truncate_after(1)
    assert copy.end() == LogEnd(1, 1)
