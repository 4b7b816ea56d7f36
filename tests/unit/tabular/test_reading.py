"""Rows say what the client says of the same message, whichever way their frames were decoded, and never refuse one."""

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client.conversions import type_of
from ackwire.client.errors import MessageFormatError
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    message_from_command,
)
from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.tabular.reading import RowReader, rows_to_batch
from ackwire.tabular.schema import MESSAGE
from ackwire.wire.openwire import bodies, commands
from ackwire.wire.openwire.columnar import RowColumns, RowDecoder
from ackwire.wire.openwire.layout import MESSAGE_TYPES
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.primitives import decode_map, encode_map
from tests.helpers.compilation import attributes_of
from tests.model.test_client_decode_agrees_with_plain import everyday_messages, messages
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import PLAIN, canonical
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, STREAM_VALUES, TEXT
from tests.unit.wire.openwire.vectors import vectors

PRODUCER: Final = commands.ProducerId("ID:host-1", 2, 1)
QUEUE: Final = commands.ActiveMQQueue("orders")
TIME_MS: Final = 1_763_172_000_123
MESSAGE_VECTORS: Final = [(v.name, canonical(v.command)) for v in vectors() if isinstance(v.command, commands.Message)]
HELLO: Final = commands.ActiveMQTextMessage(
    producer_id=PRODUCER,
    destination=QUEUE,
    message_id=commands.MessageId(None, PRODUCER, 7, 70),
    persistent=True,
    priority=4,
    timestamp=TIME_MS,
    content=bodies.encode_text("hello"),
    broker_in_time=TIME_MS + 1,
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(*frames: bytes, reader: RowReader | None = None) -> list[dict[str, Any]]:
    batch = (reader or RowReader()).batch([(number, frame, 0) for number, frame in enumerate(frames)])
    batch.validate(full=True)
    assert batch.schema.equals(MESSAGE)
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


def row_of(command: commands.Message) -> dict[str, Any]:
    return rows_of(canonical(command))[0]


# ---- what the client says --------------------------------------------------------------------------------------


def valid(text: str | None) -> str | None:
    return None if text is None else "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def time_of(milliseconds: int) -> datetime | None:
    try:
        return EPOCH + timedelta(milliseconds=milliseconds) if milliseconds else None
    except OverflowError:
        return None


def text_of(value: Value) -> str | None:
    """A value as text, written down once more."""
    if value is None:
        return None
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Mapping | list):
        return valid(json.dumps(in_json(value), ensure_ascii=False, separators=(",", ":")))
    return valid(str(value))


