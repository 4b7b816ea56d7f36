"""Mistakes that replicated logs are known for, each with the guard against it and without.

As in `test_holes.py`: without its guard a scenario must fail.
"""

from collections.abc import Callable
from random import Random

import pytest

from ackwire.replication.copy_log import CopyLog
from ackwire.replication.elector import Joined
from ackwire.replication.follower import Follower, FollowerState
from ackwire.replication.following import Following
from ackwire.replication.leader import Leader
from ackwire.replication.lease import Lease
from ackwire.replication.log import Chunk, LogEnd
from ackwire.replication.membership import Membership
from ackwire.replication.messages import Hello, Message, RefillEnd, RefillPiece, Truncate
from ackwire.replication.node import Node, NodeRole
from ackwire.replication.promises import Promises
from ackwire.replication.quorum import CommitQuorum, SyncMode
from ackwire.store.journal.group_commit import JournalEnd
from tests.helpers.background import ControlledBackground
from tests.helpers.replica_group import SmallGroup
from tests.helpers.replica_memory import SEGMENT_RECORDS, MemoryMedium, MemoryReplica, Rec
from tests.replication.test_holes import group_of, sent

# ---- records of earlier epochs are counted ---------------------------------------------------------------------


class CountsAnyEpoch(CommitQuorum):
    def _is_own(self, number: int) -> bool:  # noqa: ARG002 - that is the mistake
        return True


def scenario_of_an_old_epoch(quorum_class: type[CommitQuorum]) -> None:
    """Raft's figure 8: a record of an earlier epoch is on a quorum of disks, and may still be replaced."""
    quorum = quorum_class(4, mode=SyncMode.QUORUM_DISK, may_answer=lambda: True)
    quorum.first_own = 10
    quorum.confirm(JournalEnd(4, 9, 1, 0), lambda: None)
    quorum.confirm(JournalEnd(4, 12, 1, 0), lambda: None)
    assert not quorum.count([9], 1)
    assert quorum.committed == 0
    assert quorum.count([12], 1)
    assert quorum.committed == 12


def test_only_records_of_the_own_epoch_are_counted() -> None:
    scenario_of_an_old_epoch(CommitQuorum)
    with pytest.raises(AssertionError):
        scenario_of_an_old_epoch(CountsAnyEpoch)


def test_the_commit_number_is_an_end_that_the_store_has_asked_about() -> None:
    quorum = CommitQuorum(1, mode=SyncMode.QUORUM_DISK, may_answer=lambda: True)
    quorum.first_own = 1
    for number in (1, 4, 9):
        quorum.confirm(JournalEnd(1, number, 1, 0), lambda: None)
    assert quorum.count([7], 1)  # in the middle of a group
    assert quorum.committed == 4


# ---- what the elector's last answer is worth -------------------------------------------------------------------


class CountsFromTheAnswer(Lease):
    def __init__(self, timeout_seconds: float, now: Callable[[], float]) -> None:
        super().__init__(timeout_seconds)
        self._now = now

    def answered(self, sent_at: float) -> None:  # noqa: ARG002 - that is the mistake
        super().answered(self._now())


def scenario_of_a_late_answer(lease: Lease) -> None:
    """A request is sent at 100, and its answer comes at 103: the elector may give the session up at 104."""
    lease.answered(100.0)
    assert lease.holds_until <= 104.0
    lease.answered(99.0)
    assert lease.holds_until > 103.0
    lease.ended()
    assert lease.holds_until < 0


def test_a_lease_counts_from_when_a_request_was_sent() -> None:
    scenario_of_a_late_answer(Lease(4.0))
    with pytest.raises(AssertionError):
        scenario_of_a_late_answer(CountsFromTheAnswer(4.0, lambda: 103.0))


class AnswersAlways(Node):
    def _may_answer(self) -> bool:
        return True


def scenario_of_a_lease_that_ends(node_class: type[Node]) -> None:
    """Nothing is heard of the elector, and nobody has said so yet."""
    group = group_of(node_class)
    group.nodes["a"].elector.until = group.clock.monotonic()
    answered = sent(group, "a", b"m1")
    group.run()
    assert answered == []
    group.nodes["a"].elector.until = group.clock.monotonic() + 4
    group.pass_time(1)
    assert answered == [b"m1"]


