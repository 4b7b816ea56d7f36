"""Reads and rewrites messages for the broker: `ackwire.jms.message_editor.MessageEditor` on canonical frames.

Frequent operations have a fast path beside the plain codec: a selector asks for a property (`lookup.py`), or for
a field whose place is found by a short walk (`_usual_places`), and a message is copied to another destination and
nothing else about it changes (`_spliced`). What the fast paths do not know goes through the plain codec; tests compare
the two.

What the broker writes itself (advisories, messages under a new id) comes from one producer, whose connection id is
the broker's id. That id must be new at each start, because the count of its messages begins at 1 again.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, final

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination, derived_destination
from ackwire.jms.message import Message, Origin
from ackwire.jms.message_editor import Advisory, AdvisoryKind
from ackwire.jms.names import BODY, BODY_BYTES_MAX
from ackwire.jms.types import Long, Value
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.advisory_frames import DestinationAdvisories, DestinationEvent
from ackwire.wire.openwire.advisory_payloads import payload_of
from ackwire.wire.openwire.bodies import decode_text
from ackwire.wire.openwire.codec_fast import (
    CANONICAL,
    FastDecoder,
    FrameStamper,
    destination_to_wire,
    nested,
)
from ackwire.wire.openwire.frame_builder import FrameBuilder
from ackwire.wire.openwire.id_text import consumer_id_of, transaction_id_text
from ackwire.wire.openwire.layout import (
    ABSENT,
    ABSENT_BYTES,
    COUNT_BYTES,
    EXPIRATION_AT,
    FIELDS_AT,
    GROUP_ID_AT,
    INT,
    INT_BYTES,
    LONG,
    LONG_BYTES,
    ORIGINAL_TRANSACTION_AT,
    PERSISTENT_AT,
    REPLY_TO_AT,
    SIZE_BYTES,
    TEXT_AT,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.lookup import QuickLookup, quick_properties_of
from ackwire.wire.openwire.marshal import Codec, LooseReader
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.structures import fields_of
from ackwire.wire.openwire.text import decode_modified_utf8
from ackwire.wire.openwire.walking import end_of_destination, end_of_string

_UNSTAMPED: Final = bytes(COUNT_BYTES)

_PREFIX_BYTES_MAX: Final = 2048
_ROUTES_MAX: Final = 1024
"""Remembered by one editor: at most these many ways from one origin to another destination, of this size."""

_HEAD_FIELDS: Final = fields_of(commands.Message)[2:7]
"""Producer id, destination, transaction id, original destination, message id."""

_PLAIN: Final = Codec(CANONICAL)

_DESTINATION_OPERATIONS: Final = {
    AdvisoryKind.DESTINATION_ADDED: commands.DestinationOperation.ADD,
    AdvisoryKind.DESTINATION_REMOVED: commands.DestinationOperation.REMOVE,
}


# ---- what a selector sees --------------------------------------------------------------------------------------

_MESSAGE_HEADERS: Final[dict[str, Callable[[Message], Value]]] = {
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSPriority": lambda message: message.priority,
    "JMSTimestamp": lambda message: Long(message.timestamp),
    "JMSExpiration": lambda message: Long(message.expiration),
    "JMSRedelivered": lambda message: message.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupID": lambda message: message.group_id,
    "JMSXGroupSeq": lambda message: message.group_sequence,
}
"""Headers that need no decoding."""

_FRAME_HEADERS: Final[dict[str, Callable[[bytes, "_Places"], Value]]] = {
    "JMSCorrelationID": lambda frame, places: _string_at(frame, places.correlation_id),
    "JMSType": lambda frame, places: _string_at(frame, places.type),
}
"""Headers that selectors often ask for: read where they stand."""

_STRUCTURE_HEADERS: Final[dict[str, Callable[[commands.Message], Value]]] = {
    "JMSDestination": lambda command: _destination_text(command.original_destination or command.destination),
    "JMSReplyTo": lambda command: _destination_text(command.reply_to),
    "JMSMessageID": lambda command: str(command.message_id),
    "JMSXUserID": lambda command: command.user_id,
    "JMSXProducerTXID": lambda command: transaction_id_text(command.original_transaction_id or command.transaction_id),
    "JMSXGroupFirstForConsumer": lambda command: command.group_first_for_consumer,
    "JMSActiveMQBrokerInTime": lambda command: Long(command.broker_in_time),
    "JMSActiveMQBrokerOutTime": lambda command: Long(command.broker_out_time),
    "JMSActiveMQBrokerPath": lambda command: _broker_path_text(command.broker_path),
}
"""The rest of what ActiveMQ's PropertyExpression knows."""


