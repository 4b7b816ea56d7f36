"""The machine that a simulated broker runs on: a disk with a journal on it, and processes that begin and end.

A process is a store, its background work and a clock whose timers end with it. What outlives it is on the disk.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from ackwire.errors import StoreFailed
from ackwire.store.contract import Store
from ackwire.store.index import Index
from ackwire.store.index_files import IndexKind
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions
from ackwire.util.clock import ManualClock, Timer
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA
from tests.helpers.journal_sql import open_journal_sql
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.real_indexes import RealIndexes
from tests.helpers.simulated_disk import EIO, ENOSPC, Effect, Operation, SimulatedDisk
from tests.helpers.sql_factories import FaultyDriver, MemoryDriver, SqlMedium
from tests.helpers.stores import Crash
from tests.simulation.audit import Violation

_MAY_FAIL: tuple[Operation, ...] = ("write", "write", "sync", "sync", "commit", "create", "rename", "remove", "replace")
"""What a disk in trouble refuses. Not reading: what cannot be read is reported lost, and that is another test."""


_LEVELDB_EVERY = 7
"""Every so many seeds have a real LevelDB as the journal's index; no other choice goes by sevens."""


class ProcessClock:
    """The world's time as one process sees it: what it wanted to do later ends with it."""

    def __init__(self, clock: ManualClock, seconds_per_look: float) -> None:
        self._clock = clock
        self._seconds_per_look = seconds_per_look
        """More than none makes the store find its disk slow, and leave syncs to the thread."""
        self._drift = 0.0
        self.has_ended = False

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic(self) -> float:
        self._drift += self._seconds_per_look
        return self._clock.monotonic() + self._drift

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_seconds, lambda: None if self.has_ended else callback())


class _Disk(SimulatedDisk):
    """Looking changes nothing, so it is no moment to stop at; and the simulation looks all the time."""

    def call(self, operation: Operation, path: Path, part: Callable[[], None] | None = None) -> None:
        if operation in ("read", "names", "free_bytes", "open"):
            self._refuse_if_stopped()
        else:
            super().call(operation, path, part)


