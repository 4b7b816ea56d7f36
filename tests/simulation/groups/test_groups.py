"""Some seeds of replicated groups; `make simulate-groups SEEDS=…` runs as many as you like."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from ackwire.replication.leader import Leader
from ackwire.replication.log import LogEnd
from ackwire.replication.node import Node
from tests.simulation.groups.checker import Checker, GroupViolation
from tests.simulation.groups.world import GroupWorld

QUICK_STEPS = 6000
JOURNAL_SEEDS = 30
MEMORY_SEEDS = 30
CHUNK = 5


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nodes that crash have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(1, JOURNAL_SEEDS + 1, CHUNK))
def test_seeds_on_the_journal_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        GroupWorld(seed, steps=QUICK_STEPS).run()


@pytest.mark.parametrize("first", range(1, MEMORY_SEEDS + 1, CHUNK))
def test_seeds_on_a_model_of_the_journal_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        GroupWorld(seed, steps=QUICK_STEPS, is_real=False).run()


@pytest.mark.parametrize("is_real", [True, False], ids=["journal", "memory"])
def test_the_same_seed_is_the_same_run(is_real: bool) -> None:
    histories = []
    for _ in range(2):
        world = GroupWorld(7, steps=QUICK_STEPS, record=True, is_real=is_real)
        world.run()
        histories.append(world.history)
    assert histories[0] == histories[1]


def test_everything_happens_in_some_seed() -> None:
    """Otherwise they would show little."""
    received: Counter[str] = Counter()
    masters = 0
    for seed in (*range(1, 8), 11):
        world = GroupWorld(seed, steps=QUICK_STEPS)
        world.run()
        received += world.network.received
        masters += world.checker.masters
    assert masters > 16
    for kind in ("Hello", "Truncate", "Append", "Ack", "RefillPiece", "RefillEnd", "Vote", "Heartbeat", "Bye"):
        assert received[kind], f"there was no {kind}"


class ComparesNothing(Leader):
    def _is_better(self, end: LogEnd) -> bool:  # noqa: ARG002 - that is the mistake
        return False


class NodeThatComparesNothing(Node):
    leader_class = ComparesNothing


def test_the_checker_sees_a_master_whose_log_is_not_the_best() -> None:
    with pytest.raises(GroupViolation):
        _run_many(NodeThatComparesNothing)


def _run_many(node_class: type[Node]) -> None:
    for seed in range(1, 40):
        GroupWorld(seed, steps=QUICK_STEPS, is_real=False, node_class=node_class).run()


def test_the_checker_sees_what_is_lost_undone_late_torn_or_different() -> None:
    checker = Checker()
    checker.sending([b"m1"])
    checker.sending([b"m2", b"m3"])
    checker.serves("a", 1, set())
    checker.answered(1, sent=[b"m1"])
    with pytest.raises(GroupViolation, match="lost 1 answered"):
        checker.holds("b", set())
    with pytest.raises(GroupViolation, match="of the group"):
        checker.holds("b", {b"m1", b"m2"})
    with pytest.raises(GroupViolation, match="never sent"):
        checker.holds("b", {b"m1", b"m9"})
    checker.removing.add(b"m1")
    checker.answered(1, removed=[b"m1"])
    with pytest.raises(GroupViolation, match="again"):
        checker.holds("b", {b"m1"})
    checker.serves("b", 2, set())
    with pytest.raises(GroupViolation, match="epoch 1 answers"):
        checker.answered(1)
    with pytest.raises(GroupViolation, match="begins to serve epoch 2"):
        checker.serves("a", 2, set())
    checker.committed("a", [(1, "x"), (2, "y")])
    with pytest.raises(GroupViolation, match="committed record 2"):
        checker.committed("b", [(2, "z")])
