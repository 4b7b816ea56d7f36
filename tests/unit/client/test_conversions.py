"""JMS's conversion table, cell by cell, through properties, map bodies and stream bodies (A4)."""

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.client import conversions
from ackwire.client.entries import MapEntries
from ackwire.client.errors import MessageFormatError, NumberFormatError
from ackwire.client.messages import Message, StreamMessage
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value

WRITTEN: Final[dict[str, Value]] = {
    "boolean": True,
    "byte": Byte(5),
    "short": Short(5),
    "char": Char("5"),
    "int": Int(5),
    "long": Long(5),
    "float": Float(5.5),
    "double": 5.5,
    "string": "5",
    "bytes": b"5",
    "null": None,
}
READ: Final = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes")
CELLS: Final[dict[str, dict[str, object]]] = {
    "boolean": {"boolean": True, "string": "true"},
    "byte": {"byte": 5, "short": 5, "int": 5, "long": 5, "string": "5"},
    "short": {"short": 5, "int": 5, "long": 5, "string": "5"},
    "char": {"char": "5", "string": "5"},
    "int": {"int": 5, "long": 5, "string": "5"},
    "long": {"long": 5, "string": "5"},
    "float": {"float": 5.5, "double": 5.5, "string": "5.5"},
    "double": {"double": 5.5, "string": "5.5"},
    "string": {
        "boolean": False,
        "byte": 5,
        "short": 5,
        "int": 5,
        "long": 5,
        "float": 5.0,
        "double": 5.0,
        "string": "5",
    },
    "bytes": {"bytes": b"5"},
    "null": {"boolean": False, "string": None, "bytes": None},
}
ALL_CELLS: Final = list(itertools.product(WRITTEN, READ))

by_cell = pytest.mark.parametrize(("written", "read"), ALL_CELLS)
Read = Callable[[], Any]


def expect_cell(written: str, read: str, value: Read) -> None:
    """Reading gives what the table says, with Python's own type, or is refused."""
    if read in CELLS[written]:
        expected = CELLS[written][read]
        actual = value()
        assert actual == expected
        assert type(actual) is type(expected)
    elif written == "null" and read != "char":
        with pytest.raises(NumberFormatError, match=f"null.* cannot be read as {read}"):
            value()
    else:
        with pytest.raises(MessageFormatError, match="cannot be read as"):
            value()


@by_cell
def test_A4_map_entry_is_converted_by_the_table(written: str, read: str) -> None:
    entries = MapEntries()
    entries["value"] = WRITTEN[written]
    expect_cell(written, read, lambda: getattr(entries, f"get_{read}")("value"))


@by_cell
def test_A4_stream_value_is_converted_by_the_table_and_stays_next_if_it_cannot_be(written: str, read: str) -> None:
    message = StreamMessage([WRITTEN[written]])
    message.reset()
    expect_cell(written, read, getattr(message, f"read_{read}"))
    if read not in CELLS[written]:
        assert message.read_object() == WRITTEN[written]


@pytest.mark.parametrize(("written", "read"), [cell for cell in ALL_CELLS if not {"bytes"} & set(cell)])
def test_A4_property_is_converted_by_the_table(written: str, read: str) -> None:
    properties = Message().properties
    properties["value"] = WRITTEN[written]
    if read == "char":
        assert not hasattr(properties, "get_char")  # JMS has none for properties
    else:
        expect_cell(written, read, lambda: getattr(properties, f"get_{read}")("value"))


@pytest.mark.parametrize("read", READ)
def test_nested_map_or_list_converts_to_nothing(read: str) -> None:
    entries = MapEntries()
    entries.update({"map": {"a": 1}, "list": [1]})
    for name in entries:
        with pytest.raises(MessageFormatError, match=f"a {name} cannot be read as"):
            getattr(entries, f"get_{read}")(name)


def test_name_that_is_not_there_is_null_to_getters_and_a_key_error_in_brackets() -> None:
    entries = MapEntries()
    assert entries.get_string("x") is None
    assert entries.get_bytes("x") is None
    assert entries.get_boolean("x") is False
    with pytest.raises(NumberFormatError):
        entries.get_int("x")
    with pytest.raises(KeyError):
        entries["x"]


# ---- text as numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("yes", False), ("", False)])
def test_text_is_true_if_it_says_so(text: str, expected: bool) -> None:
    assert conversions.as_boolean(text) is expected


LIMITS: Final = {"byte": 7, "short": 15, "int": 31, "long": 63}


