"""SQLite stores through their lives: in memory, where commits fail and stop as a test wants it, or in real files."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from ackwire.store.background import Background, OnTheSpot
from ackwire.util.clock import Clock, ManualClock
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.sqlite_store import SqliteStore, connect
from tests.helpers.stores import Crash, StoreFactory

DATABASE: Final = Path("/database")


class SqliteMedium:
    """A database that outlives crashes, and whose commits are syncs of a simulated disk."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._connection = connect(":memory:")

    def open(self, clock: Clock, background: Background) -> SqliteStore:
        return SqliteStore(self._connection, OpenWireStoredForm(), clock, background, self._commit)

    def _commit(self, commit: Callable[[], None]) -> None:
        self._disk.call("sync", DATABASE, commit)
        commit()

    def crash(self) -> None:
        """What was not committed never happened."""
        self._connection.rollback()


class SqliteFactory(StoreFactory):
    """A SQLite store whose background is under control."""

    is_durable = True

    def __init__(self, seed: int = 0) -> None:
        self._disk = SimulatedDisk(seed)
        self._random = Random(seed)
        self._medium = SqliteMedium(self._disk)
        self._store: SqliteStore | None = None
        self._begin_process()

    def _begin_process(self) -> None:
        self.background = ControlledBackground(self._random)

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    def open(self) -> SqliteStore:
        self._store = self._medium.open(ManualClock(), self.background)
        return self._store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def stop(self, crash: Crash) -> None:
        self._store = None
        if crash is Crash.PROCESS_KILL:
            self._disk.process_kill()
        else:
            self._disk.power_cut(reordered=crash is Crash.REORDERED_POWER_CUT)
        self._medium.crash()
        self._begin_process()

    def settle(self) -> None:
        self.background.run_all()

    def step(self) -> None:
        self.background.step()

    def break_disk(self) -> None:
        self._disk.break_down()


class SqliteOnFilesFactory(StoreFactory):
    """A SQLite store in a real file, each life with a connection of its own. It cannot crash here."""

    is_durable = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "database"
        self._connection: sqlite3.Connection | None = None
        self._store: SqliteStore | None = None

    def open(self) -> SqliteStore:
        self._connection = connect(str(self._path))
        self._store = SqliteStore(self._connection, OpenWireStoredForm(), ManualClock(), OnTheSpot())
        return self._store

    def close(self) -> None:
        if self._store is not None and self._connection is not None:
            self._store.close()
            self._connection.close()
        self._store = self._connection = None

    def stop(self, crash: Crash) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Nothing ever waits."""

    def break_disk(self) -> None:
        raise NotImplementedError
