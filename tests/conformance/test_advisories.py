"""Advisory messages: what the broker tells about itself on topics of its own (A8)."""

import time

import pytest

from tests.conformance.jms import (
    NON_PERSISTENT,
    AckMode,
    Consumer,
    Jms,
    Received,
    Value,
    bodies,
    text,
    texts,
    with_options,
)
from tests.conformance.scenarios import client_id, dead_letters, marked, under, with_redelivery

BROKER_VARIANT = "policies"
SHORT_MS = 150


def subscribe(jms: Jms, url: str, kind: str, destination: str | None = None) -> Consumer:
    return jms.connect(url).session().consumer(jms.advisory_topic(kind, destination))


def payload(message: Received) -> dict[str, object]:
    """What the advisory is about; checks what all advisories have in common."""
    assert (message.kind, message.type) == ("plain", "Advisory")
    assert message.destination.startswith("topic://ActiveMQ.Advisory.")
    assert {"originBrokerId", "originBrokerName", "originBrokerURL"} <= set(message.properties)
    assert message.payload is not None
    return message.payload


def next_about(consumer: Consumer, **facts: object) -> Received:
    """The next advisory whose payload has these *facts*; others, of other tests or clients, are skipped."""
    while True:
        message = consumer.receive_one()
        if facts.items() <= payload(message).items():
            return message


def test_A8_connections_are_announced(jms: Jms, tcp: str, queue: str) -> None:
    """A8: ConnectionInfo without the password when it comes, RemoveInfo when it goes."""
    advisories = subscribe(jms, tcp, "Connection")
    name = client_id(queue)
    with jms.connect(with_options(tcp, jms__clientID=name, jms__userName="me", jms__password="secret")):
        info = payload(next_about(advisories, type="ConnectionInfo", client_id=name))
        assert info["password"] in ("", None)
    removal = payload(next_about(advisories, type="RemoveInfo", id=info["id"]))
    assert removal["removed"] == "ConnectionId"


def test_A8_connections_are_told_to_late_comers(jms: Jms, tcp: str, queue: str) -> None:
    """A8: a new subscriber learns which connections there are."""
    name = client_id(queue)
    jms.connect(with_options(tcp, jms__clientID=name))
    next_about(subscribe(jms, tcp, "Connection"), type="ConnectionInfo", client_id=name)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_A8_consumers_are_announced_and_counted(jms: Jms, tcp: str, queue: str, topic: str, kind: str) -> None:
    """A8: ConsumerInfo, RemoveInfo, and how many there are now."""
    destination = {"queue": queue, "topic": topic}[kind]
    advisories = subscribe(jms, tcp, "Consumer", destination)
    session = jms.connect(tcp).session()
    ids = []
    for count in (1, 2):
        session.consumer(destination, selector="a = 1")
        message = advisories.receive_one()
        info = payload(message)
        assert (info["type"], info["destination"], info["selector"]) == ("ConsumerInfo", destination, "a = 1")
        assert message.properties["consumerCount"] == Value("int", count)
        ids.append(info["id"])
    assert len(set(ids)) == 2
    session.close()
    for count in (1, 0):
        message = advisories.receive_one()
        info = payload(message)
        assert (info["type"], info["removed"]) == ("RemoveInfo", "ConsumerId")
        assert message.properties["consumerCount"] == Value("int", count)


