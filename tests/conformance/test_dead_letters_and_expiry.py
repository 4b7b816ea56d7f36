"""Dead letter strategies, and the ways in which messages expire (A5, A6, E, F4, N1)."""

import time

import pytest

from tests.conformance.jms import (
    ARRIVAL_TIMEOUT_MS,
    NON_PERSISTENT,
    PERSISTENT,
    AckMode,
    Jms,
    Received,
    bodies,
    text,
)
from tests.conformance.scenarios import (
    DEAD_LETTERS,
    dead_letters,
    drain,
    marked,
    named_client,
    numbered,
    under,
    with_redelivery,
)

BROKER_VARIANT = "policies"
SHORT_MS = 150  # a time to live that a test can wait for
IN_TIME_MS = 1500  # one within which a message is dispatched, on a busy machine too


def poison(jms: Jms, url: str, queue: str) -> None:
    """Make the first message of the queue a dead letter."""
    with jms.connect(with_redelivery(url, maximumRedeliveries=0)) as connection:
        session = connection.transacted_session()
        session.consumer(f"{queue}?consumer.prefetchSize=1").receive_one()
        session.rollback()


def outlive(milliseconds: int) -> None:
    time.sleep(milliseconds / 1000 + 0.05)  # expiry is a matter of the clock


def await_browsed(jms: Jms, url: str, queue: str, count: int, selector: str | None = None) -> list[Received]:
    """What the queue shows, once that is *count* messages."""
    session = jms.connect(url).session()
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_MS / 1000
    while len(messages := session.browse(queue, selector)) != count:
        assert time.monotonic() < deadline, bodies(messages)
        time.sleep(0.02)
    return messages


def test_F4_dead_letters_may_have_a_queue_for_each_destination(jms: Jms, tcp: str, queue: str) -> None:
    """F4: the prefix and the queue's name."""
    queue = under("individual", queue)
    jms.send(tcp, queue, *marked(queue))
    poison(jms, tcp, queue)
    [dead] = drain(jms, tcp, queue.replace("queue://", "queue://DLQ."))
    assert (dead.body, dead.original_destination) == ("m0", queue)
    assert dead_letters(jms, tcp, queue, 0) == []


def test_F4_a_topics_dead_letters_may_have_a_queue_of_their_own(jms: Jms, tcp: str, topic: str) -> None:
    """F4: for durable subscribers; a queue, though it came from a topic."""
    topic = under("individual", topic)
    with named_client(jms, with_redelivery(tcp, maximumRedeliveries=0), topic) as connection:
        session = connection.transacted_session()
        subscriber = session.durable(topic, "durable")
        jms.send(tcp, topic, text("m"))
        subscriber.receive_one()
        session.rollback()
    [dead] = drain(jms, tcp, topic.replace("topic://", "queue://DLQ."))
    assert (dead.body, dead.original_destination) == ("m", topic)


def test_F4_dead_letters_may_be_discarded(jms: Jms, tcp: str, queue: str) -> None:
    """F4: gone, from both queues."""
    queue = under("discard", queue)
    jms.send(tcp, queue, *marked(queue, 2))
    poison(jms, tcp, queue)
    assert bodies(drain(jms, tcp, queue)) == ["m1"]
    assert dead_letters(jms, tcp, queue, 0) == []


@pytest.mark.parametrize("kept", [True, False], ids=["processNonPersistent", "default"])
def test_F4_non_persistent_messages_are_dead_lettered_where_the_policy_says_so(
    jms: Jms, tcp: str, queue: str, kept: bool
) -> None:
    """F4: processNonPersistent; the dead letter itself is persistent, and tells that it was not."""
    queue = under("volatile", queue) if kept else queue
    jms.send(tcp, queue, *marked(queue), delivery_mode=NON_PERSISTENT)
    poison(jms, tcp, queue)
    dead = dead_letters(jms, tcp, queue, 1 if kept else 0)
    for message in dead:
        assert message.delivery_mode == PERSISTENT
        assert message.properties["originalDeliveryMode"].value == "NON_PERSISTENT"


def test_A5_expiration_is_timestamp_plus_time_to_live(jms: Jms, tcp: str, queue: str) -> None:
    """A5: and 0 without one."""
    jms.send(tcp, queue, text("mortal"), time_to_live_ms=60_000)
    jms.send(tcp, queue, text("immortal"))
    mortal, immortal = drain(jms, tcp, queue)
    assert mortal.expiration == mortal.timestamp + 60_000
    assert immortal.expiration == 0


def test_A6_an_expired_message_is_not_delivered_but_dead_lettered(jms: Jms, tcp: str, queue: str) -> None:
    """A6, F4: found when it would be dispatched; the dead letter never expires and tells when it did."""
    jms.send(tcp, queue, *marked(queue), time_to_live_ms=SHORT_MS)
    jms.send(tcp, queue, *marked(f"{queue}.other", prefix="lives"))
    outlive(SHORT_MS)
    assert bodies(drain(jms, tcp, queue)) == ["lives0"]
    [dead] = dead_letters(jms, tcp, queue, 1)
    assert (dead.body, dead.expiration, dead.original_destination) == ("m0", 0, queue)
    assert dead.properties["originalExpiration"].value == dead.timestamp + SHORT_MS
    assert "dlqDeliveryFailureCause" in dead.properties


