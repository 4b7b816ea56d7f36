"""What a node promised, whose disk it is, and whether its copy has all that it confirmed: without it, no vote."""

import pytest

from ackwire.store.background import OnTheSpot
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal.replica.node_state import NodeStateFile, StalePromise, open_node_state
from ackwire.store.journal.segment import ZEROS, segment_path
from ackwire.store.journal.shipping import LogEnd
from tests.helpers.journal import DATA, JournalFactory
from tests.helpers.replica import JOURNAL, ReplicaNode, chunks, refill, require_good, ship, used_part
from tests.helpers.simulated_disk import SimulatedDisk, Stopped
from tests.helpers.stored import Messages, Q, kept
from tests.helpers.stores import Crash

NODE = DATA / "node"


def opened(disk: SimulatedDisk, disk_id: bytes = b"a disk") -> NodeStateFile:
    return open_node_state(disk, DATA, OnTheSpot(), lambda: disk_id)


def test_a_promise_is_there_after_a_power_cut() -> None:
    disk = SimulatedDisk()
    state = opened(disk)
    state.join("a group", require_good)
    state.promise(5, require_good)
    disk.power_cut()
    again = opened(disk, b"another")
    assert (again.promised_epoch, again.group_id, again.disk_id) == (5, "a group", b"a disk".hex())
    assert again.may_vote
    assert not again.is_new


def test_a_lower_epoch_than_promised_is_refused() -> None:
    state = opened(SimulatedDisk())
    state.promise(5, require_good)
    state.promise(5, require_good)
    told: list[Exception | None] = []
    state.promise(4, told.append)
    state.lead(4, told.append)
    assert [type(it) for it in told] == [StalePromise, StalePromise]
    assert state.promised_epoch == 5


def test_a_promise_that_could_not_be_written_is_not_confirmed() -> None:
    disk = SimulatedDisk()
    state = opened(disk)
    told: list[Exception | None] = []
    disk.fail("replace")
    state.promise(5, told.append)
    assert isinstance(told[0], OSError)


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_in_the_middle_of_a_promise_leaves_the_old_one_or_the_new_one(crash: Crash) -> None:
    for seed in range(6):
        disk = SimulatedDisk(seed)
        state = opened(disk)
        state.promise(5, require_good)
        disk.stop_at(1)
        with pytest.raises(Stopped):
            state.promise(6, require_good)
        disk.process_kill() if crash is Crash.PROCESS_KILL else disk.power_cut()
        assert opened(disk).promised_epoch in (5, 6)


@pytest.mark.parametrize("at", [0, 20, -2, -12])
def test_a_damaged_state_has_no_vote_until_the_node_was_refilled(at: int) -> None:
    disk = SimulatedDisk()
    opened(disk).promise(5, require_good)
    disk.flip_bit(NODE, at % len(disk.contents(NODE)))
    state = opened(disk, b"another")
    assert not state.may_vote
    assert state.damage is not None
    assert (state.promised_epoch, state.disk_id) == (0, b"another".hex())
    state.promise(7, require_good)
    state.compare(LogEnd(7, 1000))
    assert not state.may_vote
    again = opened(disk)
    again.compare(LogEnd(7, 1000))
    assert not again.may_vote, "that it was damaged is not forgotten at the next start"
    again.was_refilled(LogEnd(7, 1000), require_good)
    refilled = opened(disk)
    refilled.compare(LogEnd(7, 1000))
    assert refilled.may_vote
    assert opened(disk).damage is None


def test_what_was_written_down_as_durable_and_is_lost_costs_the_vote_until_a_master_grants_it() -> None:
    """A copy that lost what it had confirmed must not vote again: it may have lost more than was written down."""
    master, follower = group_with(12, commit=2)
    follower.wait(3)
    known = follower.node.known_durable
    assert known == follower.copy.durable()
    cut_off(follower, known.number - 3)
    assert not follower.may_vote()
    assert follower.copy.needs_refill is None, "the rest can be shipped"
    assert follower.copy.end() < known
    ship(master, follower)
    assert follower.copy.end() >= known
    assert not follower.may_vote()
    follower.crash()
    assert not follower.may_vote()
    follower.node.grant_vote(require_good)
    follower.settle()
    assert follower.may_vote()
    follower.crash()
    assert follower.may_vote()


