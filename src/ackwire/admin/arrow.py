"""Messages over HTTP as Arrow IPC streams: ranges that are read, and parts that are staged.

A range is read in slices of some rows, and the loop serves other clients in between; several slices become one record
batch, so that batches are large enough for readers. An error before the first row is an answer with a status; a later
one breaks the stream off.

What is staged is checked before pyarrow works on it: compression, dictionaries and views, which could expand few bytes
into many, are refused. pyarrow is loaded when it is needed first.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from ackwire.admin.bulk_api import Staging, promised
from ackwire.admin.http import Answer, BadRequest
from ackwire.config import MIB
from ackwire.errors import AckwireError, BrokerError
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Clock
from ackwire.wire.openwire.limits import WireLimits

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

_ROWS_PER_TURN: Final = 256
_ROWS_AT_FIRST: Final = 16
"""Rows of the first batch, before the size of rows is known."""
_BYTES_PER_TURN: Final = MIB
_BATCH_ROWS: Final = 8000
_BATCH_BYTES: Final = 4 * MIB
"""A batch is made in one turn, of columns that were filled in turns before it."""
_STAGED_ROWS_PER_TURN: Final = 512
_ROWS_MAX_PER_BYTE: Final = 1
"""Rows of a body for each of its bytes: columns without buffers could claim any number."""

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ADVICE: Final = 'this needs pyarrow, which the broker does not have: pip install "ackwire[http]"'

Rows = Sequence[tuple[int, bytes, int]]


def require_pyarrow() -> None:
    """Raise `BadRequest` with status 501 if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise BadRequest(_ADVICE, status=501, code="no-pyarrow") from None


def prepare() -> None:
    """Import pyarrow and what uses it, if it is there: that takes half a second, in which no client should wait."""
    with suppress(ImportError):
        from ackwire.tabular import reading, schema, writing  # noqa: F401


# ---- reading ---------------------------------------------------------------------------------------------------


class Source(Protocol):
    """Rows in their order."""

    async def next(self, limit: int) -> Rows | None:
        """At most *limit* more of them; None after the last."""
        ...


@final
class Dense:
    """The rows after one number up to another, where nearly every number has one."""

    def __init__(self, read: Callable[[int, int], Awaitable[Rows]], after: int, to: int) -> None:
        self._read = read
        self._after = after
        self._to = to
        self._has_begun = False

    async def next(self, limit: int) -> Rows | None:
        if self._after >= self._to and self._has_begun:
            return None
        self._has_begun = True  # an empty range is asked for as well: perhaps it is gone
        to = min(self._after + limit, self._to)
        rows = await self._read(self._after, to)
        self._after = to
        return rows


@final
class Sparse:
    """The rows after a number, as far as there are any."""

    def __init__(self, read: Callable[[int, int], Awaitable[tuple[Rows, int | None]]], after: int) -> None:
        """*read* gives rows and the number of the last message that it has looked at; None if there was none."""
        self._read = read
        self._after = after

    async def next(self, limit: int) -> Rows | None:
        rows, last = await self._read(self._after, limit)
        if last is None:
            return None
        self._after = last
        return rows


async def messages(source: Source, limits: WireLimits) -> Answer:
    """The answer that streams *source*. What the first rows raise is raised here, before anything was answered."""
    require_pyarrow()
    first = await source.next(_ROWS_AT_FIRST)
    return Answer(200, content_type=CONTENT_TYPE, pieces=_stream(source, first, limits))


async def _stream(source: Source, rows: Rows | None, limits: WireLimits) -> AsyncIterator[Any]:
    from ackwire.tabular.reading import RowReader
    from ackwire.tabular.schema import MESSAGE

    reader = RowReader(limits, bytes_max=_BATCH_BYTES, rows_max=_BATCH_ROWS)
    yield memoryview(MESSAGE.serialize())
    while rows is not None:
        for batch in reader.add(rows):
            yield memoryview(batch.serialize())
        await asyncio.sleep(0)
        rows = await source.next(_next_limit(rows))
    if (batch := reader.rest()) is not None:
        yield memoryview(batch.serialize())
    yield _END_OF_STREAM


