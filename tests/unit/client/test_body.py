"""`Message.body`: the body as Python has it, for every kind, own and received."""

from typing import Any

import pytest

from ackwire.client.messages import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from_command,
)

KINDS: list[tuple[Message, Any]] = [
    (Message(), None),
    (TextMessage("text"), "text"),
    (TextMessage(), None),
    (BytesMessage(b"data"), b"data"),
    (MapMessage({"a": 1, "b": "two"}), {"a": 1, "b": "two"}),
    (StreamMessage([1, "two", b"three"]), [1, "two", b"three"]),
    (ObjectMessage(b"serialised"), b"serialised"),
]


@pytest.mark.parametrize(("message", "body"), KINDS, ids=[type(message).__name__ for message, _ in KINDS])
def test_A4_every_kind_has_a_body(message: Message, body: Any) -> None:
    assert message.body == body
    assert message_from_command(message.to_command()).body == body
