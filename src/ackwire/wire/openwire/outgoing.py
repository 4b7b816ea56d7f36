"""What a client sends all day, encoded quickly: messages and acks.

How it works. A producer's messages to one destination begin with bytes that repeat, and so do a consumer's acks: a
template holds them, encoded once by the plain codec. The fields behind them are packed in one go as long as the
optional ones are absent. The result is the canonical form (version 12, loose, no cache), which is also what goes onto
the wire if the peers agreed on it. It belongs to no connection: after a reconnect it can be sent again, and where
something else was agreed it is decoded and encoded anew.

`tests/model/test_outgoing_agrees_with_plain.py` holds it against the plain codec, byte for byte.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, cast, final

from ackwire.destinations import Destination
from ackwire.errors import LocalProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.fast import ACK_TYPE, CANONICAL, destination_to_wire, nested
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.text import check_string_length, encode_modified_utf8

MESSAGE_OVERHEAD_BYTES: Final = 1024
"""What ActiveMQ's client adds to the size of body and properties when it counts a message (B4)."""

_SIZE_BYTES: Final = 4
_HEAD: Final = Struct(">IBiB")
"""Size, type id, command id, response flag."""
FRAME_HEAD_BYTES: Final = 6
"""Type id, command id and response flag: what a frame holds beside the fields of a message."""
_SEQUENCES_BYTES: Final = 16
"""At the end of an encoded message id: the producer's count and the broker's."""

# producer sequence, broker sequence, original transaction?, group?, group sequence, correlation id?, persistent,
# expiration, priority, reply to?, timestamp, type?
_FIXED: Final = Struct(">qqBBiBBqbBqB")
_UNTIL_GROUP: Final = Struct(">qqB")
_BEHIND_CORRELATION: Final = Struct(">Bqb")
# data structure?, target consumer?, compressed, redelivery counter, broker path?, arrival, user id?, received by
# bridge, droppable, cluster?, broker in time, broker out time, group first for consumer
_TAIL: Final = Struct(">BBBiBqBBBBqqB")
TAIL_BYTES: Final = _TAIL.size
"""What follows the properties of a message without user id."""
_TAIL_PLAIN: Final = bytes(_TAIL.size)
_TAIL_COMPRESSED: Final = b"\0\0\1" + bytes(_TAIL.size - 3)
_USER_AT: Final = 16
"""Where in the tail the flag of the user id stands."""
_NO_PROPERTIES_TAIL: Final = b"\0" + _TAIL_PLAIN
_NO_PROPERTIES_TAIL_COMPRESSED: Final = b"\0" + _TAIL_COMPRESSED

_BYTE: Final = Struct(">b")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_LENGTH: Final = Struct(">Bi")
"""Of bytes that are there."""
_STRING_LENGTH: Final = Struct(">BH")
_ACK_END: Final = Struct(">iB")
"""How many messages, and no cause."""
_ACK_REST_BYTES: Final = FRAME_HEAD_BYTES + _BYTE.size + _ACK_END.size

_PLAIN: Final = Codec(CANONICAL)


# ---- messages --------------------------------------------------------------------------------------------------


@final
class OutgoingMessage:
    """A message as it was when it was sent, ready for any connection."""

    __slots__ = ("fields", "payload_bytes", "type_id")

    def __init__(self, type_id: int, fields: bytes, payload_bytes: int) -> None:
        self.type_id = type_id
        self.fields = fields
        """All fields behind command id and response flag, in canonical form."""
        self.payload_bytes = payload_bytes
        """Body and properties."""

    @property
    def window_bytes(self) -> int:
        """What the message takes of the producer's window, as ActiveMQ's client and the broker count (B4)."""
        return MESSAGE_OVERHEAD_BYTES + self.payload_bytes

    def head(self, command_id: int, response_required: bool) -> bytes:
        """What stands in front of `fields` in a frame, size included."""
        return _HEAD.pack(len(self.fields) + FRAME_HEAD_BYTES, self.type_id, command_id, response_required)

    def command(self, command_id: int = 0, response_required: bool = False) -> commands.Message:
        """The message as a structure."""
        frame = self.head(command_id, response_required)[_SIZE_BYTES:] + self.fields
        return cast(commands.Message, _PLAIN.decode(frame))


def outgoing_from(command: commands.Message) -> OutgoingMessage:
    """*command* whatever it holds; its command id and response flag do not matter."""
    payload_bytes = len(command.content or b"") + len(command.marshalled_properties or b"")
    frame = _PLAIN.encode(command)
    return OutgoingMessage(command.TYPE_ID, frame[_SIZE_BYTES + FRAME_HEAD_BYTES :], payload_bytes)


