"""JMS's conversion table: which type a value can be read as, and which values can be written (JMS 1.1 §3.5.4, §3.11.3).

A value is written as one type and may be read as another:

            read as  boolean byte short char int long float double String byte[]
    written boolean     x                                          x
            byte              x    x         x    x                x
            short                  x         x    x                x
            char                        x                          x
            int                              x    x                x
            long                                  x                x
            float                                      x     x     x
            double                                           x     x
            String      x     x    x         x    x    x     x     x
            byte[]                                                       x

Anything else is a `MessageFormatError`. No value at all (null) is False as a boolean and None as a String or byte[].
As in JMS, text that is no number, and null where a number is asked for, raise `NumberFormatError`; null as a char
raises `MessageFormatError`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from struct import Struct
from typing import Final

from ackwire.client.errors import MessageFormatError, NumberFormatError
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire.limits import DEFAULT_LIMITS

_READABLE_AS: Final[dict[str, frozenset[str]]] = {
    "boolean": frozenset({"boolean", "String"}),
    "byte": frozenset({"byte", "short", "int", "long", "String"}),
    "short": frozenset({"short", "int", "long", "String"}),
    "char": frozenset({"char", "String"}),
    "int": frozenset({"int", "long", "String"}),
    "long": frozenset({"long", "String"}),
    "float": frozenset({"float", "double", "String"}),
    "double": frozenset({"double", "String"}),
    "String": frozenset({"boolean", "byte", "short", "int", "long", "float", "double", "String"}),
    "byte[]": frozenset({"byte[]"}),
}
_RANGES: Final = {
    "byte": range(-(2**7), 2**7),
    "short": range(-(2**15), 2**15),
    "int": range(-(2**31), 2**31),
    "long": range(-(2**63), 2**63),
}
_INTEGER_CLASSES: Final[dict[str, type[int]]] = {"byte": Byte, "short": Short, "int": Int, "long": Long}
_FLOAT32: Final = Struct(">f")
_FLOAT32_DIGITS_MAX: Final = 9
_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]+")
_REAL_TEXT: Final = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?[\x00-\x20]*"
)
_SHOWN_CHARACTERS_MAX: Final = 40


def type_of(value: object) -> str:
    """The JMS name of *value*'s type; Python's own `int` is an int or a long by its size."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return _integer_type(value)
    if isinstance(value, float):
        return "float" if isinstance(value, Float) else "double"
    if isinstance(value, str):
        return "char" if isinstance(value, Char) else "String"
    if isinstance(value, bytes | bytearray | memoryview):
        return "byte[]"
    if isinstance(value, Mapping):
        return "map"
    return "list" if isinstance(value, Sequence) else type(value).__name__


def _integer_type(value: int) -> str:
    for name, cls in _INTEGER_CLASSES.items():
        if isinstance(value, cls):
            return name
    return "int" if value in _RANGES["int"] else "long"


# ---- reading ---------------------------------------------------------------------------------------------------


def as_boolean(value: Value) -> bool:
    """*value* read as a boolean: a String is true if it says so in any case, null is false."""
    if value is None:
        return False
    _check_readable(value, "boolean")
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def as_byte(value: Value) -> int:
    """*value* read as a signed number of 8 bits."""
    return _as_integer(value, "byte")


def as_short(value: Value) -> int:
    """*value* read as a signed number of 16 bits."""
    return _as_integer(value, "short")


def as_int(value: Value) -> int:
    """*value* read as a signed number of 32 bits."""
    return _as_integer(value, "int")


def as_long(value: Value) -> int:
    """*value* read as a signed number of 64 bits."""
    return _as_integer(value, "long")


def as_char(value: Value) -> str:
    """*value* read as one UTF-16 code unit; only a char can be."""
    _check_readable(value, "char")
    assert isinstance(value, Char)
    return str.__str__(value)


def as_float(value: Value) -> float:
    """*value* read as a floating point number of 32 bits."""
    if isinstance(value, str) and not isinstance(value, Char):
        return _rounded_to_float32(_parsed_real(value, "float"))
    return _as_real(value, "float")


def as_double(value: Value) -> float:
    """*value* read as a floating point number of 64 bits."""
    if isinstance(value, str) and not isinstance(value, Char):
        return _parsed_real(value, "double")
    return _as_real(value, "double")


def as_string(value: Value) -> str | None:
    """*value* read as a String: numbers in Java's spelling, null as None."""
    if value is None:
        return None
    _check_readable(value, "String")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, str):
        return str.__str__(value)
    assert isinstance(value, int)
    return str(int(value))


def as_bytes(value: Value) -> bytes | None:
    """*value* read as byte[]; null as None."""
    if value is None:
        return None
    _check_readable(value, "byte[]")
    assert isinstance(value, bytes | bytearray | memoryview)
    return bytes(value)


def _check_readable(value: Value, wanted: str) -> None:
    written = type_of(value)
    if wanted not in _READABLE_AS.get(written, ()):
        raise MessageFormatError(f"a {written} cannot be read as {wanted}")


