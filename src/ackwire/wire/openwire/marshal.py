"""The plain codec: encodes every structure into frames, and decodes every frame, without shortcuts.

Loose and tight encoding are two pairs of reader and writer with the same methods, one method for each wire type; the
walk over a structure's fields is the same for all four. Tight encoding collects its booleans apart from the other
bytes and puts them in front. `codec_fast.py` does the few hot structures quicker, and must agree with this.

Whatever the bytes, `decode` returns a structure or raises `RemoteProtocolError`. Every length is compared with what
is left of the frame before anything is allocated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.wire.openwire import commands as _commands  # noqa: F401 - fills the registry
from ackwire.wire.openwire.cache import SEND_SLOTS_MAX, ReceiveCache, SendCache, slot_count
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.structures import (
    REGISTRY,
    VERSION_MAX,
    Field,
    StackFrame,
    Structure,
    Throwable,
    fields_of,
)
from ackwire.wire.openwire.text import check_string_length, decode_modified_utf8, encode_modified_utf8

NULL_TYPE: Final = 0
MAGIC_BYTES: Final = 8
STRING_BYTES_MAX: Final = 65_535
TIGHT_STRING_BYTES_MAX: Final = 32_766
"""Java's tight reader takes the length of a string as a signed short."""

_BYTE: Final = Struct(">b")
_SHORT: Final = Struct(">h")
_USHORT: Final = Struct(">H")
_INT: Final = Struct(">i")
_UINT: Final = Struct(">I")
_LONG: Final = Struct(">q")


@dataclass(frozen=True, slots=True)
class WireFormat:
    """What two peers agreed on. The defaults are how every connection starts."""

    version: int = VERSION_MAX
    tight: bool = False
    cache_size: int | None = None
    """Slots of the marshalling cache (0 stands for 16383); None turns the cache off."""
    stack_traces: bool = False
    size_prefix: bool = True


class Truncated(RemoteProtocolError):
    """The bytes end before the structure does; *needed* is the least length that could hold it."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"a frame of {available} bytes ends where at least {needed} are needed")
        self.needed = needed


class Codec:
    """Encodes and decodes frames in one wire format; keeps the two caches of the connection."""

    __slots__ = ("_limits", "receive_cache", "send_cache", "wire_format")

    def __init__(self, wire_format: WireFormat, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.wire_format = wire_format
        self._limits = limits
        self.receive_cache: ReceiveCache | None = None
        self.send_cache: SendCache | None = None
        if wire_format.cache_size is not None:
            slots = slot_count(wire_format.cache_size)
            self.receive_cache = ReceiveCache(slots, limits)
            self.send_cache = SendCache(min(slots, SEND_SLOTS_MAX))

    def encode(self, command: Structure | None) -> bytes:
        """The frame for *command*, size prefix included where one was negotiated."""
        body = self._encode_body(command)
        return _UINT.pack(len(body)) + body if self.wire_format.size_prefix else body

    def _encode_body(self, command: Structure | None) -> bytes:
        if command is None:
            return bytes((NULL_TYPE,))
        if self.send_cache is not None:
            self.send_cache.make_room()
        writer_class = TightWriter if self.wire_format.tight else LooseWriter
        writer = writer_class(self.wire_format, self.send_cache)
        try:
            write_structure(writer, command)
            return bytes((command.TYPE_ID,)) + writer.finish()
        except BaseException:
            if self.send_cache is not None:
                self.send_cache.roll_back()
            raise

    def decode(self, frame: bytes) -> Structure | None:
        """The structure in *frame* (without its size prefix), which it must fill exactly."""
        command, end = self.decode_first(frame)
        if end != len(frame):
            raise RemoteProtocolError(f"{type(command).__name__} ends after {end} bytes of a frame of {len(frame)}")
        return command

    def decode_first(self, data: bytes) -> tuple[Structure | None, int]:
        """The structure that *data* starts with and where it ends. Raises `Truncated` when there is no whole one."""
        if not data:
            raise Truncated(1, 0)
        if data[0] == NULL_TYPE:
            return None, 1
        reader_class = TightReader if self.wire_format.tight else LooseReader
        reader = reader_class(data, self.wire_format, self._limits, self.receive_cache)
        try:
            command = read_structure(reader, data[0])
        except BaseException:
            if self.receive_cache is not None:
                self.receive_cache.roll_back()
            raise
        if self.receive_cache is not None:
            self.receive_cache.commit()
        return command, reader.position


# ---- the walk over a structure's fields ------------------------------------------------------------------------


Getter = Callable[[object], object]
_WritePlan = tuple[tuple[Getter, Callable[[Any, Any], None]], ...]
"""For each field: how to get it, and the writer's method for it."""

