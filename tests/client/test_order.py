"""Order, exclusive consumers, message groups and priorities (H, C6), and late topic subscribers."""

import queue as queues
from collections.abc import Sequence

import pytest

from ackwire import AckMode, Connection, Consumer, Message, Session
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import (
    assert_nothing_comes,
    drain,
    flags,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
    with_redelivery,
)

BROKER_VARIANT = "policies"


def under(prefix: str, destination: str) -> str:
    """The destination of the same kind whose name begins with *prefix*, to which a policy applies."""
    kind, _, name = destination.partition("://")
    return f"{kind}://{prefix}.{name}"


class Ear:
    """Hears what the listener of a consumer is given."""

    def __init__(self, consumer: Consumer) -> None:
        self._heard: queues.SimpleQueue[Message] = queues.SimpleQueue()
        consumer.listener = self._heard.put

    def hear(self, count: int) -> list[Message]:
        return [self._heard.get(timeout=10) for _ in range(count)]


# ---- H1 --------------------------------------------------------------------------------------------------------


def test_H1_one_producers_messages_keep_their_order_for_one_consumer(connection: Connection, queue: str) -> None:
    """H1: whatever the priority, where the queue is not told to sort; each producer's own."""
    session = connection.session()
    producers = [session.producer(queue) for _ in range(3)]
    for number in range(30):
        for name, producer in zip("abc", producers, strict=True):
            producer.send(f"{name}{number}", priority=number % 10)
    received = texts(receive_all(session.consumer(queue), 90))
    for name in "abc":
        assert [text for text in received if text and text[0] == name] == numbered(range(30), name)


def test_H1_what_comes_back_goes_to_its_place(connect: Connect, queue: str) -> None:
    """H1, D7: before what was sent later."""
    first, second = connect(), connect()
    send(second, queue, *numbered(range(4)))
    receive_all(first.session(AckMode.CLIENT).consumer(queue), 2)
    send(second, queue, *numbered(range(4, 6)))
    first.close()
    assert texts(drain(second, queue)) == numbered(range(6))


def test_H1_priorities_order_a_queue_where_the_policy_says_so(broker: Broker, connect: Connect, queue: str) -> None:
    """H1, A5: prioritizedMessages; inside a priority first come, first served."""
    queue = under("prioritized", queue)
    session = connect(broker.url_with(jms__messagePrioritySupported=True)).session()
    producer = session.producer(queue)
    for number in range(20):
        producer.send(f"{number % 10}.{number // 10}", priority=number % 10)
    received = texts(receive_all(session.consumer(queue), 20))
    assert received == [f"{priority}.{turn}" for priority in range(9, -1, -1) for turn in (0, 1)]


def test_H1_priorities_order_a_durable_subscription_too(connect: Connect, topic: str) -> None:
    """H1, A3: what waited while the subscriber was away."""
    topic = under("prioritized", topic)
    with connect(client_id=topic) as connection:
        connection.session().durable_subscriber(topic, "durable")
    session = connect().session()
    for priority in (1, 9, 5):
        session.send(topic, str(priority), priority=priority)
    consumer = connect(client_id=topic).session().durable_subscriber(topic, "durable")
    assert texts(receive_all(consumer, 3)) == ["9", "5", "1"]


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.SESSION_TRANSACTED])
def test_C6_by_priority_nothing_is_acknowledged_that_was_not_received(
    broker: Broker, connect: Connect, queue: str, mode: AckMode
) -> None:
    """C6, D3: what overtook others is acknowledged without them."""
    connection = connect(broker.url_with(jms__messagePrioritySupported=True))
    session = connection.session(mode)
    consumer = session.consumer(queue)
    producer = connection.session().producer(queue)
    for number in (1, 9, 5, 0):
        producer.send(str(number), priority=number)
    received = texts(receive_all(consumer, 2))
    if mode is AckMode.CLIENT:
        session.acknowledge()
    else:
        session.commit()
    session.close()
    left = texts(drain(connect(), queue))
    assert sorted([*received, *left], key=str) == ["0", "1", "5", "9"]


# ---- H2 --------------------------------------------------------------------------------------------------------


def exclusive(connection: Connection, queue: str, priority: int = 0, mode: AckMode = AckMode.AUTO) -> Consumer:
    return connection.session(mode).consumer(f"{queue}?consumer.exclusive=true&consumer.priority={priority}")