def _as_integer(value: Value, wanted: str) -> int:
    if value is None:
        raise NumberFormatError(f"no value (null) cannot be read as {wanted}")
    _check_readable(value, wanted)
    if isinstance(value, str):
        return _parsed_integer(value, wanted)
    assert isinstance(value, int)
    return int(value)


def _as_real(value: Value, wanted: str) -> float:
    if value is None:
        raise NumberFormatError(f"no value (null) cannot be read as {wanted}")
    _check_readable(value, wanted)
    assert isinstance(value, float)
    return float(value)


def _parsed_integer(text: str, wanted: str) -> int:
    try:
        number = int(text) if _INTEGER_TEXT.fullmatch(text) else None
    except ValueError:  # more digits than Python converts
        number = None
    if number is None or number not in _RANGES[wanted]:
        raise NumberFormatError(f"the text {_shown(text)} is no {wanted}")
    return number


def _parsed_real(text: str, wanted: str) -> float:
    match = _REAL_TEXT.fullmatch(text)
    if match is None:
        raise NumberFormatError(f"the text {_shown(text)} is no {wanted}")
    return float(match.group(1))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…")


# ---- numbers as Java spells them -------------------------------------------------------------------------------


def _float_text(value: float) -> str:
    """Float.toString or Double.toString: the fewest digits that tell the number from its neighbours."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    size = abs(float(value))
    return sign + _java_digits(Decimal(_shortest_float32(size) if isinstance(value, Float) else repr(size)))


def _shortest_float32(size: float) -> str:
    for precision in range(_FLOAT32_DIGITS_MAX):
        text = f"{size:.{precision}e}"
        if _rounded_to_float32(float(text)) == size:
            return text
    return repr(size)  # a Float that holds more than 32 bits


def _java_digits(number: Decimal) -> str:
    if not number:
        return "0.0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    exponent = number.adjusted()
    if 0 <= exponent < 7:
        return f"{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"
    if -3 <= exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _rounded_to_float32(number: float) -> float:
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


# ---- writing ---------------------------------------------------------------------------------------------------


def typed(value: Value, *, depth: int = 1) -> Value:
    """*value* as a receiver will see it: an `int` becomes an `Int` or a `Long`, a nested map or list is copied.

    Raises `MessageFormatError` for what no message can hold. The map around an entry is the first level of nesting, as
    for those who read it.
    """
    kind = type_of(value)
    if kind == "null":
        return None
    if kind == "boolean":
        return bool(value)
    if kind in _RANGES:
        return integer_of(value, kind)
    if kind in ("float", "double"):
        return float_of(value) if kind == "float" else double_of(value)
    if kind == "char":
        return value
    if kind == "String":
        return string_of(value)
    if kind == "byte[]":
        return bytes(value)  # type: ignore[arg-type]
    return _nested(value, depth)


def _nested(value: Value, depth: int) -> Value:
    if depth >= DEFAULT_LIMITS.nesting_max:
        raise MessageFormatError(f"maps and lists nest deeper than {DEFAULT_LIMITS.nesting_max} levels")
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise MessageFormatError("the names in a nested map are text")
        return {key: typed(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [typed(item, depth=depth + 1) for item in value]
    raise MessageFormatError(f"{type(value).__name__} is not a JMS type")


def integer_of(value: object, kind: str) -> int:
    """A number of the JMS type *kind*: byte, short, int or long."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageFormatError(f"{type(value).__name__} cannot be written as {kind}")
    if int(value) not in _RANGES[kind]:
        raise MessageFormatError(f"a number of {int(value).bit_length()} bits does not fit into {kind}")
    return _INTEGER_CLASSES[kind](value)


def float_of(value: object) -> Float:
    """A float of 32 bits, rounded as a receiver will see it."""
    number = double_of(value)
    rounded = _rounded_to_float32(number)
    if math.isinf(rounded) and not math.isinf(number):
        raise MessageFormatError(f"{number} does not fit into float")
    return Float(rounded)


def double_of(value: object) -> float:
    """A float of 64 bits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise MessageFormatError(f"{type(value).__name__} cannot be written as a floating point number")
    try:
        return float(value)
    except OverflowError:
        raise MessageFormatError("the number does not fit into double") from None


def char_of(value: object) -> Char:
    """One UTF-16 code unit."""
    if not isinstance(value, str) or len(value) != 1 or ord(value) > 0xFFFF:
        raise MessageFormatError(f"a char is one UTF-16 code unit, not {_shown(str(value))}")
    return Char(value)


def boolean_of(value: object) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, bool):
        raise MessageFormatError(f"{type(value).__name__} cannot be written as boolean")
    return value


def string_of(value: object) -> str | None:
    """Text, or None."""
    if value is not None and not isinstance(value, str):
        raise MessageFormatError(f"{type(value).__name__} cannot be written as String")
    return None if value is None else str.__str__(value)


def bytes_of(value: object) -> bytes | None:
    """Bytes, or None."""
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        raise MessageFormatError(f"{type(value).__name__} cannot be written as byte[]")
    return None if value is None else bytes(value)
