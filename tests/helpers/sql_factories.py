"""SQL stores through their lives: on SQLite in memory or in a file, and on real servers.

Before each transaction a simulated disk is asked, so that commits fail and stop as a test wants it.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from ackwire.config.store_uri import parse_store_uri
from ackwire.store.background import Background, OnTheSpot
from ackwire.store.sql.dialect import SQLITE, Dialect
from ackwire.store.sql.driver import Driver, Hold, NoHold, Row, Session, Statement
from ackwire.store.sql.drivers import driver_for
from ackwire.store.sql.errors import Diagnosis, Trouble
from ackwire.store.sql.schema import Tables, tables_of
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.store.sql.sqlite import SqliteDriver, SqliteSession, diagnose, open_file
from ackwire.util.clock import Clock, ManualClock
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from tests.helpers.background import ControlledBackground
from tests.helpers.databases import mariadb, postgresql
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stores import Crash, StoreFactory

DATABASE: Final = Path("/database")


def wipe(driver: Driver, prefix: str = "") -> None:
    """Empty all tables, if there are any."""
    session = driver.connect(is_writer=False)
    names = Tables(prefix)
    found = {str(table).upper() for table, _ in session.select(driver.dialect.columns)}
    tables = [it for it in tables_of(driver.dialect, names) if it.name.upper() in found]
    kept = (names.lock,)
    statements = [Statement(f"DELETE FROM {it.name}", [()]) for it in tables if it.name not in kept]  # noqa: S608
    reset = [Statement(it.then[0], [()]) for it in tables if it.name == names.state]
    session.transact([*statements, *reset])
    session.close()


class MemoryDriver:
    """A driver for a SQLite database in memory, which outlives its sessions."""

    dialect: Dialect = SQLITE
    description = "simulated database"
    message_bytes_max: int | None = None

    def __init__(self) -> None:
        self._connection = open_file(":memory:")

    def connect(self, *, is_writer: bool) -> Session:  # noqa: ARG002 - there is one connection
        return _SharedSession(self._connection)

    def hold(self, lock_table: str) -> Hold:  # noqa: ARG002 - there is no other program
        return NoHold()

    def limit_answers(self, seconds_max: float) -> None:
        """It always answers."""

    def diagnose(self, error: Exception) -> Diagnosis:
        return diagnose(error)


class _SharedSession(SqliteSession):
    """A session on the one connection that a driver has."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)

    def close(self) -> None:
        self.rollback()


class FaultyDriver:
    """Another driver whose transactions are syncs of a simulated disk: they fail and stop with it."""

    def __init__(self, driver: Driver, disk: SimulatedDisk) -> None:
        self._driver = driver
        self._disk = disk
        self._sessions: list[Session | Hold] = []
        self.dialect = driver.dialect
        self.description = driver.description
        self.message_bytes_max = driver.message_bytes_max

    def connect(self, *, is_writer: bool) -> Session:
        session = _FaultySession(self._driver.connect(is_writer=is_writer), self._disk)
        self._sessions.append(session)
        return session

    def hold(self, lock_table: str) -> Hold:
        hold = self._driver.hold(lock_table)
        self._sessions.append(hold)
        return hold

    def limit_answers(self, seconds_max: float) -> None:
        """Answers are as quick as the simulated disk."""

    def diagnose(self, error: Exception) -> Diagnosis:
        if isinstance(error, OSError) and "simulated" in str(error):
            return Diagnosis(Trouble.FATAL, str(error), is_unforeseen=True)
        return self._driver.diagnose(error)

    def crash(self) -> None:
        """End all sessions; what was not committed never happened."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            with suppress(Exception):
                session.close()


class _FaultySession:
    def __init__(self, session: Session, disk: SimulatedDisk) -> None:
        self._session = session
        self._disk = disk

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        return self._session.select(sql, values)

    def transact(self, statements: Sequence[Statement]) -> None:
        is_over = False

        def transact() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._session.transact(statements)

        self._disk.call("sync", DATABASE, transact)
        transact()

    def rollback(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


class SqlMedium:
    """A database and the disk that it is on, through several runs."""

    def __init__(self, driver: Driver, disk: SimulatedDisk) -> None:
        self._driver = FaultyDriver(driver, disk)
        self._runs = count(1)

    def open(self, clock: Clock, background: Background) -> SqlStore:
        surroundings = SqlSurroundings(JdbcRows, clock, writing=background, reading=background)
        return SqlStore.open(self._driver, surroundings, SqlOptions(f"run {next(self._runs)}"))

    def crash(self) -> None:
        self._driver.crash()


class SqlFactory(StoreFactory):
    """A SQL store whose background is under control."""

    is_durable = True

    def __init__(self, driver: Driver, seed: int = 0) -> None:
        self._disk = SimulatedDisk(seed)
        self._random = Random(seed)
        self._medium = SqlMedium(driver, self._disk)
        self._store: SqlStore | None = None
        self._begin_process()

    def _begin_process(self) -> None:
        self.background = ControlledBackground(self._random)

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    def open(self) -> SqlStore:
        self._store = self._medium.open(ManualClock(), self.background)
        return self._store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None and store.failure is None:
            store.close()
        self._medium.crash()

    def stop(self, crash: Crash) -> None:
        self._store = None
        if crash is Crash.PROCESS_KILL:
            self._disk.process_kill()
        else:
            self._disk.power_cut(reordered=crash is Crash.REORDERED_POWER_CUT)
        self._medium.crash()
        self._begin_process()

    def dispose(self) -> None:
        self._medium.crash()

    def settle(self) -> None:
        self.background.run_all()

    def step(self) -> None:
        self.background.step()

    def break_disk(self) -> None:
        self._disk.break_down()


def sqlite_factory(seed: int = 0) -> SqlFactory:
    return SqlFactory(MemoryDriver(), seed)


_Factory = TypeVar("_Factory")


def on_postgresql(make: Callable[[Driver], _Factory]) -> Callable[[Path], _Factory]:
    """What *make* makes, on a real server with empty tables."""
    return lambda _folder: make(_emptied(postgresql().uri))


def on_mariadb(make: Callable[[Driver], _Factory]) -> Callable[[Path], _Factory]:
    """What *make* makes, on a real server with empty tables."""
    return lambda _folder: make(_emptied(mariadb().uri))


def _emptied(uri: str) -> Driver:
    driver = driver_for(parse_store_uri(uri), None)
    wipe(driver)
    return driver


class SqliteOnFilesFactory(StoreFactory):
    """A SQLite store in a real file, each life with connections of its own. It cannot crash here."""

    is_durable = False

    def __init__(self, folder: Path) -> None:
        self._driver = SqliteDriver(folder / "database")
        self._runs = count(1)
        self._store: SqlStore | None = None

    def open(self) -> SqlStore:
        surroundings = SqlSurroundings(JdbcRows, ManualClock(), writing=OnTheSpot(), reading=OnTheSpot())
        self._store = SqlStore.open(self._driver, surroundings, SqlOptions(f"run {next(self._runs)}"))
        return self._store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def stop(self, crash: Crash) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Nothing ever waits."""

    def break_disk(self) -> None:
        raise NotImplementedError
