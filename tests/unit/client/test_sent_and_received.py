"""What sending does to a message, and messages as consumers make them from a dispatch (A5, B3, D3, D6)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client.errors import IllegalStateError, JMSError, MessageFormatError
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from,
    message_from_dispatch,
)
from ackwire.jms.destinations import Kind, destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch, DispatchDecoder
from ackwire.wire.openwire.frame_builder import FrameBuilder
from ackwire.wire.openwire.layout import MESSAGE_TYPES
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, fields_of
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import canonical
from tests.unit.wire.openwire.strategies import as_seen_in, structures

PRODUCER: Final = commands.ProducerId("ID:host-1-2", 3, 4)
ORDERS: Final = destination(Kind.QUEUE, "orders")
TEMPLATE: Final = FrameBuilder(PRODUCER, ORDERS)
TRANSACTION: Final = commands.LocalTransactionId(9, commands.ConnectionId("ID:host-1-2"))
HEADERS: Final = (
    "message_id",
    "wire_id",
    "correlation_id",
    "correlation_id_bytes",
    "type",
    "timestamp",
    "expiration",
    "group_id",
    "group_sequence",
    "user_id",
    "delivery_mode",
    "priority",
    "delivery_count",
    "redelivered",
    "destination",
    "reply_to",
    "original_destination",
    "data_structure",
    "body_is_read_only",
)
BODIES: Final[dict[str, Callable[[Any], object]]] = {
    "TextMessage": lambda message: message.text,
    "ObjectMessage": lambda message: message.data,
    "MapMessage": lambda message: dict(message.entries),
    "StreamMessage": lambda message: message.values,
    "BytesMessage": lambda message: message.data,
    "Message": lambda _message: None,
}
OWN: Final[dict[str, Callable[[], Message]]] = {
    "plain": Message,
    "text": lambda: TextMessage("tëxt"),
    "no text": TextMessage,
    "bytes": lambda: BytesMessage(b"bytes"),
    "map": lambda: MapMessage({"a": 1}),
    "stream": lambda: StreamMessage([1, "x"]),
    "object": lambda: ObjectMessage(b"object"),
}


def dispatch_of(command: commands.Message, counter: int = 0) -> commands.MessageDispatch:
    consumer_id = commands.ConsumerId("ID:c", 1, 1)
    return commands.MessageDispatch(
        consumer_id=consumer_id, destination=command.destination, message=command, redelivery_counter=counter
    )


def dispatched(command: commands.Message, counter: int = 0, decoder: DispatchDecoder | None = None) -> Dispatch:
    """*command* as it comes in."""
    event = (decoder or DispatchDecoder()).dispatch(canonical(dispatch_of(command, counter)))
    assert isinstance(event, Dispatch)
    return event


def received(message: Message, counter: int = 0) -> Any:
    """*message*, sent and received."""
    return message_from(dispatched(message.to_outgoing(TEMPLATE, 7).command(), counter))


def stamp(message: Message, sequence: int = 5, **changes: Any) -> None:
    values: dict[str, Any] = {
        "delivery_mode": DeliveryMode.NON_PERSISTENT,
        "priority": 9,
        "timestamp": 1_700_000_000_000,
        "expiration": 1_700_000_060_000,
        **changes,
    }
    message.stamp(TEMPLATE, sequence, **values)


def outcome(look: Callable[[], object]) -> object:
    """What *look* returns, or the error that it raises."""
    try:
        return look()
    except JMSError as error:
        return type(error), str(error)


# ---- received --------------------------------------------------------------------------------------------------


@effort(60)
@given(st.sampled_from(sorted(MESSAGE_TYPES)).flatmap(lambda type_id: structures(REGISTRY[type_id], 0)), st.booleans())
def test_message_from_a_dispatch_is_the_one_from_its_structure(command: commands.Message, known: bool) -> None:
    command = replace(command, message_id=commands.MessageId(None, PRODUCER, 5, 6))
    decoder = DispatchDecoder()
    if known:
        decoder.dispatch(canonical(dispatch_of(command)))
    message = message_from(dispatched(command, 2, decoder))
    plain = message_from_dispatch(replace(dispatch_of(command, 2), message=replace(command)))
    assert plain is not None
    assert type(message) is type(plain)
    for name in HEADERS:
        assert outcome(lambda name=name: getattr(message, name)) == outcome(lambda name=name: getattr(plain, name))  # type: ignore[misc]
    body = BODIES[type(message).__name__]
    assert repr(outcome(lambda: body(message))) == repr(outcome(lambda: body(plain)))
    assert repr(outcome(lambda: dict(message.properties))) == repr(outcome(lambda: dict(plain.properties)))
    assert message.to_command() == plain.to_command()


@pytest.mark.parametrize("kind", OWN)
def test_every_kind_arrives(kind: str) -> None:
    own = OWN[kind]()
    own.properties["a"] = 1
    message = received(own, counter=2)
    assert type(message) is type(own)
    if isinstance(own, BytesMessage | StreamMessage):
        own.reset()
    body = BODIES[type(own).__name__]
    assert body(message) == body(own)
    assert message.properties["a"] == 1
    assert (message.message_id, message.destination) == ("ID:host-1-2:4:3:7", ORDERS)
    assert (message.delivery_count, message.redelivered) == (3, True)
    assert (message.priority, message.delivery_mode) == (4, DeliveryMode.PERSISTENT)


def test_blob_message_arrives_as_a_plain_one() -> None:
    blob = commands.ActiveMQBlobMessage(message_id=commands.MessageId(None, PRODUCER, 1), remote_blob_url="http://x/")
    assert type(message_from(dispatched(blob))) is Message


def test_received_message_knows_its_dispatch() -> None:
    dispatch = dispatched(TextMessage("x").to_outgoing(TEMPLATE, 7).command())
    assert message_from(dispatch).dispatch is dispatch
    assert Message().dispatch is None


# ---- acknowledge -----------------------------------------------------------------------------------------------


def test_D6_acknowledge_tells_the_consumer_which_message() -> None:
    acknowledged: list[Message] = []
    message = message_from(dispatched(Message().to_outgoing(TEMPLATE, 7).command()), acknowledged.append)
    message.acknowledge()
    message.acknowledge()
    assert acknowledged == [message, message]


@pytest.mark.parametrize("message", [TextMessage("own"), received(TextMessage("without a consumer"))])
def test_D3_message_that_no_consumer_received_cannot_be_acknowledged(message: Message) -> None:
    with pytest.raises(IllegalStateError, match="not received from a consumer"):
        message.acknowledge()


# ---- sent ------------------------------------------------------------------------------------------------------


def test_A5_after_sending_the_message_shows_what_was_set() -> None:
    message = TextMessage("x")
    stamp(message)
    assert message.message_id == "ID:host-1-2:4:3:5"
    assert message.wire_id == commands.MessageId(None, PRODUCER, 5)
    assert message.destination is ORDERS
    assert (message.delivery_mode, message.priority) == (DeliveryMode.NON_PERSISTENT, 9)
    assert (message.timestamp, message.expiration) == (1_700_000_000_000, 1_700_000_060_000)
    assert repr(message) == "<TextMessage ID:host-1-2:4:3:5 to queue://orders>"
    stamp(message, 6)
    assert message.message_id == "ID:host-1-2:4:3:6", "the same object sent again is another message"
    message.message_id = "ID:mine"
    assert message.message_id == "ID:mine"


def test_A5_received_message_that_is_sent_on_is_a_new_one() -> None:
    message = received(TextMessage("x"), counter=3)
    was = message.message_id
    stamp(message)
    assert (message.redelivered, message.delivery_count) == (False, 1)
    assert message.message_id == "ID:host-1-2:4:3:5" != was
    assert message.dispatch.producer_sequence == 7, "what was received can still be acknowledged"
    assert message.body_is_read_only
    again = message_from(dispatched(message.to_outgoing(TEMPLATE, 5).command()))
    assert isinstance(again, TextMessage)
    assert (again.text, again.message_id) == ("x", message.message_id)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("kind", OWN)
def test_what_goes_out_is_the_message_with_its_headers(kind: str, compressed: bool) -> None:
    template = TEMPLATE.in_transaction(TRANSACTION)
    for headers in ({}, EVERY_HEADER):
        message = OWN[kind]()
        for name, value in headers.items():
            setattr(message, name, value)
        message.properties["p"] = "x"
        stamp(message)
        command = message.to_outgoing(template, 5, use_compression=compressed).command()
        expected = replace(message.to_command(use_compression=compressed), transaction_id=TRANSACTION)
        assert command == expected
        assert (command.producer_id, command.destination) == (PRODUCER, commands.ActiveMQQueue("orders"))


EVERY_HEADER: Final[dict[str, object]] = {
    "correlation_id": "corrélation",
    "type": "t",
    "reply_to": "temp-queue://ID:x:1",
    "group_id": "g",
    "group_sequence": -1,
    "user_id": "u",
}


@effort(40)
@given(st.sampled_from(sorted(MESSAGE_TYPES - {29})).flatmap(lambda type_id: structures(REGISTRY[type_id], 1)))
def test_any_received_message_goes_out_as_it_came(command: commands.Message) -> None:
    """Advisories with their data structure and dead letters with their original destination too."""
    command = as_seen_in(VERSION_MAX, False, replace(command, message_id=commands.MessageId(None, PRODUCER, 5, 6)))
    message = message_from(dispatched(command, 3))
    again = message.to_outgoing(TEMPLATE, 8).command()
    assert again.message_id == commands.MessageId(None, PRODUCER, 8)
    assert (again.producer_id, again.transaction_id) == (PRODUCER, None)
    assert again.destination == commands.ActiveMQQueue("orders")
    set_anew = {
        *("message_id", "producer_id", "transaction_id", "destination", "priority", "redelivery_counter"),
        *("original_transaction_id", "target_consumer_id", "broker_path", "arrival", "received_by_df_bridge"),
        *("droppable", "cluster", "broker_in_time", "broker_out_time", "group_first_for_consumer"),
        *("command_id", "response_required"),
    }
    for field in fields_of(type(command)):
        if field.name not in set_anew:
            assert getattr(again, field.name) == getattr(command, field.name)
    assert (again.redelivery_counter, again.broker_path, again.arrival) == (0, None, 0)


def test_B3_changes_after_sending_do_not_reach_what_was_sent() -> None:
    message = MapMessage({"a": 1})
    message.properties["p"] = 1
    outgoing = message.to_outgoing(TEMPLATE, 5)
    was = outgoing.command()
    message.entries["a"] = 2
    message.properties["p"] = 2
    message.correlation_id = "later"
    stamp(message, 6)
    assert outgoing.command() == was
    assert message.to_outgoing(TEMPLATE, 5).command() != was


def test_cleared_parts_of_a_received_message_are_not_sent_on() -> None:
    own = TextMessage("x")
    own.properties["p"] = 1
    message = received(own)
    message.clear_properties()
    message.clear_body()
    command = message.to_outgoing(TEMPLATE, 5).command()
    assert (command.content, command.marshalled_properties) == (None, None)


@pytest.mark.parametrize("structure", [None, commands.ControlCommand()], ids=["usual", "unusual"])
def test_what_the_wire_cannot_carry_is_a_format_error(structure: commands.ControlCommand | None) -> None:
    message = MapMessage({"x" * 65_536: 1})
    message.data_structure = structure
    with pytest.raises(MessageFormatError):
        message.to_outgoing(TEMPLATE, 5)


def test_own_messages_share_nothing() -> None:
    first, second = TextMessage("a"), TextMessage("b")
    stamp(first)
    first.type, first.group_id = "t", "g"
    first.properties["p"] = 1
    assert (second.type, second.group_id, second.message_id, second.timestamp) == (None, None, None, 0)
    assert dict(second.properties) == {}
