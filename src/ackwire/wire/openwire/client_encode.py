"""Encodes the usual acks of a client quickly.

How it works. A consumer's acks begin with bytes that repeat: a template holds them, encoded once by the plain codec.
The result is the canonical form (version 12, loose, no cache). Messages are written by `frame_builder.py`.

`tests/model/test_client_encode_agrees_with_plain.py` holds it against the plain codec, byte for byte.
"""

from typing import Final, cast, final

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, nested
from ackwire.wire.openwire.layout import ABSENT, ACK_END, ACK_END_BYTES, ACK_TYPE, BYTE, FIELDS_AT, HEAD
from ackwire.wire.openwire.marshal import Codec

_ACK_REST_BYTES: Final = FIELDS_AT + 1 + ACK_END_BYTES
"""Of an ack: head, type and end."""

_PLAIN: Final = Codec(CANONICAL)


@final
class AckTemplate:
    """The common bytes of the acks of one consumer for one destination, in one transaction or none."""

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
        first = ABSENT if first_id is None else first_id
        size = len(prefix) + len(first) + len(last_id) + _ACK_REST_BYTES
        head = HEAD.pack(size, ACK_TYPE, command_id, response_required)
        return b"".join((head, prefix, BYTE.pack(ack_type), first, last_id, ACK_END.pack(count, 0)))

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
    """The inverse of `encoded_id`."""
    return cast(commands.MessageId, _PLAIN.decode(data[1:]))
