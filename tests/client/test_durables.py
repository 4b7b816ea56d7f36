"""Durable subscriptions (A3)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

import ackwire
from ackwire import AckMode, Connection, Consumer, DeliveryMode, Session
from tests.client.conftest import Connect
from tests.client.steps import (
    assert_nothing_comes,
    counts,
    flags,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
)


@contextmanager
def subscriber(
    connect: Connect, topic: str, name: str = "durable", *, client: str = "", mode: AckMode = AckMode.AUTO, **how: Any
) -> Iterator[Consumer]:
    """A durable subscriber of a client of its own, which leaves at the end; its subscription stays."""
    with connect(client_id=f"{topic}{client}") as connection:
        yield connection.session(mode).durable_subscriber(topic, name, **how)


def subscribe(connect: Connect, topic: str, name: str = "durable", **how: Any) -> None:
    with subscriber(connect, topic, name, **how):
        pass


@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_A3_a_durable_subscriber_gets_what_came_while_it_was_away(
    connect: Connect, topic: str, mode: DeliveryMode
) -> None:
    """A3: in order, unflagged; non-persistent messages are kept while the broker runs. Nothing from before."""
    other = connect()
    send(other, topic, "before")
    subscribe(connect, topic)
    send(other, topic, *numbered(range(20)), delivery_mode=mode)
    with subscriber(connect, topic) as consumer:
        received = receive_all(consumer, 20)
        assert texts(received) == numbered(range(20))
        assert not any(flags(received))
        send(other, topic, "live")
        assert text_of(receive(consumer)) == "live"


def test_A3_what_was_acknowledged_does_not_come_again(connect: Connect, topic: str) -> None:
    """A3, D7: the rest does, flagged if it was seen."""
    with subscriber(connect, topic, mode=AckMode.CLIENT) as consumer:
        send(connect(), topic, *numbered(range(6)))
        receive_all(consumer, 2)[-1].acknowledge()
        receive_all(consumer, 2)
    with subscriber(connect, topic) as consumer:
        received = receive_all(consumer, 4)
    assert texts(received) == ["m2", "m3", "m4", "m5"]
    assert (flags(received), counts(received)) == ([True, True, False, False], [2, 2, 1, 1])


def test_A3_D6_a_durable_subscriber_may_acknowledge_single_messages(connect: Connect, topic: str) -> None:
    """A3, D6: in any order; the others stay."""
    with subscriber(connect, topic, mode=AckMode.INDIVIDUAL) as consumer:
        send(connect(), topic, *numbered(range(5)))
        received = receive_all(consumer, 5)
        for number in (3, 1):
            received[number].acknowledge()
    with subscriber(connect, topic) as consumer:
        assert texts(receive_all(consumer, 3)) == ["m0", "m2", "m4"]


def test_A3_every_durable_subscription_has_its_own_copy(connect: Connect, topic: str) -> None:
    """A3: two names of one client, and the same name of another client."""
    whose = [("one", ""), ("two", ""), ("one", "-other")]
    for name, client in whose:
        subscribe(connect, topic, name, client=client)
    send(connect(), topic, *numbered(range(5)))
    for name, client in whose:
        with subscriber(connect, topic, name, client=client) as consumer:
            assert texts(receive_all(consumer, 5)) == numbered(range(5))


def test_A3_a_durable_subscription_has_one_active_consumer(connect: Connect, topic: str) -> None:
    """A3: the second one is refused, the first works on; after close the name is free."""
    connection = connect(client_id=topic)
    first = connection.session().durable_subscriber(topic, "durable")
    with pytest.raises(ackwire.JMSError, match="in use"):
        connection.session().durable_subscriber(topic, "durable")
    send(connection, topic, "m")
    assert text_of(receive(first)) == "m"
    first.close()
    again = connection.session().durable_subscriber(topic, "durable")
    send(connection, topic, "n")
    assert text_of(receive(again)) == "n"


def test_A3_a_durable_subscription_needs_a_client_id_a_name_and_a_topic(
    connection: Connection, connect: Connect, topic: str, queue: str
) -> None:
    """A3: a client id that the application chose, not one that the client made up."""
    with pytest.raises(ackwire.InvalidClientIdError, match="client_id"):
        connection.session().durable_subscriber(topic, "durable")
    session = connect(client_id=topic).session()
    with pytest.raises(ackwire.JMSError, match="name"):
        session.durable_subscriber(topic, "")
    with pytest.raises(ackwire.InvalidDestinationError, match="topic"):
        session.durable_subscriber(queue, "durable")


def test_A3_a_bare_name_is_a_topics(connect: Connect, topic: str) -> None:
    """A3: where only a topic makes sense, no prefix is needed."""
    bare = topic.removeprefix("topic://")
    consumer = connect(client_id=topic).session().durable_subscriber(bare, "durable")
    assert repr(consumer.destination) == topic


def test_A3_unsubscribe_ends_the_subscription(connect: Connect, topic: str) -> None:
    """A3: what it had kept is gone, and it starts afresh."""
    subscribe(connect, topic)
    connection = connect(client_id=topic)
    send(connection, topic, "kept")
    session = connection.session()
    session.unsubscribe("durable")
    send(connection, topic, "meanwhile")
    consumer = session.durable_subscriber(topic, "durable")
    send(connection, topic, "fresh")
    assert text_of(receive(consumer)) == "fresh"


def test_A3_an_active_subscription_cannot_be_unsubscribed(connect: Connect, topic: str) -> None:
    """A3: the subscriber works on."""
    connection = connect(client_id=topic)
    session = connection.session()
    consumer = session.durable_subscriber(topic, "durable")
    with pytest.raises(ackwire.JMSError, match="in use"):
        session.unsubscribe("durable")
    send(connection, topic, "m")
    assert text_of(receive(consumer)) == "m"


def test_A3_an_unknown_subscription_cannot_be_unsubscribed(connect: Connect, topic: str) -> None:
    """A3: not even another client's."""
    subscribe(connect, topic)
    for session in (connect(client_id=f"{topic}-other").session(), connect().session()):
        with pytest.raises(ackwire.InvalidDestinationError):
            session.unsubscribe("durable")


