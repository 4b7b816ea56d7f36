"""Typed values inside property maps, MapMessages and StreamMessages (openwire.md §7).

An entry is a type code and a payload. Strings are the trap: Java reads the values of a top-level map as plain
UTF-8 and everything else as modified UTF-8, so that is what is written here; both are read everywhere.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.text import (
    check_string_length,
    decode_modified_utf8,
    encode_modified_utf8,
    encode_plain_utf8,
)

NULL: Final = 0
BOOLEAN: Final = 1
BYTE: Final = 2
CHAR: Final = 3
SHORT: Final = 4
INTEGER: Final = 5
LONG: Final = 6
DOUBLE: Final = 7
FLOAT: Final = 8
STRING: Final = 9
BYTE_ARRAY: Final = 10
MAP: Final = 11
LIST: Final = 12
BIG_STRING: Final = 13

BIG_STRING_CHARS: Final = 8191
"""From this many UTF-16 code units on, Java writes a string with a 32-bit length."""

_BYTE: Final = Struct(">b")
_SHORT: Final = Struct(">h")
_USHORT: Final = Struct(">H")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_FLOAT: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")

_INT_RANGE: Final = range(-(2**31), 2**31)
_LONG_RANGE: Final = range(-(2**63), 2**63)
_RANGES: Final[dict[int, range]] = {
    BYTE: range(-(2**7), 2**7),
    SHORT: range(-(2**15), 2**15),
    INTEGER: _INT_RANGE,
    LONG: _LONG_RANGE,
}


# ---- writing ---------------------------------------------------------------------------------------------------


def encode_map(entries: Mapping[str, Value]) -> bytes:
    """A property map or the content of a MapMessage."""
    out = bytearray()
    _write_map(out, entries, top_level=True)
    return bytes(out)


def encode_stream(values: Sequence[Value]) -> bytes:
    """The content of a StreamMessage: values one after another, without a count."""
    out = bytearray()
    for value in values:
        if isinstance(value, Mapping) or _is_list(value):
            raise LocalProtocolError("a StreamMessage holds no maps and no lists")
        _write_value(out, value, top_level=False)
    return bytes(out)


def _write_map(out: bytearray, entries: Mapping[str, Value], *, top_level: bool) -> None:
    out += _INT.pack(len(entries))
    for key, value in entries.items():
        name = check_string_length(encode_modified_utf8(key))
        out += _USHORT.pack(len(name))
        out += name
        _write_value(out, value, top_level=top_level)


def _write_value(out: bytearray, value: Value, *, top_level: bool) -> None:
    if value is None:
        out.append(NULL)
    elif isinstance(value, bool):
        out += bytes((BOOLEAN, value))
    elif isinstance(value, int):
        _write_integer(out, value)
    elif isinstance(value, Float):
        out.append(FLOAT)
        out += _float32(value)
    elif isinstance(value, float):
        out.append(DOUBLE)
        out += _DOUBLE.pack(value)
    elif isinstance(value, Char):
        out.append(CHAR)
        out += _USHORT.pack(ord(value))
    elif isinstance(value, str):
        _write_string(out, value, top_level=top_level)
    elif isinstance(value, bytes | bytearray | memoryview):
        out.append(BYTE_ARRAY)
        out += _INT.pack(len(value))
        out += value
    elif isinstance(value, Mapping):
        out.append(MAP)
        _write_map(out, value, top_level=False)
    elif _is_list(value):
        out.append(LIST)
        out += _INT.pack(len(value))
        for item in value:
            _write_value(out, item, top_level=False)
    else:
        raise LocalProtocolError(f"{type(value).__name__} is not a JMS property type")


def _is_list(value: Value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _integer_code(value: int) -> int:
    match value:
        case Byte():
            return BYTE
        case Short():
            return SHORT
        case Int():
            return INTEGER
        case Long():
            return LONG
        case _:
            return INTEGER if value in _INT_RANGE else LONG


def _write_integer(out: bytearray, value: int) -> None:
    code = _integer_code(value)
    if int(value) not in _RANGES[code]:
        raise LocalProtocolError(f"{int(value)} does not fit into a {type(value).__name__.lower()}")
    out.append(code)
    if code == BYTE:
        out += _BYTE.pack(value)
    elif code == SHORT:
        out += _SHORT.pack(value)
    elif code == INTEGER:
        out += _INT.pack(value)
    else:
        out += _LONG.pack(value)


def _float32(value: float) -> bytes:
    try:
        return _FLOAT.pack(value)
    except OverflowError:
        raise LocalProtocolError(f"{value} does not fit into a float") from None


def _write_string(out: bytearray, text: str, *, top_level: bool) -> None:
    data = encode_plain_utf8(text) if top_level else encode_modified_utf8(text)
    code_units = len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2
    if code_units >= BIG_STRING_CHARS:
        out.append(BIG_STRING)
        out += _INT.pack(len(data))
    else:
        out.append(STRING)
        out += _USHORT.pack(len(data))
    out += data


# ---- reading ---------------------------------------------------------------------------------------------------


def decode_map(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> dict[str, Value]:
    """The entries of a property map, in wire order. Raises `RemoteProtocolError` for anything else."""
    reader = _Reader(data, limits)
    entries = reader.map(0)
    reader.expect_end()
    return entries or {}


def decode_stream(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> list[Value]:
    """The values of a StreamMessage's content."""
    reader = _Reader(data, limits)
    values: list[Value] = []
    while not reader.at_end:
        reader.count_entries(1)
        values.append(reader.value(limits.nesting_max))
    return values


