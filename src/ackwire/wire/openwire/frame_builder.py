"""Writes canonical message frames from scratch (`layout.py`).

Used by the client, for the broker's advisories, for tables (`tabular/writing.py`), and by protocols that do not speak
OpenWire themselves (`wire/canonical.py`).

How it works. A producer's messages to one destination begin with bytes that repeat: a builder holds them, encoded once
by the plain codec. The headers behind them are packed in one go as long as the optional ones are absent. The result
belongs to no connection: a client sends it again after a reconnect, and where the peers agreed on another form than the
canonical one it is decoded and encoded anew.

`tests/model/test_client_encode_agrees_with_plain.py` holds it against the plain codec, byte for byte.
"""

from functools import lru_cache
from struct import error as StructError
from typing import Final, cast, final

from ackwire.errors import LocalProtocolError
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, destination_to_wire, nested
from ackwire.wire.openwire.layout import (
    ABSENT,
    ABSENT_BYTES,
    BEHIND_CORRELATION,
    BYTES_LENGTH,
    COMPRESSED_TAIL,
    COUNTS_BYTES,
    FIELDS_AT,
    FRESH_TAIL,
    HEAD,
    INT,
    LONG,
    SIZE_BYTES,
    TAIL_BYTES,
    TARGET_CONSUMER_AT,
    TEXT_LENGTH,
    UNTIL_GROUP,
    USER_ID_AT,
    USUAL_HEADERS,
)
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.structures import Structure
from ackwire.wire.openwire.text import check_string_length, encode_modified_utf8

MESSAGE_OVERHEAD_BYTES: Final = 1024
"""What ActiveMQ's client adds to the size of body and properties when it counts a message (B4)."""

_NO_PROPERTIES_TAIL: Final = ABSENT + FRESH_TAIL
_NO_PROPERTIES_TAIL_COMPRESSED: Final = ABSENT + COMPRESSED_TAIL

_PLAIN: Final = Codec(CANONICAL)


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
        return HEAD.pack(len(self.fields) + FIELDS_AT, self.type_id, command_id, response_required)

    def frame(self, command_id: int = 0, response_required: bool = False) -> bytes:
        """The whole frame, without the size."""
        return self.head(command_id, response_required)[SIZE_BYTES:] + self.fields

    def command(self, command_id: int = 0, response_required: bool = False) -> commands.Message:
        """The message as a structure."""
        return cast(commands.Message, _PLAIN.decode(self.frame(command_id, response_required)))


def outgoing_from(command: commands.Message) -> OutgoingMessage:
    """*command* whatever it holds; its command id and response flag do not matter."""
    payload_bytes = len(command.content or b"") + len(command.marshalled_properties or b"")
    frame = _PLAIN.encode(command)
    return OutgoingMessage(command.TYPE_ID, frame[SIZE_BYTES + FIELDS_AT :], payload_bytes)


@final
class FrameBuilder:
    """Writes the messages of one producer to one destination, in one transaction or none."""

    __slots__ = ("_behind_transaction", "_front", "_prefix", "destination", "producer_id", "transaction_id")

    def __init__(
        self,
        producer_id: commands.ProducerId,
        destination: Destination,
        transaction_id: commands.TransactionId | None = None,
        sibling: "FrameBuilder | None" = None,
    ) -> None:
        """*sibling* has the same producer and destination: what they share is not encoded again."""
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        if sibling is None:
            self._front: bytes = nested(producer_id) + nested(destination_to_wire(destination))
            # No original destination; then the message id up to its two counts.
            self._behind_transaction: bytes = ABSENT + nested(commands.MessageId(None, producer_id))[:-COUNTS_BYTES]
        else:
            self._front, self._behind_transaction = sibling._front, sibling._behind_transaction
        self._prefix = self._front + nested(transaction_id) + self._behind_transaction

    def in_transaction(self, transaction_id: commands.TransactionId | None) -> "FrameBuilder":
        """The same for another transaction."""
        return FrameBuilder(self.producer_id, self.destination, transaction_id, sibling=self)

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
                packed = USUAL_HEADERS.pack(
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
                        UNTIL_GROUP.pack(sequence, 0, 0),
                        _string(group_id),
                        INT.pack(group_sequence),
                        _string(correlation_id),
                        BEHIND_CORRELATION.pack(persistent, expiration, priority),
                        _encoded_destination(reply_to),
                        LONG.pack(timestamp),
                        _string(type),
                    )
                )
            if content is None:
                fields = b"".join((self._prefix, packed, ABSENT, tail))
            else:
                fields = b"".join((self._prefix, packed, BYTES_LENGTH.pack(1, len(content)), content, tail))
        except StructError as error:
            raise LocalProtocolError(f"a header of the message cannot be sent: {error}") from None
        return OutgoingMessage(type_id, fields, len(content or b"") + len(properties or b""))

    def advisory(
        self,
        sequence: int,
        properties: bytes,
        *,
        timestamp: int,
        type: str,
        data_structure: Structure | None,
        target_consumer_id: commands.ConsumerId | None,
    ) -> OutgoingMessage:
        """A message about *data_structure*, non-persistent; for one consumer alone if *target_consumer_id* says so."""
        plain = self.message(
            commands.ActiveMQMessage.TYPE_ID,
            sequence,
            None,
            properties,
            persistent=False,
            priority=0,
            timestamp=timestamp,
            type=type,
        )
        tail_at = len(plain.fields) - TAIL_BYTES
        behind_at = tail_at + TARGET_CONSUMER_AT + ABSENT_BYTES
        parts = (plain.fields[:tail_at], nested(data_structure), nested(target_consumer_id), plain.fields[behind_at:])
        return OutgoingMessage(plain.type_id, b"".join(parts), plain.payload_bytes)


@lru_cache(maxsize=64)
def _encoded_destination(value: Destination | commands.ActiveMQDestination | None) -> bytes:
    """Remembered, because many requests name the same destination for their answers."""
    return nested(destination_to_wire(value) if isinstance(value, Destination) else value)


def _string(text: str | None) -> bytes:
    if text is None:
        return ABSENT
    data = check_string_length(encode_modified_utf8(text))
    return TEXT_LENGTH.pack(1, len(data)) + data


def _tail(properties: bytes | None, compressed: bool, user_id: str | None) -> bytes:
    """Everything behind the content."""
    tail = COMPRESSED_TAIL if compressed else FRESH_TAIL
    if user_id is not None:
        tail = tail[:USER_ID_AT] + _string(user_id) + tail[USER_ID_AT + ABSENT_BYTES :]
    if properties is None:
        return ABSENT + tail
    return b"".join((BYTES_LENGTH.pack(1, len(properties)), properties, tail))
