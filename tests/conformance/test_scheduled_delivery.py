"""Scheduled delivery: delay, period and repeat, cron, and looking after jobs (I1, I2)."""

import time
from collections.abc import Mapping

import pytest

from tests.conformance.jms import Jms, Received, Session, Value, bodies, text
from tests.conformance.scenarios import drain

BROKER_VARIANT = "scheduler"
MANAGEMENT = "topic://ActiveMQ.Scheduler.Management"
FAR_MS = 3_600_000


def when(**options: int | str) -> dict[str, Value]:
    """`delay=500` as AMQ_SCHEDULED_DELAY and so on; numbers are longs, except REPEAT, which is an int."""
    return {
        f"AMQ_SCHEDULED_{name.upper()}": Value(
            "string" if isinstance(value, str) else "int" if name == "repeat" else "long", value
        )
        for name, value in options.items()
    }


def manage(session: Session, **properties: Value) -> None:
    session.producer(MANAGEMENT).send(text("", properties=properties))


def jobs(jms: Jms, url: str, **extra: Value) -> list[Received]:
    """What is scheduled, as BROWSE lists it."""
    with jms.connect(url) as connection:
        session = connection.session()
        replies = session.temporary_queue()
        consumer = session.consumer(replies)
        request = text("", reply_to=replies, properties={"AMQ_SCHEDULER_ACTION": Value("string", "BROWSE"), **extra})
        session.producer(MANAGEMENT).send(request)
        return consumer.receive_up_to(100)


def remove_all(jms: Jms, url: str, **extra: Value) -> None:
    with jms.connect(url) as connection:
        manage(connection.session(), AMQ_SCHEDULER_ACTION=Value("string", "REMOVEALL"), **extra)


def test_I1_a_delayed_message_comes_after_its_delay(jms: Jms, tcp: str, queue: str) -> None:
    """I1: not before; without the scheduling properties, with a job id, and otherwise as it was sent."""
    session = jms.connect(tcp).session()
    consumer = session.consumer(queue)
    started = time.monotonic()
    [message_id] = session.producer(queue).send(text("m", properties=when(delay=600) | {"mine": Value("int", 1)}))
    session.producer(queue).send(text("at once"))
    assert consumer.receive_one().body == "at once"
    message = consumer.receive_one()
    assert 0.59 <= time.monotonic() - started < 5
    assert (message.body, message.message_id, message.redelivered) == ("m", message_id, False)
    assert message.properties["mine"] == Value("int", 1)
    assert "scheduledJobId" in message.properties
    assert "AMQ_SCHEDULED_DELAY" not in message.properties


@pytest.mark.parametrize("value", [Value("string", "300"), Value("int", 300)], ids=["string", "int"])
def test_I1_a_delay_may_be_given_as_text_or_int(jms: Jms, tcp: str, queue: str, value: Value) -> None:
    """I1: property conversions apply."""
    consumer = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, text("m", properties={"AMQ_SCHEDULED_DELAY": value}))
    assert consumer.receive_no_wait() is None
    assert consumer.receive_one().body == "m"


def test_I1_shorter_delays_overtake_longer_ones(jms: Jms, tcp: str, queue: str) -> None:
    """I1: by time, not by order of sending."""
    consumer = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, *(text(str(delay), properties=when(delay=delay)) for delay in (900, 300, 600)))
    assert bodies(consumer.receive_expected(3)) == ["300", "600", "900"]


def test_I1_a_period_repeats_the_message(jms: Jms, tcp: str, queue: str) -> None:
    """I1: once after the delay and then so many times more, each with an id of its own."""
    consumer = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, text("tick", properties=when(delay=100, period=150, repeat=3)))
    received = consumer.receive_expected(4)
    assert bodies(received) == ["tick"] * 4
    assert len({message.message_id for message in received}) == 4
    assert len({message.properties["scheduledJobId"].value for message in received}) == 1
    consumer.assert_nothing_comes()


def test_I1_a_topic_message_may_be_delayed(jms: Jms, tcp: str, topic: str) -> None:
    """I1, A3: to those who subscribe when it comes."""
    jms.send(tcp, topic, text("m", properties=when(delay=400)))
    subscriber = jms.connect(tcp).session().consumer(topic)
    assert subscriber.receive_one().body == "m"


