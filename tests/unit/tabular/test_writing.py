"""Rows become the messages that a producer would have sent and the broker stamped, or an error that names the row."""

from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client.message import Message as ClientMessage
from ackwire.client.messages import BytesMessage, DeliveryMode, MapMessage, TextMessage, message_from_command
from ackwire.jms.destinations import Destination, parse_destination
from ackwire.jms.message import Message, Origin
from ackwire.jms.types import Byte, Float, Int, Long, Short, Value
from ackwire.tabular.reading import rows_to_batch
from ackwire.tabular.writing import BadRow, batch_to_messages
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import FastDecoder, stamp
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.compilation import attributes_of
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import PLAIN

NOW_MS: Final = 1_763_172_000_123
FIRST: Final = 1000
ORDERS: Final = parse_destination("queue://orders")
MAP: Final = pa.map_(pa.string(), pa.string())


def written(
    columns: dict[str, Any],
    *,
    producer: str = "spark-1",
    default: Destination | None = ORDERS,
    limits: WireLimits = DEFAULT_LIMITS,
) -> list[Message]:
    arrays = {name: array if isinstance(array, pa.Array) else pa.array(array) for name, array in columns.items()}
    return batch_to_messages(
        pa.RecordBatch.from_pydict(arrays),
        producer=producer,
        default_destination=default,
        first_sequence=FIRST,
        now_ms=NOW_MS,
        limits=limits,
    )


def received(message: Message) -> ClientMessage:
    """What a client makes of it."""
    command = PLAIN.decode(message.frame)
    assert isinstance(command, commands.Message)
    return message_from_command(command)


def first(columns: dict[str, Any]) -> ClientMessage:
    return received(written(columns)[0])


def properties(values: list[dict[str, str | None] | None]) -> Any:
    return pa.array([None if value is None else list(value.items()) for value in values], MAP)


# ---- like one that came over the wire --------------------------------------------------------------------------


def slots_of(message: Message) -> dict[str, Any]:
    slots = {name: getattr(message, name) for name in attributes_of(Message) if name != "origin"}
    return slots | {f"origin.{name}": getattr(message.origin, name) for name in attributes_of(Origin)}


def assert_like_received(message: Message, sequence: int) -> None:
    """Send it once more: strip its stamps, decode it as the broker does, stamp it."""
    command = PLAIN.decode(message.frame)
    assert isinstance(command, commands.Message)
    assert command.message_id is not None
    command.message_id = commands.MessageId(None, command.producer_id, command.message_id.producer_sequence_id)
    command.broker_in_time = 0
    sent = FastDecoder().message(PLAIN.encode(command)[4:])
    stamp(sent, sequence, NOW_MS)
    assert slots_of(message) == slots_of(sent)
    assert slots_of(OpenWireStoredForm().message(message.frame)) == slots_of(message)


EVERYTHING: Final[dict[str, Any]] = {
    "destination": ["orders", "topic://news", None, "queue://orders"],
    "text": ["a", None, None, "ä\0\U0001f600"],
    "bytes": pa.array([None, b"b", None, None], pa.binary()),
    "map": pa.array([None, None, [("k", "v"), ("n", None)], None], MAP),
    "correlation_id": ["c", None, "c\0", "c"],
    "reply_to": ["temp-queue://ID:x", None, "answers", None],
    "type": ["t", None, None, "t"],
    "priority": pa.array([9, None, 0, 9], pa.int32()),
    "time_to_live_ms": [1000, None, 0, 1000],
    "group_id": ["g", None, None, "g"],
    "group_sequence": pa.array([3, None, None, -1], pa.int32()),
    "properties": properties([{"a": "1"}, None, {}, {"b": "ü" * 9000, "c": None}]),
    "property:n": pa.array([1, 2, None, 4], pa.int64()),
}


def test_messages_are_those_that_the_broker_decodes_and_stamps() -> None:
    messages = written(EVERYTHING)
    assert [message.sequence for message in messages] == [1000, 1001, 1002, 1003]
    for message in messages:
        assert_like_received(message, message.sequence)


