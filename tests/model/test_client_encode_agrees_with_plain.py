"""What the client encodes quickly is, byte for byte, what the plain codec encodes; for any agreement."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import LocalProtocolError
from ackwire.jms.destinations import Destination, Kind
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_encode import AckTemplate, decoded_id, encoded_id
from ackwire.wire.openwire.client_protocol import ClientProtocol
from ackwire.wire.openwire.codec_fast import FAST_VERSION_MIN, FastDecoder, destination_to_wire, window_bytes
from ackwire.wire.openwire.frame_builder import FrameBuilder, outgoing_from
from ackwire.wire.openwire.layout import MESSAGE_TYPES
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, fields_of
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import PLAIN, canonical
from tests.unit.wire.openwire.strategies import TEXT, as_seen_in, integers, structures

TYPE_IDS: Final = sorted(MESSAGE_TYPES - {commands.ActiveMQBlobMessage.TYPE_ID})
PRODUCERS: Final = structures(commands.ProducerId)
CONSUMERS: Final = structures(commands.ConsumerId)
NAMES: Final = st.builds(Destination, st.sampled_from(Kind), TEXT)
TRANSACTIONS: Final = st.none() | structures(commands.LocalTransactionId) | structures(commands.XATransactionId)
WIRE_DESTINATIONS: Final = st.none() | structures(commands.ActiveMQQueue) | structures(commands.ActiveMQTempTopic)
MESSAGE_IDS: Final = structures(commands.MessageId)
OPTIONAL: Final[dict[str, st.SearchStrategy[Any]]] = {
    "properties": st.none() | st.binary(max_size=40),
    "compressed": st.booleans(),
    "persistent": st.booleans(),
    "priority": integers(8),
    "timestamp": integers(64),
    "expiration": integers(64),
    "correlation_id": st.none() | TEXT,
    "reply_to": WIRE_DESTINATIONS,
    "type": st.none() | TEXT,
    "group_id": st.none() | TEXT,
    "group_sequence": integers(32),
    "user_id": st.none() | TEXT,
}
"""What a client may set; each of it is there in some messages and not in others."""

COMMON: Final = ("persistent", "priority", "timestamp", "expiration")
AGREEMENTS: Final = {
    "fast": Preferences(),
    "oldest fast": Preferences(version=FAST_VERSION_MIN),
    "version 9": Preferences(version=9),
    "version 1": Preferences(version=1),
    "tight": Preferences(tight=True),
    "cached": Preferences(cache=True),
    "tight and cached": Preferences(tight=True, cache=True),
    "unsized": Preferences(size_prefix_disabled=True),
    "stack traces": Preferences(stack_traces=True),
}


def options() -> st.SearchStrategy[dict[str, Any]]:
    common = {name: OPTIONAL[name] for name in COMMON}
    return st.fixed_dictionaries({}, optional=OPTIONAL) | st.fixed_dictionaries(common)


def plain_message(template: FrameBuilder, type_id: int, sequence: int, content: Any, given: Any) -> commands.Message:
    """The structure with the same content."""
    given = {"persistent": True, "priority": 4, **given}
    given["marshalled_properties"] = given.pop("properties", None)
    command: Any = REGISTRY[type_id]
    message: commands.Message = command(
        producer_id=template.producer_id,
        destination=destination_to_wire(template.destination),
        transaction_id=template.transaction_id,
        message_id=commands.MessageId(None, template.producer_id, sequence),
        content=content,
        **given,
    )
    return message


@effort(200)
@given(
    PRODUCERS,
    NAMES,
    TRANSACTIONS,
    st.sampled_from(TYPE_IDS),
    integers(64),
    st.none() | st.binary(max_size=60),
    options(),
    integers(32),
    st.booleans(),
)
def test_message_is_encoded_as_the_plain_codec_does(
    producer_id: commands.ProducerId,
    target: Destination,
    transaction_id: commands.TransactionId | None,
    type_id: int,
    sequence: int,
    content: bytes | None,
    given: dict[str, Any],
    command_id: int,
    response_required: bool,
) -> None:
    template = FrameBuilder(producer_id, target).in_transaction(transaction_id)
    outgoing = template.message(type_id, sequence, content, **given)
    expected = plain_message(template, type_id, sequence, content, given)
    expected.command_id, expected.response_required = command_id, response_required
    assert outgoing.head(command_id, response_required) + outgoing.fields == PLAIN.encode(expected)
    assert outgoing.command(command_id, response_required) == expected
    same = FrameBuilder(producer_id, target, transaction_id).message(type_id, sequence, content, **given)
    assert same.fields == outgoing.fields
    from_structure = outgoing_from(expected)
    assert (from_structure.fields, from_structure.type_id) == (outgoing.fields, outgoing.type_id)
    assert from_structure.payload_bytes == outgoing.payload_bytes


def test_client_and_broker_count_the_same_for_the_window() -> None:
    template = FrameBuilder(commands.ProducerId("ID:p", 1, 1), Destination(Kind.QUEUE, "q"))
    for content, properties in ((b"12345", b"1234567"), (None, None), (b"", None)):
        outgoing = template.message(28, 1, content, properties)
        message = FastDecoder().message(canonical(outgoing.command()))
        assert window_bytes(message) == (template.producer_id, outgoing.window_bytes)


@effort(30)
@given(st.sampled_from(sorted(MESSAGE_TYPES)).flatmap(lambda type_id: structures(REGISTRY[type_id], 1)))
def test_any_message_can_be_made_ready(command: commands.Message) -> None:
    outgoing = outgoing_from(command)
    again = outgoing.command(command.command_id, command.response_required)
    assert again == as_seen_in(VERSION_MAX, False, command)
    assert outgoing.head(command.command_id, command.response_required) + outgoing.fields == PLAIN.encode(command)


@pytest.mark.parametrize(
    "given",
    [
        {"priority": 128},
        {"timestamp": 2**63},
        {"group_sequence": 2**31},
        {"correlation_id": "x", "expiration": 2**63},
        {"type": "x" * 65_536},
        {"user_id": "x" * 65_536},
    ],
)
def test_what_the_wire_cannot_carry_is_refused(given: dict[str, Any]) -> None:
    template = FrameBuilder(commands.ProducerId("ID:p", 1, 1), Destination(Kind.QUEUE, "q"))
    with pytest.raises(LocalProtocolError):
        template.message(28, 1, b"", **given)


# ---- acks ------------------------------------------------------------------------------------------------------


@effort(100)
@given(
    st.tuples(CONSUMERS, WIRE_DESTINATIONS, TRANSACTIONS),
    integers(32),
    st.booleans(),
    integers(8),
    st.none() | MESSAGE_IDS,
    MESSAGE_IDS,
    integers(32),
)
def test_ack_is_encoded_as_the_plain_codec_does(
    front: tuple[Any, Any, Any],
    command_id: int,
    response_required: bool,
    ack_type: int,
    first: commands.MessageId | None,
    last: commands.MessageId,
    count: int,
) -> None:
    template = AckTemplate(*front)
    first_id = None if first is None else encoded_id(first)
    arguments = (command_id, response_required, ack_type, first_id, encoded_id(last), count)
    expected = commands.MessageAck(
        command_id, response_required, front[1], front[2], front[0], ack_type, first, last, count
    )
    assert template.command(*arguments) == expected
    assert template.frame(*arguments) == PLAIN.encode(expected)


@given(MESSAGE_IDS)
def test_message_ids_survive(message_id: commands.MessageId) -> None:
    assert decoded_id(encoded_id(message_id)) == message_id


# ---- onto the wire ---------------------------------------------------------------------------------------------


def connected(wants: Preferences) -> tuple[ClientProtocol, OpenWireProtocol]:
    """The two ends of a connection with that agreement."""
    client, broker = ClientProtocol(wants), OpenWireProtocol(replace(wants, version=VERSION_MAX))
    for here, there in ((client, broker), (broker, client)):
        there.receive_data(b"".join(here.data_to_send()))
        assert len(list(there.events())) == 1
    return client, broker


TEMPLATE: Final = FrameBuilder(commands.ProducerId("ID:producer", 1, 2), Destination(Kind.QUEUE, "orders"))
OUTGOING: Final = [
    TEMPLATE.message(28, 1, b"\0\0\0\2hi", timestamp=17, correlation_id="c"),
    TEMPLATE.message(23, 2, None, b"\0\0\0\0", persistent=False),
]
ACKS: Final = AckTemplate(commands.ConsumerId("ID:consumer", 1, 2), commands.ActiveMQQueue("orders"))
FIRST: Final = commands.MessageId(None, commands.ProducerId("ID:producer", 1, 2), 1, 10)
LAST: Final = commands.MessageId(None, commands.ProducerId("ID:producer", 1, 2), 2, 11)


@pytest.mark.parametrize("name", AGREEMENTS)
def test_messages_and_acks_arrive_whatever_was_agreed(name: str) -> None:
    client, broker = connected(AGREEMENTS[name])
    assert client.agreement is not None
    codec = Codec(client.agreement.wire_format)
    for number, outgoing in enumerate(OUTGOING):
        client.send_message(outgoing, 40 + number, response_required=number == 0)
    client.send_ack(ACKS, 50, commands.AckType.STANDARD, encoded_id(FIRST), encoded_id(LAST), 2)
    client.send_ack(ACKS, 51, commands.AckType.DELIVERED, None, encoded_id(LAST), 1, response_required=True)
    expected = [
        *(outgoing.command(40 + number, number == 0) for number, outgoing in enumerate(OUTGOING)),
        commands.MessageAck(50, False, ACKS.destination, None, ACKS.consumer_id, 2, FIRST, LAST, 2),
        commands.MessageAck(51, True, ACKS.destination, None, ACKS.consumer_id, 0, None, LAST, 1),
    ]
    waiting = client.waiting_bytes
    data = b"".join(client.data_to_send())
    assert len(data) == waiting
    assert data == b"".join(codec.encode(command) for command in expected)
    broker.receive_data(data)
    assert len(list(broker.events())) == len(expected)


def test_same_message_can_be_sent_again_over_another_connection() -> None:
    frames = []
    for wants in (Preferences(), Preferences(tight=True), Preferences()):
        client, broker = connected(wants)
        client.send_message(OUTGOING[0], 5, response_required=True)
        broker.receive_data(b"".join(client.data_to_send()))
        (event,) = broker.events()
        frames.append(event.frame)  # type: ignore[union-attr]
    assert frames[0] == frames[1] == frames[2] == canonical(OUTGOING[0].command(5, True))


def test_templates_know_every_field_that_a_client_sets() -> None:
    """A new field of messages or acks must be thought about here."""
    assert len(fields_of(commands.ActiveMQMessage)) == 32
    assert len(fields_of(commands.MessageAck)) == 10
