"""Limits hold before anything is allocated: a length that lies costs its sender the connection and us nothing."""

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import FastDecoder
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import TIGHT_STRING_BYTES_MAX, Codec, Truncated, WireFormat
from ackwire.wire.openwire.primitives import decode_map, decode_stream
from ackwire.wire.openwire.structures import StackFrame, Structure, Throwable

by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])

HUGE: Final = [2**31 - 1, -1, -(2**31), 2**30]
SMALL_BYTES: Final = 300_000


@contextmanager
def little_memory(peak_bytes_max: int = SMALL_BYTES) -> Iterator[None]:
    """Fails if the block takes more than *peak_bytes_max* at any time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < peak_bytes_max, f"{peak} bytes"


def frame_of(command: Structure, *, tight: bool, stack_traces: bool = False) -> bytes:
    return Codec(WireFormat(tight=tight, stack_traces=stack_traces)).encode(command)[4:]


def codec_with(limits: WireLimits, *, tight: bool, stack_traces: bool = False) -> Codec:
    return Codec(WireFormat(tight=tight, stack_traces=stack_traces), limits)


# ---- lengths that lie ------------------------------------------------------------------------------------------


@by_encoding
@pytest.mark.parametrize("length", HUGE)
def test_byte_array_that_claims_gigabytes_is_refused_without_allocating(tight: bool, length: int) -> None:
    frame = frame_of(commands.PartialCommand(1, b"12345"), tight=tight)
    forged = frame.replace(struct.pack(">i", 5), struct.pack(">i", length))
    assert forged != frame
    with little_memory(), pytest.raises(RemoteProtocolError):
        codec_with(DEFAULT_LIMITS, tight=tight).decode(forged)


@pytest.mark.parametrize("length", [2**31 - 1, -1, 2**32 - 1])
@pytest.mark.parametrize("field", ["content", "marshalled_properties"])
def test_message_that_claims_gigabytes_is_refused_without_allocating(field: str, length: int) -> None:
    producer = commands.ProducerId("ID:a", 1, 1)
    message = commands.ActiveMQTextMessage(
        producer_id=producer,
        destination=commands.ActiveMQQueue("q"),
        message_id=commands.MessageId(None, producer, 1),
        content=b"",
    )
    setattr(message, field, b"marker")
    frame = frame_of(message, tight=False)
    forged = frame.replace(b"\0\0\0\6marker", struct.pack(">I", length & 0xFFFFFFFF) + b"marker")
    assert forged != frame
    with little_memory(), pytest.raises(RemoteProtocolError):
        FastDecoder().message(forged)
    with little_memory(), pytest.raises(RemoteProtocolError):
        codec_with(DEFAULT_LIMITS, tight=False).decode(forged)


@by_encoding
def test_array_that_claims_the_most_items_is_refused_without_allocating(tight: bool) -> None:
    frame = frame_of(commands.DataArrayResponse(data=(None,)), tight=tight)
    forged = frame[:-2] + b"\x7f\xff" if tight else frame[:-3] + b"\x7f\xff\0"
    assert forged != frame
    with little_memory(), pytest.raises(RemoteProtocolError):
        codec_with(DEFAULT_LIMITS, tight=tight).decode(forged)


@pytest.mark.parametrize("count", [count for count in HUGE if count != -1])  # -1 is the null map
def test_map_that_claims_many_entries_is_refused_without_allocating(count: int) -> None:
    with little_memory(), pytest.raises(RemoteProtocolError):
        decode_map(struct.pack(">i", count) + b"\0\1a\0" * 10)
    with little_memory(), pytest.raises(RemoteProtocolError):
        decode_map(b"\0\0\0\1\0\0\x0c" + struct.pack(">i", count) + bytes(40))
    with little_memory(), pytest.raises(RemoteProtocolError):
        decode_stream(b"\x0d" + struct.pack(">i", count))


@by_encoding
def test_string_that_claims_more_than_there_is_is_truncated(tight: bool) -> None:
    frame = frame_of(commands.ConnectionId("abc"), tight=tight)
    forged = frame.replace(b"\0\3abc", b"\xff\xffabc")
    with pytest.raises(Truncated) as caught:
        codec_with(DEFAULT_LIMITS, tight=tight).decode(forged)
    assert caught.value.needed == len(frame) + 65535 - 3


@pytest.mark.parametrize(
    "start", [b"\x80\x7f\xff", b"\x80\xff\xff", b"\xc0\xff", b"\x3f", b"\x80", b"\xc0", b"\x7f", b"\xbf"]
)
def test_boolean_stream_longer_than_the_frame_is_refused(start: bytes) -> None:
    with little_memory(), pytest.raises(RemoteProtocolError):
        codec_with(DEFAULT_LIMITS, tight=True).decode(bytes((commands.KeepAliveInfo.TYPE_ID,)) + start)


def test_boolean_stream_that_ends_early_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="the boolean stream ends before the structure does"):
        codec_with(DEFAULT_LIMITS, tight=True).decode(b"\x0a\0\0\0\0\1")


def test_boolean_stream_over_the_wires_limit_is_our_mistake() -> None:
    commands_with_many_bits = commands.DataArrayResponse(data=(commands.ConsumerInfo(),) * 16_000)
    with pytest.raises(LocalProtocolError, match="boolean stream of"):
        frame_of(commands_with_many_bits, tight=True)


# ---- limits ----------------------------------------------------------------------------------------------------


@by_encoding
def test_waiting_for_a_frame_without_size_ends_at_the_frame_limit(tight: bool) -> None:
    limits = WireLimits(frame_bytes_max=1000)
    codec = Codec(WireFormat(tight=tight, size_prefix=False), limits)
    frame = Codec(codec.wire_format).encode(commands.PartialCommand(1, bytes(900)))
    with pytest.raises(Truncated):
        codec.decode_first(frame[:100])
    frame = Codec(codec.wire_format).encode(commands.PartialCommand(1, bytes(1000)))
    with pytest.raises(RemoteProtocolError, match=r"a frame of at least 10[0-9]+ bytes: the limit is 1000") as caught:
        codec.decode_first(frame[:100])
    assert not isinstance(caught.value, Truncated)


@by_encoding
def test_array_items_are_limited(tight: bool) -> None:
    limits = WireLimits(array_items_max=10)
    codec = codec_with(limits, tight=tight)
    assert codec.decode(frame_of(commands.DataArrayResponse(data=(None,) * 10), tight=tight))
    with pytest.raises(RemoteProtocolError, match="11 items"):
        codec.decode(frame_of(commands.DataArrayResponse(data=(None,) * 11), tight=tight))


@by_encoding
def test_array_items_are_limited_over_the_whole_frame(tight: bool) -> None:
    """Small arrays inside arrays multiply: their sum is what counts."""
    limits = WireLimits(array_items_max=10)
    inner = commands.DataArrayResponse(data=(None,) * 4)
    codec = codec_with(limits, tight=tight)
    assert codec.decode(frame_of(commands.DataArrayResponse(data=(inner, inner)), tight=tight))
    with pytest.raises(RemoteProtocolError, match="the limit is 10"):
        codec.decode(frame_of(commands.DataArrayResponse(data=(inner, inner, inner)), tight=tight))


@by_encoding
def test_lines_of_stack_traces_are_limited_like_array_items(tight: bool) -> None:
    limits = WireLimits(array_items_max=10)
    codec = codec_with(limits, tight=tight, stack_traces=True)
    line = StackFrame(None, None, None, 0)

    def response(first: int, second: int) -> bytes:
        cause = Throwable(None, None, (line,) * second)
        error = commands.ExceptionResponse(exception=Throwable(None, None, (line,) * first, cause))
        return frame_of(error, tight=tight, stack_traces=True)

    assert codec.decode(response(4, 6))
    with pytest.raises(RemoteProtocolError, match="the limit is 10"):
        codec.decode(response(4, 7))


@by_encoding
@pytest.mark.parametrize("count", [-1, -32768])
def test_negative_counts_are_refused(tight: bool, count: int) -> None:
    array = frame_of(commands.DataArrayResponse(data=()), tight=tight)
    with pytest.raises(RemoteProtocolError, match=f"{count} items"):
        codec_with(DEFAULT_LIMITS, tight=tight).decode(array[:-2] + struct.pack(">h", count))
    trace = frame_of(commands.ExceptionResponse(exception=Throwable(None, None)), tight=tight, stack_traces=True)
    end = -2 if tight else -3  # loose: the flag of the cause follows
    forged = trace[:end] + struct.pack(">h", count) + (b"" if tight else trace[-1:])
    with pytest.raises(RemoteProtocolError, match=f"{count} items"):
        codec_with(DEFAULT_LIMITS, tight=tight, stack_traces=True).decode(forged)


def nested_responses(depth: int) -> Structure:
    command: Structure = commands.KeepAliveInfo()
    for _ in range(depth):
        command = commands.DataResponse(data=command)
    return command


@by_encoding
def test_structures_nest_up_to_the_limit(tight: bool) -> None:
    limits = WireLimits(nesting_max=5)
    codec = codec_with(limits, tight=tight)
    assert codec.decode(frame_of(nested_responses(5), tight=tight)) == nested_responses(5)
    with pytest.raises(RemoteProtocolError, match="structures nest deeper than 5 levels"):
        codec.decode(frame_of(nested_responses(6), tight=tight))


def test_deep_nesting_in_a_large_frame_is_refused_without_recursing() -> None:
    frame = b"\x20" + (bytes(9) + b"\x01\x20") * 100_000
    with little_memory(), pytest.raises(RemoteProtocolError, match="nest deeper than 32 levels"):
        codec_with(DEFAULT_LIMITS, tight=False).decode(frame)


@by_encoding
def test_siblings_do_not_count_as_nesting(tight: bool) -> None:
    limits = WireLimits(nesting_max=2)
    command = commands.DataArrayResponse(data=(commands.DataResponse(data=commands.KeepAliveInfo()),) * 9)
    assert codec_with(limits, tight=tight).decode(frame_of(command, tight=tight)) == command


@by_encoding
def test_causes_nest_up_to_the_limit(tight: bool) -> None:
    def response(causes: int) -> commands.ExceptionResponse:
        error = Throwable("java.lang.Exception", "cause")
        for _ in range(causes):
            error = Throwable("java.lang.Exception", "effect", (), error)
        return commands.ExceptionResponse(exception=error)

    codec = codec_with(WireLimits(nesting_max=5), tight=tight, stack_traces=True)
    assert codec.decode(frame_of(response(4), tight=tight, stack_traces=True)) == response(4)
    with pytest.raises(RemoteProtocolError, match="nest deeper than 5 levels"):
        codec.decode(frame_of(response(5), tight=tight, stack_traces=True))


# ---- strings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tight", "limit"), [(False, 65535), (True, TIGHT_STRING_BYTES_MAX)], ids=["loose", "tight"])
def test_string_may_have_as_many_bytes_as_java_reads(tight: bool, limit: int) -> None:
    longest = commands.ConnectionId("a" * limit)
    assert codec_with(DEFAULT_LIMITS, tight=tight).decode(frame_of(longest, tight=tight)) == longest
    with pytest.raises(LocalProtocolError, match=f"over the wire's limit of {limit}"):
        frame_of(commands.ConnectionId("a" * (limit + 1)), tight=tight)
    with pytest.raises(LocalProtocolError, match=f"over the wire's limit of {limit}"):
        frame_of(commands.ConnectionId("é" * (limit // 2 + 1)), tight=tight)


def loose_connection_id(text: bytes) -> bytes:
    return b"\x78\x01" + struct.pack(">H", len(text)) + text


@pytest.mark.parametrize(
    "text", [b"\0" * 40_000, b"\xf0\x9f\x98\x80" * 12_000], ids=["plain NUL", "four-byte sequences"]
)
def test_string_that_fits_only_in_a_foreign_form_is_refused(text: bytes) -> None:
    """Whatever is received can be sent on: in Java's form this text has over 65535 bytes."""
    with pytest.raises(RemoteProtocolError, match="over the wire's limit of 65535"):
        codec_with(DEFAULT_LIMITS, tight=False).decode(loose_connection_id(text))
    assert codec_with(DEFAULT_LIMITS, tight=False).decode(loose_connection_id(text[:20_000]))