def _destination_text(wire: commands.ActiveMQDestination | None) -> str | None:
    return None if wire is None else f"{_DESTINATION_PREFIXES[wire.TYPE_ID]}{wire.physical_name}"


_DESTINATION_PREFIXES: Final = {
    commands.ActiveMQQueue.TYPE_ID: "queue://",
    commands.ActiveMQTopic.TYPE_ID: "topic://",
    commands.ActiveMQTempQueue.TYPE_ID: "temp-queue://",
    commands.ActiveMQTempTopic.TYPE_ID: "temp-topic://",
}


def _broker_path_text(path: tuple[commands.BrokerId | None, ...] | None) -> str:
    if path is None:
        return "null"
    return f"[{', '.join('null' if broker is None else str(broker.value) for broker in path)}]"


# ---- the places of fields in a frame ---------------------------------------------------------------------------


def _string_at(frame: bytes, position: int) -> str | None:
    return decode_modified_utf8(frame[position + TEXT_AT : end_of_string(frame, position)]) if frame[position] else None


@final
class _Places(NamedTuple):
    """Where some fields of a frame begin."""

    correlation_id: int
    expiration: int
    timestamp: int
    type: int


def _usual_places(frame: bytes, id_end: int) -> _Places | None:
    """Found by a walk over the fields that are usually there; None if the frame has others."""
    if frame[id_end + ORIGINAL_TRANSACTION_AT]:
        return None
    correlation_id = end_of_string(frame, id_end + GROUP_ID_AT) + INT_BYTES  # the group's sequence
    # From here on the places shift by what the optional fields in front of them hold.
    expiration = end_of_string(frame, correlation_id) + EXPIRATION_AT - PERSISTENT_AT
    reply_to = expiration + REPLY_TO_AT - EXPIRATION_AT
    timestamp = end_of_destination(frame, reply_to)
    return _Places(correlation_id, expiration, timestamp, timestamp + LONG_BYTES)


def _plain_places(frame: bytes, limits: WireLimits) -> _Places:
    """Found by reading every field before them."""
    reader = LooseReader(frame, CANONICAL, limits, None)
    begins: dict[str, int] = {}
    for field in fields_of(commands.Message):
        begins[field.name] = reader.position
        if field.name == "type":
            break
        reader.read(field)
    return _Places(*(begins[name] for name in _Places._fields))


@lru_cache(maxsize=_ROUTES_MAX)
def _destination_field(target: Destination) -> bytes:
    """*target* as it stands inside a message."""
    return nested(destination_to_wire(target))


@final
@dataclass(frozen=True, slots=True)
class _Route:
    """How the messages of one origin begin in their copies for another destination."""

    origin: Origin
    original_transaction: bytes
    """The transaction they were sent in, as a field; `ABSENT` for none."""


# ---- the editor ------------------------------------------------------------------------------------------------


