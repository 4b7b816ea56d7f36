"""`layout.py` says the same of a message frame as the declarations that the plain codec goes by (`commands.py`)."""

import ast
import struct
from pathlib import Path
from typing import Any, Final

import pytest

from ackwire.wire.openwire import commands, layout
from ackwire.wire.openwire.codec_fast import CANONICAL, nested
from ackwire.wire.openwire.limits import DEFAULT_LIMITS
from ackwire.wire.openwire.marshal import Codec, LooseReader
from ackwire.wire.openwire.structures import fields_of

PLAIN: Final = Codec(CANONICAL)
PRODUCER: Final = commands.ProducerId("ID:host-1", 7, 8)
CONSUMER: Final = commands.ConsumerId("ID:host-1", 7, 8)

USUAL: Final = commands.ActiveMQTextMessage(
    command_id=0x01020304,
    response_required=True,
    producer_id=PRODUCER,
    destination=commands.ActiveMQQueue("orders"),
    message_id=commands.MessageId(None, PRODUCER, 11, 12),
    persistent=True,
    expiration=13,
    priority=5,
    timestamp=14,
    group_sequence=0,
    content=b"\0\0\0\2hi",
    marshalled_properties=b"\0\0\0\0",
    compressed=True,
    redelivery_counter=3,
    broker_in_time=15,
    broker_out_time=16,
    group_first_for_consumer=True,
)
"""A message without optional headers; every field of a fixed size has a value of its own."""


def frame_of(command: commands.BaseCommand) -> bytes:
    return PLAIN.encode(command)[layout.SIZE_BYTES :]


def places(frame: bytes, structure: type[commands.BaseCommand] = commands.ActiveMQTextMessage) -> dict[str, int]:
    """Where each field begins, found by reading all of them."""
    reader = LooseReader(frame, CANONICAL, DEFAULT_LIMITS, None)
    begins = {}
    for field in fields_of(structure):
        begins[field.name] = reader.position
        reader.read(field)
    assert reader.position == len(frame)
    return begins


FRAME: Final = frame_of(USUAL)
PLACES: Final = places(FRAME)
ID_END: Final = PLACES["original_transaction_id"] - layout.COUNT_BYTES
"""Behind the producer's count."""


def test_fields_stand_in_the_order_that_the_layout_lists() -> None:
    source = (
        Path(layout.__file__).with_name("layout.py").read_text(encoding="utf-8")
    )  # compiled modules have no docstring
    documented = ast.get_docstring(ast.parse(source), clean=False) or ""
    table = (line for line in documented.splitlines() if line.startswith("    "))
    listed = [line[14:41].strip() for line in table][2:]
    declared = ["type id", *(_in_words(field.name) for field in fields_of(commands.Message))]
    at = declared.index("message id")
    declared[at : at + 1] = ["message id, first part", "producer sequence", "broker sequence"]
    assert listed == declared


def _in_words(name: str) -> str:
    own = {"content": "body", "marshalled_properties": "properties", "received_by_df_bridge": "received by bridge"}
    return own.get(name, name.replace("group_first_for_consumer", "first of its group").replace("_", " "))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("ORIGINAL_TRANSACTION_AT", "original_transaction_id"),
        ("GROUP_ID_AT", "group_id"),
        ("GROUP_SEQUENCE_AT", "group_sequence"),
        ("CORRELATION_ID_AT", "correlation_id"),
        ("PERSISTENT_AT", "persistent"),
        ("EXPIRATION_AT", "expiration"),
        ("PRIORITY_AT", "priority"),
        ("REPLY_TO_AT", "reply_to"),
        ("TIMESTAMP_AT", "timestamp"),
        ("TYPE_AT", "type"),
        ("HAS_CONTENT_AT", "content"),
    ],
)
def test_headers_stand_where_the_layout_says(name: str, field: str) -> None:
    assert PLACES[field] - ID_END == getattr(layout, name)


def test_head_and_content_stand_where_the_layout_says() -> None:
    assert PLACES["command_id"] == layout.COMMAND_ID_AT
    assert PLACES["response_required"] == layout.RESPONSE_REQUIRED_AT
    assert PLACES["producer_id"] == layout.FIELDS_AT
    content_at = ID_END + layout.CONTENT_AT
    length_at = ID_END + layout.CONTENT_LENGTH_AT
    assert USUAL.content is not None
    assert FRAME[content_at : content_at + len(USUAL.content)] == USUAL.content
    assert layout.UINT.unpack_from(FRAME, length_at)[0] == len(USUAL.content)
    assert PLACES["marshalled_properties"] == content_at + len(USUAL.content)


