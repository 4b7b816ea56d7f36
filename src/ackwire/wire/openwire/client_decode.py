"""Decodes dispatched messages quickly: what a client receives most.

How it works. A dispatch in canonical form begins with the consumer and the destination, and the message in it with its
producer and again the destination: bytes that repeat. The first dispatch of each kind goes through the plain codec,
and what its front said is remembered (`Channel`, `Source`); from then on a comparison recognises it. The fields behind
have fixed places as long as the optional ones are absent, so two unpacks read them; the common optional ones are walked
over. Anything else goes through the plain codec, which has the last word.

Beyond what the plain codec asks for, a dispatch names a consumer, and its message has an id.
`tests/model/test_client_decode_agrees_with_plain.py` holds the two against each other.
"""

from struct import error as StructError
from typing import Final, TypeVar, final

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.codec_fast import CANONICAL, nested
from ackwire.wire.openwire.layout import (
    BEHIND_CORRELATION,
    BEHIND_CORRELATION_BYTES,
    BYTES_AT,
    CONSUMER_HEAD,
    COUNT_BYTES,
    COUNTS,
    COUNTS_BYTES,
    DISPATCH_TAIL,
    DISPATCH_TAIL_BEHIND_USER,
    DISPATCH_TAIL_BEHIND_USER_BYTES,
    DISPATCH_TAIL_BYTES,
    FIELDS_AT,
    HEADERS_AND_CONTENT,
    HEADERS_AND_CONTENT_BYTES,
    INT,
    INT_BYTES,
    LONG,
    LONG_BYTES,
    TAIL_UNTIL_USER,
    TAIL_UNTIL_USER_BYTES,
    UINT,
    UNTIL_GROUP_AS_BYTES,
    UNTIL_GROUP_BYTES,
    USUAL_TYPES,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.structures import Structure
from ackwire.wire.openwire.walking import (
    Unusual,
    bytes_at,
    destination_at,
    end_of_destination,
    end_of_resource_id,
    front_span,
    text_at,
)

_T = TypeVar("_T")

_FRONT_BYTES_MAX: Final = 2048
_FRONTS_MAX: Final = 256
"""Remembered per connection: at most these many channels and as many sources, of this size."""


@final
class Channel:
    """Where dispatches come in: a consumer, and one of the destinations that it consumes from."""

    __slots__ = ("ack_template", "consumer_id", "destination")

    def __init__(self, consumer_id: commands.ConsumerId, destination: commands.ActiveMQDestination | None) -> None:
        self.consumer_id = consumer_id
        self.destination = destination
        self.ack_template = AckTemplate(consumer_id, destination)
        """For acks outside of transactions."""


@final
class Source:
    """What the messages of one producer to one destination have in common."""

    __slots__ = ("destination", "id_prefix", "original_destination", "producer_id", "text_view")

    def __init__(
        self,
        message_id: commands.MessageId,
        destination: commands.ActiveMQDestination | None,
        original_destination: commands.ActiveMQDestination | None,
    ) -> None:
        self.producer_id = message_id.producer_id
        self.text_view = message_id.text_view
        self.id_prefix = nested(message_id)[:-COUNTS_BYTES]
        """The encoded message id up to its two counts, in Java's form."""
        self.destination = destination
        self.original_destination = original_destination


@final
class Extras:
    """The headers that most messages do without."""

    __slots__ = (
        "correlation_id",
        "data_structure",
        "group_first",
        "group_id",
        "group_sequence",
        "reply_to",
        "type",
        "user_id",
    )

    def __init__(
        self,
        correlation_id: str | None = None,
        reply_to: commands.ActiveMQDestination | None = None,
        type: str | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        user_id: str | None = None,
        data_structure: Structure | None = None,
        group_first: bool = False,
    ) -> None:
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.type = type
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.user_id = user_id
        self.data_structure = data_structure
        self.group_first = group_first
        """The first of its group that this consumer gets (H3); says nothing without a group."""


NO_EXTRAS: Final = Extras()


@final
class Dispatch:
    """A message for one of the client's consumers. Times are milliseconds since 1970, an `expiration` of 0 is never."""

    __slots__ = (
        "channel",
        "compressed",
        "content",
        "expiration",
        "extras",
        "persistent",
        "priority",
        "properties",
        "redelivery_counter",
        "sequences",
        "source",
        "timestamp",
        "type_id",
    )

    def __init__(
        self,
        channel: Channel,
        source: Source,
        type_id: int,
        sequences: bytes,
        persistent: bool,
        priority: int,
        expiration: int,
        timestamp: int,
        content: bytes | None,
        properties: bytes | None,
        compressed: bool,
        redelivery_counter: int,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.channel = channel
        self.source = source
        self.type_id = type_id
        """The kind of the message."""
        self.sequences = sequences
        """The producer's count and the broker's, encoded."""
        self.persistent = persistent
        self.priority = priority
        self.expiration = expiration
        self.timestamp = timestamp
        self.content = content
        self.properties = properties
        self.compressed = compressed
        self.redelivery_counter = redelivery_counter
        self.extras = extras

    @property
    def consumer_id(self) -> commands.ConsumerId:
        return self.channel.consumer_id

    @property
    def destination(self) -> commands.ActiveMQDestination | None:
        """What acks name; the message's own is its source's."""
        return self.channel.destination

    @property
    def message_key(self) -> bytes:
        """The same for the same message, whichever broker dispatches it: to look for duplicates."""
        return self.source.id_prefix + self.sequences[:COUNT_BYTES]

    @property
    def encoded_id(self) -> bytes:
        """The message id as acks take it."""
        return self.source.id_prefix + self.sequences

    @property
    def message_id(self) -> commands.MessageId:
        """The message id as a structure."""
        source = self.source
        return commands.MessageId(source.text_view, source.producer_id, *COUNTS.unpack(self.sequences))

    @property
    def producer_sequence(self) -> int:
        """Which of its producer's messages it is."""
        return int.from_bytes(self.sequences[:COUNT_BYTES], signed=True)

    @property
    def broker_sequence(self) -> int:
        """Its place in the broker's order."""
        return int.from_bytes(self.sequences[COUNT_BYTES:], signed=True)

    def __repr__(self) -> str:
        return f"<Dispatch of {self.message_id} to {self.consumer_id}>"


@final
class EndOfMessages:
    """Nothing (more) to come for a consumer: its pull found nothing, or its browse is at the end."""

    __slots__ = ("consumer_id",)

    def __init__(self, consumer_id: commands.ConsumerId) -> None:
        self.consumer_id = consumer_id


def dispatch_from(command: commands.MessageDispatch) -> Dispatch | EndOfMessages:
    """The event that *command* is. Raises `RemoteProtocolError` if it names no consumer, or its message has no id."""
    message = command.message
    if command.consumer_id is None:
        raise RemoteProtocolError("a dispatch without a consumer")
    if message is None:
        return EndOfMessages(command.consumer_id)
    message_id = message.message_id
    if message_id is None:
        raise RemoteProtocolError("a dispatched message without a message id")
    return Dispatch(
        Channel(command.consumer_id, command.destination),
        Source(message_id, message.destination, message.original_destination),
        message.TYPE_ID,
        COUNTS.pack(message_id.producer_sequence_id, message_id.broker_sequence_id),
        message.persistent,
        message.priority,
        message.expiration,
        message.timestamp,
        message.content,
        message.marshalled_properties,
        message.compressed,
        command.redelivery_counter,
        Extras(
            message.correlation_id,
            message.reply_to,
            message.type,
            message.group_id,
            message.group_sequence,
            message.user_id,
            message.data_structure,
            message.group_first_for_consumer and message.group_id is not None,
        ),
    )


@final
class DispatchDecoder:
    """Decodes MessageDispatch frames in canonical form; one per connection, because it remembers what repeats."""

    __slots__ = ("_channel", "_channels", "_header", "_plain", "_prefix", "_source", "_sources")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self._plain = Codec(CANONICAL, limits)
        self._channel: Channel | None = None
        self._header = b""
        """How the last frame began, up to the message."""
        self._channels: dict[bytes, Channel] = {}
        self._source: Source | None = None
        self._prefix = b""
        """How the fields of the last message began, up to the two counts of its id."""
        self._sources: dict[bytes, Source] = {}

    def dispatch(self, frame: bytes) -> Dispatch | EndOfMessages:
        """What *frame*, a MessageDispatch, says; raises `RemoteProtocolError` for anything that is not one."""
        channel = self._channel
        if channel is None or not frame.startswith(self._header, FIELDS_AT):
            channel = self._find_channel(frame)
        message_at = FIELDS_AT + len(self._header)
        source = self._source
        if channel is not None and (source is None or not frame.startswith(self._prefix, message_at + FIELDS_AT)):
            source = self._find_source(frame, message_at + FIELDS_AT)
        if channel is None or source is None or frame[message_at] not in USUAL_TYPES:
            return self._by_plain_codec(frame)
        at = message_at + FIELDS_AT + len(self._prefix)
        try:
            (
                sequences,
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
                content_length,
            ) = HEADERS_AND_CONTENT.unpack_from(frame, at)
            if original_transaction or group or group_sequence or correlation or reply_to or type_ or not content:
                return self._with_extras(frame, channel, source, message_at, at)
            content_at = at + HEADERS_AND_CONTENT_BYTES
            content_end = content_at + content_length
            properties = None
            end_at = content_end + 1
            if frame[content_end]:
                properties_at = content_end + BYTES_AT
                end_at = properties_at + UINT.unpack_from(frame, content_end + 1)[0]
                properties = frame[properties_at:end_at]
            if len(frame) - end_at != DISPATCH_TAIL_BYTES:
                return self._with_extras(frame, channel, source, message_at, at)
            data, target, compressed, path, user, cluster, redelivery_counter = DISPATCH_TAIL.unpack_from(frame, end_at)
        except (StructError, IndexError):
            return self._by_plain_codec(frame)
        if data or target or path or user or cluster:
            return self._by_plain_codec(frame)
        return Dispatch(
            channel,
            source,
            frame[message_at],
            sequences,
            persistent != 0,
            priority,
            expiration,
            timestamp,
            frame[content_at:content_end],
            properties,
            compressed != 0,
            redelivery_counter,
        )

    def _with_extras(
        self, frame: bytes, channel: Channel, source: Source, message_at: int, at: int
    ) -> Dispatch | EndOfMessages:
        """Group, correlation id, reply-to, type and user are common too, and so is no body: walk over them."""
        try:
            # What is absent is skipped right here: calls take time.
            sequences, original_transaction = UNTIL_GROUP_AS_BYTES.unpack_from(frame, at)
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
            cluster, group_first, redelivery_counter = DISPATCH_TAIL_BEHIND_USER.unpack_from(frame, at)
        except (Unusual, RemoteProtocolError, StructError, IndexError):
            return self._by_plain_codec(frame)
        if (
            original_transaction
            or data
            or target
            or path
            or cluster
            or at + DISPATCH_TAIL_BEHIND_USER_BYTES != len(frame)
        ):
            return self._by_plain_codec(frame)
        return Dispatch(
            channel,
            source,
            frame[message_at],
            sequences,
            persistent != 0,
            priority,
            expiration,
            timestamp,
            content,
            properties,
            compressed != 0,
            redelivery_counter,
            Extras(
                correlation_id,
                reply_to,
                type_,
                group_id,
                group_sequence,
                user_id,
                group_first=group_first != 0 and group_id is not None,
            ),
        )

    def _by_plain_codec(self, frame: bytes) -> Dispatch | EndOfMessages:
        command = self._plain.decode(frame)
        assert isinstance(command, commands.MessageDispatch)
        dispatch = dispatch_from(command)
        if isinstance(dispatch, Dispatch):
            self._remember(frame, dispatch)
        return dispatch

    # ---- what repeats ------------------------------------------------------------------------------------------

    def _find_channel(self, frame: bytes) -> Channel | None:
        end = _header_end(frame)
        if not end:
            return None
        header = frame[FIELDS_AT:end]
        channel = self._channels.get(header)
        if channel is not None:
            self._channel, self._header = channel, header
        return channel

    def _find_source(self, frame: bytes, at: int) -> Source | None:
        span = front_span(frame, at)
        if span is None:
            return None
        transaction_at, transaction_end, end = span
        source = self._sources.get(frame[at:transaction_at] + frame[transaction_end:end])
        if source is not None:
            self._source, self._prefix = source, frame[at:end]
        return source

    def _remember(self, frame: bytes, dispatch: Dispatch) -> None:
        """The plain codec took *frame*: its front needs no second look when it comes again."""
        message_at = _header_end(frame)
        if not message_at:
            return
        header = frame[FIELDS_AT:message_at]
        dispatch.channel = _kept(self._channels, header, dispatch.channel)
        at = message_at + FIELDS_AT
        span = front_span(frame, at)
        if span is not None:
            transaction_at, transaction_end, end = span
            key = frame[at:transaction_at] + frame[transaction_end:end]
            dispatch.source = _kept(self._sources, key, dispatch.source)


def _kept(known: dict[bytes, _T], front: bytes, value: _T) -> _T:
    """What is known under *front*: *value* from now on, if nothing was."""
    if len(front) > _FRONT_BYTES_MAX:
        return value
    if len(known) >= _FRONTS_MAX and front not in known:
        known.clear()
    return known.setdefault(front, value)


def _header_end(frame: bytes) -> int:
    """Where the message in a dispatch begins; 0 where the front has an unusual shape.

    Used to find a known front and to remember one that was checked, so it needs no checks of its own.
    """
    try:
        at = end_of_destination(frame, end_of_resource_id(frame, FIELDS_AT, CONSUMER_HEAD))
        return at + 1 if frame[at] == 1 else 0
    except (Unusual, StructError, IndexError):
        return 0
