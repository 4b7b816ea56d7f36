"""What the store asks of a database driver: sessions that read, and transactions that are written at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, final

from ackwire.store.sql.dialect import Dialect, Insertion, ManyRows
from ackwire.store.sql.errors import Diagnosis

Row: TypeAlias = tuple[Any, ...]
"""Values of columns: integers, text, bytes, None."""


class Statement(NamedTuple):
    """One statement, executed once for each row of values."""

    sql: str
    rows: Sequence[Row]
    many: ManyRows | None = None
    """Another form of it for many rows at once."""


def inserted(insertion: Insertion, rows: Sequence[Row]) -> Statement:
    """The statement that inserts *rows*."""
    return Statement(insertion.sql, rows, insertion.many)


class Session(Protocol):
    """One connection to a database, used by one thread at a time. Every method raises the driver's own errors."""

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        """The rows that a query finds."""
        ...

    def transact(self, statements: Sequence[Statement]) -> None:
        """Execute all *statements* in one transaction, and commit it. After an error nothing of it has happened, unless
        `Driver.diagnose` calls the connection lost."""
        ...

    def rollback(self) -> None:
        """End what an error has left of a transaction."""
        ...

    def close(self) -> None:
        """Close the connection; harmless if it is lost."""
        ...


class Hold(Protocol):
    """A lock that other programs respect, on a connection of its own, until it is closed or that connection is lost."""

    @property
    def is_quiet(self) -> bool:
        """Whether the server has sent nothing since the last check, so that the connection is not known to be lost.
        Costs no round trip."""
        ...

    def check(self) -> None:
        """Ask the server. Raises an error of the driver if the lock is lost."""
        ...

    def close(self) -> None:
        """Give the lock back; harmless if it is lost."""
        ...


@final
class NoHold:
    """Implements `Hold` for databases that ActiveMQ does not use."""

    is_quiet = True

    def check(self) -> None:
        """It is never lost."""

    def close(self) -> None:
        """Nothing is held."""


class Driver(Protocol):
    """One database: how it is reached, and what its errors mean."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def description(self) -> str:
        """The database as logs and messages name it, without credentials."""
        ...

    @property
    def message_bytes_max(self) -> int | None:
        """The largest message that it takes, known once a session was opened; None if there is no such limit."""
        ...

    def connect(self, *, is_writer: bool) -> Session:
        """Open a session. That of the writer excludes other brokers, where the database can do so by a lock that ends
        with the session. Raises the driver's errors, and `UnusableDatabase` if another broker has the lock."""
        ...

    def hold(self, lock_table: str) -> Hold:
        """Take the lock of ActiveMQ's default locker, so that each of the two brokers excludes the other. Raises the
        driver's errors, and `Locked` if another program has it."""
        ...

    def limit_answers(self, seconds_max: float) -> None:
        """Wait no longer than that for any answer from now on; those that are late count as a lost connection."""
        ...

    def diagnose(self, error: Exception) -> Diagnosis:
        """What *error*, which a session raised, means."""
        ...


class LeasingDriver(Driver, Protocol):
    """A driver of a server that several brokers can share: sessions on it can be ended from outside."""

    def end_sessions(self, session: Session, tag: str) -> None:
        """End all sessions of drivers that were made with *tag*, wherever they are. Raises the driver's errors."""
        ...
