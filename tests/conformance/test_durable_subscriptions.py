"""Durable subscriptions: kept while their subscriber is away; noLocal (A3)."""

import time
from functools import partial

import pytest

from tests.conformance.jms import (
    NON_PERSISTENT,
    PERSISTENT,
    AckMode,
    Connection,
    Jms,
    Value,
    bodies,
    redelivered,
    text,
    texts,
)
from tests.conformance.scenarios import counts, named_client, numbered
from tests.helpers.java import JavaError


def subscribe_once(jms: Jms, tcp: str, topic: str, name: str = "durable", selector: str | None = None) -> None:
    """Make the subscription and leave."""
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(topic, name, selector=selector)


def connect_when_free(jms: Jms, tcp: str, topic: str, suffix: str) -> Connection:
    """Connect with the client id of a client that was killed: the broker may need a moment to notice."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return named_client(jms, tcp, topic, suffix)
        except JavaError:
            assert time.monotonic() < deadline, "the client id is still taken"


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
def test_A3_a_durable_subscriber_gets_what_came_while_it_was_away(
    jms: Jms, tcp: str, topic: str, delivery_mode: int
) -> None:
    """A3: persistent messages, in order, unflagged; non-persistent ones are kept while the broker runs."""
    subscribe_once(jms, tcp, topic)
    jms.send(tcp, topic, *texts(20), delivery_mode=delivery_mode)
    with named_client(jms, tcp, topic) as connection:
        subscriber = connection.session().durable(topic, "durable")
        received = subscriber.receive_expected(20)
        assert bodies(received) == numbered(range(20))
        assert not any(redelivered(received))
        jms.send(tcp, topic, text("live"))
        assert subscriber.receive_one().body == "live"


def test_A3_a_subscription_begins_when_it_is_made(jms: Jms, tcp: str, topic: str) -> None:
    """A3: everything since it subscribed, and nothing before."""
    jms.send(tcp, topic, text("before"))
    subscribe_once(jms, tcp, topic)
    jms.send(tcp, topic, text("after"))
    with named_client(jms, tcp, topic) as connection:
        assert connection.session().durable(topic, "durable").receive_one().body == "after"


def test_A3_what_was_acknowledged_does_not_come_again(jms: Jms, tcp: str, topic: str) -> None:
    """A3, D7: the rest does, flagged if it was seen."""
    with named_client(jms, tcp, topic) as connection:
        session = connection.session(AckMode.CLIENT)
        subscriber = session.durable(topic, "durable")
        jms.send(tcp, topic, *texts(6))
        session.acknowledge(subscriber.receive_expected(2)[-1])
        subscriber.receive_expected(2)
    with named_client(jms, tcp, topic) as connection:
        received = connection.session().durable(topic, "durable").receive_expected(4)
    assert bodies(received) == ["m2", "m3", "m4", "m5"]
    assert redelivered(received) == [True, True, False, False]
    assert counts(received) == [2, 2, 1, 1]


def test_A3_D6_a_durable_subscriber_may_acknowledge_single_messages(jms: Jms, tcp: str, topic: str) -> None:
    """A3, D6: in any order; the others stay."""
    with named_client(jms, tcp, topic) as connection:
        session = connection.session(AckMode.INDIVIDUAL)
        subscriber = session.durable(topic, "durable")
        jms.send(tcp, topic, *texts(5))
        received = subscriber.receive_expected(5)
        for number in (3, 1):
            session.acknowledge(received[number])
    with named_client(jms, tcp, topic) as connection:
        assert bodies(connection.session().durable(topic, "durable").receive_expected(3)) == ["m0", "m2", "m4"]


def test_A3_a_killed_durable_subscriber_finds_everything_again(jms: Jms, doomed_jms: Jms, tcp: str, topic: str) -> None:
    """A3, D7: what it had in hand comes flagged, what came after its death does not."""
    doomed = named_client(doomed_jms, tcp, topic, "-doomed").session(AckMode.CLIENT)
    subscriber = doomed.durable(topic, "durable")
    jms.send(tcp, topic, *texts(3))
    doomed.acknowledge(subscriber.receive_one())
    subscriber.await_waiting(2)
    doomed_jms.kill()
    jms.send(tcp, topic, text("later"))
    connection = connect_when_free(jms, tcp, topic, "-doomed")
    received = connection.session().durable(topic, "durable").receive_expected(3)
    assert bodies(received) == ["m1", "m2", "later"]
    assert redelivered(received)[:2] == [True, True]


def test_A3_every_durable_subscription_has_its_own_copy(jms: Jms, tcp: str, topic: str) -> None:
    """A3: two names of one client, and the same name of another client."""
    subscribe_once(jms, tcp, topic, "one")
    subscribe_once(jms, tcp, topic, "two")
    with named_client(jms, tcp, topic, "-other") as connection:
        connection.session().durable(topic, "one")
    jms.send(tcp, topic, *texts(5))
    with named_client(jms, tcp, topic) as connection:
        session = connection.session()
        for name in ("one", "two"):
            assert bodies(session.durable(topic, name).receive_expected(5)) == numbered(range(5))
    with named_client(jms, tcp, topic, "-other") as connection:
        assert bodies(connection.session().durable(topic, "one").receive_expected(5)) == numbered(range(5))


def test_A3_a_durable_subscription_has_one_active_consumer(jms: Jms, tcp: str, topic: str) -> None:
    """A3: the second one is refused, the first works on; after close the name is free."""
    connection = named_client(jms, tcp, topic)
    first = connection.session().durable(topic, "durable")
    with pytest.raises(JavaError) as refused:
        connection.session().durable(topic, "durable")
    assert refused.value.class_name == "javax.jms.JMSException"
    assert "Durable consumer is in use" in refused.value.message
    jms.send(tcp, topic, text("m"))
    assert first.receive_one().body == "m"
    first.close()
    again = connection.session().durable(topic, "durable")
    jms.send(tcp, topic, text("n"))
    assert again.receive_one().body == "n"


def test_A3_a_durable_subscription_needs_a_client_id(jms: Jms, tcp: str, topic: str) -> None:
    """A3: one that the application chose, not one that the client made up."""
    session = jms.connect(tcp).session()
    with pytest.raises(JavaError) as refused:
        session.durable(topic, "durable")
    assert refused.value.class_name == "javax.jms.JMSException"
    assert "unique clientID" in refused.value.message


def test_A3_unsubscribe_ends_the_subscription(jms: Jms, tcp: str, topic: str) -> None:
    """A3: what it had kept is gone, and it starts afresh."""
    subscribe_once(jms, tcp, topic)
    jms.send(tcp, topic, text("kept"))
    with named_client(jms, tcp, topic) as connection:
        session = connection.session()
        session.unsubscribe("durable")
        jms.send(tcp, topic, text("meanwhile"))
        subscriber = session.durable(topic, "durable")
        jms.send(tcp, topic, text("fresh"))
        assert subscriber.receive_one().body == "fresh"


def test_A3_an_active_subscription_cannot_be_unsubscribed(jms: Jms, tcp: str, topic: str) -> None:
    """A3: the subscriber works on."""
    session = named_client(jms, tcp, topic).session()
    subscriber = session.durable(topic, "durable")
    with pytest.raises(JavaError) as refused:
        session.unsubscribe("durable")
    assert refused.value.class_name == "javax.jms.JMSException"
    assert "Durable consumer is in use" in refused.value.message
    jms.send(tcp, topic, text("m"))
    assert subscriber.receive_one().body == "m"


def test_A3_an_unknown_subscription_cannot_be_unsubscribed(jms: Jms, tcp: str, topic: str) -> None:
    """A3: not even another client's."""
    subscribe_once(jms, tcp, topic)
    for session in (named_client(jms, tcp, topic, "-other").session(), jms.connect(tcp).session()):
        with pytest.raises(JavaError) as refused:
            session.unsubscribe("durable")
        assert refused.value.class_name == "javax.jms.InvalidDestinationException"
        assert "No durable subscription exists for" in refused.value.message


