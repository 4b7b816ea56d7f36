"""Local transactions: all or nothing, and nothing is seen before commit (D5, D7, G1)."""

import queue as queues
import threading

import pytest

import ackwire
from ackwire import AckMode, Connection, DeliveryMode, Message, Session
from ackwire.wire.openwire import commands
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.steps import (
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
from tests.client.work import InThread

both_ends = pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])


def end(session: Session, committed: bool) -> None:
    if committed:
        session.commit()
    else:
        session.rollback()


# ---- sending ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_G1_sends_are_invisible_until_commit(connect: Connect, queue: str, mode: DeliveryMode) -> None:
    """G1: a waiting consumer and a browser see nothing before, everything in order after."""
    other = connect().session()
    consumer = other.consumer(queue)
    session = connect().session(transacted=True)
    with session.producer(queue) as producer:  # closed before the commit
        for text in numbered(range(5)):
            producer.send(text, delivery_mode=mode)
    assert_nothing_comes(consumer)
    assert list(other.browser(queue)) == []
    session.commit()
    received = receive_all(consumer, 5)
    assert texts(received) == numbered(range(5))
    assert not any(flags(received))
    assert {message.delivery_mode for message in received} == {mode}


def test_G1_topic_subscribers_see_nothing_before_commit(connect: Connect, topic: str) -> None:
    """G1, A3: copies are made at commit, for those who subscribe then, late comers included."""
    early = connect().session().consumer(topic)
    session = connect().session(transacted=True)
    session.send(topic, "m")
    assert_nothing_comes(early)
    late = connect().session().consumer(topic)
    session.commit()
    assert [text_of(receive(subscriber)) for subscriber in (early, late)] == ["m", "m"]


def test_G1_rolled_back_sends_never_appear(connection: Connection, queue: str) -> None:
    """G1: the session works on, and a later commit brings only what came after the rollback."""
    session = connection.session(transacted=True)
    producer = session.producer(queue)
    for text in numbered(range(5), "lost"):
        producer.send(text)
    session.rollback()
    producer.send("kept")
    session.commit()
    assert texts(drain(connection, queue)) == ["kept"]


def test_G1_one_transaction_spans_queues_topics_and_producers(connection: Connection, queue: str, topic: str) -> None:
    """G1: also through a producer without a destination of its own, and with one composite name."""
    subscriber = connection.session().consumer(topic)
    session = connection.session(transacted=True)
    names = [f"{queue}.a", f"{queue}.b", topic]
    anywhere = session.producer()
    for name in names:
        session.producer(name).send("own")
        anywhere.send("any", destination=name)
    anywhere.send("composite", destination=f"{queue}.a,{queue}.b")
    assert_nothing_comes(subscriber)
    session.commit()
    assert texts(receive_all(subscriber, 2)) == ["own", "any"]
    for name in names[:2]:
        assert texts(drain(connection, name)) == ["own", "any", "composite"]


def test_G1_the_sessions_of_a_connection_have_transactions_of_their_own(connection: Connection, queue: str) -> None:
    """G1: one is committed, the other rolled back."""
    keeping, losing = (connection.session(transacted=True) for _ in range(2))
    keeping.send(queue, "kept")
    losing.send(queue, "lost")
    losing.rollback()
    keeping.commit()
    assert texts(drain(connection, queue)) == ["kept"]


def test_G1_many_transactions_in_a_row(connection: Connection, queue: str) -> None:
    """G1: every third is rolled back; the rest arrives, each message once and in order."""
    session = connection.session(transacted=True)
    producer = session.producer(queue)
    expected: list[str] = []
    for number in range(30):
        pair = [f"a{number}", f"b{number}"]
        for text in pair:
            producer.send(text)
        end(session, number % 3 != 2)
        expected += pair if number % 3 != 2 else []
    assert texts(drain(connection, queue)) == expected


def test_G1_a_send_with_a_callback_or_a_receipt_belongs_to_the_transaction_too(
    connection: Connection, queue: str
) -> None:
    """G1, B5: the broker confirms it before the commit, and nobody sees it."""
    session = connection.session(transacted=True)
    producer = session.producer(queue)
    confirmed: queues.SimpleQueue[object] = queues.SimpleQueue()
    producer.send("called back", on_completion=lambda _, error: confirmed.put(error))
    assert confirmed.get(timeout=10) is None
    producer.submit("submitted").result(timeout=10)
    assert drain(connection, queue) == []
    session.commit()
    assert texts(drain(connection, queue)) == ["called back", "submitted"]