_ReadPlan = tuple[tuple[object, ...], tuple[tuple[int, Callable[[Any, Field], object], Field], ...]]
"""The defaults of all fields; and for each field of the version its index, and the reader's method for it."""

_WRITE_PLANS: Final[dict[tuple[object, object, int], _WritePlan]] = {}
_READ_PLANS: Final[dict[tuple[object, object, int], _ReadPlan]] = {}


def _make_write_plan(writer: type, cls: type[Structure], version: int) -> _WritePlan:
    present = (field for field in fields_of(cls) if field.in_version(version))
    return tuple((attrgetter(f.name), getattr(writer, f"write_{f.wire_type.value}")) for f in present)


def _make_read_plan(reader: type, cls: type[Structure], version: int) -> _ReadPlan:
    declared = fields_of(cls)
    steps = (
        (index, getattr(reader, f"read_{field.wire_type.value}"), field)
        for index, field in enumerate(declared)
        if field.in_version(version)
    )
    return tuple(field.default for field in declared), tuple(steps)


def write_structure(writer: "LooseWriter", command: Structure) -> None:
    """Write the fields of *command*, without its type id."""
    version = writer.wire_format.version
    if version < command.SINCE:
        raise LocalProtocolError(f"{type(command).__name__} does not exist in OpenWire {version}")
    key = (type(writer), type(command), version)
    plan = _WRITE_PLANS.get(key)
    if plan is None:
        plan = _WRITE_PLANS[key] = _make_write_plan(*key)
    for get, write in plan:
        write(writer, get(command))


def read_structure(reader: "LooseReader", type_id: int) -> Structure:
    """Read the fields of the structure *type_id*."""
    cls = REGISTRY.get(type_id)
    if cls is None or reader.wire_format.version < cls.SINCE:
        raise RemoteProtocolError(f"type id {type_id} is unknown in OpenWire {reader.wire_format.version}")
    key = (type(reader), cls, reader.wire_format.version)
    plan = _READ_PLANS.get(key)
    if plan is None:
        plan = _READ_PLANS[key] = _make_read_plan(*key)
    defaults, steps = plan
    values = list(defaults)
    for index, read, field in steps:
        values[index] = read(reader, field)
    return cls(*values)


# ---- loose -----------------------------------------------------------------------------------------------------


