"""Three copies of one journal, with masters that come and go: what two of them had on disk is never lost.

The nodes are stepped by hand; what carries bytes between them here is a function call. The protocol has its own tests.
"""

from collections.abc import Callable
from random import Random

import pytest

from ackwire.store.journal.group_commit import JournalEnd
from ackwire.store.journal.shipping import LogEnd
from tests.helpers.replica import ReplicaNode, catch_up, refill, ship, used_part
from tests.helpers.store_history import ALL_KINDS, Happenings, History
from tests.helpers.stored import kept
from tests.helpers.stores import Crash

Epochs = list[tuple[int, int]]


def last_common(master: Epochs, master_end: LogEnd, follower: Epochs, end: LogEnd) -> int:
    """The last record that both have, as their epochs tell."""
    ends = {
        epoch: (following[1] - 1 if following is not None else master_end.number)
        for (epoch, _), following in zip(master, [*master[1:], None], strict=True)
    }
    last = end.number
    for epoch, first in reversed(follower):
        if epoch in ends:
            return min(last, ends[epoch])
        last = first - 1
    return last


class TwoOfThree:
    """A `Quorum`: the master and one other."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Callable[[], None]]] = []
        self.confirmed = 0
        self.on_disk = 0
        """What the master has."""

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        self.on_disk = max(self.on_disk, end.number)
        self.asked.append((end.number, confirmed))

    def others_have(self, number: int) -> None:
        """The best of the others has all up to *number* on disk."""
        self.confirmed = max(self.confirmed, min(number, self.on_disk))
        asked, self.asked = self.asked, []
        for wanted, confirmed in asked:
            if wanted <= self.confirmed:
                confirmed()
            else:
                self.asked.append((wanted, confirmed))


class Group:
    """Three nodes and a workload on whoever is master."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes = [ReplicaNode(3 * seed + number) for number in range(3)]
        self.history, self.happenings = History(), Happenings()
        self.epoch = 0
        self.quorum = TwoOfThree()
        self.master = self.nodes[0]

    # ---- masters -----------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Two of the nodes, or all of them, promise; the one with the best log becomes the master."""
        voters = [it for it in self.random.sample(self.nodes, 3) if it.node.may_vote]
        voters = voters[: self.random.choice((2, 2, 3))]
        assert len(voters) >= 2, "no disk has lost anything"
        self.epoch += 1
        for node in voters:
            node.promise(self.epoch)
        self.master = max(voters, key=lambda it: it.copy.durable())
        self.quorum = TwoOfThree()
        store = self.master.lead(self.epoch, self.quorum)
        for node in voters:
            if node is not self.master:
                self.follow(node)
        self.exchange()
        assert self.master.has_begun()
        self.history.go_on_from(kept(store))

    def follow(self, node: ReplicaNode) -> None:
        """A node has promised: its log becomes a beginning of the master's."""
        source = self.master.source
        assert source is not None
        copy = node.copy
        common = last_common(source.epochs(), source.end(), copy.epochs(), copy.end())
        if common + 1 >= source.first_number():  # or it is refilled
            assert common >= copy.committed()
            node.truncate_after(common)
            ship(self.master, node)
        else:
            refill(self.master, node)

    # ---- what happens ------------------------------------------------------------------------------------------

    def work(self, count: int) -> None:
        store = self.master.store
        assert store is not None
        for _ in range(count):
            kind = self.random.choice(ALL_KINDS)
            self.history.record(store, self.happenings.make(kind, self.history.state, self.random))
            if self.random.random() < 0.5:
                self.history.ask(store, lambda _: None)
            if self.random.random() < 0.4:
                self.master.step()
            if self.random.random() < 0.2:
                self.exchange()

    def exchange(self) -> None:
        """Some followers get some of what is new, and sync it; all hear what is committed."""
        for node in self.random.sample(self.followers, 2):
            if node.node.promised_epoch == self.epoch and self.random.random() < 0.8:
                catch_up(self.master, node, self.random.choice((100, 5000)))
        for _ in range(2):
            self.master.settle()
            self.quorum.others_have(max(self.durable(it) for it in self.followers))
        for node in self.followers:
            if node.node.promised_epoch == self.epoch:
                node.copy.commit(self.quorum.confirmed)
                node.settle()

    def durable(self, node: ReplicaNode) -> int:
        end = node.copy.durable()
        return end.number if node.node.promised_epoch == self.epoch and end.epoch == self.epoch else 0

    @property
    def followers(self) -> list[ReplicaNode]:
        return [it for it in self.nodes if it is not self.master]

    def disturb(self) -> None:
        """A follower crashes, or comes back; the master crashes, or steps down."""
        match self.random.randrange(6):
            case 0 | 1:
                self.random.choice(self.followers).crash(self.random.choice(list(Crash)))
            case 2:
                late = [it for it in self.followers if it.node.promised_epoch < self.epoch]
                for node in late:
                    node.promise(self.epoch)
                    self.follow(node)
            case 3:
                self.master.wait(self.random.randrange(1, 4))
                for node in self.followers:
                    node.wait(2)
            case 4:
                self.master.step_down()
                self.elect()
            case 5:
                self.master.crash(self.random.choice(list(Crash)))
                self.elect()


@pytest.mark.parametrize("seed", range(10))
def test_what_two_of_three_had_on_disk_is_never_lost(seed: int) -> None:
    group = Group(seed)
    group.elect()
    for _ in range(40):
        group.work(group.random.randrange(12))
        if group.random.random() < 0.5:
            group.exchange()
        if group.random.random() < 0.3:
            group.disturb()
    for node in group.followers:
        node.promise(group.epoch)
        group.follow(node)
    group.master.settle()
    there = used_part(group.master)
    for node in group.followers:
        catch_up(group.master, node)
        here = used_part(node)
        both = here.keys() & there.keys()  # either may have removed a segment already that the other has not
        assert max(there) in both
        assert {number: here[number] for number in both} == {number: there[number] for number in both}
