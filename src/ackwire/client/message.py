"""`Message`: properties, body and the life of a message in the client.

`message_headers.py` has its headers, `messages.py` the kinds with a body. A message is made by the application, or by
`from_dispatch` or `from_command` from what a broker sent. A received one keeps its body and properties as bytes
until they are read, may be sent on without either being decoded, and is read-only in both until `clear_body` or
`clear_properties` (A5). Headers can always be set; a producer sets most of them when it sends (`stamp`), and
`to_outgoing` freezes the message as it is then.
"""

import json
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self

from ackwire.client.entries import Properties
from ackwire.client.errors import IllegalStateError, MessageFormatError
from ackwire.client.message_headers import PRIORITY_DEFAULT, PRIORITY_MAX, DeliveryMode, MessageHeaders
from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination
from ackwire.jms.types import Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import NO_EXTRAS, Dispatch
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.frame_builder import FrameBuilder, OutgoingMessage, outgoing_from
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.structures import Structure

# Members of an enumeration take time to look up.
_PERSISTENT: Final = DeliveryMode.PERSISTENT
_NON_PERSISTENT: Final = DeliveryMode.NON_PERSISTENT


class Received:
    """Body and properties as they came, and how much decoding them may take."""

    __slots__ = ("compressed", "content", "limits", "properties")

    def __init__(self, content: bytes | None, compressed: bool, properties: bytes | None, limits: WireLimits) -> None:
        self.content = content
        self.compressed = compressed
        self.properties = properties
        self.limits = limits

    def decoded_properties(self) -> dict[str, Value]:
        try:
            return decode_map(self.properties, self.limits) if self.properties else {}
        except RemoteProtocolError as error:
            raise MessageFormatError(f"the properties of the message cannot be read: {error}") from error


