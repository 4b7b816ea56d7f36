"""Transactions on PostgreSQL by libpq's own functions: one pipeline each, prepared statements, binary values.

The driver's `execute` does the same for any value and any caller, and takes most of a small transaction's time for it.
Here all values are integers, text, bytes, and lists of integers. Many rows of one statement travel as one array for
each column, so the server executes one statement for all of them.
"""

import select
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct, pack
from typing import Final, cast, final

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

from ackwire.store.sql.driver import Row, Statement

_LONG: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_ARRAY: Final = Struct(">iiiii")
"""Dimensions, whether there are NULLs, the type of the elements; their number, and that of the first one."""
_NULL: Final = b"\xff\xff\xff\xff"
"""In place of the size of an element."""

_INTEGER, _BYTES, _TEXT, _INTEGERS, _UNKNOWN = 20, 17, 25, 1016, 0
"""OIDs of types. The server finds out what an unknown one must be, as it does for text."""

_ROWS_MAX: Final = 1000
_ROWS_BYTES_MAX: Final = 256 * 1024
"""Of many rows that travel together; a larger row travels alone."""

_PREPARED_MAX: Final = 200
"""Statements that are prepared; they are constants of this package, but for a few that list numbers."""

_FLUSHED_BYTES: Final = 256 * 1024
"""What waits in memory to be sent, about."""

_COMMAND_OK: Final = 1
_TUPLES_OK: Final = 2
_FATAL_ERROR: Final = 7
_PIPELINE_SYNC: Final = 10
"""Of `PQresultStatus`."""


