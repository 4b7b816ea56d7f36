"""Selectors (A7) and names: wildcards, composites, virtual topics, options in names, removal (A8)."""

import queue as queues
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ackwire
from ackwire import AckMode, Connection, Kind, Message, parse_destination
from ackwire.jms import types
from tests.client.conftest import Connect
from tests.client.steps import (
    assert_nothing_comes,
    drain,
    name_of,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
)

# ---- selectors -------------------------------------------------------------------------------------------------

ORDERS: list[dict[str, Any]] = [
    {"color": "red", "n": 1, "price": 9.5, "vip": True},
    {"color": "blue", "n": 2, "price": 10.0, "vip": False, "note": "50%_off"},
    {"color": "green", "n": types.Long(3), "price": types.Float(10.5)},
    {"n": types.Short(4), "color": None},
    {"color": "O'Neil", "n": -5, "price": 1e3, "vip": True},
]

SELECTORS = {
    "color = 'red'": [0],
    "color <> 'red'": [1, 2, 4],
    "color IS NULL": [3],
    "color IS NOT NULL AND n > 1": [1, 2],
    "color IN ('red', 'blue')": [0, 1],
    "color NOT IN ('red', 'blue')": [2, 4],
    "color LIKE '%e%'": [0, 1, 2, 4],
    "color LIKE '_lue'": [1],
    "note LIKE '50!%!_%' ESCAPE '!'": [1],
    "color = 'O''Neil'": [4],
    "n BETWEEN 2 AND 4": [1, 2, 3],
    "n NOT BETWEEN 2 AND 4": [0, 4],
    "n * 2 + 1 = 7": [2],
    "n / 2 >= 1.5": [2, 3],
    "-n = 5": [4],
    "price > 9.5 AND price <= 10.5": [1, 2],
    "price >= 1E3": [4],
    "vip": [0, 4],
    "vip = FALSE": [1],
    "NOT vip": [1],
    "color = 'red' OR n = 2 AND vip": [0],
    "(color = 'red' OR n = 2) AND vip = FALSE": [1],
    "unknown = 1 OR n = 1": [0],
    "JMSPriority >= 3": [3, 4],
    "JMSType = 'kind0' OR JMSType LIKE '%4'": [0, 4],
    "JMSCorrelationID = 'c2'": [2],
    "JMSDeliveryMode = 'PERSISTENT' AND n = 1": [0],
}


@pytest.fixture
def orders(connection: Connection, queue: str) -> Connection:
    """A queue with ORDERS in it."""
    producer = connection.session().producer(queue)
    for number, properties in enumerate(ORDERS):
        given = {name: value for name, value in properties.items() if value is not None}
        producer.send(
            f"m{number}", properties=given, priority=number, type=f"kind{number}", correlation_id=f"c{number}"
        )
    return connection


def test_A7_a_browser_sees_what_the_selector_matches(orders: Connection, queue: str) -> None:
    """A7: comparisons, NULL, LIKE, IN, BETWEEN, arithmetic, headers; types as JMS says."""

    def look(selector: str) -> list[str | None]:
        with orders.session() as session:
            return texts(session.browser(queue, selector))

    # All at once: ActiveMQ ends a browse after a second.
    with ThreadPoolExecutor(len(SELECTORS)) as pool:
        found = dict(zip(SELECTORS, pool.map(look, SELECTORS), strict=True))
    assert found == {selector: numbered(numbers) for selector, numbers in SELECTORS.items()}


@pytest.mark.parametrize("way", ["argument", "name"])
def test_A7_a_consumer_gets_what_its_selector_matches_and_the_rest_stays(
    orders: Connection, queue: str, way: str
) -> None:
    """A7, A2: given as an argument, or in the destination's name."""
    with orders.session() as session:
        consumer = (
            session.consumer(queue, "n > 1")
            if way == "argument"
            else session.consumer(f"{queue}?consumer.selector=n%20%3E%201")
        )
        assert texts(receive_all(consumer, 3)) == ["m1", "m2", "m3"]
        assert_nothing_comes(consumer)
    assert texts(drain(orders, queue)) == ["m0", "m4"]


def test_A7_a_topic_subscriber_hears_what_its_selector_matches(connection: Connection, topic: str) -> None:
    """A7, A3."""
    session = connection.session()
    even, all_of_them = session.consumer(topic, "n = 0 OR n = 2"), session.consumer(topic, "")
    for number in range(4):
        session.send(topic, f"m{number}", properties={"n": number})
    assert texts(receive_all(even, 2)) == ["m0", "m2"]
    assert texts(receive_all(all_of_them, 4)) == numbered(range(4))


def test_A7_selectors_of_one_queue_share_it_out(connection: Connection, queue: str) -> None:
    """A7, A2: a message that nobody wants holds up nobody."""
    session = connection.session()
    red, blue = session.consumer(queue, "color = 'red'"), session.consumer(queue, "color = 'blue'")
    for color in ("green", "blue", "red", "green", "red"):
        session.send(queue, color, properties={"color": color})
    assert texts(receive_all(red, 2)) == ["red", "red"]
    assert texts(receive_all(blue, 1)) == ["blue"]
    for consumer in (red, blue):
        consumer.close()
    assert texts(drain(connection, queue)) == ["green", "green"]


