"""The fast path: messages, acks and responses in loose encoding, version 10 or later, without cache.

How it works. A producer's frame begins with bytes that repeat (producer id, destination, transaction, message id up to
its count): an `Origin` holds them, and one comparison recognises them. The fields behind them have fixed places as long
as the optional ones are absent, and are read there; the end of the frame is compared with the usual one.
`cached_encode.py` sends what was received here; `cached_decode.py` stands in front of it where the peers agreed on a
cache.

What makes it safe: every shortcut accepts only frames that the plain codec (`marshal.py`) accepts too, and anything
unusual is handed to the plain codec, which has the last word. `tests/model/test_codec_fast_agrees_with_plain.py` holds
the two against each other.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Final, cast, final

from ackwire.errors import InvalidDestination, RemoteProtocolError
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.message import Message, Origin, Stamper
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.layout import (
    ABSENT,
    ACK_CAUSE_AT,
    ACK_END_BYTES,
    BEHIND_CORRELATION,
    BEHIND_CORRELATION_BYTES,
    BLOB_TYPE,
    BYTES_AT,
    COMMAND_ID_AT,
    CONTENT_AT,
    CONTENT_LENGTH_AT,
    COUNT_BYTES,
    COUNTS_BYTES,
    EXPIRATION_AT,
    FIELDS_AT,
    FRESH_TAIL,
    HAS_CONTENT_AT,
    IN_TIME_FROM_END,
    INT,
    INT_BYTES,
    LONG,
    LONG_BYTES,
    MESSAGE_ID_HEAD,
    MESSAGE_ID_HEAD_BYTES,
    OPTIONS_AT,
    OUT_TIME_FROM_END,
    PRESENT,
    PRIORITY_AT,
    PRODUCER_HEAD,
    REPLY_TO_AT,
    RESOURCE_NUMBERS_BYTES,
    RESPONSE,
    RESPONSE_BYTES,
    RESPONSE_REQUIRED_AT,
    RESPONSE_TYPE,
    SIZE_BYTES,
    TAIL,
    TAIL_BYTES,
    TEXT_AT,
    TIMESTAMP_AT,
    TYPE_AT,
    UINT,
    UNTIL_GROUP_BYTES,
    USHORT,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec, LooseReader, WireFormat
from ackwire.wire.openwire.structures import REGISTRY, Field, Structure, fields_of
from ackwire.wire.openwire.text import decode_modified_utf8
from ackwire.wire.openwire.walking import Unusual, after_destination, after_string, front_end

CANONICAL: Final = WireFormat()
"""The form in which messages live in the broker: version 12, loose, no cache."""

FAST_VERSION_MIN: Final = 10
"""From this version on, messages and acks look the same on the wire."""

_MESSAGE_OVERHEAD_BYTES: Final = 1024
"""What ActiveMQ's client adds to the size of body and properties when it counts a message."""

PREFIX_BYTES_MAX: Final = 2048
_ORIGINS_MAX: Final = 256
"""Remembered per connection: at most these many origins of this size."""

_DESTINATION_KINDS: Final[dict[type[Structure], Kind]] = {
    commands.ActiveMQQueue: Kind.QUEUE,
    commands.ActiveMQTopic: Kind.TOPIC,
    commands.ActiveMQTempQueue: Kind.TEMP_QUEUE,
    commands.ActiveMQTempTopic: Kind.TEMP_TOPIC,
}
_DESTINATION_CLASSES: Final = {kind: cls for cls, kind in _DESTINATION_KINDS.items()}


def _message_field(name: str) -> Field:
    return next(field for field in fields_of(commands.ActiveMQMessage) if field.name == name)


_PREFIX_FIELDS: Final = tuple(
    _message_field(name)
    for name in ("producer_id", "destination", "transaction_id", "original_destination", "message_id")
)
_ID_FIELDS: Final = {field.name: field for field in fields_of(commands.MessageId)}


class UnusableDestination(RemoteProtocolError):
    """A valid message for an impossible destination: its sender gets an error, and the connection goes on."""

    def __init__(self, error: InvalidDestination) -> None:
        super().__init__(str(error))
        self.error = error


def destination_from_wire(
    wire: commands.ActiveMQDestination | None, make: Callable[[Kind, str], Destination] = destination
) -> Destination:
    """The destination a command names. Raises `InvalidDestination` or `RemoteProtocolError`."""
    if wire is None or wire.physical_name is None:
        raise RemoteProtocolError("a command names no destination where it must")
    return make(_DESTINATION_KINDS[type(wire)], wire.physical_name)


