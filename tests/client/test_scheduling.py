"""Scheduled delivery, asked for by properties (I1, I2)."""

import time
from typing import Any

import pytest

import ackwire
from ackwire import Connection, Message, Session
from tests.client.conftest import Connect
from tests.client.steps import assert_nothing_comes, drain, receive, receive_all, send, text_of, texts

BROKER_VARIANT = "scheduler"
MANAGEMENT = "topic://ActiveMQ.Scheduler.Management"
FAR_MS = 3_600_000


def when(**options: Any) -> dict[str, Any]:
    """`delay=500` as AMQ_SCHEDULED_DELAY and so on."""
    return {f"AMQ_SCHEDULED_{name.upper()}": value for name, value in options.items()}


def jobs(session: Session, queue: str) -> list[Message]:
    """What is scheduled for *queue*."""
    replies = session.temporary_queue()
    with session.consumer(replies) as consumer:
        session.send(MANAGEMENT, None, reply_to=replies, properties={"AMQ_SCHEDULER_ACTION": "BROWSE"})
        mark = session.send(replies, "the end").message_id  # the broker has answered before it takes this
        listed: list[Message] = []
        while (job := receive(consumer)).message_id != mark:
            listed.append(job)
    return [job for job in listed if repr(job.original_destination) == queue]


def test_I1_a_delayed_message_comes_after_its_delay(connection: Connection, queue: str) -> None:
    """I1: not before; without the scheduling properties, with a job id, and otherwise as it was sent."""
    session = connection.session()
    consumer = session.consumer(queue)
    started = time.monotonic()
    sent = session.send(queue, "m", properties={**when(delay=600), "mine": 1})
    session.send(queue, "at once")
    assert text_of(receive(consumer)) == "at once"
    message = receive(consumer)
    assert time.monotonic() - started >= 0.59
    assert (text_of(message), message.message_id, message.redelivered) == ("m", sent.message_id, False)
    assert message.properties["mine"] == 1
    assert "scheduledJobId" in message.properties
    assert "AMQ_SCHEDULED_DELAY" not in message.properties


@pytest.mark.parametrize("value", ["300", 300, ackwire.jms.types.Long(300), ackwire.jms.types.Short(300)])
def test_I1_a_delay_may_be_given_as_text_or_number(connection: Connection, queue: str, value: Any) -> None:
    """I1: the client converts it to the long that brokers look for."""
    consumer = connection.session().consumer(queue)
    send(connection, queue, "m", properties=when(delay=value))
    assert consumer.receive_no_wait() is None
    assert text_of(receive(consumer)) == "m"


def test_I1_shorter_delays_overtake_longer_ones(connection: Connection, queue: str) -> None:
    """I1: by time, not by order of sending."""
    session = connection.session()
    consumer = session.consumer(queue)
    for delay in (1900, 300, 1100):  # far apart, for machines that are busy
        session.send(queue, str(delay), properties=when(delay=delay))
    assert texts(receive_all(consumer, 3)) == ["300", "1100", "1900"]


def test_I1_a_period_repeats_the_message(connection: Connection, queue: str) -> None:
    """I1: once after the delay and then so many times more, each with an id of its own."""
    consumer = connection.session().consumer(queue)
    send(connection, queue, "tick", properties=when(delay=100, period=150, repeat=3))
    received = receive_all(consumer, 4)
    assert texts(received) == ["tick"] * 4
    assert len({message.message_id for message in received}) == 4
    assert len({message.properties["scheduledJobId"] for message in received}) == 1
    assert_nothing_comes(consumer)


def test_I1_a_topic_message_may_be_delayed(connection: Connection, topic: str) -> None:
    """I1, A3: to those who subscribe when it comes."""
    send(connection, topic, "m", properties=when(delay=400))
    assert text_of(receive(connection.session().consumer(topic))) == "m"


def test_I1_G1_a_delayed_message_in_a_transaction_is_scheduled_at_commit(connect: Connect, queue: str) -> None:
    """I1, G1: rolled back ones are never scheduled."""
    consumer = connect().session().consumer(queue)
    session = connect().session(transacted=True)
    session.send(queue, "lost", properties=when(delay=1))
    session.rollback()
    session.send(queue, "kept", properties=when(delay=100))
    session.commit()
    assert text_of(receive(consumer)) == "kept"
    assert_nothing_comes(consumer)


def test_I1_a_received_message_can_be_scheduled_again(connection: Connection, queue: str) -> None:
    """I1: a retry by hand: properties are cleared, or kept and a delay added to a new message."""
    session = connection.session()
    consumer = session.consumer(queue)
    session.send(queue, "m", properties={"mine": 1})
    message = receive(consumer)
    mine = dict(message.properties)
    message.clear_properties()
    session.send(queue, message, properties={**mine, **when(delay=100)})
    again = receive(consumer)
    assert (text_of(again), again.properties["mine"]) == ("m", 1)


def test_I2_jobs_can_be_listed_and_removed(connection: Connection, queue: str) -> None:
    """I2: the scheduled messages themselves; removed by job id they never come."""
    session = connection.session()
    session.send(queue, "a", properties=when(delay=FAR_MS))
    session.send(queue, "b", properties=when(cron="0 0 1 1 *"))
    found = {text_of(job): job for job in jobs(session, queue)}
    assert set(found) == {"a", "b"}
    assert found["a"].properties["AMQ_SCHEDULED_DELAY"] == FAR_MS
    assert found["b"].properties["AMQ_SCHEDULED_CRON"] == "0 0 1 1 *"
    for job in found.values():
        job_id = job.properties["scheduledJobId"]
        session.send(MANAGEMENT, None, properties={"AMQ_SCHEDULER_ACTION": "REMOVE", "scheduledJobId": job_id})
    assert jobs(session, queue) == []
    assert drain(connection, queue) == []


@pytest.mark.parametrize("bad", [when(delay="soon"), when(period=1.5), when(repeat=2**40)])
def test_I1_what_is_no_time_is_refused_when_it_is_set(connection: Connection, queue: str, bad: dict[str, Any]) -> None:
    """I1: not by the broker and later."""
    with pytest.raises(ackwire.MessageFormatError):
        send(connection, queue, "m", properties=bad)
