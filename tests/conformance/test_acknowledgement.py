"""What is acknowledged is gone, what is not comes back, flagged if it was seen (D1 to D7)."""

import pytest

from tests.conformance.jms import (
    AckMode,
    Connection,
    Consumer,
    Jms,
    Received,
    Session,
    bodies,
    redelivered,
    text,
    texts,
    with_options,
)


def drain(jms: Jms, url: str, queue: str) -> list[Received]:
    """Everything the queue still holds: a last message, sent now, marks the end."""
    jms.send(url, queue, text("end"))
    messages: list[Received] = []
    with jms.connect(url) as connection:
        consumer = connection.session().consumer(queue)
        while (message := consumer.receive_one()).body != "end":
            messages.append(message)
        assert consumer.receive_no_wait() is None
    return messages


def test_D1_auto_acknowledges_each_message_as_it_is_received(jms: Jms, url: str, queue: str) -> None:
    """D1: received messages are gone; the rest had only been prefetched and comes unflagged."""
    jms.send(url, queue, *texts(5))
    with jms.connect(url) as connection:
        connection.session(AckMode.AUTO).consumer(queue).receive_expected(3)
    left = drain(jms, url, queue)
    assert bodies(left) == ["m3", "m4"]
    assert redelivered(left) == [False, False]


def test_D1_auto_acknowledges_after_the_listener_returned(jms: Jms, url: str, queue: str) -> None:
    """D1: what a listener was given is gone."""
    jms.send(url, queue, *texts(5))
    with jms.connect(url) as connection:
        connection.session(AckMode.AUTO).consumer(queue, listen=True).hear_expected(5)
    assert drain(jms, url, queue) == []


def test_D3_client_acknowledges_everything_the_session_consumed_so_far(jms: Jms, url: str, queue: str) -> None:
    """D3: acknowledging any message covers all received before, and none received later."""
    jms.send(url, queue, *texts(6))
    with jms.connect(url) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(queue)
        first_three = consumer.receive_expected(3)
        session.acknowledge(first_three[0])
        consumer.receive_expected(2)
    left = drain(jms, url, queue)
    assert bodies(left) == ["m3", "m4", "m5"]
    assert redelivered(left) == [True, True, False]


def test_D3_client_acknowledgement_spans_the_consumers_of_the_session(jms: Jms, url: str, queue: str) -> None:
    """D3: a message of one consumer acknowledges the other's too; another session's stay."""
    names = {name: f"{queue}.{name}" for name in ("one", "two", "other")}
    for name in names.values():
        jms.send(url, name, text("m"))
    with jms.connect(url) as connection:
        session, other_session = connection.session(AckMode.CLIENT), connection.session(AckMode.CLIENT)
        session.consumer(names["one"]).receive_one()
        other_session.consumer(names["other"]).receive_one()
        session.acknowledge(session.consumer(names["two"]).receive_one())
    assert drain(jms, url, names["one"]) == []
    assert drain(jms, url, names["two"]) == []
    assert bodies(drain(jms, url, names["other"])) == ["m"]


def test_D3_nothing_comes_back_after_client_acknowledged_in_steps(jms: Jms, url: str, queue: str) -> None:
    """D3: several range acks, one after another, on one consumer."""
    jms.send(url, queue, *texts(60))
    with jms.connect(url) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(queue)
        for step in (1, 9, 20, 30):
            session.acknowledge(consumer.receive_expected(step)[-1])
    assert drain(jms, url, queue) == []


def test_D4_dups_ok_on_a_queue_leaves_nothing_behind_after_close(jms: Jms, url: str, queue: str) -> None:
    """D4: late acks are made up for when the consumer closes; unseen messages stay unflagged."""
    jms.send(url, queue, *texts(20))
    with jms.connect(url) as connection:
        connection.session(AckMode.DUPS_OK).consumer(queue).receive_expected(15)
    left = drain(jms, url, queue)
    assert bodies(left) == [f"m{number}" for number in range(15, 20)]
    assert not any(redelivered(left))


@pytest.mark.parametrize("mode", AckMode)
def test_D4_a_topic_keeps_flowing_in_every_mode(jms: Jms, url: str, topic: str, mode: AckMode) -> None:
    """D1, D3, D4, D6: acks of each kind make room for more than one prefetch of messages."""
    with jms.connect(url) as connection:
        session = connection.session(mode)
        subscriber = session.consumer(f"{topic}?consumer.prefetchSize=10")
        jms.send(url, topic, *texts(100))
        for number in range(100):
            message = subscriber.receive_one()
            assert message.body == f"m{number}"
            if mode in (AckMode.CLIENT, AckMode.INDIVIDUAL):
                session.acknowledge(message)


