"""Exclusive consumers, message groups and priorities (H2, H3, C6)."""

import pytest

from tests.conformance.jms import (
    AckMode,
    Consumer,
    Jms,
    Outgoing,
    Received,
    Session,
    Value,
    bodies,
    text,
    texts,
    with_options,
)
from tests.conformance.scenarios import named_client, numbered, under, with_redelivery

BROKER_VARIANT = "policies"


def in_group(group: str, *numbers: int) -> list[Outgoing]:
    """Messages of a group; JMSXGroupSeq is assigned from 1, or -1 for a number that is negative."""
    return [
        text(
            f"{group}{number}",
            properties={"JMSXGroupID": Value("string", group), "JMSXGroupSeq": Value("int", max(number, -1))},
        )
        for number in numbers
    ]


def exclusive(session: Session, queue: str, priority: int = 0) -> Consumer:
    return session.consumer(f"{queue}?consumer.exclusive=true&consumer.priority={priority}")


def test_H2_the_first_exclusive_consumer_gets_everything(jms: Jms, tcp: str, queue: str) -> None:
    """H2: others wait, and take over one after another, in the order in which they came."""
    consumers = [exclusive(jms.connect(tcp).session(), queue) for _ in range(3)]
    for turn, consumer in enumerate(consumers):
        jms.send(tcp, queue, *texts(10, f"turn{turn}."))
        assert bodies(consumer.receive_expected(10)) == numbered(range(10), f"turn{turn}.")
        assert [other.receive_no_wait() for other in consumers[turn + 1 :]] == [None] * (2 - turn)
        consumer.close()


def test_H2_the_next_exclusive_consumer_gets_what_the_first_left(jms: Jms, tcp: str, queue: str) -> None:
    """H2, D7, H1: unacknowledged messages first, flagged, then the rest, in order."""
    connection = jms.connect(tcp)
    first = exclusive(connection.session(AckMode.CLIENT), queue)
    second = exclusive(jms.connect(tcp).session(), queue)
    jms.send(tcp, queue, *texts(6))
    first.receive_expected(2)
    first.close()
    received = second.receive_expected(6)
    assert bodies(received) == numbered(range(6))
    assert [message.redelivered for message in received] == [True, True, False, False, False, False]


def test_H2_an_exclusive_consumer_takes_over_from_a_killed_one(jms: Jms, doomed_jms: Jms, tcp: str, queue: str) -> None:
    """H2, D7."""
    doomed = exclusive(doomed_jms.connect(tcp).session(AckMode.CLIENT), queue)
    survivor = exclusive(jms.connect(tcp).session(), queue)
    jms.send(tcp, queue, *texts(4))
    doomed.receive_expected(2)
    doomed_jms.kill()
    assert bodies(survivor.receive_expected(4)) == numbered(range(4))


def test_H2_an_exclusive_consumer_comes_before_ordinary_ones(jms: Jms, tcp: str, queue: str) -> None:
    """H2: while it lives they get nothing, though they came first."""
    ordinary = jms.connect(tcp).session().consumer(queue)
    chosen = exclusive(jms.connect(tcp).session(), queue)
    jms.send(tcp, queue, *texts(10))
    assert bodies(chosen.receive_expected(10)) == numbered(range(10))
    assert ordinary.receive_no_wait() is None
    chosen.close()
    jms.send(tcp, queue, text("after"))
    assert ordinary.receive_one().body == "after"


def test_H2_the_exclusive_consumer_of_highest_priority_takes_over(jms: Jms, tcp: str, queue: str) -> None:
    """H2: at once, even from one that is at work, which keeps what it already has."""
    low = exclusive(jms.connect(tcp).session(), queue, priority=1)
    jms.send(tcp, queue, text("for low"))
    low.await_waiting(1)
    high = exclusive(jms.connect(tcp).session(), queue, priority=10)
    jms.send(tcp, queue, *texts(5))
    assert bodies(high.receive_expected(5)) == numbered(range(5))
    assert low.receive_one().body == "for low"
    assert low.receive_no_wait() is None
    high.close()
    jms.send(tcp, queue, text("low again"))
    assert low.receive_one().body == "low again"


def test_H2_all_consumers_of_a_queue_can_be_exclusive_by_policy(jms: Jms, tcp: str, queue: str) -> None:
    """H2: allConsumersExclusiveByDefault."""
    queue = under("exclusive", queue)
    first, second = (jms.connect(tcp).session().consumer(queue) for _ in range(2))
    jms.send(tcp, queue, *texts(10))
    assert bodies(first.receive_expected(10)) == numbered(range(10))
    assert second.receive_no_wait() is None


