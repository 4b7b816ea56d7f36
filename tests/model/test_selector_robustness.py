"""A7: whatever the text and whatever the values, nothing but InvalidSelector comes out."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ackwire.errors import InvalidSelector
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.selector import Selector, compile_selector

NAMES = ("a", "b", "c")
OPERANDS = (
    *NAMES,
    "5",
    "0",
    "2.5",
    "1E400",
    "0x7fffffffffffffff",
    "'x'",
    "''",
    "-9223372036854775808",
    "(a + b)",
    "-c",
)
COMPARISONS = ("{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} BETWEEN b AND {}", "{} + {} LIKE '%x_'", "{} / {} > b")
FRAGMENTS = (*OPERANDS, *" =<>+-*/%(),.'\n", " AND ", " OR ", " NOT ", " IN (", " LIKE ", " IS NULL", "--", "/*", "é")

numbers: st.SearchStrategy[Value] = st.one_of(
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.floats(width=32).map(Float),
    st.floats(),
    st.integers(),
    st.just(10**400),
)
values: st.SearchStrategy[Value] = st.one_of(
    numbers,
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.characters(max_codepoint=0xFFFF).map(Char),
    st.just("\ud800"),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
)
lookups: st.SearchStrategy[Callable[[str], Any]] = st.dictionaries(st.sampled_from(NAMES), values).map(lambda d: d.get)
comparisons = st.builds(str.format, st.sampled_from(COMPARISONS), st.sampled_from(OPERANDS), st.sampled_from(OPERANDS))
conditions: st.SearchStrategy[str] = st.recursive(
    st.one_of(comparisons, st.sampled_from(NAMES), st.sampled_from(["a IN ('x', '')", "b IS NULL", "NULL"])),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("(({}) = ({}))".format, inner, inner),
    ),
    max_leaves=6,
)


def compiled(text: str) -> Selector | None:
    try:
        return compile_selector(text)
    except InvalidSelector:
        return None


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)), lookups)
@settings(max_examples=300, deadline=None)
def test_A7_any_text_compiles_or_is_refused(text: str, lookup: Callable[[str], Any]) -> None:
    selector = compiled(text)
    if selector is not None:
        assert selector.matches(lookup) in (True, False)


@given(conditions, lookups, st.booleans())
@settings(max_examples=300, deadline=None)
def test_A7_any_values_are_wanted_or_not(text: str, lookup: Callable[[str], Any], converts: bool) -> None:
    prefix = "convert_string_expressions:" if converts else ""
    selector, negation = compiled(f"{prefix}{text}"), compiled(f"{prefix}NOT ({text})")
    assert (selector is None) == (negation is None)
    if selector is not None and negation is not None:
        answers = selector.matches(lookup), negation.matches(lookup)
        assert {type(answer) for answer in answers} == {bool}
        assert answers != (True, True)
