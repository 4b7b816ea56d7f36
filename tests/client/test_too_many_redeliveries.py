"""A message that came too often before: who gives up on it when it is delivered (F3), in our client and in Java's."""

from typing import Final

import pytest

import ackwire
from ackwire import AckMode
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.client.acks import NO_DELAY, Line, lines_of
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import LOOSE, RecordingProxy
from tests.client.work import browse, receive_one, text_of, texts_of
from tests.conformance import jms
from tests.conformance.jms import Jms

ONCE: Final = NO_DELAY | {"jms__redeliveryPolicy__maximumRedeliveries": 1}
GIVEN_UP: Final = [Line(AckType.POISON, 1, 0, 0)]


@pytest.fixture
def worn(connect: Connect, broker: Broker, queue: str) -> str:
    """A queue with one message that three consumers were given and gave back."""
    with connect() as sender:
        sender.session().send(queue, "m0")
    for _ in range(3):
        with connect(broker.url_with(jms__redeliveryPolicy__maximumRedeliveries=-1)) as connection:
            receive_one(connection.session(AckMode.CLIENT).consumer(queue))
    return queue


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL])
def test_F3_outside_transactions_it_is_given_to_the_application(
    connect: Connect, recording: RecordingProxy, worn: str, mode: AckMode
) -> None:
    connection = connect(recording.url_with(**ONCE))
    message = receive_one(connection.session(mode).consumer(worn))
    assert (text_of(message), message.delivery_count) == ("m0", 4)


def test_F3_in_a_transaction_it_is_given_up(connect: Connect, recording: RecordingProxy, worn: str) -> None:
    with connect(recording.url_with(**ONCE)) as connection:
        assert connection.session(transacted=True).consumer(worn).receive(0.2) is None
    assert lines_of(recording, worn) == GIVEN_UP
    (ack,) = recording.sent(commands.MessageAck)
    assert ack.poison_cause is not None


def test_F3_unless_the_check_is_turned_off(connect: Connect, recording: RecordingProxy, worn: str) -> None:
    url = recording.url_with(**ONCE, jms__redeliveryPolicy__preDispatchCheck=False)
    assert text_of(receive_one(connect(url).session(transacted=True).consumer(worn))) == "m0"


def test_F3_a_browser_looks_and_gives_nothing_up(connect: Connect, recording: RecordingProxy, worn: str) -> None:
    with connect(recording.url_with(**ONCE)) as connection:
        for transacted in (False, True):
            with connection.session(transacted=transacted) as session:
                assert texts_of(session.browser(worn)) == ["m0"]
    assert [line.type for line in lines_of(recording, worn) if line.type is AckType.POISON] == []
    assert texts_of(browse(connect(), worn)) == ["m0"]


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL])
def test_F3_the_java_client_gives_it_to_the_application_too(
    java: Jms, recording: RecordingProxy, worn: str, mode: AckMode
) -> None:
    with java.connect(recording.url_with(**ONCE, **LOOSE)) as connection:
        message = connection.session(jms.AckMode(mode)).consumer(worn).receive_one()
        assert (message.body, message.delivery_count) == ("m0", 4)


def test_F3_the_java_client_gives_it_up_in_a_transaction_too(java: Jms, recording: RecordingProxy, worn: str) -> None:
    with java.connect(recording.url_with(**ONCE, **LOOSE)) as connection:
        assert connection.transacted_session().consumer(worn).receive(200) is None
    assert [(line.type, line.count, line.last) for line in lines_of(recording, worn)] == [(AckType.POISON, 1, 0)]


def test_F3_a_message_that_the_broker_redelivers_itself_is_left_to_it(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connect().session().send(queue, "m0", properties={"redeliveryDelay": 1000})
    for _ in range(3):
        with connect(recording.url_with(jms__redeliveryPolicy__maximumRedeliveries=-1)) as connection:
            receive_one(connection.session(AckMode.CLIENT).consumer(queue))
    connection = connect(recording.url_with(**ONCE))
    assert text_of(receive_one(connection.session(transacted=True).consumer(queue))) == "m0"


def test_F3_what_was_given_up_is_a_dead_letter(connect: Connect, broker: Broker, worn: str) -> None:
    with connect(broker.url_with(**ONCE)) as connection:
        assert connection.session(transacted=True).consumer(worn).receive(0.2) is None
        dead = [message for message in browse(connection, "ActiveMQ.DLQ") if _came_from(message, worn)]
        assert texts_of(dead) == ["m0"]


def _came_from(message: ackwire.Message, queue: str) -> bool:
    return str(message.original_destination) == queue