def test_A3_A7_a_durable_subscription_keeps_only_what_its_selector_matches(connect: Connect, topic: str) -> None:
    """A3, A7: offline and live."""

    def send_colors(connection: Connection) -> None:
        with connection.session() as session, session.producer(topic) as producer:
            for number, color in enumerate(["red", "blue", "red", "green", "red"]):
                producer.send(f"m{number}", properties={"color": color})

    subscribe(connect, topic, selector="color = 'red'")
    sender = connect()
    send_colors(sender)
    with subscriber(connect, topic, selector="color = 'red'") as consumer:
        assert texts(receive_all(consumer, 3)) == ["m0", "m2", "m4"]
        send_colors(sender)
        assert texts(receive_all(consumer, 3)) == ["m0", "m2", "m4"]
        assert_nothing_comes(consumer)


@pytest.mark.parametrize("change", ["selector", "selector removed", "topic", "no_local"])
def test_A3_a_changed_subscription_replaces_the_old_one(connect: Connect, topic: str, change: str) -> None:
    """A3: what the old one had kept is gone, as if it had been unsubscribed."""
    subscribe(connect, topic, selector="color IS NULL" if change == "selector removed" else None)
    other = connect()
    send(other, topic, "kept by the old one")
    new_topic = f"{topic}.new" if change == "topic" else topic
    selector = "color = 'red'" if change == "selector" else None
    session = connect(client_id=topic).session()
    consumer = session.durable_subscriber(new_topic, "durable", selector, no_local=change == "no_local")
    send(other, topic, "old topic", properties={"color": "red"})
    send(other, new_topic, "new", properties={"color": "red"})
    received = texts(receive_all(consumer, 1 if change == "topic" else 2))
    assert received[-1] == "new"
    assert "kept by the old one" not in received


def test_A3_an_unchanged_subscription_keeps_its_messages(connect: Connect, topic: str) -> None:
    """A3: the same selector in the same words."""
    subscribe(connect, topic, selector="color IS NULL")
    send(connect(), topic, "m")
    subscribe(connect, topic, selector="color IS NULL")
    with subscriber(connect, topic, selector="color IS NULL") as consumer:
        assert text_of(receive(consumer)) == "m"


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
def test_A3_a_no_local_subscriber_does_not_hear_its_own_connection(connect: Connect, topic: str, durable: bool) -> None:
    """A3: other sessions of the connection count as local, other connections do not."""
    connection = connect(client_id=topic)
    session = connection.session()
    consumer = (
        session.durable_subscriber(topic, "durable", no_local=True)
        if durable
        else session.consumer(topic, no_local=True)
    )
    send(connection, topic, "local")
    send(connect(), topic, "remote")
    assert text_of(receive(consumer)) == "remote"
    assert consumer.receive_no_wait() is None


def test_A3_without_no_local_a_connection_hears_itself(connection: Connection, topic: str) -> None:
    """A3: the default."""
    consumer = connection.session().consumer(topic)
    send(connection, topic, "own")
    assert text_of(receive(consumer)) == "own"


def test_A3_C2_a_slow_durable_subscriber_misses_nothing(connect: Connect, topic: str) -> None:
    """C2, A3: beyond its prefetch messages wait in the broker, whether it is there or not."""
    name = f"{topic}?consumer.prefetchSize=5"
    connection = connect(client_id=topic)
    consumer = connection.session().durable_subscriber(name, "durable")
    send(connect(), topic, *numbered(range(100)))
    assert texts(receive_all(consumer, 40)) == numbered(range(40))
    connection.close()
    again = connect(client_id=topic).session().durable_subscriber(name, "durable")
    assert texts(receive_all(again, 60)) == numbered(range(40, 100))


def test_A3_A8_wildcards_make_durable_subscriptions_too(connect: Connect, topic: str) -> None:
    """A3, A8: topics that exist and topics that are made later."""
    other = connect()
    send(other, f"{topic}.old", "before")
    with connect(client_id=topic) as connection:
        connection.session().durable_subscriber(f"{topic}.>", "durable")
    send(other, f"{topic}.old", "old")
    send(other, f"{topic}.new", "new")
    consumer = connect(client_id=topic).session().durable_subscriber(f"{topic}.>", "durable")
    assert {text_of(message) for message in receive_all(consumer, 2)} == {"old", "new"}


def test_A3_a_listener_of_a_durable_subscriber_hears_what_waited(connect: Connect, topic: str) -> None:
    """A3, C1."""
    subscribe(connect, topic)
    send(connect(), topic, *numbered(range(3)))
    heard: SimpleQueue[str | None] = SimpleQueue()
    with subscriber(connect, topic) as consumer:
        consumer.listener = lambda message: heard.put(text_of(message))
        assert [heard.get(timeout=10) for _ in range(3)] == numbered(range(3))


@pytest.mark.parametrize("make", [Session.shared_consumer, Session.shared_durable_consumer])
def test_A3_shared_subscriptions_are_refused(connection: Connection, topic: str, make: Callable[..., Consumer]) -> None:
    """A3: OpenWire has none; the error says so."""
    with pytest.raises(ackwire.UnsupportedError, match="shared subscriptions"):
        make(connection.session(), topic, "shared")