@final
class Pipeline:
    """Executes transactions on one connection, in one thread."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._socket = connection.socket
        self._poll.register(self._socket, select.POLLIN)
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        """Names of statements that the server knows."""
        self._names = 0
        self._sent = 0
        """Commands of the pipeline under way."""
        self._waiting_bytes = 0

    def transact(self, statements: Sequence[Statement]) -> None:
        """Execute *statements* in one transaction, and commit it, in one round trip. Raises the driver's errors; then
        the connection is lost, or `ROLLBACK` ends what is left."""
        connection = self._connection
        new: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._sent = self._waiting_bytes = 0
        connection.enter_pipeline_mode()
        try:
            self._send_plain(b"BEGIN")
            for statement in statements:
                self._send(statement, new)
            self._send_plain(b"COMMIT")
            connection.pipeline_sync()
            self._flush()
            error = self._outcome()
            connection.exit_pipeline_mode()
        except BaseException:  # in the middle of an exchange of which nothing is known any more
            connection.finish()
            raise
        if error is not None:
            raise _raised(error)
        self._prepared.update(new)

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _send_plain(self, sql: bytes) -> None:
        self._connection.send_query_params(sql, None)
        self._sent += 1

    def _send(self, statement: Statement, new: dict[tuple[str, tuple[int, ...]], bytes]) -> None:
        rows = statement.rows
        many = statement.many
        if many is None or len(rows) == 1:
            for row in rows:
                self._send_row(statement.sql, row, new)
            return
        for part in _portions(rows):
            if len(part) == 1:
                self._send_row(statement.sql, part[0], new)
            else:
                columns = [array_of(many.types[it], [row[it] for row in part]) for it in range(len(many.types))]
                self._send_values(many.sql, tuple([_UNKNOWN] * len(columns)), columns, new)

    def _send_row(self, sql: str, row: Row, new: dict[tuple[str, tuple[int, ...]], bytes]) -> None:
        types: list[int] = []
        values: list[bytes | None] = []
        for value in row:
            type_, packed = value_of(value)
            types.append(type_)
            values.append(packed)
        self._send_values(sql, tuple(types), values, new)

    def _send_values(
        self,
        sql: str,
        types: tuple[int, ...],
        values: Sequence[bytes | None],
        new: dict[tuple[str, tuple[int, ...]], bytes],
    ) -> None:
        connection, key = self._connection, (sql, types)
        formats = [1] * len(values)
        name = self._prepared.get(key) or new.get(key)
        if name is None and len(self._prepared) + len(new) < _PREPARED_MAX:
            self._names += 1
            name = new[key] = f"ackwire_{self._names}".encode()
            connection.send_prepare(name, numbered(sql), types)
            self._sent += 1
        if name is None:
            connection.send_query_params(numbered(sql), values, types, formats)
        else:
            connection.send_query_prepared(name, values, formats)
        self._sent += 1
        self._waiting_bytes += sum([len(it) for it in values if it is not None])
        if self._waiting_bytes > _FLUSHED_BYTES:
            self._flush()
            self._waiting_bytes = 0

    def _flush(self) -> None:
        """Have everything sent; what the server answers meanwhile is read, so that neither waits for the other."""
        connection = self._connection
        while connection.flush():
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
            try:
                [(_, events)] = self._poll.poll()
            finally:
                self._poll.modify(self._socket, select.POLLIN)
            if events & ~select.POLLOUT:
                connection.consume_input()

    # ---- what comes of it ------------------------------------------------------------------------------------------

    def _outcome(self) -> PGresult | None:
        """The first error, or None if all has been done."""
        error: PGresult | None = None
        for _ in range(self._sent):
            result = self._next()
            while result is not None:
                if error is None and result.status not in (_COMMAND_OK, _TUPLES_OK):
                    error = result
                result = self._next()
        last = self._next()
        if last is None or last.status != _PIPELINE_SYNC:
            raise psycopg.OperationalError(_text(error or last) or "the connection was lost in a transaction")
        return error

    def _next(self) -> PGresult | None:
        connection = self._connection
        while connection.is_busy():
            self._poll.poll()
            connection.consume_input()
        return connection.get_result()


def _text(result: PGresult | None) -> str:
    return "" if result is None else result.error_message.decode("utf-8", "replace").strip()


def _raised(result: PGresult) -> Exception:
    error = error_from_result(result)
    # An error of the library itself has no state: then the connection is lost.
    return error if error.sqlstate else psycopg.OperationalError(_text(result))


@lru_cache(maxsize=_PREPARED_MAX)
def numbered(sql: str) -> bytes:
    """*sql*, which is written for the driver, with the placeholders of the server."""
    first, *rest = sql.split("%s")
    return "".join((first, *(f"${number}{text}" for number, text in enumerate(rest, 1)))).encode()


def _portions(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """*rows* in parts, none of which takes much memory; they are made one at a time."""
    part: list[Row] = []
    part_bytes = 0
    for number in range(len(rows)):
        row = rows[number]
        row_bytes = sum([len(it) for it in row if isinstance(it, bytes)])
        if part and (part_bytes + row_bytes > _ROWS_BYTES_MAX or len(part) == _ROWS_MAX):
            yield part
            part, part_bytes = [], 0
        part.append(row)
        part_bytes += row_bytes
    if part:
        yield part


def value_of(value: object) -> tuple[int, bytes | None]:
    """The type of a value, and its bytes."""
    if isinstance(value, int):
        return _INTEGER, _LONG.pack(value)
    if value is None:
        return _UNKNOWN, None
    if isinstance(value, str):
        return _UNKNOWN, value.encode()
    if isinstance(value, bytes):
        return _BYTES, value
    assert isinstance(value, list), f"{type(value).__name__} is no value of a column"
    return _INTEGERS, _integers(value)


def _integers(values: Sequence[int]) -> bytes:
    fields: list[int] = []
    for value in values:
        fields.append(8)
        fields.append(value)
    return _ARRAY.pack(1, 0, _INTEGER, len(values), 1) + pack(">" + "iq" * len(values), *fields)


def array_of(type_: str, values: Sequence[object]) -> bytes:
    """An array of *values*: integers (i), text (s) or bytes (b), and NULLs."""
    if type_ == "i" and None not in values:
        return _integers(cast(Sequence[int], values))
    element = _BYTES if type_ == "b" else _TEXT if type_ == "s" else _INTEGER
    parts = [_ARRAY.pack(1, 1, element, len(values), 1)]
    for value in values:
        packed = None if value is None else value_of(value)[1]
        if packed is None:
            parts.append(_NULL)
        else:
            parts.append(_SIZE.pack(len(packed)))
            parts.append(packed)
    return b"".join(parts)