def test_the_tail_stands_where_the_layout_says() -> None:
    tail_at = PLACES["data_structure"]
    assert len(FRAME) - tail_at == layout.TAIL_BYTES == layout.TAIL.size
    assert PLACES["target_consumer_id"] - tail_at == layout.TARGET_CONSUMER_AT
    assert PLACES["compressed"] - tail_at == layout.COMPRESSED_AT
    assert PLACES["user_id"] - tail_at == layout.USER_ID_AT
    assert len(FRAME) - PLACES["broker_in_time"] == layout.IN_TIME_FROM_END
    assert len(FRAME) - PLACES["broker_out_time"] == layout.OUT_TIME_FROM_END
    assert layout.TAIL.unpack_from(FRAME, tail_at) == (0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 15, 16, 1)
    assert layout.TAIL_FLAGS.unpack_from(FRAME, tail_at) == (0, 0, 1, 0, 0, 0, 15)
    assert layout.TAIL_UNTIL_USER.unpack_from(FRAME, tail_at) == (0, 0, 1, 0)
    assert layout.TAIL_BEHIND_USER.unpack_from(FRAME, tail_at + layout.USER_ID_AT + 1) == (0, 15)


def test_headers_are_unpacked_in_one_go_and_in_pieces() -> None:
    at = ID_END - layout.COUNT_BYTES
    headers = (0, 0, 0, 0, 1, 13, 5, 0, 14, 0)
    counts = layout.COUNTS.pack(11, 12)
    assert layout.USUAL_HEADERS.unpack_from(FRAME, at) == (11, 12, *headers)
    assert layout.HEADERS_AND_CONTENT.unpack_from(FRAME, at) == (counts, *headers, 1, 6)
    assert layout.HEADERS_AND_TEXT.unpack_from(FRAME, at) == (11, *headers, 1, 6, 2)
    assert layout.UNTIL_GROUP.unpack_from(FRAME, at) == (11, 12, 0)
    assert layout.UNTIL_GROUP_AS_BYTES.unpack_from(FRAME, at) == (counts, 0)
    assert layout.UNTIL_GROUP_FROM_PRODUCER.unpack_from(FRAME, at) == (11, 0)
    assert layout.BEHIND_CORRELATION.unpack_from(FRAME, PLACES["persistent"]) == (1, 13, 5)
    assert layout.UINT.unpack_from(FRAME, at + layout.COUNT_BYTES + layout.OPTIONS_AT + 4)[0] & 0xFF == 1


def test_a_dispatch_ends_as_the_layout_says() -> None:
    dispatch = commands.MessageDispatch(consumer_id=CONSUMER, destination=None, message=USUAL, redelivery_counter=9)
    frame = frame_of(dispatch)
    assert frame.startswith(layout.DISPATCH_HEAD)
    assert frame.endswith(layout.DISPATCH_END.pack(16, True, 9))
    assert layout.DISPATCH_TAIL.unpack(frame[-layout.DISPATCH_TAIL_BYTES :]) == (0, 0, 1, 0, 0, 0, 9)
    behind_user = frame[-layout.DISPATCH_TAIL_BEHIND_USER_BYTES :]
    assert layout.DISPATCH_TAIL_BEHIND_USER.unpack(behind_user) == (0, 1, 9)


def test_an_ack_and_a_response_are_as_the_layout_says() -> None:
    ack = commands.MessageAck(consumer_id=CONSUMER, last_message_id=USUAL.message_id, message_count=4)
    frame = frame_of(ack)
    assert frame[0] == layout.ACK_TYPE
    assert frame.endswith(layout.ACK_END.pack(4, 0))
    response = PLAIN.encode(commands.Response(correlation_id=77))
    assert response == layout.RESPONSE.pack(layout.RESPONSE_BYTES, layout.RESPONSE_TYPE, 0, 0, 77)