@final
class MessageTemplate:
    """What the messages of one producer to one destination, in one transaction or none, have in common."""

    __slots__ = ("_behind_transaction", "_front", "_prefix", "destination", "producer_id", "transaction_id")

    def __init__(
        self,
        producer_id: commands.ProducerId,
        destination: Destination,
        transaction_id: commands.TransactionId | None = None,
        twin: "MessageTemplate | None" = None,
    ) -> None:
        """*twin* is one with the same producer and destination: what they share is not made again."""
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        if twin is None:
            self._front: bytes = nested(producer_id) + nested(destination_to_wire(destination))
            # No original destination; then the message id up to its two counts.
            self._behind_transaction: bytes = b"\0" + nested(commands.MessageId(None, producer_id))[:-_SEQUENCES_BYTES]
        else:
            self._front, self._behind_transaction = twin._front, twin._behind_transaction
        self._prefix = self._front + nested(transaction_id) + self._behind_transaction

    def in_transaction(self, transaction_id: commands.TransactionId | None) -> "MessageTemplate":
        """The same for another transaction."""
        return MessageTemplate(self.producer_id, self.destination, transaction_id, twin=self)

    def message(
        self,
        type_id: int,
        sequence: int,
        content: bytes | None,
        properties: bytes | None = None,
        *,
        compressed: bool = False,
        persistent: bool = True,
        priority: int = 4,
        timestamp: int = 0,
        expiration: int = 0,
        correlation_id: str | None = None,
        reply_to: Destination | commands.ActiveMQDestination | None = None,
        type: str | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        user_id: str | None = None,
    ) -> OutgoingMessage:
        """The producer's message number *sequence*. Raises `LocalProtocolError` for what the wire cannot carry."""
        if properties is None and user_id is None:
            tail = _NO_PROPERTIES_TAIL_COMPRESSED if compressed else _NO_PROPERTIES_TAIL
        else:
            tail = _tail(properties, compressed, user_id)
        try:
            if correlation_id is None and reply_to is None and type is None and group_id is None:
                # The usual message: everything in front of the body in one go.
                packed = _FIXED.pack(
                    sequence,
                    0,
                    0,
                    0,
                    group_sequence,
                    0,
                    persistent,
                    expiration,
                    priority,
                    0,
                    timestamp,
                    0,
                )
            else:
                packed = b"".join(
                    (
                        _UNTIL_GROUP.pack(sequence, 0, 0),
                        _string(group_id),
                        _INT.pack(group_sequence),
                        _string(correlation_id),
                        _BEHIND_CORRELATION.pack(persistent, expiration, priority),
                        _encoded_destination(reply_to),
                        _LONG.pack(timestamp),
                        _string(type),
                    )
                )
            if content is None:
                fields = b"".join((self._prefix, packed, b"\0", tail))
            else:
                fields = b"".join((self._prefix, packed, _LENGTH.pack(1, len(content)), content, tail))
        except StructError as error:
            raise LocalProtocolError(f"a header of the message cannot be sent: {error}") from None
        return OutgoingMessage(type_id, fields, len(content or b"") + len(properties or b""))


@lru_cache(maxsize=64)
def _encoded_destination(value: Destination | commands.ActiveMQDestination | None) -> bytes:
    """Those who ask many questions want the answers in one place."""
    return nested(destination_to_wire(value) if isinstance(value, Destination) else value)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = check_string_length(encode_modified_utf8(text))
    return _STRING_LENGTH.pack(1, len(data)) + data


def _tail(properties: bytes | None, compressed: bool, user_id: str | None) -> bytes:
    """Everything behind the content."""
    tail = _TAIL_COMPRESSED if compressed else _TAIL_PLAIN
    if user_id is not None:
        tail = tail[:_USER_AT] + _string(user_id) + tail[_USER_AT + 1 :]
    if properties is None:
        return b"\0" + tail
    return b"".join((_LENGTH.pack(1, len(properties)), properties, tail))


# ---- acks ------------------------------------------------------------------------------------------------------


@final
class AckTemplate:
    """What the acks of one consumer for one destination, in one transaction or none, have in common."""

    __slots__ = ("_prefix", "consumer_id", "destination", "transaction_id")

    def __init__(
        self,
        consumer_id: commands.ConsumerId,
        destination: commands.ActiveMQDestination | None,
        transaction_id: commands.TransactionId | None = None,
    ) -> None:
        self.consumer_id = consumer_id
        self.destination = destination
        self.transaction_id = transaction_id
        self._prefix = nested(destination) + nested(transaction_id) + nested(consumer_id)

    def frame(
        self,
        command_id: int,
        response_required: bool,
        ack_type: int,
        first_id: bytes | None,
        last_id: bytes,
        count: int,
    ) -> bytes:
        """A MessageAck in canonical form, size included; ids are `encoded_id`s."""
        prefix = self._prefix
        first = b"\0" if first_id is None else first_id
        size = len(prefix) + len(first) + len(last_id) + _ACK_REST_BYTES
        head = _HEAD.pack(size, ACK_TYPE, command_id, response_required)
        return b"".join((head, prefix, _BYTE.pack(ack_type), first, last_id, _ACK_END.pack(count, 0)))

    def command(
        self,
        command_id: int,
        response_required: bool,
        ack_type: int,
        first_id: bytes | None,
        last_id: bytes,
        count: int,
    ) -> commands.MessageAck:
        """The same as a structure, for connections that agreed on another format, and for adding a cause."""
        return commands.MessageAck(
            command_id=command_id,
            response_required=response_required,
            destination=self.destination,
            transaction_id=self.transaction_id,
            consumer_id=self.consumer_id,
            ack_type=ack_type,
            first_message_id=None if first_id is None else decoded_id(first_id),
            last_message_id=decoded_id(last_id),
            message_count=count,
        )


def encoded_id(message_id: commands.MessageId) -> bytes:
    """*message_id* as acks hold it."""
    return nested(message_id)


def decoded_id(data: bytes) -> commands.MessageId:
    """What `encoded_id` was given."""
    return cast(commands.MessageId, _PLAIN.decode(data[1:]))
