"""Journal stores for tests: on a simulated disk with everything under control, or on real files."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from ackwire.errors import StoreFailed
from ackwire.store.background import Background, OnTheSpot
from ackwire.store.contract import Store
from ackwire.store.files import Files, OsFiles
from ackwire.store.index import Index, Table
from ackwire.store.index_files import IndexKind
from ackwire.store.indexes import open_index
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.real_indexes import RealIndexes
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stores import Crash, StoreFactory

DATA = Path("/data")
SMALL = JournalOptions(segment_bytes=8192, free_bytes_min=0, checkpoint_seconds=1.0, checkpoint_bytes=30_000)
"""Segments and checkpoints so small that a short test sees many."""


class DriftingClock(ManualClock):
    """Each look at it takes time: a store that measures its disk by it finds it slow."""

    def __init__(self, seconds_per_look: float) -> None:
        super().__init__()
        self._seconds_per_look = seconds_per_look
        self._drift = 0.0

    def monotonic(self) -> float:
        self._drift += self._seconds_per_look
        return super().monotonic() + self._drift


class JournalFactory(StoreFactory):
    """A journal store on a simulated disk. *index* makes the index a real one, of that kind, in a folder of its own;
    its commits are calls of the simulated disk. Without it the index is simulated, too.

    Whatever waits, timers and background work, goes on in an order that the seed decides.
    """

    is_durable = True

    def __init__(
        self,
        seed: int = 0,
        *,
        options: JournalOptions = SMALL,
        index: IndexKind | None = None,
        capacity_bytes: int = 1 << 40,
    ) -> None:
        self._disk = SimulatedDisk(seed, capacity_bytes=capacity_bytes)
        self._random = Random(seed)
        self._options = options
        self._real_index = None if index is None else RealIndexes(self._disk, index)
        self.medium = IndexMedium()
        self._is_slow = seed % 2 == 1
        """Whether syncs seem slow, so that the thread does them."""
        self.store: JournalStore | None = None
        self.failures: list[StoreFailed] = []
        """What `on_failed` of the store itself was told."""
        self._begin_process()

    def _begin_process(self) -> None:
        self.clock = DriftingClock(0.01 if self._is_slow else 0.0)
        self.writing = ControlledBackground(self._random)
        self.indexing = ControlledBackground(self._random)
        self.reading = ControlledBackground(self._random)

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    def _open_index(self, fresh: bool) -> Index:
        if self._real_index is None:
            return MemoryIndex(self._disk, self.medium, fresh=fresh)
        return self._real_index.open(fresh=fresh)

    def open(self) -> Store:
        self.store = make_journal(
            self._disk,
            DATA,
            clock=self.clock,
            open_index=self._open_index,
            options=self._options,
            writing=self.writing,
            indexing=self.indexing,
            reading=self.reading,
            new_id=lambda: self._random.randbytes(16),
            on_failed=self.failures.append,
        )
        if self._is_slow:  # a few records are a long buffer
            portions = self.store._commit.portions
            portions.records, portions.size_bytes = 3, 1500
        return self.store

    def close(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            store.close()
        self._begin_process()  # timers of the old one must not disturb the new one
        assert not self._disk.open_paths, f"still open after close: {self._disk.open_paths}"
        assert not self._disk.locked_paths, f"still locked after close: {self._disk.locked_paths}"

    def stop(self, crash: Crash) -> None:
        if self._real_index is not None:
            self._real_index.crash()
        self.store = None
        match crash:
            case Crash.POWER_CUT:
                self._disk.power_cut()
            case Crash.REORDERED_POWER_CUT:
                self._disk.power_cut(reordered=True)
            case Crash.PROCESS_KILL:
                self._disk.process_kill()
        self._begin_process()

    def step(self) -> None:
        """One thing of what waits, or a little time."""
        steps: list[Callable[[], object]] = [
            self.writing.step,
            self.indexing.step,
            lambda: self.clock.advance(0),
            lambda: self.clock.advance(0.02),
            lambda: self.clock.advance(1),
        ]
        self._random.choices(steps, (3, 3, 3, 1, 1))[0]()

    def settle(self) -> None:
        """Until nothing waits; time goes on a little, so that what is due soon is done."""
        for _ in range(3):
            self.clock.advance(0.02)
            while not (self.writing.is_idle and self.indexing.is_idle and self.reading.is_idle):
                self.writing.run_all()
                self.indexing.run_all()
                self.reading.run_all()
                self.clock.advance(0)

    def wait(self, seconds: int) -> None:
        """Let time pass, with all that it brings: checkpoints, compaction."""
        for _ in range(seconds):
            self.clock.advance(1)
            self.settle()

    def lose_index(self) -> None:
        """The index is gone: the next start makes it anew."""
        if self._real_index is not None:
            self._real_index.lose()
        self.medium.tables = {table: {} for table in Table}

    def damages(self) -> list[str]:
        """What the last start found to be damaged."""
        assert self.store is not None
        return self.store.report.damages

    def break_disk(self) -> None:
        self._disk.break_down()


class JournalOnFilesFactory(StoreFactory):
    """A journal store as it is used, but for the threads. It cannot crash here."""

    is_durable = False

    def __init__(self, folder: Path, *, index: IndexKind = IndexKind.LMDB) -> None:
        self._folder = folder / "data"
        self._index_kind = index
        self._clock = ManualClock()
        self._store: JournalStore | None = None

    def open(self) -> Store:
        self._clock = ManualClock()
        self._store = make_journal(
            OsFiles(),
            self._folder,
            clock=self._clock,
            open_index=lambda fresh: open_index(self._index_kind, self._folder / "index", fresh=fresh),
            options=SMALL,
            writing=OnTheSpot(),
            indexing=OnTheSpot(),
            new_id=lambda: bytes(range(16)),
            on_failed=lambda _: None,
        )
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def stop(self, crash: Crash) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        self._clock.advance(1)

    def break_disk(self) -> None:
        raise NotImplementedError


def make_journal(
    files: Files,
    data: Path,
    *,
    clock: ManualClock,
    open_index: Callable[[bool], Index],
    options: JournalOptions,
    writing: Background,
    indexing: Background,
    new_id: Callable[[], bytes],
    on_failed: Callable[[StoreFailed], None],
    reading: Background | None = None,
) -> JournalStore:
    return JournalStore.open(
        files,
        data,
        form=OpenWireStoredForm(),
        clock=clock,
        open_index=open_index,
        options=options,
        writing=writing,
        indexing=indexing,
        reading=reading,
        new_id=new_id,
        holder="a test",
        on_failed=on_failed,
    )
