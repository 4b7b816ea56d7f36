"""What a simulated node keeps its log on: a model in memory, or the real journal on a simulated disk.

Messages are known by names such as b"m000017" everywhere, so that one checker serves both.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.replication.log import LogSource, NodeState, ReplicaLog
from ackwire.replication.quorum import CommitQuorum
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.record import Record, seed_of
from ackwire.store.journal.replica.node_state import NodeStateFile, open_node_state
from ackwire.store.journal.replica.replica_journal import ReplicaJournal
from ackwire.store.journal.replica.take_over import Mastered, Surroundings, take_over
from ackwire.store.journal.replica.walk import walk
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, UnreadableSegment, read_header, segment_path
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.journal import DATA
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.replica_memory import MemoryMaster, MemoryMedium, MemoryReplica, MemoryState, contents_of
from tests.helpers.simulated_disk import Effect, Operation, SimulatedDisk
from tests.helpers.stored import Messages, Q
from tests.simulation.groups.scheduler import Process, Scheduler, SlowBackground

JOURNAL = DATA / "journal"
OPTIONS = JournalOptions(segment_bytes=8192, free_bytes_min=0, checkpoint_seconds=1.0, checkpoint_bytes=30_000)

_SIZES = (1, 1, 1, 1, 1, 1, 1, 500, 3000, 9000)
"""Of messages; some are larger than a segment, and than what may be on its way to a follower."""

Opened = Callable[[LogSource | None, Exception | None], None]


class Storage(Protocol):
    """One node's disk, and the store on it while the node is master."""

    @property
    def disk_id(self) -> str: ...

    @property
    def may_vote(self) -> bool: ...

    def start(self, process: Process, on_failed: Callable[[Exception], None]) -> tuple[NodeState, ReplicaLog]:
        """A process begins."""
        ...

    def take_over(self, log: ReplicaLog, epoch: int, quorum: CommitQuorum, done: Opened) -> None: ...

    def step_down(self) -> ReplicaLog: ...

    def contents(self) -> set[bytes]:
        """The messages in the master's store."""
        ...

    def send(self, messages: Sequence[bytes], answered: Callable[[], None]) -> None: ...

    def remove(self, message: bytes, answered: Callable[[], None]) -> None: ...

    def compact(self) -> None: ...

    def end_number(self) -> int:
        """The last record of the master's log."""
        ...

    def records(self, after: int, up_to: int) -> Iterable[tuple[int, object]]:
        """Those records of the log that are there, by their numbers, each as something that compares."""
        ...

    def crash(self, *, power: bool) -> None: ...

    def wipe(self) -> None:
        """The disk is replaced by an empty one."""
        ...

    def lose_end(self) -> bool:
        """Lose synced records, of which the node knows; False if there are none."""
        ...

    def plan_trouble(self) -> str:
        """Have the disk fail, or stop in the middle of a call, soon."""
        ...


