"""Redelivery by the client, its policy, and what becomes of a message nobody could process (E, F1 to F4)."""

import time

import pytest

from tests.conformance.jms import NON_PERSISTENT, AckMode, Jms, Value, bodies, redelivered, text, texts
from tests.conformance.scenarios import (
    counts,
    dead_letters,
    left_behind,
    marked,
    named_client,
    numbered,
    with_redelivery,
)

CAUSE = "dlqDeliveryFailureCause"


def test_F3_after_the_last_redelivery_a_message_moves_to_the_dead_letter_queue(jms: Jms, tcp: str, queue: str) -> None:
    """F3, F4: with at most two redeliveries it is seen three times; the dead letter tells why and whence."""
    [message_id] = jms.send(tcp, queue, text("poison", correlation_id=queue, properties={"mine": Value("int", 7)}))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=2)).transacted_session()
    consumer = session.consumer(queue)
    for attempt in (1, 2, 3):
        message = consumer.receive_one()
        assert (message.delivery_count, message.redelivered) == (attempt, attempt > 1)
        session.rollback()
    consumer.assert_nothing_comes()
    [dead] = dead_letters(jms, tcp, queue, 1)
    assert (dead.body, dead.message_id, dead.properties["mine"]) == ("poison", message_id, Value("int", 7))
    assert (dead.destination, dead.original_destination) == ("queue://ActiveMQ.DLQ", queue)
    assert (dead.redelivered, dead.delivery_count) == (False, 1)
    cause = dead.properties[CAUSE].value
    assert "Delivery[3] exceeds redelivery policy limit" in cause
    assert "maximumRedeliveries = 2" in cause


def test_F2_the_default_policy_allows_six_redeliveries(jms: Jms, tcp: str, queue: str) -> None:
    """F2: seven attempts in all."""
    jms.send(tcp, queue, *marked(queue))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(queue)
    for attempt in range(1, 8):
        assert consumer.receive_one().delivery_count == attempt
        session.rollback()
    consumer.assert_nothing_comes()
    dead_letters(jms, tcp, queue, 1)


def test_F2_with_no_redelivery_allowed_one_rollback_is_enough(jms: Jms, tcp: str, queue: str) -> None:
    """F2: maximumRedeliveries=0; the messages behind the poisoned one come next."""
    jms.send(tcp, queue, *marked(queue, 3))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=0)).transacted_session()
    consumer = session.consumer(queue)
    assert consumer.receive_one().body == "m0"
    session.rollback()
    assert bodies(consumer.receive_expected(2)) == ["m1", "m2"]
    session.commit()
    assert bodies(dead_letters(jms, tcp, queue, 1)) == ["m0"]


def test_F2_without_a_limit_a_message_comes_for_ever(jms: Jms, tcp: str, queue: str) -> None:
    """F2: maximumRedeliveries=-1."""
    jms.send(tcp, queue, text("stubborn"))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=-1)).transacted_session()
    consumer = session.consumer(queue)
    for attempt in range(1, 21):
        assert consumer.receive_one().delivery_count == attempt
        session.rollback()
    assert consumer.receive_one().delivery_count == 21
    session.commit()
    assert left_behind(jms, tcp, queue) == []


def test_F3_a_whole_rolled_back_batch_is_dead_lettered_in_order(jms: Jms, tcp: str, queue: str) -> None:
    """F3: one POISON ack for the range."""
    jms.send(tcp, queue, *marked(queue, 5))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=1)).transacted_session()
    consumer = session.consumer(queue)
    for _ in range(2):
        assert bodies(consumer.receive_expected(4)) == numbered(range(4))
        session.rollback()
    assert consumer.receive_one().body == "m4"
    session.commit()
    assert bodies(dead_letters(jms, tcp, queue, 4)) == numbered(range(4))


def test_F2_the_first_redelivery_waits_for_its_delay(jms: Jms, tcp: str, queue: str) -> None:
    """F2: initialRedeliveryDelay; meanwhile later messages wait too, so order holds."""
    jms.send(tcp, queue, *texts(2))
    session = jms.connect(with_redelivery(tcp, initialRedeliveryDelay=400)).transacted_session()
    consumer = session.consumer(queue)
    consumer.receive_one()
    rolled_back = time.monotonic()
    session.rollback()
    assert bodies(consumer.receive_expected(2)) == ["m0", "m1"]
    assert time.monotonic() - rolled_back >= 0.39
    session.commit()