def test_A3_A7_a_durable_subscription_keeps_only_what_its_selector_matches(jms: Jms, tcp: str, topic: str) -> None:
    """A3, A7: offline and live."""
    subscribe_once(jms, tcp, topic, selector="color = 'red'")
    colors = ["red", "blue", "red", "green", "red"]
    messages = [text(f"m{number}", properties={"color": Value("string", color)}) for number, color in enumerate(colors)]
    jms.send(tcp, topic, *messages)
    with named_client(jms, tcp, topic) as connection:
        subscriber = connection.session().durable(topic, "durable", selector="color = 'red'")
        assert bodies(subscriber.receive_expected(3)) == ["m0", "m2", "m4"]
        jms.send(tcp, topic, *messages)
        assert bodies(subscriber.receive_expected(3)) == ["m0", "m2", "m4"]
        subscriber.assert_nothing_comes()


@pytest.mark.parametrize("change", ["selector", "topic", "no_local", "selector removed"])
def test_A3_a_changed_subscription_replaces_the_old_one(jms: Jms, tcp: str, topic: str, change: str) -> None:
    """A3: what the old one had kept is gone, as if it had been unsubscribed."""
    subscribe_once(jms, tcp, topic, selector="color IS NULL" if change == "selector removed" else None)
    jms.send(tcp, topic, text("kept by the old one"))
    new_topic = f"{topic}.new" if change == "topic" else topic
    selector = "color = 'red'" if change == "selector" else None
    with named_client(jms, tcp, topic) as connection:
        session = connection.session()
        subscriber = session.durable(new_topic, "durable", selector=selector, no_local=change == "no_local")
        red = {"color": Value("string", "red")}
        jms.send(tcp, topic, text("old topic", properties=red))
        jms.send(tcp, new_topic, text("new", properties=red))
        received = subscriber.receive_expected(1 if change == "topic" else 2)
        assert received[-1].body == "new"
        assert "kept by the old one" not in bodies(received)