def _connection_of(sender: commands.ProducerId, producer: commands.ProducerId) -> str | None:
    """The connection whose producer a message names as its sender and in its id: both must be the same."""
    if sender.connection_id == producer.connection_id:
        return producer.connection_id
    return f"{sender.connection_id} or {producer.connection_id}"


def destination_to_wire(value: Destination) -> commands.ActiveMQDestination:
    """The structure for *value*."""
    return cast(commands.ActiveMQDestination, _DESTINATION_CLASSES[value.kind](value.name))  # type: ignore[call-arg]


def message_key(message_id: commands.MessageId | None) -> bytes | None:
    """The key that messages and acks with this id have: the producer's part of it, as bytes."""
    if message_id is None:
        return None
    if message_id.producer_id is None:
        raise RemoteProtocolError("a message id without a producer")
    return producer_key(message_id.producer_id) + LONG.pack(message_id.producer_sequence_id)


def producer_key(producer_id: commands.ProducerId) -> bytes:
    """The id as it stands inside a canonical frame, so that a slice of an ack is a key."""
    return nested(producer_id)


def nested(value: Structure | None) -> bytes:
    """*value* as a field holds it in canonical form."""
    return ABSENT if value is None else PRESENT + _PLAIN.encode(value)[SIZE_BYTES:]


_PLAIN: Final = Codec(CANONICAL)


