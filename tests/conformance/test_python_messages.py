"""The messages of our Python client and ActiveMQ's Java client understand each other (A4, A5).

There is no connection behind the messages yet: the tests' own small client carries what they encode.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from ackwire.client.conversions import type_of
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from_dispatch,
)
from ackwire.jms import types
from tests.conformance.jms import NON_PERSISTENT, Jms, Outgoing, Received, Value, with_options
from tests.conformance.routes import Broker
from tests.conformance.test_message_kinds import DIFFICULT_TEXT, KINDS, MAP_BODY, PROPERTIES, STREAM_BODY
from tests.helpers.openwire_client import UNWATCHED, OpenWireClient, queue

Pairs = dict[str, Value]

_FROM_JAVA: Final[dict[str, Callable[[Any], types.Value]]] = {
    "byte": types.Byte,
    "short": types.Short,
    "char": types.Char,
    "int": types.Int,
    "long": types.Long,
    "float": types.Float,
}
_JAVA_NAMES: Final = {"String": "string", "byte[]": "bytes"}

by_compression = pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])


def python_value(value: Value) -> types.Value:
    """What our classes make of a value of the Java driver's."""
    match value:
        case Value("list", items):
            return [python_value(item) for item in items]
        case Value("map", entries):
            return {name: python_value(item) for name, item in entries.items()}
    convert = _FROM_JAVA.get(value.type)
    plain: types.Value = value.value
    return plain if convert is None else convert(plain)


def java_value(value: types.Value) -> Value:
    """The same the other way round."""
    kind = type_of(value)
    if isinstance(value, dict):
        return Value(kind, {name: java_value(item) for name, item in value.items()})
    if isinstance(value, list):
        return Value(kind, [java_value(item) for item in value])
    if isinstance(value, float) and math.isnan(value):
        return Value(kind, math.nan)  # the one nan equals itself
    return Value(_JAVA_NAMES.get(kind, kind), value)


def python_values(pairs: Pairs) -> dict[str, types.Value]:
    return {name: python_value(value) for name, value in pairs.items()}


def written_bytes() -> BytesMessage:
    message = BytesMessage()
    body = KINDS["bytes"][0].body
    assert isinstance(body, list)
    for value in body:
        message.write_object(python_value(value))
    return message


OURS: Final[dict[str, Callable[[], Message]]] = {
    "plain": Message,
    "text": lambda: TextMessage("hello"),
    "difficult text": lambda: TextMessage(DIFFICULT_TEXT),
    "empty text": lambda: TextMessage(""),
    "null text": TextMessage,
    "map": lambda: MapMessage(python_values(MAP_BODY)),
    "empty map": MapMessage,
    "bytes": written_bytes,
    "empty bytes": BytesMessage,
    "stream": lambda: StreamMessage(python_value(value) for value in STREAM_BODY),
    "empty stream": StreamMessage,
}


class Carrier:
    """Sends and receives our messages over one connection."""

    def __init__(self, client: OpenWireClient) -> None:
        self._client = client

    def send(self, name: str, *messages: Message, use_compression: bool = False) -> None:
        for message in messages:
            message.destination = name
            producer = self._client.producer
            command = message.to_command(use_compression=use_compression)
            text = self._client.text_message(queue("unused"), "")  # for its id
            command.producer_id, command.message_id = producer, text.message_id
            self._client.request(command)

    def receive(self, name: str, count: int) -> list[Message]:
        consumer = self._client.subscribe(queue(name.removeprefix("queue://")))
        return [self._receive_one(consumer) for _ in range(count)]

    def _receive_one(self, consumer: Any) -> Message:
        dispatch = self._client.receive(consumer)
        self._client.ack(dispatch)
        message = message_from_dispatch(dispatch)
        assert message is not None
        return message


@pytest.fixture(params=["tcp", "tight-cached"])
def carrier(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Carrier]:
    tight_and_cached = request.param == "tight-cached"
    wants = replace(UNWATCHED, tight=tight_and_cached, cache=tight_and_cached)
    with OpenWireClient.logged_in(broker.port(request.param), wants) as client:
        yield Carrier(client)
        client.log_out()


def java_receives(jms: Jms, url: str, name: str, count: int) -> list[Received]:
    with jms.connect(url) as connection:
        return connection.session().consumer(name).receive_expected(count)


def body_of(message: Message) -> Any:
    """The body in the words of the Java driver."""
    match message:
        case TextMessage():
            return message.text
        case MapMessage():
            return {name: java_value(value) for name, value in message.entries.items()}
        case StreamMessage():
            return [java_value(value) for value in message.values]
        case BytesMessage():
            return message.data
    return None


# ---- ours, read by Java ----------------------------------------------------------------------------------------


@by_compression
def test_A4_java_reads_every_kind_that_we_write(
    jms: Jms, tcp: str, queue: str, carrier: Carrier, compressed: bool
) -> None:
    """A4: every kind, empty and null bodies, every type of value, every script."""
    carrier.send(queue, *(make() for make in OURS.values()), use_compression=compressed)
    received = java_receives(jms, tcp, queue, len(OURS))
    actual = {name: (message.kind, message.body) for name, message in zip(OURS, received, strict=True)}
    assert actual == {name: (KINDS[name][0].kind, KINDS[name][1]) for name in OURS}
    if compressed:
        assert {message.kind for message in received if message.compressed} == {"text", "map", "bytes", "stream"}