def in_json(value: Value) -> Any:
    if isinstance(value, Mapping):
        return {name: in_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [in_json(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return value if value is None or isinstance(value, bool | int | str) else text_of(value)


def texts_of(values: Mapping[str, Value]) -> dict[str | None, str | None]:
    return {valid(name): text_of(value) for name, value in values.items()}


TYPE_NAMES: Final = {"String": "string", "byte[]": "bytes"}


def destination_text(wire: commands.ActiveMQDestination | None) -> str | None:
    if wire is None:
        return None
    kind = {"Queue": "queue", "Topic": "topic", "TempQueue": "temp-queue", "TempTopic": "temp-topic"}
    return f"{kind[type(wire).__name__.removeprefix('ActiveMQ')]}://{valid(wire.physical_name or '')}"


def body_of(command: commands.Message) -> dict[str, Any]:
    """Kind and content, as the client reads them."""
    message = message_from_command(command)
    match message:
        case TextMessage():
            return {"body_kind": "text", "text": valid(message.text)}
        case BytesMessage():
            return {"body_kind": "bytes", "bytes": message.data}
        case MapMessage():
            return {"body_kind": "map", "map": texts_of(message.body)}
        case ObjectMessage():
            return {"body_kind": "object", "bytes": message.data}
        case StreamMessage():
            content = bodies.decode_object_body(command.content or None, compressed=command.compressed)
            return {"body_kind": "stream", "bytes": content or b""}
    if isinstance(command, commands.ActiveMQBlobMessage):
        return {"body_kind": "blob", "text": valid(command.remote_blob_url)}
    return {"body_kind": "none"}


def expected_row(frame: bytes) -> dict[str, Any]:
    command = PLAIN.decode(frame)
    assert isinstance(command, commands.Message)
    message = message_from_command(command)
    row: dict[str, Any] = {
        "message_id": valid(None if command.message_id is None else str(command.message_id)),
        "destination": destination_text(command.destination),
        "timestamp": time_of(command.timestamp),
        "broker_in_time": time_of(command.broker_in_time),
        "expiration": time_of(command.expiration),
        "persistent": message.delivery_mode is DeliveryMode.PERSISTENT,
        "priority": message.priority,
        "correlation_id": valid(message.correlation_id),
        "reply_to": destination_text(command.reply_to),
        "type": valid(message.type),
        "user_id": valid(message.user_id),
        "group_id": valid(message.group_id),
        "group_sequence": None if message.group_id is None else message.group_sequence,
        "original_destination": destination_text(command.original_destination),
    }
    try:
        row |= body_of(command)
    except (MessageFormatError, RemoteProtocolError):
        row |= {"body_kind": "undecodable", "bytes": frame}
    try:
        own = message.properties.own()
        types = {valid(name): type_of(value) for name, value in own.items()}
        row["properties"] = texts_of(own)
        row["property_types"] = {name: TYPE_NAMES.get(kind, kind) for name, kind in types.items()}
    except MessageFormatError:
        pass
    return {name: row.get(name) for name in MESSAGE.names if name not in NUMBERS}


NUMBERS: Final = ("sequence", "redelivered", "redelivery_count")


def assert_rows_agree(frames: list[bytes]) -> None:
    reader = RowReader()
    for _ in range(2):  # and again, now that the fronts are known
        for row, frame in zip(rows_of(*frames, reader=reader), frames, strict=True):
            assert {name: value for name, value in row.items() if name not in NUMBERS} == expected_row(frame)


# ---- vectors and generated messages ----------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [frame for _, frame in MESSAGE_VECTORS], ids=[name for name, _ in MESSAGE_VECTORS])
def test_vectors_read_as_the_client_reads_them(frame: bytes) -> None:
    assert_rows_agree([frame])


def test_vectors_read_the_same_in_one_batch() -> None:
    assert_rows_agree([frame for _, frame in MESSAGE_VECTORS])


@st.composite
def sound_messages(draw: st.DrawFn) -> commands.Message:
    """Messages of every kind whose bodies and properties can be decoded, compressed or not."""
    message = draw(everyday_messages())
    compressed = draw(st.booleans())
    content: bytes | None = None
    match message:
        case commands.ActiveMQTextMessage():
            content = bodies.encode_text(draw(st.none() | TEXT), compressed=compressed)
        case commands.ActiveMQBytesMessage():
            content = bodies.encode_bytes(draw(st.binary(max_size=40)), compressed=compressed)
        case commands.ActiveMQMapMessage():
            content = bodies.encode_map_body(draw(PROPERTY_MAPS), compressed=compressed)
        case commands.ActiveMQStreamMessage():
            content = bodies.encode_stream_body(draw(STREAM_VALUES), compressed=compressed)
        case commands.ActiveMQObjectMessage():
            content = bodies.encode_object_body(draw(st.none() | st.binary(max_size=40)), compressed=compressed)
    properties = draw(st.none() | PROPERTY_MAPS.map(encode_map))
    return replace(message, content=content, compressed=compressed, marshalled_properties=properties)


@effort(100)
@given(st.lists(sound_messages() | messages(), min_size=1, max_size=4))
def test_generated_messages_read_as_the_client_reads_them(generated: list[commands.Message]) -> None:
    assert_rows_agree([canonical(message) for message in generated])


def columns_of(columns: RowColumns) -> dict[str, Any]:
    columns.decode_texts()
    values = {name: getattr(columns, name) for name in attributes_of(RowColumns) if not name.startswith("_")}
    for name in ("maps", "properties"):
        column = values.pop(name)
        values |= {f"{name}.{part}": getattr(column, part) for part in ("names", "values", "types", "starts")}
    values["texts"] = [text.decode() if isinstance(text, bytes) else text for text in columns.texts]
    # Of a broken frame, the id is found if its source is known.
    values["message_ids"] = [
        message_id for message_id, kind in zip(columns.message_ids, columns.kinds, strict=True) if kind != "undecodable"
    ]
    return values


@effort(100)
@given(sound_messages(), st.integers(0, 2**32))
def test_quick_and_plain_way_agree_on_almost_right_frames(message: commands.Message, seed: int) -> None:
    frame = canonical(message)
    decoder = RowDecoder()
    decoder.columns().add(frame)
    for offset in range(8):
        changed = mutated(frame, seed + offset)
        if not changed or changed[0] not in MESSAGE_TYPES:
            continue
        quick, plain = decoder.columns(), RowDecoder().columns()
        quick.add(changed)
        plain._add_by_plain_codec(changed)
        assert columns_of(quick) == columns_of(plain)


def test_common_frames_go_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    everyday = [
        HELLO,
        replace(HELLO, marshalled_properties=encode_map({"n": 1, "who": "ä"})),
        replace(HELLO, correlation_id="c", reply_to=QUEUE, type="t", user_id="u", group_id="g", group_sequence=3),
        replace(HELLO, transaction_id=commands.LocalTransactionId(5, commands.ConnectionId("ID:host-1"))),
        replace(HELLO, content=None),
    ]
    reader = RowReader()
    rows_of(canonical(HELLO), reader=reader)
    monkeypatch.setattr(RowColumns, "_add_by_plain_codec", None)
    assert len(rows_of(*map(canonical, everyday), reader=reader)) == len(everyday)


# ---- what is in which column -----------------------------------------------------------------------------------


def test_number_and_redeliveries_are_the_callers() -> None:
    batch = rows_to_batch([(41, canonical(HELLO), 0), (42, canonical(HELLO), 3)])
    assert batch.column("sequence").to_pylist() == [41, 42]
    assert batch.column("redelivered").to_pylist() == [False, True]
    assert batch.column("redelivery_count").to_pylist() == [0, 3]


def test_no_rows_are_an_empty_batch() -> None:
    batch = rows_to_batch([])
    assert batch.num_rows == 0
    assert batch.schema.equals(MESSAGE)


def test_headers_of_an_everyday_message() -> None:
    row = row_of(HELLO)
    assert row["message_id"] == "ID:host-1:1:2:7"
    assert (row["destination"], row["text"], row["body_kind"]) == ("queue://orders", "hello", "text")
    assert row["timestamp"] == datetime(2025, 11, 15, 2, 0, 0, 123_000, tzinfo=UTC)
    assert row["broker_in_time"] == row["timestamp"] + timedelta(milliseconds=1)
    assert (row["expiration"], row["properties"], row["property_types"]) == (None, {}, {})


def test_times_that_no_calendar_has_are_null() -> None:
    row = row_of(replace(HELLO, timestamp=2**62, expiration=2**63 - 1, broker_in_time=-(2**62)))
    assert (row["timestamp"], row["expiration"], row["broker_in_time"]) == (None, None, None)
    assert row_of(replace(HELLO, timestamp=-1))["timestamp"] == EPOCH - timedelta(milliseconds=1)


def test_values_of_properties_as_text_with_their_types() -> None:
    properties: dict[str, Value] = {
        "boolean": True,
        "byte": Byte(-1),
        "short": Short(2),
        "int": Int(3),
        "long": Long(4),
        "float": Float(0.5),
        "double": 1e300,
        "string": "ü",
        "char": Char("c"),
        "bytes": b"\0\1",
        "map": {"a": [1, None, "é", b"x", math.inf]},
        "list": [True, 1.5],
        "null": None,
    }
    row = row_of(replace(HELLO, marshalled_properties=encode_map(properties)))
    assert row["property_types"] == {name: name for name in properties}
    assert row["properties"] == {
        "boolean": "true",
        "byte": "-1",
        "short": "2",
        "int": "3",
        "long": "4",
        "float": "0.5",
        "double": "1e+300",
        "string": "ü",
        "char": "c",
        "bytes": "AAE=",
        "map": '{"a":[1,null,"é","eA==","inf"]}',
        "list": "[true,1.5]",
        "null": None,
    }


def test_a_name_that_comes_twice_is_there_once() -> None:
    entry = encode_map({"n": Int(1)})[4:]
    twice = b"\0\0\0\2" + entry + encode_map({"n": "last"})[4:]
    assert decode_map(twice) == {"n": "last"}
    assert row_of(replace(HELLO, marshalled_properties=twice))["properties"] == {"n": "last"}
    halves = encode_map({chr(code): Int(code) for code in (0xD800, 0xDFFF)})
    assert row_of(replace(HELLO, marshalled_properties=halves))["properties"] == {"\ufffd": str(0xDFFF)}


@pytest.mark.parametrize("text", ["", "a\0b", "\U0001f600", "ä€", "\ud800x", "x\udfff\U0001f600\0"])
def test_java_text_becomes_valid_text(text: str) -> None:
    others = [canonical(HELLO), canonical(replace(HELLO, content=bodies.encode_text(text), correlation_id=text))]
    first, second = rows_of(*others)
    assert first["text"] == "hello"
    assert second["text"] == second["correlation_id"] == valid(text)


# ---- what cannot be decoded ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        replace(HELLO, content=b"\0\0\0\5hell"),
        replace(HELLO, content=b"\0\0\0\1\xff"),
        replace(HELLO, content=b"no zlib", compressed=True),
        commands.ActiveMQMapMessage(
            producer_id=PRODUCER, message_id=HELLO.message_id, destination=QUEUE, content=b"\0\0\0\1"
        ),
    ],
    ids=["length", "text", "compression", "map"],
)
def test_a_body_that_cannot_be_decoded_is_the_frame_and_headers_stay(command: commands.Message) -> None:
    frame = canonical(command)
    good, bad, again = rows_of(canonical(HELLO), frame, canonical(HELLO))
    assert (bad["body_kind"], bad["bytes"], bad["text"], bad["map"]) == ("undecodable", frame, None, None)
    assert (bad["message_id"], bad["destination"]) == ("ID:host-1:1:2:7", "queue://orders")
    assert good["text"] == again["text"] == "hello"


def test_properties_that_cannot_be_decoded_are_null() -> None:
    row = row_of(replace(HELLO, marshalled_properties=b"\0\0\0\1"))
    assert (row["properties"], row["property_types"], row["text"]) == (None, None, "hello")


@pytest.mark.parametrize("frame", [b"", b"\x1c", canonical(HELLO)[:-1], canonical(QUEUE), canonical(HELLO) + b"\0"])
def test_a_frame_that_is_no_message_is_a_row_all_the_same(frame: bytes) -> None:
    good, bad = rows_of(canonical(HELLO), frame)
    assert (bad["body_kind"], bad["bytes"]) == ("undecodable", frame)
    assert bad["properties"] is None
    assert good["text"] == "hello"


def test_id_of_a_broken_frame_is_told_where_its_source_is_known() -> None:
    _, bad = rows_of(canonical(HELLO), canonical(replace(HELLO, content=b"x" * 9))[:-1])
    assert (bad["body_kind"], bad["message_id"]) == ("undecodable", "ID:host-1:1:2:7")


def test_a_body_that_inflates_beyond_the_limit_is_undecodable() -> None:
    command = replace(HELLO, content=bodies.encode_text("x" * 5000, compressed=True), compressed=True)
    batch = rows_to_batch([(1, canonical(command), 0)], WireLimits(inflated_bytes_max=1000))
    assert batch.column("body_kind").to_pylist() == ["undecodable"]


# ---- sizes -----------------------------------------------------------------------------------------------------


def test_batches_are_cut_by_the_size_of_what_they_become() -> None:
    big = replace(HELLO, content=bodies.encode_text("x" * 10_000, compressed=True), compressed=True)
    rows = [(number, canonical(big), 0) for number in range(5)]
    reader = RowReader(bytes_max=15_000)
    batches = [*reader.add(rows), reader.rest()]
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert [number for batch in batches for number in batch.column("sequence").to_pylist()] == [0, 1, 2, 3, 4]


def test_more_than_a_batch_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwire.tabular.reading._BATCH_BYTES_MAX", 300)
    with pytest.raises(ValueError, match="ask for fewer at a time"):
        rows_to_batch([(number, canonical(HELLO), 0) for number in range(5)])


def test_more_sources_than_are_remembered_are_still_told_apart() -> None:
    producers = [commands.ProducerId(f"ID:{number}", 1, 1) for number in range(600)]
    made = [replace(HELLO, producer_id=p, message_id=commands.MessageId(None, p, 5)) for p in producers]
    rows = rows_of(*map(canonical, made * 2))
    assert [row["message_id"] for row in rows] == [f"ID:{number}:1:1:5" for number in range(600)] * 2
