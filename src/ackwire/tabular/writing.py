"""From Arrow rows to messages that a store can append: `batch_to_messages`.

How it works. Rows that differ only in body and properties share a `_Shape`: a whole frame, made once by the builder
that producers use, too (`wire/openwire/frame_builder.py`), stamped as the broker stamps, and cut where counts, body and
properties go. A row is then one join. A property is its name and type, encoded once, and its value. Text comes out of
Arrow as UTF-8 and goes into the frame as it is, unless Java writes it differently.

Nothing is taken on trust: the batch is validated before its buffers are read, and a row that cannot be a message is a
`BadRow` that says which one, which column, and why; then there are no messages at all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from struct import Struct
from typing import Any, Final, NamedTuple, final

import pyarrow as pa

from ackwire.errors import AckwireError, InvalidDestination, LocalProtocolError
from ackwire.jms.destinations import Destination, parse_written_destination
from ackwire.jms.message import Message
from ackwire.jms.names import HEADERS, can_stand_in_selectors
from ackwire.jms.types import Byte, Float, Int, Long, Short, Value
from ackwire.tabular.schema import PROPERTY_PREFIX, PROPERTY_TYPES, WRITE_COLUMNS
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_map_body
from ackwire.wire.openwire.codec_fast import FastDecoder, stamp
from ackwire.wire.openwire.frame_builder import FrameBuilder
from ackwire.wire.openwire.layout import (
    ABSENT,
    ABSENT_BYTES,
    BYTES_AT,
    BYTES_LENGTH,
    COUNT_BYTES,
    COUNTS,
    COUNTS_BYTES,
    INT,
    INT_BYTES,
    TAIL_BYTES,
    USHORT,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.primitives import BIG_STRING_CHARS, encode_map
from ackwire.wire.openwire.text import encode_modified_utf8

_PRODUCER_CHARACTERS_MAX: Final = 255
_SHAPES_MAX: Final = 1024
_TARGETS_MAX: Final = 1024
"""Remembered for one batch."""
_PRIORITY_DEFAULT: Final = 4
_PRIORITY_MAX: Final = 9
_INT_RANGE: Final = range(-(2**31), 2**31)
_LONG_MAX: Final = 2**63 - 1
_HEADER_BYTES_MAX: Final = 65_535
_CHARACTER_BYTES_MAX: Final = 6
"""Of one character in Java's form: two surrogates."""

_COUNT_BYTES: Final = 4
"""Of the entries, in front of an encoded map."""
_STRING_LENGTH_BYTES: Final = 2
"""Of a text as the value of a property."""
_TEXT_LENGTHS: Final = Struct(">Bii")
"""Of content that is there, and of the text in it."""
_PLAIN: Final = commands.ActiveMQMessage.TYPE_ID
_BYTES: Final = commands.ActiveMQBytesMessage.TYPE_ID
_MAP: Final = commands.ActiveMQMapMessage.TYPE_ID
_TEXT: Final = commands.ActiveMQTextMessage.TYPE_ID

_MAP_TYPE: Final = pa.map_(pa.string(), pa.string())
_OWN_COLUMNS: Final = {"JMSXGroupID": "group_id", "JMSXGroupSeq": "group_sequence"}
_BROKERS_OWN: Final = ("JMSXDeliveryCount", "JMSXUserID")
_SCHEDULING: Final[dict[str, Callable[[Any], Value]]] = {
    "AMQ_SCHEDULED_DELAY": Long,
    "AMQ_SCHEDULED_PERIOD": Long,
    "AMQ_SCHEDULED_REPEAT": Int,
}
"""Brokers look for these types; as the client does, whatever was given is converted."""


class BadRow(AckwireError):
    """A row, or a column of all rows, that no message can be made of; nothing was made of the others either."""

    def __init__(self, reason: str, *, row: int | None = None, column: str | None = None) -> None:
        where = [f"row {row}"] if row is not None else []
        where += [f"column {column}"] if column is not None else []
        super().__init__(f"{', '.join(where)}: {reason}" if where else reason)
        self.row = row
        """Counted from 1; None if it is about all of them."""
        self.column = column