def test_H2_the_first_exclusive_consumer_gets_everything(connect: Connect, queue: str) -> None:
    """H2: others wait, and take over one after another, in the order in which they came."""
    sender = connect()
    consumers = [exclusive(connect(), queue) for _ in range(3)]
    for turn, consumer in enumerate(consumers):
        bodies = numbered(range(10), f"turn{turn}.")
        send(sender, queue, *bodies)
        assert texts(receive_all(consumer, 10)) == bodies
        assert [other.receive_no_wait() for other in consumers[turn + 1 :]] == [None] * (2 - turn)
        consumer.close()


def test_H2_the_next_exclusive_consumer_gets_what_the_first_left(connect: Connect, queue: str) -> None:
    """H2, D7, H1: unacknowledged messages first, flagged, then the rest, in order."""
    first = exclusive(connect(), queue, mode=AckMode.CLIENT)
    second = exclusive(connect(), queue)
    send(connect(), queue, *numbered(range(6)))
    receive_all(first, 2)
    first.close()
    received = receive_all(second, 6)
    assert (texts(received), flags(received)) == (numbered(range(6)), [True, True] + [False] * 4)


def test_H2_an_exclusive_consumer_comes_before_ordinary_ones(connect: Connect, queue: str) -> None:
    """H2: while it lives they get nothing, though they came first."""
    ordinary = connect().session().consumer(queue)
    chosen = exclusive(connect(), queue)
    sender = connect()
    send(sender, queue, *numbered(range(10)))
    assert texts(receive_all(chosen, 10)) == numbered(range(10))
    assert ordinary.receive_no_wait() is None
    chosen.close()
    send(sender, queue, "after")
    assert text_of(receive(ordinary)) == "after"


def test_H2_the_exclusive_consumer_of_highest_priority_takes_over(connect: Connect, queue: str) -> None:
    """H2: at once, even from one that is at work."""
    low = exclusive(connect(), queue, priority=1)
    high = exclusive(connect(), queue, priority=10)
    sender = connect()
    send(sender, queue, *numbered(range(5)))
    assert texts(receive_all(high, 5)) == numbered(range(5))
    assert low.receive_no_wait() is None
    high.close()
    send(sender, queue, "low again")
    assert text_of(receive(low)) == "low again"


def test_H2_a_connection_may_ask_for_exclusive_consumers(broker: Broker, connect: Connect, queue: str) -> None:
    """H2: jms.exclusiveConsumer."""
    url = broker.url_with(jms__exclusiveConsumer=True)
    first, second = (connect(url).session().consumer(queue) for _ in range(2))
    send(connect(), queue, *numbered(range(10)))
    assert texts(receive_all(first, 10)) == numbered(range(10))
    assert second.receive_no_wait() is None


def test_H2_consumer_priorities_are_served_from_high_to_low(connect: Connect, queue: str) -> None:
    """H2, C2: each gets what the higher ones have no room for."""
    low, middle, high = (
        connect().session(AckMode.CLIENT).consumer(f"{queue}?consumer.priority={priority}&consumer.prefetchSize=4")
        for priority in (-5, 0, 5)
    )
    send(connect(), queue, *numbered(range(10)))
    assert texts(receive_all(high, 1)) == ["m0"]
    assert texts(receive_all(middle, 1)) == ["m4"]
    assert texts(receive_all(low, 1)) == ["m8"]


# ---- H3 --------------------------------------------------------------------------------------------------------


def send_group(session: Session, queue: str, group: str, numbers: Sequence[int]) -> None:
    """Messages of a group; a negative number closes it."""
    for number in numbers:
        session.send(queue, f"{group}{number}", group_id=group, group_sequence=max(number, -1))


def firsts(messages: Sequence[Message]) -> list[bool]:
    return [message.group_first for message in messages]


def test_H3_a_group_sticks_to_one_consumer(connect: Connect, queue: str) -> None:
    """H3: the first of each assignment is marked; groups spread over the consumers."""
    ears = [Ear(connect().session().consumer(queue)) for _ in range(2)]
    session = connect().session()
    for number in (1, 2, 3):
        for group in "ABCD":
            send_group(session, queue, group, [number])
    heard = [ear.hear(6) for ear in ears]
    groups = [{message.group_id for message in messages} for messages in heard]
    assert groups[0] | groups[1] == set("ABCD")
    assert groups[0] & groups[1] == set()
    for messages in heard:
        for name in {message.group_id for message in messages}:
            mine = [message for message in messages if message.group_id == name]
            assert [message.group_sequence for message in mine] == [1, 2, 3]
            assert firsts(mine) == [True, False, False]
            assert [message.properties["JMSXGroupFirstForConsumer"] for message in mine] == [True, False, False]