OPTIONAL_TEXT: Final = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 4))

    def column(values: st.SearchStrategy[Any], type_: Any) -> Any:
        return pa.array(draw(st.lists(values, min_size=count, max_size=count)), type_)

    columns = {
        draw(st.sampled_from(["text", "value"])): column(OPTIONAL_TEXT, pa.string()),
        "correlation_id": column(OPTIONAL_TEXT, pa.string()),
        "type": column(OPTIONAL_TEXT, pa.string()),
        "group_id": column(OPTIONAL_TEXT, pa.string()),
        "priority": column(st.none() | st.integers(0, 9), pa.int8()),
        "group_sequence": column(st.none() | st.integers(-(2**31), 2**31 - 1), pa.int64()),
        "destination": column(st.sampled_from([None, "a", "topic://b", "ü"]), pa.string()),
        "properties": column(st.none() | st.just([]) | st.just([("x", "1"), ("y", "ä")]), MAP),
        "property:s": column(OPTIONAL_TEXT, pa.string()),
        "property:d": column(st.none() | st.floats(allow_nan=False), pa.float64()),
    }
    kept = draw(st.sets(st.sampled_from(sorted(columns)), min_size=1))
    return {name: values for name, values in columns.items() if name in kept}


@effort(100)
@given(tables())
def test_generated_rows_come_back_as_they_were_written(columns: dict[str, Any]) -> None:
    messages = written(columns)
    for message in messages:
        assert_like_received(message, message.sequence)
    rows = rows_to_batch([(message.sequence, message.frame, 0) for message in messages])
    for name in ("correlation_id", "type", "group_id"):
        if name in columns:
            assert rows.column(name).to_pylist() == columns[name].to_pylist()
    for name in {"text", "value"} & set(columns):
        assert rows.column("text").to_pylist() == columns[name].to_pylist()


# ---- bodies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "plain", "ä€", "a\0b", "\U0001f600", "\U000fffff\U0010ffff", "x" * 70_000])
def test_text_reaches_the_client(text: str) -> None:
    for name in ("text", "value"):
        message = first({name: [text]})
        assert isinstance(message, TextMessage)
        assert message.text == text


@pytest.mark.parametrize("data", [b"", b"\0\xff", b"x" * 70_000])
def test_bytes_reach_the_client(data: bytes) -> None:
    for name in ("bytes", "value"):
        message = first({name: [data]})
        assert isinstance(message, BytesMessage)
        assert message.data == data


def test_maps_reach_the_client() -> None:
    messages = written({"map": pa.array([[("a", "1"), ("b", None)], [], None], MAP)})
    bodies = [received(message).body for message in messages]
    assert bodies == [{"a": "1", "b": None}, {}, None]
    assert [isinstance(received(message), MapMessage) for message in messages] == [True, True, False]


def test_a_row_without_body_is_a_message_without_body() -> None:
    for columns in ({"text": pa.array([None], pa.string())}, {"priority": [4]}, {"text": pa.nulls(1)}):
        assert type(first(columns)) is ClientMessage


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_every_form_of_strings_is_taken(type_: Any) -> None:
    values = pa.array(["a", None, "b"]).cast(type_)
    for name in ("text", "correlation_id"):
        messages = [received(message) for message in written({name: values})]
        found = [message.body if name == "text" else message.correlation_id for message in messages]
        assert found == ["a", None, "b"]


def test_a_slice_of_a_batch_is_its_own_rows() -> None:
    whole = pa.RecordBatch.from_pydict(
        {
            "text": ["a", "b", "c"],
            "properties": properties([{"n": "1"}, {"n": "2", "m": "0"}, {"n": "3"}]),
            "property:x": [1, 2, 3],
        }
    )
    messages = batch_to_messages(
        whole.slice(1, 2), producer="p", default_destination=ORDERS, first_sequence=1, now_ms=NOW_MS
    )
    found = [(received(message).body, dict(received(message).properties)) for message in messages]
    assert found == [("b", {"n": "2", "m": "0", "x": 2}), ("c", {"n": "3", "x": 3})]


# ---- headers ---------------------------------------------------------------------------------------------------


def test_headers_reach_the_client() -> None:
    message = first(EVERYTHING)
    assert message.message_id == "ID:spark-1:1:1:1000"
    assert (message.correlation_id, message.type, message.priority) == ("c", "t", 9)
    assert (message.group_id, message.group_sequence) == ("g", 3)
    assert message.reply_to == parse_destination("temp-queue://ID:x")
    assert (message.timestamp, message.expiration) == (NOW_MS, NOW_MS + 1000)
    assert message.delivery_mode is DeliveryMode.PERSISTENT


def test_what_a_row_does_not_say_is_what_a_producer_does_not_say() -> None:
    message = first({"text": ["x"]})
    assert (message.priority, message.expiration, message.group_id, message.correlation_id) == (4, 0, None, None)
    assert not message.properties


def test_destination_of_a_row_goes_before_the_default() -> None:
    messages = written({"destination": ["a", None, "topic://b"], "text": ["x"] * 3})
    assert [repr(message.destination) for message in messages] == ["queue://a", "queue://orders", "topic://b"]