def test_A6_expired_messages_are_found_while_nobody_consumes(jms: Jms, tcp: str, queue: str) -> None:
    """A6: the broker looks for them from time to time (expireMessagesPeriod)."""
    queue = under("expiring", queue)
    jms.send(tcp, queue, *marked(queue, 3), time_to_live_ms=SHORT_MS)
    jms.send(tcp, queue, text("lives"))
    selector = f"JMSCorrelationID = '{queue}'"
    assert bodies(await_browsed(jms, tcp, DEAD_LETTERS, 3, selector)) == ["m0", "m1", "m2"]
    assert bodies(drain(jms, tcp, queue)) == ["lives"]
    assert len(dead_letters(jms, tcp, queue, 3)) == 3


def test_A6_a_message_that_expires_in_the_client_is_not_received(jms: Jms, tcp: str, queue: str) -> None:
    """E: dispatched in time, expired before receive: the client says EXPIRED and the broker dead-letters it."""
    session = jms.connect(tcp).session()
    consumer = session.consumer(queue)
    jms.send(tcp, queue, *marked(queue), time_to_live_ms=IN_TIME_MS)
    consumer.await_waiting(1)
    outlive(IN_TIME_MS)
    jms.send(tcp, queue, text("lives"))
    assert consumer.receive_one().body == "lives"
    consumer.close()
    assert bodies(dead_letters(jms, tcp, queue, 1)) == ["m0"]
    assert drain(jms, tcp, queue) == []


def test_A6_a_browser_does_not_show_expired_messages(jms: Jms, tcp: str, queue: str) -> None:
    """A6: they are no longer there for anyone."""
    jms.send(tcp, queue, text("dies"), time_to_live_ms=SHORT_MS)
    jms.send(tcp, queue, text("lives"))
    outlive(SHORT_MS)
    assert bodies(jms.connect(tcp).session().browse(queue)) == ["lives"]


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
def test_F4_whether_expired_messages_are_dead_lettered_is_a_switch(
    jms: Jms, tcp: str, queue: str, delivery_mode: int
) -> None:
    """F4: processExpired=false drops them; so does the default for non-persistent ones."""
    name = under("unexpired" if delivery_mode == PERSISTENT else "expiring", queue)
    jms.send(tcp, name, *marked(name), time_to_live_ms=SHORT_MS, delivery_mode=delivery_mode)
    outlive(SHORT_MS)
    assert drain(jms, tcp, name) == []
    assert dead_letters(jms, tcp, name, 0) == []


def test_F4_expired_non_persistent_messages_may_be_dead_lettered(jms: Jms, tcp: str, queue: str) -> None:
    """F4: processNonPersistent holds for them too."""
    queue = under("volatile", queue)
    jms.send(tcp, queue, *marked(queue), time_to_live_ms=SHORT_MS, delivery_mode=NON_PERSISTENT)
    outlive(SHORT_MS)
    assert drain(jms, tcp, queue) == []
    assert bodies(dead_letters(jms, tcp, queue, 1)) == ["m0"]


def test_A3_expired_messages_do_not_reach_durable_subscribers(jms: Jms, tcp: str, topic: str) -> None:
    """A3, A6: what expired while they were away."""
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(topic, "durable")
    jms.send(tcp, topic, *marked(topic), time_to_live_ms=SHORT_MS)
    jms.send(tcp, topic, text("lives"))
    outlive(SHORT_MS)
    with named_client(jms, tcp, topic) as connection:
        assert connection.session().durable(topic, "durable").receive_one().body == "lives"


def test_A6_a_message_that_is_expired_on_arrival_is_never_delivered(jms: Jms, tcp: str, queue: str) -> None:
    """A6: sent in a transaction that was committed too late."""
    consumer = jms.connect(tcp).session().consumer(queue)
    session = jms.connect(tcp).transacted_session()
    session.producer(queue).send(*marked(queue), time_to_live_ms=SHORT_MS)
    outlive(SHORT_MS)
    session.commit()
    jms.send(tcp, queue, text("lives"))
    assert consumer.receive_one().body == "lives"


def test_F1_a_message_does_not_expire_in_the_hands_of_its_consumer(jms: Jms, tcp: str, queue: str) -> None:
    """A6, D3: received in time may be acknowledged late."""
    queue = under("expiring", queue)
    with jms.connect(tcp) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(queue)
        jms.send(tcp, queue, *marked(queue), time_to_live_ms=IN_TIME_MS)
        message = consumer.receive_one()
        outlive(IN_TIME_MS + 200)
        session.acknowledge(message)
    assert drain(jms, tcp, queue) == []
    assert dead_letters(jms, tcp, queue, 0) == []


def test_F4_a_dead_letter_is_an_ordinary_message_that_can_be_sent_again(jms: Jms, tcp: str, queue: str) -> None:
    """F4: replay by hand, through a transaction."""
    jms.send(tcp, queue, *marked(queue, 3))
    for _ in range(3):
        poison(jms, tcp, queue)
    with jms.connect(tcp) as connection:
        session = connection.transacted_session()
        dead = session.consumer(DEAD_LETTERS, selector=f"JMSCorrelationID = '{queue}'").receive_expected(3)
        session.producer(queue).send(*(text(message.body) for message in dead))
        session.commit()
    assert bodies(drain(jms, tcp, queue)) == numbered(range(3))