# ---- consuming -------------------------------------------------------------------------------------------------


def test_G1_D5_commit_acknowledges_what_was_received(connection: Connection, queue: str) -> None:
    """D5, G1: gone after commit; what the consumer only prefetched comes unflagged."""
    send(connection, queue, *numbered(range(6)))
    with connection.session(transacted=True) as session:
        receive_all(session.consumer(queue), 4)
        session.commit()
    left = drain(connection, queue)
    assert (texts(left), flags(left)) == (["m4", "m5"], [False, False])


@both_ends
def test_G1_the_consumers_of_a_session_share_its_transaction(
    broker: Broker, connect: Connect, queue: str, topic: str, committed: bool
) -> None:
    """G1: two queues and a topic; after rollback each consumer gets its own again, in order."""
    connection = connect(with_redelivery(broker))
    session = connection.session(transacted=True)
    names = [f"{queue}.a", f"{queue}.b", topic]
    consumers = [session.consumer(name) for name in names]
    for name in names:
        send(connection, name, *numbered(range(3)))
    for consumer in consumers:
        receive_all(consumer, 3)
    end(session, committed)
    if committed:
        assert [consumer.receive_no_wait() for consumer in consumers] == [None] * 3
    else:
        for consumer in consumers:
            received = receive_all(consumer, 3)
            assert (texts(received), counts(received)) == (numbered(range(3)), [2, 2, 2])
        session.commit()
    session.close()
    assert [drain(connection, name) for name in names[:2]] == [[], []]


@both_ends
def test_G1_a_consumer_closed_before_the_end_belongs_to_the_transaction(
    broker: Broker, connect: Connect, queue: str, committed: bool
) -> None:
    """G1: what it consumed is nobody else's until the decision; then it is gone, or comes back flagged."""
    connection = connect(with_redelivery(broker))
    other = connect().session().consumer(queue)
    session = connection.session(transacted=True)
    consumer = session.consumer(f"{queue}?consumer.priority=10")
    send(connection, queue, *numbered(range(2)))
    receive_all(consumer, 2)
    consumer.close()
    assert_nothing_comes(other)
    end(session, committed)
    if not committed:
        received = receive_all(other, 2)
        assert (texts(received), flags(received)) == (numbered(range(2)), [True, True])
    assert_nothing_comes(other)


def test_G1_moving_a_message_is_all_or_nothing(broker: Broker, connect: Connect, queue: str) -> None:
    """G1: received from one queue and sent to another, first rolled back, then committed."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, "cargo")
    session = connection.session(transacted=True)
    consumer, producer = session.consumer(queue), session.producer(f"{queue}.target")
    arrivals = connect().session().consumer(f"{queue}.target")
    for attempt in (1, 2, 3):
        message = receive(consumer)
        assert (text_of(message), message.delivery_count) == ("cargo", attempt)
        producer.send(f"attempt {attempt}")
        if attempt < 3:
            session.rollback()
            assert arrivals.receive_no_wait() is None
    session.commit()
    assert text_of(receive(arrivals)) == "attempt 3"
    session.close()
    assert drain(connection, queue) == []


def test_D5_messages_of_an_open_transaction_are_nobody_elses(connect: Connect, queue: str) -> None:
    """D5, A2: neither another consumer nor a second of the same session gets them."""
    connection = connect()
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    send(connection, queue, *numbered(range(3)))
    receive_all(consumer, 3)
    second, other = session.consumer(queue), connect().session().consumer(queue)
    assert_nothing_comes(other)
    assert second.receive_no_wait() is None
    session.commit()


def test_D5_F1_rolled_back_messages_stay_with_their_consumer(broker: Broker, connect: Connect, queue: str) -> None:
    """F1: another consumer with room gets none of them while the first one lives."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(3)))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive_all(consumer, 3)
    other = connect().session().consumer(queue)
    session.rollback()
    assert_nothing_comes(other)
    assert texts(receive_all(consumer, 3)) == numbered(range(3))
    session.commit()