def _next_limit(rows: Rows) -> int:
    """The number of rows to read next, estimated from the size of the last ones: a slice has a limit in bytes, too."""
    size_bytes = sum(len(frame) for _, frame, _ in rows)
    return max(1, min(_ROWS_PER_TURN, _BYTES_PER_TURN * len(rows) // max(1, size_bytes))) if rows else _ROWS_AT_FIRST


# ---- staging ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """The staged part that a body belongs to."""

    producer: str
    batch: int
    part: str
    default_destination: Destination | None


async def stage(staging: Staging, part: Part, body: bytearray, clock: Clock, limits: WireLimits) -> int:
    """Stage all rows of *body*; the answer, when they are durable, is their number.

    Raises `BadRequest` for what is no Arrow stream, or holds rows that are no messages: what came before them is
    staged then, and the error says how much.
    """
    staged, promises = 0, []
    try:
        for rows in _slices(body):
            promises.append(_stage_rows(staging, part, rows, clock, limits))
            staged += rows.num_rows
            await asyncio.sleep(0)
            if promises[0].done():
                promises.pop(0).result()
    except BrokerError:
        raise
    except (AckwireError, ValueError, TypeError, OSError) as error:  # pyarrow's errors are ValueErrors and OSErrors
        await asyncio.gather(*promises)
        raise BadRequest(f"behind row {staged}: {_in_one_line(error)}; the {staged} rows before were staged") from None
    await asyncio.gather(*promises)
    return staged


def _stage_rows(staging: Staging, part: Part, rows: Any, clock: Clock, limits: WireLimits) -> "asyncio.Future[Any]":
    from ackwire.tabular.writing import batch_to_messages

    messages = batch_to_messages(
        rows,
        producer=part.producer,
        default_destination=part.default_destination,
        first_sequence=staging.next_sequences(rows.num_rows),
        now_ms=clock.now_ms(),
        limits=limits,
    )
    return promised(lambda done, failed: staging.stage(part.producer, part.batch, part.part, messages, done, failed))


def _slices(body: bytearray) -> Any:
    """The rows of an Arrow stream, some at a time. Raises `ValueError`."""
    import pyarrow as pa

    if not body:
        raise ValueError("the body is empty, and must be an Arrow IPC stream")
    data = pa.py_buffer(body)
    _check_envelopes(data)
    with pa.ipc.open_stream(data) as reader:
        for column in reader.schema:
            if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
                raise ValueError(
                    f"column {column.name} has the type {column.type}, whose rows can share bytes: send plain"
                )
        for batch in reader:
            batch.validate()
            if batch.num_rows > len(body) * _ROWS_MAX_PER_BYTE:
                raise ValueError(f"{batch.num_rows} rows cannot be in {len(body)} bytes")
            step = _rows_per_slice(batch)
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)  # `batch_to_messages` looks at every offset and text


def _rows_per_slice(batch: Any) -> int:
    rows, size_bytes = int(batch.num_rows), int(batch.nbytes)
    return max(1, min(_STAGED_ROWS_PER_TURN, _BYTES_PER_TURN * rows // max(1, size_bytes)))


def _check_envelopes(data: Any) -> None:
    """Raise `ValueError` unless *data* is a whole stream of plain record batches."""
    import pyarrow as pa

    if data.slice(max(0, data.size - len(_END_OF_STREAM))).to_pybytes() != _END_OF_STREAM:
        raise ValueError("the Arrow stream is cut off: it does not end with its end-of-stream marker")
    for message in pa.ipc.MessageReader.open_stream(data):
        if message.type == "dictionary":
            raise ValueError("dictionary-encoded columns are not taken: send plain ones")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("compressed Arrow streams are not taken: write without compression")


# Where things stand in the flat buffers of Arrow's Message.fbs: the field's number in its table.
_MESSAGE_HEADER: Final = 2
_BATCH_COMPRESSION: Final = 3


def _is_compressed(metadata: bytes) -> bool:
    """Whether the record batch that *metadata* describes has a compressed body. Raises `ValueError`."""
    try:
        (message,) = struct.unpack_from("<I", metadata, 0)
        at = _field(metadata, message, _MESSAGE_HEADER)
        (batch,) = struct.unpack_from("<I", metadata, at)
        return at != 0 and _field(metadata, at + batch, _BATCH_COMPRESSION) != 0
    except struct.error:
        raise ValueError("the metadata of a record batch cannot be read") from None


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flat buffer's table stands; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    place = 4 + 2 * number
    if place + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, table - back + place)
    return table + int(offset) if offset else 0


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
