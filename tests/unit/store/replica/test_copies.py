"""A copy takes what the master ships, and nothing else; what is committed is warm when it takes over."""

from dataclasses import replace
from random import Random

import pytest

from tests.helpers.replica import ReplicaNode, catch_up, used_part
from tests.helpers.store_history import ALL_KINDS, Happenings, History
from tests.helpers.stored import Kept, Messages, Q, difference, kept


class Workload:
    """Random verbs on the store of a master."""

    def __init__(self, seed: int) -> None:
        self.history = History()
        self.happenings = Happenings()
        self.random = Random(seed)

    def run(self, node: ReplicaNode, count: int) -> None:
        store = node.store
        assert store is not None
        for _ in range(count):
            kind = self.random.choice(ALL_KINDS)
            self.history.record(store, self.happenings.make(kind, self.history.state, self.random))
            if self.random.random() < 0.3:
                self.history.ask(store)
            if self.random.random() < 0.3:
                node.clock.advance(self.random.choice((0, 0, 0.02, 1)))
            if self.random.random() < 0.5:
                node.step()
        node.settle()


def in_order(found: Kept) -> Kept:
    """Compaction writes old counts and commits again, so their order tells nothing."""
    return replace(found, commits=sorted(found.commits, key=repr), last_counts=sorted(found.last_counts))


def group_of(seed: int = 0) -> tuple[ReplicaNode, ReplicaNode, Workload]:
    """A master of epoch 1 with an empty log, and a follower that promised it."""
    master, follower = ReplicaNode(2 * seed), ReplicaNode(2 * seed + 1)
    master.lead(1)
    follower.promise(1)
    return master, follower, Workload(seed)


def test_the_first_epoch_begins_on_an_empty_log() -> None:
    node = ReplicaNode()
    store = node.lead(7)
    assert node.has_begun()
    assert (store.journal.writer.epoch, node.node.led_epoch, node.node.promised_epoch) == (7, 7, 7)
    messages = Messages()
    store.append(messages.make(), [Q])
    answered: list[bool] = []
    store.when_durable(lambda: answered.append(True))
    node.settle()
    assert answered


TWO_PLACES_OF_ONE_NAME = 37, 127
"""Seeds in which a copy is refilled with a journal in whose middle two places have one name, and would write its index
there."""


@pytest.mark.parametrize("seed", [*range(8), *TWO_PLACES_OF_ONE_NAME])
def test_a_copy_is_byte_for_byte_like_the_masters_journal(seed: int) -> None:
    master, follower, work = group_of(seed)
    random = Random(seed)
    assert master.source is not None
    for _ in range(10):
        work.run(master, 12)
        if random.random() < 0.5:
            catch_up(master, follower, random.choice((1, 500, 5000, 1 << 16)))
            master.source.on_chunk = follower.copy.append
            work.run(master, 12)
            master.source.on_chunk = None
        follower.copy.commit(random.randrange(follower.copy.end().number + 1))
        if random.random() < 0.3:
            follower.wait(2)
        if random.random() < 0.2:
            follower.crash()
            follower.promise(1)
    catch_up(master, follower)
    assert follower.copy.durable() == master.source.end()
    here, there = used_part(follower), used_part(master)
    assert {number: here[number] for number in here if number in there} == there


@pytest.mark.parametrize("seed", [*range(8), *TWO_PLACES_OF_ONE_NAME])
def test_what_a_take_over_finds_is_what_a_restart_of_the_master_finds(seed: int) -> None:
    master, follower, work = group_of(seed)
    for _ in range(6):
        work.run(master, 25)
        catch_up(master, follower)
        follower.copy.commit(follower.copy.end().number - work.random.randrange(5))
        follower.wait(1)
    found = kept(follower.lead(2))
    master.step_down()
    expected = kept(master.lead(2))
    assert not difference(in_order(found), in_order(expected))
    work.history.go_on_from(found)