def test_F2_exponential_back_off_lengthens_the_delay(jms: Jms, tcp: str, queue: str) -> None:
    """F2: 100 ms, then twice and four times as long, up to the maximum."""
    jms.send(tcp, queue, text("m"))
    policy: dict[str, object] = {"initialRedeliveryDelay": 100, "redeliveryDelay": 100, "backOffMultiplier": 2}
    policy |= {"useExponentialBackOff": True, "maximumRedeliveryDelay": 250}
    session = jms.connect(with_redelivery(tcp, **policy)).transacted_session()
    consumer = session.consumer(queue)
    consumer.receive_one()
    for delay_seconds in (0.1, 0.2, 0.25):
        rolled_back = time.monotonic()
        session.rollback()
        consumer.receive_one()
        assert time.monotonic() - rolled_back >= delay_seconds - 0.01
    session.commit()


def test_F2_a_policy_may_hold_for_some_destinations_only(jms: Jms, tcp: str, queue: str) -> None:
    """F2: by wildcard; other queues follow the connection's own."""
    connection = jms.connect(with_redelivery(tcp, maximumRedeliveries=5))
    connection.set_redelivery_policy(f"{queue}.strict.>", maximumRedeliveries=0)
    session = connection.transacted_session()
    for name in ("strict.a", "lenient"):
        jms.send(tcp, f"{queue}.{name}", *marked(f"{queue}.{name}"))
    strict, lenient = session.consumer(f"{queue}.strict.a"), session.consumer(f"{queue}.lenient")
    strict.receive_one()
    lenient.receive_one()
    session.rollback()
    assert lenient.receive_one().delivery_count == 2
    strict.assert_nothing_comes()
    session.commit()
    dead_letters(jms, tcp, f"{queue}.strict.a", 1)


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK], ids=["AUTO", "DUPS_OK"])
def test_F1_a_message_whose_listener_throws_is_redelivered_and_then_dead_lettered(
    jms: Jms, tcp: str, queue: str, mode: AckMode
) -> None:
    """F1, F3: the cause in the dead letter names the listener's exception."""
    jms.send(tcp, queue, *marked(queue))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=2)).session(mode)
    listener = session.consumer(queue, listen=True, failures=-1)
    heard = listener.hear_expected(3)
    assert counts(heard) == [1, 2, 3]
    assert redelivered(heard) == [False, True, True]
    [dead] = dead_letters(jms, tcp, queue, 1)
    assert "the listener fails on purpose" in dead.properties[CAUSE].value
    assert listener.hear(timeout_ms=0) == []


def test_F1_a_listener_that_recovers_gets_the_message_and_then_the_others(jms: Jms, tcp: str, queue: str) -> None:
    """F1, H1: two failures, then success: nothing is skipped and nothing left behind."""
    jms.send(tcp, queue, *texts(3))
    with jms.connect(with_redelivery(tcp)) as connection:
        heard = connection.session().consumer(queue, listen=True, failures=2).hear_expected(5)
    assert bodies(heard) == ["m0", "m0", "m0", "m1", "m2"]
    assert counts(heard) == [1, 2, 3, 1, 1]
    assert left_behind(jms, tcp, queue) == []


def test_F1_recover_redelivers_what_the_session_did_not_acknowledge(jms: Jms, tcp: str, queue: str) -> None:
    """F1, D7: recover() in CLIENT mode; acknowledged messages do not come again."""
    jms.send(tcp, queue, *texts(5))
    session = jms.connect(with_redelivery(tcp)).session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    session.acknowledge(consumer.receive_one())
    consumer.receive_expected(2)
    session.recover()
    received = consumer.receive_expected(4)
    assert bodies(received) == ["m1", "m2", "m3", "m4"]
    assert redelivered(received) == [True, True, False, False]
    assert counts(received) == [2, 2, 1, 1]
    session.acknowledge(received[-1])
    assert left_behind(jms, tcp, queue) == []