def test_nothing_is_answered_after_the_lease() -> None:
    scenario_of_a_lease_that_ends(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_lease_that_ends(AnswersAlways)


# ---- promises --------------------------------------------------------------------------------------------------


class PromisesInMemory(Promises):
    def promise(self, epoch: int, done: Callable[[], None]) -> None:
        self.asked = self.durable = max(self.durable, epoch)
        self._state.promise(epoch, lambda _: None)
        done()


class SpeaksTooSoon(Node):
    promises_class = PromisesInMemory


def scenario_of_a_promise_that_is_lost(node_class: type[Node]) -> None:
    """b says hello to the master of epoch 2, loses power, and is found by the master of epoch 1."""
    group = group_of(node_class)
    b = group.nodes["b"]
    b.node.on_leader(2, "c", "c")
    hellos = [it for end in group.ends if end.owner == "b" for it in end.sent if isinstance(it, Hello)]
    assert {it.epoch for it in hellos if it.epoch > b.medium.promised_epoch} == set()


def test_a_promise_is_durable_before_a_hello_tells_of_it() -> None:
    scenario_of_a_promise_that_is_lost(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_promise_that_is_lost(SpeaksTooSoon)


class ForgetfulMembership(Membership):
    def _must_promise(self, joined: Joined) -> bool:  # noqa: ARG002 - that is the mistake
        return False


class ForgetsItsOtherDisk(Node):
    membership_class = ForgetfulMembership


def scenario_of_a_new_disk(node_class: type[Node]) -> None:
    """c has promised epoch 5 to b. Its disk is replaced, and the master of epoch 4 finds it."""
    group = SmallGroup(node_class=node_class)
    group.join("a", 3)
    group.elect("a", 4, "")
    group.restart("c", MemoryMedium("another disk of c", Random(1)))
    group.join("c", 5)
    group.nodes["c"].node.on_leader(4, "a", "a")
    group.run()
    assert group.nodes["c"].medium.promised_epoch == 5
    assert not any(isinstance(it, Hello) for end in group.ends if end.owner == "c" for it in end.sent)


def test_a_new_disk_promises_what_the_old_one_may_have_promised() -> None:
    scenario_of_a_new_disk(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_new_disk(ForgetsItsOtherDisk)


class HastyMembership(Membership):
    def begin(self, done: Callable[[], None]) -> None:
        done()


class AnnouncesAtOnce(Node):
    membership_class = HastyMembership


def scenario_of_an_id_that_is_lost(node_class: type[Node]) -> None:
    """A node on an empty disk tells the elector the disk's id: a new start must find the same one."""
    group = SmallGroup(node_class=node_class)
    a = group.nodes["a"]
    told: list[int] = []
    a.elector.announce = lambda standing: told.append(a.medium.saves)  # type: ignore[method-assign]  # noqa: ARG005
    a.node.start()
    group.run()
    assert told
    assert all(told), "it was announced before anything was written"


def test_a_disk_has_its_id_before_the_elector_knows_it() -> None:
    scenario_of_an_id_that_is_lost(Node)
    with pytest.raises(AssertionError):
        scenario_of_an_id_that_is_lost(AnnouncesAtOnce)


# ---- copies that lost what they had confirmed ------------------------------------------------------------------


class CountsEveryone(Leader):
    def _is_voter(self, copy: object) -> bool:  # noqa: ARG002 - that is the mistake
        return True


class NodeThatCountsEveryone(Node):
    leader_class = CountsEveryone


def scenario_of_a_lossy_copy(node_class: type[Node]) -> None:
    """a and b have committed, c was away. b loses the end of its log, and a is gone: c must not be master with b."""
    group = group_of(node_class)
    group.restart("c")
    answered = sent(group, "a", b"m1", b"m2")
    group.run()
    assert answered == [b"m1", b"m2"]
    medium = group.nodes["b"].medium
    group.restart("b")
    medium.lose_end(2)
    group.restart("b")
    group.restart("a")
    group.join("b", 1)
    group.join("c", 1)
    group.elect("c", 2, "b")
    assert group.nodes["c"].served == []
    group.join("a", 2)
    group.nodes["c"].node.on_lost("the session has expired")
    group.run()
    group.elect("a", 3)
    assert group.nodes["a"].served == [3]
    assert {b"m1", b"m2"} <= group.contents("c")
    group.pass_time(1)
    assert medium.may_vote  # it has everything again, and was told that it counts
    assert group.nodes["a"].elector.admitted == [("b", "disk of b", 3)]


def test_a_copy_that_lost_what_it_confirmed_has_no_vote_until_it_has_all_of_it() -> None:
    scenario_of_a_lossy_copy(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_lossy_copy(NodeThatCountsEveryone)


class BelievesTheCopy(Leader):
    def _has_lost(self, hello: Hello) -> bool:  # noqa: ARG002 - that is the mistake
        return False


class NodeThatBelievesCopies(Node):
    leader_class = BelievesTheCopy


def scenario_of_a_copy_that_does_not_know_its_loss(node_class: type[Node]) -> None:
    """As above, and b had not written down how far its log was durable. The master that it told knows."""
    group = group_of(node_class)
    group.restart("c")
    answered = sent(group, "a", b"m1", b"m2")
    group.run()
    assert answered == [b"m1", b"m2"]
    medium = group.nodes["b"].medium
    group.nodes["b"].node.stop()
    group.run()
    medium.lose_end(2)
    medium.may_vote = True
    group.restart("b")
    group.join("b", 1)
    group.nodes["b"].node.on_leader(1, "a", "a")
    group.run()
    assert group.nodes["b"].node.status().why.startswith("b ends at (1, 1), and had acknowledged record 3")
    assert not group.restart("b").node._state.may_vote, "whatever becomes of a now"
    group.join("b", 1)
    group.nodes["b"].node.on_leader(1, "a", "a")
    group.run()
    group.pass_time(2)
    assert medium.may_vote  # it has everything again
    assert group.contents("b") == {b"m1", b"m2"}
    assert group.nodes["a"].elector.admitted == [("b", "disk of b", 1)]
    answered = sent(group, "a", b"m3")
    group.run()
    assert answered == [b"m3"]


def test_a_copy_that_does_not_know_what_it_lost_hears_it_from_the_master_that_it_told() -> None:
    scenario_of_a_copy_that_does_not_know_its_loss(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_copy_that_does_not_know_its_loss(NodeThatBelievesCopies)


def scenario_of_a_disk_that_is_not_known(node_class: type[Node]) -> None:
    """b has an empty disk, and c is away: what a writes is on one disk that counts."""
    group = group_of(node_class)
    group.restart("c")
    answered = sent(group, "a", b"m1")
    group.run()
    assert answered == [b"m1"]
    group.restart("b", MemoryMedium("an empty disk", Random(1)))
    group.nodes["a"].elector.admission_error = ValueError("another epoch was granted")
    group.join("b", 1)
    group.nodes["b"].node.on_leader(1, "a", "a")
    group.run()
    answered = sent(group, "a", b"m2")
    group.run()
    assert group.contents("b") == {b"m1", b"m2"}
    assert answered == []
    group.nodes["a"].elector.admission_error = None
    group.pass_time(1)
    assert answered == [b"m2"]


def test_a_disk_that_the_elector_does_not_know_does_not_count() -> None:
    scenario_of_a_disk_that_is_not_known(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_disk_that_is_not_known(NodeThatCountsEveryone)


# ---- truncation ------------------------------------------------------------------------------------------------


class VouchesForAnything(CopyLog):
    def _vouches(self, truncations: int) -> bool:  # noqa: ARG002 - that is the mistake
        return True


def scenario_of_a_sync_before_a_truncation(copy_class: type[CopyLog]) -> None:
    """A sync of records 1 to 6 is under way when 4 to 6 are dropped; other records 4 and 5 come in their place."""
    medium = MemoryMedium("d", Random(1))
    medium.set_log([(1, b"x")])
    background = ControlledBackground()
    copy = copy_class(MemoryReplica(medium, background), lambda error: None)  # noqa: ARG005
    copy.append(chunk_of(1, 2, 6))
    copy.sync()
    copy.truncate_after(3, lambda: None)
    background.run_all()
    copy.append(chunk_of(2, 4, 5))
    assert copy.durable <= 3
    copy.sync()
    background.run_all()
    assert copy.durable == 5


def chunk_of(epoch: int, first: int, last: int) -> Chunk:
    data = b"".join(Rec(epoch, number, False, b"x").pack() for number in range(first, last + 1))
    return Chunk(1, 1000, 1 << 20, first, LogEnd(epoch, last), data)


def test_a_sync_does_not_vouch_for_what_was_written_after_a_truncation() -> None:
    scenario_of_a_sync_before_a_truncation(CopyLog)
    with pytest.raises(AssertionError):
        scenario_of_a_sync_before_a_truncation(VouchesForAnything)


class NeverWaits(CopyLog):
    def when_idle(self, callback: Callable[[], None]) -> None:
        callback()


class NodeThatNeverWaits(Node):
    copy_class = NeverWaits


def scenario_of_a_change_that_is_cut_off(node_class: type[Node]) -> None:
    """b is told to truncate, the link breaks before that is done, and another master is elected."""
    group = SmallGroup(
        node_class=node_class,
        logs={"a": [(1, b"m1"), (2, b"o")], "b": [(1, b"m1"), (1, b"x"), (1, b"y")], "c": [(1, b"m1"), (2, b"o")]},
    )
    for name in "abc":
        group.join(name, 2)
    group.elect("a", 3, "c")
    group.ends.clear()
    b = group.nodes["b"].node
    b.on_leader(3, "a", "a")
    while b._following.follower is None or b._following.follower.state is not FollowerState.ALIGNING:
        assert any([group.nodes["b"].background.step(), *(end.deliver() for end in list(group.ends))])
    ends_before = len(group.ends)
    for end in group.ends:
        end.lose()
    group.run(but="b")
    group.clock.advance(2)  # b tries again
    group.run(but="b")
    assert len(group.ends) == ends_before  # no word before the change is over
    b.on_leader(4, "c", "c")
    group.run()
    assert group.nodes["b"].medium.promised_epoch == 4
    assert b.end.number == 1


def test_a_change_ends_before_the_copy_is_spoken_of_again() -> None:
    scenario_of_a_change_that_is_cut_off(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_change_that_is_cut_off(NodeThatNeverWaits)


class AppliesAtOnce(Follower):
    def _may_apply(self) -> bool:
        return True


class FollowingAtOnce(Following):
    follower_class = AppliesAtOnce


class NodeThatAppliesAtOnce(Node):
    following_class = FollowingAtOnce


def scenario_of_an_early_commit(node_class: type[Node]) -> None:
    """b has other records under the numbers that the master tells to be committed."""
    group = SmallGroup(
        node_class=node_class,
        logs={"a": [(1, b"m1"), (2, b"o"), (2, b"m2")], "b": [(1, b"m1"), (1, b"x"), (1, b"y")]},
    )
    group.join("a", 2)
    group.join("b", 2)
    group.nodes["b"].node.on_leader(3, "a", "a")
    group.nodes["a"].node.on_granted(3, group.members)
    group.run()
    follower = group.nodes["b"].node._following.follower
    if follower is None:  # it had dialed before the grant
        group.pass_time(1)
        follower = group.nodes["b"].node._following.follower
    assert group.nodes["a"].served == [3]
    assert group.log("a") == group.log("b")
    other = SmallGroup(node_class=node_class, logs={"b": [(1, b"m1"), (1, b"x")]})
    other.join("b", 1)
    b = other.nodes["b"].node
    other.silent.add("a")
    b.on_leader(3, "a", "a")
    other.run()
    assert b._following.follower is not None
    b._following.follower._committed(2)
    assert b._copy.log.committed() == 0


def test_what_is_committed_is_applied_after_the_logs_are_aligned() -> None:
    scenario_of_an_early_commit(Node)
    with pytest.raises(AssertionError):
        scenario_of_an_early_commit(NodeThatAppliesAtOnce)


class TruncatesAnything(Follower):
    def _may_truncate(self, number: int) -> bool:  # noqa: ARG002 - that is the mistake
        return True


def test_what_is_committed_is_never_truncated() -> None:
    group = group_of()
    sent(group, "a", b"m1", b"m2")
    group.run()
    group.pass_time(1)
    b = group.nodes["b"].node
    follower = b._following.follower
    assert follower is not None
    assert b._copy.log.committed() == 3
    assert not follower._may_truncate(2)
    follower.state = FollowerState.ACCEPTED
    follower.receive(Truncate(1))
    assert group.contents("b") == {b"m1", b"m2"}
    assert b._following.follower is None
    assert "is committed here" in b.why


# ---- refills ---------------------------------------------------------------------------------------------------


def test_a_refill_with_a_changed_byte_is_refused_and_the_old_log_stays() -> None:
    group = group_of()
    sent(group, "a", b"m0")
    group.run()
    group.restart("b")
    sent(group, "a", *(b"m%d" % number for number in range(1, 3 * SEGMENT_RECORDS)))
    group.run()
    group.store("a").compact()
    group.run()
    group.join("b", 1)
    b = group.nodes["b"].node
    b.on_leader(1, "a", "a")
    group.nodes["b"].background.run_all()
    follower = b._following.follower
    assert follower is not None
    receive = follower.receive
    refused: list[Message] = []

    def spoilt(message: Message) -> None:
        if isinstance(message, RefillPiece) and not refused:
            refused.append(message)
            message = RefillPiece(message.segment, message.offset, message.data[:-1] + b"!")
        receive(message)
        if isinstance(message, RefillEnd):
            assert follower.state is FollowerState.ENDED

    follower.receive = spoilt  # type: ignore[method-assign]
    while follower.state is not FollowerState.ENDED:
        assert any([*(it.background.step() for it in group.nodes.values()), *(end.deliver() for end in group.ends)])
    assert "checksum" in b.why
    assert group.contents("b") == {b"m0"}
    group.pass_time(2)
    assert group.contents("b") == group.contents("a")


# ---- the folder of a node --------------------------------------------------------------------------------------


class NeverLooks(Node):
    def _was_used_alone(self) -> bool:
        return False


def scenario_of_a_solo_epoch(node_class: type[Node]) -> None:
    """A broker without replication was started on the folder, and wrote in an epoch of its own."""
    group = SmallGroup(node_class=node_class, logs={"a": [(1, b"m1"), (2, b"alone")]})
    group.nodes["a"].medium.promised_epoch = 1
    group.restart("a")
    group.join("a", 1)
    assert group.nodes["a"].node.role is NodeRole.FAILED
    assert "without its group" in str(group.nodes["a"].failure)


def test_a_journal_that_was_used_without_its_group_is_refused() -> None:
    scenario_of_a_solo_epoch(Node)
    with pytest.raises(AssertionError):
        scenario_of_a_solo_epoch(NeverLooks)


# ---- old masters -----------------------------------------------------------------------------------------------


class TwoMasters(Following):
    def stop(self, why: str) -> None:  # noqa: ARG002 - that is the mistake
        self._attempt += 1
        self._is_dialing = False
        self.follower = None


class FollowsTwo(Node):
    following_class = TwoMasters


def scenario_of_an_old_master(node_class: type[Node]) -> None:
    """a has not heard that c was granted epoch 2; b has promised that."""
    group = group_of(node_class)
    group.nodes["c"].node.on_granted(2, group.members)
    group.nodes["b"].node.on_leader(2, "c", "c")
    answered = sent(group, "a", b"m1")
    group.run()
    assert group.nodes["c"].served == [2]
    assert answered == []
    assert b"m1" not in group.contents("c")


def test_a_master_whose_followers_have_promised_a_higher_epoch_answers_nobody() -> None:
    scenario_of_an_old_master(Node)
    with pytest.raises(AssertionError):
        scenario_of_an_old_master(FollowsTwo)


def test_a_master_that_hears_of_a_higher_epoch_steps_down() -> None:
    group = group_of()
    group.nodes["b"].node.on_leader(2, "a", "a")
    group.run()
    assert group.nodes["a"].node.role is NodeRole.FOLLOWER
    assert group.nodes["a"].elector.resigned == [("b has promised epoch 2", None)]


def test_a_grant_that_is_lost_while_the_store_opens_ends_when_it_is_open() -> None:
    group = SmallGroup()
    group.join_all()
    group.nodes["a"].holds_take_over = True
    group.elect("a", 1)
    a = group.nodes["a"]
    roles: list[NodeRole] = [a.node.role]
    a.node.on_lost("the session has expired")
    roles.append(a.node.role)
    assert roles == [NodeRole.TAKING_OVER, NodeRole.STEPPING_DOWN]
    a.node.on_granted(2, group.members)
    a.opening.pop()()
    group.run()
    for name in "bc":
        group.nodes[name].node.on_leader(2, "a", "a")
    group.run()
    a.opening.pop()()
    group.run()
    assert a.served == [2]
