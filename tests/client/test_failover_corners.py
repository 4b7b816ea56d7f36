"""What a lost link must not break, besides plain sending and receiving (J4)."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import ackwire
from ackwire import (
    AckMode,
    Connection,
    JMSError,
    RequestTimedOutError,
    TransactionInDoubtError,
    TransactionRolledBackError,
)
from tests.client.brokers import Broker
from tests.client.faulty_proxy import FaultyProxy, Way

WAIT_SECONDS = 30.0
FAILOVER = (
    "failover:({url})?initialReconnectDelay=10&maxReconnectDelay=50&jms.closeTimeout=2000"
    "&jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"
)


@pytest.fixture
def faulty(broker: Broker, proxies: ExitStack) -> FaultyProxy:
    return proxies.enter_context(FaultyProxy(broker.port))


@contextmanager
def failover(faulty: FaultyProxy, options: str = "", **arguments: Any) -> Iterator[Connection]:
    errors: list[JMSError] = []
    with ackwire.connect(FAILOVER.format(url=faulty.url) + options, **arguments) as connection:
        connection.on_error = errors.append
        yield connection
    assert errors == []


@contextmanager
def interrupted(connection: Connection, faulty: FaultyProxy) -> Iterator[None]:
    """Inside there is no link; it is back when the block has ended."""
    lost, back = threading.Event(), threading.Event()
    connection.on_interrupted, connection.on_resumed = lost.set, back.set
    faulty.cut()
    assert lost.wait(WAIT_SECONDS)
    yield
    faulty.mend()
    assert back.wait(WAIT_SECONDS)


def texts(broker: Broker, queue: str) -> list[str | None]:
    """What is in the queue; it is empty afterwards."""
    found: list[str | None] = []
    with (
        ackwire.connect(broker.url) as connection,
        connection.session() as session,
        session.consumer(queue) as consumer,
    ):
        while (message := consumer.receive(1.0)) is not None:
            assert isinstance(message, ackwire.TextMessage)
            found.append(message.text)
    return found


# ---- topics ----------------------------------------------------------------------------------------------------


def test_A3_two_subscribers_of_one_connection_get_their_copy_each(
    broker: Broker, faulty: FaultyProxy, topic: str
) -> None:
    with failover(faulty) as connection, connection.session() as one, connection.session() as other:
        first, second = one.consumer(topic), other.consumer(topic)
        with ackwire.connect(broker.url) as publisher, publisher.session() as session:
            for number in range(10):
                session.send(topic, str(number))
                assert [it.receive().text for it in (first, second)] == [str(number)] * 2  # type: ignore[union-attr]


def test_A3_a_durable_subscriber_misses_nothing(broker: Broker, faulty: FaultyProxy, topic: str) -> None:
    with failover(faulty, client_id="durable-" + topic) as connection, connection.session() as session:
        subscriber = session.durable_subscriber(topic, "name")
        with ackwire.connect(broker.url) as publisher, publisher.session() as publishing:
            publishing.send(topic, "before")
            assert subscriber.receive().text == "before"  # type: ignore[union-attr]
            with interrupted(connection, faulty):
                publishing.send(topic, "meanwhile")
            publishing.send(topic, "after")
        assert [subscriber.receive().text for _ in range(2)] == ["meanwhile", "after"]  # type: ignore[union-attr]
        subscriber.close()
        session.unsubscribe("name")


# ---- transactions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before the commit", "during the commit"])
def test_G1_confirmed_sends_of_a_transaction_are_in_it_once(
    broker: Broker, faulty: FaultyProxy, queue: str, moment: str
) -> None:
    with failover(faulty) as connection, connection.session(transacted=True) as session:
        producer = session.producer(queue)
        faulty.stall(Way.DOWN)
        receipts = [producer.submit(str(number)) for number in range(3)]
        outcome: list[BaseException | None] = []

        def commit() -> None:
            try:
                session.commit()
                outcome.append(None)
            except TransactionInDoubtError as error:
                outcome.append(error)

        if moment == "before the commit":
            with interrupted(connection, faulty):
                pass
            commit()
        else:
            thread = threading.Thread(target=commit)
            thread.start()
            with interrupted(connection, faulty):
                pass
            thread.join(WAIT_SECONDS)
        for receipt in receipts:
            receipt.exception(WAIT_SECONDS)
    found = texts(broker, queue)
    if outcome == [None]:
        assert found == ["0", "1", "2"]
        assert [receipt.exception() for receipt in receipts] == [None] * 3
    else:
        assert not broker.is_ours, outcome
        assert found in ([], ["0", "1", "2"])


def test_G1_what_was_rolled_back_without_a_link_stays_so(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    with failover(faulty) as connection, connection.session(transacted=True) as session:
        producer = session.producer(queue)
        producer.send("undone")
        faulty.stall(Way.DOWN)
        receipt = producer.submit("undone, too")
        with interrupted(connection, faulty):
            session.rollback()
        assert isinstance(receipt.exception(WAIT_SECONDS), JMSError)
        producer.send("kept")
        session.commit()
    assert texts(broker, queue) == ["kept"]


def test_G1_a_consumer_that_is_closed_in_its_transaction_outlives_a_lost_link(
    broker: Broker, faulty: FaultyProxy, queue: str
) -> None:
    with failover(faulty) as connection, connection.session(transacted=True) as session:
        with ackwire.connect(broker.url) as other, other.session() as sending:
            sending.send(queue, "consumed")
        consumer = session.consumer(queue)
        assert consumer.receive() is not None
        consumer.close()
        with interrupted(connection, faulty):
            pass
        try:
            session.commit()
        except TransactionRolledBackError:
            left = ["consumed"]
        else:
            left = []
    assert texts(broker, queue) == left


def test_G1_what_comes_again_after_a_lost_commit_says_so(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    with failover(faulty) as connection, connection.session(transacted=True) as session:
        with ackwire.connect(broker.url) as other, other.session() as sending:
            for number in range(5):
                sending.send(queue, str(number))
        consumer = session.consumer(queue)
        assert [consumer.receive().redelivered for _ in range(5)] == [False] * 5  # type: ignore[union-attr]
        with interrupted(connection, faulty):
            session.rollback()
        assert [consumer.receive().redelivered for _ in range(5)] == [True] * 5  # type: ignore[union-attr]
        session.commit()
    assert texts(broker, queue) == []


# ---- waiting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [0, 1, 1000])
def test_C3_who_waits_for_a_message_gets_it_after_the_link_is_back(
    broker: Broker, faulty: FaultyProxy, queue: str, prefetch: int
) -> None:
    with failover(faulty) as connection, connection.session() as session:
        consumer = session.consumer(f"{queue}?consumer.prefetchSize={prefetch}")
        received: list[ackwire.Message | None] = []
        thread = threading.Thread(target=lambda: received.append(consumer.receive(WAIT_SECONDS)))
        thread.start()
        with interrupted(connection, faulty):
            pass
        with ackwire.connect(broker.url) as other, other.session() as sending:
            sending.send(queue, "x")
        thread.join(WAIT_SECONDS)
        assert [type(it) for it in received] == [ackwire.TextMessage]


def test_A8_a_reply_finds_its_temporary_queue_again(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    with failover(faulty) as connection, connection.session() as session:
        replies = session.temporary_queue()
        consumer = session.consumer(replies)
        session.send(queue, "request", reply_to=replies)
        with interrupted(connection, faulty):
            pass
        with ackwire.connect(broker.url) as other, other.session() as serving:
            request = serving.consumer(queue).receive()
            assert request is not None
            assert request.reply_to is not None
            serving.send(request.reply_to, "reply")
        assert consumer.receive(WAIT_SECONDS).text == "reply"  # type: ignore[union-attr]


def test_a_browse_that_loses_its_link_ends(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    with ackwire.connect(broker.url) as other, other.session() as sending, sending.producer(queue) as producer:
        for number in range(1000):
            producer.submit(str(number))
    with failover(faulty) as connection, connection.session() as session:
        seen: list[ackwire.Message] = []

        def browse() -> None:
            with session.browser(f"{queue}?consumer.prefetchSize=10") as browser:
                for message in browser:
                    seen.append(message)
                    begun.set()

        begun = threading.Event()
        thread = threading.Thread(target=browse, daemon=True)
        thread.start()
        assert begun.wait(WAIT_SECONDS)
        with interrupted(connection, faulty):
            pass
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "it hangs"
    assert len(texts(broker, queue)) == 1000


# ---- without a link --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(AckMode), ids=lambda mode: mode.name.lower())
def test_everything_can_be_closed_without_a_link(
    broker: Broker, faulty: FaultyProxy, queue: str, mode: AckMode
) -> None:
    with ackwire.connect(broker.url) as other, other.session() as sending:
        sending.send(queue, "x")
    connection = ackwire.connect(FAILOVER.format(url=faulty.url))
    session = connection.session(mode)
    consumer, producer = session.consumer(queue), session.producer(queue)
    assert consumer.receive() is not None
    faulty.cut()
    closing = [consumer.close, producer.close, session.close, connection.close]
    thread = threading.Thread(target=lambda: [close() for close in closing], daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), "it hangs"


def test_a_wait_for_a_link_ends_with_an_error_that_says_so(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    del broker
    options = "&jms.requestTimeout=500&jms.sendTimeout=500"
    with ackwire.connect(FAILOVER.format(url=faulty.url) + options) as connection, connection.session() as session:
        producer = session.producer(queue)
        faulty.cut()
        with pytest.raises(RequestTimedOutError, match=r"\(.+\); jms\.sendTimeout"):
            producer.send("x")
        with pytest.raises(RequestTimedOutError, match=r"\(.+\); jms\.requestTimeout"):
            session.consumer(queue)
        faulty.mend()


def test_J4_giving_up_tells_everyone_why(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    del broker
    told = threading.Event()
    url = FAILOVER.format(url=faulty.url) + "&maxReconnectAttempts=2"
    with ackwire.connect(url) as connection, connection.session() as session:
        connection.on_error = lambda _: told.set()
        producer, consumer = session.producer(queue), session.consumer(f"{queue}.empty")
        faulty.stall()
        receipt = producer.submit("x")
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                consumer.receive(None)
            except ackwire.JMSError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        faulty.cut()
        assert told.wait(WAIT_SECONDS)
        thread.join(WAIT_SECONDS)
        for error in (*errors, receipt.exception(WAIT_SECONDS)):
            assert isinstance(error, ackwire.ConnectionFailedError)
            assert faulty.url in str(error)
        assert len(errors) == 1
