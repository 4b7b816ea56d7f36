"""JSON as the body of a message."""

import pytest

import ackwire
from ackwire.client.sending import json_message

DEEP = 100_000


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True]}, [], "text", 17, None, {"名": "值"}])
def test_what_is_sent_as_json_is_read_back(value: object) -> None:
    assert json_message(value).json() == value


def test_bytes_that_are_json_can_be_read_too() -> None:
    message = ackwire.BytesMessage(b'{"a": 1}')
    message.reset()
    assert message.json() == {"a": 1}


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, {"a": b"bytes"}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ackwire.MessageFormatError, match="cannot be written as JSON"):
        json_message(value)


@pytest.mark.parametrize("text", ["", "{", "[" * DEEP, "two apples"])
def test_text_that_is_not_json_is_an_error_of_the_message(text: str) -> None:
    with pytest.raises(ackwire.MessageFormatError, match="is not JSON"):
        ackwire.TextMessage(text).json()


@pytest.mark.parametrize("message", [ackwire.Message(), ackwire.MapMessage({"a": 1}), ackwire.TextMessage(None)])
def test_a_body_without_text_or_bytes_is_no_json(message: ackwire.Message) -> None:
    with pytest.raises(ackwire.MessageFormatError, match="could be JSON"):
        message.json()
