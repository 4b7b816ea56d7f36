"""Property maps and stream contents: every type with its edges, and what is refused."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.primitives import decode_map, decode_stream, encode_map, encode_stream
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, STREAM_VALUES

EMPTY_KEY = b"\0\0"


def typed(value: Any) -> Any:
    """*value* with the types of everything in it, so that `Short(1)` is not `1`."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value


def map_of(*values: bytes) -> bytes:
    """An encoded map of *values*, with keys of one letter."""
    entries = b"".join(b"\0\1" + bytes((97 + number,)) + value for number, value in enumerate(values))
    return struct.pack(">i", len(values)) + entries


@pytest.mark.parametrize(
    ("value", "hexadecimal"),
    [
        (None, "00"),
        (False, "0100"),
        (True, "0101"),
        (Byte(-128), "0280"),
        (Byte(127), "027f"),
        (Char("\0"), "030000"),
        (Char("A"), "030041"),
        (Char("\ud800"), "03d800"),
        (Char("\uffff"), "03ffff"),
        (Short(-32768), "048000"),
        (Short(32767), "047fff"),
        (Int(-(2**31)), "0580000000"),
        (Int(2**31 - 1), "057fffffff"),
        (Long(-(2**63)), "068000000000000000"),
        (Long(2**63 - 1), "067fffffffffffffff"),
        (Long(1), "060000000000000001"),
        (-2.25, "07c002000000000000"),
        (math.inf, "077ff0000000000000"),
        (-0.0, "078000000000000000"),
        (Float(1.5), "083fc00000"),
        (Float(-math.inf), "08ff800000"),
        ("", "090000"),
        ("é", "090002c3a9"),
        (b"", "0a00000000"),
        (b"\0\xff", "0a0000000200ff"),
        ({}, "0b00000000"),
        ({"k": Int(1)}, "0b0000000100016b0500000001"),
        ([], "0c00000000"),
        (["a", None, [True]], "0c0000000309000161000c000000010101"),
    ],
)
def test_value_has_its_type_code_and_keeps_its_type(value: Value, hexadecimal: str) -> None:
    data = map_of(bytes.fromhex(hexadecimal))
    assert encode_map({"a": value}) == data
    assert typed(decode_map(data)) == typed({"a": value})


@pytest.mark.parametrize(
    ("value", "code"),
    [(5, 5), (2**31 - 1, 5), (-(2**31), 5), (2**31, 6), (-(2**31) - 1, 6), (1.0, 7), (True, 1), ("a", 9)],
)
def test_python_value_takes_the_narrowest_type_that_jms_has_for_it(value: Value, code: int) -> None:
    assert encode_map({"": value})[6] == code


def test_nan_survives() -> None:
    decoded = decode_stream(encode_stream([math.nan, Float(math.nan)]))
    assert [type(value) for value in decoded] == [float, Float]
    assert all(isinstance(value, float) and math.isnan(value) for value in decoded)


def test_any_nonzero_boolean_is_true() -> None:
    assert decode_stream(b"\x01\x02") == [True]


@pytest.mark.parametrize(
    "value",
    [Byte(128), Byte(-129), Short(32768), Int(2**31), Long(2**63), 2**63, -(2**63) - 1, Float(1e39)],
)
def test_number_out_of_its_range_is_our_mistake(value: Value) -> None:
    with pytest.raises(LocalProtocolError, match="does not fit into"):
        encode_map({"a": value})


@pytest.mark.parametrize("value", ["", "ab", "\U0001f600"])
def test_char_is_one_utf16_code_unit(value: str) -> None:
    with pytest.raises(LocalProtocolError, match="one UTF-16 code unit"):
        Char(value)


@pytest.mark.parametrize("value", [object(), 1j, {1, 2}])
def test_value_of_no_jms_type_is_our_mistake(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"{type(value).__name__} is not a JMS property type"):
        encode_map({"a": value})