@final
class OpenWireEditor:
    """Implements `MessageEditor`. Messages given to it came from a `FastDecoder`, so their frames are sound."""

    __slots__ = (
        "_clock",
        "_decoder",
        "_destination_advisories",
        "_limits",
        "_origin_properties",
        "_plain",
        "_producer_id",
        "_routes",
        "_sequence",
    )

    def __init__(
        self,
        broker_id: str,
        broker_name: str,
        clock: Clock,
        limits: WireLimits = DEFAULT_LIMITS,
        *,
        broker_url: str | None = None,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._plain = Codec(CANONICAL, limits)
        self._decoder = FastDecoder(limits, derived_destination)
        self._producer_id = commands.ProducerId(broker_id, 0, 0)
        self._sequence = itertools.count(1)
        self._routes: dict[tuple[bytes, Destination, Destination | None], _Route] = {}
        self._destination_advisories = DestinationAdvisories(self._plain_destination_advisory, self._decoder)
        self._origin_properties: dict[str, Value] = {
            "originBrokerId": broker_id,
            "originBrokerName": broker_name,
            "originBrokerURL": broker_url or f"vm://{broker_name}",
        }

    stamper: Final = FrameStamper()

    def restored(self, frame: bytes) -> Message:
        """The message whose bytes were kept: `stamp` has written its place in the broker's order into them."""
        message = self._decoder.message(frame)
        message.sequence = LONG.unpack_from(frame, message.origin.id_end)[0]
        message.redelivery_counter = 0
        return message

    # ---- reading -----------------------------------------------------------------------------------------------

    def lookup(self, message: Message) -> Callable[[str], Value]:
        """What a selector sees of *message*, with ActiveMQ's names; properties that cannot be decoded are None."""
        return QuickLookup(message, self._limits.entries_max, self._plain_lookup)

    def _plain_lookup(self, message: Message) -> Callable[[str], Value]:
        """The same the plain way, headers included."""
        properties: dict[str, Value] | None = None
        command: commands.Message | None = None

        def value_of(name: str) -> Value:
            nonlocal command, properties
            if name == BODY:
                return self._body(message)
            if name.startswith("JMS"):
                of_message = _MESSAGE_HEADERS.get(name)
                if of_message is not None:
                    return of_message(message)
                of_frame = _FRAME_HEADERS.get(name)
                if of_frame is not None:
                    return of_frame(message.frame, self._places(message))
                of_structure = _STRUCTURE_HEADERS.get(name)
                if of_structure is not None:
                    if command is None:
                        command = self._decoded(message.frame)
                    value = of_structure(command)
                    if value is not None or name != "JMSXUserID":  # which may be a property instead
                        return value
            if properties is None:
                try:
                    properties = self.properties(message)
                except RemoteProtocolError:
                    properties = {}
            return properties.get(name)

        return value_of

    def _body(self, message: Message) -> str | None:
        """The body of a text message; None where there is none, or it is too long or broken."""
        if len(message.frame) > 2 * BODY_BYTES_MAX:  # there are properties beside it
            return None
        command = self._decoded(message.frame)
        if not isinstance(command, commands.ActiveMQTextMessage):
            return None
        limits = replace(self._limits, inflated_bytes_max=BODY_BYTES_MAX)
        try:
            return decode_text(command.content, compressed=command.compressed, limits=limits)
        except RemoteProtocolError:
            return None

    def properties(self, message: Message) -> dict[str, Value]:
        """The message's properties; undecodable ones raise `RemoteProtocolError`."""
        properties = quick_properties_of(message, self._limits.entries_max)
        if properties is not None:
            return properties
        start, frame = message.properties_offset, message.frame
        end: int = start + INT.unpack_from(frame, start - INT_BYTES)[0]
        return decode_map(frame[start:end], self._limits)

    def message_id(self, message: Message) -> str:
        """JMSMessageID, for people."""
        reader = LooseReader(message.frame, CANONICAL, self._limits, None)
        reader.position = FIELDS_AT
        *_, message_id = (reader.read(field) for field in _HEAD_FIELDS)
        return str(message_id)

    def _places(self, message: Message) -> _Places:
        return _usual_places(message.frame, message.origin.id_end) or _plain_places(message.frame, self._limits)

    def _decoded(self, frame: bytes) -> commands.Message:
        command = self._plain.decode(frame)
        assert isinstance(command, commands.Message)
        return command

    # ---- rewriting ---------------------------------------------------------------------------------------------

    def with_expiration(self, message: Message, expiration: int, timestamp: int) -> None:
        """Change when *message* was sent and when it expires, in its bytes too (N1)."""
        frame = message.frame
        places = self._places(message)
        expiration_at, timestamp_at = places.expiration, places.timestamp
        message.frame = b"".join(
            (
                frame[:expiration_at],
                LONG.pack(expiration),
                frame[expiration_at + LONG_BYTES : timestamp_at],
                LONG.pack(timestamp),
                frame[timestamp_at + LONG_BYTES :],
            )
        )
        message.expiration = expiration
        message.timestamp = timestamp

    def readdressed(
        self,
        message: Message,
        destination: Destination,
        *,
        original_destination: Destination | None = None,
        properties: Mapping[str, Value] | None = None,
        removed_properties: tuple[str, ...] = (),
        expiration: int | None = None,
        persistent: bool | None = None,
        new_id: bool = False,
    ) -> Message:
        """A copy for *destination*, out of any transaction, not yet stamped, never redelivered.

        The transaction it was sent in is still told, as the original one. Properties that cannot be decoded are
        copied as they are: then none is added or removed.
        """
        same = expiration is None and persistent is None and not (properties or removed_properties or new_id)
        if same and not message.redelivery_counter:
            return _spliced(message, self._route(message, destination, original_destination))
        command = self._decoded(message.frame)
        command.destination = destination_to_wire(destination)
        if original_destination is not None:
            command.original_destination = destination_to_wire(original_destination)
        command.original_transaction_id = command.original_transaction_id or command.transaction_id
        command.transaction_id = None
        command.message_id = self._next_id() if new_id else _unstamped(command.message_id)
        command.redelivery_counter = 0
        if expiration is not None:
            command.expiration = expiration
        if persistent is not None:
            command.persistent = persistent
        if properties or removed_properties:
            command.marshalled_properties = self._edited(
                command.marshalled_properties, properties or {}, removed_properties
            )
        return self._message_of(command)

    def _edited(self, data: bytes | None, added: Mapping[str, Value], removed: tuple[str, ...]) -> bytes | None:
        """The property map *data* with entries *added* and *removed*. What is added must be encodable."""
        alone = encode_map(added) if added else None
        if data is None:
            return alone
        try:
            kept = {name: value for name, value in decode_map(data, self._limits).items() if name not in removed}
            return encode_map({**kept, **added}) if kept else alone
        except (RemoteProtocolError, LocalProtocolError):  # not a map, or one that only a foreign form can say
            return data

    def _next_id(self) -> commands.MessageId:
        return commands.MessageId(None, self._producer_id, next(self._sequence))

    def _message_of(self, command: commands.Message) -> Message:
        return self._decoder.message(self._plain.encode(command)[SIZE_BYTES:])

    def _route(self, message: Message, target: Destination, original: Destination | None) -> _Route:
        key = (message.origin.prefix, target, original)
        route = self._routes.get(key)
        if route is None:
            route = self._new_route(message, target, original)
            if len(key[0]) <= _PREFIX_BYTES_MAX:
                if len(self._routes) >= _ROUTES_MAX:
                    self._routes.clear()
                self._routes[key] = route
        return route

    def _new_route(self, message: Message, target: Destination, original: Destination | None) -> _Route:
        frame, old = message.frame, message.origin
        reader = LooseReader(frame, CANONICAL, self._limits, None)
        reader.position = FIELDS_AT
        ends = []
        for field in _HEAD_FIELDS[:4]:
            reader.read(field)
            ends.append(reader.position)
        producer_end, destination_end, transaction_end, original_end = ends
        prefix = b"".join(
            (
                frame[FIELDS_AT:producer_end],
                _destination_field(target),
                ABSENT,  # transaction
                frame[transaction_end:original_end] if original is None else _destination_field(original),
                frame[original_end : old.id_end - COUNT_BYTES],
            )
        )
        origin = Origin(
            prefix=prefix,
            destination=target,
            transaction=None,
            connection_id=old.connection_id,
            producer_key=old.producer_key,
            id_end=FIELDS_AT + len(prefix) + COUNT_BYTES,
        )
        return _Route(origin, frame[destination_end:transaction_end])

    # ---- advisories --------------------------------------------------------------------------------------------

    def advisory(self, advisory: Advisory) -> Message:
        """The message that tells of *advisory*, as ActiveMQ would send it, but with the time in its timestamp."""
        operation = _DESTINATION_OPERATIONS.get(advisory.kind)
        if operation is not None and advisory.destination is not None and not advisory.properties:
            target = advisory.target_consumer_id
            event = DestinationEvent(
                topic=advisory.topic,
                operation=operation,
                where=advisory.destination,
                connection_id=advisory.connection_id,
                target=None if target is None else consumer_id_of(target),
                sequence=next(self._sequence),
                timestamp=self._clock.now_ms(),
            )
            return self._destination_advisories.message(event)
        return self._decoder.message(self._advisory_frame(advisory, next(self._sequence), self._clock.now_ms()))

    def _plain_destination_advisory(self, event: DestinationEvent) -> bytes:
        kind = next(kind for kind, operation in _DESTINATION_OPERATIONS.items() if operation is event.operation)
        target = None if event.target is None else str(event.target)
        advisory = Advisory(
            kind,
            event.topic,
            destination=event.where,
            connection_id=event.connection_id,
            target_consumer_id=target,
        )
        return self._advisory_frame(advisory, event.sequence, event.timestamp)

    def _advisory_frame(self, advisory: Advisory, sequence: int, timestamp: int) -> bytes:
        target = advisory.target_consumer_id
        outgoing = FrameBuilder(self._producer_id, advisory.topic).advisory(
            sequence,
            encode_map({**self._origin_properties, **advisory.properties}),
            timestamp=timestamp,
            type="Advisory",
            data_structure=payload_of(advisory, self._subject(advisory)),
            target_consumer_id=None if target is None else consumer_id_of(target),
        )
        return outgoing.frame()

    def _subject(self, advisory: Advisory) -> commands.Message | None:
        """The message of an advisory as it is shown: ActiveMQ leaves the body out unless told otherwise.

        A payload of its own goes too: a peer could nest it so deep that one level more is over the limit.
        """
        if advisory.message is None:
            return None
        command = self._decoded(advisory.message.frame)
        command.content = None
        command.compressed = False
        command.data_structure = None
        return command


def _unstamped(message_id: commands.MessageId | None) -> commands.MessageId:
    assert message_id is not None
    return commands.MessageId(message_id.text_view, message_id.producer_id, message_id.producer_sequence_id)


def _spliced(message: Message, route: _Route) -> Message:
    """The copy that `readdressed` makes when nothing but the beginning changes.

    A counter of 0 stands behind the body as well: the broker only ever raises the one it read there.
    """
    frame, old, origin = message.frame, message.origin, route.origin
    rest_at = old.id_end + COUNT_BYTES
    transaction = b""
    if route.original_transaction != ABSENT and not frame[rest_at]:
        transaction = route.original_transaction
        rest_at += ABSENT_BYTES
    copied = b"".join(
        (
            frame[:FIELDS_AT],
            origin.prefix,
            frame[old.id_end - COUNT_BYTES : old.id_end],
            _UNSTAMPED,
            transaction,
            frame[rest_at:],
        )
    )
    offset, longer_by = message.properties_offset, len(copied) - len(frame)
    copy = Message(
        frame=copied,
        key=message.key,
        origin=origin,
        persistent=message.persistent,
        priority=message.priority,
        expiration=message.expiration,
        timestamp=message.timestamp,
        properties_offset=offset + longer_by if offset else 0,
        tail_offset=message.tail_offset + longer_by,
    )
    copy.group_id = message.group_id
    copy.group_sequence = message.group_sequence
    return copy
