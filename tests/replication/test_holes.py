"""The eight holes of ActiveMQ's replicated LevelDB store, and what closes each of them here.

Every scenario runs twice: as it is, and with the one guard taken out that closes the hole. Without it the scenario must
fail; otherwise it would show nothing.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ackwire.errors import ConfigError, RemoteProtocolError
from ackwire.replication import handshake
from ackwire.replication.copies import Copy
from ackwire.replication.copy_log import CopyLog
from ackwire.replication.follower import Follower
from ackwire.replication.following import Following
from ackwire.replication.leader import Leader
from ackwire.replication.log import LogEnd, Refill, SnapshotSegment
from ackwire.replication.messages import Ack, Decoder, Message, RefillPiece, Type
from ackwire.replication.node import Node
from ackwire.replication.quorum import CommitQuorum, SyncMode
from ackwire.store.journal.group_commit import JournalEnd
from tests.helpers.replica_group import SmallGroup
from tests.helpers.replica_memory import SEGMENT_RECORDS, MemoryReplica, contents_of


def group_of(node_class: type[Node] = Node) -> SmallGroup:
    """Three nodes, of which a is the master of epoch 1."""
    group = SmallGroup(node_class=node_class)
    group.join_all()
    group.elect("a", 1)
    assert group.nodes["a"].served == [1]
    return group


def sent(group: SmallGroup, name: str, *messages: bytes) -> list[bytes]:
    """Send messages to a master; the list fills with those that are answered."""
    answered: list[bytes] = []
    for message in messages:
        group.store(name).write([message], lambda message=message: answered.append(message))  # type: ignore[misc]
    return answered


# ---- a: positions of different histories are compared as numbers -----------------------------------------------


class ComparesNumbers(Leader):
    def _is_better(self, end: LogEnd) -> bool:
        return end.number > self._end.number


class NodeThatComparesNumbers(Node):
    leader_class = ComparesNumbers


def scenario_a(node_class: type[Node]) -> None:
    """a wrote 81 to 100, which none else has, and died; b and c committed 81 to 95. Then b dies, and a is back."""
    shared = [(1, b"m%d" % number) for number in range(1, 81)]
    unanswered = [(1, b"lost %d" % number) for number in range(81, 101)]
    committed = [(2, b"o"), *((2, b"m%d" % number) for number in range(82, 96))]
    group = SmallGroup(
        node_class=node_class,
        logs={"a": shared + unanswered, "b": shared + committed, "c": shared + committed},
    )
    group.join("a", 2)
    group.join("c", 2)
    group.elect("a", 3, "c")
    assert group.nodes["a"].served == []
    assert [better for _, better in group.nodes["a"].elector.resigned] == ["c"]
    group.elect("c", 4, "a")
    assert group.nodes["c"].served == [4]
    assert group.log("a") == group.log("c")
    assert b"m95" in group.contents("a")
    assert b"lost 81" not in group.contents("a")


def test_hole_a_logs_are_compared_by_epoch_and_the_divergent_end_is_truncated() -> None:
    scenario_a(Node)


def test_hole_a_is_open_without_the_comparison_of_epochs() -> None:
    with pytest.raises(AssertionError):
        scenario_a(NodeThatComparesNumbers)


# ---- b: what was caught up is acknowledged before it is forced to the disk --------------------------------------


class AcknowledgesReceipt(Follower):
    def turn_ended(self) -> None:
        self._copy.durable = self._copy.end.number
        self._ack()


class FollowingByReceipt(Following):
    follower_class = AcknowledgesReceipt


class NodeThatAcknowledgesReceipt(Node):
    following_class = FollowingByReceipt


def scenario_b(node_class: type[Node]) -> None:
    """c is away, b catches up from the files, and its disk takes nothing yet."""
    group = SmallGroup(node_class=node_class)
    group.unreachable.add("c")
    group.join("a")
    group.join("b")
    group.nodes["a"].node.on_granted(1, group.members)
    group.run()
    group.nodes["b"].node.on_leader(1, "a", "a")
    group.run(but="b")
    group.nodes["b"].background.step()  # the promise
    group.nodes["b"].background.step()
    group.run(but="b")
    assert group.nodes["b"].node.end.number == 1
    assert group.nodes["a"].served == []
    group.run()
    assert group.nodes["a"].served == [1]


def test_hole_b_what_was_caught_up_is_forced_before_it_is_acknowledged() -> None:
    scenario_b(Node)


def test_hole_b_is_open_without_the_sync() -> None:
    with pytest.raises(AssertionError):
        scenario_b(NodeThatAcknowledgesReceipt)


# ---- c: the old store goes before the new one is there ---------------------------------------------------------


class DeletesFirst(CopyLog):
    def begin_refill(self, store_id: bytes, end: LogEnd, segments: list[SnapshotSegment]) -> Refill:  # type: ignore[override]
        assert isinstance(self.log, MemoryReplica)
        self.log.replaced([], b"")
        return super().begin_refill(store_id, end, segments)


class NodeThatDeletesFirst(Node):
    copy_class = DeletesFirst


def scenario_c(node_class: type[Node]) -> None:
    """b comes back after what it needs is compacted away, and loses power in the middle of its refill."""
    group = group_of(node_class)
    sent(group, "a", b"m0", b"m1")
    group.run()
    before = group.contents("b")
    assert before == {b"m0", b"m1"}
    group.restart("b")
    sent(group, "a", *(b"m%d" % number for number in range(2, 3 * SEGMENT_RECORDS)))
    group.run()
    group.store("a").compact()
    group.run()
    assert group.store("a").first_number() > 3
    group.join("b", 1)
    b = group.nodes["b"]
    b.node.on_leader(1, "a", "a")
    while not any(isinstance(it, RefillPiece) for end in group.ends if end.owner == "a" for it in end.sent):
        assert any([*(it.background.step() for it in group.nodes.values()), *(end.deliver() for end in group.ends)])
    b = group.restart("b")
    assert contents_of(b.medium.records) == before
    group.join("b", 1)
    b.node.on_leader(1, "a", "a")
    group.run()
    assert group.contents("b") == group.contents("a")


def test_hole_c_the_old_log_stays_until_the_new_one_is_complete() -> None:
    scenario_c(Node)


def test_hole_c_is_open_if_the_old_log_goes_first() -> None:
    with pytest.raises(AssertionError):
        scenario_c(NodeThatDeletesFirst)


# ---- d: no secret on all interfaces, lengths and file names from the wire --------------------------------------


class TrustsLengths(Decoder):
    def _check(self, size: int, kind: int) -> None:
        """Wait for whatever is announced."""


def scenario_d(decoder: Decoder) -> None:
    """A stranger announces a hello of four gigabytes."""
    frame = (0xFFFF_FFF0).to_bytes(4) + bytes((Type.HELLO,)) + bytes(4)
    with pytest.raises(RemoteProtocolError):
        list(decoder.receive(frame))


def test_hole_d_lengths_are_checked_before_anything_is_kept() -> None:
    scenario_d(Decoder())


def test_hole_d_is_open_without_the_check() -> None:
    with pytest.raises(pytest.fail.Exception):
        scenario_d(TrustsLengths())


def test_hole_d_without_a_secret_no_other_machine_is_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        handshake.require_secret(b"", "0.0.0.0")
    monkeypatch.setattr(handshake, "_is_loopback", lambda _: True)  # the guard
    handshake.require_secret(b"", "0.0.0.0")


def test_hole_d_no_message_carries_the_name_of_a_file() -> None:
    """A segment is a number; a piece of one that was not announced is refused."""
    assert RefillPiece.__annotations__["segment"] in (int, "int")
    assert not any(Path in annotations_of(it) for it in Message.__args__)


def annotations_of(kind: type) -> list[object]:
    return list(kind.__annotations__.values())


# ---- e: a newer waiter takes the place of an older one ---------------------------------------------------------


class OneWaiter(CommitQuorum):
    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        self._waiting.clear()
        super().confirm(end, confirmed)


def scenario_e(quorum_class: type[CommitQuorum]) -> None:
    """Three syncs wait for the quorum, and it confirms the last of them."""
    quorum = quorum_class(1, mode=SyncMode.QUORUM_DISK, may_answer=lambda: True)
    quorum.first_own = 1
    confirmed: list[int] = []
    for number in (3, 5, 9):
        quorum.confirm(JournalEnd(1, number, 1, 0), lambda number=number: confirmed.append(number))  # type: ignore[misc]
    quorum.count([4], 1)
    quorum.release()
    assert confirmed == [3]
    quorum.count([9], 1)
    quorum.release()
    assert confirmed == [3, 5, 9]


def test_hole_e_everyone_who_waits_is_answered_in_order() -> None:
    scenario_e(CommitQuorum)


def test_hole_e_is_open_with_one_place_for_all() -> None:
    with pytest.raises(AssertionError):
        scenario_e(OneWaiter)


# ---- f: changes of the group meet code that counts on members --------------------------------------------------


class TrustsOldLinks(Leader):
    def receive(self, copy: Copy, message: Message) -> None:
        super().receive(copy, message)
        if isinstance(message, Ack):
            self._durable[copy.node_id] = message.durable
            self._count()


class NodeThatTrustsOldLinks(Node):
    leader_class = TrustsOldLinks


def scenario_f(node_class: type[Node]) -> None:
    """b's disk fails in the middle, its link ends, and what it said before comes afterwards."""
    group = group_of(node_class)
    group.nodes["c"].node.stop()
    group.run()
    leader = group.nodes["a"].node.leader
    assert leader is not None
    copy = leader.copies["b"]
    answered = sent(group, "a", b"m1")
    group.run(but="b")
    for end in group.ends:
        end.lose()
    group.run(but="b")
    leader.receive(copy, Ack(LogEnd(1, 2), 2, True))  # of a link that has ended
    leader.closed(copy)
    group.run(but="b")
    assert answered == []
    group.run()
    group.pass_time(1)
    assert answered == [b"m1"]