def test_a_promise_writes_down_what_it_tells_of_the_log() -> None:
    """The index may be half a minute behind; a vote is given for the end of the log as it is now."""
    master, follower = group_with(6)
    store = master.store
    assert store is not None
    known = follower.node.known_durable
    store.append(Messages().make(Q, "x" * 700), [Q])
    store.when_durable(lambda: None)
    master.settle()
    ship(master, follower)
    assert follower.node.known_durable == known < follower.copy.durable()
    follower.promise(2)
    cut_off(follower, known.number)
    assert not follower.may_vote()


def test_a_vote_that_was_lost_stays_lost_until_it_is_granted() -> None:
    _, follower = group_with(6)
    follower.node.lose_vote(require_good)
    follower.settle()
    follower.crash()
    assert not follower.may_vote()
    follower.node.grant_vote(require_good)
    follower.settle()
    follower.crash()
    assert follower.may_vote()


def test_a_log_that_was_found_damaged_is_refilled_also_after_a_start() -> None:
    """Old segments are not read when the log is opened: only the node's file knows."""
    master, follower = group_with(6)
    follower.node.lose_log("segment 1 is damaged", require_good)
    follower.settle()
    for _ in range(2):
        follower.crash()
        assert follower.copy.needs_refill == "segment 1 is damaged"
        assert not follower.may_vote()
    refill(master, follower)
    assert follower.copy.needs_refill is None
    assert follower.may_vote()
    follower.crash()
    assert follower.copy.needs_refill is None
    assert follower.may_vote()
    assert used_part(follower) == used_part(master)


def test_a_truncation_does_not_give_the_vote_back() -> None:
    _, follower = group_with(12, commit=2)
    follower.wait(3)
    cut_off(follower, follower.node.known_durable.number - 3)
    follower.truncate_after(follower.copy.end().number - 1)
    assert not follower.may_vote()
    follower.crash()
    assert not follower.may_vote()


def test_what_a_master_has_truncated_is_not_missed() -> None:
    _, follower = group_with(12, commit=2)
    follower.wait(3)
    follower.truncate_after(5)
    assert follower.may_vote()
    follower.crash()
    assert follower.may_vote()
    assert follower.copy.end() == LogEnd(1, 5)


def test_records_damaged_in_the_middle_of_what_was_durable_are_kept_and_the_node_must_be_refilled() -> None:
    master, follower = group_with(12, commit=1)
    follower.wait(3)
    offset = chunks(master, 0, 1)[4].offset
    follower.crash(reopen=False)
    follower.disk.flip_bit(segment_path(JOURNAL, 1), offset + 3)
    before = follower.disk.contents(segment_path(JOURNAL, 1))
    follower.open()
    assert "must be refilled" in (follower.copy.needs_refill or "")
    assert not follower.may_vote()
    assert follower.disk.contents(segment_path(JOURNAL, 1)) == before, "it may be the last copy of something"
    follower.promise(1)
    refill(master, follower)
    assert follower.copy.needs_refill is None
    assert follower.may_vote()
    assert used_part(follower) == used_part(master)


def test_a_segment_that_is_gone_is_noticed() -> None:
    _, follower = group_with(30)
    follower.wait(3)
    follower.crash(reopen=False)
    follower.disk.lose(segment_path(JOURNAL, 2))
    follower.open()
    assert "segment 2" in (follower.copy.needs_refill or "")
    assert not follower.may_vote()


