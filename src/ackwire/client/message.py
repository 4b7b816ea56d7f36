"""`Message`: headers, properties and the life of a message in the client; messages.py has the kinds with a body.

A message is made by the application, or by `from_dispatch` or `from_command` from what a broker sent. A received one
keeps its body and properties as the bytes they came in until somebody looks, may be sent on without either being
decoded, and is read-only in both until `clear_body` or `clear_properties` (A5). Headers can always be set; a producer
sets most of them when it sends (`stamp`), and `to_outgoing` freezes the message as it is then. Times are milliseconds
since 1970.

Messages are made by the thousand, so they are cheap to make: what most do without stands as a default in the class, and
message id and properties become objects when somebody asks for them.
"""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Final, Self

from ackwire.client.conversions import integer_of
from ackwire.client.entries import Properties
from ackwire.client.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidDestinationError,
    MessageFormatError,
)
from ackwire.errors import InvalidDestination, LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination, parse_written_destination
from ackwire.jms.types import Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import NO_EXTRAS, Dispatch
from ackwire.wire.openwire.codec_fast import destination_from_wire, destination_to_wire
from ackwire.wire.openwire.frame_builder import FrameBuilder, OutgoingMessage, outgoing_from
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.structures import Structure
from ackwire.wire.openwire.text import check_string_length, encode_modified_utf8

PRIORITY_DEFAULT: Final = 4
PRIORITY_MAX: Final = 9


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker; the numbers are JMS's."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


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


class _TextHeader:
    """A header of text, or None; it must fit into the wire's 64 kB."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    def __get__(self, message: "Message", owner: type) -> str | None:
        text: str | None = getattr(message, self._slot)
        return text

    def __set__(self, message: "Message", text: str | None) -> None:
        setattr(message, self._slot, _checked_text(self._name, text))


class _NumberHeader:
    """A header of a JMS integer type, 0 unless set."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    def __get__(self, message: "Message", owner: type) -> int:
        number: int = getattr(message, self._slot)
        return number

    def __set__(self, message: "Message", number: int) -> None:
        try:
            setattr(message, self._slot, int(integer_of(number, self._kind)))
        except MessageFormatError as error:
            raise IllegalArgumentError(f"{self._name}: {error}") from None