def test_F3_recover_too_often_ends_in_the_dead_letter_queue(jms: Jms, tcp: str, queue: str) -> None:
    """F1, F3: as with rollback."""
    jms.send(tcp, queue, *marked(queue))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=1)).session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    for attempt in (1, 2):
        assert consumer.receive_one().delivery_count == attempt
        session.recover()
    consumer.assert_nothing_comes()
    dead_letters(jms, tcp, queue, 1)


def test_F4_a_non_persistent_message_is_not_dead_lettered_by_default(jms: Jms, tcp: str, queue: str) -> None:
    """F4: it is dropped; a persistent one sent with it is kept."""
    with jms.connect(tcp) as connection:
        producer = connection.session().producer(queue)
        producer.send(text("volatile", correlation_id=queue), delivery_mode=NON_PERSISTENT)
        producer.send(text("kept", correlation_id=queue))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=0)).transacted_session()
    consumer = session.consumer(queue)
    consumer.receive_expected(2)
    session.rollback()
    consumer.assert_nothing_comes()
    assert left_behind(jms, tcp, queue) == []
    assert bodies(dead_letters(jms, tcp, queue, 1)) == ["kept"]


def test_F4_a_durable_subscribers_poison_goes_to_the_dead_letter_queue(jms: Jms, tcp: str, topic: str) -> None:
    """F4, A3: only this subscription gives it up, another still gets it."""
    other = named_client(jms, tcp, topic, "-other").session().durable(topic, "other")
    session = named_client(jms, with_redelivery(tcp, maximumRedeliveries=0), topic).transacted_session()
    subscriber = session.durable(topic, "durable")
    jms.send(tcp, topic, *marked(topic, 2))
    subscriber.receive_one()
    session.rollback()
    assert subscriber.receive_one().body == "m1"
    session.commit()
    [dead] = dead_letters(jms, tcp, topic, 1)
    assert (dead.body, dead.original_destination) == ("m0", topic)
    assert bodies(other.receive_expected(2)) == ["m0", "m1"]


def test_F4_a_non_durable_subscribers_poison_is_dropped(jms: Jms, tcp: str, topic: str) -> None:
    """F4, A3: a topic without durable subscriptions promises nothing, so there is no dead letter."""
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=0)).transacted_session()
    subscriber = session.consumer(topic)
    jms.send(tcp, topic, *marked(topic, 2))
    subscriber.receive_one()
    session.rollback()
    assert subscriber.receive_one().body == "m1"
    session.commit()
    assert dead_letters(jms, tcp, topic, 0) == []


def test_F3_redelivery_counts_go_on_across_connections(jms: Jms, tcp: str, queue: str) -> None:
    """F3, D7: the broker counts once for a consumer that had the message, however often that one rolled back.

    So a second client sees it as the first redelivery, and gives up after the second.
    """
    jms.send(tcp, queue, *marked(queue))
    impatient = with_redelivery(tcp, maximumRedeliveries=2)
    with jms.connect(impatient) as connection:
        session = connection.transacted_session()
        consumer = session.consumer(queue)
        consumer.receive_one()
        session.rollback()
        assert consumer.receive_one().delivery_count == 2
    session = jms.connect(impatient).transacted_session()
    consumer = session.consumer(queue)
    for attempt in (2, 3):
        assert consumer.receive_one().delivery_count == attempt
        session.rollback()
    consumer.assert_nothing_comes()
    dead_letters(jms, tcp, queue, 1)


def test_F4_a_dead_letter_can_be_dead_lettered_no_further(jms: Jms, tcp: str, queue: str) -> None:
    """F4: poison in the dead-letter queue itself."""
    jms.send(tcp, queue, *marked(queue))
    selector = f"JMSCorrelationID = '{queue}'"
    with jms.connect(with_redelivery(tcp, maximumRedeliveries=0)) as connection:
        session = connection.transacted_session()
        session.consumer(queue).receive_one()
        session.rollback()
        dead = session.consumer("queue://ActiveMQ.DLQ", selector=selector)
        dead.receive_one()
        session.rollback()
        dead.assert_nothing_comes()
        assert connection.session().browse("queue://ActiveMQ.DLQ", selector) == []
