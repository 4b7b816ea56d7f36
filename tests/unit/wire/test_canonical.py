"""Messages made from bodies and headers, and read back, without a word of OpenWire."""

from typing import Any

import pytest

from ackwire.errors import LocalProtocolError
from ackwire.jms.destinations import Kind, destination
from ackwire.jms.types import Int, Value
from ackwire.wire.canonical import MessageView, MessageWriter

ORDERS = destination(Kind.QUEUE, "orders")
ANSWERS = destination(Kind.TEMP_QUEUE, "ID:a:1")


@pytest.mark.parametrize("body", [None, "", "text", "grüße \U0001f600\0", b"", b"\0\xff", {"a": Int(1), "b": "c"}])
def test_a_body_is_read_as_it_was_written(body: Any) -> None:
    message = MessageWriter("ID:c").message(ORDERS, body, timestamp=1)
    assert MessageView(message).body == body


def test_headers_and_properties_are_read_as_they_were_written() -> None:
    properties: dict[str, Value] = {"colour": "red", "count": Int(3)}
    message = MessageWriter("ID:c").message(
        ORDERS,
        "text",
        timestamp=12,
        properties=properties,
        persistent=False,
        priority=7,
        expiration=13,
        correlation_id="c",
        reply_to=ANSWERS,
        type="t",
        group_id="g",
        group_sequence=5,
    )
    view = MessageView(message)
    assert (view.properties, view.correlation_id, view.reply_to, view.type) == (properties, "c", ANSWERS, "t")
    assert (message.destination, message.persistent, message.priority) == (ORDERS, False, 7)
    assert (message.timestamp, message.expiration) == (12, 13)
    assert (message.group_id, message.group_sequence) == ("g", 5)
    assert (view.user_id, view.original_destination) == (None, None)


def test_messages_are_numbered_and_belong_to_their_connection() -> None:
    writer = MessageWriter("ID:c")
    first, second = (writer.message(ORDERS, "x", timestamp=1) for _ in range(2))
    assert [MessageView(message).message_id for message in (first, second)] == ["ID:c:1:1:1", "ID:c:1:1:2"]
    assert (first.producer_count, second.producer_count) == (1, 2)
    assert first.origin.connection_id == "ID:c"
    assert first.key != second.key


def test_a_message_that_cannot_be_leaves_no_gap_in_the_numbers() -> None:
    writer = MessageWriter("ID:c")
    with pytest.raises(LocalProtocolError):
        writer.message(ORDERS, "x", timestamp=1, correlation_id="x" * 70_000)
    assert writer.message(ORDERS, "x", timestamp=1).producer_count == 1


def test_a_message_in_a_transaction_names_it() -> None:
    writer = MessageWriter("ID:c")
    transaction_id = writer.transaction_id(4)
    message = writer.message(ORDERS, "x", timestamp=1, transaction_id=transaction_id)
    assert message.origin.transaction == transaction_id
    assert writer.message(ORDERS, "x", timestamp=1).origin.transaction is None
