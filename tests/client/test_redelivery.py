"""Redelivery: what triggers it, its policy, and what becomes of a message that nobody could process (F)."""

import queue as queues
import time
from collections.abc import Callable

import pytest

import ackwire
from ackwire import AckMode, Connection, DeliveryMode, Message, RedeliveryPolicy, Session
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import (
    CAUSE,
    assert_nothing_comes,
    counts,
    dead_letters,
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
from tests.conformance.proxy import CuttableProxy

SHORT_MS = 150  # a time to live that a test can wait for
IN_TIME_MS = 1500  # one within which a message is dispatched, on a busy machine too
AT_ONCE = RedeliveryPolicy(initial_redelivery_delay_ms=0, redelivery_delay_ms=0)


class Listener:
    """Notes what it is given, and fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.heard: queues.SimpleQueue[Message] = queues.SimpleQueue()

    def __call__(self, message: Message) -> None:
        self.heard.put(message)
        if self._failures:
            self._failures -= 1
            raise ValueError("the listener fails on purpose")

    def hear(self, count: int) -> list[Message]:
        return [self.heard.get(timeout=10) for _ in range(count)]


# ---- what triggers it (F1) -------------------------------------------------------------------------------------


def test_F1_rollback_redelivers_everything_in_order_flagged_and_counted(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F1, H1: received ones come again first, one higher in count, then the unseen ones."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(5)))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    for attempt in (1, 2, 3):
        received = receive_all(consumer, 3)
        assert counts(received) == [attempt] * 3
        assert flags(received) == [attempt > 1] * 3
        session.rollback()
    received = receive_all(consumer, 5)
    assert texts(received) == numbered(range(5))
    assert counts(received) == [4, 4, 4, 1, 1]
    session.commit()
    session.close()
    assert drain(connection, queue) == []


def test_F1_recover_redelivers_what_the_session_did_not_acknowledge(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F1, D7: in CLIENT mode; acknowledged messages do not come again."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(5)))
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    receive(consumer).acknowledge()
    receive_all(consumer, 2)
    session.recover()
    received = receive_all(consumer, 4)
    assert texts(received) == ["m1", "m2", "m3", "m4"]
    assert (flags(received), counts(received)) == ([True, True, False, False], [2, 2, 1, 1])
    received[-1].acknowledge()
    session.close()
    assert drain(connection, queue) == []


def test_F1_recover_in_a_transacted_session_is_refused(connection: Connection) -> None:
    """F1: it rolls back."""
    with pytest.raises(ackwire.IllegalStateError, match="rolls back"):
        connection.session(transacted=True).recover()


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK], ids=["AUTO", "DUPS_OK"])
def test_F1_a_listener_that_raises_gets_the_message_again_and_then_the_others(
    broker: Broker, connect: Connect, queue: str, mode: AckMode
) -> None:
    """F1, H1: two failures, then success: nothing is skipped and nothing left behind."""
    connection = connect(with_redelivery(broker))
    listener = Listener(failures=2)
    with connection.session(mode) as session:
        session.consumer(queue).listener = listener
        send(connection, queue, *numbered(range(3)))
        heard = listener.hear(5)
    assert texts(heard) == ["m0", "m0", "m0", "m1", "m2"]
    assert counts(heard) == [1, 2, 3, 1, 1]
    assert drain(connection, queue) == []


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK], ids=["AUTO", "DUPS_OK"])
def test_F1_F3_what_a_listener_never_accepts_becomes_a_dead_letter_that_says_why(
    broker: Broker, connect: Connect, queue: str, mode: AckMode
) -> None:
    """F1, F3, F4: the cause names the listener's exception; the next message is delivered."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=2))
    listener = Listener(failures=3)
    with connection.session(mode) as session:
        session.consumer(queue).listener = listener
        send(connection, queue, "poison", correlation_id=queue)
        heard = listener.hear(3)
        send(connection, queue, "good")
        assert text_of(listener.hear(1)[0]) == "good"
    assert counts(heard) == [1, 2, 3]
    [dead] = dead_letters(connection, queue, 1)
    assert "the listener fails on purpose" in str(dead.properties[CAUSE])


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.SESSION_TRANSACTED], ids=["CLIENT", "transacted"])
def test_F1_where_the_application_decides_a_listener_that_raises_changes_nothing(
    broker: Broker, connect: Connect, queue: str, mode: AckMode
) -> None:
    """F1, D3, D5: the next message follows, and what was not acknowledged comes back after close."""
    connection = connect(with_redelivery(broker))
    listener = Listener(failures=1)
    with connection.session(mode) as session:
        session.consumer(queue).listener = listener
        send(connection, queue, *numbered(range(2)))
        assert texts(listener.hear(2)) == ["m0", "m1"]
    left = drain(connection, queue)
    assert (texts(left), flags(left)) == (["m0", "m1"], [True, True])


