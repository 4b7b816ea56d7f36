"""Mistakes that a review found: arguments that cannot be, and what errors mean."""

import threading
from typing import Any

import pytest

import ackwire
from ackwire import ConnectionFactory, DeliveryMode
from ackwire.wire.openwire import commands
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.steps import ARRIVAL_SECONDS
from tests.client.watched import Watched, failover


@pytest.mark.parametrize(
    "options",
    [
        {"prefetch": 10},
        {"send_timeout_ms": "5"},
        {"send_timeout_ms": 0.5},
        {"send_timeout_ms": None},
        {"send_timeout_ms": True},
        {"use_async_send": "yes"},
        {"use_async_send": 1},
        {"redelivery": {"maximumRedeliveries": 3}},
        {"client_id_prefix": 7},
    ],
    ids=str,
)
def test_A1_a_factory_refuses_options_of_the_wrong_type(options: dict[str, Any]) -> None:
    """A1: at once, and not in the middle of a later call."""
    with pytest.raises(ackwire.IllegalArgumentError, match=next(iter(options))):
        ConnectionFactory("tcp://localhost", **options)


def test_A5_a_negative_time_to_live_of_a_message_is_refused(connect: Connect, queue: str) -> None:
    """A5: it would never expire, which nobody can have meant."""
    producer = connect().session().producer(queue)
    with pytest.raises(ackwire.IllegalArgumentError):
        producer.send("m", time_to_live_ms=-1)


def test_A5_a_negative_time_to_live_of_a_producer_is_refused(connect: Connect, queue: str) -> None:
    """A5: the same, when it is set or at the latest when it is used."""
    producer = connect().session().producer(queue)
    with pytest.raises(ackwire.IllegalArgumentError):
        set_and_send(producer, -1)


def set_and_send(producer: ackwire.Producer, time_to_live_ms: int) -> None:
    producer.time_to_live_ms = time_to_live_ms
    producer.send("m")


class CountingFactory(ConnectionFactory):
    """Remembers the connections that it made."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.made: list[Watched] = []

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> ackwire.Connection:
        connection = super().create_connection(user_name, password)
        self.made.append(Watched(connection))
        return connection


def test_M9_N3_a_template_keeps_a_connection_that_comes_back(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """M9, N3: that unconfirmed messages may be lost says nothing about the connection, which looks after itself."""
    del connect  # ends before the broker
    factory = CountingFactory(failover(recording.port))
    with ackwire.Template(factory) as template:
        template.send(queue, "a")
        recording.mute_broker()
        template.send(queue, "b", delivery_mode=DeliveryMode.NON_PERSISTENT)
        recording.await_sent(commands.ActiveMQTextMessage, 2)
        recording.cut_once()
        factory.made[0].await_return()  # callbacks come in order: the template has heard of the loss
        template.send(queue, "c")
    assert len(factory.made) == 1


def test_N3_messages_that_may_be_lost_have_an_error_of_their_own(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """N3: it is not the one that says that the connection is lost."""
    connection = connect(failover(recording.port))
    errors: list[ackwire.JMSError] = []
    told = threading.Event()

    def on_error(error: ackwire.JMSError) -> None:
        errors.append(error)
        told.set()

    connection.on_error = on_error
    producer = connection.session().producer(queue)
    recording.mute_broker()
    producer.send("m", delivery_mode=DeliveryMode.NON_PERSISTENT)
    recording.cut_once()
    assert told.wait(ARRIVAL_SECONDS)
    assert [type(error) for error in errors] == [ackwire.UnconfirmedMessagesError]
    assert not issubclass(ackwire.UnconfirmedMessagesError, ackwire.ConnectionFailedError)
