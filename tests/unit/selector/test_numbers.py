"""A7: Java's numbers in Python."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.jms.types import Byte, Float, Int, Long, Value
from ackwire.selector.arithmetic import JOINED_LENGTH_MAX, add, divide, java_text, modulo, multiply, negate, subtract
from ackwire.selector.numbers import (
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    OTHER,
    int_as_float,
    kind_of,
    parse_as,
    round_to_float,
)


def test_A7_a_plain_int_is_int_or_long_by_size() -> None:
    assert [kind_of(number) for number in (2**31 - 1, 2**31, 2**63 - 1, 2**63)] == [INT, LONG, LONG, OTHER]
    assert kind_of(True) == BOOLEAN


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (add(Int(2**31 - 1), 1), -(2**31)),
        (add(Long(2**31 - 1), 1), 2**31),
        (add(Byte(127), Byte(1)), 128),
        (subtract(Long(-(2**63)), 1), 2**63 - 1),
        (multiply(2**30, 4), 0),
        (multiply(2**40, 2**40), 0),
        (negate(-(2**31)), -(2**31)),
        (negate(Byte(-128)), 128),
        (divide(7, 2), 3.5),
        (divide(-1, 0), -math.inf),
        (divide(1, -0.0), -math.inf),
        (modulo(-7, 4), -3.0),
        (modulo(7, math.inf), 7.0),
        (subtract("5", 1), None),
        (add(1, "5"), None),
        (add(True, 1), None),
        (negate("5"), None),
        (multiply(None, 1), None),
        (add(2**70, 1), None),
        (add("a", [1]), None),
        (add("a" * JOINED_LENGTH_MAX, "b"), None),
    ],
)
def test_A7_arithmetic_wraps_and_never_raises(result: Value, expected: Value) -> None:
    assert result == expected
    assert type(result) is not bool


def test_A7_division_of_nothing_by_nothing_is_not_a_number() -> None:
    for result in (divide(0, 0), modulo(1, 0), modulo(math.inf, 2), divide(math.nan, 0)):
        assert isinstance(result, float)
        assert math.isnan(result)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (1.2345e-300, "1.2345E-300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (100.0, "100.0"),
        (Float(struct.unpack("f", struct.pack("f", 0.1))[0]), "0.1"),
        (Float(3.4028234663852886e38), "3.4028235E38"),
        (Float(1.401298464324817e-45), "1.4E-45"),
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (True, "true"),
        (Long(-5), "-5"),
        (b"x", None),
        (None, None),
    ],
)
def test_A7_numbers_are_written_as_java_does(value: Value, text: str | None) -> None:
    assert java_text(value) == text


@given(st.floats(allow_nan=False))
def test_A7_doubles_are_rounded_to_floats_as_the_processor_does(number: float) -> None:
    try:
        expected = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        expected = math.copysign(math.inf, number)
    assert round_to_float(number) == expected


@given(st.integers(-(2**53), 2**53))
def test_A7_ints_are_rounded_to_floats_once(number: int) -> None:
    assert int_as_float(number) == struct.unpack("f", struct.pack("f", float(number)))[0]


def test_A7_a_long_is_not_rounded_twice() -> None:
    # Just above half way between two floats; as a double it would be half way, and then go to even.
    assert int_as_float(2**62 + 2**38 + 1) == 2**62 + 2**39


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", INT, 5),
        ("+5", LONG, 5),
        ("128", BYTE, None),
        ("-128", BYTE, -128),
        (" 5", INT, None),
        ("5.0", INT, None),
        ("5_0", INT, None),
        ("٥", INT, None),
        ("9" * 5000, LONG, None),
        (" 5.5d\n", DOUBLE, 5.5),
        ("1e400", DOUBLE, math.inf),
        ("-Infinity", DOUBLE, -math.inf),
        ("inf", DOUBLE, None),
        ("1_0.0", DOUBLE, None),
        (".", DOUBLE, None),
        ("16777217", FLOAT, 16777216.0),
        ("TRUE", BOOLEAN, True),
        ("yes", BOOLEAN, False),
    ],
)
def test_A7_texts_convert_as_javas_value_of(text: str, kind: int, value: Value) -> None:
    assert parse_as(text, kind) == value