@pytest.mark.parametrize("type_", [pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in ("UTC", None)])
def test_expiration_is_a_moment_in_milliseconds(type_: Any) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    values = pa.array([moment, None]).cast(pa.timestamp("us", type_.tz)).cast(type_)
    expirations = [message.expiration for message in written({"text": ["x", "x"], "expiration": values})]
    assert expirations == [int(moment.timestamp()) * 1000, 0]


def test_a_time_in_the_past_is_an_expired_message() -> None:
    past = pa.array([datetime(1970, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)])
    assert [message.expiration for message in written({"text": ["x"] * 2, "expiration": past})] == [1, 1]


# ---- properties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -5, Byte(-5)),
        (pa.int16(), 300, Short(300)),
        (pa.int32(), 7, Int(7)),
        (pa.int64(), 7, Long(7)),
        (pa.float32(), 0.5, Float(0.5)),
        (pa.float64(), 0.1, 0.1),
        (pa.string(), "ä", "ä"),
        (pa.string(), "ä" * 9000, "ä" * 9000),
    ],
    ids=str,
)
def test_a_column_of_a_property_has_the_type_of_its_values(type_: Any, value: Value, expected: Value) -> None:
    messages = written({"text": ["x", "y"], "property:p": pa.array([value, None], type_)})
    found = dict(received(messages[0]).properties)
    assert found == {"p": expected}
    assert type(found["p"]) is type(expected)
    assert not received(messages[1]).properties


def test_properties_of_a_map_are_strings() -> None:
    message = first({"text": ["x"], "properties": properties([{"a": "1", "ü": "ä\0", "n": None}])})
    assert dict(message.properties) == {"a": "1", "ü": "ä\0", "n": None}


