"""Sends that nobody confirms, and a connection that is lost (N3)."""

import threading

import pytest

import ackwire
from tests.client.conftest import Connect
from tests.conformance.proxy import CuttableProxy

COUNT = 200
TIMEOUT_SECONDS = 20.0


@pytest.fixture
def errors() -> list[ackwire.JMSError]:
    return []


def test_N3_the_application_hears_of_messages_that_may_be_lost(
    connect: Connect, proxy: CuttableProxy, queue: str, errors: list[ackwire.JMSError]
) -> None:
    """N3: a cut right behind messages that were sent without confirmation is not passed over in silence."""
    told = threading.Event()
    connection = connect(f"failover:(tcp://127.0.0.1:{proxy.port})?initialReconnectDelay=10")

    def on_error(error: ackwire.JMSError) -> None:
        errors.append(error)
        told.set()

    connection.on_error = on_error
    with connection.session() as session:
        producer = session.producer(queue)
        proxy.mute_broker()
        producer.send("one", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
        producer.send("two", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
        proxy.cut_once()
        assert told.wait(TIMEOUT_SECONDS)
    assert "2 messages that were sent without confirmation may be lost" in str(errors[0])


def test_N3_nothing_is_said_of_messages_that_have_arrived(
    connect: Connect, proxy: CuttableProxy, queue: str, errors: list[ackwire.JMSError]
) -> None:
    """N3: a later answer of the broker proves that what was sent before has arrived."""
    connection = connect(f"failover:(tcp://127.0.0.1:{proxy.port})?initialReconnectDelay=10")
    resumed = threading.Event()
    connection.on_error = errors.append
    connection.on_resumed = resumed.set
    with connection.session() as session:
        producer = session.producer(queue)
        producer.send("unconfirmed", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
        producer.send("confirmed")
        proxy.cut_once()
        assert resumed.wait(TIMEOUT_SECONDS)
    assert errors == []


def test_N3_tracked_messages_are_sent_again(connect: Connect, proxy: CuttableProxy, queue: str) -> None:
    """N3: with trackMessages a cut loses nothing, although nobody waited for a confirmation."""
    url = f"failover:(tcp://127.0.0.1:{proxy.port})?initialReconnectDelay=10&trackMessages=true&jms.useAsyncSend=true"
    connection = connect(url)
    with connection.session() as session:
        producer = session.producer(queue)
        for number in range(COUNT):
            producer.send(f"{number}")
            if number in (50, 120, COUNT - 1):
                proxy.cut_once()
        producer.submit("last").result(TIMEOUT_SECONDS)
        consumer = session.consumer(queue)
        found: list[str] = []
        while not found or found[-1] != "last":
            message = consumer.receive(TIMEOUT_SECONDS)
            assert message is not None, f"only {len(found)} came"
            found.append(message.body)
    assert set(found) == {*map(str, range(COUNT)), "last"}