def test_I1_a_delayed_message_in_a_transaction_is_scheduled_at_commit(jms: Jms, tcp: str, queue: str) -> None:
    """I1, G1: rolled back ones are never scheduled."""
    consumer = jms.connect(tcp).session().consumer(queue)
    session = jms.connect(tcp).transacted_session()
    producer = session.producer(queue)
    producer.send(text("lost", properties=when(delay=1)))
    session.rollback()
    producer.send(text("kept", properties=when(delay=100)))
    session.commit()
    assert consumer.receive_one().body == "kept"
    consumer.assert_nothing_comes()


def test_I2_jobs_can_be_listed(jms: Jms, tcp: str, queue: str) -> None:
    """I2: the scheduled messages themselves, with their properties and job ids."""
    jms.send(tcp, queue, text("a", properties=when(delay=FAR_MS)), text("b", properties=when(cron="0 0 1 1 *")))
    mine = [job for job in jobs(jms, tcp) if job.original_destination == queue]
    assert sorted(bodies(mine)) == ["a", "b"]
    by_body = {job.body: job for job in mine}
    assert by_body["a"].properties["AMQ_SCHEDULED_DELAY"] == Value("long", FAR_MS)
    assert by_body["b"].properties["AMQ_SCHEDULED_CRON"] == Value("string", "0 0 1 1 *")
    assert all(job.properties["scheduledJobId"].value for job in mine)
    assert drain(jms, tcp, queue) == []


def test_I2_a_job_can_be_removed(jms: Jms, tcp: str, queue: str) -> None:
    """I2: that one alone; what is removed never comes."""
    # The one that goes would come first; a busy machine has these seconds to remove it.
    delays = {"goes": 4000, "stays": 5000}
    jms.send(tcp, queue, *(text(name, properties=when(delay=delay)) for name, delay in delays.items()))
    [goes] = [job for job in jobs(jms, tcp) if job.original_destination == queue and job.body == "goes"]
    with jms.connect(tcp) as connection:
        session = connection.session()
        removal = {"AMQ_SCHEDULER_ACTION": Value("string", "REMOVE")}
        manage(session, **removal, scheduledJobId=goes.properties["scheduledJobId"])
        consumer = session.consumer(queue)
        assert consumer.receive_one().body == "stays"
        consumer.assert_nothing_comes()


def test_I2_jobs_can_be_listed_and_removed_by_time(jms: Jms, tcp: str, queue: str) -> None:
    """I2: ACTION_START_TIME and ACTION_END_TIME."""
    now_ms = int(time.time() * 1000)
    for name, delay_ms in (("soon", FAR_MS), ("late", 3 * FAR_MS)):
        jms.send(tcp, queue, text(name, properties=when(delay=delay_ms)))
    window: Mapping[str, Value] = {
        "ACTION_START_TIME": Value("string", str(now_ms + 2 * FAR_MS)),
        "ACTION_END_TIME": Value("string", str(now_ms + 4 * FAR_MS)),
    }
    assert bodies(job for job in jobs(jms, tcp, **window) if job.original_destination == queue) == ["late"]
    remove_all(jms, tcp, **window)
    assert bodies(job for job in jobs(jms, tcp) if job.original_destination == queue) == ["soon"]


@pytest.mark.full_minute
def test_I1_a_cron_entry_delivers_at_the_full_minute(jms: Jms, tcp: str, queue: str) -> None:
    """I1: the slowest test of all: up to a minute; combined with a delay and a repeat, which come after it."""
    consumer = jms.connect(tcp).session().consumer(queue)
    jms.send(tcp, queue, text("m", properties=when(cron="* * * * *", delay=100, period=100, repeat=1)))
    message = None
    deadline = time.monotonic() + 75
    while message is None and time.monotonic() < deadline:
        message = consumer.receive(10_000)
    assert message is not None
    assert message.body == "m"
    assert time.time() % 60 < 10
    assert consumer.receive_one().body == "m"
    remove_all(jms, tcp)
