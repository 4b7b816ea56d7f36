"""Whom a master accepts, how it brings copies up to date, and when it gives up."""

from dataclasses import replace

import pytest

from ackwire.replication.handing_over import HAND_OVER_SECONDS_MAX
from ackwire.replication.identity import Timing, last_common
from ackwire.replication.leader import Leader
from ackwire.replication.log import LogEnd, RefusedChunk
from ackwire.replication.messages import Ack, Append, Hello, Message, Reason, RefillBegin, Vote, Welcome
from ackwire.replication.node import Node, NodeRole
from ackwire.replication.quorum import SyncMode, quorum_of
from tests.helpers.replica_group import PairedLink, SmallGroup
from tests.helpers.replica_memory import SEGMENT_RECORDS
from tests.replication.test_holes import group_of, sent
from tests.replication.test_messages import HELLO, MESSAGES


def leader_of(group: SmallGroup, name: str) -> Leader:
    leader = group.nodes[name].node.leader
    assert leader is not None
    return leader


def greeting(group: SmallGroup, name: str) -> Hello:
    """What a follower has said to the master."""
    return next(it for end in group.ends if end.owner == name for it in end.sent if isinstance(it, Hello))


def reply(group: SmallGroup, hello: Hello) -> Welcome:
    """What the master says to *hello* over a new link."""
    near, far = PairedLink("a"), PairedLink("stranger")
    near.peer, far.peer = far, near
    group.nodes["a"].node.accepted(near).receive(hello)
    welcome = near.sent[0]
    assert isinstance(welcome, Welcome)
    assert near.is_closed is not welcome.is_accepted
    return welcome


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"version": 2}, Reason.OTHER_VERSION, "version 2"),
        ({"group_id": "others"}, Reason.OTHER_GROUP, "belongs to group others"),
        ({"store_id": bytes(16)}, Reason.OTHER_STORE, "not a copy of this group's"),
        ({"store_format": 9}, Reason.OTHER_FORMAT, "format 9"),
        ({"replicas": 5}, Reason.OTHER_REPLICAS, "replicas = 5"),
        ({"node_id": "a"}, Reason.DUPLICATE_NODE, "two nodes are called a"),
        ({"node_id": "d"}, Reason.NOT_A_MEMBER, "d is not one of the 3 members: a, b, c"),
        ({"incarnation": 1, "address": "elsewhere"}, Reason.DUPLICATE_NODE, "at b and at elsewhere"),
        ({"epoch": 0}, Reason.OTHER_EPOCH, "follows epoch 0"),
    ],
)
def test_who_does_not_belong_is_refused_by_name(changes: dict[str, object], reason: Reason, says: str) -> None:
    group = group_of()
    welcome = reply(group, replace(greeting(group, "b"), **changes))  # type: ignore[arg-type]
    assert welcome.reason is reason
    assert says in welcome.text
    assert group.nodes["a"].node.role is NodeRole.MASTER


def test_a_node_that_is_no_master_says_so() -> None:
    group = SmallGroup()
    group.join_all()
    assert reply(group, HELLO).reason is Reason.NOT_MASTER


def test_the_same_process_may_come_back_over_a_new_link() -> None:
    group = group_of()
    assert reply(group, replace(greeting(group, "b"), end=LogEnd(1, 1))).is_accepted


def test_another_process_may_take_the_place_of_a_silent_one() -> None:
    group = group_of()
    for end in group.ends:
        end.peer.waiting.clear()
    hello = replace(greeting(group, "b"), incarnation=5, end=LogEnd(1, 1))
    group.clock.advance(group.nodes["a"].node._timing.dead_seconds + 1)
    assert reply(group, hello).is_accepted