def test_F1_D7_a_transacted_session_closed_before_commit_gives_back_what_it_received(
    connection: Connection, queue: str
) -> None:
    """F1, D7: flagged and counted; what was only prefetched is not."""
    send(connection, queue, *numbered(range(4)))
    with connection.session(transacted=True) as session:
        receive_all(session.consumer(queue), 2)
        session.send(f"{queue}.out", "never")
    left = drain(connection, queue)
    assert texts(left) == numbered(range(4))
    assert (flags(left), counts(left)) == ([True, True, False, False], [2, 2, 1, 1])
    assert drain(connection, f"{queue}.out") == []


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL, AckMode.SESSION_TRANSACTED])
def test_F1_what_a_lost_consumer_held_goes_to_another(
    connect: Connect, proxy: CuttableProxy, queue: str, mode: AckMode
) -> None:
    """F1, A2, D7: the connection is cut, and nobody says goodbye."""
    survivor = connect()
    send(survivor, queue, *numbered(range(3)))
    doomed = connect(f"tcp://127.0.0.1:{proxy.port}")
    doomed.on_error = lambda _: None
    receive_all(doomed.session(mode).consumer(queue), 2)
    proxy.cut()
    received = receive_all(survivor.session().consumer(queue), 3)
    assert texts(received) == numbered(range(3))
    assert flags(received)[:2] == [True, True]


def test_D7_each_consumer_of_a_closed_session_gives_back_what_it_has_seen_flagged(
    connection: Connection, queue: str
) -> None:
    """D7, F1: whatever the other consumers of the session have seen; what nobody has seen is not flagged."""
    names = [f"{queue}.a", f"{queue}.b"]
    for name in names:
        send(connection, name, *numbered(range(3)))
    with connection.session(AckMode.CLIENT) as session:
        for name in names:
            receive_all(session.consumer(name), 2)
    for name in names:
        left = drain(connection, name)
        assert (texts(left), flags(left)) == (numbered(range(3)), [True, True, False])


def test_D7_what_was_seen_before_an_acknowledged_message_comes_back_flagged(connection: Connection, queue: str) -> None:
    """D7, D6: though the last one is gone."""
    send(connection, queue, *numbered(range(4)))
    with connection.session(AckMode.INDIVIDUAL) as session:
        receive_all(session.consumer(queue), 3)[-1].acknowledge()
    left = drain(connection, queue)
    assert (texts(left), flags(left)) == (["m0", "m1", "m3"], [True, True, False])


# ---- policy (F2) -----------------------------------------------------------------------------------------------


def attempts(session: Session, queue: str, count: int) -> None:
    """Receive and roll back *count* times; then the queue has nothing for this consumer."""
    consumer = session.consumer(queue)
    for attempt in range(1, count + 1):
        message = receive(consumer)
        assert (message.delivery_count, message.redelivered) == (attempt, attempt > 1)
        session.rollback()
    assert_nothing_comes(consumer)


