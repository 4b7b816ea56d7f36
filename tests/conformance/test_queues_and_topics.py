"""Who gets which message: queues share, topics copy (A2, A3, H1)."""

import time
from collections.abc import Sequence
from itertools import chain

from tests.conformance.jms import (
    ARRIVAL_TIMEOUT_MS,
    Consumer,
    Jms,
    Received,
    bodies,
    redelivered,
    text,
    texts,
)


def hear_together(consumers: Sequence[Consumer], count: int) -> list[list[Received]]:
    """What each listener was given, once they have *count* messages between them."""
    heard: list[list[Received]] = [[] for _ in consumers]
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_MS / 1000
    while sum(map(len, heard)) < count and time.monotonic() < deadline:
        for messages, consumer in zip(heard, consumers, strict=True):
            messages += consumer.hear(timeout_ms=20)
    return heard


def test_A2_H1_one_consumer_gets_every_message_once_and_in_order(jms: Jms, url: str, queue: str) -> None:
    """A2, H1: one producer, one queue, one consumer."""
    with jms.connect(url) as connection:
        consumer = connection.session().consumer(queue)
        connection.session().producer(queue).send(*texts(300))
        received = consumer.receive_expected(300)
        assert bodies(received) == [f"m{number}" for number in range(300)]
        assert not any(redelivered(received))
        assert consumer.receive_no_wait() is None


def test_A2_a_queue_keeps_messages_until_a_consumer_comes(jms: Jms, url: str, queue: str) -> None:
    """A2: nobody needs to listen when a message is sent."""
    jms.send(url, queue, *texts(50))
    with jms.connect(url) as connection:
        received = connection.session().consumer(queue).receive_expected(50)
    assert bodies(received) == [f"m{number}" for number in range(50)]


def test_A2_three_consumers_share_a_queue_and_each_message_arrives_once(jms: Jms, url: str, queue: str) -> None:
    """A2: each message goes to exactly one of them, and all of them get work."""
    consumers = [jms.connect(url).session().consumer(queue, listen=True) for _ in range(3)]
    jms.send(url, queue, *texts(300))
    shares = [bodies(messages) for messages in hear_together(consumers, 300)]
    numbers = [[int(body.removeprefix("m")) for body in share] for share in shares]
    assert sorted(chain.from_iterable(numbers)) == list(range(300))
    assert all(share == sorted(share) for share in numbers), "a consumer's share is out of order"
    assert all(numbers), "a consumer got nothing"
    assert [consumer.hear(timeout_ms=0) for consumer in consumers] == [[], [], []]


def test_A2_three_consumers_of_one_session_share_a_queue(jms: Jms, tcp: str, queue: str) -> None:
    """A2: consumers count, not connections."""
    session = jms.connect(tcp).session()
    consumers = [session.consumer(queue, listen=True) for _ in range(3)]
    jms.send(tcp, queue, *texts(30))
    shares = [bodies(messages) for messages in hear_together(consumers, 30)]
    assert sorted(chain.from_iterable(shares)) == sorted(f"m{number}" for number in range(30))
    assert all(shares), "a consumer got nothing"


def test_H1_each_producers_messages_keep_their_order(jms: Jms, url: str, queue: str) -> None:
    """H1: two producers on two connections, interleaved; one consumer."""
    producers = {name: jms.connect(url).session().producer(queue) for name in "ab"}
    for number in range(50):
        for name, producer in producers.items():
            producer.send(text(f"{name}{number}"))
    with jms.connect(url) as connection:
        received = bodies(connection.session().consumer(queue).receive_expected(100))
    for name in producers:
        assert [body for body in received if body[0] == name] == [f"{name}{number}" for number in range(50)]


def test_A2_queues_do_not_mix(jms: Jms, tcp: str, queue: str) -> None:
    """A2: a message goes to the queue it names and to no other."""
    with jms.connect(tcp) as connection:
        session = connection.session()
        for name in ("one", "two"):
            session.producer(f"{queue}.{name}").send(text(name))
        for name in ("two", "one"):
            consumer = session.consumer(f"{queue}.{name}")
            assert consumer.receive_one().body == name
            assert consumer.receive_no_wait() is None


def test_A3_three_subscribers_of_a_topic_get_every_message(jms: Jms, url: str, topic: str) -> None:
    """A3: every active subscriber gets a copy, in order."""
    subscribers = [jms.connect(url).session().consumer(topic) for _ in range(3)]
    jms.send(url, topic, *texts(100))
    for subscriber in subscribers:
        assert bodies(subscriber.receive_expected(100)) == [f"m{number}" for number in range(100)]


def test_A3_a_subscriber_gets_only_what_is_sent_while_it_is_there(jms: Jms, url: str, topic: str) -> None:
    """A3: non-durable subscribers miss what came before, and what came while they were away."""
    jms.send(url, topic, text("too early"))
    with jms.connect(url) as connection:
        subscriber = connection.session().consumer(topic)
        jms.send(url, topic, text("in time"))
        assert subscriber.receive_one().body == "in time"
    jms.send(url, topic, text("while away"))
    with jms.connect(url) as connection:
        subscriber = connection.session().consumer(topic)
        jms.send(url, topic, text("back again"))
        assert subscriber.receive_one().body == "back again"


def test_A3_a_subscriber_that_leaves_does_not_disturb_the_others(jms: Jms, url: str, topic: str) -> None:
    """A3: what a leaving subscriber had not read goes to nobody else."""
    staying = jms.connect(url).session().consumer(topic)
    leaving = jms.connect(url).session().consumer(topic)
    jms.send(url, topic, *texts(10))
    assert leaving.receive_one().body == "m0"
    leaving.close()
    jms.send(url, topic, text("after"))
    assert bodies(staying.receive_expected(11)) == [*(f"m{number}" for number in range(10)), "after"]


def test_A3_a_queue_and_a_topic_of_one_name_are_different_places(jms: Jms, tcp: str, queue: str) -> None:
    """A2, A3: kinds of destination have name spaces of their own."""
    topic = queue.replace("queue://", "topic://")
    with jms.connect(tcp) as connection:
        session = connection.session()
        subscriber = session.consumer(topic)
        session.producer(queue).send(text("for the queue"))
        session.producer(topic).send(text("for the topic"))
        assert subscriber.receive_one().body == "for the topic"
        assert session.consumer(queue).receive_one().body == "for the queue"