def test_hole_f_what_comes_over_a_link_that_has_ended_changes_nothing() -> None:
    scenario_f(Node)


def test_hole_f_is_open_if_old_links_are_trusted() -> None:
    with pytest.raises(AssertionError):
        scenario_f(NodeThatTrustsOldLinks)


# ---- g: addresses are guessed ----------------------------------------------------------------------------------


class GuessesAddresses(Node):
    def on_leader(self, epoch: int, node_id: str, address: str) -> None:  # noqa: ARG002 - that is the mistake
        super().on_leader(epoch, node_id, node_id)


def scenario_g(node_class: type[Node]) -> None:
    """The master's name is not where it is."""
    group = SmallGroup(node_class=node_class)
    group.join_all()
    assert group.nodes["a"].elector.standing is not None
    assert group.nodes["a"].elector.standing.address == group.nodes["a"].node.identity.address
    group.nodes["a"].node.on_granted(1, group.members)
    for name in "bc":
        group.nodes[name].node.on_leader(1, "the master", "a")
    group.run()
    assert group.nodes["a"].served == [1]


def test_hole_g_a_master_is_dialed_where_it_says_that_it_is() -> None:
    scenario_g(Node)


def test_hole_g_is_open_if_addresses_are_guessed() -> None:
    with pytest.raises(AssertionError):
        scenario_g(GuessesAddresses)


# ---- h: work goes on while the elector is away -----------------------------------------------------------------


class IgnoresSuspension(CommitQuorum):
    def suspend(self) -> None:
        """Hope for the best."""


class NodeThatIgnoresSuspension(Node):
    quorum_class = IgnoresSuspension


def scenario_h(node_class: type[Node]) -> None:
    """The connection with the elector is lost, and comes back."""
    group = group_of(node_class)
    master = group.nodes["a"].node
    master.on_suspended()
    answered = sent(group, "a", b"m1")
    group.run()
    assert answered == []
    master.on_resumed()
    assert answered == [b"m1"]
    master.on_suspended()
    answered = sent(group, "a", b"m2")
    group.run()
    master.on_lost("the session has expired")
    group.run()
    assert answered == []
    assert group.nodes["a"].store is None


def test_hole_h_nothing_is_answered_while_the_elector_is_away() -> None:
    scenario_h(Node)


def test_hole_h_is_open_if_a_suspension_is_ignored() -> None:
    with pytest.raises(AssertionError):
        scenario_h(NodeThatIgnoresSuspension)
