"""Messages for protocols that do not speak OpenWire: made from a body and headers, and read back.

Inside the broker every message is a canonical frame (`wire/openwire/layout.py`), whatever its client speaks. A protocol
makes one with a `MessageWriter`, gives it to `Broker.send`, and reads what it has to deliver with a `MessageView`. It
needs to know nothing about the frame.
"""

from collections.abc import Hashable, Mapping
from typing import Final, cast, final

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.types import Value
from ackwire.wire.openwire import bodies, commands
from ackwire.wire.openwire.codec_fast import CANONICAL, FastDecoder, destination_from_wire
from ackwire.wire.openwire.frame_builder import FrameBuilder
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.primitives import decode_map, encode_map

_BUILDERS_MAX: Final = 64
"""Remembered for one client: at most for so many destinations."""

Body = str | bytes | dict[str, Value] | list[Value] | None
"""Of a text, bytes or object, map, and stream message; None for a message without a body."""


@final
class MessageWriter:
    """Makes the messages of one client, numbered from 1."""

    def __init__(self, connection_id: str, limits: WireLimits = DEFAULT_LIMITS) -> None:
        """*connection_id* is the client's in the broker: it is part of each message id, so it must be new."""
        self._producer_id = commands.ProducerId(connection_id, 1, 1)
        self._decoder = FastDecoder(limits)
        self._builders: dict[tuple[Destination, Hashable], FrameBuilder] = {}
        self._count = 0

    def transaction_id(self, number: int) -> Hashable:
        """The id of the client's transaction *number*, for messages and for the broker's verbs."""
        return commands.LocalTransactionId(number, commands.ConnectionId(self._producer_id.connection_id))

    def message(
        self,
        destination: Destination,
        body: str | bytes | Mapping[str, Value] | None,
        *,
        timestamp: int,
        properties: Mapping[str, Value] | None = None,
        persistent: bool = True,
        priority: int = 4,
        expiration: int = 0,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        transaction_id: Hashable = None,
    ) -> Message:
        """The client's next message. Times are milliseconds since 1970; an *expiration* of 0 is never.

        Raises `LocalProtocolError` for a header or property that no frame can hold.
        """
        type_id, content = _content(body)
        outgoing = self._builder(destination, transaction_id).message(
            type_id,
            self._count + 1,
            content,
            encode_map(properties) if properties else None,
            persistent=persistent,
            priority=priority,
            timestamp=timestamp,
            expiration=expiration,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            group_id=group_id,
            group_sequence=group_sequence,
        )
        self._count += 1
        return self._decoder.message(outgoing.frame())

    def _builder(self, destination: Destination, transaction_id: Hashable) -> FrameBuilder:
        builder = self._builders.get((destination, transaction_id))
        if builder is None:
            if len(self._builders) >= _BUILDERS_MAX:
                self._builders.clear()
            builder = FrameBuilder(
                self._producer_id, destination, cast("commands.TransactionId | None", transaction_id)
            )
            self._builders[destination, transaction_id] = builder
        return builder


def _content(body: str | bytes | Mapping[str, Value] | None) -> tuple[int, bytes | None]:
    """The kind of message that *body* makes, and its content."""
    match body:
        case None:
            return commands.ActiveMQMessage.TYPE_ID, None
        case str():
            return commands.ActiveMQTextMessage.TYPE_ID, bodies.encode_text(body)
        case bytes():
            return commands.ActiveMQBytesMessage.TYPE_ID, bodies.encode_bytes(body)
        case _:
            return commands.ActiveMQMapMessage.TYPE_ID, bodies.encode_map_body(body)


@final
class MessageView:
    """Reads one message of the broker, of any sender. Broken content raises `RemoteProtocolError`."""

    __slots__ = ("_command", "_limits")

    def __init__(self, message: Message, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self._command = cast(commands.Message, Codec(CANONICAL, limits).decode(message.frame))
        self._limits = limits

    @property
    def body(self) -> Body:
        """What the message holds; an object message's bytes are opaque."""
        command, limits = self._command, self._limits
        content, compressed = command.content, command.compressed
        match command:
            case commands.ActiveMQTextMessage():
                return bodies.decode_text(content, compressed=compressed, limits=limits)
            case commands.ActiveMQBytesMessage():
                return bodies.decode_bytes(content, compressed=compressed, limits=limits)
            case commands.ActiveMQMapMessage():
                return bodies.decode_map_body(content, compressed=compressed, limits=limits)
            case commands.ActiveMQStreamMessage():
                return bodies.decode_stream_body(content, compressed=compressed, limits=limits)
            case commands.ActiveMQObjectMessage():
                return bodies.decode_object_body(content, compressed=compressed, limits=limits)
            case commands.ActiveMQBlobMessage():
                return command.remote_blob_url
        return None

    @property
    def properties(self) -> dict[str, Value]:
        data = self._command.marshalled_properties
        return decode_map(data, self._limits) if data else {}

    @property
    def message_id(self) -> str:
        return str(self._command.message_id)

    @property
    def correlation_id(self) -> str | None:
        return self._command.correlation_id

    @property
    def type(self) -> str | None:
        return self._command.type

    @property
    def user_id(self) -> str | None:
        return self._command.user_id

    @property
    def reply_to(self) -> Destination | None:
        """Where answers go. Raises `InvalidDestination` for a name that cannot be."""
        wire = self._command.reply_to
        return None if wire is None else destination_from_wire(wire)

    @property
    def original_destination(self) -> Destination | None:
        """Where the message was sent at first, if it was moved."""
        wire = self._command.original_destination
        return None if wire is None else destination_from_wire(wire)
