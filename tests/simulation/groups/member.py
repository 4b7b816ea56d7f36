"""One node of a simulated group, through all its processes: its disk, its store, and what it does for a `Node`."""

from collections.abc import Callable, Sequence
from random import Random

from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import LogSource, ReplicaLog
from ackwire.replication.messages import Reason
from ackwire.replication.node import LinkHandler, Node
from ackwire.replication.quorum import CommitQuorum
from tests.helpers.replica_memory import MemoryMaster, MemoryMedium, MemoryReplica, MemoryState, contents_of
from tests.simulation.groups.checker import Checker
from tests.simulation.groups.network import Network
from tests.simulation.groups.scheduler import Process, Scheduler, SlowBackground
from tests.simulation.groups.zookeeper import Ensemble, SimulatedElector

TIMING = Timing(quorum_seconds=6.0, window_bytes=2000, read_bytes=400)


class Member:
    """Implements `Host` for the node of its present process."""

    def __init__(
        self,
        name: str,
        *,
        scheduler: Scheduler,
        network: Network,
        ensemble: Ensemble,
        checker: Checker,
        random: Random,
        replicas: int,
        zk_cut: set[str],
        note: Callable[[str], None],
        node_class: type[Node] = Node,
    ) -> None:
        self.name = name
        self._scheduler = scheduler
        self._network = network
        self._ensemble = ensemble
        self._checker = checker
        self._random = random
        self._replicas = replicas
        self._zk_cut = zk_cut
        self._note = note
        self._node_class = node_class
        self._disks = 0
        self.medium = self._new_disk()
        self.process: Process | None = None
        self.node: Node | None = None
        self.store: MemoryMaster | None = None
        self.serving_epoch = 0
        """Of the store, while it serves."""
        self.failure: Exception | None = None
        self._checked = 0

    def _new_disk(self) -> MemoryMedium:
        self._disks += 1
        return MemoryMedium(f"{self.name}-disk-{self._disks}", self._random)

    @property
    def is_up(self) -> bool:
        return self.node is not None

    # ---- processes ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        rate = 1 + (self._random.random() - 0.5) * 0.04
        process = self.process = Process(self._scheduler, rate)
        background = SlowBackground(process, self._scheduler, self._random, self._random.choice((0.002, 0.02, 0.1)))
        self.failure = None
        self._checked = 0
        elector = SimulatedElector(self._ensemble, process, self._zk_cut, self.name)
        identity = Identity(self.name, self.name, self._random.getrandbits(60), self._replicas)
        state, log = MemoryState(self.medium, background), MemoryReplica(self.medium, background)
        node = self.node = self._node_class(identity, state, log, elector, self, clock=process, timing=TIMING)
        elector.events = node
        self._network.listeners[self.name] = (process, node.accepted)
        node.start()

    def end(self, *, power: bool) -> None:
        """The process ends at once."""
        assert self.process is not None
        self.process.is_over = True
        self._network.listeners.pop(self.name, None)
        self._network.break_links(self.name)
        self.node = self.store = None
        self.serving_epoch = 0
        self.medium.crash(power=power)

    def wipe(self) -> None:
        """Its disk is replaced by an empty one."""
        self.medium = self._new_disk()

    # ---- Host --------------------------------------------------------------------------------------------------

    def dial(
        self, address: str, on_link: Callable[[Link], LinkHandler | None], on_failed: Callable[[Reason, str], None]
    ) -> None:
        assert self.process is not None
        self._network.dial(self.name, self.process, address, on_link, on_failed)

    def take_over(
        self,
        log: ReplicaLog,
        epoch: int,
        quorum: CommitQuorum,
        done: Callable[[LogSource | None, Exception | None], None],
    ) -> None:
        assert isinstance(log, MemoryReplica)
        assert self.process is not None

        def opened() -> None:
            self.store = MemoryMaster(log, epoch, quorum)
            done(self.store, None)
            if self.store is not None:
                self.store.begin()

        self.process.call_later(self._random.random() * self._random.choice((0.01, 1.0)), opened)

    def serve(self, epoch: int) -> None:
        assert self.store is not None
        self._note(f"{self.name} serves epoch {epoch}")
        self.serving_epoch = epoch
        self._checker.serves(self.name, epoch, self.store.contents())

    def suspended(self, is_suspended: bool) -> None:
        self._note(f"{self.name} is {'suspended' if is_suspended else 'resumed'}")

    def step_down(self, why: str, done: Callable[[ReplicaLog], None]) -> None:
        assert self.process is not None
        assert self.store is not None
        self._note(f"{self.name} steps down: {why}")
        store, self.store = self.store, None
        self.serving_epoch = 0
        log = store.close()
        self.process.call_later(self._random.random() * 0.5, lambda: done(log))

    def fail(self, error: Exception) -> None:
        self._note(f"{self.name} has failed: {error}")
        self.failure = error

    # ---- clients -----------------------------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        """Whether clients can talk to it: a paused process takes nothing."""
        process = self.process
        return self.serving_epoch > 0 and process is not None and process.paused_until <= self._scheduler.now

    def send(self, messages: Sequence[bytes]) -> None:
        """A client sends messages, in one transaction if there are several."""
        assert self.store is not None
        epoch = self.serving_epoch
        self._checker.sending(messages)
        self.store.write(messages, lambda: self._checker.answered(epoch, sent=messages))

    def remove(self, message: bytes) -> None:
        """A client consumes *message*."""
        assert self.store is not None
        epoch = self.serving_epoch
        self._checker.removing.add(message)
        self.store.write([b"r" + message[1:]], lambda: self._checker.answered(epoch, removed=[message]))

    def contents(self) -> set[bytes]:
        return contents_of(self.medium.cache)

    def check(self) -> None:
        """Compare what is committed here with what is committed elsewhere."""
        if self.node is None or self.failure is not None:
            return
        committed = self.node.status().committed
        behind = (it for it in self.medium.cache[max(0, self._checked + 1 - _first(self.medium)) :])
        self._checker.committed(self.name, ((it.number, it) for it in behind if it.number <= committed))
        self._checked = max(self._checked, committed)


def _first(medium: MemoryMedium) -> int:
    return medium.cache[0].number if medium.cache else 1
