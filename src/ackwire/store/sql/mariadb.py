"""MariaDB and MySQL by PyMySQL, a driver in plain Python: rows are sent many at a time, so it waits seldom."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, final

import pymysql
from pymysql.constants import CR, ER

from ackwire.store.sql.dialect import MARIADB, Dialect
from ackwire.store.sql.driver import Hold, Row, Session, Statement
from ackwire.store.sql.errors import (
    GRANT_ADVICE,
    SPACE_ADVICE,
    DatabaseRefused,
    Diagnosis,
    Locked,
    Trouble,
    first_line,
)
from ackwire.store.sql.server_locks import TransactionHold, locked
from ackwire.util.socket_watchdog import (
    NoAnswer,
    SocketWatchdog,
    WatchedSocket,
    connected_socket,
    connected_unix_socket,
)
from ackwire.util.unverified_tls import unverified_tls

_CONNECT_SECONDS: Final = 10
"""How long one attempt to connect may take."""

_SESSION: Final = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 10"
"""Strict: a value that does not fit is an error, and the guard of a transaction depends on it."""

_HOLD_SESSION: Final = "SET SESSION innodb_lock_wait_timeout = 1, wait_timeout = 31536000"
"""Seconds: a lock that another program has is not waited for, and one of ours is kept for a year without a word."""

_PACKET_OVERHEAD_BYTES: Final = 16 * 1024
"""Of a packet with one message, besides the message; that may double on its way, because bytes are escaped."""

_LOST: Final = frozenset(
    (
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
        CR.CR_CONNECTION_ERROR,
        CR.CR_CONN_HOST_ERROR,
        CR.CR_SERVER_LOST_EXTENDED,
        ER.SERVER_SHUTDOWN,
        ER.NORMAL_SHUTDOWN,
        ER.CON_COUNT_ERROR,
        ER.NET_READ_ERROR,
        ER.NET_READ_INTERRUPTED,
        ER.NET_ERROR_ON_WRITE,
        ER.NET_WRITE_INTERRUPTED,
        ER.OPTION_PREVENTS_STATEMENT,  # read only after a fail-over: connecting again may find the new primary
        1927,  # ER_CONNECTION_KILLED
        0,  # PyMySQL: the connection is closed
    )
)
_DISK_FULL: Final = frozenset((ER.DISK_FULL, ER.RECORD_FILE_FULL, ER.ERROR_ON_WRITE))
_DENIED: Final = frozenset((ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR))
_REPEATABLE: Final = frozenset(
    (
        ER.LOCK_DEADLOCK,
        ER.LOCK_WAIT_TIMEOUT,
        ER.QUERY_INTERRUPTED,
        1020,  # ER_CHECKREAD: the row has changed since it was read
    )
)


_PURPOSES: Final = ("writes", "holds")
"""What a session with a lock of its own is for."""


def _mark_of(tag: str, purpose: str) -> str:
    return f"ackwire {tag} {purpose}"


def _message_bytes_max(packet_bytes_max: int) -> int:
    return (packet_bytes_max - _PACKET_OVERHEAD_BYTES) // 2


@final
class MariadbSession:
    """Implements `Session`."""

    def __init__(self, connection: "pymysql.Connection[Any]", watched: WatchedSocket, packet_bytes_max: int) -> None:
        self._connection = connection
        self.watched = watched
        self._value_bytes_max = _message_bytes_max(packet_bytes_max)

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        with self.watched, self._connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def run(self, sql: str) -> None:
        """Execute one statement, inside the transaction that is open, if there is one."""
        with self.watched, self._connection.cursor() as cursor:
            cursor.execute(sql)

    def transact(self, statements: Sequence[Statement]) -> None:
        self._check_sizes(statements)
        with self.watched:
            self._transact(statements)

    def _check_sizes(self, statements: Sequence[Statement]) -> None:
        """The server ends a connection with a larger packet, so it cannot tell the reason."""
        for statement in statements:
            for row in statement.rows:
                for value in row:
                    if isinstance(value, bytes) and len(value) > self._value_bytes_max:
                        raise DatabaseRefused(
                            f"a row of {len(value)} bytes is too large for the server, whose max_allowed_packet was "
                            "lowered since the start; raise it to more than twice that, or start the broker again"
                        )

    def _transact(self, statements: Sequence[Statement]) -> None:
        connection = self._connection
        connection.begin()
        try:
            with connection.cursor() as cursor:
                for sql, rows, _ in statements:
                    if len(rows) == 1:
                        cursor.execute(sql, rows[0])
                    else:
                        cursor.executemany(sql, rows)
            connection.commit()
        except pymysql.Error as error:
            if error.args and error.args[0] not in _LOST:
                connection.rollback()
            raise

    def rollback(self) -> None:
        with self.watched:
            self._connection.rollback()

    def close(self) -> None:
        self.watched.release()
        with suppress(pymysql.Error):  # closed before
            self._connection.close()


@final
class _Connection(pymysql.Connection):
    """A connection that reads no certificates which it does not check."""

    def _create_ssl_ctx(self, sslp: dict[str, Any]) -> Any:
        if sslp:
            return super()._create_ssl_ctx(sslp)  # type: ignore[misc]  # the stubs lack it
        return unverified_tls()  # TLS is not asked for, and used if the server has it


@final
class MariadbDriver:
    """Implements `Driver`."""

    dialect: Dialect = MARIADB
    message_bytes_max: int | None = None

    def __init__(
        self,
        parameters: Mapping[str, Any],
        description: str,
        lock_name: str,
        answer_seconds_max: float,
        tag: str = "",
    ) -> None:
        """A *tag* is part of the names of locks that the sessions which write and hold have: `end_sessions` finds them
        by it."""
        self._tag = tag
        self._watchdog = SocketWatchdog(answer_seconds_max)
        self._parameters = dict(parameters)
        self._description = description
        self._lock_name = lock_name

    @property
    def description(self) -> str:
        return self._description

    def connect(self, *, is_writer: bool) -> Session:
        session = self._connect()
        return locked(session, self._lock) if is_writer else session

    def _connect(self) -> MariadbSession:
        connection = _Connection(
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            init_command=_SESSION,
            program_name="ackwire",
            defer_connect=True,
            **self._parameters,
        )
        seconds = min(_CONNECT_SECONDS, self._watchdog.seconds_max)
        try:
            if connection.unix_socket:
                channel = connected_unix_socket(str(connection.unix_socket), seconds)
            else:
                channel = connected_socket(connection.host, connection.port, seconds)
        except OSError as error:
            raise pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, f"{connection.host}: {error}") from error
        watched = self._watchdog.watch(channel.fileno())
        watched.seconds_max = _CONNECT_SECONDS
        try:
            with watched:
                connection.connect(channel)
                with connection.cursor() as cursor:
                    cursor.execute("SELECT @@max_allowed_packet")
                    packet_bytes_max = int(cursor.fetchall()[0][0])
        except BaseException:
            watched.release()
            channel.close()
            raise
        watched.seconds_max = math.inf
        self.message_bytes_max = _message_bytes_max(packet_bytes_max)
        return MariadbSession(connection, watched, packet_bytes_max)

    def _lock(self, session: MariadbSession) -> None:
        """Exclude other brokers of ours while the session lasts."""
        [(is_locked,)] = session.select("SELECT GET_LOCK(%s, 0)", (self._lock_name,))
        if is_locked != 1:
            raise Locked(self._description)
        self._mark(session, "writes")

    def _mark(self, session: MariadbSession, purpose: str) -> None:
        """Take a lock that only tells which session it is."""
        if self._tag:
            session.select("SELECT GET_LOCK(%s, 0)", (_mark_of(self._tag, purpose),))

    def end_sessions(self, session: Session, tag: str) -> None:
        """See `LeasingDriver`. A user may end sessions of its own."""
        for purpose in _PURPOSES:
            [(number,)] = session.select("SELECT IS_USED_LOCK(%s)", (_mark_of(tag, purpose),))
            if number is not None:
                with suppress(pymysql.Error):  # it may be gone by now
                    session.select(f"KILL {int(number)}")

    def hold(self, lock_table: str) -> Hold:
        """See `Driver`: by a locked row, as ActiveMQ's locker does it."""
        lock = f"SELECT * FROM {lock_table} FOR UPDATE"  # noqa: S608 - the name of a table
        try:
            session = locked(self._connect(), lambda it: self._mark(it, "holds"))
            return TransactionHold(session, (_HOLD_SESSION, "BEGIN", lock))
        except pymysql.OperationalError as error:
            if error.args[0] == ER.LOCK_WAIT_TIMEOUT:
                raise Locked(self._description, f"ActiveMQ, which has locked {lock_table}") from None
            raise

    def limit_answers(self, seconds_max: float) -> None:
        self._watchdog.limit(seconds_max)

    def diagnose(self, error: Exception) -> Diagnosis:
        if isinstance(error, NoAnswer):
            return Diagnosis(Trouble.LOST, str(error))
        if isinstance(error, Locked):
            return Diagnosis(Trouble.REPEAT, str(error))
        if isinstance(error, DatabaseRefused):
            return Diagnosis(Trouble.FATAL, str(error))
        if not isinstance(error, pymysql.Error):
            lost = isinstance(error, OSError | EOFError)
            return Diagnosis(Trouble.LOST if lost else Trouble.FATAL, first_line(error), is_unforeseen=not lost)
        code = error.args[0] if error.args else 0
        sentence = str(error.args[1]) if len(error.args) > 1 else first_line(error)
        if code == ER.BAD_NULL_ERROR and "TRANSACTION_NUMBER" in sentence:
            return Diagnosis(Trouble.SUPERSEDED, sentence)
        if code in _DISK_FULL or (code == ER.GET_ERRNO and "No space left" in sentence):
            return Diagnosis(Trouble.REPEAT, sentence, SPACE_ADVICE)
        if code in _REPEATABLE:
            return Diagnosis(Trouble.REPEAT, sentence)
        if code in _DENIED:
            return Diagnosis(Trouble.FATAL, sentence, GRANT_ADVICE)
        if code in _LOST or isinstance(error, pymysql.InterfaceError):
            return Diagnosis(Trouble.LOST, sentence or "the connection is lost")
        return Diagnosis(Trouble.FATAL, sentence)
