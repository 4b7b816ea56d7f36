"""Bodies of every kind: own and received, to and from the wire (A4, A5)."""

import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client.errors import (
    IllegalArgumentError,
    InvalidDestinationError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
)
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from_command,
    message_from_dispatch,
)
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.marshal import Codec, WireFormat
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, SHORT_BYTES, STREAM_VALUES, TEXT, structures

KINDS: Final = (Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage)
EVERY_TYPE: Final[list[Value]] = [
    True,
    Byte(-128),
    Short(-(2**15)),
    Char("é"),
    Int(-(2**31)),
    Long(2**63 - 1),
    Float(1.5),
    -0.125,
    "NUL \0, Deseret 𐐷, emoji 😀",
    b"\0\xff",
]
WRITES: Final[dict[str, Callable[[Any], None]]] = {
    "text": lambda message: setattr(message, "text", "x"),
    "object": lambda message: setattr(message, "data", b"x"),
    "map": lambda message: message.entries.set_int("x", 1),
    "map deletion": lambda message: message.entries.__delitem__("a"),
    "map clearing": lambda message: message.entries.clear(),
    "bytes": lambda message: message.write_int(1),
    "stream": lambda message: message.write_int(1),
}
BODIES: Final[dict[str, Callable[[], Message]]] = {
    "text": lambda: TextMessage("text"),
    "object": lambda: ObjectMessage(b"object"),
    "map": lambda: MapMessage({"a": 1}),
    "map deletion": lambda: MapMessage({"a": 1}),
    "map clearing": lambda: MapMessage({"a": 1}),
    "bytes": lambda: BytesMessage(b"bytes"),
    "stream": lambda: StreamMessage([1]),
}
CODEC: Final = Codec(WireFormat(size_prefix=False))

by_compression = pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])


def received(message: Message, *, use_compression: bool = False) -> Any:
    """*message* as it arrives at another client."""
    command = CODEC.decode(CODEC.encode(message.to_command(use_compression=use_compression)))
    assert isinstance(command, commands.Message)
    copy = message_from_command(command)
    assert type(copy) is type(message)
    return copy


# ---- round trips -----------------------------------------------------------------------------------------------


@by_compression
@effort(30)
@given(text=st.none() | TEXT)
def test_A4_any_text_arrives(compressed: bool, text: str | None) -> None:
    assert received(TextMessage(text), use_compression=compressed).text == text


@by_compression
@effort(30)
@given(data=SHORT_BYTES)
def test_A4_any_bytes_arrive(compressed: bool, data: bytes) -> None:
    assert received(BytesMessage(data), use_compression=compressed).data == data


@by_compression
@effort(30)
@given(data=st.none() | SHORT_BYTES)
def test_A4_any_object_arrives_as_opaque_bytes(compressed: bool, data: bytes | None) -> None:
    assert received(ObjectMessage(data), use_compression=compressed).data == data


@by_compression
@effort(30)
@given(entries=PROPERTY_MAPS.map(lambda entries: {name: value for name, value in entries.items() if name}))
def test_A4_any_map_arrives_with_its_types(compressed: bool, entries: dict[str, Value]) -> None:
    copy = received(MapMessage(entries), use_compression=compressed)
    assert dict(copy.entries) == entries
    assert types_of(copy.entries.values()) == types_of(entries.values())


@by_compression
@effort(30)
@given(values=STREAM_VALUES)
def test_A4_any_stream_arrives_with_its_types(compressed: bool, values: list[Value]) -> None:
    copy = received(StreamMessage(values), use_compression=compressed)
    assert copy.values == values
    assert types_of(copy.values) == types_of(values)


def types_of(values: Any) -> list[type]:
    return [type(value) for value in values]


NAMES: Final = st.from_regex(r"[A-Za-z_$é][A-Za-z0-9_$é]{3,8}", fullmatch=True)
PROPERTY_VALUES: Final = STREAM_VALUES.filter(bool).map(lambda values: "" if type(values[0]) is bytes else values[0])


