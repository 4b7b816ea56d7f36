"""The headers of a message: each JMS header is one attribute, checked when it is set (A5).

Messages are made by the thousand, so they are cheap to make: a header that most messages do not have is a default of
the class, and the message id becomes an object when somebody reads it. Times are milliseconds since 1970.
"""

from enum import IntEnum
from typing import Final

from ackwire.client.conversions import integer_of
from ackwire.client.errors import IllegalArgumentError, InvalidDestinationError, MessageFormatError
from ackwire.errors import InvalidDestination, LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination, parse_written_destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.codec_fast import destination_from_wire
from ackwire.wire.openwire.text import check_string_length, encode_modified_utf8

PRIORITY_DEFAULT: Final = 4
PRIORITY_MAX: Final = 9


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker; the numbers are JMS's."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


class _TextHeader:
    """A header of text, or None; it must fit into the wire's 64 kB."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    def __get__(self, message: "MessageHeaders", owner: type) -> str | None:
        text: str | None = getattr(message, self._slot)
        return text

    def __set__(self, message: "MessageHeaders", text: str | None) -> None:
        setattr(message, self._slot, _checked_text(self._name, text))


class _NumberHeader:
    """A header of a JMS integer type, 0 unless set."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    def __get__(self, message: "MessageHeaders", owner: type) -> int:
        number: int = getattr(message, self._slot)
        return number

    def __set__(self, message: "MessageHeaders", number: int) -> None:
        try:
            setattr(message, self._slot, int(integer_of(number, self._kind)))
        except MessageFormatError as error:
            raise IllegalArgumentError(f"{self._name}: {error}") from None


class MessageHeaders:
    """The JMS headers of a message, whatever its body."""

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
    _delivery_mode = DeliveryMode.PERSISTENT
    _priority = PRIORITY_DEFAULT
    _redelivery_counter = 0

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