def test_A4_java_reads_properties_of_every_type(jms: Jms, tcp: str, queue: str, carrier: Carrier) -> None:
    """A4: properties keep their types."""
    message = TextMessage("with properties")
    message.properties.update(python_values(PROPERTIES))
    carrier.send(queue, message)
    [received] = java_receives(jms, tcp, queue, 1)
    assert received.properties == PROPERTIES


def test_A5_java_reads_every_header(jms: Jms, tcp: str, queue: str, carrier: Carrier) -> None:
    """A5: reply-to, correlation id, type, mode, priority, times and group."""
    message = Message()
    message.correlation_id, message.type, message.reply_to = "corrélation 😀", "événement", "topic://replies.ü"
    message.delivery_mode, message.priority = DeliveryMode.NON_PERSISTENT, 9
    message.timestamp = 4_000_000_000_000
    message.expiration = message.timestamp + 3_600_000
    message.properties.update({"JMSXGroupID": "gröup", "JMSXGroupSeq": 7})
    carrier.send(queue, message)
    [received] = java_receives(jms, tcp, queue, 1)
    assert received.correlation_id == "corrélation 😀"
    assert (received.type, received.reply_to, received.destination) == ("événement", "topic://replies.ü", queue)
    assert (received.delivery_mode, received.priority) == (NON_PERSISTENT, 9)
    assert (received.timestamp, received.expiration) == (message.timestamp, message.expiration)
    assert (received.group_id, received.group_sequence) == ("gröup", 7)
    assert (received.redelivered, received.delivery_count) == (False, 1)


@by_compression
def test_A4_java_reads_the_objects_that_java_wrote(
    jms: Jms, tcp: str, queue: str, carrier: Carrier, compressed: bool
) -> None:
    """A4: an object passes through our classes as bytes, whole."""
    first, second = f"{queue}.first", f"{queue}.second"
    jms.send(tcp, first, Outgoing("object", Value("string", "Grüße")), Outgoing("object", Value("null", None)))
    objects = carrier.receive(first, 2)
    assert all(type(message) is ObjectMessage for message in objects)
    again = [ObjectMessage(message.data) for message in objects if isinstance(message, ObjectMessage)]
    carrier.send(second, *again, use_compression=compressed)
    received = java_receives(jms, tcp, second, 2)
    assert [message.body for message in received] == [Value("string", "Grüße"), Value("null", None)]


# ---- Java's, read by us ----------------------------------------------------------------------------------------


@by_compression
def test_A4_we_read_every_kind_that_java_writes(
    jms: Jms, tcp: str, queue: str, carrier: Carrier, compressed: bool
) -> None:
    """A4: bodies keep their values and types."""
    jms.send(with_options(tcp, jms__useCompression=compressed), queue, *(KINDS[name][0] for name in OURS))
    received = carrier.receive(queue, len(OURS))
    assert [type(message) for message in received] == [type(make()) for make in OURS.values()]
    actual = {name: body_of(message) for name, message in zip(OURS, received, strict=True)}
    assert actual == {name: KINDS[name][1] for name in OURS}
    assert all(message.body_is_read_only for message in received)


def test_A4_A5_we_read_headers_and_properties_that_java_writes(
    jms: Jms, tcp: str, queue: str, carrier: Carrier
) -> None:
    """A4, A5: types of properties, and every header."""
    group = {"JMSXGroupID": Value("string", "gröup"), "JMSXGroupSeq": Value("int", 7)}
    outgoing = Outgoing(
        "plain",
        properties=PROPERTIES | group,
        correlation_id="corrélation 😀",
        type="événement",
        reply_to="topic://replies.ü",
    )
    how = {"delivery_mode": NON_PERSISTENT, "priority": 9, "time_to_live_ms": 3_600_000}
    [message_id] = jms.send(tcp, queue, outgoing, **how)
    [message] = carrier.receive(queue, 1)
    assert message.message_id == message_id
    assert {name: java_value(value) for name, value in message.properties.items()} == PROPERTIES | group
    assert (message.correlation_id, message.type) == (outgoing.correlation_id, outgoing.type)
    assert (repr(message.destination), repr(message.reply_to)) == (queue, "topic://replies.ü")
    assert (message.delivery_mode, message.priority) == (DeliveryMode.NON_PERSISTENT, 9)
    assert message.expiration == message.timestamp + 3_600_000
    assert (message.group_id, message.group_sequence) == ("gröup", 7)
    assert (message.redelivered, message.delivery_count) == (False, 1)


@by_compression
def test_A4_what_java_wrote_is_sent_on_unread_and_unchanged(
    jms: Jms, tcp: str, queue: str, carrier: Carrier, compressed: bool
) -> None:
    """A4: a received message can be sent on; nothing of it is decoded for that."""
    first, second = f"{queue}.first", f"{queue}.second"
    outgoing = [kind for kind, _ in KINDS.values()]
    jms.send(with_options(tcp, jms__useCompression=compressed), first, *outgoing)
    carrier.send(second, *carrier.receive(first, len(outgoing)))
    received = java_receives(jms, tcp, second, len(outgoing))
    assert [message.body for message in received] == [body for _, body in KINDS.values()]