@given(st.dictionaries(NAMES, PROPERTY_VALUES, max_size=4))
def test_A4_any_properties_arrive_with_their_types(values: dict[str, Value]) -> None:
    message = Message()
    for name, value in values.items():
        if name.upper() in ("NULL", "TRUE", "FALSE", "BETWEEN", "LIKE", "ESCAPE"):
            continue
        message.properties[name] = value
    copy = received(message)
    assert dict(copy.properties) == dict(message.properties)
    assert types_of(copy.properties.values()) == types_of(message.properties.values())


@effort(50)
@given(structures(commands.ActiveMQTextMessage, 0))
def test_any_received_message_can_be_sent_on_undecoded(command: commands.ActiveMQTextMessage) -> None:
    """Whatever the bytes are: headers, body and properties go out as they came."""
    again = message_from_command(command).to_command()
    for name in ("content", "marshalled_properties", "compressed", "correlation_id", "type", "group_id", "user_id"):
        assert getattr(again, name) == getattr(command, name)
    for name in ("destination", "reply_to", "message_id", "timestamp", "expiration", "group_sequence", "persistent"):
        assert getattr(again, name) == getattr(command, name)


def test_A5_every_header_arrives() -> None:
    message = TextMessage("body")
    producer = commands.ProducerId("ID:host-1-2", 3, 4)
    message.wire_id = commands.MessageId(producer_id=producer, producer_sequence_id=5)
    message.destination, message.reply_to = "queue://orders", "temp-topic://ID:host-1-2:1"
    message.correlation_id, message.type = "corrélation 😀", "événement"
    message.delivery_mode, message.priority = DeliveryMode.NON_PERSISTENT, 9
    message.timestamp, message.expiration = 1_700_000_000_000, 1_700_000_060_000
    message.group_id, message.group_sequence, message.delivery_count = "gröup", -1, 3
    copy = received(message)
    assert copy.message_id == message.message_id == "ID:host-1-2:4:3:5"
    for name in ("destination", "reply_to", "correlation_id", "type", "delivery_mode", "priority", "timestamp"):
        assert getattr(copy, name) == getattr(message, name)
    for name in ("expiration", "group_id", "group_sequence", "delivery_count", "redelivered"):
        assert getattr(copy, name) == getattr(message, name)
    assert message.to_command().producer_id == producer


def test_empty_bodies_have_no_content_and_are_not_called_compressed() -> None:
    for kind in KINDS:
        command = kind().to_command(use_compression=True)
        assert (command.content, command.compressed, command.marshalled_properties) == (None, False, None)
    assert received(TextMessage("")).text == ""


def test_command_does_not_change_with_the_message() -> None:
    message = BytesMessage(b"a")
    command = message.to_command()
    message.write_bytes(b"b")
    assert (command.content, message.to_command().content) == (b"a", b"ab")


# ---- received messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITES)
def test_A5_received_body_is_read_only_until_cleared(kind: str) -> None:
    message = received(BODIES[kind]())
    message.correlation_id = "headers can be set"
    content = message.to_command().content
    assert message.body_is_read_only
    with pytest.raises(MessageNotWriteableError):
        WRITES[kind](message)
    assert message.to_command().content == content
    message.clear_body()
    assert not message.body_is_read_only
    assert message.to_command().content is None
    if kind != "map deletion":
        WRITES[kind](message)


def test_A5_received_properties_are_read_only_until_cleared() -> None:
    message = Message()
    message.properties["a"] = 1
    copy = received(message)
    for name in ("a", "b", "JMSXGroupID"):
        with pytest.raises(MessageNotWriteableError):
            copy.properties[name] = "x"
    with pytest.raises(MessageNotWriteableError):
        del copy.properties["a"]
    with pytest.raises(MessageNotWriteableError):
        copy.properties.clear()
    assert dict(copy.properties) == {"a": 1}
    copy.clear_properties()
    copy.properties["b"] = 2
    assert dict(received(copy).properties) == {"b": 2}


def test_clearing_one_part_leaves_the_other_as_it_is() -> None:
    message = TextMessage("text")
    message.properties["a"] = 1
    first, second = received(message), received(message)
    first.clear_body()
    with pytest.raises(MessageNotWriteableError):
        first.properties["b"] = 2
    second.clear_properties()
    with pytest.raises(MessageNotWriteableError):
        second.text = "x"
    assert (dict(first.properties), second.text) == ({"a": 1}, "text")


