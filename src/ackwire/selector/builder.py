"""From grammar to functions: what Lark calls for each rule, from the inside out.

An `Expression` is complete as soon as it is made, so nothing here walks a tree, and no depth of nesting can exhaust
the stack while a selector is read. Evaluation takes one call for each level, and levels are limited.

What is allowed where follows ActiveMQ: its parser refuses an expression by its form, not by its possible
values. `TRUE = 5` is refused, `5 = TRUE` is false; `x > 'a'` is refused, `x > y` compares two texts.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, cast

from lark import Token, Transformer

from ackwire.jms.types import Long, Value
from ackwire.selector import conditions
from ackwire.selector.arithmetic import OPERATIONS, Operation, negate
from ackwire.selector.conditions import EQUAL, SIGNS, Condition, Sign, comparison
from ackwire.selector.like import like_matcher
from ackwire.selector.numbers import LONG_MAX, LONG_MIN, order, order_converting
from ackwire.selector.types import Evaluate, Lookup, Problem, Test, XPathLimits
from ackwire.selector.xpath import xpath_test
from ackwire.selector.xpath_parser import InvalidXPath

NESTING_MAX: Final = 256
"""Levels of parentheses, NOT, signs and comparisons of comparisons. Each may be one call deep; Python allows 1000."""

NOT_KNOWN: Final = object()
"""The constant of an expression that has none: its value depends on the message."""


LONG_MIN_UNSIGNED: Final = -LONG_MIN
"""The one number beyond a long that may be written, if a minus stands before it. Known by identity."""


class Role(Enum):
    """What an expression is for ActiveMQ's parser."""

    LITERAL = auto()  # a text or number
    TRUTH_LITERAL = auto()  # TRUE, FALSE, NULL
    PROPERTY = auto()
    CONDITION = auto()
    COMPUTED = auto()


class Expression:
    """A part of a selector, ready to be evaluated."""

    __slots__ = ("constant", "depth", "name", "role", "start", "test", "value")

    def __init__(self, role: Role, start: int, value: Evaluate, *, depth: int = 1) -> None:
        if depth > NESTING_MAX:
            raise Problem(start, f"nested more than {NESTING_MAX} levels deep")
        self.role = role
        self.start = start
        self.value = value
        self.depth = depth
        self.test: Test | None = None  # for conditions only
        self.name = ""  # for properties only
        self.constant: object = NOT_KNOWN


def _constant(role: Role, start: int, constant: Value, *, depth: int = 1) -> Expression:
    expression = Expression(role, start, lambda _lookup: constant, depth=depth)
    expression.constant = constant
    if role is Role.TRUTH_LITERAL:
        is_true = constant is True
        expression.test = lambda _lookup: is_true
    return expression


def _condition(condition: Condition, *parts: Expression) -> Expression:
    expression = Expression(Role.CONDITION, parts[0].start, condition.value, depth=_depth_above(parts))
    expression.test = condition.test
    return expression


def _depth_above(parts: Sequence[Expression]) -> int:
    """The depth of what has these *parts*, which must be fit for use."""
    for part in parts:
        if part.constant is LONG_MIN_UNSIGNED:
            raise _too_large(part.start)
    return 1 + max([part.depth for part in parts])


def condition_of(expression: Expression) -> Condition:
    """*expression* as a condition, if it is one or a property that may hold one."""
    if expression.test is not None:
        return Condition(expression.value, expression.test)
    if expression.role is Role.PROPERTY:
        return conditions.property_is_true(expression.name)
    raise Problem(expression.start, "this is a value; a condition is needed, which is true or false")