def test_delays_have_the_type_that_the_broker_looks_for() -> None:
    delays: dict[str, str | None] = {"AMQ_SCHEDULED_DELAY": "5000", "AMQ_SCHEDULED_REPEAT": "2"}
    message = first({"text": ["x"], "properties": properties([delays])})
    assert dict(message.properties) == {"AMQ_SCHEDULED_DELAY": 5000, "AMQ_SCHEDULED_REPEAT": 2}
    assert [type(value) for value in dict(message.properties).values()] == [Long, Int]
    message = first({"text": ["x"], "property:AMQ_SCHEDULED_DELAY": pa.array([5], pa.int32())})
    assert type(message.properties["AMQ_SCHEDULED_DELAY"]) is Long


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"text": ["a", "b"], "bytes": [None, b"b"]}, "row 2: a message has one body, and text and bytes are given"),
        ({"priority": [4, 10]}, "row 2, column priority: 10 is not in 0 to 9"),
        ({"group_sequence": [1, 2**31]}, "row 2, column group_sequence: 2147483648 is not in"),
        ({"time_to_live_ms": [1, -1]}, "row 2, column time_to_live_ms: -1 is not in"),
        (
            {"time_to_live_ms": [None, 1], "expiration": [datetime(2030, 1, 1, tzinfo=UTC)] * 2},
            "row 2, column time_to_live_ms: expiration is given, too",
        ),
        ({"destination": ["a", "b.*"]}, "row 2, column destination: queue://b.* is a pattern"),
        ({"destination": ["a", "b.>"]}, "row 2, column destination: queue://b.> is a pattern"),
        ({"destination": ["a", "b,c"]}, "row 2, column destination: queue://b,c stands for several"),
        ({"destination": ["a", "temp-queue://x"]}, "row 2, column destination: temp-queue://x is temporary"),
        ({"destination": ["a", ""]}, "row 2, column destination: a queue needs a name"),
        ({"reply_to": ["a", "x" * 5000]}, "row 2, column reply_to: queue name of 5000 characters is too long"),
        ({"correlation_id": ["a", "ä" * 40_000]}, "row 2, column correlation_id: a text of 40000 characters is over"),
        ({"map": pa.array([[], [("", "x")]], MAP)}, "row 2, column map: an entry of a map has a name"),
        ({"map": pa.array([[], [("a", "x"), ("a", "y")]], MAP)}, "row 2, column map: an entry of a map"),
        ({"map": pa.array([[], [("ä" * 40_000, "x")]], MAP)}, "row 2, column map: a string of 80000 encoded bytes"),
        ({"properties": properties([{}, {"a b": "x"}])}, "row 2, column properties: 'a b' cannot name a property"),
        ({"properties": properties([{}, {"": "x"}])}, "row 2, column properties: a property needs a name"),
        ({"properties": properties([{}, {"JMSType": "x"}])}, "row 2, column properties: JMSType is a header"),
        ({"properties": properties([{}, {"JMSXGroupID": "x"}])}, "row 2, column properties: JMSXGroupID has a column"),
        ({"properties": properties([{}, {"JMSXUserID": "x"}])}, "row 2, column properties: JMSXUserID is the broker's"),
        (
            {"properties": properties([{}, {"AMQ_SCHEDULED_DELAY": "soon"}])},
            "row 2, column properties: AMQ_SCHEDULED_DELAY: ",
        ),
        (
            {"properties": properties([{}, {"a": "x"}]), "property:a": [1, None]},
            "row 2, column properties: a property is given twice",
        ),
        (
            {"properties": pa.array([[], [("a", "x"), ("a", "y")]], MAP)},
            "row 2, column properties: a property is given twice",
        ),
        ({"property:AMQ_SCHEDULED_DELAY": ["1", "soon"]}, "row 2, column property:AMQ_SCHEDULED_DELAY: "),
        ({"property:a b": [1, 2]}, "column property:a b: 'a b' cannot name a property"),
        ({"property:": [1, 2]}, "column property:: a property needs a name"),
        ({"property:a": pa.array([1, 2], pa.uint8())}, "column property:a: it has the type uint8, and should be bool"),
        ({"text": [1, 2]}, "column text: it has the type int64, and should be string"),
        ({"bytes": ["a", "b"]}, "column bytes: it has the type string, and should be binary"),
        ({"value": [1.5, 2.5]}, "column value: it has the type double, and should be string or binary"),
        ({"map": ["a", "b"]}, "column map: it has the type string, and should be map<string,string>"),
        ({"priority": ["4", "5"]}, "column priority: it has the type string, and should be an integer"),
        ({"expiration": [1, 2]}, "column expiration: it has the type int64, and should be a timestamp"),
        ({"expiration": pa.array([1, 2**62], pa.timestamp("s"))}, "column expiration: "),
        ({"type": [1, 2]}, "column type: it has the type int64, and should be string"),
        ({"body": ["a", "b"]}, "column body: it is unknown: rows may have destination, text, bytes, map, value, "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_that_cannot_be_a_message_is_named(columns: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadRow) as caught:
        written(columns)
    assert str(caught.value).startswith(complaint)


def test_a_row_without_destination_is_named() -> None:
    with pytest.raises(BadRow, match="row 2, column destination: it is null, and there is no default"):
        written({"destination": ["a", None], "text": ["x", "y"]}, default=None)


def test_the_default_destination_is_checked_too() -> None:
    with pytest.raises(BadRow, match="is a pattern"):
        written({"text": ["x"]}, default=parse_destination("a.>"))


@pytest.mark.parametrize("producer", ["", "x" * 256])
def test_a_producer_has_a_name_of_bounded_length(producer: str) -> None:
    with pytest.raises(BadRow, match="producer's name has 1 to 255 characters"):
        written({"text": ["x"]}, producer=producer)


def test_a_frame_over_the_limit_is_refused() -> None:
    size = len(written({"text": ["x" * 1000]})[0].frame)
    assert written({"text": ["x" * 1000]}, limits=WireLimits(frame_bytes_max=size))
    with pytest.raises(BadRow, match=f"row 2: the message makes a frame of {size + 1} bytes, and the limit is {size}"):
        written({"text": ["x", "x" * 1001]}, limits=WireLimits(frame_bytes_max=size))


def test_more_properties_than_the_limit_are_refused() -> None:
    columns = {"properties": properties([{"a": "1"}, {"a": "1", "b": "2"}]), "property:c": [1, 2]}
    assert len(written(columns, limits=WireLimits(entries_max=3))) == 2
    with pytest.raises(BadRow, match="row 2, column properties: a message of 3 properties: the limit is 2"):
        written(columns, limits=WireLimits(entries_max=2))


def test_damaged_rows_are_refused_before_they_are_read() -> None:
    beyond_the_end = pa.py_buffer(b"".join(offset.to_bytes(4, "little") for offset in (0, 65_535, 3)))
    sound = pa.py_buffer(b"".join(offset.to_bytes(4, "little") for offset in (0, 1, 3)))
    for offsets, data in ((beyond_the_end, b"abc"), (sound, b"a\xff\xff")):
        damaged = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(data)])
        with pytest.raises(BadRow, match="the rows are damaged"):
            written({"text": damaged})


def test_a_column_that_is_there_twice_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    with pytest.raises(BadRow, match="column text: it is there twice"):
        batch_to_messages(batch, producer="p", default_destination=ORDERS, first_sequence=1, now_ms=NOW_MS)


def test_no_rows_are_no_messages() -> None:
    assert written({"text": pa.array([], pa.string()), "properties": pa.array([], MAP)}) == []
