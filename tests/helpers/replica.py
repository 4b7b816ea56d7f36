"""Nodes of a replicated group on simulated disks, each as a copy or as the master, without a network between them.

a, b = ReplicaNode(1), ReplicaNode(2)
store = a.lead(1)                    # the first epoch, on an empty log
store.append(...)
b.promise(1)
ship(a, b)                           # what a has and b has not
b.copy.commit(b.copy.end().number)
a.crash(Crash.POWER_CUT)
store = b.lead(2)
"""

from collections.abc import Callable
from random import Random
from typing import Final

from ackwire.errors import StoreFailed
from ackwire.store.contract import Store
from ackwire.store.journal.group_commit import JournalEnd, Quorum
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.replica.log_reader import LogReader
from ackwire.store.journal.replica.node_state import NodeStateFile, open_node_state
from ackwire.store.journal.replica.replica_journal import ReplicaJournal
from ackwire.store.journal.replica.take_over import Mastered, Surroundings, take_over
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, segment_numbers, segment_path
from ackwire.store.journal.shipping import Chunk, LogEnd, Snapshot
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA, SMALL
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stores import Crash, StoreFactory

JOURNAL: Final = DATA / "journal"


class AtOnce:
    """A quorum of one."""

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:  # noqa: ARG002 - it has all of them
        confirmed()


class Followers:
    """A quorum that confirms when a test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[JournalEnd, Callable[[], None]]] = []

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        self.asked.append((end, confirmed))

    def has(self, number: int) -> None:
        """The quorum has all up to *number*."""
        asked, self.asked = self.asked, []
        for end, confirmed in asked:
            if end.number <= number:
                confirmed()
            else:
                self.asked.append((end, confirmed))


class ReplicaNode:
    """One node, through its lives."""

    def __init__(self, seed: int = 0, *, options: JournalOptions = SMALL, is_open: bool = True) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(seed)
        self.medium = IndexMedium()
        self.options = options
        self.failures: list[StoreFailed] = []
        self._copy: ReplicaJournal | None = None
        self.store: JournalStore | None = None
        self.source: LogReader | None = None
        self.begin_process()
        if is_open:
            self.open()

    def begin_process(self) -> None:
        """Nothing of the process before goes on."""
        self.clock = ManualClock()
        self.writing = ControlledBackground(self.random)
        self.indexing = ControlledBackground(self.random)
        self.reading = ControlledBackground(self.random)

    # ---- as a copy ---------------------------------------------------------------------------------------------

    @property
    def copy(self) -> ReplicaJournal:
        assert self._copy is not None
        return self._copy

    @property
    def journal_source(self) -> JournalSource:
        return JournalSource(
            self.disk,
            DATA,
            OpenWireStoredForm(),
            lambda fresh: MemoryIndex(self.disk, self.medium, fresh=fresh),
            self.clock.now_ms,
            lambda: self.random.randbytes(16),
            "a test",
        )

    def open(self, *, adopt: bool = False) -> ReplicaJournal:
        self.node: NodeStateFile = open_node_state(self.disk, DATA, self.indexing, lambda: self.random.randbytes(16))
        self._copy = ReplicaJournal.open(
            self.journal_source,
            self.options,
            self.node,
            clock=self.clock,
            writing=self.writing,
            indexing=self.indexing,
            reading=self.reading,
            on_failed=self.failures.append,
            adopt=adopt,
        )
        return self._copy

    def promise(self, epoch: int) -> None:
        self.node.promise(epoch, require_good)
        self.settle()

    def sync(self) -> LogEnd:
        self.copy.sync(require_good)
        self.settle()
        return self.copy.durable()

    def truncate_after(self, number: int) -> None:
        self.copy.truncate_after(number, require_good)
        self.settle()

    def close(self) -> None:
        self.copy.close()
        self._copy = None
        self.check_nothing_open()

    # ---- as the master -----------------------------------------------------------------------------------------

    def lead(self, epoch: int, quorum: Quorum | None = None) -> JournalStore:
        """Take over."""
        mastered: list[Mastered] = []
        errors: list[Exception] = []

        def ready(made: Mastered | None, error: Exception | None) -> None:
            if error is not None:
                errors.append(error)
            else:
                assert made is not None
                mastered.append(made)

        around = Surroundings(self.clock, self.writing, self.indexing, self.reading, self.failures.append)
        self._has_begun = False
        take_over(self.copy, epoch, quorum or AtOnce(), around, ready=ready, begun=self._epoch_began)
        self.settle()
        if errors or not mastered:
            raise errors[0] if errors else self.failures[-1]
        self._copy = None
        self.store, self.source = mastered[0]
        return self.store

    def has_begun(self) -> bool:
        """Whether the quorum has the first record of the epoch."""
        return self._has_begun

    def may_vote(self) -> bool:
        return self.node.may_vote

    def _epoch_began(self) -> None:
        self._has_begun = True

    def step_down(self) -> ReplicaJournal:
        """From master to copy, in the same process."""
        assert self.store is not None
        self.store.abandon()
        self.store = self.source = None
        self.check_nothing_open()
        return self.open()

    def check_nothing_open(self) -> None:
        assert not self.disk.open_paths, f"still open: {self.disk.open_paths}"
        assert not self.disk.locked_paths, f"still locked: {self.disk.locked_paths}"

    # ---- what happens to it ------------------------------------------------------------------------------------

    def crash(self, crash: Crash = Crash.POWER_CUT, *, reopen: bool = True) -> None:
        match crash:
            case Crash.POWER_CUT:
                self.disk.power_cut()
            case Crash.REORDERED_POWER_CUT:
                self.disk.power_cut(reordered=True)
            case Crash.PROCESS_KILL:
                self.disk.process_kill()
        self._copy = self.store = self.source = None
        self.begin_process()
        if reopen:
            self.open()

    def settle(self) -> None:
        """Until nothing waits; time goes on a little."""
        for _ in range(3):
            self.clock.advance(0.02)
            while not (self.writing.is_idle and self.indexing.is_idle and self.reading.is_idle):
                self.writing.run_all()
                self.indexing.run_all()
                self.reading.run_all()
                self.clock.advance(0)
            self.clock.advance(0)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self.settle()

    def step(self) -> None:
        """One thing of what waits."""
        self.random.choice((self.writing.step, self.indexing.step, self.reading.step, lambda: self.clock.advance(0)))()

    # ---- what a test looks at ----------------------------------------------------------------------------------

    def segments(self) -> dict[int, bytes]:
        """All segments, without the zeros behind their records."""
        return {
            number: self.disk.contents(segment_path(JOURNAL, number)).rstrip(b"\0")
            for number in segment_numbers(self.disk, JOURNAL)
        }


def require_good(error: Exception | None) -> None:
    """A `Done` that expects no error."""
    if error is not None:
        raise AssertionError("nothing has failed") from error


def next_chunk(master: ReplicaNode, after: int, bytes_max: int = 1 << 16) -> Chunk | None:
    """What the master ships behind record *after*, from its files."""
    assert master.source is not None
    found: list[Chunk | None] = []

    def done(chunk: Chunk | None, error: Exception | None) -> None:
        require_good(error)
        found.append(chunk)

    master.source.read(after, bytes_max, done)
    master.reading.run_all()
    return found[0]


def chunks(master: ReplicaNode, after: int, bytes_max: int = 1 << 16) -> list[Chunk]:
    """All that the master has behind record *after*."""
    found = []
    while (chunk := next_chunk(master, after, bytes_max)) is not None:
        found.append(chunk)
        after = chunk.last.number
    return found


def ship(master: ReplicaNode, follower: ReplicaNode, bytes_max: int = 1 << 16) -> None:
    """Bring a follower to the master's end; it is durable then."""
    for chunk in chunks(master, follower.copy.end().number, bytes_max):
        follower.copy.append(chunk)
    follower.sync()


