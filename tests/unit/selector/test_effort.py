"""What one selector may do on one message is bounded, whatever texts the message has."""

import pytest

from ackwire.errors import InvalidSelector
from ackwire.jms.types import Value
from ackwire.selector import compile_selector
from ackwire.selector.effort import STEPS_MAX
from ackwire.selector.lexer import tokenise
from ackwire.selector.like import like_matcher
from ackwire.selector.types import SELECTOR_LENGTH_MAX, SELECTOR_TOKENS_MAX, Lookup


class Charged:
    """Counts what is charged in one evaluation."""

    def __init__(self) -> None:
        self.steps = 0

    def charge(self, steps: int) -> bool:
        self.steps += steps
        return self.steps <= STEPS_MAX


def chain(term: str) -> str:
    """A selector of as many equal terms as is allowed."""
    tokens = len(list(tokenise(f"{term} AND ")))
    return " AND ".join([term] * min(SELECTOR_TOKENS_MAX // tokens, SELECTOR_LENGTH_MAX // (len(term) + 5)))


def lookup(**values: Value) -> Lookup:
    return values.get


LARGE = "ab" * 500_000


@pytest.mark.parametrize(
    "term",
    ["p LIKE '%x%b%'", "p LIKE '%a_x%'", "p NOT LIKE '%a_x%'", "p = q", "p <= q", "p + q <> p", "p + 'x' LIKE '%x%'"],
)
def test_a_chain_over_a_large_text_is_given_up_and_does_not_match(term: str) -> None:
    selector = compile_selector(chain(term))
    assert selector.matches(lookup(p=LARGE, q=LARGE + "")) is False


def test_the_same_selector_matches_a_message_of_usual_size_afterwards() -> None:
    selector = compile_selector(chain("p LIKE '%a_b%'"))
    assert selector.matches(lookup(p=LARGE)) is False
    assert selector.matches(lookup(p="xaxbx")) is True


def test_one_like_on_a_large_text_is_answered() -> None:
    assert compile_selector("p LIKE '%ba%b'").matches(lookup(p=LARGE)) is True
    assert compile_selector("p LIKE '%x%'").matches(lookup(p=LARGE)) is False
    assert compile_selector("p NOT LIKE '%x%'").matches(lookup(p=LARGE)) is True
    assert compile_selector("p NOT LIKE '%' AND p = q").matches(lookup(p=LARGE, q=LARGE)) is False
    assert compile_selector("p = q").matches(lookup(p=LARGE, q="".join(LARGE))) is True


def test_hundreds_of_patterns_on_texts_of_usual_size_are_answered() -> None:
    patterns = [f"p NOT LIKE '%word{number}%'" for number in range(500)]
    selector = compile_selector(" AND ".join(patterns))
    assert selector.matches(lookup(p="some words " * 90)) is True
    assert selector.matches(lookup(p="some words word321 " * 50)) is False


@pytest.mark.parametrize("length", [10, 100, 1000, 40_000])
def test_a_long_search_finds_what_a_short_one_does(length: int) -> None:
    """`str.find` and the linear search agree, with everything that means something in a regular expression."""
    needle = "a.b*(c[d]\n"
    for before in (0, 1, length):
        text = "x" * before + needle + "y" * length
        assert like_matcher(f"%{needle}%")(text) is True
        assert like_matcher(f"%{needle}z%")(text) is False
        assert like_matcher(f"x%{needle}%y")(text) is (before > 0)


def test_what_is_charged_bounds_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search looks at more characters than it was charged for."""
    charged = Charged()
    monkeypatch.setattr("ackwire.selector.like.charge", charged.charge)
    like_matcher("%aaaa%bbbb%c_c%")("a" * 1000 + "b" * 1000 + "c" * 1000)
    assert charged.steps >= 3000


def test_a_selector_of_too_many_words_is_refused_and_a_long_list_is_not() -> None:
    with pytest.raises(InvalidSelector, match="more than 6000 words, numbers and signs"):
        compile_selector(" AND ".join(["a=1"] * 2000))
    listed = ",".join(f"'{number}'" for number in range(8000))
    assert compile_selector(f"a IN ({listed})").matches({"a": "7999"}.get) is True
