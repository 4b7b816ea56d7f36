"""The kinds of messages (A4): text, bytes, map, stream and object; a plain `Message` has no body.

TextMessage, MapMessage and ObjectMessage can be written and read at any time, unless received: then they are read-only
until `clear_body`. BytesMessage and StreamMessage are written first and read after `reset`, which received ones are
already: as in JMS, the other of the two raises `MessageNotReadableError` or `MessageNotWriteableError`.
"""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final, TypeVar

from ackwire.client import conversions
from ackwire.client.entries import MapEntries
from ackwire.client.errors import (
    IllegalArgumentError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
)
from ackwire.client.message import Message, Received
from ackwire.client.message_headers import DeliveryMode
from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.types import Value
from ackwire.wire.openwire import bodies, commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.text import check_string_length, decode_modified_utf8, encode_modified_utf8

__all__ = [
    "BytesMessage",
    "DeliveryMode",
    "MapMessage",
    "Message",
    "ObjectMessage",
    "StreamMessage",
    "TextMessage",
    "message_from",
    "message_from_command",
    "message_from_dispatch",
]

BytesLike = bytes | bytearray | memoryview

_T = TypeVar("_T")

_BOOLEAN: Final = Struct(">?")
_BYTE: Final = Struct(">b")
_UNSIGNED_BYTE: Final = Struct(">B")
_SHORT: Final = Struct(">h")
_UNSIGNED_SHORT: Final = Struct(">H")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_FLOAT: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")

_READ_ONLY: Final = "the body is read-only until it is cleared"
_WRITE_ONLY: Final = "the body is being written; reset makes it readable"
_END: Final = "the end of the body is reached"


class TextMessage(Message):
    """A message whose body is text, or None."""

    COMMAND = commands.ActiveMQTextMessage

    def __init__(self, text: str | None = None) -> None:
        self._text = text if type(text) is str else conversions.string_of(text)

    @property
    def body(self) -> str | None:
        return self.text

    @property
    def text(self) -> str | None:
        """The body."""
        if not self._body_is_decoded:
            self._look()
        return self._text

    @text.setter
    def text(self, value: str | None) -> None:
        if self.body_is_read_only:
            raise MessageNotWriteableError(_READ_ONLY)
        self._text = conversions.string_of(value)

    def _empty_body(self) -> None:
        self._text = None

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        self._text = bodies.decode_text(content, compressed=compressed, limits=limits)

    def _encode_body(self, compressed: bool) -> bytes | None:
        return bodies.encode_text(self._text, compressed=compressed)


class ObjectMessage(Message):
    """A message whose body is an object that another program serialised: here it is bytes and stays bytes."""

    COMMAND = commands.ActiveMQObjectMessage

    def __init__(self, data: BytesLike | None = None) -> None:
        super().__init__()
        self._data = conversions.bytes_of(data)

    @property
    def body(self) -> bytes | None:
        return self.data

    @property
    def data(self) -> bytes | None:
        """The serialised object. Nothing here makes an object of it, and nothing should that does not trust it."""
        self._look()
        return self._data

    @data.setter
    def data(self, value: BytesLike | None) -> None:
        if self.body_is_read_only:
            raise MessageNotWriteableError(_READ_ONLY)
        self._data = conversions.bytes_of(value)

    def _empty_body(self) -> None:
        self._data = None

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        self._data = bodies.decode_object_body(content, compressed=compressed, limits=limits)

    def _encode_body(self, compressed: bool) -> bytes | None:
        return bodies.encode_object_body(self._data, compressed=compressed)


class MapMessage(Message):
    """A message whose body is named values with types: the mapping `entries`."""

    COMMAND = commands.ActiveMQMapMessage

    def __init__(self, entries: Mapping[str, Value] | None = None) -> None:
        super().__init__()
        self._entries = MapEntries()
        self._entries.update(entries or {})

    @property
    def body(self) -> dict[str, Value]:
        return dict(self.entries)

    @property
    def entries(self) -> MapEntries:
        """The body, a mapping."""
        return self._entries

    def _receive(self, received: Received) -> None:
        super()._receive(received)
        self.entries.receive(self._decoded_entries)

    def _decoded_entries(self) -> dict[str, Value]:
        self._look()
        return self._decoded

    def _empty_body(self) -> None:
        self.entries.renew()

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        self._decoded = bodies.decode_map_body(content, compressed=compressed, limits=limits)

    def _encode_body(self, compressed: bool) -> bytes | None:
        return bodies.encode_map_body(self.entries.own(), compressed=compressed)