class Message:
    """A message without a body, and what all kinds have in common.

    It is one class because it is the public face of a message: one short, documented attribute or method for each
    header that JMS has, which share nothing but the message.
    """

    COMMAND: ClassVar[type[commands.ActiveMQMessage]] = commands.ActiveMQMessage
    """What this kind is on the wire."""

    type = _TextHeader()
    """JMSType: whatever the application means by it."""
    timestamp = _NumberHeader("long")
    """JMSTimestamp: when it was sent."""
    expiration = _NumberHeader("long")
    """JMSExpiration: when it expires; 0 is never."""
    group_id = _TextHeader()
    """JMSXGroupID: messages of one group go to one consumer, in order (H3)."""
    group_sequence = _NumberHeader("int")
    """JMSXGroupSeq: the place in the group; −1 closes it."""
    user_id = _TextHeader()
    """JMSXUserID: who sent it, where the broker says so."""

    group_first = False
    """JMSXGroupFirstForConsumer: the first message since this consumer got the group (H3)."""
    data_structure: Structure | None = None
    """The command that an advisory message carries."""
    dispatch: Dispatch | None = None
    """How the message was received, for the consumer that received it; None for the application's own."""

    _wire_id: commands.MessageId | None = None
    _sent_as: tuple[commands.ProducerId, int] | None = None
    """The message id before it is made an object: of a message that was sent …"""
    _dispatched_as: Dispatch | None = None
    """… and of one that was received."""
    _correlation_id: str | None = None
    _destination: Destination | commands.ActiveMQDestination | None = None
    _original_destination: Destination | commands.ActiveMQDestination | None = None
    _reply_to: Destination | commands.ActiveMQDestination | None = None
    _type: str | None = None
    _timestamp = 0
    _expiration = 0
    _group_id: str | None = None
    _group_sequence = 0
    _user_id: str | None = None
    _delivery_mode = _PERSISTENT
    _priority = PRIORITY_DEFAULT
    _redelivery_counter = 0
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

    # ---- headers -----------------------------------------------------------------------------------------------

    @property
    def wire_id(self) -> commands.MessageId | None:
        """The message id as acknowledgements name it."""
        if self._sent_as is not None:
            producer_id, sequence = self._sent_as
            self.wire_id = commands.MessageId(None, producer_id, sequence)
        elif self._dispatched_as is not None:
            self.wire_id = self._dispatched_as.message_id
        return self._wire_id

    @wire_id.setter
    def wire_id(self, value: commands.MessageId | None) -> None:
        self._wire_id = value
        self._sent_as = self._dispatched_as = None

    @property
    def message_id(self) -> str | None:
        """JMSMessageID; given by the producer that sends the message."""
        wire_id = self.wire_id
        return None if wire_id is None else str(wire_id)

    @message_id.setter
    def message_id(self, text: str | None) -> None:
        checked = _checked_text("message_id", text)
        self.wire_id = None if checked is None else commands.MessageId(text_view=checked)

    @property
    def destination(self) -> Destination | None:
        """JMSDestination; text such as `topic://prices` may be set too, and is a queue's name without a prefix."""
        return _destination(self._destination)

    @destination.setter
    def destination(self, value: Destination | str | None) -> None:
        self._destination = _parsed(value)

    @property
    def reply_to(self) -> Destination | None:
        """JMSReplyTo: where an answer should go."""
        return _destination(self._reply_to)

    @reply_to.setter
    def reply_to(self, value: Destination | str | None) -> None:
        self._reply_to = _parsed(value)

    @property
    def original_destination(self) -> Destination | None:
        """Where a message was first sent that the broker moved, for instance to the dead-letter queue (F4)."""
        return _destination(self._original_destination)

    @property
    def correlation_id(self) -> str | None:
        """JMSCorrelationID: usually the id of the message that this one answers. Bytes are taken as UTF-8."""
        return self._correlation_id

    @correlation_id.setter
    def correlation_id(self, value: str | bytes | None) -> None:
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                raise IllegalArgumentError("a correlation id of bytes must be UTF-8: the wire has only text") from None
        self._correlation_id = _checked_text("correlation_id", value)

    @property
    def correlation_id_bytes(self) -> bytes | None:
        """JMSCorrelationIDAsBytes: the same in UTF-8."""
        text = self._correlation_id
        return None if text is None else text.encode("utf-8", "surrogatepass")

    @property
    def delivery_mode(self) -> DeliveryMode:
        """JMSDeliveryMode; JMS's numbers may be set too."""
        return self._delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: DeliveryMode | int) -> None:
        try:
            self._delivery_mode = DeliveryMode(value)
        except ValueError:
            raise IllegalArgumentError(f"a delivery mode is 1 or 2, not {value!r}") from None

    @property
    def priority(self) -> int:
        """JMSPriority, 0 to 9."""
        return self._priority

    @priority.setter
    def priority(self, value: int) -> None:
        if value not in range(PRIORITY_MAX + 1):
            raise IllegalArgumentError(f"a priority is 0 to {PRIORITY_MAX}, not {value!r}")
        self._priority = int(value)

    @property
    def delivery_count(self) -> int:
        """JMSXDeliveryCount: which attempt to deliver the message this is; 1 for the first."""
        return self._redelivery_counter + 1

    @delivery_count.setter
    def delivery_count(self, count: int) -> None:
        if not 1 <= count < 2**31:
            raise IllegalArgumentError(f"a delivery count is 1 or more, not {count}")
        self._redelivery_counter = count - 1

    @property
    def redelivered(self) -> bool:
        """JMSRedelivered: it was delivered before, and perhaps processed."""
        return self._redelivery_counter > 0

    @redelivered.setter
    def redelivered(self, value: bool) -> None:
        if value != self.redelivered:
            self._redelivery_counter = int(value)

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
        """Body and properties are what was received, to be decoded when somebody looks."""
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


def _checked_text(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise IllegalArgumentError(f"{name} is text, not {type(text).__name__}")
    try:
        check_string_length(encode_modified_utf8(text))
    except LocalProtocolError as error:
        raise IllegalArgumentError(f"{name}: {error}") from None
    return str.__str__(text)


def _parsed(value: Destination | str | None) -> Destination | None:
    try:
        return parse_written_destination(value) if isinstance(value, str) else value
    except InvalidDestination as error:
        raise InvalidDestinationError(str(error)) from None


def _destination(value: Destination | commands.ActiveMQDestination | None) -> Destination | None:
    """A received name is looked at when asked for: a bad one in a header must not keep the message away."""
    if value is None or isinstance(value, Destination):
        return value
    try:
        return destination_from_wire(value)
    except (InvalidDestination, RemoteProtocolError) as error:
        raise InvalidDestinationError(str(error)) from None


def _to_wire(value: Destination | commands.ActiveMQDestination | None) -> commands.ActiveMQDestination | None:
    return destination_to_wire(value) if isinstance(value, Destination) else value
