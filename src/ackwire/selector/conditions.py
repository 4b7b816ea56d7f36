"""Conditions as functions: comparisons, IN, LIKE, IS NULL, and AND, OR, NOT over them.

Each maker gives a `Condition`: the same condition once in three values and once as a plain yes or no. The second is
what a message meets; the first serves where unknown and false differ, below NOT and `=`. Common forms (a property
and a literal) have functions of their own, which agree with the general ones: tests/model/test_selector_fast_paths.py.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ackwire.jms.types import Value
from ackwire.selector.like import Matcher
from ackwire.selector.numbers import INTEGRAL, OTHER, kind_of, order
from ackwire.selector.types import Evaluate, Lookup, Test

Truth: TypeAlias = bool | None
Order: TypeAlias = Callable[[Value, Value], int | None]
Compare: TypeAlias = Callable[[Value, Value], Truth]
Sign: TypeAlias = Callable[[Any, Any], bool]

SIGNS: Final[dict[str, Sign]] = {
    "LESS": operator.lt,
    "LESS_OR_EQUAL": operator.le,
    "GREATER": operator.gt,
    "GREATER_OR_EQUAL": operator.ge,
}
EQUAL: Final[Sign] = operator.eq


class Condition(NamedTuple):
    """A condition twice: as True, False or None, and as the answer to whether it is true."""

    value: Evaluate
    test: Test


# ------------------------------------------------------------------------------- how two values compare


def comparison(sign: Sign, order_of: Order = order) -> Compare:
    """The function that compares two values with *sign*."""
    return _equality(order_of) if sign is EQUAL else _ordering(sign, order_of)


def _equality(order_of: Order) -> Compare:
    def is_equal(left: Value, right: Value) -> Truth:
        # ActiveMQ's rules for NULL: unknown only if the left one alone is; JMS says unknown for all three.
        if left is None:
            return True if right is None else None
        return right is not None and order_of(left, right) == 0

    return is_equal


def _ordering(sign: Sign, order_of: Order) -> Compare:
    def is_ordered(left: Value, right: Value) -> Truth:
        result = order_of(left, right)
        if result is not None:
            return sign(result, 0)
        return None if kind_of(left) == OTHER or kind_of(right) == OTHER else False

    return is_ordered


# ------------------------------------------------------------------------------------------- comparisons


def compared(left: Evaluate, right: Evaluate, compare: Compare) -> Condition:
    """Any two expressions."""

    def value(lookup: Lookup) -> Truth:
        return compare(left(lookup), right(lookup))

    def test(lookup: Lookup) -> bool:
        return compare(left(lookup), right(lookup)) is True

    return Condition(value, test)


def property_equals_text(name: str, text: str) -> Condition:
    """`name = 'text'`."""

    def value(lookup: Lookup) -> Truth:
        found = lookup(name)
        return None if found is None else type(found) is str and found == text

    def test(lookup: Lookup) -> bool:
        found = lookup(name)
        return found == text and type(found) is str  # a Char equals no text

    return Condition(value, test)


def property_and_number(name: str, sign: Sign, number: int | float) -> Condition:
    """A property on the left, a number that is known on the right."""
    compare, as_double, is_integral = comparison(sign), float(number), type(number) in INTEGRAL
    if number != number:  # NaN, of 0 / 0
        return compared(lambda lookup: lookup(name), lambda _lookup: number, compare)

    def value(lookup: Lookup) -> Truth:
        return compare(lookup(name), number)

    def test(lookup: Lookup) -> bool:
        found: Any = lookup(name)
        kind = type(found)
        if is_integral and kind in INTEGRAL:
            return sign(found, number)
        if kind is float and found and found == found:  # zeros and NaN have an order of their own
            return sign(found, as_double)
        return compare(found, number) is True

    return Condition(value, test)


def is_null(inner: Evaluate) -> Condition:
    def test(lookup: Lookup) -> bool:
        return inner(lookup) is None

    return Condition(test, test)


def property_in(name: str, texts: frozenset[str]) -> Condition:
    """`name IN (…)`; unknown for what is no text."""

    def value(lookup: Lookup) -> Truth:
        found = lookup(name)
        return found in texts if type(found) is str else None

    def test(lookup: Lookup) -> bool:
        found = lookup(name)
        return type(found) is str and found in texts

    return Condition(value, test)


def like(inner: Evaluate, matches: Matcher) -> Condition:
    def value(lookup: Lookup) -> Truth:
        found = inner(lookup)
        return matches(found) if type(found) is str else None if found is None else False

    def test(lookup: Lookup) -> bool:
        found = inner(lookup)
        return type(found) is str and matches(found) is True

    return Condition(value, test)


def property_is_true(name: str) -> Condition:
    """A property alone, as a condition."""

    def value(lookup: Lookup) -> Truth:
        found = lookup(name)
        return None if found is None else found is True

    def test(lookup: Lookup) -> bool:
        return lookup(name) is True

    return Condition(value, test)


# -------------------------------------------------------------------------------------------- AND, OR, NOT


def negated(inner: Condition) -> Condition:
    evaluate = inner.value

    def value(lookup: Lookup) -> Truth:
        found = evaluate(lookup)
        return None if found is None else not found

    def test(lookup: Lookup) -> bool:
        return evaluate(lookup) is False

    return Condition(value, test)


def all_of(terms: Sequence[Condition]) -> Condition:
    values, tests = [term.value for term in terms], [term.test for term in terms]

    def value(lookup: Lookup) -> Truth:
        result: Truth = True
        for evaluate in values:
            found = evaluate(lookup)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    def test(lookup: Lookup) -> bool:
        for is_met in tests:  # noqa: SIM110 – a generator takes twice as long
            if not is_met(lookup):
                return False
        return True

    return Condition(value, _both(*tests) if len(tests) == 2 else test)


def any_of(terms: Sequence[Condition]) -> Condition:
    values, tests = [term.value for term in terms], [term.test for term in terms]

    def value(lookup: Lookup) -> Truth:
        result: Truth = False
        for evaluate in values:
            found = evaluate(lookup)
            if found is True:
                return True
            if found is None:
                result = None
        return result

    def test(lookup: Lookup) -> bool:
        for is_met in tests:  # noqa: SIM110 – a generator takes twice as long
            if is_met(lookup):
                return True
        return False

    return Condition(value, _either(*tests) if len(tests) == 2 else test)


def _both(first: Test, second: Test) -> Test:
    return lambda lookup: first(lookup) and second(lookup)


def _either(first: Test, second: Test) -> Test:
    return lambda lookup: first(lookup) or second(lookup)
