"""What a buffered producer keeps: entries in memory, and messages as bytes."""

import pytest

from ackwire.client import BytesMessage, DeliveryMode, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from ackwire.client.buffers import (
    ENTRY_BYTES,
    BufferFull,
    MemoryBuffer,
    Sending,
    message_from_bytes,
    message_to_bytes,
)
from ackwire.client.errors import MessageFormatError
from ackwire.client.retry import BackOff
from ackwire.client.sending import message_of, set_headers
from ackwire.jms.destinations import Kind, destination, parse_destination

ORDERS = Sending(destination(Kind.QUEUE, "orders"), DeliveryMode.PERSISTENT, 4, 0)


def test_memory_entries_leave_in_order_and_give_their_room_back() -> None:
    buffer = MemoryBuffer(bytes_max=2 * ENTRY_BYTES + 6)
    buffer.append(b"one", 7)
    buffer.append(b"two", 8)
    with pytest.raises(BufferFull):
        buffer.append(b"", 9)
    assert (buffer.count, buffer.size_bytes, buffer.oldest_ms) == (2, 2 * ENTRY_BYTES + 6, 7)
    buffer.remove([0, 0])
    assert [(entry.sequence, entry.data) for entry in buffer.first(9, 99)] == [(1, b"two")]
    buffer.append(b"new", 9)
    assert [entry.data for entry in buffer.first(1, 99)] == [b"two"]
    assert [entry.data for entry in buffer.first(9, 3)] == [b"two"]
    buffer.remove([1, 2])
    assert (buffer.count, buffer.size_bytes, buffer.oldest_ms) == (0, 0, None)


def test_M2_every_kind_of_message_is_kept_as_it_was() -> None:
    bodies = [Message(), TextMessage("täxt"), TextMessage(), BytesMessage(b"\0\1"), ObjectMessage(b"java")]
    bodies += [MapMessage({"a": 1, "b": "two"}), StreamMessage([1, "two", b"3"])]
    for message in bodies:
        message.correlation_id, message.type, message.group_id = "c", "t", "g"
        message.properties["price"] = 2.5
        message.reply_to = parse_destination("topic://answers")
        kept, sending = message_from_bytes(message_to_bytes(message, ORDERS))
        assert type(kept) is type(message)
        assert sending == ORDERS
        assert (kept.correlation_id, kept.type, kept.group_id) == ("c", "t", "g")
        assert kept.properties["price"] == 2.5
        assert kept.reply_to == parse_destination("topic://answers")
        assert kept.to_command().content == message.to_command().content


def test_M2_a_message_can_be_changed_after_it_was_handed_over() -> None:
    message = TextMessage("before")
    data = message_to_bytes(message, ORDERS)
    message.text = "after"
    kept, _ = message_from_bytes(data)
    assert isinstance(kept, TextMessage)
    assert kept.text == "before"


def test_delivery_mode_priority_and_expiration_are_kept() -> None:
    sending = Sending(destination(Kind.TOPIC, "prices"), DeliveryMode.NON_PERSISTENT, 9, 12345)
    assert message_from_bytes(message_to_bytes(TextMessage("x"), sending))[1] == sending


def test_time_in_the_buffer_counts_and_what_has_expired_is_left_to_the_broker() -> None:
    sending = Sending(ORDERS.destination, DeliveryMode.PERSISTENT, 4, 1000)
    assert [sending.time_to_live_ms(now) for now in (400, 999, 1000, 5000)] == [600, 1, 1, 1]
    assert ORDERS.time_to_live_ms(5000) == 0


def test_bodies_become_messages() -> None:
    made = [message_of(body) for body in ("text", b"bytes", {"a": 1}, None)]
    assert [type(message) for message in made] == [TextMessage, BytesMessage, MapMessage, Message]
    assert message_of(made[0]) is made[0]
    with pytest.raises(MessageFormatError, match="not int"):
        message_of(5)  # type: ignore[arg-type]


def test_headers_are_set_by_name() -> None:
    message = TextMessage()
    set_headers(message, {"correlation_id": "c", "properties": {"a": 1}})
    assert (message.correlation_id, message.properties["a"]) == ("c", 1)
    with pytest.raises(TypeError, match="no header is named 'colour'"):
        set_headers(message, {"colour": "red"})


def test_what_is_no_message_is_said_to_be_none() -> None:
    for data in (b"", b"\xff" * 20, message_to_bytes(TextMessage("x"), ORDERS)[:-3]):
        with pytest.raises(MessageFormatError, match="what was kept is"):
            message_from_bytes(data)


def test_pauses_double_up_to_a_limit_until_something_works() -> None:
    back_off = BackOff(1, 5)
    assert [back_off.next_seconds() for _ in range(5)] == [1, 2, 4, 5, 5]
    back_off.reset()
    assert back_off.next_seconds() == 1