def test_latin_text_marked_as_ascii_is_refused_where_it_fits_only_so() -> None:
    tight = b"\x78\x01\x03\x9c\x40" + b"\xe9" * 40_000
    with pytest.raises(RemoteProtocolError, match="over the wire's limit of 65535"):
        codec_with(DEFAULT_LIMITS, tight=True).decode(tight)


@pytest.mark.parametrize("part", ["producer", "id_producer", "correlation_id", "group_id"])
def test_fast_path_refuses_strings_that_fit_only_in_a_foreign_form(part: str) -> None:
    def producer(name: str) -> commands.ProducerId:
        return commands.ProducerId("#" * 40_000 if part == name else "ID:a", 1, 1)

    message = commands.ActiveMQTextMessage(
        producer_id=producer("producer"),
        destination=commands.ActiveMQQueue("q"),
        message_id=commands.MessageId(None, producer("id_producer"), 1),
        content=b"",
        correlation_id="#" * 40_000 if part == "correlation_id" else None,
        group_id="#" * 40_000 if part == "group_id" else None,
    )
    frame = frame_of(message, tight=False)
    assert FastDecoder().message(frame).frame == frame
    forged = frame.replace(b"#" * 40_000, b"\0" * 40_000)
    with pytest.raises(RemoteProtocolError, match="over the wire's limit of 65535"):
        codec_with(DEFAULT_LIMITS, tight=False).decode(forged)
    with pytest.raises(RemoteProtocolError, match="over the wire's limit of 65535"):
        FastDecoder().message(forged)


# ---- memory ----------------------------------------------------------------------------------------------------


@by_encoding
def test_decoded_structures_take_little_more_than_their_frame(tight: bool) -> None:
    """Nothing small on the wire becomes large in memory: the worst are arrays of small structures."""
    small = commands.XATransactionId(2**30, None, None)
    inner = commands.DataArrayResponse(data=(small,) * 50)
    frame = frame_of(commands.DataArrayResponse(data=(inner,) * 20), tight=tight)
    with little_memory(30 * len(frame)):
        codec_with(DEFAULT_LIMITS, tight=tight).decode(frame)