class _WrittenThenRead(Message):
    """What bytes and streams share: a body that is written from the start, or read from the start, never both."""

    def __init__(self) -> None:
        super().__init__()
        self._is_readable = False
        self._position = 0

    @property
    def body_is_read_only(self) -> bool:
        return self._body_is_received or self._is_readable

    def reset(self) -> None:
        """Make the body readable, from its beginning; from now on it is read-only."""
        self._is_readable = True
        self._position = 0

    def _empty_body(self) -> None:
        self._is_readable = False
        self._position = 0

    def _start_reading(self) -> None:
        if not self.body_is_read_only:
            raise MessageNotReadableError(_WRITE_ONLY)
        self._look()

    def _start_writing(self) -> None:
        if self.body_is_read_only:
            raise MessageNotWriteableError(_READ_ONLY)


class StreamMessage(_WrittenThenRead):
    """A message whose body is values with types, one after another; read in the order in which they were written.

    A value that cannot be read as what was asked for is still the next one.
    """

    COMMAND = commands.ActiveMQStreamMessage

    def __init__(self, values: Iterable[Value] = ()) -> None:
        super().__init__()
        self._values: list[Value] = []
        for value in values:
            self.write_object(value)

    @property
    def body(self) -> list[Value]:
        self._look()
        return list(self._values)

    @property
    def values(self) -> list[Value]:
        """All values with their own types, wherever reading stands."""
        self._start_reading()
        return list(self._values)

    def _empty_body(self) -> None:
        super()._empty_body()
        self._values = []

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        self._values = bodies.decode_stream_body(content, compressed=compressed, limits=limits)

    def _encode_body(self, compressed: bool) -> bytes | None:
        return bodies.encode_stream_body(self._values, compressed=compressed)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read(self, convert: Callable[[Value], _T]) -> _T:
        self._start_reading()
        if self._position >= len(self._values):
            raise MessageEOFError(_END)
        value = convert(self._values[self._position])
        self._position += 1
        return value

    def read_boolean(self) -> bool:
        return self._read(conversions.as_boolean)

    def read_byte(self) -> int:
        return self._read(conversions.as_byte)

    def read_short(self) -> int:
        return self._read(conversions.as_short)

    def read_char(self) -> str:
        return self._read(conversions.as_char)

    def read_int(self) -> int:
        return self._read(conversions.as_int)

    def read_long(self) -> int:
        return self._read(conversions.as_long)

    def read_float(self) -> float:
        return self._read(conversions.as_float)

    def read_double(self) -> float:
        return self._read(conversions.as_double)

    def read_string(self) -> str | None:
        return self._read(conversions.as_string)

    def read_bytes(self) -> bytes | None:
        """The next value, which must be bytes, in one piece."""
        return self._read(conversions.as_bytes)

    def read_object(self) -> Value:
        """The next value with its own type."""
        return self._read(lambda value: value)

    # ---- writing -----------------------------------------------------------------------------------------------

    def write_boolean(self, value: bool) -> None:
        self.write_object(conversions.boolean_of(value))

    def write_byte(self, value: int) -> None:
        self.write_object(conversions.integer_of(value, "byte"))

    def write_short(self, value: int) -> None:
        self.write_object(conversions.integer_of(value, "short"))

    def write_char(self, value: str) -> None:
        self.write_object(conversions.char_of(value))

    def write_int(self, value: int) -> None:
        self.write_object(conversions.integer_of(value, "int"))

    def write_long(self, value: int) -> None:
        self.write_object(conversions.integer_of(value, "long"))

    def write_float(self, value: float) -> None:
        self.write_object(conversions.float_of(value))

    def write_double(self, value: float) -> None:
        self.write_object(conversions.double_of(value))

    def write_string(self, value: str | None) -> None:
        self.write_object(conversions.string_of(value))

    def write_bytes(self, value: BytesLike | None) -> None:
        self.write_object(conversions.bytes_of(value))

    def write_object(self, value: Value) -> None:
        """Write *value* with its own type; maps and lists are none that a stream can hold."""
        self._start_writing()
        if conversions.type_of(value) in ("map", "list"):
            raise MessageFormatError("a StreamMessage holds no maps and no lists")
        self._values.append(conversions.typed(value))