@pytest.mark.parametrize(
    ("value", "head"),
    [
        (PRODUCER, layout.PRODUCER_HEAD),
        (CONSUMER, layout.CONSUMER_HEAD),
        (commands.MessageId(None, PRODUCER), layout.MESSAGE_ID_HEAD + layout.PRODUCER_HEAD),
        (commands.LocalTransactionId(5, commands.ConnectionId("c")), layout.LOCAL_TRANSACTION_HEAD),
        (commands.XATransactionId(5, b"g", b"b"), layout.XA_TRANSACTION_HEAD),
        (commands.ConnectionId("c"), layout.CONNECTION_HEAD),
        (commands.ActiveMQQueue("q"), layout.DESTINATION_HEAD.pack(1, layout.FIRST_DESTINATION_TYPE, 1, 1)),
    ],
)
def test_ids_begin_as_the_layout_says(value: Any, head: bytes) -> None:
    assert nested(value).startswith(head)


def test_parts_of_ids_stand_where_the_layout_says() -> None:
    producer = nested(PRODUCER)
    name_at = layout.NAME_AT + layout.TEXT_AT
    assert producer[name_at : -layout.RESOURCE_NUMBERS_BYTES] == b"ID:host-1"
    assert len(producer) == layout.RESOURCE_BYTES + len("ID:host-1")
    local = nested(commands.LocalTransactionId(5, commands.ConnectionId("c")))
    assert local[layout.LOCAL_TRANSACTION_CONNECTION_AT :].startswith(layout.CONNECTION_HEAD)
    xa = nested(commands.XATransactionId(5, b"global", b"branch"))
    assert xa[layout.XA_TRANSACTION_PARTS_AT :].startswith(layout.BYTES_LENGTH.pack(1, 6) + b"global")


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        ("HEADERS_AND_CONTENT", "HEADERS_AND_CONTENT_BYTES"),
        ("COUNTS", "COUNTS_BYTES"),
        ("UNTIL_GROUP", "UNTIL_GROUP_BYTES"),
        ("UNTIL_GROUP_AS_BYTES", "UNTIL_GROUP_BYTES"),
        ("UNTIL_GROUP_FROM_PRODUCER", "UNTIL_GROUP_BYTES"),
        ("BEHIND_CORRELATION", "BEHIND_CORRELATION_BYTES"),
        ("TAIL", "TAIL_BYTES"),
        ("TAIL_FLAGS", "TAIL_BYTES"),
        ("TAIL_UNTIL_USER", "TAIL_UNTIL_USER_BYTES"),
        ("TAIL_BEHIND_USER", "TAIL_BEHIND_USER_BYTES"),
        ("DISPATCH_TAIL", "DISPATCH_TAIL_BYTES"),
        ("DISPATCH_TAIL_BEHIND_USER", "DISPATCH_TAIL_BEHIND_USER_BYTES"),
        ("ACK_END", "ACK_END_BYTES"),
        ("BYTES_LENGTH", "BYTES_AT"),
        ("TEXT_LENGTH", "TEXT_AT"),
        ("INT", "INT_BYTES"),
        ("LONG", "LONG_BYTES"),
    ],
)
def test_sizes_are_those_of_the_structures(structure: str, size: str) -> None:
    packed: struct.Struct = getattr(layout, structure)
    assert packed.size == getattr(layout, size)


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("DISPATCH_TYPE", commands.MessageDispatch),
        ("ACK_TYPE", commands.MessageAck),
        ("BLOB_TYPE", commands.ActiveMQBlobMessage),
        ("RESPONSE_TYPE", commands.Response),
        ("FIRST_DESTINATION_TYPE", commands.ActiveMQQueue),
        ("LAST_DESTINATION_TYPE", commands.ActiveMQTempTopic),
        ("MESSAGE_ID_TYPE", commands.MessageId),
        ("LOCAL_TRANSACTION_TYPE", commands.LocalTransactionId),
        ("XA_TRANSACTION_TYPE", commands.XATransactionId),
        ("CONNECTION_ID_TYPE", commands.ConnectionId),
        ("CONSUMER_ID_TYPE", commands.ConsumerId),
        ("PRODUCER_ID_TYPE", commands.ProducerId),
    ],
)
def test_type_ids_are_those_of_the_structures(name: str, structure: Any) -> None:
    assert getattr(layout, name) == structure.TYPE_ID