def test_body_that_is_none_shows_when_looked_at_each_time() -> None:
    command = commands.ActiveMQTextMessage(content=b"\0\0\0\5abc", marshalled_properties=b"\0\0")
    message = message_from_command(command)
    assert isinstance(message, TextMessage)
    for _ in range(2):
        with pytest.raises(MessageFormatError, match="the body of the message cannot be read: a text body says"):
            _ = message.text
        with pytest.raises(MessageFormatError, match="the properties of the message cannot be read"):
            message.properties.get_int("a")
    message.clear_body()
    message.clear_properties()
    assert (message.text, dict(message.properties)) == (None, {})


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        (commands.ActiveMQTextMessage, lambda message: message.text),
        (commands.ActiveMQObjectMessage, lambda message: message.data),
        (commands.ActiveMQMapMessage, lambda message: len(message.entries)),
        (commands.ActiveMQStreamMessage, lambda message: message.read_object()),
        (commands.ActiveMQBytesMessage, lambda message: message.read_bytes()),
    ],
)
def test_compressed_body_inflates_to_the_limit_and_not_beyond(
    kind: type[commands.ActiveMQMessage], look: Callable[[Any], object]
) -> None:
    prefix = (1001).to_bytes(4) if kind is commands.ActiveMQBytesMessage else b""
    command = kind(content=prefix + zlib.compress(bytes(1001)), compressed=True)
    with pytest.raises(MessageFormatError, match=r"limit is 1000|over 1000 bytes"):
        look(message_from_command(command, WireLimits(inflated_bytes_max=1000)))


def test_plain_message_keeps_content_that_it_does_not_understand() -> None:
    info = commands.ConsumerInfo(prefetch_size=7)
    command = commands.ActiveMQMessage(content=b"what?", compressed=True, data_structure=info)
    message = message_from_command(command)
    assert type(message) is Message
    assert message.data_structure is info
    assert (message.to_command().content, message.to_command().compressed) == (b"what?", True)


def test_kind_that_is_unknown_is_a_plain_message() -> None:
    assert type(message_from_command(commands.ActiveMQBlobMessage(remote_blob_url="http://x/"))) is Message


def test_received_property_names_may_be_any() -> None:
    message = Message()
    message.properties["ok"] = 1
    command = message.to_command()
    assert command.marshalled_properties is not None
    command.marshalled_properties = command.marshalled_properties.replace(b"ok", b"a-")
    assert message_from_command(command).properties.get_int("a-") == 1


def test_priority_from_the_wire_is_brought_into_range() -> None:
    assert message_from_command(commands.ActiveMQMessage(priority=-3)).priority == 0
    assert message_from_command(commands.ActiveMQMessage(priority=100)).priority == 9


def test_bad_reply_to_shows_when_looked_at() -> None:
    message = message_from_command(commands.ActiveMQMessage(reply_to=commands.ActiveMQQueue(None)))
    with pytest.raises(InvalidDestinationError):
        _ = message.reply_to


@pytest.mark.parametrize(("counter", "count"), [(0, 1), (2, 3), (-1, 1), (2**31 - 1, 2**31)])
def test_dispatch_knows_how_often_it_was_delivered(counter: int, count: int) -> None:
    dispatch = commands.MessageDispatch(message=commands.ActiveMQTextMessage(), redelivery_counter=counter)
    message = message_from_dispatch(dispatch)
    assert message is not None
    assert (message.delivery_count, message.redelivered) == (count, count > 1)


def test_dispatch_without_a_message_has_none() -> None:
    assert message_from_dispatch(commands.MessageDispatch()) is None


# ---- bytes and streams: first written, then read ---------------------------------------------------------------


@pytest.mark.parametrize("message", [BytesMessage(b"abc"), StreamMessage(["abc"])], ids=["bytes", "stream"])
def test_A4_body_is_written_first_and_read_after_reset(message: Any) -> None:
    with pytest.raises(MessageNotReadableError):
        message.read_boolean()
    message.reset()
    assert message.read_boolean() in (True, False)
    with pytest.raises(MessageNotWriteableError):
        message.write_boolean(True)
    message.clear_body()
    message.write_boolean(True)
    with pytest.raises(MessageNotReadableError):
        message.read_boolean()
    message.reset()
    assert message.read_boolean()
    with pytest.raises(MessageEOFError):
        message.read_boolean()
    message.reset()
    assert message.read_boolean()