BAD_SELECTORS = ["color =", "= 1", "color = 'red", "n IN ()", "n IN (1 2)", "AND", "color LIKE 5", "(n = 1", "n == 1"]


@pytest.mark.parametrize("selector", BAD_SELECTORS)
def test_A7_a_bad_selector_is_refused_when_the_consumer_is_created(
    connect: Connect, queue: str, topic: str, selector: str
) -> None:
    """A7: for queues, topics and durable subscribers; the session works on, and no subscription is left."""
    connection = connect(client_id=topic)
    session = connection.session()
    for where in (queue, topic):
        with pytest.raises(ackwire.InvalidSelectorError):
            session.consumer(where, selector)
    with pytest.raises(ackwire.InvalidSelectorError):
        session.durable_subscriber(topic, "durable", selector)
    send(connection, queue, "m")
    assert text_of(receive(session.consumer(queue))) == "m"
    with pytest.raises(ackwire.InvalidDestinationError):
        session.unsubscribe("durable")


# ---- wildcards -------------------------------------------------------------------------------------------------

NAMES = ["", ".a", ".b", ".a.x", ".a.y", ".a.x.deep"]
PATTERNS = {
    ".*": [".a", ".b"],
    ".>": NAMES,
    ".a.*": [".a.x", ".a.y"],
    ".a.>": [".a", ".a.x", ".a.y", ".a.x.deep"],
    ".*.x": [".a.x"],
    ".*.x.>": [".a.x", ".a.x.deep"],
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_A8_a_wildcard_consumer_hears_all_that_match(connect: Connect, queue: str, kind: str, pattern: str) -> None:
    """A8: destinations that exist, and such as do not yet; each message says where it was sent."""
    base = f"{kind}://{name_of(queue)}"
    sender = connect()
    send(sender, f"{base}.a.x", "makes it exist")
    if kind == "queue":
        drain(sender, f"{base}.a.x")
    consumer = connect().session().consumer(base + pattern)
    for name in NAMES:
        send(sender, base + name, name)
    received = receive_all(consumer, len(PATTERNS[pattern]))
    assert sorted(texts(received), key=str) == sorted(PATTERNS[pattern])
    assert all(repr(message.destination) == f"{base}{text_of(message)}" for message in received)
    assert consumer.receive_no_wait() is None


def test_A8_what_a_wildcard_consumer_does_not_acknowledge_returns_to_its_queues(
    connection: Connection, queue: str
) -> None:
    """A8, D3, D7: one consumer, several queues, one acknowledgement."""
    for name in ("a", "b"):
        send(connection, f"{queue}.{name}", *numbered(range(2), name))
    with connection.session(AckMode.CLIENT) as session:
        consumer = session.consumer(f"{queue}.>")
        receive_all(consumer, 2)[-1].acknowledge()
        seen = {text_of(message) for message in receive_all(consumer, 2)}
    left = [message for name in ("a", "b") for message in drain(connection, f"{queue}.{name}")]
    assert {text_of(message) for message in left} == seen


# ---- composites and virtual topics -----------------------------------------------------------------------------


def test_A8_a_composite_destination_sends_a_copy_to_each(connection: Connection, queue: str) -> None:
    """A8: queues and a topic in one name; each copy names its own destination, and the original."""
    name = name_of(queue)
    session = connection.session()
    subscriber = session.consumer(f"topic://{name}.t")
    sent = session.send(f"queue://{name}.a,{name}.b,topic://{name}.t", "m")
    copies = {
        f"queue://{name}.a": drain(connection, f"{queue}.a"),
        f"queue://{name}.b": drain(connection, f"{queue}.b"),
        f"topic://{name}.t": [receive(subscriber)],
    }
    for destination, messages in copies.items():
        [message] = messages
        assert (text_of(message), message.message_id) == ("m", sent.message_id)
        assert repr(message.destination) == destination


def test_A8_a_consumer_may_name_several_destinations(connection: Connection, queue: str) -> None:
    """A8: one consumer of two queues."""
    send(connection, f"{queue}.a", "a")
    consumer = connection.session().consumer(f"{queue}.a,{queue}.b")
    send(connection, f"{queue}.b", "b")
    received = receive_all(consumer, 2)
    assert sorted(texts(received), key=str) == ["a", "b"]
    assert {repr(message.destination) for message in received} == {f"{queue}.a", f"{queue}.b"}


def test_A8_virtual_topics_feed_a_queue_for_each_group(connect: Connect, topic: str) -> None:
    """A8: two groups get every message; inside a group its consumers compete; a plain subscriber hears all."""
    name = f"VirtualTopic.{name_of(topic)}"
    heard: list[queues.SimpleQueue[Message]] = []
    for _ in range(2):
        heard.append(queues.SimpleQueue())
        connect().session().consumer(f"Consumer.A.{name}").listener = heard[-1].put
    session = connect().session()
    second, direct = session.consumer(f"Consumer.B.{name}"), session.consumer(f"topic://{name}")
    for text in numbered(range(20)):
        session.send(f"topic://{name}", text)
    shares = [text_of(share.get(timeout=10)) for share in heard for _ in range(10)]
    assert sorted(shares, key=str) == sorted(numbered(range(20)))
    received = receive_all(second, 20)
    assert texts(received) == numbered(range(20))
    assert {repr(message.destination) for message in received} == {f"queue://Consumer.B.{name}"}
    assert {repr(message.original_destination) for message in received} == {f"topic://{name}"}
    assert texts(receive_all(direct, 20)) == numbered(range(20))


def test_A8_a_virtual_topics_queue_keeps_messages_while_its_group_is_away(connection: Connection, topic: str) -> None:
    """A8: from the first consumer on, as any queue does."""
    name = f"VirtualTopic.{name_of(topic)}"
    send(connection, f"topic://{name}", "too early")
    with connection.session() as session:
        session.consumer(f"Consumer.A.{name}")
    send(connection, f"topic://{name}", *numbered(range(3)))
    assert texts(drain(connection, f"Consumer.A.{name}")) == numbered(range(3))


# ---- names -----------------------------------------------------------------------------------------------------


def test_A8_names_are_read_as_activemq_writes_them() -> None:
    """A8: with their kind in front, or a queue's without."""
    for text, kind, name in (
        ("orders", Kind.QUEUE, "orders"),
        ("queue://orders", Kind.QUEUE, "orders"),
        ("topic://prices.eur", Kind.TOPIC, "prices.eur"),
        ("temp-queue://ID:a:1:1", Kind.TEMP_QUEUE, "ID:a:1:1"),
        ("temp-topic://ID:a:1:1", Kind.TEMP_TOPIC, "ID:a:1:1"),
    ):
        where = parse_destination(text)
        assert (where.kind, where.name) == (kind, name)


def test_A8_options_in_a_name_do_not_change_the_name(connection: Connection, queue: str) -> None:
    """A8: with and without options it is the same queue."""
    session = connection.session()
    producer = session.producer(f"{queue}?producer.windowSize=1024")
    assert repr(producer.destination) == queue
    producer.send("m")
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=7&consumer.priority=3")
    message = receive(consumer)
    assert (text_of(message), repr(message.destination), repr(consumer.destination)) == ("m", queue, queue)


def test_A8_options_may_carry_a_no_local_flag_and_more(connect: Connect, topic: str) -> None:
    """A8, A3: consumer.noLocal in the name."""
    connection = connect()
    consumer = connection.session().consumer(f"{topic}?consumer.noLocal=true&consumer.dispatchAsync=false")
    send(connection, topic, "local")
    send(connect(), topic, "remote")
    assert text_of(receive(consumer)) == "remote"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("orders?consumer.prefetch=1", "consumer.prefetchSize"),
        ("orders?consumer.exclusive=yes", "consumer.exclusive"),
        ("orders?windowSize=1", "producer.windowSize"),
        ("", "name"),
        ("queue://", "name"),
    ],
)
def test_A8_a_name_that_cannot_be_is_refused_and_says_why(connection: Connection, name: str, says: str) -> None:
    """A8: before anything goes to the broker."""
    session = connection.session()
    for make in (session.consumer, session.producer):
        with pytest.raises(ackwire.InvalidDestinationError, match=says):
            make(name)


