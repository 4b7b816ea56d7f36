"""A leader and its followers without clocks and networks: messages wait until a test delivers them.

group = SmallGroup(3)
group.elect("a", 1)
group.store("a").write([b"m1"], answered)
group.run()
"""

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import cast

from ackwire.replication.elector import Joined, Standing
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import LogSource, ReplicaLog
from ackwire.replication.messages import Bye, Message, Reason, encoded
from ackwire.replication.messages import Decoder as MessageDecoder
from ackwire.replication.node import LinkHandler, Node
from ackwire.replication.quorum import CommitQuorum, SyncMode
from ackwire.util.clock import ManualClock
from tests.helpers.background import ControlledBackground
from tests.helpers.replica_memory import MemoryMaster, MemoryMedium, MemoryReplica, MemoryState, contents_of

TIMING = Timing(heartbeat_seconds=0.5, dead_seconds=4.0, quorum_seconds=10.0, window_bytes=2000, read_bytes=300)


class PairedLink:
    """One end of a link in memory; implements `Link`."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.peer: PairedLink
        self.handler: LinkHandler | None = None
        self.is_closed = False
        self.waiting: deque[bytes] = deque()
        """What has come and was not received."""
        self.sent: list[Message] = []
        self.end_waits = False
        self._decoder = MessageDecoder()
        self._decoder.is_proved = True

    def send(self, message: Message) -> None:
        if not self.is_closed:
            self.sent.append(message)
            self.peer.waiting.append(encoded(message))

    def flush(self) -> None:
        """Everything is on its way already."""

    def close(self, reason: Reason, text: str) -> None:
        if not self.is_closed:
            self.send(Bye(reason, text))
            self.is_closed = True

    def lose(self) -> None:
        """The link breaks, with all that is on its way."""
        for end in (self, self.peer):
            end.waiting.clear()
            end.end_waits = True

    def deliver(self) -> bool:
        """Receive the next message, or the end; False if there is nothing."""
        if self.waiting:
            data = self.waiting.popleft()
            for message in self._decoder.receive(data):
                if not self.is_closed and self.handler is not None:
                    self.handler.receive(message)
            if not self.is_closed and self.handler is not None:
                self.handler.turn_ended()
            return True
        if self.end_waits:
            self.end_waits = False
            if not self.is_closed:
                self.is_closed = True
                if self.handler is not None:
                    self.handler.closed()
            return True
        return False


class ManualElector:
    """Implements `Elector`: a test decides what it says."""

    def __init__(self) -> None:
        self.standing: Standing | None = None
        self.resigned: list[tuple[str, str | None]] = []
        self.admitted: list[tuple[str, str, int]] = []
        self.admission_error: Exception | None = None
        self.until = float("inf")
        self.is_released = False

    def announce(self, standing: Standing) -> None:
        self.standing = standing

    def resign(self, why: str, *, better: str | None = None) -> None:
        self.resigned.append((why, better))

    def admit(self, node_id: str, disk_id: str, epoch: int, done: Callable[[Exception | None], None]) -> None:
        if self.admission_error is None:
            self.admitted.append((node_id, disk_id, epoch))
        done(self.admission_error)

    def holds_until(self) -> float:
        return self.until

    def release(self) -> None:
        self.is_released = True


class SmallNode:
    """One node; implements `Host`."""

    def __init__(
        self, name: str, group: "SmallGroup", medium: MemoryMedium, node_class: type[Node], mode: SyncMode
    ) -> None:
        self.name = name
        self.group = group
        self.medium = medium
        self.background = ControlledBackground()
        self.elector = ManualElector()
        self.store: MemoryMaster | None = None
        self.served: list[int] = []
        self.failure: Exception | None = None
        self.holds_take_over = False
        self.opening: list[Callable[[], None]] = []
        identity = Identity(name, name, group.random.getrandbits(60), group.replicas, mode=mode)
        state = MemoryState(medium, self.background)
        log = MemoryReplica(medium, self.background)
        self.node = node_class(identity, state, log, self.elector, self, clock=group.clock, timing=TIMING)

    def dial(
        self, address: str, on_link: Callable[[Link], LinkHandler | None], on_failed: Callable[[Reason, str], None]
    ) -> None:
        target = self.group.nodes.get(address)
        if target is None or address in self.group.unreachable:
            on_failed(Reason.NONE, f"{address} cannot be reached")
            return
        near, far = PairedLink(self.name), PairedLink(address)
        near.peer, far.peer = far, near
        self.group.ends += (near, far)
        if address not in self.group.silent:
            far.handler = target.node.accepted(far)
        near.handler = on_link(near)

    def take_over(
        self,
        log: ReplicaLog,
        epoch: int,
        quorum: CommitQuorum,
        done: Callable[[LogSource | None, Exception | None], None],
    ) -> None:
        def opened() -> None:
            self.store = MemoryMaster(cast(MemoryReplica, log), epoch, quorum)
            done(self.store, None)
            if self.store is not None:
                self.store.begin()

        if self.holds_take_over:
            self.opening.append(opened)
        else:
            opened()

    def serve(self, epoch: int) -> None:
        self.served.append(epoch)

    def suspended(self, is_suspended: bool) -> None:
        pass

    def step_down(self, why: str, done: Callable[[ReplicaLog], None]) -> None:  # noqa: ARG002 - for people
        assert self.store is not None
        store, self.store = self.store, None
        done(store.close())

    def fail(self, error: Exception) -> None:
        self.failure = error


class SmallGroup:
    """Nodes called a, b, c, …"""

    def __init__(
        self,
        replicas: int = 3,
        *,
        node_class: type[Node] = Node,
        mode: SyncMode = SyncMode.QUORUM_DISK,
        logs: Mapping[str, list[tuple[int, bytes]]] | None = None,
    ) -> None:
        self.replicas = replicas
        self.random = Random(7)
        self.clock = ManualClock()
        self.ends: list[PairedLink] = []
        self.unreachable: set[str] = set()
        self.silent: set[str] = set()
        """Nodes that take links and say nothing."""
        self.nodes: dict[str, SmallNode] = {}
        self.members: dict[str, str] = {}
        self.node_class = node_class
        self.mode = mode
        for name in "abcde"[:replicas]:
            medium = MemoryMedium(f"disk of {name}", self.random)
            if logs and logs.get(name):
                medium.set_log(logs[name])
            self.members[name] = medium.disk_id
            self.nodes[name] = SmallNode(name, self, medium, node_class, mode)

    def restart(self, name: str, medium: MemoryMedium | None = None) -> SmallNode:
        """The process of a node ends, and another begins, perhaps on another disk."""
        old = self.nodes[name]
        for end in self.ends:
            if end.owner == name:
                end.lose()
        old.medium.crash()
        node = self.nodes[name] = SmallNode(name, self, medium or old.medium, self.node_class, self.mode)
        return node

    def join(self, name: str, epoch: int = 0) -> None:
        node = self.nodes[name]
        is_member = self.members.get(name) == node.medium.disk_id
        node.node.start()
        node.node.on_joined(Joined("the-group", epoch, is_member))
        self.run()

    def join_all(self) -> None:
        for name in self.nodes:
            self.join(name)

    def elect(self, name: str, epoch: int, followers: str | None = None) -> None:
        """Grant *epoch* to a node, and tell those who are to follow."""
        self.nodes[name].node.on_granted(epoch, self.members)
        self.run()
        for other in self.nodes if followers is None else followers:
            if other != name:
                self.nodes[other].node.on_leader(epoch, name, name)
        self.run()

    def store(self, name: str) -> MemoryMaster:
        store = self.nodes[name].store
        assert store is not None
        return store

    def run(self, *, but: str = "") -> None:
        """Until nothing waits, except on the disks of the nodes in *but*."""
        while any([self._work(but), *(end.deliver() for end in list(self.ends))]):
            pass

    def _work(self, but: str) -> bool:
        steps = [it.background.step() for it in self.nodes.values() if it.name not in but]
        return any(steps)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.5)):
            self.clock.advance(0.5)
            self.run()

    def contents(self, name: str) -> set[bytes]:
        return contents_of(self.nodes[name].medium.cache)

    def log(self, name: str) -> list[tuple[int, int, bytes]]:
        return [(it.epoch, it.number, it.payload) for it in self.nodes[name].medium.cache]