def test_oversized_key_is_our_mistake() -> None:
    assert decode_map(encode_map({"k" * 65535: None})) == {"k" * 65535: None}
    with pytest.raises(LocalProtocolError, match="limit of 65535"):
        encode_map({"k" * 65536: None})


# ---- strings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a" * 8190, 9),
        ("a" * 8191, 13),
        ("€" * 8190, 9),
        ("€" * 8191, 13),
        ("\U0001f600" * 4095, 9),  # 8190 UTF-16 code units
        ("\U0001f600" * 4095 + "a", 13),
        ("a" * 200_000, 13),
    ],
    ids=lambda value: f"{len(value)} characters" if isinstance(value, str) else "",
)
def test_long_strings_take_the_big_form_from_8191_code_units_on(text: str, code: int) -> None:
    for data, first in ((encode_map({"": text}), 6), (encode_stream([text]), 0)):
        assert data[first] == code
    assert decode_map(encode_map({"": text})) == {"": text}
    assert decode_stream(encode_stream([text])) == [text]


@pytest.mark.parametrize(
    ("text", "plain", "modified"),
    [("\0", b"\0", b"\xc0\x80"), ("\U0001f600", b"\xf0\x9f\x98\x80", b"\xed\xa0\xbd\xed\xb8\x80")],
    ids=["NUL", "astral"],
)
def test_only_values_of_a_top_level_map_are_plain_utf8(text: str, plain: bytes, modified: bytes) -> None:
    def string(data: bytes) -> bytes:
        return b"\x09" + struct.pack(">H", len(data)) + data

    assert encode_map({"a": text}) == map_of(string(plain))
    assert encode_map({"a": [text]}) == map_of(b"\x0c\0\0\0\1" + string(modified))
    assert encode_map({"a": {"b": text}}) == map_of(b"\x0b\0\0\0\1\0\1b" + string(modified))
    assert encode_map({text: None}) == b"\0\0\0\1" + string(modified)[1:] + b"\0"
    assert encode_stream([text]) == string(modified)


@pytest.mark.parametrize("data", [b"\0", b"\xc0\x80", b"\xf0\x9f\x98\x80", b"\xed\xa0\xbd\xed\xb8\x80"])
def test_both_forms_are_read_everywhere(data: bytes) -> None:
    text = "\0" if len(data) < 3 else "\U0001f600"
    counted = struct.pack(">H", len(data)) + data
    string, big_string = b"\x09" + counted, b"\x0d\0\0" + counted
    assert decode_stream(string + big_string) == [text, text]
    assert decode_map(map_of(string, big_string, b"\x0c\0\0\0\1" + string)) == {"a": text, "b": text, "c": [text]}
    assert decode_map(b"\0\0\0\1" + counted + b"\0") == {text: None}


# ---- whole maps and streams ------------------------------------------------------------------------------------


@effort(50)
@given(PROPERTY_MAPS)
def test_any_map_survives(entries: dict[str, Value]) -> None:
    decoded = decode_map(encode_map(entries))
    assert list(decoded) == list(entries)
    assert typed(decoded) == typed(entries)


@effort(50)
@given(STREAM_VALUES)
def test_any_stream_survives(values: list[Value]) -> None:
    assert typed(decode_stream(encode_stream(values))) == typed(values)


def test_null_map_reads_as_empty() -> None:
    assert decode_map(b"\xff\xff\xff\xff") == {}
    assert decode_map(b"\0\0\0\0") == {}


def test_null_map_and_null_list_inside_a_map_read_as_none() -> None:
    assert decode_map(map_of(b"\x0b\xff\xff\xff\xff", b"\x0c\xff\xff\xff\xff")) == {"a": None, "b": None}