class BytesMessage(_WrittenThenRead):
    """A message whose body is bytes, written and read like a file, or as Java's DataOutput and DataInput do."""

    COMMAND = commands.ActiveMQBytesMessage

    def __init__(self, data: BytesLike = b"") -> None:
        super().__init__()
        self._data: bytes | bytearray = bytearray(_bytes_and_not_null(data))

    @property
    def body(self) -> bytes:
        self._look()
        return bytes(self._data)

    @property
    def data(self) -> bytes:
        """The whole body, wherever reading stands."""
        self._start_reading()
        return bytes(self._data)

    @property
    def body_length(self) -> int:
        """How many bytes the body has."""
        self._start_reading()
        return len(self._data)

    def _empty_body(self) -> None:
        super()._empty_body()
        self._data = bytearray()

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        self._data = bodies.decode_bytes(content, compressed=compressed, limits=limits)

    def _encode_body(self, compressed: bool) -> bytes | None:
        return bodies.encode_bytes(bytes(self._data), compressed=compressed)

    # ---- reading -----------------------------------------------------------------------------------------------

    def read_bytes(self, count: int = -1) -> bytes:
        """The next *count* bytes or what is left of them, all that is left if negative; empty at the end."""
        self._start_reading()
        end = len(self._data) if count < 0 else min(len(self._data), self._position + count)
        data = bytes(self._data[self._position : end])
        self._position = end
        return data

    def _peek(self, offset: int, count: int) -> bytes:
        self._start_reading()
        start = self._position + offset
        if count > len(self._data) - start:
            raise MessageEOFError(_END)
        return bytes(self._data[start : start + count])

    def _read_integer(self, layout: Struct) -> int:
        value: int = layout.unpack(self._peek(0, layout.size))[0]
        self._position += layout.size
        return value

    def _read_real(self, layout: Struct) -> float:
        value: float = layout.unpack(self._peek(0, layout.size))[0]
        self._position += layout.size
        return value

    def read_boolean(self) -> bool:
        return self._read_integer(_UNSIGNED_BYTE) != 0

    def read_byte(self) -> int:
        return self._read_integer(_BYTE)

    def read_unsigned_byte(self) -> int:
        return self._read_integer(_UNSIGNED_BYTE)

    def read_short(self) -> int:
        return self._read_integer(_SHORT)

    def read_unsigned_short(self) -> int:
        return self._read_integer(_UNSIGNED_SHORT)

    def read_char(self) -> str:
        return chr(self._read_integer(_UNSIGNED_SHORT))

    def read_int(self) -> int:
        return self._read_integer(_INT)

    def read_long(self) -> int:
        return self._read_integer(_LONG)

    def read_float(self) -> float:
        return self._read_real(_FLOAT)

    def read_double(self) -> float:
        return self._read_real(_DOUBLE)

    def read_utf(self) -> str:
        """Text that Java's writeUTF wrote: a length of two bytes, and modified UTF-8."""
        count: int = _UNSIGNED_SHORT.unpack(self._peek(0, _UNSIGNED_SHORT.size))[0]
        try:
            text = decode_modified_utf8(self._peek(_UNSIGNED_SHORT.size, count))
        except RemoteProtocolError as error:
            raise MessageFormatError(str(error)) from error
        self._position += _UNSIGNED_SHORT.size + count
        return text

    # ---- writing -----------------------------------------------------------------------------------------------

    def write_bytes(self, data: BytesLike) -> None:
        self._start_writing()
        self._data += _bytes_and_not_null(data)

    def write_boolean(self, value: bool) -> None:
        self.write_bytes(_BOOLEAN.pack(conversions.boolean_of(value)))

    def write_byte(self, value: int) -> None:
        self.write_bytes(_BYTE.pack(conversions.integer_of(value, "byte")))

    def write_short(self, value: int) -> None:
        self.write_bytes(_SHORT.pack(conversions.integer_of(value, "short")))

    def write_char(self, value: str) -> None:
        self.write_bytes(_UNSIGNED_SHORT.pack(ord(conversions.char_of(value))))

    def write_int(self, value: int) -> None:
        self.write_bytes(_INT.pack(conversions.integer_of(value, "int")))

    def write_long(self, value: int) -> None:
        self.write_bytes(_LONG.pack(conversions.integer_of(value, "long")))

    def write_float(self, value: float) -> None:
        self.write_bytes(_FLOAT.pack(conversions.float_of(value)))

    def write_double(self, value: float) -> None:
        self.write_bytes(_DOUBLE.pack(conversions.double_of(value)))

    def write_utf(self, value: str) -> None:
        """Text as Java's writeUTF writes it; at most 65535 bytes of modified UTF-8."""
        if not isinstance(value, str):
            raise MessageFormatError(f"{type(value).__name__} cannot be written as String")
        try:
            data = check_string_length(encode_modified_utf8(value))
        except LocalProtocolError as error:
            raise MessageFormatError(str(error)) from error
        self.write_bytes(_UNSIGNED_SHORT.pack(len(data)) + data)

    def write_object(self, value: Value) -> None:
        """Write *value* as the `write_…` of its type does; there are none for null, maps and lists."""
        write = _WRITERS.get(conversions.type_of(value))
        if value is None:
            raise IllegalArgumentError("a BytesMessage cannot hold null")
        if write is None:
            raise MessageFormatError(f"{type(value).__name__} cannot be written to a BytesMessage")
        write(self, value)