def test_H2_consumer_priorities_are_served_from_high_to_low(jms: Jms, tcp: str, queue: str) -> None:
    """H2, C2: each gets what the higher ones have no room for; equals share."""
    sessions = [jms.connect(tcp).session(AckMode.CLIENT) for _ in range(3)]
    low, middle, high = (
        session.consumer(f"{queue}?consumer.priority={priority}&consumer.prefetchSize=4")
        for session, priority in zip(sessions, (-5, 0, 5), strict=True)
    )
    jms.send(tcp, queue, *texts(10))
    assert bodies(high.receive_expected(4))[:4] == numbered(range(4))
    assert bodies(middle.receive_up_to(1, timeout_ms=1000)) == ["m4"]
    low.await_waiting(2)


def test_H3_a_group_sticks_to_one_consumer(jms: Jms, tcp: str, queue: str) -> None:
    """H3: the first of each assignment is marked; groups spread over the consumers."""
    consumers = [jms.connect(tcp).session().consumer(queue, listen=True) for _ in range(2)]
    producer = jms.connect(tcp).session().producer(queue)
    for number in (1, 2, 3):
        for group in "ABCD":
            producer.send(*in_group(group, number))
    heard = [consumer.hear_expected(6) for consumer in consumers]
    groups = [{message.group_id for message in messages} for messages in heard]
    assert groups[0] | groups[1] == set("ABCD")
    assert groups[0] & groups[1] == set()
    for messages in heard:
        for name in {message.group_id for message in messages}:
            mine = [message for message in messages if message.group_id == name]
            assert [message.group_sequence for message in mine] == [1, 2, 3]
            assert [message.group_first for message in mine] == [True, False, False]


def test_H3_messages_without_a_group_go_to_anyone_unmarked(jms: Jms, tcp: str, queue: str) -> None:
    """H3: ActiveMQ prefers the consumer that owns fewer groups."""
    consumers = [jms.connect(tcp).session().consumer(queue, listen=True) for _ in range(2)]
    jms.send(tcp, queue, *in_group("A", 1, 2), *texts(10))
    heard: list[Received] = []
    while len(heard) < 12:
        news = [message for consumer in consumers for message in consumer.hear(500)]
        assert news
        heard += news
    assert sorted(bodies(heard)) == sorted(["A1", "A2", *numbered(range(10))])
    assert [message.group_first for message in heard if message.group_id is None] == [False] * 10


def test_H3_a_groups_messages_go_to_another_when_its_consumer_leaves(jms: Jms, tcp: str, queue: str) -> None:
    """H3, D7: unacknowledged ones too; the first that the new owner gets is marked again."""
    owner = jms.connect(tcp).session(AckMode.CLIENT).consumer(queue)
    jms.send(tcp, queue, *in_group("A", 1, 2, 3))
    owner.receive_expected(2)
    heir = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, *in_group("A", 4))
    heir.assert_nothing_comes()
    owner.close()
    received = heir.receive_expected(4)
    assert bodies(received) == ["A1", "A2", "A3", "A4"]
    assert [message.group_first for message in received] == [True, False, False, False]
    assert [message.redelivered for message in received] == [True, True, False, False]


def test_H3_a_group_survives_the_death_of_its_consumer(jms: Jms, doomed_jms: Jms, tcp: str, queue: str) -> None:
    """H3: a killed JVM."""
    doomed = doomed_jms.connect(tcp).session(AckMode.CLIENT).consumer(queue)
    jms.send(tcp, queue, *in_group("A", 1, 2))
    doomed.receive_one()
    heir = jms.connect(tcp).session().consumer(queue)
    doomed_jms.kill()
    assert bodies(heir.receive_expected(2)) == ["A1", "A2"]
    jms.send(tcp, queue, *in_group("A", 3))
    assert heir.receive_one().group_first is False


def test_H3_a_negative_sequence_closes_the_group(jms: Jms, tcp: str, queue: str) -> None:
    """H3: the closing message still goes to the owner; the next one of that name starts anew."""
    first = jms.connect(tcp).session(AckMode.CLIENT).consumer(queue)
    jms.send(tcp, queue, *in_group("A", 1, -1))
    received = first.receive_expected(2)
    assert [message.group_sequence for message in received] == [1, -1]
    second = jms.connect(tcp).session().consumer(f"{queue}?consumer.priority=5")
    jms.send(tcp, queue, *in_group("A", 1, 2))
    again = second.receive_expected(2)
    assert [message.group_first for message in again] == [True, False]


def test_H3_new_consumers_take_new_groups(jms: Jms, tcp: str, queue: str) -> None:
    """H3: old groups stay where they are."""
    first = jms.connect(tcp).session().consumer(queue, listen=True)
    jms.send(tcp, queue, *in_group("A", 1), *in_group("B", 1))
    first.hear_expected(2)
    second = jms.connect(tcp).session().consumer(queue, listen=True)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(*in_group("A", 2), *in_group("B", 2), *(m for name in "CDEFGH" for m in in_group(name, 1)))
    heard_first, heard_second = first.hear_expected(2), second.hear_expected(1)
    while len(heard_first) + len(heard_second) < 8:
        heard_first += first.hear(20)
        heard_second += second.hear(20)
    assert {"A2", "B2"} <= set(bodies(heard_first))
    assert heard_second
    assert all(message.group_first for message in heard_second)