def batch_to_messages(
    batch: Any,
    *,
    producer: str,
    default_destination: Destination | None,
    first_sequence: int,
    now_ms: int,
    limits: WireLimits = DEFAULT_LIMITS,
) -> list[Message]:
    """The messages that the rows of the `pyarrow.RecordBatch` *batch* are, persistent and stamped.

    Row i gets the sequence *first_sequence* + i, which is also its producer's count: the producer is *producer*'s one
    and only. Raises `BadRow`.
    """
    _check_columns(batch)
    shapes = _Shapes(producer, default_destination, now_ms)
    messages: list[Message] = []
    rows = zip(range(1, batch.num_rows + 1), _bodies(batch), _headers(batch), _properties(batch, limits), strict=False)
    for row, body, headers, properties in rows:
        try:
            message = shapes.find(body[0], headers).message(first_sequence + row - 1, body, properties)
        except _Problem as problem:
            raise BadRow(problem.reason, row=row, column=problem.column) from None
        if len(message.frame) > limits.frame_bytes_max:
            raise BadRow(
                f"the message makes a frame of {len(message.frame)} bytes, and the limit is {limits.frame_bytes_max} "
                "(frame_bytes_max)",
                row=row,
            )
        messages.append(message)
    return messages


class _Problem(Exception):
    """What is wrong with a header, found where the row is not known."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


# ---- columns ---------------------------------------------------------------------------------------------------


def _check_columns(batch: Any) -> None:
    """Raise `BadRow` unless *batch* is sound and all its columns are known, each once."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadRow(f"the rows are damaged: {error}") from None
    seen: set[str] = set()
    for name in batch.schema.names:
        if name in seen:
            raise BadRow("it is there twice", column=name)
        seen.add(name)
        if name not in WRITE_COLUMNS and not name.startswith(PROPERTY_PREFIX):
            raise BadRow(
                f"it is unknown: rows may have {', '.join(WRITE_COLUMNS)}, and {PROPERTY_PREFIX}<name>", column=name
            )