def _bytes_and_not_null(data: object) -> bytes:
    checked = conversions.bytes_of(data)
    if checked is None:
        raise IllegalArgumentError("a BytesMessage cannot hold null")
    return checked


_WRITERS: Final[dict[str, Callable[[BytesMessage, Any], None]]] = {
    "boolean": BytesMessage.write_boolean,
    "byte": BytesMessage.write_byte,
    "short": BytesMessage.write_short,
    "char": BytesMessage.write_char,
    "int": BytesMessage.write_int,
    "long": BytesMessage.write_long,
    "float": BytesMessage.write_float,
    "double": BytesMessage.write_double,
    "String": BytesMessage.write_utf,
    "byte[]": BytesMessage.write_bytes,
}


# ---- from the wire ---------------------------------------------------------------------------------------------

_KINDS: Final[dict[type[commands.Message], type[Message]]] = {
    kind.COMMAND: kind for kind in (Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage)
}

_KINDS_BY_TYPE_ID: Final = {command.TYPE_ID: kind for command, kind in _KINDS.items()}


def message_from(
    dispatch: Dispatch,
    acknowledger: Callable[[Message], object] | None = None,
    limits: WireLimits = DEFAULT_LIMITS,
) -> Message:
    """The received message in *dispatch*; a kind that is unknown here (a BlobMessage) is a plain `Message`.

    `Message.acknowledge` will call *acknowledger* with the message. Nothing is decoded yet: what the bytes are not,
    shows when body or properties are looked at.
    """
    return _KINDS_BY_TYPE_ID.get(dispatch.type_id, Message).from_dispatch(dispatch, acknowledger, limits)


def message_from_command(command: commands.Message, limits: WireLimits = DEFAULT_LIMITS) -> Message:
    """As `message_from`, from a structure."""
    return _KINDS.get(type(command), Message).from_command(command, limits)


def message_from_dispatch(dispatch: commands.MessageDispatch, limits: WireLimits = DEFAULT_LIMITS) -> Message | None:
    """The message in *dispatch*, None where it carries none; the count of deliveries is the dispatch's own."""
    if dispatch.message is None:
        return None
    dispatch.message.redelivery_counter = dispatch.redelivery_counter
    return message_from_command(dispatch.message, limits)