class LooseWriter:
    """Every field takes whole bytes, one after another."""

    __slots__ = ("_cache", "out", "wire_format")

    def __init__(self, wire_format: WireFormat, send_cache: SendCache | None) -> None:
        self.wire_format = wire_format
        self._cache = send_cache
        self.out = bytearray()

    def finish(self) -> bytes:
        return bytes(self.out)

    def write_bool(self, value: bool) -> None:
        self.out.append(1 if value else 0)

    def write_byte(self, value: int) -> None:
        self._pack(_BYTE, value)

    def write_short(self, value: int) -> None:
        self._pack(_SHORT, value)

    def write_int(self, value: int) -> None:
        self._pack(_INT, value)

    def write_long(self, value: int) -> None:
        self._pack(_LONG, value)

    def _pack(self, layout: Struct, value: int) -> None:
        try:
            self.out += layout.pack(value)
        except Exception as error:
            raise LocalProtocolError(f"{value!r} cannot be sent as {layout.size} bytes: {error}") from None

    def write_string(self, value: str | None) -> None:
        self.write_bool(value is not None)
        if value is not None:
            data = check_string_length(encode_modified_utf8(value))
            self.out += _USHORT.pack(len(data))
            self.out += data

    def write_bytes(self, value: bytes | None) -> None:
        self.write_bool(value is not None)
        if value is not None:
            self._pack(_INT, len(value))
            self.out += value

    def write_magic(self, value: bytes) -> None:
        if len(value) != MAGIC_BYTES:
            raise LocalProtocolError(f"the magic has {MAGIC_BYTES} bytes, not {len(value)}")
        self.out += value

    def write_nested(self, value: Structure | None) -> None:
        self.write_bool(value is not None)
        if value is not None:
            self.out.append(value.TYPE_ID)
            write_structure(self, value)

    def write_cached(self, value: Structure | None) -> None:
        if self._cache is None:
            self.write_nested(value)
            return
        slot = self._cache.slot_of(value)
        self.write_bool(slot is None)
        if slot is not None:
            self.write_short(slot)
        else:
            self.write_short(self._cache.add(value))
            self.write_nested(value)

    def write_array(self, values: tuple[Structure | None, ...] | None) -> None:
        self.write_bool(values is not None)
        if values is not None:
            self.write_short(len(values))
            for value in values:
                self.write_nested(value)

    def write_throwable(self, value: Throwable | None) -> None:
        self.write_bool(value is not None)
        if value is None:
            return
        self.write_string(value.class_name)
        self.write_string(value.message)
        if self.wire_format.stack_traces:
            self.write_short(len(value.stack))
            for line in value.stack:
                self.write_string(line.class_name)
                self.write_string(line.method)
                self.write_string(line.file)
                self.write_int(line.line)
            self.write_throwable(value.cause)


