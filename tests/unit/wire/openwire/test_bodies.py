"""Message bodies of every kind, compressed or not."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Int, Value
from ackwire.wire.openwire import bodies, commands
from ackwire.wire.openwire.limits import WireLimits
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, SHORT_BYTES, STREAM_VALUES, TEXT
from tests.unit.wire.openwire.vectors import vectors

Decode = Callable[..., Any]

by_compression = pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
by_decoder = pytest.mark.parametrize(
    "decode",
    [
        bodies.decode_text,
        bodies.decode_map_body,
        bodies.decode_stream_body,
        bodies.decode_object_body,
        bodies.decode_bytes,
    ],
    ids=["text", "map", "stream", "object", "bytes"],
)
SMALL: Final = WireLimits(inflated_bytes_max=1000)


def counted(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def vector_content(name: str) -> bytes | None:
    [command] = [vector.command for vector in vectors() if vector.name == name]
    assert isinstance(command, commands.Message)
    return command.content


# ---- round trips -----------------------------------------------------------------------------------------------


@by_compression
@effort(15)
@given(st.none() | TEXT)
def test_any_text_survives(compressed: bool, text: str | None) -> None:
    content = bodies.encode_text(text, compressed=compressed)
    assert bodies.decode_text(content, compressed=compressed) == text


@by_compression
@effort(15)
@given(PROPERTY_MAPS)
def test_any_map_survives(compressed: bool, entries: dict[str, Value]) -> None:
    content = bodies.encode_map_body(entries, compressed=compressed)
    assert bodies.decode_map_body(content, compressed=compressed) == entries


@by_compression
@effort(15)
@given(STREAM_VALUES)
def test_any_stream_survives(compressed: bool, values: list[Value]) -> None:
    content = bodies.encode_stream_body(values, compressed=compressed)
    assert bodies.decode_stream_body(content, compressed=compressed) == values


@by_compression
@effort(15)
@given(st.none() | SHORT_BYTES)
def test_any_object_survives_as_opaque_bytes(compressed: bool, serialised: bytes | None) -> None:
    content = bodies.encode_object_body(serialised, compressed=compressed)
    assert bodies.decode_object_body(content, compressed=compressed) == serialised


@by_compression
@effort(15)
@given(SHORT_BYTES)
def test_any_bytes_survive(compressed: bool, data: bytes) -> None:
    content = bodies.encode_bytes(data, compressed=compressed)
    assert bodies.decode_bytes(content, compressed=compressed) == data


# ---- what Java writes ------------------------------------------------------------------------------------------


def test_bodies_of_the_vectors() -> None:
    assert bodies.decode_text(vector_content("text-null-body")) is None
    assert bodies.decode_text(vector_content("text-empty-body")) == ""
    everything = bodies.decode_text(vector_content("text-everything"))
    assert everything is not None
    assert bodies.encode_text(everything) == vector_content("text-everything")
    assert {"é", "€", "\0"} < set(everything)
    assert any(character > "\uffff" for character in everything)
    assert bodies.decode_text(vector_content("text-compressed"), compressed=True)
    assert bodies.decode_bytes(vector_content("bytes-empty")) == b""
    assert bodies.decode_bytes(vector_content("bytes")) == vector_content("bytes")
    assert bodies.decode_bytes(vector_content("bytes-compressed"), compressed=True)
    assert bodies.decode_map_body(vector_content("map-empty")) == {}
    entries = bodies.decode_map_body(vector_content("map"))
    assert bodies.encode_map_body(entries) == vector_content("map")
    values = bodies.decode_stream_body(vector_content("stream"))
    assert bodies.encode_stream_body(values) == vector_content("stream")
    assert bodies.decode_object_body(vector_content("object")) == vector_content("object")


@pytest.mark.parametrize(
    "encoded",
    [
        bodies.encode_text(None),
        bodies.encode_map_body({}),
        bodies.encode_stream_body([]),
        bodies.encode_object_body(None),
        bodies.encode_bytes(b""),
    ],
)
def test_empty_body_is_no_content(encoded: bytes | None) -> None:
    assert encoded is None


def test_empty_text_is_a_length_of_zero() -> None:
    assert bodies.encode_text("") == b"\0\0\0\0"


def test_length_of_minus_one_is_no_text() -> None:
    assert bodies.decode_text(b"\xff\xff\xff\xff") is None


def test_empty_map_with_a_count_is_read() -> None:
    assert bodies.decode_map_body(b"\0\0\0\0") == {}


def test_text_is_modified_utf8_and_map_values_are_plain() -> None:
    assert bodies.encode_text("\0\U0001f600") == counted(b"\xc0\x80\xed\xa0\xbd\xed\xb8\x80")
    assert bodies.encode_map_body({"a": "\0"}) == b"\0\0\0\1\0\1a\x09\0\1\0"


def test_compressed_bytes_say_their_length_in_the_clear_and_others_do_not() -> None:
    content = bodies.encode_bytes(b"x" * 100, compressed=True)
    assert content is not None
    assert content[:4] == struct.pack(">i", 100)
    assert zlib.decompress(content[4:]) == b"x" * 100
    text = bodies.encode_text("x" * 100, compressed=True)
    assert text is not None
    assert zlib.decompress(text) == counted(b"x" * 100)


@pytest.mark.parametrize("padding", [0, 1, 400, 100_000])
def test_padding_that_java_deflates_behind_bytes_is_dropped(padding: int) -> None:
    content = struct.pack(">i", 5) + zlib.compress(b"12345" + bytes(padding))
    assert bodies.decode_bytes(content, compressed=True) == b"12345"


def test_padded_bytes_of_length_zero_are_empty() -> None:
    assert bodies.decode_bytes(struct.pack(">i", 0) + zlib.compress(bytes(64)), compressed=True) == b""


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\0"])
def test_text_without_a_length_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="has no length"):
        bodies.decode_text(content)


@pytest.mark.parametrize("count", [-2, -(2**31), 0, 2, 4, 2**31 - 1])
def test_text_with_a_length_that_lies_is_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a text body says {count} bytes and has 3"):
        bodies.decode_text(struct.pack(">i", count) + b"abc")


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="not modified UTF-8"):
        bodies.decode_text(counted(b"\xff"))


@by_decoder
def test_compressed_body_that_is_no_zlib_stream_is_refused(decode: Decode) -> None:
    with pytest.raises(RemoteProtocolError, match="does not inflate"):
        decode(b"\0\0\0\5not zlib at all", compressed=True)


@by_decoder
def test_body_without_its_checksum_or_its_end_is_refused(decode: Decode) -> None:
    """Cut anywhere, a stream that should inflate to 400 bytes is not a body."""
    data = b"\0\0\1\x8c" + bytes(range(1, 200)) * 2
    stream = zlib.compress(data)
    prefix = struct.pack(">i", 500) if decode is bodies.decode_bytes else b""
    for length in range(1, len(stream)):
        with pytest.raises(RemoteProtocolError):
            decode(prefix + stream[:length], compressed=True)


@pytest.mark.parametrize("content", [b"\0", b"\0\0\0"])
def test_compressed_bytes_without_a_length_are_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="has no length"):
        bodies.decode_bytes(content, compressed=True)


def test_compressed_bytes_shorter_than_they_say_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="says 6 bytes and inflates to 5"):
        bodies.decode_bytes(struct.pack(">i", 6) + zlib.compress(b"12345"), compressed=True)


@pytest.mark.parametrize("count", [-1, -(2**31), 1001, 2**31 - 1])
def test_compressed_bytes_of_an_impossible_length_are_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"says it inflates to {count} bytes: the limit is 1000"):
        bodies.decode_bytes(struct.pack(">i", count) + zlib.compress(b""), compressed=True, limits=SMALL)


def test_body_may_inflate_to_the_limit_and_not_beyond() -> None:
    content = zlib.compress(bytes(1000))
    assert bodies.decode_object_body(content, compressed=True, limits=SMALL) == bytes(1000)
    with pytest.raises(RemoteProtocolError, match="inflates to over 1000 bytes"):
        bodies.decode_object_body(zlib.compress(bytes(1001)), compressed=True, limits=SMALL)


@cache
def zip_bomb() -> bytes:
    """16 MiB of nothing in 16 kB."""
    bomb = zlib.compress(bytes(1 << 24))
    assert len(bomb) < 20_000
    return bomb


@by_decoder
def test_zip_bomb_takes_no_more_memory_than_the_limit(decode: Decode) -> None:
    bomb = zip_bomb()
    limits = WireLimits(inflated_bytes_max=200_000)
    content = struct.pack(">i", 200_000) + bomb if decode is bodies.decode_bytes else bomb
    tracemalloc.start()
    try:
        if decode is bodies.decode_bytes:
            assert len(decode(content, compressed=True, limits=limits)) == 200_000
        else:
            with pytest.raises(RemoteProtocolError, match="inflates to over 200000 bytes"):
                decode(content, compressed=True, limits=limits)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@by_decoder
@by_compression
@effort(20)
@given(content=st.binary(max_size=40))
def test_any_bytes_are_a_body_or_refused(decode: Decode, compressed: bool, content: bytes) -> None:
    try:
        decode(content, compressed=compressed)
        decode(zlib.compress(content), compressed=True)
        decode(counted(zlib.compress(content)), compressed=True)
    except RemoteProtocolError:
        pass


def test_numbers_in_a_map_body_keep_their_types() -> None:
    entries = bodies.decode_map_body(bodies.encode_map_body({"a": 1}))
    assert type(entries["a"]) is Int