class Builder(Transformer[Token, Expression]):
    """One method for each rule of the grammar, with what its parts have become."""

    def __init__(self, *, converts_texts: bool, xpath: XPathLimits | None = None) -> None:
        super().__init__()
        self._xpath = xpath
        self._order = order_converting if converts_texts else order
        self._has_fast_paths = not converts_texts

    # ------------------------------------------------------------------------------------------ AND, OR, NOT

    def any_of(self, parts: list[Expression]) -> Expression:
        return _condition(conditions.any_of([condition_of(part) for part in parts]), *parts)

    def all_of(self, parts: list[Expression]) -> Expression:
        return _condition(conditions.all_of([condition_of(part) for part in parts]), *parts)

    def not_(self, parts: list[Expression]) -> Expression:
        return _condition(conditions.negated(condition_of(parts[0])), *parts)

    # ------------------------------------------------------------------------------------------- comparisons

    def equal(self, parts: list[Expression]) -> Expression:
        _check_equality(*parts)
        return self._compared(EQUAL, *parts)

    def not_equal(self, parts: list[Expression]) -> Expression:
        return self.not_([self.equal(parts)])

    def is_null(self, parts: list[Any]) -> Expression:
        return _condition(conditions.is_null(parts[0].value), parts[0])

    def is_not_null(self, parts: list[Any]) -> Expression:
        return self.not_([self.is_null(parts)])

    def ordered(self, parts: list[Any]) -> Expression:
        left, sign, right = parts
        return self._ordered(left, sign.type, right)

    def between(self, parts: list[Expression]) -> Expression:
        value, low, high = parts
        return self.all_of([self._ordered(value, "GREATER_OR_EQUAL", low), self._ordered(value, "LESS_OR_EQUAL", high)])

    def not_between(self, parts: list[Expression]) -> Expression:
        value, low, high = parts
        return self.any_of([self._ordered(value, "LESS", low), self._ordered(value, "GREATER", high)])

    def _ordered(self, left: Expression, sign: str, right: Expression) -> Expression:
        _check_order(left)
        _check_order(right)
        return self._compared(SIGNS[sign], left, right)

    def _compared(self, sign: Sign, left: Expression, right: Expression) -> Expression:
        if left.role is Role.PROPERTY and self._has_fast_paths:
            constant = right.constant
            if sign is EQUAL and type(constant) is str:
                return _condition(conditions.property_equals_text(left.name, constant), left, right)
            if isinstance(constant, int | float) and not isinstance(constant, bool):
                return _condition(conditions.property_and_number(left.name, sign, constant), left, right)
        compare = comparison(sign, self._order)
        return _condition(conditions.compared(left.value, right.value, compare), left, right)

    # ----------------------------------------------------------------------------------------------- IN, LIKE

    def in_(self, parts: list[Any]) -> Expression:
        subject: Expression = parts[0]
        if subject.role is not Role.PROPERTY:
            raise Problem(subject.start, "only a property can be tested with IN")
        texts = frozenset(_text_of(token) for token in parts[1:])
        return _condition(conditions.property_in(subject.name, texts), subject)

    def not_in(self, parts: list[Any]) -> Expression:
        return self.not_([self.in_(parts)])

    def like(self, parts: list[Any]) -> Expression:
        subject: Expression = parts[0]
        pattern, *escape = parts[1:]
        try:
            matches = like_matcher(_text_of(pattern), _escape_of(escape[0]) if escape else None)
        except ValueError as error:
            raise Problem(pattern.start_pos, str(error)) from None
        return _condition(conditions.like(subject.value, matches), subject)

    def not_like(self, parts: list[Any]) -> Expression:
        return self.not_([self.like(parts)])

    # ------------------------------------------------------------------------------------------------- XPATH

    def xpath(self, parts: list[Any]) -> Expression:
        [text] = parts
        assert self._xpath is not None  # otherwise the lexer has refused it
        try:
            test = xpath_test(_text_of(text), self._xpath)
        except InvalidXPath as error:
            raise Problem(text.start_pos, f"invalid XPath: {error}") from None
        expression = Expression(Role.CONDITION, text.start_pos, test)
        expression.test = test
        return expression

    # --------------------------------------------------------------------------------------------- arithmetic

    def arithmetic(self, parts: list[Any]) -> Expression:
        first: Expression = parts[0]
        operands: list[Expression] = parts[0::2]
        steps = [(OPERATIONS[sign.type], part.value) for sign, part in zip(parts[1::2], parts[2::2], strict=True)]
        depth = _depth_above(operands)
        value = _chain(first.value, steps)
        if all(operand.constant is not NOT_KNOWN for operand in operands):
            return _constant(Role.COMPUTED, first.start, value(_nothing), depth=depth)
        return Expression(Role.COMPUTED, first.start, value, depth=depth)

    def plus(self, parts: list[Any]) -> Expression:
        return self.group(parts[1:])  # whatever it stands before: +'a' is 'a'

    def minus(self, parts: list[Any]) -> Expression:
        sign, operand = parts
        depth, evaluate = operand.depth + 1, operand.value
        if operand.constant is not NOT_KNOWN:
            is_long_min = operand.constant is LONG_MIN_UNSIGNED
            negative = Long(LONG_MIN) if is_long_min else negate(operand.constant)
            return _constant(Role.COMPUTED, sign.start_pos, negative, depth=depth)
        return Expression(Role.COMPUTED, sign.start_pos, lambda lookup: negate(evaluate(lookup)), depth=depth)

    def group(self, parts: list[Expression]) -> Expression:
        """Parentheses leave an expression what it was, one level deeper."""
        (inner,) = parts
        inner.depth += 1
        if inner.depth > NESTING_MAX:
            raise Problem(inner.start, f"nested more than {NESTING_MAX} levels deep")
        return inner

    # ------------------------------------------------------------------------------- properties and literals

    def identifier(self, parts: list[Token]) -> Expression:
        name = str(parts[0])
        expression = Expression(Role.PROPERTY, _start_of(parts[0]), lambda lookup: lookup(name))
        expression.name = name
        return expression

    def string(self, parts: list[Token]) -> Expression:
        return _constant(Role.LITERAL, _start_of(parts[0]), _text_of(parts[0]))

    def decimal(self, parts: list[Token]) -> Expression:
        digits = parts[0].rstrip("lL")
        if digits == str(LONG_MIN_UNSIGNED):
            return _constant(Role.LITERAL, _start_of(parts[0]), LONG_MIN_UNSIGNED)
        if len(digits) > len(str(LONG_MAX)):  # the first is no zero; and Python does not read thousands of digits
            raise _too_large(_start_of(parts[0]))
        return _exact(parts[0], int(digits))

    def hexadecimal(self, parts: list[Token]) -> Expression:
        return _exact(parts[0], int(parts[0], 16))

    def octal(self, parts: list[Token]) -> Expression:
        return _exact(parts[0], int(parts[0], 8))

    def floating(self, parts: list[Token]) -> Expression:
        return _constant(Role.LITERAL, _start_of(parts[0]), float(parts[0]))

    def true(self, parts: list[Token]) -> Expression:
        return _constant(Role.TRUTH_LITERAL, _start_of(parts[0]), True)

    def false(self, parts: list[Token]) -> Expression:
        return _constant(Role.TRUTH_LITERAL, _start_of(parts[0]), False)

    def null(self, parts: list[Token]) -> Expression:
        return _constant(Role.TRUTH_LITERAL, _start_of(parts[0]), None)


