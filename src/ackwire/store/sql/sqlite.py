"""SQLite by the standard library: one file, WAL, every commit on the medium (`synchronous = FULL`)."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

from ackwire.store.sql.dialect import SQLITE, Dialect
from ackwire.store.sql.driver import Hold, NoHold, Row, Session, Statement
from ackwire.store.sql.errors import SPACE_ADVICE, Diagnosis, Trouble, UnusableDatabase, first_line

_BUSY_SECONDS: Final = 1.0
"""How long a statement waits for another program that has the file, before it is repeated."""

_REPEATABLE: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL))
_PRIMARY: Final = 0xFF
"""The part of an error code that is the same for all of its variants."""


def _commit(commit: Callable[[], None]) -> None:
    commit()


class SqliteSession:
    """Implements `Session`. *commit* commits a transaction, and may fail instead, as a test wants it."""

    def __init__(self, connection: sqlite3.Connection, commit: Callable[[Callable[[], None]], None] = _commit) -> None:
        self._connection = connection
        self._commit = commit

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def transact(self, statements: Sequence[Statement]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for sql, rows, _ in statements:
                self._connection.executemany(sql, rows)
            self._commit(self._connection.commit)
        except Exception:
            self._connection.rollback()
            raise

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def diagnose(error: Exception) -> Diagnosis:
    """See `Driver`."""
    sentence = first_line(error)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
        if code in _REPEATABLE:
            return Diagnosis(Trouble.REPEAT, sentence, SPACE_ADVICE if code == sqlite3.SQLITE_FULL else "")
        if isinstance(error, sqlite3.IntegrityError) and "TRANSACTION_NUMBER" in sentence:
            return Diagnosis(Trouble.SUPERSEDED, sentence)
    return Diagnosis(Trouble.FATAL, sentence, is_unforeseen=not isinstance(error, sqlite3.Error | OSError))


@final
class SqliteDriver:
    """Implements `Driver` on a file."""

    dialect: Dialect = SQLITE
    message_bytes_max: int | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def description(self) -> str:
        return f"SQLite file {self._path}"

    def connect(self, *, is_writer: bool) -> Session:  # noqa: ARG002 - a lock beside the file excludes other brokers
        try:
            return SqliteSession(open_file(str(self._path)))
        except sqlite3.DatabaseError as error:
            if diagnose(error).trouble is Trouble.REPEAT:
                raise
            raise UnusableDatabase(
                f"{self._path} cannot be used: {first_line(error)}; it must be a SQLite database, or a new file in a "
                "directory that can be written to"
            ) from None

    def hold(self, lock_table: str) -> Hold:  # noqa: ARG002 - ActiveMQ has no store on SQLite
        return NoHold()

    def limit_answers(self, seconds_max: float) -> None:
        """See `Driver`: a file answers, or fails."""

    def diagnose(self, error: Exception) -> Diagnosis:
        return diagnose(error)


def open_file(path: str) -> sqlite3.Connection:
    """A connection whose transactions are on the medium when they are committed."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
