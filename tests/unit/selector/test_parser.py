"""A7: what a selector is, what it is not, and what the refusal says. Meanings are in tests/vectors/selector."""

import gc
from functools import partial

import pytest

from ackwire.errors import InvalidSelector
from ackwire.jms.types import Value
from ackwire.selector import SELECTOR_LENGTH_MAX, compile_selector, parser, prepare, reading_of
from ackwire.selector.builder import NESTING_MAX
from ackwire.selector.parser import CACHED_COUNT_MAX, CACHED_LENGTH_MAX, _compile_cached, _in_use


def nested(opening: str, levels: int, closing: str = "") -> str:
    return f"{opening * levels}a{closing * levels}"


def test_A7_a_selector_knows_its_text_and_what_it_asks_for() -> None:
    selector = compile_selector("color = 'price' AND (price > $min OR color IN ('x')) AND JMSPriority >= 4")
    assert selector.text.startswith("color = 'price'")
    assert selector.identifiers == {"color", "price", "$min", "JMSPriority"}


def test_A7_headers_are_looked_up_like_properties() -> None:
    selector = compile_selector("JMSDeliveryMode = 'PERSISTENT' AND JMSType LIKE 'car%' AND NOT JMSRedelivered")
    headers: dict[str, Value] = {"JMSDeliveryMode": "PERSISTENT", "JMSType": "cars", "JMSRedelivered": False}
    assert selector.matches(headers.get) is True
    headers["JMSRedelivered"] = True
    assert selector.matches(headers.get) is False
    assert selector.matches(lambda _name: None) is False


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "ends too early"),
        ("  ", 3, "ends too early"),
        ("color =", 8, "ends too early"),
        ("color = AND x", 9, "keyword AND"),
        ("color == 'red'", 8, "unexpected '='"),
        ("color = 'red", 9, "no closing quote"),
        ('color = "red"', 9, "single quotes"),
        ("color ! 'red'", 7, "unexpected character '!'"),
        ("a \x00", 3, "unexpected character"),
        ("price > 'a'", 9, "= and <> only"),
        ("NOT price > 5", 5, "parentheses"),
        ("price = NULL", 9, "IS NULL"),
        ("TRUE = 5", 8, "cannot be compared"),
        ("price", 1, ""),
        ("price + 1", 1, "a condition is needed"),
        ("a AND 5", 7, "a condition is needed"),
        ("5 IN ('5')", 1, "only a property"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "one character"),
        ("x = 9223372036854775808", 5, "largest long"),
        ("x = 0x8000000000000000", 5, "largest long"),
        ("XPATH '//a'", 1, "XPATH is not offered"),
        ("x = 1 OR xquery 'a'", 10, "XQUERY is not offered"),
        ("REGEX('a', b)", 6, "functions are not offered"),
        ("a\u2028b = 1", 1, "not an identifier"),
        ("convert_string_expressions:a = ", 32, "ends too early"),
    ],
)
def test_A7_a_refusal_says_what_is_wrong_and_where(text: str, position: int, problem: str) -> None:
    if not problem:
        compile_selector(text)  # a property alone may hold a boolean
        return
    with pytest.raises(InvalidSelector, match=f"^invalid selector at character {position},.*{problem}"):
        compile_selector(text)


@pytest.mark.parametrize("name", ["été", "größe", "цвет", "色", "हिन्दी", "a$b", "_", "$"])
def test_A7_identifiers_are_javas(name: str) -> None:
    selector = compile_selector(f"{name} = 1")
    assert selector.identifiers == {name}
    assert selector.matches({name: 1}.get)


def test_A7_no_other_alphabet_makes_a_keyword() -> None:
    assert compile_selector("ıs = 1").identifiers == {"ıs"}  # its upper case is "IS"


# -------------------------------------------------------------------------------------------------- limits


def test_A7_length_is_limited_before_any_work() -> None:
    longest = "a = '" + "x" * (SELECTOR_LENGTH_MAX - 6) + "'"
    compile_selector(longest)
    for text in (longest + " ", "(" * 1_000_000):
        with pytest.raises(InvalidSelector, match=f"{len(text)} characters; at most {SELECTOR_LENGTH_MAX}"):
            compile_selector(text)


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("+", "")])
def test_A7_nesting_is_limited_without_exhausting_the_stack(opening: str, closing: str) -> None:
    selector = compile_selector(nested(opening, (NESTING_MAX - 1) // len(opening.split() or "x"), closing))
    assert selector.matches({"a": True}.get) in (True, False)
    with pytest.raises(InvalidSelector, match=f"more than {NESTING_MAX} levels"):
        compile_selector(nested(opening, 1_500, closing))


@pytest.mark.parametrize("text", ["a" + " IS NULL" * 1000, "a" + " = b" * 1000, "-" * 1000 + "a = 1"])
def test_A7_comparisons_of_comparisons_are_nested_too(text: str) -> None:
    with pytest.raises(InvalidSelector, match=f"more than {NESTING_MAX} levels"):
        compile_selector(text)


def test_A7_chains_are_wide_and_not_deep() -> None:
    assert compile_selector(" OR ".join(f"a = {i}" for i in range(1, 600))).matches({"a": 599}.get)
    assert compile_selector(" AND ".join(["a = 1"] * 600)).matches({"a": 1}.get)
    assert compile_selector("a" + " + 1" * 1200 + " = 1201").matches({"a": 1}.get)


@pytest.mark.parametrize("unit", ["a /* ", "--", "'' ", "( ", "/*/", "1."])
@pytest.mark.timeout(5)
def test_A7_no_text_takes_long_to_refuse(unit: str) -> None:
    with pytest.raises(InvalidSelector):
        compile_selector((unit * SELECTOR_LENGTH_MAX)[:SELECTOR_LENGTH_MAX])


# --------------------------------------------------------------------------------------------------- cache


def test_A7_selectors_are_cached_by_text_up_to_a_bound() -> None:
    assert compile_selector("cached = 1") is compile_selector("cached = 1")
    for number in range(CACHED_COUNT_MAX + 1):
        compile_selector(f"cached = {number}")
    assert _compile_cached.cache_info().currsize == CACHED_COUNT_MAX


def test_long_selector_is_read_once_for_all_who_have_it_and_then_forgotten() -> None:
    long = f"a = '{'x' * CACHED_LENGTH_MAX}'"
    selector = compile_selector(long)
    assert compile_selector(long) is selector
    del selector
    gc.collect()
    assert not [text for text, _ in _in_use if text == long]


@pytest.mark.parametrize("text", [" OR ".join(["a = 1"] * 400), f"a IN ({','.join(['1'] * 600)}"])
def test_long_selector_can_be_read_step_by_step_with_the_same_result(text: str) -> None:
    reading = reading_of(text)
    assert reading is not None
    steps = sum(1 for _ in iter(reading.goes_on, False))
    assert steps > 20
    outcomes = []
    for read in (reading.result, partial(compile_selector, text)):
        try:
            outcomes.append(read().text)
        except InvalidSelector as error:
            outcomes.append(str(error))
    assert len(set(outcomes)) == 1


def test_A7_text_conversion_belongs_to_one_selector() -> None:
    assert compile_selector("convert_string_expressions:a = 5").matches({"a": "5"}.get)
    assert not compile_selector("a = 5").matches({"a": "5"}.get)


def test_what_the_first_selector_needs_can_be_made_ahead() -> None:
    parser._parser.cache_clear()
    prepare()
    assert parser._parser.cache_info().currsize == 2, "one with conversion of texts, one without"
