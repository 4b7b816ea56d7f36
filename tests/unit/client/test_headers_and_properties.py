"""Headers and properties of a message that has not been anywhere (A5)."""

from typing import Any

import pytest

from ackwire.client.errors import IllegalArgumentError, InvalidDestinationError, MessageFormatError
from ackwire.client.messages import DeliveryMode, Message
from ackwire.jms.destinations import Kind, destination
from ackwire.jms.types import Int, Long

# ---- headers ---------------------------------------------------------------------------------------------------


def test_A5_headers_have_the_jms_defaults() -> None:
    message = Message()
    assert (message.delivery_mode, message.priority, message.expiration) == (DeliveryMode.PERSISTENT, 4, 0)
    assert (message.redelivered, message.delivery_count, message.timestamp) == (False, 1, 0)
    texts = (message.message_id, message.correlation_id, message.type, message.group_id, message.user_id)
    assert texts == (None,) * 5
    assert (message.destination, message.reply_to, message.original_destination) == (None,) * 3


def test_A5_destinations_are_values_or_text() -> None:
    message = Message()
    message.destination = destination(Kind.TOPIC, "prices")
    message.reply_to = "temp-queue://ID:host:1"
    assert repr(message.destination) == "topic://prices"
    assert message.reply_to == destination(Kind.TEMP_QUEUE, "ID:host:1")
    message.reply_to = "plain.name"
    assert message.reply_to == destination(Kind.QUEUE, "plain.name")
    message.reply_to = None
    assert message.reply_to is None
    for name in ("", "queue://", "x" * 5000):
        with pytest.raises(InvalidDestinationError):
            message.reply_to = name


def test_A5_correlation_id_is_text_or_its_utf8() -> None:
    message = Message()
    message.correlation_id = "é😀".encode()
    assert message.correlation_id == "é😀"
    assert message.correlation_id_bytes == "é😀".encode()
    with pytest.raises(IllegalArgumentError, match="UTF-8"):
        message.correlation_id = b"\xff"
    assert Message().correlation_id_bytes is None


@pytest.mark.parametrize("name", ["correlation_id", "type", "group_id", "user_id", "message_id"])
def test_text_headers_are_text_that_the_wire_can_carry(name: str) -> None:
    message = Message()
    setattr(message, name, "ID:" + "x" * 65_532)
    assert len(getattr(message, name)) == 65_535
    for value in ("x" * 65_536, "😀" * 11_000, 5):
        with pytest.raises(IllegalArgumentError):
            setattr(message, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 10),
        ("priority", -1),
        ("delivery_mode", 3),
        ("timestamp", 2**63),
        ("expiration", "soon"),
        ("group_sequence", 2**31),
        ("delivery_count", 0),
    ],
)
def test_header_values_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(IllegalArgumentError):
        setattr(Message(), name, value)


def test_delivery_mode_may_be_jms_number() -> None:
    message = Message()
    message.delivery_mode = 1
    assert message.delivery_mode is DeliveryMode.NON_PERSISTENT


def test_A5_redelivered_and_delivery_count_are_one_thing() -> None:
    message = Message()
    message.delivery_count = 3
    assert message.redelivered
    message.redelivered = True
    assert message.delivery_count == 3
    message.redelivered = False
    assert message.delivery_count == 1
    message.redelivered = True
    assert message.delivery_count == 2


# ---- properties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "_a", "$a", "a1_$", "schlüssel", "東京", "JMS_AMQP_x", "nullable", "€"])
def test_property_names_are_identifiers(name: str) -> None:
    message = Message()
    message.properties[name] = 1
    assert list(message.properties) == [name]


@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", "a.b", "a b", "a\0", "null", "TRUE", "Not", "and", "or", "BETWEEN", "like", "in", "is"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(IllegalArgumentError):
        Message().properties[name] = 1


def test_names_that_are_no_text_are_refused() -> None:
    no_name: Any = None
    with pytest.raises(IllegalArgumentError, match="needs a name"):
        Message().properties[no_name] = 1


def test_headers_are_no_properties() -> None:
    with pytest.raises(IllegalArgumentError, match="set the message's correlation_id"):
        Message().properties["JMSCorrelationID"] = "x"


def test_properties_cannot_be_bytes() -> None:
    with pytest.raises(MessageFormatError, match="a property cannot be byte"):
        Message().properties["x"] = b"bytes"


def test_A5_group_and_user_are_properties_too() -> None:
    message = Message()
    message.properties.update({"mine": 1, "JMSXGroupID": "g", "JMSXGroupSeq": "7", "JMSXUserID": "u"})
    assert (message.group_id, message.group_sequence, message.user_id) == ("g", 7, "u")
    assert dict(message.properties) == {"JMSXGroupID": "g", "JMSXGroupSeq": Int(7), "JMSXUserID": "u", "mine": Int(1)}
    assert len(message.properties) == 4
    assert message.properties.get_string("JMSXGroupSeq") == "7"
    del message.properties["JMSXGroupID"], message.properties["JMSXUserID"]
    assert (dict(message.properties), message.group_sequence, message.user_id) == ({"mine": 1}, 0, None)


def test_A5_delivery_count_is_a_property_and_listed_once_redelivered() -> None:
    message = Message()
    assert message.properties.get_int("JMSXDeliveryCount") == 1
    assert list(message.properties) == []
    message.properties["JMSXDeliveryCount"] = 2
    assert message.redelivered
    assert dict(message.properties) == {"JMSXDeliveryCount": 2}
    del message.properties["JMSXDeliveryCount"]
    assert not message.redelivered


def test_I1_scheduling_properties_get_the_types_that_brokers_look_for() -> None:
    properties = Message().properties
    properties["AMQ_SCHEDULED_DELAY"] = 5
    properties["AMQ_SCHEDULED_PERIOD"] = "6"
    properties["AMQ_SCHEDULED_REPEAT"] = 7
    assert [type(properties[name]) for name in properties] == [Long, Long, Int]
    with pytest.raises(MessageFormatError):
        properties["AMQ_SCHEDULED_REPEAT"] = 1.5


def test_clearing_properties_leaves_none_and_keeps_headers() -> None:
    message = Message()
    message.type = "t"
    message.properties.update({"a": 1, "JMSXGroupID": "g"})
    message.clear_properties()
    assert dict(message.properties) == {}
    assert message.type == "t"
    message.properties["b"] = 2
    message.properties.clear()
    assert not message.properties
