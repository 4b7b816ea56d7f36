"""Policies with equal settings on both brokers: where they agree, and the few differences, each in one place.

`docs/activemq-differences.md` is the table of what this shows. A test of a difference says what each broker does, so it
fails as soon as one of them changes.
"""

from tests.conformance.jms import ABSENCE_MS, AckMode, Consumer, Jms, Outgoing, Session, Value, bodies, text, texts
from tests.conformance.routes import AGAINST_ACTIVEMQ
from tests.conformance.scenarios import drain, named_client, numbered, under, with_redelivery

BROKER_VARIANT = "policies"


def send_priorities(session: Session, destination: str, *priorities: int) -> None:
    """Messages whose bodies are their priority and their number."""
    producer = session.producer(destination)
    for number, priority in enumerate(priorities):
        producer.send(text(f"{priority}.{number}"), priority=priority)


def in_group(group: str, number: int, sequence: int | None = None) -> Outgoing:
    properties = {"JMSXGroupID": Value("string", group)}
    if sequence is not None:
        properties["JMSXGroupSeq"] = Value("int", sequence)
    return text(f"{group}{number}", properties=properties)


def rest_of(consumer: Consumer) -> list[str]:
    return bodies(consumer.receive_up_to(60, timeout_ms=ABSENCE_MS))


# ---- where they agree ------------------------------------------------------------------------------------------


def test_H1_C3_a_pulling_consumer_gets_the_highest_priority_that_is_there(jms: Jms, tcp: str, queue: str) -> None:
    """H1, C3: prefetch 0 and prioritizedMessages; what comes later and is more important comes first."""
    queue = under("prioritized", queue)
    session = jms.connect(tcp).session(AckMode.INDIVIDUAL)
    send_priorities(session, queue, 1, 9, 5, 1, 9)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    first = [consumer.receive_one().body for _ in range(2)]
    send_priorities(session, queue, 7, 9)
    assert [*first, *rest_of(consumer)] == ["9.1", "9.4", "9.1", "7.0", "5.2", "1.0", "1.3"]


def test_H1_what_was_sent_ahead_is_not_overtaken_with_or_without_lazy_dispatch(jms: Jms, tcp: str, queue: str) -> None:
    """H1, C2: lazyDispatch of ActiveMQ changes nothing for priorities, and ours has no such setting."""
    for prefix in ("prioritized", "lazy"):
        name = under(prefix, queue)
        session = jms.connect(tcp).session()
        consumer = session.consumer(f"{name}?consumer.prefetchSize=3")
        send_priorities(session, name, 1, 1, 1, 1, 1)
        consumer.await_waiting(3)
        send_priorities(session, name, 9, 9)
        assert rest_of(consumer) == ["1.0", "1.1", "1.2", "9.0", "9.1", "1.3", "1.4"]


def test_H1_a_browser_sees_priorities_in_order(jms: Jms, tcp: str, queue: str) -> None:
    """H1: with some of them in flight, too."""
    queue = under("prioritized", queue)
    session = jms.connect(tcp).session(AckMode.CLIENT)
    send_priorities(session, queue, 1, 9, 5, 1, 9)
    assert bodies(session.browse(queue)) == ["9.1", "9.4", "5.2", "1.0", "1.3"]
    session.consumer(f"{queue}?consumer.prefetchSize=2").await_waiting(2)
    send_priorities(session, queue, 8)
    assert bodies(session.browse(queue)) == ["9.1", "9.4", "8.0", "5.2", "1.0", "1.3"]


def test_A8_a_browser_of_a_pattern_sees_all_queues_that_match(jms: Jms, tcp: str, queue: str) -> None:
    """A8: and takes nothing."""
    for name in ("a", "b"):
        jms.send(tcp, f"{queue}.{name}", text(name))
    session = jms.connect(tcp).session()
    assert sorted(bodies(session.browse(f"{queue}.>"))) == ["a", "b"]
    assert bodies(drain(jms, tcp, f"{queue}.a")) == ["a"]


def test_H1_priorities_of_a_topic_are_for_durable_subscribers(jms: Jms, tcp: str, topic: str) -> None:
    """H1, A3: others get what is published in its order."""
    topic = under("prioritized", topic)
    live = jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=1")
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(topic, "durable")
    send_priorities(jms.connect(tcp).session(), topic, 1, 5, 9, 1)
    assert rest_of(live) == ["1.0", "5.1", "9.2", "1.3"]
    session = named_client(jms, tcp, topic).session(AckMode.CLIENT)
    durable = session.durable(f"{topic}?consumer.prefetchSize=1", "durable")
    assert rest_of(durable) == ["9.2", "5.1", "1.0", "1.3"]


def test_C5_eviction_may_take_the_oldest_of_the_lowest_priority(jms: Jms, tcp: str, topic: str) -> None:
    """C5: three wait beyond the prefetch of one."""
    topic = under("evicting-lowest", topic)
    slow = jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=1")
    connection = jms.connect(tcp)
    send_priorities(connection.session(), topic, 4, 9, 1, 5, 1, 9, 3)
    connection.await_processed(topic)
    assert rest_of(slow) == ["4.0", "9.1", "5.3", "9.5"]


def test_C5_C3_a_pulling_subscriber_keeps_as_many_as_the_limit_says(jms: Jms, tcp: str, topic: str) -> None:
    """C5, C3: the last ten."""
    topic = under("evicting", topic)
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.prefetchSize=0")
    jms.send(tcp, topic, *texts(30))
    assert rest_of(subscriber) == numbered(range(20, 30))