def test_D6_individual_acknowledges_that_message_alone(jms: Jms, url: str, queue: str) -> None:
    """D6: the others come back in their order, flagged."""
    jms.send(url, queue, *texts(6))
    with jms.connect(url) as connection:
        session = connection.session(AckMode.INDIVIDUAL)
        messages = session.consumer(queue).receive_expected(5)
        session.acknowledge(messages[3])
        session.acknowledge(messages[1])
    left = drain(jms, url, queue)
    assert bodies(left) == ["m0", "m2", "m4", "m5"]
    assert redelivered(left) == [True, True, True, False]


def test_D6_individual_goes_on_past_the_prefetch_when_acknowledged(jms: Jms, url: str, queue: str) -> None:
    """D6, C4: each ack makes room for one more message."""
    jms.send(url, queue, *texts(40))
    with jms.connect(url) as connection:
        session = connection.session(AckMode.INDIVIDUAL)
        consumer = session.consumer(f"{queue}?consumer.prefetchSize=4")
        for number in range(40):
            message = consumer.receive_one()
            assert message.body == f"m{number}"
            session.acknowledge(message)
    assert drain(jms, url, queue) == []


@pytest.mark.parametrize("closed", ["consumer", "session", "connection"])
@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_D7_unacknowledged_messages_come_back_flagged_and_unseen_ones_unflagged(
    jms: Jms, url: str, queue: str, mode: AckMode, closed: str
) -> None:
    """D7: whichever way the consumer goes; it says itself how far it came (lastDeliveredSequenceId)."""
    jms.send(url, queue, *texts(6))
    connection = jms.connect(url)
    session = connection.session(mode)
    consumer = session.consumer(queue)
    consumer.receive_expected(2)
    parts: dict[str, Consumer | Session | Connection]
    parts = {"consumer": consumer, "session": session, "connection": connection}
    parts[closed].close()
    if closed != "connection":
        connection.await_processed(queue)
    left = drain(jms, url, queue)
    assert bodies(left) == [f"m{number}" for number in range(6)]
    assert redelivered(left) == [True, True, False, False, False, False]
    assert [message.delivery_count for message in left] == [2, 2, 1, 1, 1, 1]


def test_D7_a_consumer_that_saw_nothing_leaves_every_message_unflagged(jms: Jms, url: str, queue: str) -> None:
    """D7: prefetched is not seen."""
    with jms.connect(url) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(queue)
        session.producer(queue).send(*texts(5))
        consumer.await_waiting(5)
        consumer.close()
        others = connection.session().consumer(queue).receive_expected(5)
    assert bodies(others) == [f"m{number}" for number in range(5)]
    assert not any(redelivered(others))


def test_D7_each_return_raises_the_delivery_count(jms: Jms, url: str, queue: str) -> None:
    """D7, A5: JMSXDeliveryCount is 1 at first and one more for each time the message was seen."""
    jms.send(url, queue, text("again and again"))
    for expected in (1, 2, 3):
        with jms.connect(url) as connection:
            message = connection.session(AckMode.CLIENT).consumer(queue).receive_one()
        assert (message.delivery_count, message.redelivered) == (expected, expected > 1)


def test_D7_messages_that_come_back_reach_a_consumer_that_was_already_waiting(jms: Jms, url: str, queue: str) -> None:
    """D7, A2: returned messages are dispatched at once, before newer ones (H1)."""
    connection = jms.connect(url)
    first = connection.session(AckMode.CLIENT).consumer(queue)
    jms.send(url, queue, *texts(5))
    assert bodies(first.receive_expected(5)) == [f"m{number}" for number in range(5)]
    second = jms.connect(url).session().consumer(queue)
    first.close()
    connection.session().producer(queue).send(text("newer"))
    assert bodies(second.receive_expected(6)) == [*(f"m{number}" for number in range(5)), "newer"]


def test_D2_optimized_acknowledgement_leaves_nothing_behind_after_close(jms: Jms, url: str, queue: str) -> None:
    """D2: jms.optimizeAcknowledge acks in ranges, the last one at close."""
    jms.send(url, queue, *texts(150))
    optimizing = with_options(url, jms__optimizeAcknowledge=True, jms__prefetchPolicy__all=100)
    with jms.connect(optimizing) as connection:
        assert connection.facts().optimize_acknowledge
        connection.session(AckMode.AUTO).consumer(queue).receive_expected(140)
    left = drain(jms, url, queue)
    assert bodies(left) == [f"m{number}" for number in range(140, 150)]
    assert not any(redelivered(left))