@pytest.mark.parametrize("maximum", [None, 0, 2], ids=["default", "none", "two"])
def test_F2_F3_after_the_last_redelivery_a_message_moves_to_the_dead_letter_queue(
    broker: Broker, connect: Connect, queue: str, maximum: int | None
) -> None:
    """F2, F3, F4: seven attempts by default; the dead letter keeps its id and properties and tells why and whence."""
    connection = connect(with_redelivery(broker, **({} if maximum is None else {"maximumRedeliveries": maximum})))
    [message_id] = send(connection, queue, "poison", correlation_id=queue, properties={"mine": 7})
    attempts(connection.session(transacted=True), queue, 7 if maximum is None else maximum + 1)
    [dead] = dead_letters(connection, queue, 1)
    assert (text_of(dead), dead.message_id, dead.properties["mine"]) == ("poison", message_id, 7)
    assert (repr(dead.destination), repr(dead.original_destination)) == ("queue://ActiveMQ.DLQ", queue)
    assert (dead.redelivered, dead.delivery_count) == (False, 1)
    assert "redelivery policy limit" in str(dead.properties[CAUSE])


def test_F2_without_a_limit_a_message_comes_for_ever(broker: Broker, connect: Connect, queue: str) -> None:
    """F2: maximumRedeliveries=-1."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=-1))
    send(connection, queue, "stubborn")
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    for attempt in range(1, 21):
        assert receive(consumer).delivery_count == attempt
        session.rollback()
    receive(consumer)
    session.commit()
    session.close()
    assert drain(connection, queue) == []


def test_F2_redelivery_waits_for_its_delay_and_the_others_wait_behind_it(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F2, H1: first initialRedeliveryDelay, then redeliveryDelay; so order holds."""
    connection = connect(with_redelivery(broker, initialRedeliveryDelay=200, redeliveryDelay=400))
    send(connection, queue, *numbered(range(2)))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive(consumer)
    for delay_seconds in (0.2, 0.4):
        rolled_back = time.monotonic()
        session.rollback()
        assert consumer.receive_no_wait() is None
        assert text_of(receive(consumer)) == "m0"
        assert time.monotonic() - rolled_back >= delay_seconds - 0.01
    assert text_of(receive(consumer)) == "m1"
    session.commit()