def test_records_that_never_were_durable_may_be_torn_in_any_order() -> None:
    """What a record says about syncs, it says of the master's disk."""
    for seed in range(12):
        master, follower = group_with(1, seed=seed)
        store = master.store
        assert store is not None
        messages = Messages()
        messages.make()
        for _ in range(25):
            store.append(messages.make(Q, "x" * 700), [Q])
            store.when_durable(lambda: None)
            master.settle()
        for chunk in chunks(master, follower.copy.end().number, 1):
            follower.copy.append(chunk)
        follower.crash(Crash.REORDERED_POWER_CUT)
        assert follower.copy.needs_refill is None
        assert follower.may_vote()
        follower.promise(1)
        ship(master, follower)


def test_solo_a_journal_without_a_node_is_refused_or_adopted() -> None:
    solo = JournalFactory()
    store = solo.open()
    store.append(Messages().make(), [Q])
    solo.close()
    expected = kept(solo.open())
    solo.close()
    node = ReplicaNode(is_open=False)
    node.disk, node.medium = solo.disk, solo.medium
    with pytest.raises(UnusableStore, match="broker without replication"):
        node.open()
    assert not node.disk.locked_paths
    node.open(adopt=True)
    assert node.node.promised_epoch == 2
    found = kept(node.lead(3))
    assert (found.waiting, found.messages) == (expected.waiting, expected.messages)


def test_solo_an_epoch_that_was_never_promised_is_refused() -> None:
    master = ReplicaNode()
    master.lead(1).close()
    master.store = None
    solo = JournalFactory()
    solo._disk, solo.medium = master.disk, master.medium
    NODE_BYTES = master.disk.contents(NODE)
    master.disk.lose(NODE)
    solo.open()
    solo.close()
    master.disk.replace(NODE, NODE_BYTES)
    with pytest.raises(UnusableStore, match="without replication has written"):
        master.open()


def test_solo_a_broker_without_replication_does_not_open_the_folder_of_a_node() -> None:
    node = ReplicaNode()
    node.promise(1)
    node.close()
    solo = JournalFactory()
    solo._disk, solo.medium = node.disk, node.medium
    with pytest.raises(UnusableStore, match="node of a replicated group"):
        solo.open()
    assert not node.disk.locked_paths


def group_with(messages: int, *, commit: int | None = None, seed: int = 0) -> tuple[ReplicaNode, ReplicaNode]:
    """A master of epoch 1, and a copy of it; *commit* is what the copy knows to be committed: everything if None."""
    master, follower = ReplicaNode(2 * seed), ReplicaNode(2 * seed + 1)
    store = master.lead(1)
    store.journal.pins.pin(0, 0)
    made = Messages()
    for _ in range(messages):
        store.append(made.make(Q, "x" * 700), [Q])
        store.when_durable(lambda: None)
        master.settle()
    follower.promise(1)
    ship(master, follower)
    follower.copy.commit(follower.copy.end().number if commit is None else commit)
    follower.settle()
    follower.node.note_durable(follower.copy.durable())
    follower.settle()
    return master, follower


def cut_off(node: ReplicaNode, number: int) -> None:
    """The disk loses all records behind *number*, although they were synced."""
    segment = max(it.number for it in node.copy.log.segments.values() if it.first_number <= number + 1)
    path = segment_path(JOURNAL, segment)
    before = node.disk.contents(path)
    found = [it for it in records_of(node, segment) if it[0] == number + 1]
    node.crash(reopen=False)
    node.disk.overwrite(path, found[0][1], ZEROS[: len(before) - found[0][1]])
    node.open()


def records_of(node: ReplicaNode, segment: int) -> list[tuple[int, int]]:
    """Number and offset of the records of a segment."""
    from ackwire.store.journal.replica.walk import walk

    data = node.disk.contents(segment_path(JOURNAL, segment))
    seed = node.copy.journal.writer.seed
    return [
        (it.number, it.offset) for it in walk(lambda at, length: data[at : at + length], segment, seed, 64, len(data))
    ]
