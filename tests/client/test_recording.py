"""The recording proxy itself."""

import ackwire
from ackwire.wire.openwire import commands
from tests.client.conftest import Connect
from tests.client.recording import LOOSE, RecordingProxy
from tests.conformance.jms import Jms, text


def test_every_command_of_our_client_is_recorded(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    with connect(recording.url) as connection:
        session = connection.session()
        sent = session.producer(queue).send("hello")
        received = session.consumer(queue).receive(10)
        assert isinstance(received, ackwire.TextMessage)
        assert received.message_id == sent.message_id
    (message,) = recording.sent(commands.ActiveMQTextMessage)
    (ack,) = recording.sent(commands.MessageAck)
    (dispatch,) = recording.received(commands.MessageDispatch)
    assert message.response_required
    assert dispatch.message is not None
    assert ack.last_message_id == dispatch.message.message_id
    assert [type(record.command) for record in recording.records[:2]] == [commands.WireFormatInfo] * 2


def test_every_command_of_a_java_client_is_recorded(java: Jms, recording: RecordingProxy, queue: str) -> None:
    with java.connect(recording.url_with(**LOOSE)) as connection:
        session = connection.session()
        session.producer(queue).send(text("hello"))
        session.consumer(queue).receive_one()
    assert len(recording.sent(commands.ActiveMQTextMessage)) == 1
    assert len(recording.sent(commands.MessageAck)) == 1