class MemoryStorage:
    """Implements `Storage` in memory."""

    def __init__(self, name: str, scheduler: Scheduler, random: Random) -> None:
        self._name = name
        self._scheduler = scheduler
        self._random = random
        self._disks = 0
        self.wipe()
        self._process: Process
        self._store: MemoryMaster | None = None

    @property
    def disk_id(self) -> str:
        return self._medium.disk_id

    @property
    def may_vote(self) -> bool:
        return self._medium.may_vote

    def start(self, process: Process, on_failed: Callable[[Exception], None]) -> tuple[NodeState, ReplicaLog]:  # noqa: ARG002 - it never fails
        self._process = process
        slowest = self._random.choice((0.002, 0.02, 0.1))
        background = SlowBackground(process, self._scheduler, self._random, slowest)
        return MemoryState(self._medium, background), MemoryReplica(self._medium, background)

    def take_over(self, log: ReplicaLog, epoch: int, quorum: CommitQuorum, done: Opened) -> None:
        assert isinstance(log, MemoryReplica)

        def opened() -> None:
            store = self._store = MemoryMaster(log, epoch, quorum)
            done(store, None)
            if not store.is_closed:
                store.begin()

        self._process.call_later(self._random.random() * self._random.choice((0.01, 1.0)), opened)

    @property
    def _master(self) -> MemoryMaster:
        assert self._store is not None
        return self._store

    def step_down(self) -> ReplicaLog:
        return self._master.close()

    def contents(self) -> set[bytes]:
        return contents_of(self._medium.cache)

    def send(self, messages: Sequence[bytes], answered: Callable[[], None]) -> None:
        self._master.write(messages, answered)

    def remove(self, message: bytes, answered: Callable[[], None]) -> None:
        self._master.write([b"r" + message[1:]], answered)

    def compact(self) -> None:
        self._master.compact()

    def end_number(self) -> int:
        return self._master.end().number

    def records(self, after: int, up_to: int) -> Iterable[tuple[int, object]]:
        cache = self._medium.cache
        first = cache[0].number if cache else 1
        return ((it.number, it) for it in cache[max(0, after + 1 - first) :] if it.number <= up_to)

    def crash(self, *, power: bool) -> None:
        self._store = None
        self._medium.crash(power=power)

    def wipe(self) -> None:
        self._disks += 1
        self._medium = MemoryMedium(f"{self._name}-disk-{self._disks}", self._random)

    def lose_end(self) -> bool:
        if self._medium.records:
            self._medium.lose_end(self._random.randrange(1, 30))
            return True
        return False

    def plan_trouble(self) -> str:
        return "nothing"