@final
class Ack:
    """A MessageAck outside of transactions, without a cause: the usual ack of a consumer."""

    __slots__ = (
        "ack_type",
        "command_id",
        "consumer_id",
        "count",
        "first_key",
        "last_key",
        "response_required",
    )

    def __init__(
        self,
        command_id: int,
        response_required: bool,
        consumer_id: commands.ConsumerId,
        ack_type: int,
        first_key: bytes | None,
        last_key: bytes,
        count: int,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_key = first_key
        self.last_key = last_key
        self.count = count


def ack_from(command: commands.MessageAck) -> Ack | commands.MessageAck:
    """The short form of *command* where it has one. Raises `RemoteProtocolError` if it names nothing."""
    last_key = message_key(command.last_message_id)
    if command.consumer_id is None or last_key is None:
        raise RemoteProtocolError("an ack without a consumer or without a message id")
    if command.transaction_id is not None or command.poison_cause is not None:
        return command
    return Ack(
        command.command_id,
        command.response_required,
        command.consumer_id,
        command.ack_type & 0xFF,
        message_key(command.first_message_id),
        last_key,
        command.message_count,
    )


@final
class FastDecoder:
    """Decodes canonical message and ack frames; one per connection, because it remembers what repeats."""

    __slots__ = (
        "_ack_consumer",
        "_ack_id_prefix",
        "_ack_prefix",
        "_limits",
        "_make_destination",
        "_origin",
        "_origins",
        "_plain",
    )

    def __init__(
        self, limits: WireLimits = DEFAULT_LIMITS, make_destination: Callable[[Kind, str], Destination] = destination
    ) -> None:
        self._limits = limits
        self._make_destination = make_destination
        self._plain = Codec(CANONICAL, limits)
        self._origin: Origin | None = None
        self._origins: dict[bytes, Origin] = {}
        self._ack_prefix = b""
        self._ack_id_prefix = b""
        """How the last message id in an ack began, up to the producer's count."""
        self._ack_consumer: commands.ConsumerId | None = None

    # ---- messages ----------------------------------------------------------------------------------------------

    def message(self, frame: bytes) -> Message:
        """The message in *frame*; raises `RemoteProtocolError` for anything that is not one."""
        origin = self._origin
        if (
            origin is None
            or len(frame) < origin.id_end
            or frame[FIELDS_AT : origin.id_end - COUNT_BYTES] != origin.prefix
        ):
            origin = self.origin_of(frame)
        message = self.usual(frame, origin)
        return self._message_by_plain_codec(frame, origin) if message is None else message

    def usual(self, frame: bytes, origin: Origin) -> Message | None:
        """The message in *frame*, which begins as *origin* says; None if it has rare fields, or is none."""
        at = origin.id_end
        if frame[0] == BLOB_TYPE or len(frame) < at + CONTENT_AT:
            return None
        options = long_at(frame, at + OPTIONS_AT)
        if options >> 8 or frame[at + REPLY_TO_AT] or frame[at + TYPE_AT] or frame[at + HAS_CONTENT_AT] != 1:
            return self._message_with_options(frame, origin)
        return self._finish(
            frame,
            origin,
            at + CONTENT_AT + uint_at(frame, at + CONTENT_LENGTH_AT),
            persistent=options != 0,
            priority=byte_at(frame, at + PRIORITY_AT),
            expiration=long_at(frame, at + EXPIRATION_AT),
            timestamp=long_at(frame, at + TIMESTAMP_AT),
        )

    def _finish(
        self,
        frame: bytes,
        origin: Origin,
        position: int,
        *,
        persistent: bool,
        priority: int,
        expiration: int,
        timestamp: int,
    ) -> Message | None:
        """Check what follows the body, and make the message."""
        properties_offset = 0
        if position >= len(frame):
            return None
        if not frame[position]:
            position += 1
        elif position + BYTES_AT > len(frame):
            return None
        else:
            properties_offset = position + BYTES_AT
            position = properties_offset + uint_at(frame, position + 1)
        if len(frame) - position != TAIL_BYTES:
            return None
        redelivery_counter = 0
        if not frame.endswith(FRESH_TAIL):
            tail = TAIL.unpack_from(frame, position)
            if tail[0] or tail[1] or tail[4] or tail[6] or tail[9]:
                return None
            redelivery_counter = tail[3]
        message = Message(
            frame=frame,
            key=origin.producer_key + frame[origin.id_end - COUNT_BYTES : origin.id_end],
            origin=origin,
            persistent=persistent,
            priority=priority,
            expiration=expiration,
            timestamp=timestamp,
            properties_offset=properties_offset,
            tail_offset=position,
            producer_count=long_at(frame, origin.id_end - COUNT_BYTES),
        )
        message.redelivery_counter = redelivery_counter
        return message

    def _message_with_options(self, frame: bytes, origin: Origin) -> Message | None:
        """Group, correlation id, reply-to and type are common too: walk over them."""
        position = origin.id_end - COUNT_BYTES + UNTIL_GROUP_BYTES
        if frame[position - 1]:  # original transaction
            return None
        try:
            group_end = after_string(frame, position)
            group_id = decode_modified_utf8(frame[position + TEXT_AT : group_end]) if frame[position] else None
            group_sequence = INT.unpack_from(frame, group_end)[0]
            position = after_string(frame, group_end + INT_BYTES)
            persistent, expiration, priority = BEHIND_CORRELATION.unpack_from(frame, position)
            position = after_destination(frame, position + BEHIND_CORRELATION_BYTES)
            timestamp = LONG.unpack_from(frame, position)[0]
            position = after_string(frame, position + LONG_BYTES)
            position += BYTES_AT + UINT.unpack_from(frame, position + 1)[0] if frame[position] else 1
        except (Unusual, StructError, IndexError):
            return None
        message = self._finish(
            frame,
            origin,
            position,
            persistent=persistent != 0,
            priority=priority,
            expiration=expiration,
            timestamp=timestamp,
        )
        if message is not None:
            message.group_id = group_id
            message.group_sequence = group_sequence
        return message

    def _message_by_plain_codec(self, frame: bytes, origin: Origin) -> Message:
        """Read every field the plain way, noting where the properties stand."""
        reader = LooseReader(frame, CANONICAL, self._limits, None)
        command = REGISTRY[frame[0]]()
        properties_offset = tail_offset = 0
        for field in fields_of(type(command)):
            if field.name == "data_structure":
                tail_offset = reader.position
            value = reader.read(field)
            setattr(command, field.name, value)
            if field.name == "marshalled_properties" and value is not None:
                properties_offset = reader.position - len(value)
        if reader.position != len(frame):
            raise RemoteProtocolError(f"a message ends after {reader.position} bytes of {len(frame)}")
        assert isinstance(command, commands.Message)
        message = Message(
            frame=frame,
            key=origin.producer_key + frame[origin.id_end - COUNT_BYTES : origin.id_end],
            origin=origin,
            persistent=command.persistent,
            priority=command.priority,
            expiration=command.expiration,
            timestamp=command.timestamp,
            properties_offset=properties_offset,
            tail_offset=tail_offset,
        )
        message.group_id = command.group_id
        message.group_sequence = command.group_sequence
        message.redelivery_counter = command.redelivery_counter
        return message

    def origin_of(self, frame: bytes) -> Origin:
        """The origin whose bytes *frame* begins with: one we know, or a new one."""
        end = front_end(frame)
        origin = self._origins.get(frame[FIELDS_AT:end]) if end else None
        if origin is None:
            origin = self._learn_origin(frame)
        self._origin = origin
        return origin

    def _learn_origin(self, frame: bytes) -> Origin:
        reader = LooseReader(frame, CANONICAL, self._limits, None)
        reader.position = FIELDS_AT
        producer_id, target, transaction_id, _original = (reader.read_cached(f) for f in _PREFIX_FIELDS[:4])
        if not reader.read_flag() or frame[reader.position : reader.position + 1] != b"\x6e":
            raise RemoteProtocolError("a message without a message id")
        reader.position += 1
        reader.read_string(_ID_FIELDS["text_view"])
        id_producer = reader.read_cached(_ID_FIELDS["producer_id"])
        if id_producer is None or producer_id is None:
            raise RemoteProtocolError("a message without a producer id")
        producer = cast(commands.ProducerId, id_producer)
        prefix = frame[FIELDS_AT : reader.position]
        try:
            where = destination_from_wire(cast("commands.ActiveMQDestination | None", target), self._make_destination)
        except InvalidDestination as error:
            raise UnusableDestination(error) from None
        origin = Origin(
            prefix=prefix,
            destination=where,
            transaction=transaction_id,
            connection_id=_connection_of(cast(commands.ProducerId, producer_id), producer),
            producer_key=producer_key(producer),
            id_end=reader.position + COUNT_BYTES,
        )
        if len(prefix) <= PREFIX_BYTES_MAX:
            if len(self._origins) >= _ORIGINS_MAX:
                self._origins.clear()
            self._origins[prefix] = origin
        return origin

    # ---- acks --------------------------------------------------------------------------------------------------

    def ack(self, frame: bytes) -> Ack | commands.MessageAck:
        """The ack in *frame*: an `Ack`, or the whole structure if it belongs to a transaction or has a cause."""
        consumer_id = self._ack_consumer
        position = FIELDS_AT + len(self._ack_prefix)
        if consumer_id is None or len(frame) <= position or frame[FIELDS_AT:position] != self._ack_prefix:
            return self._learn_ack(frame)
        # The usual ack: two ids of the producer that the last ack named too.
        known = self._ack_id_prefix
        first_count = position + 1 + len(known)
        last_count = first_count + COUNTS_BYTES + len(known)
        if (
            len(frame) == last_count + COUNTS_BYTES + ACK_END_BYTES
            and known
            and frame[position + 1 : first_count] == known
            and frame[first_count + COUNTS_BYTES : last_count] == known
            and not frame[last_count + COUNTS_BYTES + ACK_CAUSE_AT]
        ):
            return Ack(
                int_at(frame, COMMAND_ID_AT),
                frame[RESPONSE_REQUIRED_AT] != 0,
                consumer_id,
                frame[position],
                frame[position + 1 + MESSAGE_ID_HEAD_BYTES : first_count + COUNT_BYTES],
                frame[first_count + COUNTS_BYTES + MESSAGE_ID_HEAD_BYTES : last_count + COUNT_BYTES],
                int_at(frame, last_count + COUNTS_BYTES),
            )
        try:
            ack_type = frame[position]
            first_start, first_end = _id_span(frame, position + 1) if frame[position + 1] else (0, position + 2)
            last_start, last_end = _id_span(frame, first_end)
            if len(frame) != last_end + ACK_END_BYTES or frame[last_end + ACK_CAUSE_AT]:
                return self._learn_ack(frame)
            self._ack_id_prefix = frame[last_start - MESSAGE_ID_HEAD_BYTES : last_end - COUNTS_BYTES]
            return Ack(
                INT.unpack_from(frame, COMMAND_ID_AT)[0],
                frame[RESPONSE_REQUIRED_AT] != 0,
                consumer_id,
                ack_type,
                frame[first_start : first_end - COUNT_BYTES] if first_start else None,
                frame[last_start : last_end - COUNT_BYTES],
                INT.unpack_from(frame, last_end)[0],
            )
        except (Unusual, StructError, IndexError):
            return self._learn_ack(frame)

    def _learn_ack(self, frame: bytes) -> Ack | commands.MessageAck:
        command = self._plain.decode(frame)
        assert isinstance(command, commands.MessageAck)
        ack = ack_from(command)
        if isinstance(ack, Ack):
            self._remember_ack_prefix(frame, ack.consumer_id)
        return ack

    def _remember_ack_prefix(self, frame: bytes, consumer_id: commands.ConsumerId) -> None:
        reader = LooseReader(frame, CANONICAL, self._limits, None)
        reader.position = FIELDS_AT
        for field in fields_of(commands.MessageAck)[2:5]:
            reader.read_cached(field)
        self._ack_consumer = consumer_id
        self._ack_prefix = frame[FIELDS_AT : reader.position]


# What `Struct.unpack_from` does, which compiled code needs longer for. Here and not in `walking.py`, because the C
# compiler puts them into their callers, and cannot do so across modules.


def uint_at(frame: bytes, at: int) -> int:
    return frame[at] << 24 | frame[at + 1] << 16 | frame[at + 2] << 8 | frame[at + 3]


def int_at(frame: bytes, at: int) -> int:
    value = uint_at(frame, at)
    return value - (1 << 32) if value >> 31 else value


def long_at(frame: bytes, at: int) -> int:
    return int_at(frame, at) << 32 | uint_at(frame, at + 4)


def byte_at(frame: bytes, at: int) -> int:
    value = frame[at]
    return value - (1 << 8) if value >> 7 else value


_KEY_HEAD: Final = MESSAGE_ID_HEAD + PRODUCER_HEAD
_CONNECTION_AT: Final = 5
"""Where the connection id's text stands in a producer id: behind `PRODUCER_HEAD` and its length."""


def _id_span(frame: bytes, position: int) -> tuple[int, int]:
    """Start of the key and end of the message id that begins at *position*."""
    key_at = position + MESSAGE_ID_HEAD_BYTES
    if frame[position : key_at + TEXT_AT] != _KEY_HEAD:
        raise Unusual
    length: int = USHORT.unpack_from(frame, key_at + TEXT_AT)[0]
    start = key_at + _CONNECTION_AT
    text = frame[start : start + length]
    if not text.isascii() or b"\0" in text:  # in a key, NUL stands in Java's form
        raise Unusual
    return key_at, start + length + RESOURCE_NUMBERS_BYTES + COUNTS_BYTES


def window_bytes(message: Message) -> tuple[commands.ProducerId | None, int]:
    """The producer of *message*, and what the client counted for it against the producer window."""
    command = _PLAIN.decode(message.frame)
    assert isinstance(command, commands.Message)
    size = _MESSAGE_OVERHEAD_BYTES + len(command.content or b"") + len(command.marshalled_properties or b"")
    return command.producer_id, size


# ---- stamping and answering ------------------------------------------------------------------------------------


@final
class _Last:
    """What was written last, in a tuple that changes as a whole, so that brokers in several threads may share this."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = (0, bytes(LONG_BYTES))
        """When a message came in, in milliseconds and in bytes; many come in the same one."""


_LAST: Final = _Last()


def stamp(message: Message, sequence: int, in_time_ms: int) -> None:
    """Give *message* its place in the broker's order and its time of arrival, in its bytes too."""
    message.sequence = sequence
    frame = message.frame
    id_end = message.origin.id_end
    end = len(frame) if frame[0] != BLOB_TYPE else end_of_common_fields(frame)
    message.frame = b"".join(
        (
            frame[:id_end],
            sequence.to_bytes(COUNT_BYTES, "big"),
            frame[id_end + COUNT_BYTES : end - IN_TIME_FROM_END],
            _time_bytes(in_time_ms),
            frame[end - OUT_TIME_FROM_END :],
        )
    )


@final
class FrameStamper(Stamper):
    """`stamp`, for the broker, which knows no frames."""

    def stamp(self, message: Message, sequence: int, in_time_ms: int) -> None:
        stamp(message, sequence, in_time_ms)


def _time_bytes(time_ms: int) -> bytes:
    last_time_ms, written = _LAST.time
    if time_ms != last_time_ms:
        written = time_ms.to_bytes(LONG_BYTES, "big")
        _LAST.time = (time_ms, written)
    return written


def end_of_common_fields(frame: bytes) -> int:
    """Where the fields that every message has end; only a blob message has more."""
    reader = LooseReader(frame, CANONICAL, DEFAULT_LIMITS, None)
    for field in fields_of(commands.Message):
        reader.read(field)
    return reader.position


def response_frame(correlation_id: int) -> bytes:
    """A Response, size prefix included."""
    return RESPONSE.pack(RESPONSE_BYTES, RESPONSE_TYPE, 0, 0, correlation_id)