def snapshot_of(master: ReplicaNode) -> Snapshot:
    """The master's journal as it is now."""
    assert master.source is not None
    snapshots: list[Snapshot] = []

    def taken(snapshot: Snapshot | None, error: Exception | None) -> None:
        require_good(error)
        assert snapshot is not None
        snapshots.append(snapshot)

    master.source.snapshot(taken)
    master.settle()
    return snapshots[0]


def refill(master: ReplicaNode, follower: ReplicaNode, piece_bytes: int = 3000) -> None:
    """Replace the follower's log by the master's."""
    snapshot = snapshot_of(master)
    coming = follower.copy.begin_refill(snapshot.store_id, snapshot.end, snapshot.segments)
    for segment in snapshot.segments:
        for offset in range(0, segment.used_bytes, piece_bytes):
            data = read_piece(master, snapshot, segment.number, offset, piece_bytes)
            coming.write(segment.number, offset, data, require_good)
    coming.finish(require_good)
    follower.settle()
    snapshot.release()


def read_piece(master: ReplicaNode, snapshot: Snapshot, segment: int, offset: int, length: int) -> bytes:
    """A piece of a snapshot."""
    pieces: list[bytes] = []

    def read(data: bytes | None, error: Exception | None) -> None:
        require_good(error)
        assert data is not None
        pieces.append(data)

    snapshot.read(segment, offset, length, read)
    master.settle()
    return pieces[0]


def catch_up(master: ReplicaNode, follower: ReplicaNode, bytes_max: int = 1 << 16) -> None:
    """`ship`, or `refill` if the master does not have the next record any more."""
    assert master.source is not None
    if master.source.first_number() > follower.copy.end().number + 1:
        refill(master, follower)
    ship(master, follower, bytes_max)


def used_part(node: ReplicaNode) -> dict[int, bytes]:
    """All segments that hold records."""
    return {number: data for number, data in node.segments().items() if len(data) > SEGMENT_HEADER_BYTES}


class MasterFactory(StoreFactory):
    """The store of a master that took over its journal: each start opens it as a copy, and leads the next epoch."""

    is_durable = True

    def __init__(self, seed: int = 0) -> None:
        self.replica = ReplicaNode(seed, is_open=False)

    @property
    def disk(self) -> SimulatedDisk:
        return self.replica.disk

    def open(self) -> Store:
        copy = self.replica.open()
        epoch = max(self.replica.node.promised_epoch, copy.end().epoch) + 1
        try:
            return self.replica.lead(epoch)
        except Exception:
            copy.abandon()
            raise

    def close(self) -> None:
        store, self.replica.store = self.replica.store, None
        if store is not None:
            store.close()
        self.replica.begin_process()
        self.replica.check_nothing_open()

    def stop(self, crash: Crash) -> None:
        self.replica.crash(crash, reopen=False)

    def settle(self) -> None:
        self.replica.settle()

    def step(self) -> None:
        self.replica.step()

    def break_disk(self) -> None:
        self.replica.disk.break_down()