def test_H3_a_group_goes_to_another_when_its_consumer_leaves(connect: Connect, queue: str) -> None:
    """H3, D7: unacknowledged messages too; the first that the new owner gets is marked again."""
    owner = connect().session(AckMode.CLIENT).consumer(queue)
    sender = connect().session()
    send_group(sender, queue, "A", [1, 2, 3])
    receive_all(owner, 2)
    heir = connect().session().consumer(queue)
    send_group(sender, queue, "A", [4])
    assert_nothing_comes(heir)
    owner.close()
    received = receive_all(heir, 4)
    assert texts(received) == ["A1", "A2", "A3", "A4"]
    assert firsts(received) == [True, False, False, False]
    assert flags(received) == [True, True, False, False]


def test_H3_a_negative_sequence_closes_the_group(connect: Connect, queue: str) -> None:
    """H3: the closing message still goes to the owner; the next one of that name starts anew, elsewhere if it likes."""
    first = connect().session(AckMode.CLIENT).consumer(queue)
    sender = connect().session()
    send_group(sender, queue, "A", [1, -1])
    received = receive_all(first, 2)
    assert [message.group_sequence for message in received] == [1, -1]
    assert firsts(received) == [True, False]
    second = connect().session().consumer(f"{queue}?consumer.priority=5")
    send_group(sender, queue, "A", [1, 2])
    assert firsts(receive_all(second, 2)) == [True, False]


def test_H3_a_rolled_back_group_message_stays_with_its_consumer(broker: Broker, connect: Connect, queue: str) -> None:
    """H3, F1: order inside the group holds."""
    session = connect(with_redelivery(broker)).session(transacted=True)
    owner = session.consumer(queue)
    other = connect().session().consumer(queue)
    send_group(connect().session(), queue, "A", [1, 2, 3])
    receive_all(owner, 2)
    session.rollback()
    received = receive_all(owner, 3)
    assert texts(received) == ["A1", "A2", "A3"]
    session.commit()
    assert other.receive_no_wait() is None


def test_H3_the_group_may_be_given_as_properties(connection: Connection, queue: str) -> None:
    """H3, A5: under their JMS names, as other clients write them."""
    session = connection.session()
    session.send(queue, "m", properties={"JMSXGroupID": "A", "JMSXGroupSeq": 7})
    message = receive(session.consumer(queue))
    assert (message.group_id, message.group_sequence, message.group_first) == ("A", 7, True)
    assert (message.properties["JMSXGroupID"], message.properties["JMSXGroupSeq"]) == ("A", 7)


def test_H3_messages_without_a_group_are_not_marked(connection: Connection, queue: str) -> None:
    """H3."""
    session = connection.session()
    session.send(queue, "m")
    message = receive(session.consumer(queue))
    assert (message.group_id, message.group_first) == (None, False)


# ---- late subscribers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["name", "connection", "policy"])
def test_A3_a_retroactive_subscriber_gets_what_the_broker_retains(
    broker: Broker, connect: Connect, topic: str, way: str
) -> None:
    """A3: by consumer.retroactive in the name, by jms.useRetroactiveConsumer, or because the broker says so for all."""
    topic = under("always-retroactive" if way == "policy" else "recover-count", topic)
    send(connect(), topic, *numbered(range(5)))
    url = broker.url_with(jms__useRetroactiveConsumer=True) if way == "connection" else broker.url
    name = f"{topic}?consumer.retroactive=true" if way == "name" else topic
    assert texts(receive_all(connect(url).session().consumer(name), 3)) == ["m2", "m3", "m4"]


def test_A3_an_ordinary_subscriber_gets_nothing_old(connect: Connect, topic: str) -> None:
    """A3: though the broker retains it."""
    topic = under("recover-count", topic)
    connection = connect()
    send(connection, topic, "old")
    consumer = connection.session().consumer(topic)
    send(connection, topic, "new")
    assert text_of(receive(consumer)) == "new"


def test_C5_a_subscriber_may_ask_how_much_is_kept_for_it(connect: Connect, topic: str) -> None:
    """C5: consumer.maximumPendingMessageLimit; a slow one loses the oldest beyond it, and misses nothing else."""
    topic = under("evicting", topic)
    connection = connect()
    consumer = connection.session().consumer(f"{topic}?consumer.prefetchSize=1&consumer.maximumPendingMessageLimit=3")
    connection.stop()
    send(connection, topic, *numbered(range(20)))
    connection.start()
    received = texts(receive_all(consumer, 4))
    assert received[-3:] == ["m17", "m18", "m19"]