def test_A8_consumers_are_told_to_late_comers(jms: Jms, tcp: str, queue: str) -> None:
    """A8: each of those that are there, and to the new subscriber alone."""
    early = subscribe(jms, tcp, "Consumer", queue)
    session = jms.connect(tcp).session()
    for _ in range(2):
        session.consumer(queue)
    early.receive_expected(2)
    late = subscribe(jms, tcp, "Consumer", queue)
    replayed = late.receive_expected(2)
    assert [payload(message)["type"] for message in replayed] == ["ConsumerInfo"] * 2
    assert [message.properties["consumerCount"].value for message in replayed] == [2, 2]
    early.assert_nothing_comes()


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_A8_producers_are_announced_and_counted(jms: Jms, tcp: str, queue: str, topic: str, kind: str) -> None:
    """A8: ProducerInfo, RemoveInfo, producerCount."""
    destination = {"queue": queue, "topic": topic}[kind]
    advisories = subscribe(jms, tcp, "Producer", destination)
    session = jms.connect(tcp).session()
    producers = [session.producer(destination) for _ in range(2)]
    for count in (1, 2):
        message = advisories.receive_one()
        info = payload(message)
        assert (info["type"], info["destination"]) == ("ProducerInfo", destination)
        assert message.properties["producerCount"] == Value("int", count)
    producers[0].close()
    message = advisories.receive_one()
    assert payload(message)["removed"] == "ProducerId"
    assert message.properties["producerCount"] == Value("int", 1)
    late = subscribe(jms, tcp, "Producer", destination).receive_one()
    assert payload(late)["type"] == "ProducerInfo"


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_A8_destinations_are_announced(jms: Jms, tcp: str, queue: str, topic: str, kind: str) -> None:
    """A8: DestinationInfo with operation 0 when one is made, 1 when it is removed; late comers hear of it."""
    destination = {"queue": queue, "topic": topic}[kind]
    advisories = subscribe(jms, tcp, "Destination", destination)
    connection = jms.connect(tcp)
    connection.session().producer(destination).close()
    next_about(advisories, type="DestinationInfo", destination=destination, operation=0)
    late = subscribe(jms, tcp, "Destination", destination)
    next_about(late, type="DestinationInfo", destination=destination, operation=0)
    connection.destroy_destination(destination)
    next_about(advisories, type="DestinationInfo", destination=destination, operation=1)


@pytest.mark.temporary_destinations
@pytest.mark.parametrize("kind", ["temp-queue", "temp-topic"])
def test_A8_temporary_destinations_are_announced(jms: Jms, tcp: str, kind: str) -> None:
    """A8: made, replayed to late comers, deleted; and deleted with their connection."""
    advisories = subscribe(jms, tcp, "Destination", f"{kind}://any")
    owner = jms.connect(tcp)
    session = owner.session()
    names = [session.temporary_queue() if kind == "temp-queue" else session.temporary_topic() for _ in range(2)]
    for name in names:
        next_about(advisories, type="DestinationInfo", destination=name, operation=0)
    late = subscribe(jms, tcp, "Destination", f"{kind}://any").receive_expected(2)
    assert sorted(str(payload(message)["destination"]) for message in late) == sorted(names)
    owner.delete_temporary(names[0])
    next_about(advisories, type="DestinationInfo", destination=names[0], operation=1)
    owner.close()
    next_about(advisories, type="DestinationInfo", destination=names[1], operation=1)


def test_A8_expired_messages_are_announced(jms: Jms, tcp: str, queue: str) -> None:
    """A8, A6: the advisory carries the message."""
    queue = under("advisories", queue)
    advisories = subscribe(jms, tcp, "ExpiredQueueMessage", queue)
    [message_id] = jms.send(tcp, queue, text("dies"), time_to_live_ms=SHORT_MS)
    message = advisories.receive_one()
    assert payload(message)["message_id"] == message_id
    assert message.properties["orignalMessageId"].value == message_id


def test_A8_dead_letters_are_announced(jms: Jms, tcp: str, queue: str) -> None:
    """A8, F4: on the topic of the queue where it happened."""
    advisories = subscribe(jms, tcp, "MessageDLQd", queue)
    [message_id] = jms.send(tcp, queue, *marked(queue))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=0)).transacted_session()
    session.consumer(queue).receive_one()
    session.rollback()
    message = advisories.receive_one()
    assert payload(message)["message_id"] == message_id
    dead_letters(jms, tcp, queue, 1)


def test_A8_slow_topic_subscribers_are_announced_where_asked_for(jms: Jms, tcp: str, topic: str) -> None:
    """A8, C5: advisoryForSlowConsumers; once more than another prefetch of messages waits in the broker."""
    topic = under("advisories", topic)
    advisories = subscribe(jms, tcp, "SlowConsumer", topic)
    jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=2")
    jms.send(tcp, topic, *texts(10))
    message = advisories.receive_one()
    info = payload(message)
    assert (info["type"], info["destination"]) == ("ConsumerInfo", topic)
    assert message.properties["consumerId"].value == info["id"]
    advisories.assert_nothing_comes()


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_A8_messages_without_a_consumer_are_announced_where_asked_for(
    jms: Jms, tcp: str, queue: str, topic: str, kind: str
) -> None:
    """A8: sendAdvisoryIfNoConsumers; a non-persistent message itself is sent to the advisory topic too."""
    destination = under("advisories", {"queue": queue, "topic": topic}[kind])
    advisories = subscribe(jms, tcp, "NoTopicConsumers" if kind == "topic" else "NoQueueConsumers", destination)
    jms.send(tcp, destination, text("lonely"), delivery_mode=NON_PERSISTENT)
    assert advisories.receive_one().body == "lonely"
    consumer = jms.connect(tcp).session().consumer(destination)
    jms.send(tcp, destination, text("not lonely"), delivery_mode=NON_PERSISTENT)
    expected = ["lonely", "not lonely"] if kind == "queue" else ["not lonely"]
    assert bodies(consumer.receive_expected(len(expected))) == expected
    advisories.assert_nothing_comes()


