"""Connections that deliver or do not (A1), kinds of messages (A4), headers and properties (A5)."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ackwire
from ackwire import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from ackwire.client import lookup
from ackwire.client.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidClientIdError,
    MessageEOFError,
    MessageFormatError,
    MessageNotWriteableError,
)
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.work import (
    NON_PERSISTENT,
    InThread,
    await_processed,
    await_that,
    await_waiting,
    fill,
    receive,
    receive_one,
    text_of,
    texts_of,
)

# ---- A1: start and stop ----------------------------------------------------------------------------------------


def test_A1_nothing_is_delivered_before_start(connect: Connect, connection: ackwire.Connection, queue: str) -> None:
    late = connect(start=False)
    consumer = late.session().consumer(queue)
    fill(connection, queue, 2)
    await_waiting(consumer, 2)
    assert not late.is_started
    assert consumer.receive_no_wait() is None
    late.start()
    assert texts_of(receive(consumer, 2)) == ["m0", "m1"]


def test_A1_a_listener_hears_nothing_before_start(connect: Connect, connection: ackwire.Connection, queue: str) -> None:
    late = connect(start=False)
    heard: list[str | None] = []
    consumer = late.session().consumer(queue)
    consumer.listener = lambda message: heard.append(text_of(message))
    fill(connection, queue, 2)
    await_waiting(consumer, 2)
    assert heard == []
    late.start()
    await_that(lambda: heard == ["m0", "m1"], "both were heard")


def test_A1_a_producer_needs_no_start(connect: Connect, connection: ackwire.Connection, queue: str) -> None:
    connect(start=False).session().producer(queue).send("early")
    assert text_of(connection.session().consumer(queue).receive(10)) == "early"


def test_A1_stop_pauses_and_start_goes_on(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    fill(connection, queue, 3)
    assert text_of(receive_one(consumer)) == "m0"
    connection.stop()
    await_waiting(consumer, 2)
    assert consumer.receive_no_wait() is None
    assert consumer.receive(0.01) is None
    waiting = InThread(lambda: consumer.receive(None))
    waiting.assert_waits()
    connection.start()
    assert text_of(waiting.result()) == "m1"
    assert text_of(receive_one(consumer)) == "m2"


def test_A1_stop_and_start_twice_are_as_good_as_once(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    for change in (connection.stop, connection.stop, connection.start, connection.start):
        change()
    fill(connection, queue, 1)
    receive_one(consumer)


def test_A1_stop_waits_for_the_listener_at_work(connection: ackwire.Connection, queue: str) -> None:
    at_work, may_return = threading.Event(), threading.Event()
    heard: list[str | None] = []

    def listener(message: Message) -> None:
        at_work.set()
        may_return.wait(10)
        heard.append(text_of(message))

    consumer = connection.session().consumer(queue)
    consumer.listener = listener
    fill(connection, queue, 2)
    assert at_work.wait(10)
    stopping = InThread(connection.stop)
    stopping.assert_waits()
    may_return.set()
    stopping.result()
    assert heard == ["m0"]
    connection.start()
    await_that(lambda: heard == ["m0", "m1"], "the second was heard")


def test_A1_a_listener_may_stop_its_connection(connection: ackwire.Connection, queue: str) -> None:
    heard: list[str | None] = []

    def listener(message: Message) -> None:
        connection.stop()
        heard.append(text_of(message))

    consumer = connection.session().consumer(queue)
    consumer.listener = listener
    fill(connection, queue, 2)
    await_that(lambda: heard == ["m0"], "the first was heard")
    await_waiting(consumer, 1)
    assert heard == ["m0"]
    connection.start()
    await_that(lambda: heard == ["m0", "m1"], "the second was heard")


def test_A1_a_connection_of_a_factory_is_not_started_and_logs_in_when_used(broker: Broker, queue: str) -> None:
    factory = ackwire.ConnectionFactory(broker.url)
    with factory.create_connection() as connection:
        assert not connection.is_started
        connection.client_id = f"client of {queue}"
        session = connection.session()
        with pytest.raises(IllegalStateError):
            connection.client_id = "another"
        session.producer(queue).send("hello")
        consumer = session.consumer(queue)
        connection.start()
        assert text_of(receive_one(consumer)) == "hello"
        assert connection.client_id == f"client of {queue}"


def test_A1_a_client_id_belongs_to_one_connection(connect: Connect, queue: str) -> None:
    connect(client_id=f"client of {queue}")
    with pytest.raises(InvalidClientIdError):
        connect(client_id=f"client of {queue}")


def test_A1_a_factory_and_a_destination_are_looked_up_by_name(broker: Broker, queue: str, tmp_path: Path) -> None:
    config = tmp_path / "ackwire.toml"
    config.write_text(
        f'[client.factories.main]\nurl = "{broker.url}"\n'
        f'[client.destinations]\norders = "{queue}?consumer.prefetchSize=7"\n'
    )
    with ackwire.ConnectionFactory.lookup("main", str(config)).create_connection() as connection:
        connection.start()
        session = connection.session()
        where = lookup.destination("orders", str(config))
        consumer = session.consumer(where)
        session.producer(where).send("found")
        assert text_of(receive_one(consumer)) == "found"
        assert consumer._core.prefetch == 7


def test_A1_the_broker_says_who_it_is(connection: ackwire.Connection, broker: Broker) -> None:
    assert ("Ackwire" if broker.is_ours else "ActiveMQ") in connection.peer
    assert connection.address.startswith("tcp://127.0.0.1:")


def test_A1_tls_serves_as_well(connect: Connect, broker: Broker, queue: str) -> None:
    session = connect(broker.ssl_url).session()
    session.producer(queue).send("secret")
    assert text_of(receive_one(session.consumer(queue))) == "secret"


# ---- A4: kinds -------------------------------------------------------------------------------------------------

VALUES: dict[str, Value] = {
    "boolean": True,
    "byte": Byte(-128),
    "short": Short(-32768),
    "char": Char("ü"),
    "int": Int(2**31 - 1),
    "long": Long(-(2**63)),
    "float": Float(0.5),
    "double": 1e300,
    "text": "tëxt \N{GRINNING FACE} \x00",
    "bytes": b"\0\xff",
}


def _same(received: Any, sent: Any) -> bool:
    return type(received) is type(sent) and received == sent


def _roundtrip(connection: ackwire.Connection, queue: str, body: Any, **headers: Any) -> Any:
    session = connection.session()
    session.producer(queue).send(body, **headers)
    received = receive_one(session.consumer(queue))
    session.close()
    return received


@pytest.mark.parametrize("text", ["", "plain", "tëxt \N{GRINNING FACE} \x00", "x" * 100_000, None])
def test_A4_text(connection: ackwire.Connection, queue: str, text: str | None) -> None:
    received = _roundtrip(connection, queue, TextMessage(text))
    assert type(received) is TextMessage
    assert received.text == text


@pytest.mark.parametrize("data", [b"", b"\0\xff" * 70_000])
def test_A4_bytes(connection: ackwire.Connection, queue: str, data: bytes) -> None:
    received = _roundtrip(connection, queue, data)
    assert type(received) is BytesMessage
    assert (received.data, received.body_length) == (data, len(data))


def test_A4_bytes_written_and_read_piece_by_piece(connection: ackwire.Connection, queue: str) -> None:
    message = BytesMessage()
    message.write_boolean(True)
    message.write_short(-2)
    message.write_long(2**40)
    message.write_double(0.25)
    message.write_utf("ütf")
    received = _roundtrip(connection, queue, message)
    assert received.read_boolean() is True
    assert (received.read_short(), received.read_long(), received.read_double()) == (-2, 2**40, 0.25)
    assert received.read_utf() == "ütf"
    with pytest.raises(MessageEOFError):
        received.read_byte()


def test_A4_map(connection: ackwire.Connection, queue: str) -> None:
    received = _roundtrip(connection, queue, {**VALUES, "null": None})
    assert type(received) is MapMessage
    assert set(received.entries) == {*VALUES, "null"}
    assert [name for name, sent in VALUES.items() if not _same(received.entries[name], sent)] == []
    assert received.entries["null"] is None
    assert received.entries.get_string("int") == str(2**31 - 1)  # JMS's conversions
    with pytest.raises(MessageFormatError):
        received.entries.get_boolean("int")


def test_A4_stream(connection: ackwire.Connection, queue: str) -> None:
    received = _roundtrip(connection, queue, StreamMessage([*VALUES.values(), None]))
    assert type(received) is StreamMessage
    *values, null = received.values
    assert [sent for value, sent in zip(values, VALUES.values(), strict=True) if not _same(value, sent)] == []
    assert null is None
    assert (received.read_boolean(), received.read_int(), received.read_string()) == (True, -128, "-32768")


def test_A4_an_object_is_opaque(connection: ackwire.Connection, queue: str) -> None:
    received = _roundtrip(connection, queue, ObjectMessage(b"\xac\xed\0\5t\0\2hi"))
    assert type(received) is ObjectMessage
    assert received.data == b"\xac\xed\0\5t\0\2hi"


def test_A4_a_message_without_a_body(connection: ackwire.Connection, queue: str) -> None:
    received = _roundtrip(connection, queue, None, properties={"only": "this"})
    assert type(received) is Message
    assert received.properties["only"] == "this"


@pytest.mark.parametrize(
    ("kind", "body"),
    [(TextMessage, "text"), (BytesMessage, b"bytes"), (MapMessage, {"a": Int(1)}), (StreamMessage, [Int(1), "two"])],
)
def test_A4_compressed_bodies_arrive_the_same(
    connect: Connect, broker: Broker, queue: str, kind: type[Message], body: Any
) -> None:
    connection = connect(broker.url_with(jms__useCompression=True))
    received = _roundtrip(connection, queue, kind(body))  # type: ignore[call-arg]
    assert received.dispatch.compressed
    assert type(received) is kind
    assert _body(received) == body


def _body(message: Message) -> Any:
    match message:
        case TextMessage():
            return message.text
        case BytesMessage():
            return message.data
        case MapMessage():
            return dict(message.entries)
        case StreamMessage():
            return message.values
    return None


# ---- A5: headers and properties --------------------------------------------------------------------------------


def test_A5_headers_that_sending_sets(connection: ackwire.Connection, queue: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    session = connection.session()
    sent = session.producer(queue).send("body")
    after_ms = time.time_ns() // 1_000_000
    received = receive_one(session.consumer(queue))
    where = destination(Kind.QUEUE, queue.removeprefix("queue://"))
    for message in (sent, received):  # the sender's own object shows them too
        assert message.message_id == sent.message_id
        assert message.destination == where
        assert message.delivery_mode is DeliveryMode.PERSISTENT
        assert (message.priority, message.expiration) == (4, 0)
        assert before_ms <= message.timestamp <= after_ms
        assert (message.redelivered, message.delivery_count) == (False, 1)
        assert (message.correlation_id, message.reply_to, message.type) == (None, None, None)
        assert (message.group_id, message.group_sequence, message.user_id) == (None, 0, None)
    assert sent.message_id is not None
    assert sent.message_id.startswith("ID:")


def test_A5_headers_that_the_application_sets(connection: ackwire.Connection, queue: str, topic: str) -> None:
    received = _roundtrip(
        connection,
        queue,
        "body",
        delivery_mode=NON_PERSISTENT,
        priority=7,
        time_to_live_ms=60_000,
        correlation_id="corrélation",
        reply_to=topic,
        type="order",
        group_id="group",
        group_sequence=3,
    )
    assert received.delivery_mode is NON_PERSISTENT
    assert received.priority == 7
    assert received.expiration == received.timestamp + 60_000
    assert received.correlation_id == "corrélation"
    assert received.correlation_id_bytes == "corrélation".encode()
    assert str(received.reply_to) == topic
    assert received.type == "order"
    assert (received.group_id, received.group_sequence) == ("group", 3)
    assert (received.properties["JMSXGroupID"], received.properties["JMSXGroupSeq"]) == ("group", 3)


def test_A5_the_producer_has_defaults_and_each_send_may_differ(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    producer = session.producer(queue)
    producer.delivery_mode = NON_PERSISTENT
    producer.priority = 2
    producer.time_to_live_ms = 60_000
    producer.disable_timestamp = True
    consumer = session.consumer(queue)
    producer.send("defaults")
    first = receive_one(consumer)
    producer.send("own", delivery_mode=DeliveryMode.PERSISTENT, priority=9, time_to_live_ms=0)
    second = receive_one(consumer)
    assert (first.delivery_mode, first.priority, first.timestamp) == (NON_PERSISTENT, 2, 0)
    assert first.expiration > 60_000
    assert (second.delivery_mode, second.priority, second.expiration) == (DeliveryMode.PERSISTENT, 9, 0)


def test_A5_ids_are_unique_and_count_up_within_a_producer(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    producers = [session.producer(queue) for _ in range(2)] + [connection.session().producer(queue)]
    sent = [producer.send("body").message_id for producer in producers for _ in range(3)]
    assert len(set(sent)) == 9
    parts = [str(message_id).rpartition(":") for message_id in sent]
    assert [number for _, _, number in parts] == ["1", "2", "3"] * 3
    received = [message.message_id for message in receive(session.consumer(queue), 9)]
    assert received == sent


def test_A5_properties_keep_their_types(connection: ackwire.Connection, queue: str) -> None:
    values = {name: value for name, value in VALUES.items() if name not in ("char", "bytes")}
    received = _roundtrip(connection, queue, "body", properties=values)
    assert {name for name in received.properties if not name.startswith("JMSX")} == set(values)
    assert [name for name, sent in values.items() if not _same(received.properties[name], sent)] == []
    assert received.properties.get_string("boolean") == "true"
    assert received.properties["JMSXDeliveryCount"] == 1


@pytest.mark.parametrize("name", ["", "a b", "select-me", "NULL", "1st"])
def test_A5_a_property_name_must_be_fit_for_selectors(connection: ackwire.Connection, name: str) -> None:
    with pytest.raises(IllegalArgumentError):
        connection.session().text_message("x").properties[name] = 1


WRITES: dict[type[Message], tuple[Any, Callable[[Any], object]]] = {
    TextMessage: ("t", lambda m: setattr(m, "text", "other")),
    BytesMessage: (b"b", lambda m: m.write_byte(1)),
    MapMessage: ({"a": Int(1)}, lambda m: m.entries.set_int("a", 2)),
    StreamMessage: ([Int(1)], lambda m: m.write_int(2)),
    ObjectMessage: (b"o", lambda m: setattr(m, "data", b"other")),
}


@pytest.mark.parametrize("kind", WRITES)
def test_A5_a_received_body_is_read_only_until_cleared(
    connection: ackwire.Connection, queue: str, kind: type[Message]
) -> None:
    body, write = WRITES[kind]
    received = _roundtrip(connection, queue, kind(body))  # type: ignore[call-arg]
    assert received.body_is_read_only
    with pytest.raises(MessageNotWriteableError):
        write(received)
    received.clear_body()
    write(received)
    assert not received.body_is_read_only


def test_A5_received_properties_are_read_only_until_cleared(connection: ackwire.Connection, queue: str) -> None:
    received = _roundtrip(connection, queue, "body", properties={"a": Int(1)})
    with pytest.raises(MessageNotWriteableError):
        received.properties["b"] = 2
    with pytest.raises(MessageNotWriteableError):
        del received.properties["a"]
    received.clear_properties()
    received.properties["b"] = 2
    assert "a" not in received.properties
    assert received.text == "body"  # which stays


def test_A5_headers_of_a_received_message_may_be_set_and_it_may_be_sent_on(
    connection: ackwire.Connection, queue: str
) -> None:
    first = _roundtrip(connection, queue, "body", properties={"a": Int(1)}, correlation_id="c")
    first_id = first.message_id
    first.type = "forwarded"
    second = _roundtrip(connection, queue, first)
    assert second.message_id == first.message_id != first_id
    assert (second.text, second.properties["a"], second.correlation_id, second.type) == ("body", 1, "c", "forwarded")


@pytest.mark.parametrize("priority", [-1, 10])
def test_A5_a_priority_is_0_to_9(connection: ackwire.Connection, queue: str, priority: int) -> None:
    producer = connection.session().producer(queue)
    with pytest.raises(IllegalArgumentError):
        producer.send("body", priority=priority)


def test_A5_a_delivery_mode_is_persistent_or_not(connection: ackwire.Connection, queue: str) -> None:
    producer = connection.session().producer(queue)
    with pytest.raises(IllegalArgumentError):
        producer.send("body", delivery_mode=3)
    with pytest.raises(IllegalArgumentError):
        producer.delivery_mode = 0


def test_A5_what_cannot_be_sent_is_refused_and_nothing_goes_out(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    producer = session.producer(queue)
    with pytest.raises(MessageFormatError):
        producer.send(object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="colour"):
        producer.send("body", colour="red")
    await_processed(connection, queue)
    assert session.consumer(queue).receive_no_wait() is None


def test_A5_a_destination_prints_as_it_is_written(queue: str) -> None:
    where = destination(Kind.QUEUE, queue.removeprefix("queue://"))
    assert isinstance(where, Destination)
    assert str(where) == queue