@pytest.mark.parametrize("prefetch", [1, 10])
@both_ends
def test_D5_one_transaction_may_exceed_the_prefetch(
    broker: Broker, connect: Connect, queue: str, prefetch: int, committed: bool
) -> None:
    """D5, C4: DELIVERED acks let it receive any number of messages, and it ends as a whole."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(30)))
    session = connection.session(transacted=True)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize={prefetch}")
    assert texts(receive_all(consumer, 25)) == numbered(range(25))
    end(session, committed)
    if not committed:
        received = receive_all(consumer, 25)
        assert (texts(received), counts(received)) == (numbered(range(25)), [2] * 25)
        session.commit()
    assert texts(receive_all(consumer, 5)) == numbered(range(25, 30))
    session.commit()
    session.close()
    assert drain(connection, queue) == []


def test_D5_C3_a_transacted_session_may_pull(broker: Broker, connect: Connect, queue: str) -> None:
    """C3, G1: prefetch 0; what was rolled back comes again before what was not pulled yet."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(3)))
    session = connection.session(transacted=True)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    assert text_of(receive(consumer)) == "m0"
    session.rollback()
    received = receive_all(consumer, 3)
    assert (texts(received), flags(received)) == (numbered(range(3)), [True, False, False])
    session.commit()
    session.close()
    assert drain(connection, queue) == []


@both_ends
def test_A3_G1_a_durable_subscriber_acknowledges_in_its_transaction(
    connect: Connect, topic: str, committed: bool
) -> None:
    """A3, G1: after close only what was not committed comes again."""
    connection = connect(client_id=topic)
    session = connection.session(transacted=True)
    subscriber = session.durable_subscriber(topic, "durable")
    send(connection, topic, *numbered(range(4)))
    receive_all(subscriber, 3)
    if committed:
        session.commit()
    connection.close()
    again = connect(client_id=topic).session().durable_subscriber(topic, "durable")
    received = receive_all(again, 1 if committed else 4)
    assert texts(received) == numbered([3] if committed else range(4))
    assert flags(received) == ([False] if committed else [True, True, True, False])


