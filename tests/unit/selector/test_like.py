"""A7: LIKE in linear time. What it matches is in tests/vectors/selector, too."""

import pytest

from ackwire.selector.like import SEARCHED_HOLES_LENGTH_MAX, like_matcher


@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 1000 + "%b",  # a regular expression with .* takes longer than the universe has
        "%a" * 1000 + "%b%",
        "a%" * 1000 + "b%c",
        "%" + "a_" * 100 + "b%",
        "%" + "%_a" * 1000 + "b%",
        "%" * 60_000 + "b",
    ],
)
def test_A7_like_has_no_catastrophic_pattern(pattern: str) -> None:
    matches = like_matcher(pattern)
    assert not matches("a" * 100_000)  # at once; with backtracking, beyond the time limit of a test


@pytest.mark.parametrize("size", [10, 1000])
def test_A7_like_finds_what_a_second_try_would_find(size: int) -> None:
    assert like_matcher("%ab%abc%c")("ab" * size + "abcc")
    assert like_matcher("%a_c%")("aab" * size + "axc")
    assert not like_matcher("ab%ba")("aba")  # the ends do not overlap


def test_A7_line_ends_are_characters() -> None:
    assert like_matcher("a%c")("a\r\nc")
    assert like_matcher("a_c")("a\nc")
    assert not like_matcher("abc")("abc\n")


def test_A7_a_search_with_holes_is_limited() -> None:
    holes = "_" * SEARCHED_HOLES_LENGTH_MAX
    assert like_matcher(f"%{holes}%")("x" * SEARCHED_HOLES_LENGTH_MAX)
    assert like_matcher(f"{holes}_%_{holes}")("x" * (2 * SEARCHED_HOLES_LENGTH_MAX + 2))
    with pytest.raises(ValueError, match="more than 256 characters"):
        like_matcher(f"%{holes}_%")