def test_whole_body_is_readable_only_after_reset() -> None:
    for look in (lambda: BytesMessage().data, lambda: BytesMessage().body_length, lambda: StreamMessage().values):
        with pytest.raises(MessageNotReadableError):
            look()


def test_A4_bytes_are_written_and_read_as_java_does() -> None:
    message = BytesMessage()
    for value in EVERY_TYPE:
        message.write_object(value)
    copy = received(message, use_compression=True)
    reads = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "utf", "bytes")
    assert [getattr(copy, f"read_{kind}")() for kind in reads] == EVERY_TYPE
    assert copy.read_bytes() == b""
    assert copy.body_length == len(copy.data)


def test_bytes_are_read_unsigned_too_and_in_pieces() -> None:
    message = received(BytesMessage(b"\xff\xff\xffabc"))
    assert (message.read_unsigned_byte(), message.read_unsigned_short()) == (255, 65535)
    assert (message.read_bytes(2), message.read_bytes(2), message.read_bytes(2)) == (b"ab", b"c", b"")


@pytest.mark.parametrize("kind", ["byte", "unsigned_byte", "short", "char", "int", "long", "float", "double", "utf"])
def test_end_of_bytes_is_an_error_that_moves_nothing(kind: str) -> None:
    data = b"" if "byte" in kind else b"\0" if kind in ("short", "char") else b"\0\2x"
    message = received(BytesMessage(data))
    with pytest.raises(MessageEOFError):
        getattr(message, f"read_{kind}")()
    assert message.read_bytes() == data


def test_bytes_that_are_no_text_are_still_there() -> None:
    message = received(BytesMessage(b"\0\1\xff"))
    with pytest.raises(MessageFormatError, match="not modified UTF-8"):
        message.read_utf()
    assert message.read_bytes() == b"\0\1\xff"


def test_bytes_message_refuses_what_it_cannot_hold() -> None:
    nothing: Any = None
    for write in (BytesMessage().write_object, BytesMessage().write_bytes, BytesMessage):
        with pytest.raises(IllegalArgumentError, match="null"):
            write(nothing)
    for refused in ({"a": 1}, [1]):
        with pytest.raises(MessageFormatError):
            BytesMessage().write_object(refused)
    with pytest.raises(MessageFormatError, match="65536 encoded bytes"):
        BytesMessage().write_utf("x" * 65_536)
    number: Any = 5
    with pytest.raises(MessageFormatError):
        BytesMessage(number)
    with pytest.raises(MessageFormatError):
        BytesMessage().write_utf(number)


def test_stream_message_reads_every_type_in_order() -> None:
    message = received(StreamMessage([*EVERY_TYPE, None]))
    reads = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes", "object")
    assert [getattr(message, f"read_{kind}")() for kind in reads] == [*EVERY_TYPE, None]


@pytest.mark.parametrize("kind", [TextMessage, ObjectMessage])
def test_body_of_another_type_is_refused(kind: Any) -> None:
    with pytest.raises(MessageFormatError):
        kind(5)


def test_map_entries_need_names_and_names_that_fit() -> None:
    with pytest.raises(IllegalArgumentError, match="needs a name"):
        MapMessage({"": 1})
    with pytest.raises(MessageFormatError, match="over the wire's limit"):
        MapMessage({"x" * 65_536: 1}).to_command()


def test_deepest_nesting_that_can_be_written_can_be_read() -> None:
    value: list[Value] = []
    for _ in range(30):
        value = [value]
    message = MapMessage({"x": value})
    message.properties["x"] = value
    copy = received(message)
    assert copy.entries["x"] == copy.properties["x"] == value
    for entries in (message.entries, message.properties):
        with pytest.raises(MessageFormatError, match="nest deeper than 32 levels"):
            entries["x"] = [value]


def test_mappings_of_a_message_cannot_be_swapped_for_others() -> None:
    message: Any = MapMessage()
    for name in ("properties", "entries"):
        with pytest.raises(AttributeError):
            setattr(message, name, {"a": 1})


def test_repr_shows_no_body() -> None:
    message = TextMessage("secret")
    message.destination = "orders"
    assert repr(message) == "<TextMessage not sent to queue://orders>"
