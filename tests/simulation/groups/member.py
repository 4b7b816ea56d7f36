"""One node of a simulated group, through all its processes: what it does for a `Node`, and for its clients."""

from collections.abc import Callable, Sequence
from random import Random

from ackwire.errors import StoreFailed
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import LogSource, ReplicaLog
from ackwire.replication.messages import Reason
from ackwire.replication.node import LinkHandler, Node
from ackwire.replication.quorum import CommitQuorum
from ackwire.store.journal.recovery_report import UnusableStore
from tests.helpers.simulated_disk import Stopped
from tests.simulation.groups.checker import Checker
from tests.simulation.groups.network import Network
from tests.simulation.groups.scheduler import Process, Scheduler
from tests.simulation.groups.storage import Storage
from tests.simulation.groups.zookeeper import Ensemble, SimulatedElector

TIMING = Timing(quorum_seconds=6.0, window_bytes=40_000, read_bytes=5000)


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
        storage: Storage,
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
        self.storage = storage
        self.process: Process | None = None
        self.node: Node | None = None
        self.has_store = False
        self.serving_epoch = 0
        """Of the store, while it serves."""
        self.failure: Exception | None = None
        self._waiting: set[bytes] = set()
        """What clients believe to be in the store."""
        self._checked = 0

    @property
    def is_up(self) -> bool:
        return self.node is not None

    # ---- processes ---------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Begin a process; False if it ends at once, because the disk is in trouble."""
        rate = 1 + (self._random.random() - 0.5) * 0.04
        process = self.process = Process(self._scheduler, rate)
        process.on_stopped = self._stopped
        self.failure = None
        self._checked = 0
        self._waiting.clear()
        try:
            state, log = self.storage.start(process, self._failed)
        except (OSError, StoreFailed, UnusableStore, Stopped) as error:
            self._note(f"{self.name} cannot start: {error!r}")
            process.is_over = True
            self.storage.crash(power=isinstance(error, Stopped))
            return False
        elector = SimulatedElector(self._ensemble, process, self._zk_cut, self.name)
        identity = Identity(self.name, self.name, self._random.getrandbits(60), self._replicas)
        node = self.node = self._node_class(identity, state, log, elector, self, clock=process, timing=TIMING)
        elector.events = node
        self._network.listeners[self.name] = (process, node.accepted)
        node.on_role = lambda role, why: self._note(f"{self.name} is {role.value} in epoch {node.epoch}: {why}")
        node.start()
        return True

    def _stopped(self) -> None:
        self._note(f"{self.name} stops in the middle of a call of its disk")
        self.end(power=True)

    def _failed(self, error: Exception) -> None:
        if self.node is not None:
            self.node.fail(error)

    def end(self, *, power: bool) -> None:
        """The process ends at once."""
        assert self.process is not None
        self.process.is_over = True
        self._network.listeners.pop(self.name, None)
        self._network.break_links(self.name)
        self.node = None
        self.has_store = False
        self.serving_epoch = 0
        self.storage.crash(power=power)

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
        def opened(source: LogSource | None, error: Exception | None) -> None:
            self.has_store = source is not None
            done(source, error)

        self.storage.take_over(log, epoch, quorum, opened)

    def serve(self, epoch: int) -> None:
        self._note(f"{self.name} serves epoch {epoch}")
        self.serving_epoch = epoch
        self._waiting = self.storage.contents()
        self._checker.serves(self.name, epoch, self._waiting)

    def suspended(self, is_suspended: bool) -> None:
        self._note(f"{self.name} is {'suspended' if is_suspended else 'resumed'}")

    def step_down(self, why: str, done: Callable[[ReplicaLog], None]) -> None:
        assert self.process is not None
        self._note(f"{self.name} steps down: {why}")
        self.serving_epoch = 0

        def close() -> None:
            self.has_store = False
            try:
                log = self.storage.step_down()
            except (OSError, StoreFailed, UnusableStore) as error:
                self._failed(error)
                return
            done(log)

        self.process.call_later(self._random.random() * 0.5, close)

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
        epoch = self.serving_epoch
        self._checker.sending(messages)
        self._waiting.update(messages)
        self._guarded(lambda: self.storage.send(messages, lambda: self._checker.answered(epoch, sent=messages)))

    def remove(self) -> None:
        """A client consumes a message."""
        waiting = sorted(self._waiting - self._checker.removing)
        if len(waiting) < 5:
            return
        message, epoch = self._random.choice(waiting), self.serving_epoch
        self._checker.removing.add(message)
        self._waiting.discard(message)
        self._guarded(lambda: self.storage.remove(message, lambda: self._checker.answered(epoch, removed=[message])))

    def _guarded(self, use: Callable[[], None]) -> None:
        try:
            use()
        except StoreFailed:
            pass  # the node hears of it by itself
        except Stopped:
            self._stopped()

    def check(self) -> None:
        """Compare what is committed here with what is committed elsewhere."""
        if self.node is None or self.failure is not None:
            return
        committed = self.node.status().committed
        self._checker.committed(self.name, self.storage.records(self._checked, committed))
        self._checked = max(self._checked, committed)
