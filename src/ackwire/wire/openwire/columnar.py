"""Decodes many canonical frames at once into columns, for callers that make tables and not objects.

How it works. As in `client_decode.py`, the front of a frame repeats: it is decoded once, and recognised by a
comparison. The fields behind it have fixed places as long as the optional ones are absent; the common optional ones are
walked over; anything else goes through the plain codec, which decides. Text stays bytes: a caller that makes a
table checks a whole column at once, and calls `decode_texts` if it is not plain UTF-8.

Nothing here raises because of what a frame holds. A body that cannot be decoded, or a frame that is none, becomes a row
of the kind `UNDECODABLE` whose bytes are the whole frame. Text that only Java can hold (half of a surrogate pair) gets
U+FFFD in its place, because tables take valid UTF-8 only.
"""

import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping
from struct import error as StructError
from types import NoneType
from typing import Any, Final, final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire import bodies, commands, primitives
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.layout import (
    BEHIND_CORRELATION,
    BEHIND_CORRELATION_BYTES,
    BYTES_AT,
    DOUBLE,
    FIELDS_AT,
    HEADERS_AND_CONTENT_BYTES,
    HEADERS_AND_TEXT,
    INT,
    INT_BYTES,
    LONG,
    LONG_BYTES,
    TAIL_BEHIND_USER,
    TAIL_BEHIND_USER_BYTES,
    TAIL_BYTES,
    TAIL_FLAGS,
    TAIL_UNTIL_USER,
    TAIL_UNTIL_USER_BYTES,
    TEXT_LENGTH_BYTES,
    UNTIL_GROUP_BYTES,
    UNTIL_GROUP_FROM_PRODUCER,
    USUAL_TYPES,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.text import decode_modified_utf8
from ackwire.wire.openwire.walking import Unusual, bytes_at, destination_at, front_span, text_at

UNDECODABLE: Final = "undecodable"

_FRONT_BYTES_MAX: Final = 2048
_FRONTS_MAX: Final = 256
_NAMES_MAX: Final = 1024
"""Remembered by one decoder: at most these many fronts of this size, and these many names of properties."""

_TEXT: Final = commands.ActiveMQTextMessage.TYPE_ID
_KINDS: Final = {
    commands.ActiveMQMessage.TYPE_ID: "none",
    commands.ActiveMQBytesMessage.TYPE_ID: "bytes",
    commands.ActiveMQMapMessage.TYPE_ID: "map",
    commands.ActiveMQObjectMessage.TYPE_ID: "object",
    commands.ActiveMQStreamMessage.TYPE_ID: "stream",
    commands.ActiveMQTextMessage.TYPE_ID: "text",
    commands.ActiveMQBlobMessage.TYPE_ID: "blob",
}
_PREFIXES: Final[dict[type[commands.ActiveMQDestination], str]] = {
    commands.ActiveMQQueue: "queue://",
    commands.ActiveMQTopic: "topic://",
    commands.ActiveMQTempQueue: "temp-queue://",
    commands.ActiveMQTempTopic: "temp-topic://",
}

_BOOLEAN: Final = primitives.BOOLEAN
_INTEGER: Final = primitives.INTEGER
_LONG_INTEGER: Final = primitives.LONG
_STRING: Final = primitives.STRING
_QUICK_TYPES: Final = {
    _BOOLEAN: "boolean",
    _INTEGER: "int",
    _LONG_INTEGER: "long",
    primitives.DOUBLE: "double",
    _STRING: "string",
}
"""What `_quick_value` reads."""

_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, which every reader of tables knows."""
_PRIORITY_MAX: Final = 9
_SURROGATES: Final = re.compile(f"[{chr(0xD800)}-{chr(0xDFFF)}]")


@final
class _Source:
    """What the front of a message says."""

    __slots__ = ("destination", "id_text", "original_destination")

    def __init__(self, command: commands.Message) -> None:
        message_id = command.message_id
        self.id_text = "" if message_id is None else valid_text(f"{message_id.producer_id}:")
        """The message id up to its count."""
        self.destination = _destination_text(command.destination)
        self.original_destination = _destination_text(command.original_destination)


@final
class _MapShape:
    """What maps with the same names and types have in common."""

    __slots__ = ("heads", "names", "types")

    def __init__(self, heads: list[tuple[bytes, int]], names: list[str], types: list[str]) -> None:
        self.heads = heads
        """Of each entry: the bytes up to its value, and the code of its type, which is the last of them."""
        self.names = names
        self.types = types


@final
class MapColumn:
    """A column of maps, laid out flat: all names and values one after another, and where each row begins."""

    __slots__ = ("_decoder", "names", "starts", "types", "values")

    def __init__(self, decoder: "RowDecoder") -> None:
        self._decoder = decoder
        self.names: list[str] = []
        self.values: list[str | None] = []
        self.types: list[str] = []
        self.starts: list[int | None] = []
        """Per row; None for a row without a map."""

    def add(self, data: bytes) -> None:
        """One more row: the map in *data*. Raises `RemoteProtocolError`, and adds nothing, if that is none."""
        start = len(self.names)
        if not self._add_like_the_last(data) and not self._add_quickly(data):
            self._add_by_plain_codec(data)
        self.starts.append(start)

    def add_empty(self) -> None:
        self.starts.append(len(self.names))

    def add_none(self) -> None:
        self.starts.append(None)

    def _add_like_the_last(self, data: bytes) -> bool:
        """Add a map with the names and types of one before it; False if it has others, and then it is not added."""
        shape = self._decoder.shape
        if shape is None:
            return False
        values = self.values
        start = len(values)
        at = INT_BYTES
        try:
            if INT.unpack_from(data)[0] != len(shape.heads):
                return False
            for head, code in shape.heads:
                if not data.startswith(head, at):
                    at = -1
                    break
                at += len(head)
                if code == _STRING:  # the most common: no call
                    end = at + 2 + (data[at] << 8 | data[at + 1])
                    values.append(data[at + 2 : end].decode())
                    at = end
                else:
                    value, at = _quick_value(data, code, at)
                    values.append(value)
        except (IndexError, StructError, UnicodeDecodeError):
            at = -1
        # Lengths are not checked one by one: a wrong one leads anywhere but exactly to the end.
        if at != len(data):
            del values[start:]
            return False
        self.names += shape.names
        self.types += shape.types
        return True

    def _add_quickly(self, data: bytes) -> bool:
        """Add a map of common types and valid UTF-8, and remember its shape; False for others."""
        heads: list[tuple[bytes, int]] = []
        names: list[str] = []
        values: list[str] = []
        known = self._decoder.names
        at = INT_BYTES
        try:
            count = INT.unpack_from(data)[0]
            if not 0 <= count <= self._decoder.limits.entries_max:
                return False
            for _ in range(count):
                name_at = at + 2
                code_at = name_at + (data[at] << 8 | data[at + 1])
                encoded = data[name_at:code_at]
                names.append(known.get(encoded) or self._learn(encoded))
                code = data[code_at]
                if code not in _QUICK_TYPES:
                    return False
                heads.append((data[at : code_at + 1], code))
                value, at = _quick_value(data, code, code_at + 1)
                values.append(value)
        except (IndexError, StructError, UnicodeDecodeError):
            return False
        if at != len(data) or len(set(names)) < count:
            return False
        types = [_QUICK_TYPES[code] for _, code in heads]
        self.names += names
        self.values += values
        self.types += types
        if len(data) <= _FRONT_BYTES_MAX:
            self._decoder.shape = _MapShape(heads, names, types)
        return True

    def _learn(self, encoded: bytes) -> str:
        name = encoded.decode()
        known = self._decoder.names
        if len(known) >= _NAMES_MAX:
            known.clear()
        if len(encoded) <= _FRONT_BYTES_MAX:
            known[encoded] = name
        return name

    def _add_by_plain_codec(self, data: bytes) -> None:
        # Names that were different may be the same with U+FFFD in them, and no map may have a name twice.
        entries = {valid_text(name): value for name, value in primitives.decode_map(data, self._decoder.limits).items()}
        texts = [typed_text(value) for value in entries.values()]
        self.names.extend(entries)
        self.types.extend(type_name for type_name, _ in texts)
        self.values.extend(text for _, text in texts)


@final
class RowColumns:
    """What frames say, column by column; add frames, and take the lists.

    All lists have an entry per frame. Times are microseconds since 1970, None for 0 and for what no calendar has.
    """

    __slots__ = (
        "_decoder",
        "bodies",
        "destinations",
        "expirations",
        "frames",
        "in_times",
        "kinds",
        "maps",
        "message_ids",
        "persistent",
        "priorities",
        "properties",
        "rare",
        "size_bytes",
        "texts",
        "timestamps",
    )

    def __init__(self, decoder: "RowDecoder") -> None:
        self._decoder = decoder
        self.frames: list[bytes] = []
        self.message_ids: list[str | None] = []
        self.destinations: list[str | None] = []
        self.timestamps: list[int | None] = []
        self.in_times: list[int | None] = []
        self.expirations: list[int | None] = []
        self.persistent: list[bool | None] = []
        self.priorities: list[int | None] = []
        self.kinds: list[str] = []
        self.texts: list[bytes | str | None] = []
        """Bytes that are most probably UTF-8; `decode_texts` makes sure of it."""
        self.bodies: list[bytes | None] = []
        self.maps = MapColumn(decoder)
        self.properties = MapColumn(decoder)
        self.rare: dict[str, dict[int, str | int]] = {}
        """Headers that most messages do without: by column and row."""
        self.size_bytes = 0
        """About what the rows take."""

    def __len__(self) -> int:
        return len(self.frames)

    # ---- frames ------------------------------------------------------------------------------------------------

    def add(self, frame: bytes) -> None:
        """One more row: the message in *frame*."""
        decoder = self._decoder
        source = decoder.source
        try:
            if source is None or not frame.startswith(decoder.front, FIELDS_AT):
                source = decoder.find_source(frame)
            type_id = frame[0]
            if source is None or type_id not in USUAL_TYPES:
                return self._add_by_plain_codec(frame)
            at = FIELDS_AT + len(decoder.front)
            (
                count,
                original_transaction,
                group,
                group_sequence,
                correlation,
                persistent,
                expiration,
                priority,
                reply_to,
                timestamp,
                type_,
                content,
                length,
                text_length,
            ) = HEADERS_AND_TEXT.unpack_from(frame, at)
            if original_transaction or group or group_sequence or correlation or reply_to or type_ or not content:
                return self._add_with_options(frame, source, at)
            content_at = at + HEADERS_AND_CONTENT_BYTES
            content_end = content_at + length
            properties = None
            end_at = content_end + 1
            if frame[content_end]:
                properties_at = content_end + BYTES_AT
                end_at = properties_at + int.from_bytes(frame[content_end + 1 : properties_at])
                properties = frame[properties_at:end_at]
            if len(frame) - end_at != TAIL_BYTES:
                return self._add_with_options(frame, source, at)
            data, target, compressed, path, user, cluster, in_time = TAIL_FLAGS.unpack_from(frame, end_at)
        except (StructError, IndexError):
            return self._add_by_plain_codec(frame)
        if data or target or path or user or cluster:
            return self._add_by_plain_codec(frame)
        self._add_headers(frame, source, count, timestamp, in_time, expiration, persistent, priority)
        if type_id == _TEXT and not compressed and text_length == length - TEXT_LENGTH_BYTES >= 0:
            self.kinds.append("text")
            self.texts.append(frame[content_at + TEXT_LENGTH_BYTES : content_end])
            self.bodies.append(None)
            self.maps.starts.append(None)
        else:
            self._add_body(frame, type_id, frame[content_at:content_end], compressed != 0)
        if properties is None:
            self.properties.add_empty()
        else:
            self._add_properties(properties)
        return None

    def _add_with_options(self, frame: bytes, source: _Source, at: int) -> None:
        """Group, correlation id, reply-to, type and user are common too, and so is no body: walk over them."""
        try:
            count, original_transaction = UNTIL_GROUP_FROM_PRODUCER.unpack_from(frame, at)
            at += UNTIL_GROUP_BYTES
            group_id, at = text_at(frame, at) if frame[at] else (None, at + 1)
            group_sequence = INT.unpack_from(frame, at)[0]
            at += INT_BYTES
            correlation_id, at = text_at(frame, at) if frame[at] else (None, at + 1)
            persistent, expiration, priority = BEHIND_CORRELATION.unpack_from(frame, at)
            at += BEHIND_CORRELATION_BYTES
            reply_to, at = destination_at(frame, at) if frame[at] else (None, at + 1)
            timestamp = LONG.unpack_from(frame, at)[0]
            at += LONG_BYTES
            type_, at = text_at(frame, at) if frame[at] else (None, at + 1)
            content, at = bytes_at(frame, at) if frame[at] else (None, at + 1)
            properties, at = bytes_at(frame, at) if frame[at] else (None, at + 1)
            data, target, compressed, path = TAIL_UNTIL_USER.unpack_from(frame, at)
            at += TAIL_UNTIL_USER_BYTES
            user_id, at = text_at(frame, at) if frame[at] else (None, at + 1)
            cluster, in_time = TAIL_BEHIND_USER.unpack_from(frame, at)
        except (Unusual, RemoteProtocolError, StructError, IndexError):
            return self._add_by_plain_codec(frame)
        if original_transaction or data or target or path or cluster or at + TAIL_BEHIND_USER_BYTES != len(frame):
            return self._add_by_plain_codec(frame)
        self._add_options(correlation_id, reply_to, type_, user_id, group_id, group_sequence)
        self._add_headers(frame, source, count, timestamp, in_time, expiration, persistent, priority)
        self._add_body(frame, frame[0], content, compressed != 0)
        self._add_properties(properties)
        return None

    def _add_by_plain_codec(self, frame: bytes) -> None:
        command = self._decoder.command(frame)
        if command is None:
            return self._add_undecodable(frame)
        source = _Source(command)
        self._add_options(
            command.correlation_id,
            command.reply_to,
            command.type,
            command.user_id,
            command.group_id,
            command.group_sequence,
        )
        self._add_headers(
            frame,
            source,
            0 if command.message_id is None else command.message_id.producer_sequence_id,
            command.timestamp,
            command.broker_in_time,
            command.expiration,
            command.persistent,
            command.priority,
        )
        self.message_ids[-1] = None if command.message_id is None else valid_text(str(command.message_id))
        self._add_body(frame, command.TYPE_ID, command.content, command.compressed)
        if isinstance(command, commands.ActiveMQBlobMessage):
            self.texts[-1] = None if command.remote_blob_url is None else valid_text(command.remote_blob_url)
        self._add_properties(command.marshalled_properties)
        return None

    def _add_undecodable(self, frame: bytes) -> None:
        """A row of which at most the message id is known."""
        self.frames.append(frame)
        self.message_ids.append(self._decoder.id_of_broken(frame))
        for column in (self.destinations, self.timestamps, self.in_times, self.expirations, self.persistent):
            column.append(None)
        self.priorities.append(None)
        self.texts.append(None)
        self.kinds.append(UNDECODABLE)
        self.bodies.append(frame)
        self.maps.add_none()
        self.properties.add_none()
        self.size_bytes += len(frame)

    # ---- parts of a message ------------------------------------------------------------------------------------

    def _add_headers(
        self,
        frame: bytes,
        source: _Source,
        count: int,
        timestamp: int,
        in_time: int,
        expiration: int,
        persistent: int,
        priority: int,
    ) -> None:
        self.size_bytes += len(frame)
        if source.original_destination is not None:
            self._add_rare("original_destination", source.original_destination)
        self.frames.append(frame)
        self.message_ids.append(f"{source.id_text}{count}")
        self.destinations.append(source.destination)
        self.timestamps.append(timestamp * 1000 if 0 < timestamp <= _LATEST_MS else _odd_time(timestamp))
        self.in_times.append(in_time * 1000 if 0 < in_time <= _LATEST_MS else _odd_time(in_time))
        self.expirations.append(_odd_time(expiration) if expiration else None)
        self.persistent.append(persistent != 0)
        # As ActiveMQ reads it.
        self.priorities.append(priority if 0 <= priority <= _PRIORITY_MAX else min(max(priority, 0), _PRIORITY_MAX))

    def _add_options(
        self,
        correlation_id: str | None,
        reply_to: commands.ActiveMQDestination | None,
        type_: str | None,
        user_id: str | None,
        group_id: str | None,
        group_sequence: int,
    ) -> None:
        if correlation_id is not None:
            self._add_rare("correlation_id", valid_text(correlation_id))
        reply_text = _destination_text(reply_to)
        if reply_text is not None:
            self._add_rare("reply_to", reply_text)
        if type_ is not None:
            self._add_rare("type", valid_text(type_))
        if user_id is not None:
            self._add_rare("user_id", valid_text(user_id))
        if group_id is not None:  # a sequence without its group says nothing
            self._add_rare("group_id", valid_text(group_id))
            self._add_rare("group_sequence", group_sequence)

    def _add_rare(self, column: str, value: str | int) -> None:
        """For the row that is about to be added."""
        self.rare.setdefault(column, {})[len(self.frames)] = value

    def _add_body(self, frame: bytes, type_id: int, content: bytes | None, compressed: bool) -> None:
        limits = self._decoder.limits
        kind = _KINDS[type_id]
        text: bytes | str | None = None
        body: bytes | None = None
        entries: bytes | None = None
        try:
            match kind:
                case "text" if content and not compressed and _says_its_length(content):
                    text = content[TEXT_LENGTH_BYTES:]
                case "text":
                    text = bodies.decode_text(content, compressed=compressed, limits=limits)
                    text = None if text is None else valid_text(text)
                case "bytes":
                    body = bodies.decode_bytes(content, compressed=compressed, limits=limits)
                case "map":
                    # Inflated, and otherwise as it is: that is what "object" means to the decoder of bodies.
                    entries = (
                        bodies.decode_object_body(content, compressed=compressed, limits=limits) if content else b""
                    )
                case "stream":
                    body = bodies.decode_object_body(content, compressed=compressed, limits=limits) if content else b""
                case "object":
                    body = bodies.decode_object_body(content, compressed=compressed, limits=limits)
            if entries is None:
                self.maps.add_none()
            elif entries:
                self.maps.add(entries)
            else:
                self.maps.add_empty()
        except RemoteProtocolError:
            kind, text, body = UNDECODABLE, None, frame
            self.maps.add_none()
        if compressed:
            self.size_bytes += len(text or body or entries or b"")
        self.kinds.append(kind)
        self.texts.append(text)
        self.bodies.append(body)

    def _add_properties(self, data: bytes | None) -> None:
        if not data:
            self.properties.add_empty()
            return
        try:
            self.properties.add(data)
        except RemoteProtocolError:
            self.properties.add_none()

    # ---- text --------------------------------------------------------------------------------------------------

    def decode_texts(self) -> None:
        """Make text of those bytes in `texts` that are not plain UTF-8; rows where that fails become undecodable."""
        for row, data in enumerate(self.texts):
            if not isinstance(data, bytes) or data.isascii():
                continue
            try:
                self.texts[row] = valid_text(decode_modified_utf8(data))
            except RemoteProtocolError:
                self.texts[row] = None
                self.kinds[row] = UNDECODABLE
                self.bodies[row] = self.frames[row]


@final
class RowDecoder:
    """What decoding rows remembers, from one lot of rows to the next."""

    __slots__ = ("_plain", "_sources", "front", "limits", "names", "shape", "source")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._plain = Codec(CANONICAL, limits)
        self._sources: dict[bytes, _Source] = {}
        self.source: _Source | None = None
        self.front = b""
        """How the fields of the last message began, up to the two counts of its id."""
        self.names: dict[bytes, str] = {}
        """Names of properties and entries, by their bytes."""
        self.shape: _MapShape | None = None
        """Of the last map."""

    def columns(self) -> RowColumns:
        """For the next lot."""
        return RowColumns(self)

    def find_source(self, frame: bytes) -> _Source | None:
        """The source whose bytes *frame* begins with; None for one that is still unknown."""
        span = front_span(frame, FIELDS_AT)
        if span is None:
            return None
        transaction_at, transaction_end, end = span
        # The transaction is another one ever so often, and a row does not name it.
        source = self._sources.get(frame[FIELDS_AT:transaction_at] + frame[transaction_end:end])
        if source is not None:
            self.source, self.front = source, frame[FIELDS_AT:end]
        return source

    def command(self, frame: bytes) -> commands.Message | None:
        """What the plain codec makes of *frame*; None if it is no message."""
        try:
            command = self._plain.decode(frame)
        except RemoteProtocolError:
            return None
        if not isinstance(command, commands.Message):
            return None
        self._remember(frame, command)
        return command

    def _remember(self, frame: bytes, command: commands.Message) -> None:
        """The plain codec took *frame*: its front needs no second look when it comes again."""
        span = front_span(frame, FIELDS_AT)
        if span is None:
            return
        transaction_at, transaction_end, end = span
        key = frame[FIELDS_AT:transaction_at] + frame[transaction_end:end]
        if len(key) <= _FRONT_BYTES_MAX and key not in self._sources:
            if len(self._sources) >= _FRONTS_MAX:
                self._sources.clear()
            self._sources[key] = _Source(command)

    def id_of_broken(self, frame: bytes) -> str | None:
        """The message id in *frame*, if it stands where others of its source have it."""
        span = front_span(frame, FIELDS_AT)
        source = None if span is None else self.find_source(frame)
        if span is None or source is None or len(frame) < span[2] + LONG_BYTES:
            return None
        return f"{source.id_text}{LONG.unpack_from(frame, span[2])[0]}"


# ---- values as text --------------------------------------------------------------------------------------------


def valid_text(text: str) -> str:
    """*text* with U+FFFD for each half of a surrogate pair, so that UTF-8 can hold it."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _destination_text(wire: commands.ActiveMQDestination | None) -> str | None:
    if wire is None:
        return None
    return f"{_PREFIXES[type(wire)]}{valid_text(wire.physical_name or '')}"


def _says_its_length(content: bytes) -> bool:
    """Whether *content* begins with the length of the text behind it."""
    return int.from_bytes(content[:TEXT_LENGTH_BYTES]) == len(content) - TEXT_LENGTH_BYTES


def _quick_value(data: bytes, code: int, at: int) -> tuple[str, int]:
    """The value of a common type that is said to be at *at*, as text, and where it ends."""
    if code == _STRING:
        end = at + 2 + (data[at] << 8 | data[at + 1])
        return data[at + 2 : end].decode(), end
    if code == _INTEGER:
        return str(INT.unpack_from(data, at)[0]), at + 4
    if code == _BOOLEAN:
        return "true" if data[at] else "false", at + 1
    if code == _LONG_INTEGER:
        return str(LONG.unpack_from(data, at)[0]), at + 8
    return repr(DOUBLE.unpack_from(data, at)[0]), at + 8


def _odd_time(milliseconds: int) -> int | None:
    return milliseconds * 1000 if milliseconds and _EARLIEST_MS <= milliseconds <= _LATEST_MS else None


_TYPE_NAMES: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    Byte: "byte",
    Short: "short",
    Int: "int",
    Long: "long",
    int: "long",
    Float: "float",
    float: "double",
    Char: "char",
    str: "string",
    bytes: "bytes",
}


def typed_text(value: Value) -> tuple[str, str | None]:
    """The name of *value*'s JMS type, and the value as text: nested maps and lists as JSON, bytes in base64."""
    name = _TYPE_NAMES.get(type(value))
    match value:
        case None:
            text = None
        case bool():
            text = "true" if value else "false"
        case int():
            text = str(int(value))
        case float():
            text = repr(float(value))
        case str():
            text = valid_text(str(value))
        case bytes():
            text = b64encode(value).decode("ascii")
        case _:
            name = "map" if isinstance(value, Mapping) else "list"
            text = valid_text(json.dumps(_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    return name or "", text


def _json(value: Value) -> Any:
    match value:
        case bool() | None:
            return value
        case int():
            return int(value)
        case float():
            # JSON knows no infinity and no NaN.
            return float(value) if math.isfinite(value) else repr(float(value))
        case str():
            return str(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case Mapping():
            return {name: _json(item) for name, item in value.items()}
    return [_json(item) for item in value]
