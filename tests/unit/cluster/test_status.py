"""How a group tells that it stands."""

from collections.abc import Sequence

import pytest

from ackwire.cluster.status import GroupStanding, NodeStanding


def standing(counts: str, *, master: str = "a", missing: Sequence[str] = ()) -> GroupStanding:
    nodes = [NodeStanding(it, "follows", counts=it in counts) for it in "abc"]
    return GroupStanding("a", "master", 3, master, 3, "quorum_disk", 17, "a quorum has it", nodes, missing)


@pytest.mark.parametrize(
    ("group", "outlook"),
    [
        (standing("abc"), "1 more node may fail"),
        (standing("ab", missing=["c"]), "no further failure would be survived: 2 of 3 nodes are there; missing: c"),
        (
            standing("a", missing=["b", "c"]),
            "nothing is acknowledged: 1 node of 3 can be counted on, and 2 are needed; missing: b, c",
        ),
        (standing("", master="b"), "a is no master, and does not know who has what; ask the master, b"),
        (standing("", master=""), "a is no master, and does not know who has what; there is no master"),
    ],
)
def test_L2_it_says_which_failure_would_be_survived(group: GroupStanding, outlook: str) -> None:
    assert group.outlook == outlook
    assert group.as_json()["outlook"] == outlook


def test_L2_why_begins_with_wrong_when_nothing_is_acknowledged() -> None:
    assert standing("a", missing=["b", "c"]).report()[1].startswith("wrong: nothing is acknowledged")
    assert not standing("abc").report()[1].startswith("wrong")