def test_H3_a_new_group_goes_to_the_consumer_that_owns_the_fewest(jms: Jms, tcp: str, queue: str) -> None:
    """H3: one that comes late gets the next groups, until it has as many as the others."""
    first = jms.connect(tcp).session().consumer(queue, listen=True)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(*(m for number in range(6) for m in in_group(f"early{number}.", 1)))
    first.hear_expected(6)
    late = jms.connect(tcp).session().consumer(queue, listen=True)
    producer.send(*(m for number in range(6) for m in in_group(f"late{number}.", 1)))
    late.hear_expected(6)
    producer.send(*(m for number in range(6) for m in in_group(f"then{number}.", 1)))
    assert len(first.hear_expected(3)) == 3
    assert len(late.hear_expected(3)) == 3


def test_H3_a_rolled_back_group_message_stays_with_its_consumer(jms: Jms, tcp: str, queue: str) -> None:
    """H3, F1: order inside the group holds."""
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    owner = session.consumer(queue)
    other = jms.connect(tcp).session().consumer(queue)
    producer = jms.connect(tcp).session().producer(queue)
    producer.send(*in_group("A", 1, 2, 3))
    owner.receive_expected(2)
    session.rollback()
    assert bodies(owner.receive_expected(3)) == ["A1", "A2", "A3"]
    session.commit()
    assert other.receive_no_wait() is None


def test_H3_a_full_owner_holds_its_group_and_not_the_others(jms: Jms, tcp: str, queue: str) -> None:
    """H3, C2: messages of a group wait for their owner while other messages pass."""
    owner = jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=2")
    jms.send(tcp, queue, *in_group("A", 1, 2, 3, 4))
    owner.await_waiting(2)
    other = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, *in_group("B", 1))
    assert other.receive_one().body == "B1"
    assert other.receive_no_wait() is None


@pytest.mark.parametrize("prioritized", [False, True], ids=["default", "prioritized"])
def test_H1_priorities_order_a_queue_where_the_policy_says_so(
    jms: Jms, tcp: str, queue: str, prioritized: bool
) -> None:
    """H1, A5: prioritizedMessages; inside a priority first come, first served."""
    queue = under("prioritized", queue) if prioritized else queue
    with jms.connect(with_options(tcp, jms__messagePrioritySupported=prioritized)) as connection:
        session = connection.session()
        producer = session.producer(queue)
        for number in range(20):
            producer.send(text(f"{number % 10}.{number // 10}"), priority=number % 10)
        received = bodies(session.consumer(queue).receive_expected(20))
    sent = [f"{number % 10}.{number // 10}" for number in range(20)]
    assert received == (sorted(sent, key=lambda body: -int(body[0])) if prioritized else sent)


def test_C6_the_client_sorts_what_waits_in_it(jms: Jms, tcp: str, queue: str) -> None:
    """C6: messagePrioritySupported; messages that were dispatched in the order of sending."""
    for supported in (False, True):
        name = f"{queue}.{supported}"
        session = jms.connect(with_options(tcp, jms__messagePrioritySupported=supported)).session()
        consumer = session.consumer(name)
        producer = session.producer(name)
        for priority in (1, 9, 5):
            producer.send(text(str(priority)), priority=priority)
        consumer.await_waiting(3)
        assert bodies(consumer.receive_expected(3)) == (["9", "5", "1"] if supported else ["1", "9", "5"])


def test_H1_priorities_order_a_durable_subscription_too(jms: Jms, tcp: str, topic: str) -> None:
    """H1, A3: what waited while the subscriber was away."""
    topic = under("prioritized", topic)
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(topic, "durable")
    with jms.connect(tcp) as connection:
        producer = connection.session().producer(topic)
        for priority in (1, 9, 5):
            producer.send(text(str(priority)), priority=priority)
    with named_client(jms, tcp, topic) as connection:
        received = connection.session().durable(topic, "durable").receive_expected(3)
    assert bodies(received) == ["9", "5", "1"]


def test_H2_dispatch_may_wait_for_several_consumers(jms: Jms, tcp: str, queue: str) -> None:
    """H2: consumersBeforeDispatchStarts."""
    queue = under("two-consumers", queue)
    first = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, *texts(4))
    first.assert_nothing_comes()
    second = jms.connect(tcp).session().consumer(queue)
    received = [*first.receive_up_to(4, timeout_ms=1000), *second.receive_up_to(4)]
    assert sorted(bodies(received)) == numbered(range(4))
