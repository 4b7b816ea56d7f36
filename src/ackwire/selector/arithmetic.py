"""Arithmetic as ActiveMQ does it: int and long wrap, `/` and `%` are always double, text + anything is text.

Every function takes and gives plain values, with None for unknown, and never raises: what ActiveMQ answers with an
exception (a text minus a number) is unknown here.
"""

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from ackwire.jms.types import Float, Value
from ackwire.selector.effort import charge
from ackwire.selector.numbers import BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, STRING, kind_of, wrap_int, wrap_long

Operation: TypeAlias = Callable[[Value, Value], Value]

JOINED_LENGTH_MAX: Final = 1 << 20
"""Longer texts that `+` would make are unknown: `s + s + s + …` turns a selector into gigabytes."""


def add(left: Any, right: Any) -> Value:
    if type(left) is str:
        return _join(left, right)
    kind = _common_kind(left, right)
    if kind == INT:
        return wrap_int(left + right)
    if kind == LONG:
        return wrap_long(left + right)
    return float(left) + float(right) if kind == DOUBLE else None


def subtract(left: Any, right: Any) -> Value:
    kind = _common_kind(left, right)
    if kind == INT:
        return wrap_int(left - right)
    if kind == LONG:
        return wrap_long(left - right)
    return float(left) - float(right) if kind == DOUBLE else None


def multiply(left: Any, right: Any) -> Value:
    kind = _common_kind(left, right)
    if kind == INT:
        return wrap_int(left * right)
    if kind == LONG:
        return wrap_long(left * right)
    return float(left) * float(right) if kind == DOUBLE else None


def divide(left: Any, right: Any) -> Value:
    if _common_kind(left, right) is None:
        return None
    dividend, divisor = float(left), float(right)
    if divisor:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1, divisor)


def modulo(left: Any, right: Any) -> Value:
    if _common_kind(left, right) is None:
        return None
    dividend, divisor = float(left), float(right)
    if divisor == 0 or math.isinf(dividend):
        return math.nan
    return math.fmod(dividend, divisor)


def negate(value: Any) -> Value:
    """`-value`; unknown for what is no number."""
    kind = kind_of(value)
    if kind in (BYTE, SHORT, INT):  # ActiveMQ raises for byte and short
        return wrap_int(-value)
    if kind == LONG:
        return wrap_long(-value)
    if kind == FLOAT:
        return Float(-value)
    return -float(value) if kind == DOUBLE else None


OPERATIONS: Final[dict[str, Operation]] = {
    "PLUS": add,
    "MINUS": subtract,
    "TIMES": multiply,
    "DIVIDE": divide,
    "MODULO": modulo,
}


def _common_kind(left: Any, right: Any) -> int | None:
    """The type in which two numbers are combined: INT, LONG or DOUBLE; None if one is no number."""
    left_kind, right_kind = kind_of(left), kind_of(right)
    widest = max(left_kind, right_kind)
    if widest > DOUBLE:
        return None
    return INT if widest <= INT else LONG if widest == LONG else DOUBLE


# --------------------------------------------------------------------------------- text + anything


def _join(text: str, value: Value) -> str | None:
    tail = java_text(value)
    if tail is None or len(text) + len(tail) > JOINED_LENGTH_MAX or not charge(len(text) + len(tail)):
        return None
    return text + tail


def java_text(value: Any) -> str | None:
    """What Java's String.valueOf gives, None for what is neither text, number nor boolean."""
    kind = kind_of(value)
    if kind in (STRING, CHAR):
        return str(value)
    if kind <= LONG:
        return str(int(value))
    if kind in (FLOAT, DOUBLE):
        return _float_text(float(value), is_single=kind == FLOAT)
    return str(value).lower() if isinstance(value, bool) else None


def _float_text(number: float, *, is_single: bool) -> str:
    if not math.isfinite(number):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1, number) < 0 else ""
    size = abs(number)
    if size == 0:
        return sign + "0.0"
    shortest = Decimal(_shortest_single(size) if is_single else repr(size)).normalize()
    if len(shortest.as_tuple().digits) == 1:  # Java writes two digits at least, and the best two: 4.9E-324
        shortest = Decimal(f"{size:.2g}").normalize()
    _, digits, exponent = shortest.as_tuple()
    assert isinstance(exponent, int)
    return sign + _decimal_text("".join(map(str, digits)), exponent + len(digits))


def _decimal_text(digits: str, point: int) -> str:
    """0.*digits* times ten to the power of *point*, the way Java writes it: from 10^-3 up to 10^7 without exponent."""
    if not -2 <= point <= 7:
        return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    digits = digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:] or '0'}"


def _shortest_single(size: float) -> str:
    """The shortest text that is this float and no other."""
    for precision in range(1, 9):
        text = f"{size:.{precision}g}"
        try:
            if struct.unpack("f", struct.pack("f", float(text)))[0] == size:
                return text
        except OverflowError:  # rounded up beyond the largest float
            continue
    return f"{size:.9g}"