def _column(batch: Any, name: str) -> Any | None:
    """The column *name*, plain; None if there is none, or nothing in it."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return None if column.null_count == len(column) else column


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_binary(type_: Any) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def _wrong_type(name: str, type_: Any, wanted: str) -> BadRow:
    return BadRow(f"it has the type {type_}, and should be {wanted}", column=name)


def _encoded_texts(column: Any) -> list[bytes | None]:
    """The strings of *column* as UTF-8."""
    encoded: list[bytes | None] = column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return encoded


def _texts(batch: Any, name: str) -> Iterable[str | None]:
    column = _column(batch, name)
    if column is None:
        return repeat(None)
    if not _is_text(column.type):
        raise _wrong_type(name, column.type, "string")
    texts: list[str | None] = column.to_pylist()
    return texts


def _integers(batch: Any, name: str) -> Iterable[int | None]:
    column = _column(batch, name)
    if column is None:
        return repeat(None)
    if not pa.types.is_integer(column.type):
        raise _wrong_type(name, column.type, "an integer")
    numbers: list[int | None] = column.to_pylist()
    return numbers


def _times(batch: Any, name: str) -> Iterable[int | None]:
    """Milliseconds since 1970; times without a zone are in UTC."""
    column = _column(batch, name)
    if column is None:
        return repeat(None)
    if not pa.types.is_timestamp(column.type):
        raise _wrong_type(name, column.type, "a timestamp")
    try:
        # Seconds may be too many; of what is finer than milliseconds, the rest is cut off.
        in_ms = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=column.type.unit == "s")
    except pa.ArrowInvalid as error:
        raise BadRow(str(error), column=name) from None
    times: list[int | None] = in_ms.cast(pa.int64()).to_pylist()
    return times


# ---- bodies ----------------------------------------------------------------------------------------------------


_Body = tuple[int, bytes, bytes]
"""The content of a message: what kind, and its bytes in two pieces, as they stand in a frame."""

_NO_BODY: Final[_Body] = (_PLAIN, ABSENT, b"")


def _text_body(data: bytes) -> _Body:
    if _is_different_in_java(data):
        data = encode_modified_utf8(data.decode())
    return _TEXT, _TEXT_LENGTHS.pack(1, len(data) + INT_BYTES, len(data)), data


def _is_different_in_java(data: bytes) -> bool:
    """Whether the UTF-8 in *data* has a NUL, or a character of four bytes: those begin with 0xF0 to 0xF4."""
    if b"\0" in data:
        return True
    if data.isascii():
        return False
    return b"\xf0" in data or b"\xf1" in data or b"\xf2" in data or b"\xf3" in data or b"\xf4" in data


def _bytes_body(data: bytes) -> _Body:
    return (_BYTES, BYTES_LENGTH.pack(1, len(data)), data) if data else (_BYTES, ABSENT, b"")


def _bodies(batch: Any) -> Iterator[_Body]:
    columns = [(name, *_body_column(batch, name)) for name in ("text", "bytes", "map", "value")]
    given = [(name, values, make) for name, values, make in columns if values is not None]
    if len(given) == 1:
        _, values, make = given[0]
        return (_NO_BODY if value is None else make(value) for value in values)
    return _bodies_of_several(given, batch.num_rows)


def _bodies_of_several(
    columns: Sequence[tuple[str, Sequence[Any], Callable[[Any], _Body]]], count: int
) -> Iterator[_Body]:
    for index in range(count):
        found = [(name, values[index], make) for name, values, make in columns if values[index] is not None]
        if len(found) > 1:
            raise BadRow(
                f"a message has one body, and {' and '.join(name for name, _, _ in found)} are given", row=index + 1
            )
        yield found[0][2](found[0][1]) if found else _NO_BODY


def _body_column(batch: Any, name: str) -> tuple[Sequence[Any] | None, Callable[[Any], _Body]]:
    """Its values, None if there are none, and what makes a body of one."""
    column = _column(batch, name)
    if column is None:
        return None, _text_body
    if name == "map":
        return [*_map_bodies(column)], lambda body: body
    if _is_text(column.type) and name != "bytes":
        return _encoded_texts(column), _text_body
    if _is_binary(column.type) and name != "text":
        return column.cast(pa.large_binary()).to_pylist(), _bytes_body
    raise _wrong_type(name, column.type, {"text": "string", "bytes": "binary"}.get(name, "string or binary"))


def _map_bodies(column: Any) -> Iterator[_Body | None]:
    for row, entries in enumerate(_plain_map("map", column).to_pylist(), 1):
        if entries is None:
            yield None
            continue
        names = [name for name, _ in entries]
        if "" in names or len(set(names)) < len(names):
            raise BadRow("an entry of a map has a name, and no two have the same", row=row, column="map")
        try:
            content = encode_map_body(dict(entries))
        except LocalProtocolError as error:
            raise BadRow(str(error), row=row, column="map") from None
        yield (_MAP, ABSENT, b"") if content is None else (_MAP, BYTES_LENGTH.pack(1, len(content)), content)


def _plain_map(name: str, column: Any) -> Any:
    """*column* as a map of strings to strings."""
    if not pa.types.is_map(column.type) or not (_is_text(column.type.key_type) and _is_text(column.type.item_type)):
        raise _wrong_type(name, column.type, "map<string,string>")
    return column.cast(_MAP_TYPE)


# ---- headers ---------------------------------------------------------------------------------------------------


@final
class _Headers(NamedTuple):
    """The headers of a row, without body and properties; None where a header is not given."""

    destination: str | None
    correlation_id: str | None
    reply_to: str | None
    type: str | None
    priority: int | None
    expiration: int | None
    time_to_live_ms: int | None
    group_id: str | None
    group_sequence: int | None


_HeaderValues = tuple[str | int | None, ...]


def _headers(batch: Any) -> Iterable[_HeaderValues]:
    """Of each row, in the order of `_Headers`; a plain tuple, because most rows are only compared."""
    columns: list[Iterable[str | int | None]] = [
        _texts(batch, "destination"),
        _texts(batch, "correlation_id"),
        _texts(batch, "reply_to"),
        _texts(batch, "type"),
        _integers(batch, "priority"),
        _times(batch, "expiration"),
        _integers(batch, "time_to_live_ms"),
        _texts(batch, "group_id"),
        _integers(batch, "group_sequence"),
    ]
    return zip(*columns, strict=False)  # those that are not there repeat None


@final
class _Target:
    """A destination: how messages to it begin, and how all of them end."""

    __slots__ = ("builder", "end", "origin")

    def __init__(self, builder: FrameBuilder, now_ms: int) -> None:
        self.builder = builder
        outgoing = builder.message(_PLAIN, 0, b"")
        # As the broker takes a message that comes over the wire.
        sample = FastDecoder().message(outgoing.frame())
        stamp(sample, 0, now_ms)
        self.origin = sample.origin
        self.end = sample.frame[-TAIL_BYTES:]


@final
class _Shape:
    """The common bytes of messages of one kind with the same headers: all but counts, body and properties."""

    __slots__ = (
        "_bare_end",
        "_end",
        "_expiration",
        "_front",
        "_front_bytes",
        "_group_id",
        "_group_sequence",
        "_middle",
        "_origin",
        "_priority",
        "_timestamp",
    )

    def __init__(
        self,
        target: _Target,
        type_id: int,
        headers: _Headers,
        *,
        reply_to: Destination | None,
        priority: int,
        timestamp: int,
        expiration: int,
        group_sequence: int,
    ) -> None:
        outgoing = target.builder.message(
            type_id,
            0,
            b"",
            persistent=True,
            priority=priority,
            timestamp=timestamp,
            expiration=expiration,
            correlation_id=headers.correlation_id,
            reply_to=reply_to,
            type=headers.type,
            group_id=headers.group_id,
            group_sequence=group_sequence,
        )
        frame = outgoing.frame()
        counts_at = target.origin.id_end - COUNT_BYTES
        self._front = frame[:counts_at]
        # Up to the empty body, and no properties.
        self._middle = frame[counts_at + COUNTS_BYTES : -TAIL_BYTES - ABSENT_BYTES - BYTES_AT]
        self._end = target.end
        self._bare_end = ABSENT + target.end
        self._front_bytes = counts_at + COUNTS_BYTES + len(self._middle)
        self._origin = target.origin
        self._priority = priority
        self._timestamp = timestamp
        self._expiration = expiration
        self._group_id = headers.group_id
        self._group_sequence = group_sequence

    def message(self, sequence: int, body: _Body, properties: bytes | None) -> Message:
        """The message number *sequence*."""
        _, head, data = body
        origin = self._origin
        counts = COUNTS.pack(sequence, sequence)
        if properties is None:
            offset = 0
            frame = b"".join((self._front, counts, self._middle, head, data, self._bare_end))
        else:
            offset = self._front_bytes + len(head) + len(data) + BYTES_AT
            length = BYTES_LENGTH.pack(1, len(properties))
            frame = b"".join((self._front, counts, self._middle, head, data, length, properties, self._end))
        message = Message(
            frame=frame,
            key=origin.producer_key + counts[:COUNT_BYTES],
            origin=origin,
            persistent=True,
            priority=self._priority,
            expiration=self._expiration,
            timestamp=self._timestamp,
            properties_offset=offset,
            tail_offset=len(frame) - len(self._end),
            producer_count=sequence,
        )
        message.group_id = self._group_id
        message.group_sequence = self._group_sequence
        message.sequence = sequence
        return message


@final
class _Shapes:
    """The shapes of one batch, each made when the first row needs it."""

    def __init__(self, producer: str, default_destination: Destination | None, now_ms: int) -> None:
        if not 0 < len(producer) <= _PRODUCER_CHARACTERS_MAX:
            raise BadRow(
                f"a producer's name has 1 to {_PRODUCER_CHARACTERS_MAX} characters, and this one has {len(producer)}"
            )
        self._producer_id = commands.ProducerId(f"ID:{producer}", 1, 1)
        self._default_destination = default_destination
        self._now_ms = now_ms
        self._targets: dict[str | None, _Target] = {}
        self._shapes: dict[tuple[int, _HeaderValues], _Shape] = {}
        self._last: _Shape | None = None
        self._last_type_id = 0
        self._last_headers: _HeaderValues = ()

    def find(self, type_id: int, headers: _HeaderValues) -> _Shape:
        """Raises `_Problem` if a header cannot be."""
        shape = self._last
        if shape is not None and headers == self._last_headers and type_id == self._last_type_id:
            return shape
        shape = self._shapes.get((type_id, headers))
        if shape is None:
            if len(self._shapes) >= _SHAPES_MAX:
                self._shapes.clear()
            shape = self._shapes[type_id, headers] = self._make(type_id, _Headers(*headers))  # type: ignore[arg-type]
        self._last, self._last_type_id, self._last_headers = shape, type_id, headers
        return shape

    def _make(self, type_id: int, headers: _Headers) -> _Shape:
        _check_lengths(headers)
        return _Shape(
            self._targets.get(headers.destination) or self._learn_target(headers.destination),
            type_id,
            headers,
            reply_to=None if headers.reply_to is None else _destination("reply_to", headers.reply_to),
            priority=_in_range("priority", headers.priority, range(_PRIORITY_MAX + 1), _PRIORITY_DEFAULT),
            timestamp=self._now_ms,
            expiration=self._expiration(headers),
            group_sequence=_in_range("group_sequence", headers.group_sequence, _INT_RANGE, 0),
        )

    def _learn_target(self, name: str | None) -> _Target:
        where = self._default_destination if name is None else _destination("destination", name)
        if where is None:
            raise _Problem("destination", "it is null, and there is no default")
        _check_target(where)
        if len(self._targets) >= _TARGETS_MAX:
            self._targets.clear()
        target = self._targets[name] = _Target(FrameBuilder(self._producer_id, where), self._now_ms)
        return target

    def _expiration(self, headers: _Headers) -> int:
        time_to_live_ms = headers.time_to_live_ms
        if headers.expiration is None:
            time_to_live_ms = _in_range("time_to_live_ms", time_to_live_ms, range(_LONG_MAX - self._now_ms), 0)
            return self._now_ms + time_to_live_ms if time_to_live_ms else 0
        if time_to_live_ms is not None:
            raise _Problem("time_to_live_ms", "expiration is given, too, and a message expires once")
        # Not 0, which is never: 1970 was long ago.
        return max(headers.expiration, 1)


def _in_range(column: str, number: int | None, allowed: range, default: int) -> int:
    if number is None:
        return default
    if number not in allowed:
        raise _Problem(column, f"{number} is not in {allowed.start} to {allowed.stop - 1}")
    return number


def _check_lengths(headers: _Headers) -> None:
    for column in ("correlation_id", "type", "group_id"):
        text: str | None = getattr(headers, column)
        if text is None or len(text) * _CHARACTER_BYTES_MAX <= _HEADER_BYTES_MAX:
            continue
        if len(encode_modified_utf8(text)) > _HEADER_BYTES_MAX:
            raise _Problem(
                column, f"a text of {len(text)} characters is over the wire's limit of {_HEADER_BYTES_MAX} bytes"
            )


def _destination(column: str, text: str) -> Destination:
    try:
        return parse_written_destination(text)
    except InvalidDestination as error:
        raise _Problem(column, str(error)) from None


def _check_target(where: Destination) -> None:
    """Staged messages wait in one place, of which the broker knows what it is."""
    if where.is_wildcard:
        raise _Problem("destination", f"{where!r} is a pattern: messages go to a destination, not to a pattern")
    if where.is_composite:
        raise _Problem("destination", f"{where!r} stands for several destinations: write a row for each")
    if where.kind.is_temporary:
        raise _Problem("destination", f"{where!r} is temporary, and what is written here is kept: use a queue or topic")


# ---- properties ------------------------------------------------------------------------------------------------

_Entries = tuple[int, bytes]
"""How many properties, and their bytes."""
_NO_ENTRIES: Final[_Entries] = (0, b"")


def _properties(batch: Any, limits: WireLimits) -> Iterable[bytes | None]:
    """The encoded properties of each row; None where it has none."""
    names = [name for name in batch.schema.names if name.startswith(PROPERTY_PREFIX)]
    typed = [_typed_entries(batch, name) for name in names]
    column = _column(batch, "properties")
    if column is None and not names:
        return repeat(None)
    if column is None and len(names) <= limits.entries_max and all(None not in entries for entries in typed):
        # The usual table: nothing is missing.
        return map(b"".join, zip(repeat(INT.pack(len(names))), *typed, strict=False))
    taken = frozenset(name.removeprefix(PROPERTY_PREFIX).encode() for name in names)
    return _encoded(repeat(_NO_ENTRIES) if column is None else _string_entries(column, taken), typed, limits)


def _encoded(
    strings: Iterable[_Entries], typed: Sequence[Sequence[bytes | None]], limits: WireLimits
) -> Iterator[bytes | None]:
    typed_rows: Iterable[tuple[bytes | None, ...]] = zip(*typed, strict=True) if typed else repeat(())
    for row, ((count, entries), others) in enumerate(zip(strings, typed_rows, strict=False), 1):
        if others:
            there = [entry for entry in others if entry is not None]
            entries = b"".join((entries, *there))
            count += len(there)
        if count > limits.entries_max:
            raise BadRow(
                f"a message of {count} properties: the limit is {limits.entries_max} (entries_max)",
                row=row,
                column="properties",
            )
        yield INT.pack(count) + entries if count else None


def _string_entries(column: Any, taken: frozenset[bytes]) -> Iterator[_Entries]:
    """The properties of each row in the map *column*; the names in *taken* have columns of their own."""
    maps = _plain_map("properties", column)
    names, values = _encoded_texts(maps.keys), _encoded_texts(maps.items)
    quick_values = [_quick_string(value) for value in values]
    offsets = maps.offsets.to_pylist()
    valid = maps.is_valid().to_pylist() if maps.null_count else repeat(True)
    last_names: list[bytes | None] = []
    heads: list[bytes] = []
    for row, (start, end, is_there) in enumerate(zip(offsets, offsets[1:], valid, strict=False), 1):
        if start == end or not is_there:
            yield _NO_ENTRIES
            continue
        own = names[start:end]
        try:
            if own != last_names:
                heads = _string_heads(own, taken)
                last_names = own
            entries = quick_values[start:end]
            if None in entries or b"" in heads:
                yield len(own), _slow_entries(own, values[start:end])
                continue
        except _Problem as problem:
            raise BadRow(problem.reason, row=row, column="properties") from None
        parts = heads + heads  # as long as heads and values together
        parts[::2] = heads
        parts[1::2] = entries  # type: ignore[assignment]
        yield len(own), b"".join(parts)


def _quick_string(value: bytes | None) -> bytes | None:
    """The UTF-8 in *value* as the value of a property; None where that takes more thought."""
    return None if value is None or len(value) >= BIG_STRING_CHARS else USHORT.pack(len(value)) + value


def _string_heads(names: Sequence[bytes | None], taken: frozenset[bytes]) -> list[bytes]:
    """Name and type of properties that are strings; nothing for one that must be something else."""
    if len(set(names)) < len(names) or not taken.isdisjoint(names):
        raise _Problem("properties", "a property is given twice")
    heads = []
    for name in names:
        text = (name or b"").decode()
        _check_property_name("properties", text)
        heads.append(b"" if text in _SCHEDULING else _entry(text, "")[:-_STRING_LENGTH_BYTES])
    return heads


def _slow_entries(names: Sequence[bytes | None], values: Sequence[bytes | None]) -> bytes:
    """Properties of which some are long, or null, or must be numbers."""
    texts = (None if value is None else value.decode() for value in values)
    return b"".join(_entry((name or b"").decode(), text) for name, text in zip(names, texts, strict=True))


def _typed_entries(batch: Any, column_name: str) -> list[bytes | None]:
    """A column of one property: the encoded property of each row."""
    name = column_name.removeprefix(PROPERTY_PREFIX)
    try:
        _check_property_name(column_name, name)
    except _Problem as problem:
        raise BadRow(problem.reason, column=column_name) from None
    column = _column(batch, column_name)
    if column is None:
        return [None] * batch.num_rows
    kind = PROPERTY_TYPES.get(column.type)
    if kind is None:
        raise _wrong_type(column_name, column.type, "bool, int8 to int64, float, double or string")
    if name in _SCHEDULING:
        return [*_slow_column(column_name, name, column.to_pylist())]
    if kind == "string":
        return [*_string_column(name, _encoded_texts(column))]
    layout = _LAYOUTS[kind]
    pack, head = layout.pack, _entry(name, _VALUES[kind](0))[: -layout.size]
    return [None if value is None else head + pack(value) for value in column.to_pylist()]


def _string_column(name: str, values: Sequence[bytes | None]) -> Iterator[bytes | None]:
    head = _entry(name, "")[:-_STRING_LENGTH_BYTES]
    for value in values:
        quick = _quick_string(value)
        if quick is not None:
            yield head + quick
        else:
            yield None if value is None else _entry(name, value.decode())


def _slow_column(column: str, name: str, values: Sequence[Any]) -> Iterator[bytes | None]:
    """Of a property that must be of another type than its column."""
    for row, value in enumerate(values, 1):
        try:
            yield None if value is None else _entry(name, value)
        except _Problem as problem:
            raise BadRow(problem.reason, row=row, column=column) from None


_VALUES: Final[dict[str, Callable[[Any], Value]]] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": float,
}
_LAYOUTS: Final = {
    "boolean": Struct(">?"),
    "byte": Struct(">b"),
    "short": Struct(">h"),
    "int": Struct(">i"),
    "long": Struct(">q"),
    "float": Struct(">f"),
    "double": Struct(">d"),
}
"""Values of a fixed size, behind name and type."""


def _entry(name: str, value: Value) -> bytes:
    """One encoded property. Raises `_Problem` for what the wire cannot carry."""
    try:
        kind = _SCHEDULING.get(name)
        if kind is not None and value is not None:
            value = kind(int(value))  # type: ignore[arg-type]
        return encode_map({name: value})[_COUNT_BYTES:]
    except (LocalProtocolError, ValueError, OverflowError) as error:
        raise _Problem("properties", f"{name}: {error}") from None


def _check_property_name(column: str, name: str) -> None:
    """The client's rules: what selectors cannot name, or know as a header, is no property."""
    if not name:
        raise _Problem(column, "a property needs a name")
    if name in HEADERS:
        raise _Problem(column, f"{name} is a header and no property: it is the column {HEADERS[name]}, if any")
    if name in _OWN_COLUMNS:
        raise _Problem(column, f"{name} has a column of its own: {_OWN_COLUMNS[name]}")
    if name in _BROKERS_OWN:
        raise _Problem(column, f"{name} is the broker's to say")
    if not can_stand_in_selectors(name):
        raise _Problem(column, f"{name!r} cannot name a property: selectors could not name it")