def test_last_of_equal_keys_wins() -> None:
    assert decode_map(b"\0\0\0\2" + EMPTY_KEY + b"\x02\x01" + EMPTY_KEY + b"\x02\x02") == {"": 2}


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [1], (1,)])
def test_stream_takes_no_map_and_no_list(value: Value) -> None:
    with pytest.raises(LocalProtocolError, match="no maps and no lists"):
        encode_stream([value])


@pytest.mark.parametrize("data", [b"\x0b\0\0\0\0", b"\x0c\0\0\0\0"])
def test_map_or_list_in_a_received_stream_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_stream(data)


@pytest.mark.parametrize("code", [14, 15, 127, 128, 255])
def test_unknown_type_code_is_refused(code: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"type code {code}"):
        decode_stream(bytes((code,)))


def test_bytes_behind_a_map_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="1 bytes follow the end of a map"):
        decode_map(b"\0\0\0\0\0")


@pytest.mark.parametrize("count", [-2, -(2**31), 1, 2**31 - 1])
def test_count_that_cannot_be_true_is_refused(count: int) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"a map of {count} entries does not fit"):
        decode_map(struct.pack(">i", count))
    with pytest.raises(RemoteProtocolError, match=rf"a list of {count} entries does not fit"):
        decode_map(map_of(b"\x0c" + struct.pack(">i", count)))


@pytest.mark.parametrize("code", [10, 13])
@pytest.mark.parametrize("length", [-1, -(2**31), 1, 2**31 - 1])
def test_length_that_cannot_be_true_is_refused(code: int, length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a value of {length} bytes does not fit into the 0 bytes left"):
        decode_stream(bytes((code,)) + struct.pack(">i", length))


def test_every_shorter_form_of_a_map_is_refused() -> None:
    data = encode_map({"é": "text", "n": [Long(1), {"x": b"123"}], "d": 1.5})
    for length in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode_map(data[:length])


def nested_lists(depth: int) -> bytes:
    """A map whose value is that many lists inside one another."""
    return map_of(b"\x0c\0\0\0\1" * depth + b"\0")


def test_nesting_is_limited() -> None:
    limits = WireLimits(nesting_max=5)
    assert decode_map(nested_lists(4), limits)
    with pytest.raises(RemoteProtocolError, match="nest deeper than 5 levels"):
        decode_map(nested_lists(5), limits)
    with pytest.raises(RemoteProtocolError, match="nest deeper than 32 levels"):
        decode_map(nested_lists(100_000))
    with pytest.raises(RemoteProtocolError, match="nest deeper than 32 levels"):
        decode_map(map_of(b"\x0b\0\0\0\1\0\0" * 1000 + b"\0"))


def test_entries_are_limited_over_all_levels_together() -> None:
    limits = WireLimits(entries_max=10)
    assert decode_map(encode_map({"a": [1, 2, 3], "b": {"c": 1, "d": 2}, "e": [4, 5]}), limits)
    with pytest.raises(RemoteProtocolError, match="more than 10 entries"):
        decode_map(encode_map({"a": [1, 2, 3], "b": {"c": 1, "d": 2}, "e": [4, 5, 6]}), limits)
    assert decode_stream(b"\0" * 10, limits) == [None] * 10
    with pytest.raises(RemoteProtocolError, match="more than 10 entries"):
        decode_stream(b"\0" * 11, limits)


@effort(100)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_map_or_refused(data: bytes) -> None:
    for decode in (decode_map, decode_stream):
        try:
            value = decode(data)
        except RemoteProtocolError:
            continue
        assert value is not None


@effort(40)
@given(PROPERTY_MAPS, st.data())
def test_mutated_map_is_a_map_or_refused(entries: dict[str, Value], data: st.DataObject) -> None:
    frame = bytearray(encode_map(entries))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.sampled_from((0, 1, 9, 11, 12, 127, 128, 255)))
    try:
        decoded = decode_map(bytes(frame))
    except RemoteProtocolError:
        return
    assert typed(decode_map(encode_map(decoded))).keys() == decoded.keys()