def test_H3_the_groups_of_a_consumer_that_leaves_are_shared(jms: Jms, tcp: str, queue: str) -> None:
    """H3: those that stay get them as new groups; groups do not move while their owner stays."""
    leaving = jms.connect(tcp).session().consumer(queue, listen=True)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(*(in_group(group, 1) for group in "ABCD"))
    leaving.hear_expected(4)
    staying = [jms.connect(tcp).session().consumer(queue, listen=True) for _ in range(2)]
    producer.send(*(in_group(group, 2) for group in "ABCD"))
    leaving.hear_expected(4)
    leaving.close()
    producer.send(*(in_group(group, 3) for group in "ABCD"))
    assert [len(consumer.hear_expected(2)) for consumer in staying] == [2, 2]


def fail_for_each(jms: Jms, url: str, topic: str) -> list[str]:
    """A message that two durable subscribers roll back, and what is in the topic's dead-letter queue then."""
    sessions = []
    for suffix in "ab":
        connection = named_client(jms, with_redelivery(url, maximumRedeliveries=0), topic, suffix)
        session = connection.transacted_session()
        sessions.append((connection, session, session.durable(topic, "durable")))
    jms.send(url, topic, text("m"))
    for connection, session, subscriber in sessions:
        assert subscriber.receive_one().body == "m"
        session.rollback()
        connection.close()
    return bodies(drain(jms, url, topic.replace("topic://", "queue://DLQ.")))


def test_F4_what_fails_for_several_durable_subscribers_is_one_dead_letter(jms: Jms, tcp: str, topic: str) -> None:
    """F4: the strategy remembers ids."""
    assert fail_for_each(jms, tcp, under("individual", topic)) == ["m"]


def test_F4_A6_what_expires_for_several_durable_subscribers_is_one_dead_letter(jms: Jms, tcp: str, topic: str) -> None:
    """F4, A6: while they are away."""
    topic = under("individual", topic)
    for suffix in "ab":
        with named_client(jms, tcp, topic, suffix) as connection:
            connection.session().durable(topic, "durable")
    jms.send(tcp, topic, *texts(3), time_to_live_ms=150)
    jms.send(tcp, topic, text("lives"))
    dead = topic.replace("topic://", "queue://DLQ.")
    first = jms.connect(tcp).session().consumer(dead)
    assert sorted(message.body for message in first.receive_expected(3)) == numbered(range(3))
    for suffix in "ab":
        with named_client(jms, tcp, topic, suffix) as connection:
            assert rest_of(connection.session().durable(topic, "durable")) == ["lives"]
    assert rest_of(first) == []


# ---- where they differ -----------------------------------------------------------------------------------------


def test_H3_messages_of_no_group_and_consumers_with_groups(jms: Jms, tcp: str, queue: str) -> None:
    """H3: ActiveMQ sends them to the consumer with the fewest groups until it is full; ours to all in turn."""
    owner = jms.connect(tcp).session().consumer(queue)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(in_group("A", 1))
    assert owner.receive_one().body == "A1"
    free = jms.connect(tcp).session().consumer(queue)
    producer.send(*texts(6))
    free.await_waiting(6 if AGAINST_ACTIVEMQ else 3)


def test_H3_a_group_that_begins_again(jms: Jms, tcp: str, queue: str) -> None:
    """H3: JMSXGroupSeq 1 moves a group to another consumer in ActiveMQ, though the owner may be at work on it; ours
    keeps it where it is, so that its order holds."""
    owner = jms.connect(tcp).session().consumer(queue)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(in_group("A", 1), in_group("B", 1))
    owner.receive_expected(2)
    other = jms.connect(tcp).session().consumer(queue)
    producer.send(in_group("A", 2, sequence=1))
    assert (other if AGAINST_ACTIVEMQ else owner).receive_one().body == "A2"


def test_G1_C2_the_window_of_a_transaction_that_was_rolled_back(jms: Jms, tcp: str, queue: str) -> None:
    """G1, C2: with a prefetch of one ActiveMQ sends one or two messages of a transaction, ours goes on."""
    jms.send(tcp, queue, *texts(4))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=1")
    assert consumer.receive_one().body == "m0"
    session.rollback()
    received = rest_of(consumer)
    assert received == numbered(range(len(received)))
    assert (len(received) < 4) is AGAINST_ACTIVEMQ
    session.commit()


def test_F4_a_dead_letter_from_each_durable_subscriber(jms: Jms, tcp: str, topic: str) -> None:
    """F4: where the strategy is told not to remember ids. ActiveMQ's dead-letter queue takes the second for a
    repetition of the first, and has one all the same; ours has both."""
    dead = fail_for_each(jms, tcp, under("individual-each", topic))
    assert dead == (["m"] if AGAINST_ACTIVEMQ else ["m", "m"])


def test_A3_no_local_of_a_queue_consumer(jms: Jms, tcp: str, queue: str) -> None:
    """A3: JMS has noLocal for topics only. ActiveMQ leaves a connection's own messages on a queue, too; ours does not
    look at it there."""
    session = jms.connect(tcp).session()
    consumer = session.consumer(queue, no_local=True)
    session.producer(queue).send(text("own"))
    jms.send(tcp, queue, text("another's"))
    assert rest_of(consumer) == (["another's"] if AGAINST_ACTIVEMQ else ["own", "another's"])


def test_A3_a_message_may_ask_to_be_retained(jms: Jms, tcp: str, topic: str) -> None:
    """A3: by its property ActiveMQ.Retain, which MQTT needs; ours retains by policy only."""
    retained = text("retained", properties={"ActiveMQ.Retain": Value("boolean", True)})
    jms.send(tcp, topic, retained, text("another"))
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.retroactive=true")
    assert rest_of(subscriber) == (["retained"] if AGAINST_ACTIVEMQ else [])
