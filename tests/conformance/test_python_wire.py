"""The short ways of our Python client on the wire, against a whole broker: messages and acks go out ready-made,
dispatches come in as events (A4, A5, D3)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from ackwire.client.messages import DeliveryMode, MapMessage, Message, TextMessage, message_from
from ackwire.jms.destinations import Kind, destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch, EndOfMessages
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.client_protocol import ClientProtocol
from ackwire.wire.openwire.frame_builder import FrameBuilder
from tests.conformance.routes import Broker
from tests.helpers.openwire_client import UNWATCHED, OpenWireClient, queue, unique

NUMBER: Final = 30
SENT_MS: Final = 4_000_000_000_000


class Wire:
    """A connection whose protocol is the client's."""

    def __init__(self, client: OpenWireClient, protocol: ClientProtocol) -> None:
        self.client = client
        self.protocol = protocol

    def send(self, message: Message, template: FrameBuilder, sequence: int) -> None:
        mode = DeliveryMode.PERSISTENT
        message.stamp(template, sequence, delivery_mode=mode, priority=7, timestamp=SENT_MS, expiration=0)
        self.protocol.send_message(message.to_outgoing(template, sequence), 1000 + sequence, True)
        self.client.flush()
        assert type(self.client.answer(1000 + sequence)) is commands.Response

    def receive(self, count: int) -> list[Dispatch]:
        return [self.client.wait_for(Dispatch) for _ in range(count)]

    def acknowledge(self, template: AckTemplate, first: Dispatch, last: Dispatch, count: int) -> None:
        ack_type = commands.AckType.STANDARD
        self.protocol.send_ack(template, 5000, ack_type, first.encoded_id, last.encoded_id, count, True)
        self.client.flush()
        assert type(self.client.answer(5000)) is commands.Response

    def in_transaction(self, transaction_id: commands.TransactionId, kind: commands.TransactionType) -> None:
        connection_id = commands.ConnectionId(self.client.connection_id)
        info = commands.TransactionInfo(connection_id=connection_id, transaction_id=transaction_id, type=kind)
        self.client.request(info)

    def is_empty(self, name: str) -> bool:
        """Whether a browser sees nothing."""
        self.client.subscribe(queue(name), browser=True)
        self.client.wait_for(EndOfMessages)
        return not any(isinstance(event, Dispatch) for event in self.client.take_events())


@pytest.fixture(params=["tcp", "tight-cached"])
def wire(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Wire]:
    tight_and_cached = request.param == "tight-cached"
    wants = replace(UNWATCHED, tight=tight_and_cached, cache=tight_and_cached)
    with OpenWireClient.connect(broker.port(request.param), wants) as client:
        protocol = client.protocol = ClientProtocol(wants)
        client.handshake()
        client.login()
        yield Wire(client, protocol)
        client.log_out()


def test_A4_messages_arrive_and_are_gone_after_a_range_ack(wire: Wire) -> None:
    name = unique("wire")
    template = FrameBuilder(wire.client.open_producer(), destination(Kind.QUEUE, name))
    for number in range(NUMBER):
        message = TextMessage(f"tëxt {number}") if number % 3 else MapMessage({"n": number})
        message.correlation_id, message.reply_to = (f"c{number}", "queue://answers") if number % 2 else (None, None)
        message.properties["n"] = number
        wire.send(message, template, number + 1)
    consumer = wire.client.subscribe(queue(name), prefetch_size=NUMBER)
    dispatches = wire.receive(NUMBER)
    assert len({dispatch.message_key for dispatch in dispatches}) == NUMBER
    for number, dispatch in enumerate(dispatches):
        received = message_from(dispatch)
        assert received.properties["n"] == number
        assert received.correlation_id == (f"c{number}" if number % 2 else None)
        assert (received.priority, received.timestamp, received.redelivered) == (7, SENT_MS, False)
        assert received.message_id == f"{template.producer_id}:{number + 1}"
        assert not isinstance(received, TextMessage) or received.text == f"tëxt {number}"
    channel = dispatches[0].channel
    assert (channel.consumer_id, channel.destination) == (consumer, queue(name))
    wire.acknowledge(channel.ack_template, dispatches[0], dispatches[-1], NUMBER)
    assert wire.is_empty(name)


def test_G1_messages_and_acks_of_a_transaction(wire: Wire) -> None:
    name = unique("wire")
    plain = FrameBuilder(wire.client.open_producer(), destination(Kind.QUEUE, name))
    consumer = wire.client.subscribe(queue(name), prefetch_size=NUMBER)
    for number in (1, 2):
        transaction_id = commands.LocalTransactionId(number, commands.ConnectionId(wire.client.connection_id))
        wire.in_transaction(transaction_id, commands.TransactionType.BEGIN)
        wire.send(TextMessage("in a transaction"), plain.in_transaction(transaction_id), number)
        wire.in_transaction(transaction_id, commands.TransactionType.COMMIT_ONE_PHASE)
        (dispatch,) = wire.receive(1)
        transaction_id = replace(transaction_id, value=10 + number)
        wire.in_transaction(transaction_id, commands.TransactionType.BEGIN)
        wire.acknowledge(AckTemplate(consumer, dispatch.destination, transaction_id), dispatch, dispatch, 1)
        wire.in_transaction(transaction_id, commands.TransactionType.COMMIT_ONE_PHASE)
    assert wire.is_empty(name)