class Message(MessageHeaders):
    """A message without a body, and what all kinds have in common."""

    COMMAND: ClassVar[type[commands.ActiveMQMessage]] = commands.ActiveMQMessage
    """What this kind is on the wire."""

    data_structure: Structure | None = None
    """The command that an advisory message carries."""
    dispatch: Dispatch | None = None
    """How the message was received, for the consumer that received it; None for the application's own."""

    _received: Received | None = None
    _body_is_received = False
    _body_is_decoded = True
    _properties: Properties | None = None
    _acknowledger: "Callable[[Message], object] | None" = None
    """What `acknowledge` calls, with the message; set by the consumer."""

    def __repr__(self) -> str:
        where = self._destination
        name = where.physical_name if isinstance(where, commands.ActiveMQDestination) else where
        return f"<{type(self).__name__} {self.message_id or 'not sent'} to {name or 'nowhere yet'}>"

    rejecter: "Callable[[BaseException], object] | None" = None
    """What `reject` calls; set by the consumer of an INDIVIDUAL session."""

    def reject(self, cause: BaseException) -> None:
        """Say that this message could not be processed: it comes again, or becomes a dead letter (F)."""
        if self.rejecter is None:
            raise IllegalStateError("only messages of a session in INDIVIDUAL mode can be rejected one by one")
        self.rejecter(cause)

    def acknowledge(self) -> None:
        """Tell the broker that this message is done: with all that its session has consumed (D3), or alone (D6).

        Raises `IllegalStateError` for a message that no consumer has received.
        """
        if self._acknowledger is None:
            raise IllegalStateError("the message was not received from a consumer: there is nothing to acknowledge")
        self._acknowledger(self)

    def stand_for(self, received: "Message") -> None:
        """For consumers: acknowledging or rejecting this one means *received*, from which it was made."""
        self._acknowledger = received._acknowledger
        self.rejecter = received.rejecter
        self.dispatch = received.dispatch

    # ---- body and properties -----------------------------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        """The application's properties and JMS's own (JMSX…), a mapping."""
        properties = self._properties
        if properties is None:
            properties = self._properties = Properties(self)
            if self._received is not None:
                properties.receive(self._received.decoded_properties)
        return properties

    @property
    def body(self) -> Any:
        """The body as Python has it: text, bytes, a dictionary, a list, or None, whatever kind of message this is."""
        return None

    def json(self) -> Any:
        """What the body says in JSON. Raises `MessageFormatError` if it has no text or bytes, or they are not JSON."""
        body = self.body
        if not isinstance(body, str | bytes):
            raise MessageFormatError(f"{self!r} has no text and no bytes that could be JSON: its body is {body!r:.100}")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise MessageFormatError(f"the body of {self!r} is not JSON: {error}") from error

    @property
    def body_is_read_only(self) -> bool:
        """Whether writing to the body raises `MessageNotWriteableError`."""
        return self._body_is_received

    def clear_body(self) -> None:
        """Empty the body, and make it writeable. Properties and headers stay."""
        self._body_is_received = False
        self._body_is_decoded = True
        self._empty_body()

    def clear_properties(self) -> None:
        """Remove all properties, and make them writeable. Body and headers stay."""
        self.properties.renew()

    def _empty_body(self) -> None:
        """Forget the body; kinds that have one say how."""

    def _decode_body(self, content: bytes | None, compressed: bool, limits: WireLimits) -> None:
        """Take the body out of *content*; lets `RemoteProtocolError` out."""

    def _encode_body(self, compressed: bool) -> bytes | None:
        """The body as content; may raise `LocalProtocolError`."""
        del compressed
        return None

    def _look(self) -> None:
        """Have the body decoded; a body that cannot be is a `MessageFormatError` each time."""
        received = self._received
        if self._body_is_decoded or received is None:
            return
        try:
            self._decode_body(received.content, received.compressed, received.limits)
        except RemoteProtocolError as error:
            raise MessageFormatError(f"the body of the message cannot be read: {error}") from error
        self._body_is_decoded = True

    # ---- the wire ----------------------------------------------------------------------------------------------

    @classmethod
    def from_dispatch(
        cls,
        dispatch: Dispatch,
        acknowledger: "Callable[[Message], object] | None" = None,
        limits: WireLimits = DEFAULT_LIMITS,
    ) -> Self:
        """The received message in *dispatch*, whatever its kind; `message_from` finds the right class."""
        message = cls()
        message._acknowledger = acknowledger
        message.dispatch = message._dispatched_as = dispatch
        source = dispatch.source
        message._destination = source.destination
        if source.original_destination is not None:
            message._original_destination = source.original_destination
        if not dispatch.persistent:
            message._delivery_mode = _NON_PERSISTENT
        if dispatch.priority != PRIORITY_DEFAULT:
            message._priority = min(max(dispatch.priority, 0), PRIORITY_MAX)  # as ActiveMQ reads it
        message._timestamp = dispatch.timestamp
        message._expiration = dispatch.expiration
        if dispatch.redelivery_counter > 0:
            message._redelivery_counter = dispatch.redelivery_counter
        extras = dispatch.extras
        if extras is not NO_EXTRAS:
            message._correlation_id = extras.correlation_id
            message._reply_to = extras.reply_to
            message.data_structure = extras.data_structure
            message._type = extras.type
            message._group_id = extras.group_id
            message._group_sequence = extras.group_sequence
            message.group_first = extras.group_first
            message._user_id = extras.user_id
        message._receive(Received(dispatch.content, dispatch.compressed, dispatch.properties, limits))
        return message

    @classmethod
    def from_command(cls, command: commands.Message, limits: WireLimits = DEFAULT_LIMITS) -> Self:
        """The received message that *command* is, whatever its kind; `message_from_command` finds the right class."""
        message = cls()
        message._take_headers(command)
        message._receive(Received(command.content, command.compressed, command.marshalled_properties, limits))
        return message

    def _receive(self, received: Received) -> None:
        """Body and properties are what was received, to be decoded when they are read."""
        self._received = received
        self._body_is_received = True
        self._body_is_decoded = False

    def _take_headers(self, command: commands.Message) -> None:
        self.wire_id = command.message_id
        self._destination = command.destination
        self._original_destination = command.original_destination
        self._reply_to = command.reply_to
        self._correlation_id = command.correlation_id
        self._delivery_mode = _PERSISTENT if command.persistent else _NON_PERSISTENT
        self._priority = min(max(command.priority, 0), PRIORITY_MAX)  # as ActiveMQ reads it
        # Not through the setters: what other clients write may be a little longer than what we would.
        self._timestamp = command.timestamp
        self._expiration = command.expiration
        self._type = command.type
        self._group_id = command.group_id
        self._group_sequence = command.group_sequence
        self.group_first = command.group_first_for_consumer
        self._user_id = command.user_id
        self.data_structure = command.data_structure
        self._redelivery_counter = max(command.redelivery_counter, 0)

    def stamp(
        self,
        template: FrameBuilder,
        sequence: int,
        delivery_mode: DeliveryMode,
        priority: int,
        timestamp: int,
        expiration: int,
    ) -> None:
        """For producers: set what sending sets (A5, B3). The values are taken as they are.

        After it the sender's own object shows them, as JMS asks; a message that is sent on is a new one, and was not
        redelivered.
        """
        self._sent_as = (template.producer_id, sequence)
        self._destination = template.destination
        self._delivery_mode = delivery_mode
        self._priority = priority
        self._redelivery_counter = 0
        self._timestamp = timestamp
        self._expiration = expiration

    def to_outgoing(self, template: FrameBuilder, sequence: int, *, use_compression: bool = False) -> OutgoingMessage:
        """The message as it is now, as number *sequence* of the template's producer, to the template's destination.

        Later changes do not reach it (copyMessageOnSend). A received body goes out as it came in, compressed or not.
        Raises `MessageFormatError` for a body or properties that the wire cannot carry.
        """
        try:
            if self._original_destination is not None or self.data_structure is not None:
                return self._to_unusual_outgoing(template, sequence, use_compression)
            content, compressed = self._content(use_compression)
            return template.message(
                self.COMMAND.TYPE_ID,
                sequence,
                content,
                self._marshalled_properties(),
                compressed=compressed,
                persistent=self._delivery_mode is _PERSISTENT,
                priority=self._priority,
                timestamp=self._timestamp,
                expiration=self._expiration,
                correlation_id=self._correlation_id,
                reply_to=self._reply_to,
                type=self._type,
                group_id=self._group_id,
                group_sequence=self._group_sequence,
                user_id=self._user_id,
            )
        except LocalProtocolError as error:
            raise MessageFormatError(str(error)) from error

    def _to_unusual_outgoing(self, template: FrameBuilder, sequence: int, use_compression: bool) -> OutgoingMessage:
        command = self.to_command(use_compression=use_compression)
        command.producer_id = template.producer_id
        command.message_id = commands.MessageId(None, template.producer_id, sequence)
        command.destination = destination_to_wire(template.destination)
        command.transaction_id = template.transaction_id
        command.redelivery_counter = 0
        return outgoing_from(command)

    def to_command(self, *, use_compression: bool = False) -> commands.ActiveMQMessage:
        """The message for the wire, as it is now; later changes do not reach the command.

        A received body goes out as it came in, compressed or not. Raises `MessageFormatError` for a body or properties
        that the wire cannot carry.
        """
        try:
            content, compressed = self._content(use_compression)
            properties = self._marshalled_properties()
        except LocalProtocolError as error:
            raise MessageFormatError(str(error)) from error
        wire_id = self.wire_id
        return self.COMMAND(
            producer_id=None if wire_id is None else wire_id.producer_id,
            destination=_to_wire(self._destination),
            original_destination=_to_wire(self._original_destination),
            message_id=wire_id,
            group_id=self.group_id,
            group_sequence=self.group_sequence,
            correlation_id=self._correlation_id,
            persistent=self._delivery_mode is _PERSISTENT,
            expiration=self.expiration,
            priority=self._priority,
            reply_to=_to_wire(self._reply_to),
            timestamp=self.timestamp,
            type=self.type,
            content=content,
            marshalled_properties=properties,
            data_structure=self.data_structure,
            compressed=compressed,
            redelivery_counter=self._redelivery_counter,
            user_id=self.user_id,
        )

    def _content(self, use_compression: bool) -> tuple[bytes | None, bool]:
        if self._body_is_received and self._received is not None:
            return self._received.content, self._received.compressed
        content = self._encode_body(use_compression)
        return content, use_compression and content is not None

    def _marshalled_properties(self) -> bytes | None:
        properties, received = self._properties, self._received
        if received is not None and (properties is None or properties.is_read_only):
            return received.properties
        own = properties.own() if properties is not None else None
        return encode_map(own) if own else None


def _to_wire(value: Destination | commands.ActiveMQDestination | None) -> commands.ActiveMQDestination | None:
    return destination_to_wire(value) if isinstance(value, Destination) else value
