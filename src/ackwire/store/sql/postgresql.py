"""PostgreSQL by psycopg 3: a transaction is one pipeline, so it costs one round trip however many statements it has."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import psycopg
from psycopg import errors as pg

from ackwire.store.sql.dialect import POSTGRESQL, Dialect
from ackwire.store.sql.driver import Hold, Row, Session, Statement
from ackwire.store.sql.errors import GRANT_ADVICE, SPACE_ADVICE, Diagnosis, Locked, Trouble, first_line
from ackwire.store.sql.postgresql_pipeline import Pipeline
from ackwire.store.sql.server_locks import TransactionHold, locked
from ackwire.util.socket_watchdog import NoAnswer, SocketWatchdog, WatchedSocket

_CONNECT_SECONDS: Final = 10
"""How long one attempt to connect may take."""

_KEEPALIVES: Final = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""Seconds and, the last one, milliseconds: a server whose machine is gone is noticed after 20 s, not after hours."""

_LOCK_SPACE: Final = 0x61636B77
"""The first part of our advisory locks: "ackw"."""

_HOLD_SESSION: Final = "SET idle_in_transaction_session_timeout = 0"

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


def _session_name(tag: str) -> str:
    return f"ackwire {tag}".strip()


_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@final
class PostgresqlSession:
    """Implements `Session`."""

    def __init__(self, connection: _Connection, watched: WatchedSocket) -> None:
        self._connection = connection
        self._pipeline = Pipeline(connection.pgconn)
        self.watched = watched

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        with self.watched:
            rows = self._connection.execute(sql, values, binary=True).fetchall()
            if self._connection.info.transaction_status:
                self._connection.rollback()
        return rows

    def run(self, sql: str) -> None:
        """Execute one statement, inside the transaction that is open, if there is one."""
        with self.watched:
            self._connection.execute(sql)

    def transact(self, statements: Sequence[Statement]) -> None:
        with self.watched:
            self._pipeline.transact(statements)

    def rollback(self) -> None:
        with self.watched:
            self._connection.rollback()

    def close(self) -> None:
        self.watched.release()
        self._connection.close()


@final
class PostgresqlDriver:
    """Implements `Driver`."""

    dialect: Dialect = POSTGRESQL
    message_bytes_max: int | None = None

    def __init__(
        self,
        parameters: Mapping[str, str],
        description: str,
        lock_number: int,
        answer_seconds_max: float,
        tag: str = "",
    ) -> None:
        """A *tag* is part of the name of all sessions: `end_sessions` finds them by it."""
        self._name = _session_name(tag)
        self._watchdog = SocketWatchdog(answer_seconds_max)
        self._parameters = dict(parameters)
        self._description = description
        self._lock_number = lock_number

    @property
    def description(self) -> str:
        return self._description

    def connect(self, *, is_writer: bool) -> Session:
        session = self._connect()
        return locked(session, self._lock) if is_writer else session

    def _connect(self) -> PostgresqlSession:
        connection = psycopg.connect(
            autocommit=True,
            connect_timeout=max(1, round(min(_CONNECT_SECONDS, self._watchdog.seconds_max))),
            application_name=self._name,
            client_encoding="UTF8",
            **cast(dict[str, Any], {**_KEEPALIVES, **self._parameters}),
        )
        return PostgresqlSession(connection, self._watchdog.watch(connection.fileno()))

    def _lock(self, session: PostgresqlSession) -> None:
        """Exclude other brokers of ours while the session lasts."""
        [(is_locked,)] = session.select("SELECT pg_try_advisory_lock(%s, %s)", (_LOCK_SPACE, self._lock_number))
        if not is_locked:
            raise Locked(self._description)

    def hold(self, lock_table: str) -> Hold:
        """See `Driver`.

        A locked row, as ActiveMQ's locker has it, would be a transaction with a number, and rows that were deleted
        since it began are never cleaned up while it is open. A locked table needs none; it conflicts with locks of rows
        in it all the same.
        """
        lock = f"LOCK TABLE {lock_table} IN EXCLUSIVE MODE NOWAIT"
        try:
            return TransactionHold(self._connect(), (_HOLD_SESSION, "BEGIN", lock))
        except pg.LockNotAvailable:
            raise Locked(self._description, f"ActiveMQ, which has locked {lock_table}") from None

    def end_sessions(self, session: Session, tag: str) -> None:
        """See `LeasingDriver`. A user may end sessions of its own."""
        session.select(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = %s AND datname = current_database() AND usename = current_user",
            (_session_name(tag),),
        )

    def limit_answers(self, seconds_max: float) -> None:
        self._watchdog.limit(seconds_max)

    def diagnose(self, error: Exception) -> Diagnosis:
        sentence = first_line(error)
        if isinstance(error, NoAnswer):
            return Diagnosis(Trouble.LOST, sentence)
        if isinstance(error, Locked):
            return Diagnosis(Trouble.REPEAT, sentence)
        if isinstance(error, pg.NotNullViolation) and "transaction_number" in sentence:
            return Diagnosis(Trouble.SUPERSEDED, sentence)
        if isinstance(error, _REPEATABLE):
            return Diagnosis(Trouble.REPEAT, sentence, SPACE_ADVICE if isinstance(error, pg.DiskFull) else "")
        if isinstance(error, pg.InsufficientPrivilege):
            return Diagnosis(Trouble.FATAL, sentence, GRANT_ADVICE)
        if isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and not error.sqlstate):
            return Diagnosis(Trouble.LOST, sentence)
        return Diagnosis(Trouble.FATAL, sentence, is_unforeseen=not isinstance(error, psycopg.Error))
