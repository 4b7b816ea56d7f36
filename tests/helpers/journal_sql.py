"""A journal in front of a database, through its lives: on a simulated disk, or on real files."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from ackwire.errors import StoreFailed
from ackwire.store.background import Background, OnTheSpot
from ackwire.store.files import Files, OsFiles
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal_sql.journal_sql_store import Front, JournalSqlStore
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions
from ackwire.store.journal_sql.no_index import NoIndex
from ackwire.store.sql.driver import Driver
from ackwire.store.sql.sql_store import SqlOptions, SqlSurroundings
from ackwire.store.sql.sqlite import SqliteDriver
from ackwire.util.clock import Clock, ManualClock
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA, SMALL, DriftingClock
from tests.helpers.simulated_disk import Call, SimulatedDisk
from tests.helpers.sql_factories import DATABASE, FaultyDriver, MemoryDriver
from tests.helpers.stores import Crash, StoreFactory

OFTEN: Final = CheckpointOptions(seconds=1.0, journal_bytes=30_000)
"""Checkpoints so often that a short test sees many."""

_runs = count(1)


def open_journal_sql(
    files: Files,
    data: Path,
    driver: Driver,
    clock: Clock,
    *,
    writing: Background | None = None,
    database: Background | None = None,
    housekeeping: Background | None = None,
    reading: Background | None = None,
    new_id: Callable[[], bytes] = lambda: bytes(range(16)),
    options: JournalOptions = SMALL,
    checkpoints: CheckpointOptions = OFTEN,
    on_failed: Callable[[StoreFailed], None] = lambda _: None,
) -> JournalSqlStore:
    """Open a store; what has no background of its own is done on the spot, and no attempt is repeated at once."""
    source = JournalSource(files, data, JdbcRows(), lambda _: NoIndex(), clock.now_ms, new_id, "a test")
    front = Front(
        source,
        options,
        checkpoints,
        writing=writing or OnTheSpot(),
        housekeeping=housekeeping or OnTheSpot(),
        reading=reading or OnTheSpot(),
    )
    surroundings = SqlSurroundings(
        JdbcRows, clock, writing=database or OnTheSpot(), reading=reading or OnTheSpot(), on_failed=on_failed
    )
    return JournalSqlStore.open_both(
        front, driver, surroundings, SqlOptions(f"run {next(_runs)}", reconnect_seconds_max=0)
    )


class JournalSqlFactory(StoreFactory):
    """A journal on a simulated disk in front of a database whose transactions are syncs of the same disk."""

    is_durable = True

    def __init__(self, driver: Driver, seed: int = 0) -> None:
        self._disk = SimulatedDisk(seed)
        self._random = Random(seed)
        self._driver = FaultyDriver(driver, self._disk)
        self._is_slow = seed % 2 == 1
        """Whether syncs seem slow, so that the thread does them."""
        self.store: JournalSqlStore | None = None
        self._begin_process()

    def _begin_process(self) -> None:
        self.clock = DriftingClock(0.01 if self._is_slow else 0.0)
        self.writing = ControlledBackground(self._random)
        self.database = ControlledBackground(self._random)
        self.housekeeping = ControlledBackground(self._random)
        self.reading = ControlledBackground(self._random)

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    def open(self) -> JournalSqlStore:
        self.store = open_journal_sql(
            self._disk,
            DATA,
            self._driver,
            self.clock,
            writing=self.writing,
            database=self.database,
            housekeeping=self.housekeeping,
            reading=self.reading,
            new_id=lambda: self._random.randbytes(16),
        )
        return self.store

    def close(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            store.close()
            assert not self._disk.open_paths, f"still open after close: {self._disk.open_paths}"
            assert not self._disk.locked_paths, f"still locked after close: {self._disk.locked_paths}"
        self._driver.crash()
        self._begin_process()  # timers of the old one must not disturb the new one

    def stop(self, crash: Crash) -> None:
        self.store = None
        if crash is Crash.PROCESS_KILL:
            self._disk.process_kill()
        else:
            self._disk.power_cut(reordered=crash is Crash.REORDERED_POWER_CUT)
        self._driver.crash()
        self._begin_process()

    def dispose(self) -> None:
        self._driver.crash()

    @property
    def _backgrounds(self) -> tuple[ControlledBackground, ...]:
        return self.writing, self.database, self.housekeeping, self.reading

    def step(self) -> None:
        """One thing of what waits, or a little time."""
        steps: list[Callable[[], object]] = [
            *(it.step for it in self._backgrounds),
            lambda: self.clock.advance(0),
            lambda: self.clock.advance(0.02),
            lambda: self.clock.advance(1),
        ]
        self._random.choices(steps, (3, 3, 1, 3, 3, 1, 1))[0]()

    def settle(self) -> None:
        """Until nothing waits; time goes on a little, so that what is due soon is done."""
        for _ in range(3):
            self.clock.advance(0.02)
            while not all(it.is_idle for it in self._backgrounds):
                for background in self._backgrounds:
                    background.run_all()
                self.clock.advance(0)

    def is_fatal(self, call: Call) -> bool:
        return call.path != DATABASE  # a transaction that fails is repeated

    def wait(self, seconds: int) -> None:
        """Let time pass, with all that it brings: checkpoints."""
        for _ in range(seconds):
            self.clock.advance(1)
            self.settle()

    def break_disk(self) -> None:
        self._disk.break_down()


def journal_sqlite_factory(seed: int = 0) -> JournalSqlFactory:
    return JournalSqlFactory(MemoryDriver(), seed)


class JournalSqliteOnFilesFactory(StoreFactory):
    """A journal and a SQLite database in real files. It cannot crash here."""

    is_durable = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = ManualClock()
        self._store: JournalSqlStore | None = None

    def open(self) -> JournalSqlStore:
        self._clock = ManualClock()
        driver = SqliteDriver(self._folder / "database")
        self._store = open_journal_sql(OsFiles(), self._folder / "data", driver, self._clock)
        return self._store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def stop(self, crash: Crash) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        self._clock.advance(1)

    def break_disk(self) -> None:
        raise NotImplementedError
