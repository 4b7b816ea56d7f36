"""PostgreSQL by psycopg 3: a transaction is one pipeline, so it costs one round trip however many statements it has."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import psycopg
from psycopg import errors as pg

from ackwire.store.sql.dialect import POSTGRESQL, Dialect
from ackwire.store.sql.driver import Row, Session, Statement
from ackwire.store.sql.errors import Diagnosis, Locked, Trouble, first_line

_CONNECT_SECONDS: Final = 10
"""How long one attempt to connect may take."""

_KEEPALIVES: Final = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""Seconds and, the last one, milliseconds: a server whose machine is gone is noticed after 20 s, not after hours."""

_LOCK_SPACE: Final = 0x61636B77
"""The first part of our advisory locks: "ackw"."""

_LOST: Final = (
    psycopg.InterfaceError,
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.DatabaseDropped,
    pg.IdleSessionTimeout,
    pg.ReadOnlySqlTransaction,  # a standby, after a fail-over: connecting again may find the new primary
)
_REPEATABLE: Final = (
    pg.DeadlockDetected,
    pg.SerializationFailure,
    pg.LockNotAvailable,
    pg.QueryCanceled,
    pg.DiskFull,
    pg.OutOfMemory,
    pg.TooManyConnections,
)


@final
class PostgresqlSession:
    """Implements `Session`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        rows = self._connection.execute(sql, values, binary=True).fetchall()
        if self._connection.info.transaction_status:
            self._connection.rollback()
        return rows

    def transact(self, statements: Sequence[Statement]) -> None:
        connection = self._connection
        with connection.pipeline():
            connection.execute("BEGIN")
            for sql, rows in statements:
                if len(rows) == 1:
                    connection.execute(sql, rows[0])
                else:
                    connection.cursor().executemany(sql, rows)
            connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


@final
class PostgresqlDriver:
    """Implements `Driver`."""

    dialect: Dialect = POSTGRESQL
    message_bytes_max: int | None = None

    def __init__(self, parameters: Mapping[str, str], description: str, lock_number: int) -> None:
        self._parameters = dict(parameters)
        self._description = description
        self._lock_number = lock_number

    @property
    def description(self) -> str:
        return self._description

    def connect(self, *, is_writer: bool) -> Session:
        connection = psycopg.connect(
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="ackwire",
            **cast(dict[str, Any], {**_KEEPALIVES, **self._parameters}),
        )
        try:
            if is_writer:
                self._lock(connection)
        except BaseException:
            connection.close()
            raise
        return PostgresqlSession(connection)

    def _lock(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        """Exclude other brokers while the session lasts. Unlike a locked row, this holds no transaction open."""
        query = "SELECT pg_try_advisory_lock(%s, %s)"
        row = connection.execute(query, (_LOCK_SPACE, self._lock_number)).fetchone()
        if row is None or not row[0]:
            raise Locked(self._description)

    def diagnose(self, error: Exception) -> Diagnosis:
        sentence = first_line(error)
        if isinstance(error, Locked):
            return Diagnosis(Trouble.REPEAT, sentence)
        if isinstance(error, pg.NotNullViolation) and "transaction_number" in sentence:
            return Diagnosis(Trouble.SUPERSEDED, sentence)
        if isinstance(error, _REPEATABLE):
            return Diagnosis(Trouble.REPEAT, sentence)
        if isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and not error.sqlstate):
            return Diagnosis(Trouble.LOST, sentence)
        return Diagnosis(Trouble.FATAL, sentence, is_unforeseen=not isinstance(error, psycopg.Error))