@pytest.mark.parametrize(("replicas", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_is_more_than_half(replicas: int, quorum: int) -> None:
    assert quorum_of(replicas) == quorum


def test_a_group_of_one_needs_no_one_else() -> None:
    group = SmallGroup(1)
    group.join_all()
    group.elect("a", 1)
    assert group.nodes["a"].served == [1]
    assert_answered(group, "a")


def test_three_of_five_are_enough() -> None:
    group = SmallGroup(5)
    group.join_all()
    group.elect("a", 1, "bc")
    assert group.nodes["a"].served == [1]
    assert_answered(group, "a")
    group.nodes["c"].node.stop()
    group.run()
    answered = sent(group, "a", b"m2")
    group.run()
    assert answered == []


def assert_answered(group: SmallGroup, name: str) -> None:
    answered = sent(group, name, b"m1")
    group.run()
    assert answered == [b"m1"]


@pytest.mark.parametrize(
    ("ours", "our_end", "theirs", "their_end", "common"),
    [
        ([], (0, 0), [], (0, 0), 0),
        ([(1, 1)], (1, 9), [], (0, 0), 0),
        ([(1, 1)], (1, 9), [(1, 1)], (1, 7), 7),
        ([(1, 1), (2, 10)], (2, 20), [(1, 1)], (1, 15), 9),
        ([(1, 1)], (1, 15), [(1, 1), (2, 10)], (2, 20), 9),
        ([(1, 1), (3, 10)], (3, 20), [(1, 1), (2, 8)], (2, 30), 7),
        ([(1, 1), (3, 10)], (3, 20), [(1, 1), (3, 10), (4, 15)], (4, 16), 14),
        ([(5, 100)], (5, 120), [(1, 1), (2, 8)], (2, 30), 0),
    ],
)
def test_logs_part_where_their_epochs_say(
    ours: list[tuple[int, int]],
    our_end: tuple[int, int],
    theirs: list[tuple[int, int]],
    their_end: tuple[int, int],
    common: int,
) -> None:
    assert last_common(ours, LogEnd(*our_end), theirs, LogEnd(*their_end)) == common
    assert last_common(theirs, LogEnd(*their_end), ours, LogEnd(*our_end)) == common


def test_a_slow_follower_is_not_waited_for_and_catches_up_from_the_files() -> None:
    group = group_of()
    window = group.nodes["a"].node._timing.window_bytes
    for number in range(100):
        assert sent(group, "a", b"m%03d" % number) == []
        group.run(but="c")
    copy = leader_of(group, "a").copies["c"]
    assert copy.flight_bytes < window + 200
    status = {it.node_id: it for it in group.nodes["a"].node.status().copies}
    assert status["b"].lag_records == 0
    assert status["c"].lag_records > 50
    assert len(group.contents("b")) == 100
    group.run()
    assert group.contents("c") == group.contents("b")


def test_a_follower_is_refilled_where_the_records_are_gone_and_votes_as_before() -> None:
    group = group_of()
    group.restart("c")
    sent(group, "a", *(b"m%d" % number for number in range(3 * SEGMENT_RECORDS)))
    group.run()
    group.store("a").compact()
    group.run()
    group.join("c", 1)
    group.nodes["c"].node.on_leader(1, "a", "a")
    group.run()
    assert group.contents("c") == group.contents("a")
    group.nodes["b"].node.stop()
    group.run()
    assert_answered(group, "a")


def test_a_master_without_followers_gives_another_the_chance() -> None:
    group = group_of()
    for name in "bc":
        group.nodes[name].node.stop()
    group.run()
    group.pass_time(Timing().quorum_seconds + 2)
    why, better = group.nodes["a"].elector.resigned[0]
    assert "missing b, c" in why
    assert better is None
    assert group.nodes["a"].node.role is NodeRole.FOLLOWER


def test_a_master_whose_disk_hangs_gives_way_to_one_that_has_everything() -> None:
    """Its sync never ends, so nothing fails, and its session with the elector lasts."""
    group = group_of()
    answered = sent(group, "a", b"m1")
    for _ in range(round((Timing().disk_seconds - 1) / 0.5)):
        group.run(but="a")
        group.clock.advance(0.5)
    assert group.nodes["a"].node.role is NodeRole.MASTER
    for _ in range(6):
        group.run(but="a")
        group.clock.advance(0.5)
    why, better = group.nodes["a"].elector.resigned[0]
    assert "the disk of a has taken nothing for 10 s" in why
    assert better in ("b", "c")
    assert answered == []
    group.nodes["b"].node.on_granted(2, group.members)
    group.run(but="a")
    group.nodes["c"].node.on_leader(2, "b", "b")
    group.run(but="a")
    assert group.nodes["b"].served == [2]
    assert group.contents("b") == {b"m1"}


def test_a_slow_disk_that_goes_on_is_waited_for() -> None:
    group = group_of()
    answered = []
    for number in range(40):
        answered += [sent(group, "a", b"m%d" % number)]
        group.run(but="a")
        if number % 8 == 7:
            group.nodes["a"].background.run_all()
        group.clock.advance(0.5)
    assert group.nodes["a"].elector.resigned == []
    group.run()
    assert all(answered)


def test_a_master_hands_over_to_a_follower_that_has_everything() -> None:
    group = group_of()
    assert group.nodes["b"].node.hand_over("a") == "this node is not the master"
    assert group.nodes["a"].node.hand_over("d") == "d does not follow"
    answered = sent(group, "a", b"m1")
    assert group.nodes["a"].node.hand_over("b") is None
    assert group.nodes["a"].node.hand_over("c") == "this node hands over already"
    assert group.nodes["a"].elector.resigned == [], "b does not have everything yet"
    group.run()
    assert answered == [], "nothing is answered from the beginning on"
    assert group.nodes["a"].elector.resigned == [("it hands over to b", "b")]
    group.elect("b", 2)
    assert group.nodes["b"].served == [2]
    assert group.contents("b") == {b"m1"}


def test_a_master_stays_when_the_successor_does_not_get_everything_in_time() -> None:
    group = group_of()
    answered = sent(group, "a", b"m1")
    assert group.nodes["a"].node.hand_over("b") is None
    group.run(but="b")
    assert answered == []
    group.clock.advance(HAND_OVER_SECONDS_MAX)
    assert (group.nodes["a"].elector.resigned, answered) == ([], [b"m1"])
    assert group.nodes["a"].node.role is NodeRole.MASTER


def test_a_master_stays_when_the_successor_is_gone() -> None:
    group = group_of()
    answered = sent(group, "a", b"m1")
    assert group.nodes["a"].node.hand_over("b") is None
    group.nodes["b"].node.stop()
    group.run()
    assert (group.nodes["a"].elector.resigned, answered) == ([], [b"m1"])


@pytest.mark.parametrize(
    ("mode", "answers"), [(SyncMode.QUORUM_DISK, False), (SyncMode.QUORUM_MEM, True), (SyncMode.LOCAL_DISK, True)]
)
def test_the_sync_mode_says_when_records_are_answered_for(mode: SyncMode, answers: bool) -> None:
    """The followers' disks take nothing."""
    group = SmallGroup(mode=mode)
    group.join_all()
    group.elect("a", 1)
    answered = sent(group, "a", b"m1")
    group.run(but="bc")
    assert bool(answered) is answers
    group.run()
    assert answered == [b"m1"]


@pytest.mark.parametrize("message", [Append, Vote, Hello])
def test_a_follower_that_sends_what_only_a_master_sends_is_cut_off(message: type[Message]) -> None:
    group = group_of()
    example = next(it for it in MESSAGES if isinstance(it, message))
    leader = leader_of(group, "a")
    copy = leader.copies["b"]
    leader.receive(copy, example)
    assert copy.state.value == "ended"
    group.run()
    group.pass_time(2)
    assert leader.copies["b"].state.value == "following"


def test_an_acknowledgement_of_what_was_never_sent_ends_the_link() -> None:
    group = group_of()
    leader = leader_of(group, "a")
    copy = leader.copies["b"]
    leader.receive(copy, Ack(LogEnd(1, 99), 99, True))
    assert copy.state.value == "ended"
    assert leader._quorum.committed == 1


def test_a_member_that_was_removed_does_not_count_and_another_may_have_its_place() -> None:
    group = group_of()
    group.nodes["c"].node.stop()
    group.run()
    sent(group, "a", b"m1")
    group.run(but="a")  # b has it, and the master's own disk has not
    group.nodes["a"].node.on_members({name: group.members[name] for name in "ac"})
    group.run()
    answered = sent(group, "a", b"m2")
    group.run()
    assert answered == []
    welcome = reply(group, replace(greeting(group, "b"), node_id="d", disk_id="disk of d"))
    assert welcome.is_accepted
    status = {it.node_id: it for it in group.nodes["a"].node.status().copies}
    assert not status["d"].counts


def test_what_a_copy_has_lost_is_not_counted_on() -> None:
    group = group_of()
    group.nodes["c"].node.stop()
    group.run()
    answered = sent(group, "a", b"m1")
    group.run(but="a")
    leader = leader_of(group, "a")
    assert leader._durable["b"] == 2
    welcome = reply(group, replace(greeting(group, "b"), end=LogEnd(1, 1)))
    assert (welcome.reason, welcome.text) == (Reason.LOST_RECORDS, "b ends at (1, 1), and had acknowledged record 2")
    assert "b" not in leader._durable
    leader.closed(leader.copies["b"])
    reply(group, replace(greeting(group, "b"), disk_id="another"))
    assert "b" not in leader._durable
    group.nodes["a"].background.run_all()
    assert answered == []


def behind(group: SmallGroup, name: str) -> None:
    """That follower comes back from a pause, and needs what was written meanwhile from the files."""
    group.nodes[name].node.stop()
    group.run()
    group.restart(name)
    sent(group, "a", b"m1", b"m2")
    group.run()


def test_a_master_whose_log_is_damaged_gives_way_to_one_that_has_everything_and_is_refilled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = group_of()
    behind(group, "c")
    damage = OSError("segment 1 is damaged: record 2 cannot be read")
    monkeypatch.setattr(group.store("a"), "read", lambda after, bytes_max, done: done(None, damage))  # noqa: ARG005
    group.join("c", 1)
    group.nodes["c"].node.on_leader(1, "a", "a")
    group.run()
    why, better = group.nodes["a"].elector.resigned[0]
    assert "record 2 cannot be read" in why
    assert better == "b"
    standing = group.nodes["a"].elector.standing
    assert standing is not None
    assert not standing.may_vote
    group.elect("b", 2)
    group.pass_time(5)
    assert group.nodes["b"].served == [2]
    assert group.log("a") == group.log("b") == group.log("c")
    assert group.nodes["a"].medium.log_damage == ""
    assert group.nodes["a"].medium.may_vote
    assert any(isinstance(it, RefillBegin) for end in group.ends if end.owner == "b" for it in end.sent)


def test_a_damaged_master_goes_on_when_no_other_node_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of()
    behind(group, "c")
    group.nodes["b"].node.stop()
    group.run()
    damage = OSError("segment 1 is damaged: record 2 cannot be read")
    monkeypatch.setattr(group.store("a"), "read", lambda after, bytes_max, done: done(None, damage))  # noqa: ARG005
    group.join("c", 1)
    group.nodes["c"].node.on_leader(1, "a", "a")
    group.run()
    assert group.nodes["a"].elector.resigned == []
    assert group.nodes["a"].node.role is NodeRole.MASTER
    assert "cannot be read" in group.nodes["c"].node.status().why


@pytest.mark.parametrize("mode", list(SyncMode))
def test_a_copy_with_other_committed_records_is_kept_unless_they_may_be_lost_by_choice(mode: SyncMode) -> None:
    logs = {
        "a": [(1, b"m1"), (2, b"o"), (2, b"m2")],
        "b": [(1, b"m1"), (2, b"o"), (2, b"m2")],
        "c": [(1, b"m1"), (1, b"x"), (1, b"y")],
    }
    group = SmallGroup(mode=mode, logs=logs)
    group.nodes["c"].medium.committed = 3
    group.restart("c")
    for name in "abc":
        group.join(name, 2)
    group.elect("a", 3)
    group.pass_time(2)
    assert group.nodes["a"].served == [3]
    if mode is SyncMode.QUORUM_DISK:
        assert "c has the committed record 3, and shares 1 records" in group.nodes["c"].node.status().why
        assert [it[2] for it in group.log("c")] == [b"m1", b"x", b"y"]
    else:
        assert group.log("c") == group.log("a")


def test_a_copy_of_epochs_that_the_master_does_not_know_any_more_is_refilled() -> None:
    logs = {name: [(5, b"m1"), (5, b"m2")] for name in "ab"}
    group = SmallGroup(logs={**logs, "c": [(1, b"m1")]})
    group.nodes["c"].medium.committed = 1
    group.restart("c")
    for name in "abc":
        group.join(name, 5)
    group.elect("a", 6)
    group.pass_time(2)
    assert group.log("c") == group.log("a")


def test_a_copy_behind_which_nothing_fits_is_refilled(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of()
    log = group.nodes["c"].node._copy.log

    def refuse(_: object) -> None:
        raise RefusedChunk("it belongs at 64 of segment 3, and the log ends at 128 of segment 2")

    monkeypatch.setattr(log, "append", refuse)
    answered = sent(group, "a", b"m1")
    group.run()
    assert answered == [b"m1"]
    group.pass_time(8)
    assert group.log("c") == group.log("a")


def test_a_node_of_another_group_stops() -> None:
    group = SmallGroup()
    group.nodes["a"].medium.group_id = "others"
    node: Node = group.restart("a").node
    group.join("a")
    assert node.role is NodeRole.FAILED
    assert "belongs to group others" in str(group.nodes["a"].failure)


def test_a_grant_that_is_not_above_the_promise_is_given_back() -> None:
    group = group_of()
    group.nodes["b"].node.on_granted(1, group.members)
    assert "not above" in group.nodes["b"].elector.resigned[0][0]
