"""Which candidate is granted mastership."""

import pytest

from ackwire.cluster.entries import Candidate, Group, Master, View, choose, next_epoch
from ackwire.errors import ConfigError
from ackwire.replication.elector import Standing
from ackwire.replication.log import LogEnd


def candidate(
    name: str,
    end: tuple[int, int] = (1, 10),
    *,
    weight: int = 1,
    promised: int = 0,
    may_vote: bool = True,
    resigned: int = 0,
    better: str = "",
) -> Candidate:
    standing = Standing(name, f"disk of {name}", f"{name}:1", LogEnd(*end), promised, may_vote, weight)
    return Candidate(standing, resigned_epoch=resigned, better=better)


def view(*candidates: Candidate, epoch: int = 1, members: str = "abc") -> View:
    return View(Group("g", 3), epoch, {it: f"disk of {it}" for it in members}, candidates)


def test_L2_nobody_is_chosen_without_a_quorum_of_members_and_the_missing_are_named() -> None:
    choice = choose(view(candidate("a")))
    assert (choice.node_id, choice.missing) == ("", ["b", "c"])
    assert choice.why_not == "1 of 3 nodes are there, and 2 are needed"


def test_L2_the_log_that_goes_furthest_wins_and_epochs_come_before_numbers() -> None:
    assert choose(view(candidate("a", (1, 100)), candidate("b", (2, 95)))).node_id == "b"
    assert choose(view(candidate("a", (2, 96)), candidate("b", (2, 95), weight=9))).node_id == "a"


def test_L2_weight_decides_between_equal_logs_and_then_the_name() -> None:
    assert choose(view(candidate("a", weight=2), candidate("b"))).node_id == "a"
    assert choose(view(candidate("a"), candidate("b"))).node_id == "b"


def test_L2_a_disk_that_is_no_member_does_not_count() -> None:
    other = Candidate(Standing("b", "a new disk", "b:1", LogEnd(9, 9), 0, True, 1))
    assert choose(view(candidate("a"), other)).node_id == ""


def test_L2_a_copy_without_a_vote_is_not_chosen_but_is_there() -> None:
    assert choose(view(candidate("a", (9, 9), may_vote=False), candidate("b"))).node_id == "b"
    assert choose(view(candidate("a", may_vote=False), candidate("b", may_vote=False))).node_id == ""


def test_L2_one_who_has_given_the_last_epoch_back_comes_behind_and_the_one_it_named_in_front() -> None:
    resigned = candidate("a", (3, 9), resigned=5)
    assert choose(view(resigned, candidate("b"), candidate("c"), epoch=5)).node_id == "c"
    named = candidate("a", (3, 9), resigned=5, better="b")
    assert choose(view(named, candidate("b"), candidate("c"), epoch=5)).node_id == "b"
    assert choose(view(named, candidate("b"), candidate("c"), epoch=6)).node_id == "a"


def test_L2_the_next_epoch_is_above_every_promise() -> None:
    assert next_epoch(view(candidate("a", promised=8), candidate("b"), epoch=5)) == 9
    assert next_epoch(view(candidate("a"), epoch=5)) == 6


def test_entries_survive_being_written() -> None:
    made = candidate("a", (3, 9), resigned=5, better="b")
    assert Candidate.unpack(made.pack(), "/p") == made
    group, master = Group("g", 3), Master(4, "a", "a:1", "tcp://a:61616")
    assert (Group.unpack(group.pack(), "/p"), Master.unpack(master.pack(), "/p")) == (group, master)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"group_id": 1, "replicas": 3, "format": 1}', b"\xff"])
def test_an_entry_of_another_program_is_named_by_its_path(data: bytes) -> None:
    with pytest.raises(ConfigError, match="/app/group"):
        Group.unpack(data, "/app/group")