class LooseReader:
    """Reads what `LooseWriter` writes; starts behind the type id."""

    __slots__ = ("_cache", "_data", "_depth", "_items_left", "_limits", "_referenced", "position", "wire_format")

    def __init__(
        self, data: bytes, wire_format: WireFormat, limits: WireLimits, receive_cache: ReceiveCache | None
    ) -> None:
        self._data = data
        self.wire_format = wire_format
        self._limits = limits
        self._cache = receive_cache
        self._depth = 0
        self._items_left = limits.array_items_max
        self._referenced = 0
        """Bytes that the cached values referred to so far once took."""
        self.position = 1

    def _take(self, count: int) -> bytes:
        start = self.position
        end = start + count
        if count < 0:
            raise RemoteProtocolError(f"a length of {count} bytes")
        if end > len(self._data):
            self._refuse_beyond_limit(end)
            raise Truncated(end, len(self._data))
        self.position = end
        return self._data[start:end]

    def _refuse_beyond_limit(self, end: int) -> None:
        """Without a size prefix, waiting for more must not mean buffering without end."""
        if end > self._limits.frame_bytes_max:
            raise RemoteProtocolError(f"a frame of at least {end} bytes: the limit is {self._limits.frame_bytes_max}")

    def _unpack(self, layout: Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > self._limits.nesting_max:
            raise RemoteProtocolError(f"structures nest deeper than {self._limits.nesting_max} levels")

    def read(self, field: Field) -> Any:
        """The value of *field*, whichever type it has."""
        return getattr(self, f"read_{field.wire_type.value}")(field)

    def read_flag(self) -> bool:
        return self._take(1) != b"\0"

    def read_bool(self, _field: Field) -> bool:
        return self.read_flag()

    def read_byte(self, _field: Field) -> int:
        return self._unpack(_BYTE)

    def read_int(self, _field: Field) -> int:
        return self._unpack(_INT)

    def read_long(self, _field: Field) -> int:
        return self._unpack(_LONG)

    def read_string(self, _field: Field) -> str | None:
        return self._string()

    def _string(self) -> str | None:
        if not self.read_flag():
            return None
        data = self._take(self._unpack(_USHORT))
        return _sendable(decode_modified_utf8(data), len(data))

    def read_bytes(self, _field: Field) -> bytes | None:
        return self._take(self._unpack(_INT)) if self.read_flag() else None

    def read_magic(self, _field: Field) -> bytes:
        return self._take(MAGIC_BYTES)

    def read_nested(self, field: Field) -> Structure | None:
        if not self.read_flag():
            return None
        type_id = self._take(1)[0]
        self._skip_marshall_aware_bit(type_id)
        self._enter()
        value = read_structure(self, type_id)
        self._depth -= 1
        return _accepted(value, field)

    def _skip_marshall_aware_bit(self, type_id: int) -> None:
        """Only tight encoding has it."""

    def read_cached(self, field: Field) -> Structure | None:
        if self._cache is None:
            return self.read_nested(field)
        is_new = self.read_flag()
        slot = self._unpack(_SHORT)
        if not is_new:
            value = _accepted(self._cache.get(slot), field)
            self._referenced += self._cache.size_of(slot)
            return value
        start = self.position + self._referenced
        value = self.read_nested(field)
        self._cache.stage(slot, value, self.position + self._referenced - start)
        return value

    def read_array(self, field: Field) -> tuple[Structure | None, ...] | None:
        if not self.read_flag():
            return None
        return tuple([self.read_nested(field) for _ in range(self._item_count())])

    def _item_count(self) -> int:
        """How many array items or stack lines follow; together, those of a frame have a limit."""
        count = self._unpack(_SHORT)
        if not 0 <= count <= self._items_left:
            raise RemoteProtocolError(
                f"an array or stack trace of {count} items: the limit is {self._limits.array_items_max} in one frame"
            )
        self._items_left -= count
        return count

    def read_throwable(self, field: Field) -> Throwable | None:
        if not self.read_flag():
            return None
        class_name = self._string()
        message = self._string()
        if not self.wire_format.stack_traces:
            return Throwable(class_name, message)
        self._enter()
        stack = tuple([self._stack_frame() for _ in range(self._item_count())])
        cause = self.read_throwable(field)
        self._depth -= 1
        return Throwable(class_name, message, stack, cause)

    def _stack_frame(self) -> StackFrame:
        return StackFrame(self._string(), self._string(), self._string(), self._unpack(_INT))


def _sendable(text: str, received_bytes: int) -> str:
    """*text*, if it can be sent on: forms that Java does not write may be shorter than Java's, by half at most."""
    if received_bytes > STRING_BYTES_MAX // 2 and len(encode_modified_utf8(text)) > STRING_BYTES_MAX:
        raise RemoteProtocolError(f"a string is, in Java's form, over the wire's limit of {STRING_BYTES_MAX} bytes")
    return text


def _accepted(value: Structure | None, field: Field) -> Structure | None:
    if value is not None and not isinstance(value, field.accepts):
        raise RemoteProtocolError(f"field {field.name} holds a {type(value).__name__}, not a {field.accepts.__name__}")
    return value


# ---- tight -----------------------------------------------------------------------------------------------------

_BITS_SHORT_FORM: Final = 64
_BITS_BYTE_FORM: Final = 256
_BYTE_FORM_MARK: Final = 0xC0
_SHORT_FORM_MARK: Final = 0x80


class TightWriter(LooseWriter):
    """Booleans and length classes become bits of one stream in front of the other bytes."""

    __slots__ = ("_bit_count", "_bits")

    def __init__(self, wire_format: WireFormat, send_cache: SendCache | None) -> None:
        super().__init__(wire_format, send_cache)
        self._bits = bytearray()
        self._bit_count = 0

    def finish(self) -> bytes:
        count = len(self._bits)
        if count < _BITS_SHORT_FORM:
            length = bytes((count,))
        elif count < _BITS_BYTE_FORM:
            length = bytes((_BYTE_FORM_MARK, count))
        elif count <= 0x7FFF:
            length = bytes((_SHORT_FORM_MARK,)) + _SHORT.pack(count)
        else:
            raise LocalProtocolError(f"a boolean stream of {count} bytes is over the wire's limit of 32767")
        return length + bytes(self._bits) + bytes(self.out)

    def write_bool(self, value: bool) -> None:
        bit = self._bit_count & 7
        if bit == 0:
            self._bits.append(0)
        if value:
            self._bits[-1] |= 1 << bit
        self._bit_count += 1

    def write_long(self, value: int) -> None:
        width = 0 if value == 0 else 1 if 0 < value <= 0xFFFF else 2 if 0 < value <= 0xFFFFFFFF else 3
        self.write_bool(width >= 2)
        self.write_bool(width in (1, 3))
        if width == 1:
            self._pack(_USHORT, value)
        elif width == 2:
            self._pack(_UINT, value)
        elif width == 3:
            self._pack(_LONG, value)

    def write_string(self, value: str | None) -> None:
        self.write_bool(value is not None)
        if value is None:
            return
        self.write_bool(value.isascii() and "\0" not in value)
        data = check_string_length(encode_modified_utf8(value), TIGHT_STRING_BYTES_MAX)
        self.out += _USHORT.pack(len(data))
        self.out += data

    def write_nested(self, value: Structure | None) -> None:
        self.write_bool(value is not None)
        if value is not None:
            if value.MARSHALL_AWARE:
                self.write_bool(False)
            self.out.append(value.TYPE_ID)
            write_structure(self, value)

    def write_cached(self, value: Structure | None) -> None:
        if self._cache is None:
            self.write_nested(value)
            return
        slot = self._cache.slot_of(value)
        self.write_bool(slot is None)
        if slot is not None:
            self.write_short(slot)
            return
        # Java gives the slot after those of the nested values, and writes it before them.
        at = len(self.out)
        self.write_nested(value)
        self.out[at:at] = _SHORT.pack(self._cache.add(value))


class TightReader(LooseReader):
    """Reads what `TightWriter` writes."""

    __slots__ = ("_bit", "_bit_end")

    def __init__(
        self, data: bytes, wire_format: WireFormat, limits: WireLimits, receive_cache: ReceiveCache | None
    ) -> None:
        super().__init__(data, wire_format, limits, receive_cache)
        length = self._take(1)[0]
        if length == _BYTE_FORM_MARK:
            length = self._take(1)[0]
        elif length == _SHORT_FORM_MARK:
            length = self._unpack(_SHORT)
        self._bit = self.position * 8
        self._take(length)
        self._bit_end = self.position * 8

    def read_flag(self) -> bool:
        bit = self._bit
        if bit >= self._bit_end:
            raise RemoteProtocolError("the boolean stream ends before the structure does")
        self._bit = bit + 1
        return bool(self._data[bit >> 3] >> (bit & 7) & 1)

    def read_long(self, _field: Field) -> int:
        high = self.read_flag()
        low = self.read_flag()
        if not high:
            return self._unpack(_USHORT) if low else 0
        return self._unpack(_LONG) if low else self._unpack(_UINT)

    def _string(self) -> str | None:
        if not self.read_flag():
            return None
        is_ascii = self.read_flag()
        data = self._take(self._unpack(_USHORT))
        text = data.decode("latin-1") if is_ascii else decode_modified_utf8(data)
        return _sendable(text, len(data))

    def _skip_marshall_aware_bit(self, type_id: int) -> None:
        cls = REGISTRY.get(type_id)
        if cls is not None and cls.MARSHALL_AWARE and self.read_flag():
            raise RemoteProtocolError("a pre-marshalled nested frame is not supported")
