"""MariaDB and MySQL by PyMySQL, a driver in plain Python: rows are sent many at a time, so it waits seldom."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import pymysql
from pymysql.constants import CR, ER

from ackwire.store.sql.dialect import MARIADB, Dialect
from ackwire.store.sql.driver import Row, Session, Statement
from ackwire.store.sql.errors import Diagnosis, Locked, Trouble, first_line

_CONNECT_SECONDS: Final = 10
"""How long one attempt to connect may take."""

_SESSION: Final = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 10"
"""Strict: a value that does not fit is an error, and the guard of a transaction depends on it."""

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
_REPEATABLE: Final = frozenset(
    (
        ER.LOCK_DEADLOCK,
        ER.LOCK_WAIT_TIMEOUT,
        ER.DISK_FULL,
        ER.RECORD_FILE_FULL,
        ER.QUERY_INTERRUPTED,
        1020,  # ER_CHECKREAD: the row has changed since it was read
    )
)


@final
class MariadbSession:
    """Implements `Session`."""

    def __init__(self, connection: "pymysql.Connection[Any]") -> None:
        self._connection = connection

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def transact(self, statements: Sequence[Statement]) -> None:
        connection = self._connection
        connection.begin()
        try:
            with connection.cursor() as cursor:
                for sql, rows in statements:
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
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


@final
class MariadbDriver:
    """Implements `Driver`."""

    dialect: Dialect = MARIADB
    message_bytes_max: int | None = None

    def __init__(self, parameters: Mapping[str, Any], description: str, lock_name: str) -> None:
        self._parameters = dict(parameters)
        self._description = description
        self._lock_name = lock_name

    @property
    def description(self) -> str:
        return self._description

    def connect(self, *, is_writer: bool) -> Session:
        connection = pymysql.connect(
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            init_command=_SESSION,
            program_name="ackwire",
            **self._parameters,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@max_allowed_packet")
                self.message_bytes_max = (int(cursor.fetchall()[0][0]) - _PACKET_OVERHEAD_BYTES) // 2
            if is_writer:
                self._lock(connection)
        except BaseException:
            connection.close()
            raise
        return MariadbSession(connection)

    def _lock(self, connection: "pymysql.Connection[Any]") -> None:
        """Exclude other brokers while the session lasts. Unlike a locked row, this holds no transaction open."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (self._lock_name,))
            row = cursor.fetchone()
        if row is None or row[0] != 1:
            raise Locked(self._description)

    def diagnose(self, error: Exception) -> Diagnosis:
        if isinstance(error, Locked):
            return Diagnosis(Trouble.REPEAT, str(error))
        if not isinstance(error, pymysql.Error):
            lost = isinstance(error, OSError | EOFError)
            return Diagnosis(Trouble.LOST if lost else Trouble.FATAL, first_line(error), is_unforeseen=not lost)
        code = error.args[0] if error.args else 0
        sentence = str(error.args[1]) if len(error.args) > 1 else first_line(error)
        if code == ER.BAD_NULL_ERROR and "TRANSACTION_NUMBER" in sentence:
            return Diagnosis(Trouble.SUPERSEDED, sentence)
        if code in _REPEATABLE:
            return Diagnosis(Trouble.REPEAT, sentence)
        if code in _LOST or isinstance(error, pymysql.InterfaceError):
            return Diagnosis(Trouble.LOST, sentence or "the connection is lost")
        return Diagnosis(Trouble.FATAL, sentence)