class Machine:
    """A disk, and one process after another."""

    def __init__(self, seed: int, random: Random, clock: ManualClock) -> None:
        self.disk = _Disk(seed)
        self.disk.has_cache = seed % 3 == 0
        self._random = random
        self._world_clock = clock
        self._medium = IndexMedium()
        self._real_index = RealIndexes(self.disk, IndexKind.LEVELDB) if seed % _LEVELDB_EVERY == 0 else None
        self._options = JournalOptions(
            segment_bytes=random.choice((4096, 8192, 32_768)),
            free_bytes_min=0,
            checkpoint_seconds=random.choice((0.2, 2.0)),
            checkpoint_bytes=random.choice((1000, 4000, 20_000)),
        )
        self._seconds_per_look = random.choice((0.0, 0.01))
        self.report = ""
        """What the last start says that it found."""
        self.damages: list[str] = []
        self._begin_process()

    def _begin_process(self) -> None:
        self.clock = ProcessClock(self._world_clock, self._seconds_per_look)
        self._writing = ControlledBackground(self._random)
        self._indexing = ControlledBackground(self._random)
        self._reading = ControlledBackground(self._random)

    def open(self) -> Store:
        """Open the store in a new process. What goes wrong is raised, and the process is to be stopped."""
        store = JournalStore.open(
            self.disk,
            DATA,
            form=OpenWireStoredForm(),
            clock=self.clock,
            open_index=self._open_index,
            options=self._options,
            writing=self._writing,
            indexing=self._indexing,
            reading=self._reading,
            new_id=lambda: self._random.randbytes(16),
            holder="the simulation",
            on_failed=_ignore,
        )
        self.report, self.damages = str(store.report), store.report.damages
        return store

    def _open_index(self, fresh: bool) -> Index:
        if self._real_index is not None:
            return self._real_index.open(fresh=fresh)
        return MemoryIndex(self.disk, self._medium, fresh=fresh)

    # ---- work beside the loop ----------------------------------------------------------------------------------

    def step(self) -> None:
        """The thread does something, or the loop hears of it, or the loop's turn ends."""
        steps: list[Callable[[], object]] = [
            self._writing.step,
            self._indexing.step,
            self._reading.step,
            lambda: self._world_clock.advance(0),
            lambda: self._world_clock.advance(0.02),
        ]
        self._random.choices(steps, (4, 4, 3, 4, 1))[0]()

    def settle(self) -> None:
        """Go on until nothing waits."""
        self._world_clock.advance(0)
        while not (self._writing.is_idle and self._indexing.is_idle and self._reading.is_idle):
            self._writing.run_all()
            self._indexing.run_all()
            self._reading.run_all()
            self._world_clock.advance(0)

    # ---- trouble -----------------------------------------------------------------------------------------------

    def plan_stop(self) -> None:
        """Have everything stop in the middle of a call that is soon to come."""
        self.disk.stop_at(self._random.randrange(1, 30))

    def plan_fault(self) -> str:
        """Have a call fail that is soon to come."""
        operation = self._random.choice(_MAY_FAIL)
        effect = self._random.choice(list(Effect))
        self.disk.fail(
            operation,
            self._random.randrange(1, 6),
            error=self._random.choice((EIO, ENOSPC)),
            effect=effect,
            times=self._random.choice((1, 1, 3)),
        )
        return f"{operation}, {effect.value} done"

    def stop(self, crash: Crash) -> None:
        """The process ends, or the whole machine."""
        match crash:
            case Crash.POWER_CUT:
                self.disk.power_cut()
            case Crash.REORDERED_POWER_CUT:
                self.disk.power_cut(reordered=True)
            case Crash.PROCESS_KILL:
                self.disk.process_kill()
        self._end_process()

    def lose_index(self) -> None:
        """Somebody deletes the index: the journal has everything."""
        self._medium = IndexMedium()
        if self._real_index is not None:
            self._real_index.lose()

    def stopped_cleanly(self) -> None:
        """The process has closed its store and ends: has it let go of everything?"""
        left = [*self.disk.open_paths, *self.disk.locked_paths]
        if left:
            raise Violation(f"the store is closed and still holds {left}")
        self._end_process()

    def _end_process(self) -> None:
        if self._real_index is not None:
            self._real_index.crash()
        self.clock.has_ended = True
        self._begin_process()


class SqliteMachine(Machine):
    """A machine with a database in place of the journal: its commits are the syncs that fail and stop."""

    def __init__(self, seed: int, random: Random, clock: ManualClock) -> None:
        super().__init__(seed, random, clock)
        self._database = SqlMedium(MemoryDriver(), self.disk)

    def open(self) -> Store:
        return self._database.open(self.clock, self._writing)

    def stop(self, crash: Crash) -> None:
        super().stop(crash)
        self._database.crash()


class JournalSqliteMachine(Machine):
    """A machine with a journal in front of a database, whose commits fail and stop with the disk, too."""

    def __init__(self, seed: int, random: Random, clock: ManualClock) -> None:
        super().__init__(seed, random, clock)
        self._driver = FaultyDriver(MemoryDriver(), self.disk)
        self._checkpoints = CheckpointOptions(
            seconds=random.choice((0.2, 2.0, 20.0)), journal_bytes=random.choice((1000, 4000, 20_000))
        )

    def _begin_process(self) -> None:
        super()._begin_process()
        self._database = ControlledBackground(self._random)

    def open(self) -> Store:
        store = open_journal_sql(
            self.disk,
            DATA,
            self._driver,
            self.clock,
            writing=self._writing,
            database=self._database,
            housekeeping=self._indexing,
            reading=self._reading,
            new_id=lambda: self._random.randbytes(16),
            options=self._options,
            checkpoints=self._checkpoints,
        )
        self.report, self.damages = str(store.report), store.report.damages
        return store

    def step(self) -> None:
        if self._random.random() < 0.2:
            self._database.step()
        else:
            super().step()

    def settle(self) -> None:
        super().settle()
        while not self._database.is_idle:
            self._database.run_all()
            super().settle()

    def stop(self, crash: Crash) -> None:
        super().stop(crash)
        self._driver.crash()


def _ignore(_failure: StoreFailed) -> None:
    """The simulation asks the store itself."""