def test_A8_deliveries_are_announced_where_asked_for(jms: Jms, tcp: str, queue: str) -> None:
    """A8: advisoryForDelivery, when a message reaches the queue, and advisoryForConsumed, when it was acknowledged."""
    queue = under("advisories", queue)
    delivered = subscribe(jms, tcp, "MessageDelivered", queue)
    consumed = subscribe(jms, tcp, "MessageConsumed", queue)
    [message_id] = jms.send(tcp, queue, text("m"))
    assert delivered.receive_one().properties["orignalMessageId"].value == message_id
    with jms.connect(tcp) as connection:
        session = connection.session(AckMode.CLIENT)
        message = session.consumer(queue).receive_one()
        assert consumed.receive_no_wait() is None
        session.acknowledge(message)
    assert consumed.receive_one().properties["orignalMessageId"].value == message_id


def test_A8_discarded_messages_are_announced_where_asked_for(jms: Jms, tcp: str, topic: str) -> None:
    """A8, C5: advisoryForDiscardingMessages, one for each message a slow subscriber lost."""
    topic = under("evicting", topic)
    advisories = subscribe(jms, tcp, "MessageDiscarded", topic)
    jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=1")
    jms.send(tcp, topic, *texts(15))
    messages = advisories.receive_expected(4)
    assert [message.properties["discardedCount"].value for message in messages] == [1, 2, 3, 4]
    assert all(payload(message)["destination"] == topic for message in messages)


def test_A8_a_full_destination_is_announced_where_asked_for(jms: Jms, tcp: str, queue: str) -> None:
    """A8, B6: advisoryWhenFull."""
    queue = under("advisories", queue)
    advisories = subscribe(jms, tcp, "Full", queue)
    producer = jms.connect(tcp).session().producer(queue)
    sending = producer.begin_send(*[text("x" * 8000)] * 6)
    message = advisories.receive_one()
    assert message.properties["usageName"].value
    consumer = jms.connect(tcp).session().consumer(queue)
    consumer.receive_expected(6)
    sending.result()


def test_A8_one_subscription_may_hear_all_consumer_advisories(jms: Jms, tcp: str, queue: str) -> None:
    """A8: wildcards over advisory topics; advisory topics themselves are not advised about."""
    session = jms.connect(tcp).session()
    advisories = session.consumer("topic://ActiveMQ.Advisory.Consumer.>")
    session.consumer(f"{queue}.a")
    session.consumer(f"{queue}.b")
    for name in ("a", "b"):
        message = next_about(advisories, destination=f"{queue}.{name}")
        assert message.destination == f"topic://ActiveMQ.Advisory.Consumer.Queue.{queue[8:]}.{name}"
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        extra = advisories.receive(100)
        assert extra is None or "ActiveMQ.Advisory" not in str(payload(extra)["destination"])


def test_A8_advisory_topics_are_named_as_activemq_names_them(jms: Jms) -> None:
    """A8: users write these names by hand."""
    names = {kind: jms.advisory_topic(kind, "queue://a.b") for kind in ("Consumer", "Producer", "SlowConsumer")}
    assert names == {kind: f"topic://ActiveMQ.Advisory.{kind}.Queue.a.b" for kind in names}
    assert jms.advisory_topic("MessageDLQd", "topic://t") == "topic://ActiveMQ.Advisory.MessageDLQd.Topic.t"
    assert jms.advisory_topic("Destination", "queue://a") == "topic://ActiveMQ.Advisory.Queue"
    assert jms.advisory_topic("Connection") == "topic://ActiveMQ.Advisory.Connection"