class _Reader:
    """Walks over one encoded map or stream; each length is checked before it is used."""

    __slots__ = ("_data", "_entries_left", "_limits", "_position")

    def __init__(self, data: bytes, limits: WireLimits) -> None:
        self._data = data
        self._limits = limits
        self._entries_left = limits.entries_max
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._data)

    def expect_end(self) -> None:
        if not self.at_end:
            raise RemoteProtocolError(f"{len(self._data) - self._position} bytes follow the end of a map")

    def _take(self, count: int) -> bytes:
        start = self._position
        if count < 0 or count > len(self._data) - start:
            raise RemoteProtocolError(
                f"a value of {count} bytes does not fit into the {len(self._data) - start} bytes left"
            )
        self._position = start + count
        return self._data[start : start + count]

    def _integer(self, layout: Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _real(self, layout: Struct) -> float:
        number: float = layout.unpack(self._take(layout.size))[0]
        return number

    def map(self, depth: int) -> dict[str, Value] | None:
        count = self._count("map", smallest_entry_bytes=3)
        if count is None:
            return None
        entries: dict[str, Value] = {}
        for _ in range(count):
            key = decode_modified_utf8(self._take(self._integer(_USHORT)))
            entries[key] = self.value(depth + 1)
        return entries

    def _list(self, depth: int) -> list[Value] | None:
        count = self._count("list", smallest_entry_bytes=1)
        return None if count is None else [self.value(depth + 1) for _ in range(count)]

    def _count(self, what: str, *, smallest_entry_bytes: int) -> int | None:
        count = self._integer(_INT)
        if count == -1:
            return None
        left = len(self._data) - self._position
        if count < 0 or count * smallest_entry_bytes > left:
            raise RemoteProtocolError(f"a {what} of {count} entries does not fit into the {left} bytes left")
        self.count_entries(count)
        return count

    def count_entries(self, count: int) -> None:
        self._entries_left -= count
        if self._entries_left < 0:
            raise RemoteProtocolError(f"a map or stream holds more than {self._limits.entries_max} entries")

    def value(self, depth: int) -> Value:
        code = self._take(1)[0]
        match code:
            case 0:
                return None
            case 1:
                return self._take(1) != b"\0"
            case 2:
                return Byte(self._integer(_BYTE))
            case 3:
                return Char(chr(self._integer(_USHORT)))
            case 4:
                return Short(self._integer(_SHORT))
            case 5:
                return Int(self._integer(_INT))
            case 6:
                return Long(self._integer(_LONG))
            case 7:
                return self._real(_DOUBLE)
            case 8:
                return Float(self._real(_FLOAT))
            case 9:
                return decode_modified_utf8(self._take(self._integer(_USHORT)))
            case 10:
                return self._take(self._integer(_INT))
            case 13:
                return decode_modified_utf8(self._take(self._integer(_INT)))
            case 11 | 12:
                return self._nested(code, depth)
            case _:
                raise RemoteProtocolError(f"type code {code} of a map or stream value is unknown")

    def _nested(self, code: int, depth: int) -> Value:
        if depth >= self._limits.nesting_max:
            raise RemoteProtocolError(f"maps and lists nest deeper than {self._limits.nesting_max} levels")
        return self.map(depth) if code == MAP else self._list(depth)
