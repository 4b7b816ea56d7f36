"""Times, rates, numbers and pairs on the command line."""

import argparse
from collections.abc import Callable

import pytest

from ackwire.cli import amounts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("2min", 120.0),
        ("3 h", 10800.0),
        ("1d", 86400.0),
    ],
)
def test_times_have_units_and_are_seconds_without(text: str, expected: float) -> None:
    assert amounts.seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("20", 20.0), ("20/s", 20.0), ("30/min", 0.5), ("0.5/s", 0.5), ("36/h", 0.01)]
)
def test_rates_are_per_second_without_a_unit(text: str, expected: float) -> None:
    assert amounts.rate(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (amounts.seconds, ""),
        (amounts.seconds, "-1s"),
        (amounts.seconds, "5 parsecs"),
        (amounts.seconds, "nan"),
        (amounts.seconds, "٣s"),
        (amounts.seconds, "40000d"),
        (amounts.rate, "0/s"),
        (amounts.rate, "1/d"),
        (amounts.rate, "fast"),
        (amounts.whole, "0"),
        (amounts.whole, "-3"),
        (amounts.whole, "1.5"),
        (amounts.priority, "10"),
        (amounts.pair, "name"),
        (amounts.pair, "=value"),
    ],
)
def test_what_is_none_is_refused_with_the_text(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert repr(text) in str(refused.value)


def test_a_pair_is_split_at_its_first_equals_sign() -> None:
    assert amounts.pair("a=b=c") == ("a", "b=c")
    assert amounts.pair("a=") == ("a", "")


def test_an_unknown_word_gets_the_nearest_one_or_all() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match='did you mean "int"'):
        amounts.one_of("type", "itn", ["int", "long"])
    with pytest.raises(argparse.ArgumentTypeError, match="known: int, long"):
        amounts.one_of("type", "zzz", ["int", "long"])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0 s"),
        (0.004, "4 ms"),
        (0.314, "0.31 s"),
        (5.0, "5 s"),
        (12.3, "12 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_times_are_shown_as_exactly_as_people_want_them(number: float, text: str) -> None:
    assert amounts.seconds_text(number) == text
