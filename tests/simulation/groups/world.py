"""A group of nodes, its clients and everything that goes wrong, from one seed.

    GroupWorld(seed).run()          # raises `GroupViolation`

Everything random comes from the seed, and nothing runs beside it, so the same seed is the same run. At the end all
faults are healed, and the group must find a master, answer everybody, and have the same log everywhere.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from ackwire.replication.node import Node
from tests.helpers.stored import Messages
from tests.simulation.groups.checker import Checker, GroupViolation
from tests.simulation.groups.member import Member
from tests.simulation.groups.network import Network
from tests.simulation.groups.scheduler import Scheduler
from tests.simulation.groups.storage import JournalStorage, MemoryStorage, Storage
from tests.simulation.groups.zookeeper import Ensemble

STEPS = 20_000
_SETTLING_SECONDS = 120.0


class GroupWorld:
    """Builds everything and runs it."""

    def __init__(
        self,
        seed: int,
        *,
        steps: int = STEPS,
        record: bool = False,
        node_class: type[Node] = Node,
        is_real: bool = True,
    ) -> None:
        """*is_real* has nodes on the real journal, and not on the model of one."""
        self.seed = seed
        self.steps = steps
        self.history: list[str] | None = [] if record else None
        self.random = Random(seed)
        self.scheduler = Scheduler()
        self.checker = Checker()
        replicas = self.random.choice((3, 3, 5))
        self.network = Network(self.scheduler, Random(self.random.random()))
        self.network.slowest_seconds = self.random.choice((0.002, 0.02, 0.2))
        self.ensemble = Ensemble(self.scheduler, Random(self.random.random()), replicas)
        self._zk_cut: set[str] = set()
        self._is_real = is_real
        self._maker = Messages()
        self.members = [
            Member(
                f"node-{index}",
                scheduler=self.scheduler,
                network=self.network,
                ensemble=self.ensemble,
                checker=self.checker,
                random=Random(self.random.random()),
                storage=self._make_storage(f"node-{index}"),
                replicas=replicas,
                zk_cut=self._zk_cut,
                note=self.note,
                node_class=node_class,
            )
            for index in range(replicas)
        ]
        self._fault_seconds = self.random.choice((1.0, 3.0, 10.0))
        self._writer_seconds = self.random.choice((0.02, 0.1))
        self._faults = self._choose_faults()
        self._messages = 0
        self._is_calm = False

    def _make_storage(self, name: str) -> Storage:
        random = Random(self.random.random())
        if self._is_real:
            return JournalStorage(name, self.scheduler, random, self._maker)
        return MemoryStorage(name, self.scheduler, random)

    def note(self, text: str) -> None:
        if self.history is not None:
            self.history.append(f"{self.scheduler.now:10.4f} {text}")

    def _choose_faults(self) -> list[Callable[[], None]]:
        """Of this seed; some have all kinds, and some only a few."""
        kinds: list[Callable[[], None]] = [
            self._crash,
            self._crash,
            self._blackout,
            self._crash_master,
            self._crash_master,
            self._isolate_master,
            self._pause,
            self._cut_way,
            self._cut_node,
            self._cut_zookeeper,
            self._expire_session,
            self._reset_links,
            self._damage,
            self._trouble,
            self._trouble,
            self._hand_over,
        ]
        return kinds if self.random.random() < 0.5 else self.random.sample(kinds, 3)

    # ---- running -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.scheduler.call_later(0, self.ensemble.tick)
        for member in self.members:
            self.scheduler.call_later(self.random.random() * 2, partial(self._restart, member))
        self.scheduler.call_later(1, self._fault)
        self.scheduler.call_later(1, self._write)
        self.scheduler.call_later(1, self._check)
        while self.scheduler.steps < self.steps:
            self.scheduler.step()
        self._settle()

    def _check(self) -> None:
        for member in self.members:
            member.check()
            if (member.failure is not None or not member.is_up) and self.random.random() < 0.2:
                self._start_anew(member)
        self.scheduler.call_later(0.5, self._check)

    # ---- clients -----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Clients talk to every node that thinks it is the master."""
        if self._is_calm:
            return
        for member in self.members:
            if member.is_serving:
                self._use(member)
        self.scheduler.call_later(self.random.random() * 2 * self._writer_seconds, self._write)

    def _use(self, member: Member) -> None:
        chance = self.random.random()
        if chance < 0.5:
            count = self.random.choice((1, 1, 3))
            messages = [b"m%06d" % (self._messages + 1 + index) for index in range(count)]
            self._messages += count
            member.send(messages)
        elif chance < 0.93:
            member.remove()
        else:
            member.storage.compact()

    # ---- faults ------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._is_calm:
            return
        self.random.choice(self._faults)()
        self.scheduler.call_later(self.random.random() * 2 * self._fault_seconds, self._fault)

    def _some(self) -> Member:
        return self.random.choice(self.members)

    def _some_seconds(self) -> float:
        return self.random.choice((0.1, 1.0, 6.0, 15.0)) * self.random.random()

    def _crash(self) -> None:
        member = self._some()
        if not member.is_up:
            return
        power = self.random.random() < 0.6
        self.note(f"{member.name} {'loses power' if power else 'is killed'}")
        member.end(power=power)
        self.scheduler.call_later(self._some_seconds(), lambda: self._restart(member))

    def _crash_one(self, member: Member, *, power: bool) -> None:
        member.end(power=power)
        self.scheduler.call_later(self._some_seconds(), partial(self._restart, member))

    def _blackout(self) -> None:
        """All lose power at once; some stay away for long."""
        self.note("all lose power")
        for member in self.members:
            if member.is_up:
                self._crash_one(member, power=True)

    def _crash_master(self) -> None:
        """The master and perhaps one of the others lose power in the same moment."""
        masters = [it for it in self.members if it.is_serving]
        for member in masters + self.random.sample(self.members, self.random.randrange(2)):
            if member.is_up:
                self.note(f"{member.name} loses power")
                self._crash_one(member, power=True)

    def _isolate_master(self) -> None:
        """ZooKeeper does not hear of the master any more, or some of its followers do not."""
        for member in self.members:
            if member.is_serving:
                seconds = 3 + self._some_seconds()
                self.note(f"{member.name} has no ZooKeeper for {seconds:.2f} s")
                self._zk_cut.add(member.name)
                self.scheduler.call_later(seconds, partial(self._zk_cut.discard, member.name))
                others = [it.name for it in self.members if it is not member and self.random.random() < 0.3]
                self._cut([(it, member.name) for it in others])

    def _restart(self, member: Member) -> None:
        if not member.is_up:
            self.note(f"{member.name} starts")
            if not member.start():
                self.scheduler.call_later(1, lambda: self._restart(member))

    def _start_anew(self, member: Member) -> None:
        if member.is_up:
            member.end(power=False)
        self._restart(member)

    def _trouble(self) -> None:
        """A disk fails, or its machine stops in the middle of a call."""
        member = self._some()
        if member.is_up:
            self.note(f"the disk of {member.name} {member.storage.plan_trouble()}")

    def _pause(self) -> None:
        member = self._some()
        if member.process is not None and member.process.paused_until < self.scheduler.now:
            seconds = self._some_seconds()
            self.note(f"{member.name} is paused for {seconds:.2f} s")
            member.process.pause(seconds)

    def _cut_way(self) -> None:
        source, target = self.random.sample(self.members, 2)
        self._cut([(source.name, target.name)])

    def _cut_node(self) -> None:
        member = self._some()
        others = [it.name for it in self.members if it is not member]
        self._cut([(member.name, it) for it in others] + [(it, member.name) for it in others])

    def _cut(self, ways: list[tuple[str, str]]) -> None:
        seconds = self._some_seconds()
        self.note(f"cut for {seconds:.2f} s: {ways}")
        self.network.cut.update(ways)

        def heal() -> None:
            for source, target in ways:
                self.network.heal(source, target)

        self.scheduler.call_later(seconds, heal)

    def _cut_zookeeper(self) -> None:
        name, seconds = self._some().name, self._some_seconds()
        self.note(f"{name} has no ZooKeeper for {seconds:.2f} s")
        self._zk_cut.add(name)
        self.scheduler.call_later(seconds, lambda: self._zk_cut.discard(name))

    def _expire_session(self) -> None:
        if self.ensemble.sessions:
            session = self.random.choice(self.ensemble.sessions)
            self.note(f"the session of {session.standing.node_id} expires")
            self.ensemble.expire(session)

    def _reset_links(self) -> None:
        if self.network.ends:
            end = self.random.choice(self.network.ends)
            self.note(f"the link of {end.owner} and {end.other} breaks")
            end.reset()

    def _damage(self) -> None:
        """A disk is replaced, or has lost what was on it; never two at a time, which no quorum of three survives."""
        if not all(it.storage.may_vote and self._is_member(it) for it in self.members):
            return
        member = self._some()
        if member.is_up:
            member.end(power=True)
            self.scheduler.call_later(self._some_seconds(), lambda: self._restart(member))
        if self.random.random() < 0.5 and member.storage.lose_end():
            self.note(f"{member.name} has lost the end of its log")
        else:
            self.note(f"{member.name} has a new disk")
            member.storage.wipe()

    def _is_member(self, member: Member) -> bool:
        return self.ensemble.members.get(member.name) == member.storage.disk_id

    def _hand_over(self) -> None:
        for member in self.members:
            if member.is_serving and member.node is not None:
                target = self._some().name
                refusal = member.node.hand_over(target)
                self.note(f"{member.name} hands over to {target}: {refusal or 'done'}")
                return

    # ---- the end -----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Heal everything; then the group must be whole within some time."""
        self.note("---- all faults are healed")
        self._is_calm = True
        for source, target in list(self.network.cut):
            self.network.heal(source, target)
        self._zk_cut.clear()
        until = self.scheduler.now + _SETTLING_SECONDS
        while self.scheduler.now < until:
            for _ in range(200):
                self.scheduler.step()
            for member in self.members:
                if not member.is_up or member.failure is not None:
                    self._start_anew(member)
            if self._is_whole():
                self._check_end()
                return
        raise GroupViolation(f"the group is not whole {_SETTLING_SECONDS} s after all faults: {self._states()}")

    def _is_whole(self) -> bool:
        masters = [it for it in self.members if it.is_serving]
        if len(masters) != 1 or masters[0].node is None:
            return False
        status = masters[0].node.status()
        end = masters[0].storage.end_number()
        return (
            status.committed == end
            and len(status.copies) == len(self.members) - 1
            and all(it.counts and it.durable == end for it in status.copies)
        )

    def _states(self) -> list[str]:
        return [f"{it.name}: {'down' if it.node is None else (it.node.status(), it.failure)}" for it in self.members]

    def _check_end(self) -> None:
        for member in self.members:
            member.check()
        self.note(f"---- whole: {self.checker.answers} answers, {self.checker.masters} masters")
