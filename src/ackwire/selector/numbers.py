"""Java's primitive types, as selectors see them: which type a value has, how values compare, what a text says.

Types matter because ActiveMQ's results depend on them: int arithmetic wraps at 32 bits, an int becomes a float
before it is compared with one, `-0.0` is below `0.0` and NaN above all. A `Float` is taken to hold a value of 32
bits, as it came from the wire.
"""

import math
import re
from typing import Any, Final

from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.selector.effort import charge

# In the order in which Java widens them. Plain numbers: they are compared for every message.
BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = range(6)
STRING, BOOLEAN, CHAR, OTHER = range(6, 10)

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

INTEGRAL: Final = frozenset({int, Byte, Short, Int, Long})

_KINDS: Final[dict[type, int]] = {
    Byte: BYTE,
    Short: SHORT,
    Int: INT,
    Long: LONG,
    Float: FLOAT,
    float: DOUBLE,
    str: STRING,
    bool: BOOLEAN,
    Char: CHAR,
}


def kind_of(value: Value) -> int:
    """The Java type of *value*; OTHER for what cannot be compared (None, bytes, lists, maps)."""
    if type(value) is int:
        if INT_MIN <= value <= INT_MAX:
            return INT
        return LONG if LONG_MIN <= value <= LONG_MAX else OTHER
    return _KINDS.get(type(value), OTHER)


def wrap_int(number: int) -> int:
    """Java's int overflow."""
    return (number + 2**31) % 2**32 - 2**31


def wrap_long(number: int) -> Long:
    """Java's long overflow. A `Long` even if small: `x + 1` of a long x does not wrap at 32 bits."""
    return Long((number + 2**63) % 2**64 - 2**63)


def int_as_float(number: int) -> float:
    """The float (32 bits) nearest to *number*, halves to even. By way of a double it would be rounded twice."""
    size = abs(number)
    surplus = size.bit_length() - 24
    if surplus <= 0:
        return float(number)
    mantissa, rest = divmod(size, 1 << surplus)
    half = 1 << (surplus - 1)
    if rest > half or (rest == half and mantissa & 1):
        mantissa += 1
    return math.copysign(float(mantissa << surplus), number)


def float_order(left: float, right: float) -> int:
    """Java's Double.compare: -1, 0 or 1; a total order with -0.0 < 0.0 and NaN on top, equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        if left:
            return 0
        return int(math.copysign(1, left) - math.copysign(1, right)) // 2
    return (left != left) - (right != right)


def order(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; None where the types of the two values do not compare."""
    left_kind, right_kind = kind_of(left), kind_of(right)
    if left_kind > DOUBLE or right_kind > DOUBLE:
        return _order_of_same(left, right, left_kind) if left_kind == right_kind != OTHER else None
    if right_kind <= SHORT and right_kind < left_kind:
        return None  # ActiveMQ widens a byte or short only on the left: `5 = b` is false where `b = 5` is true
    if left_kind == DOUBLE or right_kind == DOUBLE:
        return float_order(float(left), float(right))
    if left_kind == FLOAT or right_kind == FLOAT:
        return float_order(_as_float(left, left_kind), _as_float(right, right_kind))
    return int(left > right) - int(left < right)


def order_converting(left: Any, right: Any) -> int | None:
    """`order`, with a text taken for what it says in the other one's type."""
    left_kind, right_kind = kind_of(left), kind_of(right)
    if left_kind == STRING != right_kind:
        left = parse_as(left, right_kind)
    elif right_kind == STRING != left_kind:
        right = parse_as(right, left_kind)
    return order(left, right)


def _order_of_same(left: Any, right: Any, kind: int) -> int | None:
    if kind == STRING:
        if not charge(len(left) + len(right)):
            return None
        if not (left.isascii() and right.isascii()):
            left, right = _utf16(left), _utf16(right)
    return int(left > right) - int(left < right)


def _utf16(text: str) -> bytes:
    """Java orders texts by UTF-16 code units, which differs from ours only beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def _as_float(number: Any, kind: int) -> float:
    return float(number) if kind == FLOAT else int_as_float(number)


# ------------------------------------------------------------------------------ texts that say a number

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT_TEXT: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
_RANGES: Final = {BYTE: 2**7, SHORT: 2**15, INT: 2**31, LONG: 2**63}


def parse_as(text: str, kind: int) -> Value:
    """The value of type *kind* that *text* says, by the rules of Java's valueOf; None if it says none."""
    if kind == BOOLEAN:
        return text.lower() == "true"
    if kind in _RANGES:
        return _parse_integer(text, kind)
    return _parse_float(text.strip(_JAVA_BLANKS), kind) if kind in (FLOAT, DOUBLE) else None


def _parse_integer(text: str, kind: int) -> Value:
    if not _INTEGER_TEXT.fullmatch(text):
        return None
    number, limit = int(text), _RANGES[kind]
    if not -limit <= number < limit:
        return None
    return (Byte, Short, Int, Long)[kind](number)


def _parse_float(text: str, kind: int) -> Value:
    if not _FLOAT_TEXT.fullmatch(text):
        return None
    number = float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))
    return number if kind == DOUBLE else Float(round_to_float(number))


def round_to_float(number: float) -> float:
    """The float (32 bits) nearest to *number*."""
    if not math.isfinite(number) or number == 0:
        return number
    _, exponent = math.frexp(number)
    unit = math.ldexp(1.0, max(exponent - 24, -149))  # what the last bit of such a float is worth
    rounded = round(number / unit) * unit
    return rounded if abs(rounded) < 2.0**128 else math.copysign(math.inf, number)