@pytest.mark.parametrize("name", ["spaced out name", "ünïcode.東京.😀", "a/b:c=d&e", "x" * 1000])
def test_A8_unusual_names_are_names(connection: Connection, queue: str, name: str) -> None:
    """A8: whatever a user calls a queue."""
    full = f"{queue}.{name}"
    send(connection, full, "m")
    with connection.session() as session:
        message = receive(session.consumer(full))
    assert repr(message.destination) == full


# ---- removal ---------------------------------------------------------------------------------------------------


def test_A8_a_removed_destination_loses_its_messages_and_may_be_used_again(connection: Connection, queue: str) -> None:
    """A8: destroy_destination; one that never was may be removed, too."""
    connection.destroy_destination(f"{queue}.never")
    send(connection, queue, *numbered(range(3)))
    connection.destroy_destination(queue)
    send(connection, queue, "new")
    assert texts(drain(connection, queue)) == ["new"]


def test_A8_a_destination_in_use_cannot_be_removed(connect: Connect, queue: str) -> None:
    """A8: not while there are consumers, of this connection or of another."""
    connection = connect()
    consumer = connection.session().consumer(queue)
    with pytest.raises(ackwire.JMSError, match="consumer"):
        connection.destroy_destination(queue)
    with pytest.raises(ackwire.JMSError, match="active subscription"):
        connect().destroy_destination(queue)
    consumer.close()
    connection.destroy_destination(queue)
