"""Wildcards, composite destinations, virtual topics, options in names, removal of destinations (A8)."""

import pytest

from tests.conformance.jms import AckMode, Jms, bodies, text, texts
from tests.conformance.scenarios import drain, numbered
from tests.helpers.java import JavaError

NAMES = ["", ".a", ".b", ".a.x", ".a.y", ".a.x.deep"]

PATTERNS = {
    ".*": [".a", ".b"],
    ".>": ["", ".a", ".b", ".a.x", ".a.y", ".a.x.deep"],
    ".a.*": [".a.x", ".a.y"],
    ".a.>": [".a", ".a.x", ".a.y", ".a.x.deep"],
    ".*.x": [".a.x"],
    ".*.*": [".a.x", ".a.y"],
    ".*.x.>": [".a.x", ".a.x.deep"],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_A8_a_wildcard_topic_subscriber_hears_all_matching_topics(jms: Jms, tcp: str, topic: str, pattern: str) -> None:
    """A8: topics that exist, and topics that do not yet; each message says where it was sent."""
    jms.send(tcp, f"{topic}.a.x", text("makes the topic exist"))
    subscriber = jms.connect(tcp).session().consumer(topic + pattern)
    for name in NAMES:
        jms.send(tcp, topic + name, text(name))
    received = subscriber.receive_expected(len(PATTERNS[pattern]))
    assert bodies(received) == PATTERNS[pattern]
    assert [message.destination for message in received] == [topic + name for name in PATTERNS[pattern]]
    assert subscriber.receive_no_wait() is None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_A8_a_wildcard_queue_consumer_takes_from_all_matching_queues(
    jms: Jms, tcp: str, queue: str, pattern: str
) -> None:
    """A8: messages that wait already and messages that come; the rest stays where it is."""
    for name in NAMES[:3]:
        jms.send(tcp, queue + name, text(name))
    consumer = jms.connect(tcp).session().consumer(queue + pattern)
    for name in NAMES[3:]:
        jms.send(tcp, queue + name, text(name))
    received = consumer.receive_expected(len(PATTERNS[pattern]))
    assert sorted(bodies(received)) == sorted(PATTERNS[pattern])
    assert all(message.destination == queue + message.body for message in received)
    consumer.close()
    for name in set(NAMES) - set(PATTERNS[pattern]):
        assert bodies(drain(jms, tcp, queue + name)) == [name]


def test_A8_a_wildcard_consumer_shares_with_others(jms: Jms, tcp: str, queue: str) -> None:
    """A8, A2: each message goes to one of them."""
    wild = jms.connect(tcp).session().consumer(f"{queue}.>", listen=True)
    plain = jms.connect(tcp).session().consumer(f"{queue}.a", listen=True)
    jms.send(tcp, f"{queue}.a", *texts(20))
    heard = bodies(wild.hear_expected(10)) + bodies(plain.hear_expected(10))
    assert sorted(heard) == sorted(numbered(range(20)))


def test_A8_a_wildcard_consumers_unacknowledged_messages_go_back_to_their_queues(
    jms: Jms, tcp: str, queue: str
) -> None:
    """A8, D7: one consumer, several queues, one acknowledgement."""
    for name in ("a", "b"):
        jms.send(tcp, f"{queue}.{name}", *texts(2, name))
    with jms.connect(tcp) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(f"{queue}.>")
        received = consumer.receive_expected(2)
        session.acknowledge(received[-1])
        seen = {message.body for message in consumer.receive_expected(2)}
    left = [message for name in ("a", "b") for message in drain(jms, tcp, f"{queue}.{name}")]
    assert {message.body for message in left} == seen


def test_A8_a_composite_destination_sends_a_copy_to_each(jms: Jms, tcp: str, queue: str) -> None:
    """A8: queues and a topic in one name; each copy names its own destination."""
    name = queue.removeprefix("queue://")
    subscriber = jms.connect(tcp).session().consumer(f"topic://{name}.t")
    [message_id] = jms.send(tcp, f"queue://{name}.a,{name}.b,topic://{name}.t", text("m"))
    received = [drain(jms, tcp, f"queue://{name}.a"), drain(jms, tcp, f"queue://{name}.b"), [subscriber.receive_one()]]
    for messages, destination in zip(received, ("queue://X.a", "queue://X.b", "topic://X.t"), strict=True):
        [message] = messages
        assert (message.body, message.message_id) == ("m", message_id)
        assert message.destination == destination.replace("X", name)
        assert message.original_destination == f"{name}.a,{name}.b,topic://{name}.t"


def test_A8_a_composite_send_in_a_transaction_is_all_or_nothing(jms: Jms, tcp: str, queue: str) -> None:
    """A8, G1: visible everywhere at commit, nowhere after rollback."""
    name = queue.removeprefix("queue://")
    session = jms.connect(tcp).transacted_session()
    producer = session.producer(f"queue://{name}.a,{name}.b")
    producer.send(text("lost"))
    session.rollback()
    producer.send(text("kept"))
    session.commit()
    for part in ("a", "b"):
        assert bodies(drain(jms, tcp, f"{queue}.{part}")) == ["kept"]


def test_A8_a_consumer_may_name_several_destinations(jms: Jms, tcp: str, queue: str) -> None:
    """A8: one consumer of two queues and a topic."""
    name = queue.removeprefix("queue://")
    jms.send(tcp, f"{queue}.a", text("a"))
    consumer = jms.connect(tcp).session().consumer(f"queue://{name}.a,{name}.b")
    jms.send(tcp, f"{queue}.b", text("b"))
    received = consumer.receive_expected(2)
    assert sorted(bodies(received)) == ["a", "b"]
    assert sorted(message.destination for message in received) == [f"{queue}.a", f"{queue}.b"]


def test_A8_virtual_topics_feed_a_queue_for_each_group(jms: Jms, tcp: str, topic: str) -> None:
    """A8: two groups get every message; inside a group its consumers compete."""
    name = f"VirtualTopic.{topic.removeprefix('topic://')}"
    session = jms.connect(tcp).session()
    first = [jms.connect(tcp).session().consumer(f"queue://Consumer.A.{name}", listen=True) for _ in range(2)]
    second = session.consumer(f"queue://Consumer.B.{name}")
    direct = session.consumer(f"topic://{name}")
    session.producer(f"topic://{name}").send(*texts(20))
    shares = [bodies(consumer.hear_expected(10)) for consumer in first]
    assert sorted(shares[0] + shares[1]) == sorted(numbered(range(20)))
    received = second.receive_expected(20)
    assert bodies(received) == numbered(range(20))
    assert bodies(direct.receive_expected(20)) == numbered(range(20))
    assert {message.destination for message in received} == {f"queue://Consumer.B.{name}"}
    assert {message.original_destination for message in received} == {f"topic://{name}"}


def test_A8_a_virtual_topics_queue_keeps_messages_while_its_group_is_away(jms: Jms, tcp: str, topic: str) -> None:
    """A8: from the first consumer on, as any queue does; before that there is no queue."""
    name = f"VirtualTopic.{topic.removeprefix('topic://')}"
    jms.send(tcp, f"topic://{name}", text("too early"))
    with jms.connect(tcp) as connection:
        connection.session().consumer(f"queue://Consumer.A.{name}")
    jms.send(tcp, f"topic://{name}", *texts(3))
    with jms.connect(tcp) as connection:
        received = connection.session().consumer(f"queue://Consumer.A.{name}").receive_expected(3)
    assert bodies(received) == numbered(range(3))


def test_A8_a_wildcard_queue_of_virtual_topics_is_a_queue_of_its_own(jms: Jms, tcp: str, topic: str) -> None:
    """A8: online and offline it gets what is published on every topic that its name stands for."""
    name = f"VirtualTopic.{topic.removeprefix('topic://')}"
    pattern = f"queue://Consumer.1.{name}.>"
    with jms.connect(tcp) as connection:
        consumer = connection.session().consumer(pattern)
        for part in ("", ".a", ".a.b"):
            jms.send(tcp, f"topic://{name}{part}", text(part))
        jms.send(tcp, f"topic://{name}x", text("another"))
        received = consumer.receive_expected(3)
        assert bodies(received) == ["", ".a", ".a.b"]
        assert {message.destination for message in received} == {pattern}
        assert [message.original_destination for message in received] == [
            f"topic://{name}{part}" for part in ("", ".a", ".a.b")
        ]
        consumer.assert_nothing_comes()
    jms.send(tcp, f"topic://{name}.c", *texts(3))
    assert bodies(jms.connect(tcp).session().consumer(pattern).receive_expected(3)) == numbered(range(3))


def test_A8_a_wildcard_and_a_plain_queue_of_a_virtual_topic_have_a_copy_each(jms: Jms, tcp: str, topic: str) -> None:
    """A8: a consumer of the wildcard also takes from the plain queue, as any wildcard consumer does."""
    name = f"VirtualTopic.{topic.removeprefix('topic://')}"
    with jms.connect(tcp) as connection:
        session = connection.session()
        session.consumer(f"queue://Consumer.1.{name}.>").close()
        plain = session.consumer(f"queue://Consumer.1.{name}.a")
        jms.send(tcp, f"topic://{name}.a", *texts(3))
        assert bodies(plain.receive_expected(3)) == numbered(range(3))
    wild = jms.connect(tcp).session().consumer(f"queue://Consumer.1.{name}.>")
    assert bodies(wild.receive_expected(3)) == numbered(range(3))
    jms.send(tcp, f"topic://{name}.a", text("m"))
    assert bodies(wild.receive_expected(2)) == ["m", "m"]


def test_A8_options_in_a_name_do_not_change_the_name(jms: Jms, tcp: str, queue: str) -> None:
    """A8: with and without options it is the same queue."""
    jms.send(tcp, f"{queue}?producer.windowSize=1024", text("m"))
    message = jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=7&consumer.priority=3").receive_one()
    assert (message.body, message.destination) == ("m", queue)


def test_A8_options_may_carry_a_no_local_flag_and_more(jms: Jms, tcp: str, topic: str) -> None:
    """A8, A3: consumer.noLocal in the name."""
    session = jms.connect(tcp).session()
    subscriber = session.consumer(f"{topic}?consumer.noLocal=true&consumer.dispatchAsync=false")
    session.producer(topic).send(text("local"))
    jms.send(tcp, topic, text("remote"))
    assert subscriber.receive_one().body == "remote"


def test_A8_a_producer_without_destination_names_one_for_each_message(jms: Jms, tcp: str, queue: str) -> None:
    """A8, B3: anonymous producers."""
    producer = jms.connect(tcp).session().producer(None)
    for name in ("a", "b", "a"):
        producer.send_to(f"{queue}.{name}", text(name))
    assert bodies(drain(jms, tcp, f"{queue}.a")) == ["a", "a"]
    assert bodies(drain(jms, tcp, f"{queue}.b")) == ["b"]
    with pytest.raises(JavaError) as refused:
        producer.send(text("nowhere"))
    assert refused.value.class_name == "java.lang.UnsupportedOperationException"


def test_A8_a_destination_in_use_cannot_be_removed(jms: Jms, tcp: str, queue: str, topic: str) -> None:
    """A8: destroyDestination is refused while there are consumers; messages stay."""
    connection = jms.connect(tcp)
    for name in (queue, topic):
        connection.session().consumer(name)
        with pytest.raises(JavaError) as refused:
            connection.destroy_destination(name)
        assert refused.value.class_name == "javax.jms.JMSException"
        assert "still has an active subscription" in refused.value.message


def test_A8_a_removed_destination_loses_its_messages_and_may_be_used_again(jms: Jms, tcp: str, queue: str) -> None:
    """A8: it comes back empty."""
    jms.send(tcp, queue, *texts(3))
    with jms.connect(tcp) as connection:
        connection.destroy_destination(queue)
    jms.send(tcp, queue, text("new"))
    assert bodies(drain(jms, tcp, queue)) == ["new"]


def test_A8_an_unknown_destination_may_be_removed(jms: Jms, tcp: str, queue: str) -> None:
    """A8: nothing happens."""
    with jms.connect(tcp) as connection:
        connection.destroy_destination(queue)
