"""A peer that has the secret and says anything at any time ends its own link, and nothing else."""

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from ackwire.replication.log import Chunk, LogEnd
from ackwire.replication.messages import Append, Hello, Message
from ackwire.replication.node import NodeRole
from tests.helpers.replica_group import PairedLink, SmallGroup
from tests.replication.test_holes import group_of, sent
from tests.replication.test_messages import MESSAGES


def changed(message: Message, random: Random) -> Message:
    """*message* with other numbers, small ones that may fit among them."""
    changes: dict[str, Any] = {}
    for it in fields(message):
        value = getattr(message, it.name)
        if isinstance(value, bool):
            changes[it.name] = random.random() < 0.5
        elif type(value) is int:
            changes[it.name] = random.choice((0, 1, 2, 3, value, 1 << 40))
        elif isinstance(value, LogEnd):
            changes[it.name] = LogEnd(random.randrange(4), random.randrange(9))
    return replace(message, **changes)


def anything(group: SmallGroup, random: Random) -> Message:
    hello = next(it for end in group.ends if end.owner == "b" for it in end.sent if isinstance(it, Hello))
    chunk = Chunk(1, 64, 1 << 20, random.randrange(9), LogEnd(random.randrange(3), random.randrange(9, 20)), b"x")
    message = random.choice((*MESSAGES, hello, hello, Append(random.randrange(9), chunk)))
    return message if random.random() < 0.3 else changed(message, random)


@pytest.mark.parametrize("seed", range(150))
def test_a_master_outlives_whatever_a_follower_says(seed: int) -> None:
    random = Random(seed)
    group = group_of()
    near, far = PairedLink("a"), PairedLink("stranger")
    near.peer, far.peer = far, near
    handler = group.nodes["a"].node.accepted(near)
    for _ in range(20):
        handler.receive(anything(group, random))
    handler.closed()
    group.run()
    group.pass_time(3)
    if group.nodes["a"].node.role is NodeRole.MASTER:  # it believes a member that has promised a higher epoch
        answered = sent(group, "a", b"m1")
        group.run()
        assert answered == [b"m1"]
    else:
        assert "has promised epoch" in group.nodes["a"].elector.resigned[0][0]


@pytest.mark.parametrize("seed", range(150))
def test_a_follower_keeps_what_is_committed_whatever_a_master_says(seed: int) -> None:
    random = Random(seed)
    group = group_of()
    sent(group, "a", b"m1", b"m2")
    group.run()
    group.pass_time(1)
    b = group.nodes["b"]
    assert b.node.status().committed == 3
    follower = b.node._following.follower
    assert follower is not None
    for _ in range(20):
        message = anything(group, random)
        if type(message).__name__ != "RefillBegin":  # a refill replaces everything, when it is complete and right
            follower.receive(message)
            b.background.run_all()
    group.pass_time(3)
    assert {b"m1", b"m2"} <= group.contents("b")
    assert b.failure is None
    assert b.node._following.follower is not None