def _check_equality(left: Expression, right: Expression) -> None:
    for operand in (left, right):
        if operand.constant is None and operand.role is Role.TRUTH_LITERAL:
            raise Problem(operand.start, "NULL cannot be compared; use IS NULL or IS NOT NULL")
    if left.role is Role.TRUTH_LITERAL and right.role is Role.LITERAL:
        raise Problem(right.start, "TRUE and FALSE cannot be compared with a text or number")


def _check_order(operand: Expression) -> None:
    if operand.role is Role.LITERAL and isinstance(operand.constant, str):
        raise Problem(operand.start, "a text can be compared by = and <> only")
    if operand.role in (Role.TRUTH_LITERAL, Role.CONDITION):
        raise Problem(operand.start, "a condition can be compared by = and <> only; NOT may need parentheses")


def _exact(token: Token, number: int) -> Expression:
    if number > LONG_MAX:
        raise _too_large(_start_of(token))
    return _constant(Role.LITERAL, _start_of(token), number)


def _too_large(position: int) -> Problem:
    return Problem(position, f"this number is beyond the largest long, {LONG_MAX}")


def _chain(first: Evaluate, steps: Sequence[tuple[Operation, Evaluate]]) -> Evaluate:
    """Operations one after the other, in a loop: a sum can have thousands of terms."""

    def value(lookup: Lookup) -> Value:
        result = first(lookup)
        for operation, evaluate in steps:
            if result is None:
                return None
            operand = evaluate(lookup)
            result = None if operand is None else operation(result, operand)
        return result

    return value


def _nothing(_name: str) -> Value:
    return None


def _text_of(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _escape_of(token: Token) -> str:
    escape = _text_of(token)
    if len(escape) != 1 or ord(escape) > 0xFFFF:  # one of Java's characters, like ActiveMQ
        raise Problem(_start_of(token), "ESCAPE takes one character")
    return escape


def _start_of(token: Token) -> int:
    return cast(int, token.start_pos)
