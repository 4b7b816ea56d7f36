"""A message as a JSON line, and back: a pipe copies a queue with types and headers."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.cli.message_json import BadMessage, from_json_line, map_from_json, plain_body, to_json_line
from ackwire.client.errors import MessageFormatError
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from_command,
)
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire import commands
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, SHORT_BYTES, STREAM_VALUES, TEXT

EVERY_TYPE: dict[str, Value] = {
    "boolean": True,
    "byte": Byte(-128),
    "short": Short(7),
    "int": Int(7),
    "long": Long(7),
    "float": Float(1.5),
    "double": 0.1,
    "char": Char("é"),
    "string": "NUL \0, half \ud800, emoji 😀",
    "map": {"int": Int(1), "list": [Byte(2), None]},
    "list": [Short(1), {"n": None}],
    "null": None,
    "infinity": float("-inf"),
}


def received(message: Message) -> Message:
    """*message* as a receiver sees it."""
    return message_from_command(message.to_command())


def copied(message: Message) -> Message:
    return received(from_json_line(to_json_line(message)).message)


MESSAGES = st.one_of(
    st.builds(Message),
    st.builds(TextMessage, st.none() | TEXT),
    st.builds(BytesMessage, SHORT_BYTES),
    st.builds(ObjectMessage, st.none() | SHORT_BYTES),
    st.builds(StreamMessage, STREAM_VALUES),
)


@given(MESSAGES, PROPERTY_MAPS)
def test_a_copy_has_the_same_kind_body_and_typed_properties(message: Message, properties: dict[str, Value]) -> None:
    message.properties.receive(lambda: properties)
    original = received(message)
    copy = copied(original)
    assert type(copy) is type(original)
    for line, copied_line in zip(_parts(original), _parts(copy), strict=True):
        assert line == copied_line


def _parts(message: Message) -> list[str]:
    row = json.loads(to_json_line(message))
    del row["headers"]
    return [json.dumps(item) for item in row.items()]


def test_every_type_survives_in_a_map_and_in_properties() -> None:
    message = MapMessage({**EVERY_TYPE, "bytes": b"\0\xff"})
    message.properties.receive(lambda: EVERY_TYPE)
    copy = copied(received(message))
    assert isinstance(copy, MapMessage)
    for name, value in EVERY_TYPE.items():
        for found in (copy.entries[name], copy.properties[name]):
            assert (type(found), found) == (type(value), value), name
    assert copy.entries["bytes"] == b"\0\xff"


def test_the_headers_of_the_sender_survive_and_those_of_the_broker_are_only_shown() -> None:
    message = TextMessage("x")
    message.correlation_id, message.type, message.group_id, message.group_sequence = "c", "t", "g", 3
    message.reply_to = "topic://answers"
    message.destination = "queue://orders"
    message.message_id = "ID:a-1:1:1:1:1"
    message.priority = 7
    message.expiration = 4_000_000_000_000
    message.delivery_mode = DeliveryMode.NON_PERSISTENT
    message.delivery_count = 3
    line = to_json_line(received(message))
    shown = json.loads(line)["headers"]
    assert shown["message_id"] == "ID:a-1:1:1:1:1"
    assert (shown["destination"], shown["redelivered"], shown["delivery_count"]) == ("queue://orders", True, 3)
    outgoing = from_json_line(line)
    assert (outgoing.priority, outgoing.persistent, outgoing.expiration_ms) == (7, False, 4_000_000_000_000)
    copy = outgoing.message
    assert (copy.correlation_id, copy.type, copy.group_id, copy.group_sequence) == ("c", "t", "g", 3)
    assert repr(copy.reply_to) == "topic://answers"
    assert (copy.message_id, copy.destination, copy.redelivered) == (None, None, False)


def test_plain_values_get_the_obvious_types() -> None:
    outgoing = from_json_line('{"body": "hi", "properties": {"i": 7, "l": 3000000000, "d": 7.5, "b": true, "s": "x"}}')
    properties = outgoing.message.properties
    assert isinstance(outgoing.message, TextMessage)
    assert [type(properties[name]) for name in "ildbs"] == [Int, Long, float, bool, str]


@pytest.mark.parametrize(
    ("body", "kind"), [("null", Message), ('"x"', TextMessage), ('{"a": 1}', MapMessage), ("[1, 2]", StreamMessage)]
)
def test_body_is_whatever_json_has_for_it(body: str, kind: type[Message]) -> None:
    assert type(from_json_line(f'{{"body": {body}}}').message) is kind


def test_names_that_selectors_cannot_name_are_copied() -> None:
    message = TextMessage("x")
    message.properties.receive(lambda: {"content-type": "text/plain"})
    assert copied(received(message)).properties["content-type"] == "text/plain"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("7", "a message is a JSON object"),
        ("{}", "one of text, bytes"),
        ('{"text": "a", "map": {}}', "text and map are there"),
        ('{"txet": "a"}', "unknown field 'txet'; did you mean \"text\"?"),
        ('{"text": 7}', "cannot be written as String"),
        ('{"bytes": "%"}', "is not base64"),
        ('{"bytes": 7}', "base64"),
        ('{"map": []}', "map must be a JSON object"),
        ('{"stream": {}}', "stream must be a list"),
        ('{"stream": [[1]]}', "no maps and no lists"),
        ('{"text": "a", "headers": 7}', "headers must be a JSON object"),
        ('{"text": "a", "headers": {"corelation_id": "x"}}', 'did you mean "correlation_id"?'),
        ('{"text": "a", "headers": {"type": 7}}', "type is text"),
        ('{"text": "a", "headers": {"priority": 10}}', "from 0 to 9"),
        ('{"text": "a", "headers": {"priority": true}}', "whole number"),
        ('{"text": "a", "headers": {"persistent": 1}}', "true or false"),
        ('{"text": "a", "properties": {"n": {"int": 3000000000}}}', "does not fit into int"),
        ('{"text": "a", "properties": {"n": {"short": "7"}}}', "cannot be written as short"),
        ('{"text": "a", "properties": {"n": {"map": 7}}}', "must be a JSON object"),
        ('{"text": "a", "properties": {"n": 99999999999999999999}}', "does not fit into long"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(line: str, said: str) -> None:
    with pytest.raises(BadMessage) as refused:
        from_json_line(line)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 300


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["text", "map", "headers", "int", "list"]), inner),
)


@given(ANY_JSON)
@effort(50)
def test_any_json_is_a_message_or_refused(value: Any) -> None:
    with contextlib.suppress(BadMessage):
        from_json_line(json.dumps(value))


def test_a_map_body_is_an_object_and_nothing_else() -> None:
    assert dict(map_from_json('{"a": {"short": 7}, "b": {"x": 1, "y": 2}}').entries) == {"a": 7, "b": {"x": 1, "y": 2}}
    with pytest.raises(BadMessage, match="JSON object"):
        map_from_json("[]")


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (TextMessage("zwölf\n"), "zwölf\n".encode()),
        (TextMessage(None), b""),
        (BytesMessage(b"\0\xff"), b"\0\xff"),
        (MapMessage({"n": Short(7), "b": b"\0"}), b'{"n": 7, "b": "AA=="}'),
        (StreamMessage([1, "ü"]), '[1, "ü"]'.encode()),
        (ObjectMessage(b"\xac\xed"), b"\xac\xed"),
        (Message(), b""),
    ],
)
def test_the_plain_body_is_what_people_expect(message: Message, body: bytes) -> None:
    assert plain_body(received(message)) == body


def test_a_body_that_is_none_raises_when_written() -> None:
    broken = message_from_command(commands.ActiveMQTextMessage(content=b"\0\0\0\x09x"))
    with pytest.raises(MessageFormatError):
        to_json_line(broken)