def test_A3_an_unchanged_subscription_keeps_its_messages(jms: Jms, tcp: str, topic: str) -> None:
    """A3: the same selector in the same words."""
    for _ in range(3):
        subscribe_once(jms, tcp, topic, selector="color IS NULL")
    jms.send(tcp, topic, text("m"))
    subscribe_once(jms, tcp, topic, selector="color IS NULL")
    with named_client(jms, tcp, topic) as connection:
        assert connection.session().durable(topic, "durable", selector="color IS NULL").receive_one().body == "m"


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
def test_A3_a_no_local_subscriber_does_not_hear_its_own_connection(
    jms: Jms, tcp: str, topic: str, durable: bool
) -> None:
    """A3: other sessions of the connection count as local, other connections do not."""
    connection = named_client(jms, tcp, topic)
    session = connection.session()
    consume = partial(session.durable, name="durable") if durable else session.consumer
    subscriber = consume(topic, no_local=True)
    connection.session().producer(topic).send(text("local"))
    jms.send(tcp, topic, text("remote"))
    assert subscriber.receive_one().body == "remote"
    assert subscriber.receive_no_wait() is None


def test_A3_no_local_of_a_durable_subscription_is_about_the_connection_not_the_client_id(
    jms: Jms, tcp: str, topic: str
) -> None:
    """A3: what other connections of the same client published while it was away is for it; what the connection of its
    last consumer published is not."""
    with named_client(jms, tcp, topic) as connection:
        session = connection.session()
        session.durable(topic, "durable", no_local=True).close()
        session.producer(topic).send(text("its own, away"))
    with named_client(jms, tcp, topic) as connection:
        connection.session().producer(topic).send(text("another connection's"))
    session = named_client(jms, tcp, topic).session()
    session.producer(topic).send(text("before it subscribed"))
    subscriber = session.durable(topic, "durable", no_local=True)
    session.producer(topic).send(text("its own"))
    jms.send(tcp, topic, text("end"))
    assert bodies(subscriber.receive_expected(3)) == ["another connection's", "before it subscribed", "end"]


def test_A3_without_no_local_a_connection_hears_itself(jms: Jms, tcp: str, topic: str) -> None:
    """A3: the default."""
    session = jms.connect(tcp).session()
    subscriber = session.consumer(topic)
    session.producer(topic).send(text("own"))
    assert subscriber.receive_one().body == "own"


def test_C2_a_slow_durable_subscriber_misses_nothing(jms: Jms, tcp: str, topic: str) -> None:
    """C2, A3: beyond its prefetch messages wait in the broker, whether it is there or not."""
    name = f"{topic}?consumer.prefetchSize=5"
    with named_client(jms, tcp, topic) as connection:
        subscriber = connection.session().durable(name, "durable")
        jms.send(tcp, topic, *texts(100))
        subscriber.await_waiting(5)
        assert bodies(subscriber.receive_expected(40)) == numbered(range(40))
    with named_client(jms, tcp, topic) as connection:
        received = connection.session().durable(name, "durable").receive_expected(60)
    assert bodies(received) == numbered(range(40, 100))


def test_A3_wildcards_make_durable_subscriptions_too(jms: Jms, tcp: str, topic: str) -> None:
    """A3, A8: topics that exist and topics that are made later."""
    jms.send(tcp, f"{topic}.old", text("before"))
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(f"{topic}.>", "durable")
    jms.send(tcp, f"{topic}.old", text("old"))
    jms.send(tcp, f"{topic}.new", text("new"))
    with named_client(jms, tcp, topic) as connection:
        received = connection.session().durable(f"{topic}.>", "durable").receive_expected(2)
    assert sorted(bodies(received)) == ["new", "old"]