class JournalStorage:
    """Implements `Storage` with the real journal."""

    def __init__(self, name: str, scheduler: Scheduler, random: Random, messages: Messages) -> None:
        self._name = name
        self._scheduler = scheduler
        self._random = random
        self._messages = messages
        self._state: NodeStateFile | None = None
        self._store: JournalStore | None = None
        self._seen = (0, 0, 0)
        """Segment and offset behind the record of that number."""
        self.wipe()

    @property
    def disk_id(self) -> str:
        return "" if self._state is None else self._state.disk_id

    @property
    def may_vote(self) -> bool:
        return self._state is not None and self._state.may_vote

    # ---- as a copy ---------------------------------------------------------------------------------------------

    def start(self, process: Process, on_failed: Callable[[Exception], None]) -> tuple[NodeState, ReplicaLog]:
        self._process = process
        slowest = self._random.choice((0.002, 0.02, 0.1))
        self._backgrounds = [SlowBackground(process, self._scheduler, self._random, slowest) for _ in range(3)]
        self._on_failed = on_failed
        self._state = open_node_state(self.disk, DATA, self._backgrounds[0], lambda: self._random.randbytes(16))
        return self._state, self._open()

    def _open(self) -> ReplicaJournal:
        writing, indexing, reading = self._backgrounds
        source = JournalSource(
            self.disk,
            DATA,
            OpenWireStoredForm(),
            lambda fresh: MemoryIndex(self.disk, self._index, fresh=fresh),
            self._process.now_ms,
            lambda: self._random.randbytes(16),
            "a simulation",
        )
        assert self._state is not None
        return ReplicaJournal.open(
            source,
            OPTIONS,
            self._state,
            clock=self._process,
            writing=writing,
            indexing=indexing,
            reading=reading,
            on_failed=self._failed,
        )

    def _failed(self, failure: StoreFailed) -> None:
        self._on_failed(failure)

    # ---- as the master -----------------------------------------------------------------------------------------

    def take_over(self, log: ReplicaLog, epoch: int, quorum: CommitQuorum, done: Opened) -> None:
        assert isinstance(log, ReplicaJournal)

        def ready(mastered: Mastered | None, error: Exception | None) -> None:
            if mastered is not None:
                self._store = mastered.store
            done(None if mastered is None else mastered.source, error)

        writing, indexing, reading = self._backgrounds
        around = Surroundings(self._process, writing, indexing, reading, self._failed)
        take_over(log, epoch, quorum, around, ready=ready, begun=lambda: None)

    @property
    def _master(self) -> JournalStore:
        assert self._store is not None
        return self._store

    def step_down(self) -> ReplicaLog:
        self._master.abandon()
        self._store = None
        return self._open()

    def contents(self) -> set[bytes]:
        return {b"m%06d" % it.sequence for it in self._master.waiting(Q)}

    def send(self, messages: Sequence[bytes], answered: Callable[[], None]) -> None:
        store = self._master
        if len(messages) == 1:
            store.append(self._message(messages[0]), [Q])
        else:
            with store.atomically():
                for message in messages:
                    store.append(self._message(message), [Q])
        store.when_durable(answered, lambda _: None)

    def _message(self, name: bytes) -> Message:
        size = self._random.choice(_SIZES)
        return self._messages.numbered(int(name[1:]), "x" * size)

    def remove(self, message: bytes, answered: Callable[[], None]) -> None:
        self._master.remove_many(Q, [int(message[1:])])
        self._master.when_durable(answered, lambda _: None)

    def compact(self) -> None:
        """It does so by itself."""

    def end_number(self) -> int:
        return self._master.journal.writer.last_number

    # ---- what a test looks at ----------------------------------------------------------------------------------

    def records(self, after: int, up_to: int) -> Iterable[tuple[int, object]]:
        numbers = self._segments()
        segment, offset, number = self._seen
        if number != after or segment not in numbers:
            segment, offset = (numbers[0] if numbers else 0), SEGMENT_HEADER_BYTES
        found: list[tuple[int, object]] = []
        for it in [it for it in numbers if it >= segment]:
            start = offset if it == segment else SEGMENT_HEADER_BYTES
            for record in self._walk(it, start):
                if record.number > up_to:
                    return found
                self._seen = (it, record.offset + record.size_bytes, record.number)
                if record.number > after:
                    found.append((record.number, (record.epoch, record.kind, record.flags, bytes(record.payload))))
        return found

    def _walk(self, segment: int, start: int) -> Iterable[Record]:
        data = self.disk.contents(segment_path(JOURNAL, segment))
        try:
            header = read_header(data)
        except UnreadableSegment:
            return ()
        if header is None:
            return ()
        return walk(lambda at, length: data[at : at + length], segment, seed_of(header.store_id), start, len(data))

    def _segments(self) -> list[int]:
        return [int(it.stem) for it in self.disk.paths() if it.parent == JOURNAL and it.suffix == ".log"]

    # ---- what happens to it ------------------------------------------------------------------------------------

    def crash(self, *, power: bool) -> None:
        self._store = None
        if not power:
            self.disk.process_kill()
        else:
            self.disk.power_cut(reordered=self._random.random() < 0.3)

    def wipe(self) -> None:
        self.disk = SimulatedDisk(self._random.getrandbits(30))
        self._index = IndexMedium()
        self._state = None
        self._seen = (0, 0, 0)

    def lose_end(self) -> bool:
        state, numbers = self._state, self._segments()
        if state is None or not numbers:
            return False
        last = [it for it in self._walk(numbers[-1], SEGMENT_HEADER_BYTES) if it.number < state.known_durable.number]
        if not last:
            return False
        record = self._random.choice(last)
        path = segment_path(JOURNAL, numbers[-1])
        start = record.offset + record.size_bytes
        self.disk.overwrite(path, start, bytes(len(self.disk.contents(path)) - start))
        self._seen = (0, 0, 0)
        self._state = None  # what it says now is known when it is read again
        return True

    def plan_trouble(self) -> str:
        if self._random.random() < 0.6:
            self.disk.stop_at(self._random.randrange(1, 60))
            return "stops in the middle of a call"
        operation: Operation = self._random.choice(("sync", "write", "commit", "create", "replace", "rename"))
        self.disk.fail(operation, self._random.randrange(1, 10), effect=self._random.choice(tuple(Effect)))
        return f"fails in a {operation}"