def test_F2_exponential_back_off_lengthens_the_delay_up_to_its_maximum(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F2: 100 ms, then twice as long, then no longer than 250 ms."""
    policy = {"initialRedeliveryDelay": 100, "backOffMultiplier": 2, "maximumRedeliveryDelay": 250}
    connection = connect(with_redelivery(broker, useExponentialBackOff=True, **policy))
    send(connection, queue, "m")
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive(consumer)
    for delay_seconds in (0.1, 0.2, 0.25):
        rolled_back = time.monotonic()
        session.rollback()
        receive(consumer)
        assert time.monotonic() - rolled_back >= delay_seconds - 0.01
    session.commit()


def test_F2_collision_avoidance_varies_the_delay_by_its_percentage(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F2: no delay is shorter than the percentage allows."""
    policy = {"useCollisionAvoidance": True, "collisionAvoidancePercent": 50, "redeliveryDelay": 200}
    connection = connect(with_redelivery(broker, maximumRedeliveries=-1, **policy))
    send(connection, queue, "m")
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    delays = []
    for _ in range(6):
        receive(consumer)
        rolled_back = time.monotonic()
        session.rollback()
        receive(consumer)
        delays.append(time.monotonic() - rolled_back)
        session.rollback()
    assert min(delays[1:]) >= 0.09
    assert len({round(delay, 3) for delay in delays[1:]}) > 1


def test_F2_with_non_blocking_redelivery_later_messages_pass(broker: Broker, connect: Connect, queue: str) -> None:
    """F2: what waits for its delay does not hold up others, and comes when it is due."""
    url = with_redelivery(broker, initialRedeliveryDelay=300) + "&jms.nonBlockingRedelivery=true"
    connection = connect(url)
    send(connection, queue, *numbered(range(3)))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    assert text_of(receive(consumer)) == "m0"
    session.rollback()
    received = receive_all(consumer, 3)
    assert texts(received) == ["m1", "m2", "m0"]
    assert counts(received) == [1, 1, 2]
    session.commit()
    session.close()
    assert drain(connection, queue) == []


@pytest.mark.parametrize("level", ["factory", "connection"])
def test_F2_a_policy_may_hold_for_some_destinations_only(broker: Broker, queue: str, level: str) -> None:
    """F2: by name or by wildcard, over the URL's; other queues follow that."""
    factory = ackwire.ConnectionFactory(with_redelivery(broker, maximumRedeliveries=5))
    strict = RedeliveryPolicy(redeliveries_max=0)
    if level == "factory":
        factory.redelivery_policies[f"{queue}.strict.>"] = strict
    with factory.create_connection() as connection:
        connection.start()
        if level == "connection":
            connection.redelivery_policies[f"{queue}.strict.>"] = strict
        names = [f"{queue}.strict.a", f"{queue}.lenient"]
        for name in names:
            send(connection, name, "m", correlation_id=name)
        session = connection.session(transacted=True)
        consumers = [session.consumer(name) for name in names]
        for consumer in consumers:
            receive(consumer)
        session.rollback()
        assert receive(consumers[1]).delivery_count == 2
        assert_nothing_comes(consumers[0])
        session.commit()
        dead_letters(connection, names[0], 1)


def test_F2_the_policy_of_a_name_wins_over_that_of_a_pattern(broker: Broker, queue: str) -> None:
    """F2: whichever was given first."""
    factory = ackwire.ConnectionFactory(broker.url)
    factory.redelivery_policies = {f"{queue}.>": RedeliveryPolicy(redeliveries_max=0), f"{queue}.a": AT_ONCE}
    with factory.create_connection() as connection:
        connection.start()
        send(connection, f"{queue}.a", "m")
        session = connection.session(transacted=True)
        consumer = session.consumer(f"{queue}.a")
        receive(consumer)
        session.rollback()
        assert receive(consumer).delivery_count == 2
        session.commit()


# ---- poison and dead letters (F3, F4) --------------------------------------------------------------------------


def test_F3_a_whole_rolled_back_batch_is_dead_lettered_in_order(broker: Broker, connect: Connect, queue: str) -> None:
    """F3: one POISON ack for the range; the message behind it comes next."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=1))
    send(connection, queue, *numbered(range(5)), correlation_id=queue)
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    for _ in range(2):
        assert texts(receive_all(consumer, 4)) == numbered(range(4))
        session.rollback()
    assert text_of(receive(consumer)) == "m4"
    session.commit()
    assert texts(dead_letters(connection, queue, 4)) == numbered(range(4))


def test_F3_recover_too_often_ends_in_the_dead_letter_queue(broker: Broker, connect: Connect, queue: str) -> None:
    """F1, F3: as with rollback."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=1))
    send(connection, queue, "m", correlation_id=queue)
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    for attempt in (1, 2):
        assert receive(consumer).delivery_count == attempt
        session.recover()
    assert_nothing_comes(consumer)
    dead_letters(connection, queue, 1)


def test_F3_counts_go_on_across_connections(broker: Broker, connect: Connect, queue: str) -> None:
    """F3, D7: the broker counts once for a consumer that had the message, however often that one rolled back."""
    url = with_redelivery(broker, maximumRedeliveries=2)
    first = connect(url)
    send(first, queue, "m", correlation_id=queue)
    session = first.session(transacted=True)
    consumer = session.consumer(queue)
    receive(consumer)
    session.rollback()
    assert receive(consumer).delivery_count == 2
    first.close()
    second = connect(url)
    session = second.session(transacted=True)
    consumer = session.consumer(queue)
    for attempt in (2, 3):
        assert receive(consumer).delivery_count == attempt
        session.rollback()
    assert_nothing_comes(consumer)
    dead_letters(second, queue, 1)


def test_F4_a_non_persistent_message_is_not_dead_lettered_by_default(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F4: it is dropped; a persistent one sent with it is kept."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=0))
    send(connection, queue, "volatile", correlation_id=queue, delivery_mode=DeliveryMode.NON_PERSISTENT)
    send(connection, queue, "kept", correlation_id=queue)
    session = connection.session(transacted=True)
    receive_all(session.consumer(queue), 2)
    session.rollback()
    session.close()
    assert drain(connection, queue) == []
    assert texts(dead_letters(connection, queue, 1)) == ["kept"]


def test_F4_a_durable_subscribers_poison_goes_to_the_dead_letter_queue(
    broker: Broker, connect: Connect, topic: str
) -> None:
    """F4, A3: only this subscription gives it up, another still gets it."""
    other = connect(client_id=f"{topic}-other").session().durable_subscriber(topic, "other")
    connection = connect(with_redelivery(broker, maximumRedeliveries=0), client_id=topic)
    session = connection.session(transacted=True)
    subscriber = session.durable_subscriber(topic, "durable")
    send(connection, topic, *numbered(range(2)), correlation_id=topic)
    receive(subscriber)
    session.rollback()
    assert text_of(receive(subscriber)) == "m1"
    session.commit()
    [dead] = dead_letters(connection, topic, 1)
    assert (text_of(dead), repr(dead.original_destination)) == ("m0", topic)
    assert texts(receive_all(other, 2)) == ["m0", "m1"]


def test_F4_a_dead_letter_can_be_sent_again(broker: Broker, connect: Connect, queue: str) -> None:
    """F4: as the message that it was received as, in a transaction; it is then a new one."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=0))
    send(connection, queue, "m", correlation_id=queue, properties={"n": 1})
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive(consumer)
    session.rollback()
    dead = receive(session.consumer("ActiveMQ.DLQ", f"JMSCorrelationID = '{queue}'"))
    assert dead.original_destination is not None
    session.producer(dead.original_destination).send(dead)
    session.commit()
    again = receive(consumer)
    assert (text_of(again), again.properties["n"], again.delivery_count) == ("m", 1, 1)
    session.commit()


# ---- one by one ------------------------------------------------------------------------------------------------


def test_F_a_rejected_message_comes_again_and_the_others_are_not_touched(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F1, D6: `Message.reject` in INDIVIDUAL mode."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(4)))
    session = connection.session(AckMode.INDIVIDUAL)
    consumer = session.consumer(queue)
    received = receive_all(consumer, 3)
    received[1].reject(ValueError("not this one"))
    again = receive_all(consumer, 2)
    assert (texts(again), counts(again)) == (["m1", "m3"], [2, 1])
    for message in (received[0], received[2], *again):
        message.acknowledge()
    session.close()
    assert drain(connection, queue) == []


def test_F3_a_message_rejected_too_often_is_a_dead_letter_with_its_cause(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F3, F4, D6: this one alone; what came before and after it is still there to be acknowledged."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=2))
    send(connection, queue, *numbered(range(3)), correlation_id=queue)
    session = connection.session(AckMode.INDIVIDUAL)
    consumer = session.consumer(queue)
    first, poisoned, last = receive_all(consumer, 3)
    for attempt in (2, 3):
        poisoned.reject(ValueError("beyond repair"))
        poisoned = receive(consumer)
        assert (text_of(poisoned), poisoned.delivery_count) == ("m1", attempt)
    poisoned.reject(ValueError("beyond repair"))
    assert_nothing_comes(consumer)
    [dead] = dead_letters(connection, queue, 1)
    assert text_of(dead) == "m1"
    assert "beyond repair" in str(dead.properties[CAUSE])
    first.acknowledge()
    session.close()
    left = drain(connection, queue)
    assert (texts(left), flags(left)) == ([text_of(last)], [True])


def test_F_only_messages_of_an_individual_session_can_be_rejected(connection: Connection, queue: str) -> None:
    """F: the others say what to do."""
    send(connection, queue, "m")
    with pytest.raises(ackwire.IllegalStateError, match="INDIVIDUAL"):
        receive(connection.session().consumer(queue)).reject(ValueError())


def test_F1_an_individual_listener_that_raises_rejects_that_message(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """F1, D6: the others are not redelivered."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=1))
    heard: queues.SimpleQueue[Message] = queues.SimpleQueue()

    def listener(message: Message) -> None:
        heard.put(message)
        if text_of(message) == "m1":
            raise ValueError("not this one")
        message.acknowledge()

    with connection.session(AckMode.INDIVIDUAL) as session:
        session.consumer(queue).listener = listener
        send(connection, queue, *numbered(range(3)), correlation_id=queue)
        messages = [heard.get(timeout=10) for _ in range(4)]
    assert texts(messages) == ["m0", "m1", "m1", "m2"]
    assert drain(connection, queue) == []
    [dead] = dead_letters(connection, queue, 1)
    assert text_of(dead) == "m1"


# ---- expired messages ------------------------------------------------------------------------------------------


def test_A6_F4_an_expired_message_is_not_delivered_but_dead_lettered(connection: Connection, queue: str) -> None:
    """A6, F4: found when it would be dispatched; the dead letter never expires and tells when it did."""
    send(connection, queue, "dies", correlation_id=queue, time_to_live_ms=SHORT_MS)
    send(connection, queue, "lives")
    time.sleep(SHORT_MS / 1000 + 0.05)
    assert texts(drain(connection, queue)) == ["lives"]
    [dead] = dead_letters(connection, queue, 1)
    assert (text_of(dead), dead.expiration, repr(dead.original_destination)) == ("dies", 0, queue)
    assert dead.properties["originalExpiration"] == dead.timestamp + SHORT_MS
    assert CAUSE in dead.properties


def _waiting(consumer: ackwire.Consumer) -> int:
    return len(consumer._core)


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_E_a_message_that_expires_in_the_client_is_not_received(connection: Connection, queue: str) -> None:
    """E, A6: dispatched in time, expired before receive: the client says EXPIRED and the broker dead-letters it."""
    with connection.session() as session:
        consumer = session.consumer(queue)
        send(connection, queue, "dies", correlation_id=queue, time_to_live_ms=IN_TIME_MS)
        _await(lambda: _waiting(consumer) == 1)
        time.sleep(IN_TIME_MS / 1000 + 0.05)
        send(connection, queue, "lives")
        assert text_of(receive(consumer)) == "lives"
    assert texts(dead_letters(connection, queue, 1)) == ["dies"]
    assert drain(connection, queue) == []


def test_E_the_check_for_expiry_in_the_client_can_be_switched_off(broker: Broker, connect: Connect, queue: str) -> None:
    """E, N1: jms.consumerExpiryCheckEnabled=false, for machines whose clocks differ."""
    connection = connect(broker.url_with(jms__consumerExpiryCheckEnabled=False))
    consumer = connection.session().consumer(queue)
    send(connection, queue, "old", time_to_live_ms=IN_TIME_MS)
    _await(lambda: _waiting(consumer) == 1)
    time.sleep(IN_TIME_MS / 1000 + 0.05)
    assert text_of(receive(consumer)) == "old"


def test_D3_a_message_does_not_expire_in_the_hands_of_its_consumer(connection: Connection, queue: str) -> None:
    """A6, D3: received in time may be acknowledged late."""
    with connection.session(AckMode.CLIENT) as session:
        consumer = session.consumer(queue)
        send(connection, queue, "m", correlation_id=queue, time_to_live_ms=IN_TIME_MS)
        message = receive(consumer)
        time.sleep(IN_TIME_MS / 1000 + 0.05)
        message.acknowledge()
    assert drain(connection, queue) == []
    assert dead_letters(connection, queue, 0) == []