def test_G1_transacted_individual_acknowledgement_commits_and_rolls_back_alike(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """G1, D5: jms.transactedIndividualAck changes what goes over the wire, and nothing else."""
    connection = connect(with_redelivery(broker) + "&jms.transactedIndividualAck=true")
    send(connection, queue, *numbered(range(4)))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive_all(consumer, 2)
    session.rollback()
    received = receive_all(consumer, 3)
    assert (texts(received), counts(received)) == (numbered(range(3)), [2, 2, 1])
    session.commit()
    session.close()
    assert texts(drain(connection, queue)) == ["m3"]


def test_G1_a_listener_may_commit_and_roll_back(broker: Broker, connect: Connect, queue: str) -> None:
    """G1, F1: from inside; it moves each message, the second one only at its second attempt."""
    connection = connect(with_redelivery(broker))
    session = connection.session(transacted=True)
    producer = session.producer(f"{queue}.out")
    done = threading.Event()
    heard: list[tuple[str | None, int]] = []

    def listener(message: Message) -> None:
        heard.append((text_of(message), message.delivery_count))
        producer.send(message)
        end(session, heard[-1] != ("m1", 1))
        if heard[-1][0] == "m2":
            done.set()

    session.consumer(queue).listener = listener
    send(connection, queue, *numbered(range(3)))
    assert done.wait(10)
    session.close()
    assert heard == [("m0", 1), ("m1", 1), ("m1", 2), ("m2", 1)]
    assert texts(drain(connection, f"{queue}.out")) == numbered(range(3))
    assert drain(connection, queue) == []


# ---- how it ends -----------------------------------------------------------------------------------------------


def test_G1_an_empty_transaction_commits_and_rolls_back(connection: Connection) -> None:
    """G1: nothing to do is no error; a session that is not transacted refuses both."""
    session = connection.session(transacted=True)
    session.commit()
    session.rollback()
    session.commit()
    for verb in (Session.commit, Session.rollback):
        with pytest.raises(ackwire.IllegalStateError, match="not transacted"):
            verb(connection.session())


@pytest.mark.parametrize("closed", ["session", "connection"])
def test_G1_D7_close_without_commit_rolls_back(connect: Connect, queue: str, closed: str) -> None:
    """D7, F1, G1: sends are forgotten, received messages come back flagged."""
    connection, other = connect(), connect()
    send(connection, queue, *numbered(range(4)))
    session = connection.session(AckMode.SESSION_TRANSACTED)
    receive_all(session.consumer(queue), 2)
    session.send(f"{queue}.out", "never")
    (session if closed == "session" else connection).close()
    left = drain(other, queue)
    assert (texts(left), counts(left)) == (numbered(range(4)), [2, 2, 1, 1])
    assert drain(other, f"{queue}.out") == []
    with pytest.raises(ackwire.IllegalStateError):
        session.commit()


def gone(connection: Connection) -> ackwire.Destination:
    """A temporary queue that is deleted."""
    temporary = connection.session().temporary_queue()
    connection.delete_temporary(temporary)
    return temporary


def test_G1_a_commit_that_the_broker_refuses_rolls_back_and_raises(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """G1: one of its sends had failed; what was consumed comes again, what was sent is not there."""
    # Without advisories only the broker knows that the temporary queue is gone.
    connection = connect(with_redelivery(broker) + "&jms.watchTopicAdvisories=false")
    connection.on_error = lambda _: None  # ActiveMQ reports the failed send, too
    session = connection.session(transacted=True)
    consumer, producer = session.consumer(queue), session.producer()
    send(connection, queue, "consumed")
    receive(consumer)
    producer.send("never", destination=f"{queue}.out")
    producer.send("impossible", destination=gone(connect()))
    with pytest.raises(ackwire.TransactionRolledBackError, match="the broker has not committed"):
        session.commit()
    assert drain(connection, f"{queue}.out") == []
    again = receive(consumer)
    assert (text_of(again), again.delivery_count) == ("consumed", 2)
    producer.send("at last", destination=f"{queue}.out")
    session.commit()
    assert texts(drain(connection, f"{queue}.out")) == ["at last"]
    session.close()
    assert drain(connection, queue) == []


def test_G1_F3_a_commit_that_is_refused_too_often_makes_dead_letters_that_say_why(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """G1, F3: each refusal is a rollback; the cause is the broker's."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=1) + "&jms.watchTopicAdvisories=false")
    connection.on_error = lambda _: None
    session = connection.session(transacted=True)
    consumer, producer = session.consumer(queue), session.producer()
    send(connection, queue, "poison", correlation_id=queue)
    nowhere = gone(connect())
    for attempt in (1, 2):
        assert receive(consumer).delivery_count == attempt
        producer.send("impossible", destination=nowhere)
        with pytest.raises(ackwire.TransactionRolledBackError):
            session.commit()
    assert_nothing_comes(consumer)
    [dead] = dead_letters(connection, queue, 1)
    assert text_of(dead) == "poison"


def test_G1_a_commit_without_an_answer_in_time_says_what_to_set(recording: RecordingProxy, connect: Connect) -> None:
    """G1: it is known neither as committed nor as rolled back; the session can be used once the answer is there."""
    session = connect(recording.url_with(jms__requestTimeout=300)).session(transacted=True)
    where = f"queue://{id(session)}.late"
    producer = session.producer(where)
    producer.send("m")
    recording.hold_answers()
    with pytest.raises(ackwire.RequestTimedOutError, match=r"commit.*jms\.requestTimeout"):
        session.commit()
    recording.release()
    producer.send("n")
    session.commit()
    assert texts(drain(connect(), where))[-1] == "n"


def test_G1_a_commit_that_is_cut_off_by_closing_says_that_nobody_knows(
    recording: RecordingProxy, connect: Connect, queue: str
) -> None:
    """G1: it may have committed; the one who closes waits for no answer that cannot come."""
    connection = connect(recording.url_with(jms__closeTimeout=300))
    session = connection.session(transacted=True)
    session.send(queue, "m")
    recording.hold_answers()
    committing = InThread(session.commit)
    recording.await_sent(commands.TransactionInfo, 2)
    closing = InThread(connection.close)
    committing.assert_waits()
    recording.cut()
    with pytest.raises(ackwire.TransactionInDoubtError, match="closed during the commit"):
        committing.result()
    closing.result()
