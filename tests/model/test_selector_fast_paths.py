"""A7: the functions for common forms agree with the general ones, for every type of value."""

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ackwire.selector.conditions import (
    EQUAL,
    SIGNS,
    Condition,
    compared,
    comparison,
    property_and_number,
    property_equals_text,
)
from tests.model.test_selector_robustness import values

literals = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.sampled_from([0, 0.0, -0.0, 5, math.nan]))


def general(sign: Any, literal: Any) -> Condition:
    return compared(lambda lookup: lookup("x"), lambda _lookup: literal, comparison(sign))


def assert_same(fast: Condition, slow: Condition, value: Any) -> None:
    assert fast.value({"x": value}.get) is slow.value({"x": value}.get)
    assert fast.test({"x": value}.get) is slow.test({"x": value}.get)
    assert fast.test({"x": value}.get) is (slow.value({"x": value}.get) is True)


@given(st.sampled_from([EQUAL, *SIGNS.values()]), literals, st.one_of(values, literals))
@settings(max_examples=500, deadline=None)
def test_A7_a_property_and_a_number(sign: Any, literal: Any, value: Any) -> None:
    if type(value) is int and not -(2**63) <= value < 2**63:
        return  # no Java value
    assert_same(property_and_number("x", sign, literal), general(sign, literal), value)


@given(st.text(max_size=2), values)
@settings(max_examples=200, deadline=None)
def test_A7_a_property_and_a_text(literal: str, value: Any) -> None:
    assert_same(property_equals_text("x", literal), general(EQUAL, literal), value)
    assert_same(property_equals_text("x", literal), general(EQUAL, literal), literal)