@pytest.mark.parametrize("kind", LIMITS)
def test_text_is_a_number_within_the_range_of_its_type(kind: str) -> None:
    convert = getattr(conversions, f"as_{kind}")
    low, high = -(2 ** LIMITS[kind]), 2 ** LIMITS[kind] - 1
    assert (convert(str(low)), convert(str(high)), convert("+7"), convert("007")) == (low, high, 7, 7)
    for text in (str(low - 1), str(high + 1), "", " 1", "1_0", "0x1", "1.0", "1L", "٣", "9" * 10_000):
        with pytest.raises(NumberFormatError, match=f"is no {kind}"):
            convert(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1.0),
        ("-.5", -0.5),
        ("5.", 5.0),
        (" 1e3\n", 1000.0),
        ("1.5f", 1.5),
        ("2D", 2.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
    ],
)
def test_text_is_a_floating_point_number_as_java_reads_it(text: str, expected: float) -> None:
    assert conversions.as_double(text) == expected
    assert conversions.as_float(text) == expected


@pytest.mark.parametrize("text", ["", "inf", "nan", "1_0", "1e", ".", "one", "1.0x"])
def test_text_that_java_would_not_read_is_no_floating_point_number(text: str) -> None:
    for convert in (conversions.as_double, conversions.as_float):
        with pytest.raises(NumberFormatError):
            convert(text)


def test_text_read_as_float_is_rounded_to_32_bits() -> None:
    assert conversions.as_float("0.1") == 0.10000000149011612
    assert conversions.as_float("1e300") == math.inf
    assert math.isnan(conversions.as_float("NaN"))


# ---- numbers as text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1234567.5, "1234567.5"),
        (10_000_000.0, "1.0E7"),
        (-1.5e300, "-1.5E300"),
        (5e-324, "5.0E-324"),  # Java before 19 says 4.9E-324
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Float(0.10000000149011612), "0.1"),
        (Float(3.4028234663852886e38), "3.4028235E38"),
        (Float(0.1), "0.1"),
    ],
)
def test_floating_point_numbers_are_spelled_as_java_does(number: float, text: str) -> None:
    assert conversions.as_string(conversions.typed(number)) == text


@given(st.floats(allow_nan=False))
def test_a_double_as_text_reads_back_as_the_same_double(number: float) -> None:
    assert conversions.as_double(conversions.as_string(number)) == number


@given(st.floats(allow_nan=False, width=32))
def test_a_float_as_text_reads_back_as_the_same_float(number: float) -> None:
    assert conversions.as_float(conversions.as_string(Float(number))) == number


# ---- writing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [(True, bool), (5, Int), (2**31, Long), (Byte(1), Byte), (Short(1), Short), (1.5, float), (Float(1.5), Float)],
)
def test_a_value_has_the_type_that_a_receiver_will_see(given: Value, kind: type) -> None:
    entries = MapEntries()
    entries["x"] = given
    assert type(entries["x"]) is kind


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, 2**63, Byte(128), Float(1e300), [object()], {1: "a"}])
def test_what_no_message_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(MessageFormatError):
        MapEntries()["x"] = value
    with pytest.raises(MessageFormatError):
        Message().properties["x"] = value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("byte", 128),
        ("byte", True),
        ("short", 2**15),
        ("int", 2**31),
        ("int", 1.0),
        ("long", 2**63),
        ("float", 1e39),
        ("float", "1"),
        ("double", 10**400),
        ("string", 5),
        ("char", "ab"),
        ("char", "😀"),
        ("bytes", "text"),
    ],
)
def test_setter_and_writer_refuse_what_their_type_cannot_hold(kind: str, value: Any) -> None:
    entries, stream = MapEntries(), StreamMessage()
    with pytest.raises(MessageFormatError):
        getattr(entries, f"set_{kind}")("x", value)
    with pytest.raises(MessageFormatError):
        getattr(stream, f"write_{kind}")(value)
    assert len(entries) == 0


@pytest.mark.parametrize("kind", READ)
def test_setter_and_writer_write_their_own_type(kind: str) -> None:
    value: Any = {"boolean": True, "char": "c", "string": "s", "bytes": b"b"}.get(kind, 5)
    entries, stream = MapEntries(), StreamMessage()
    getattr(entries, f"set_{kind}")("x", value)
    getattr(stream, f"write_{kind}")(value)
    stream.reset()
    name = {"string": "String", "bytes": "byte[]"}.get(kind, kind)
    assert conversions.type_of(entries["x"]) == conversions.type_of(stream.read_object()) == name


def test_nested_maps_and_lists_are_copied_and_end_somewhere() -> None:
    inner: list[Any] = [1]
    entries = MapEntries()
    entries["x"] = {"inner": inner}
    inner.append(inner)
    assert entries["x"] == {"inner": [1]}
    with pytest.raises(MessageFormatError, match="nest deeper than 32 levels"):
        entries["y"] = inner


def test_stream_holds_no_maps_and_no_lists() -> None:
    for value in ({"a": 1}, [1]):
        with pytest.raises(MessageFormatError, match="no maps and no lists"):
            StreamMessage([value])
