"""JMS's primitive types, for what Python's own numbers cannot tell apart (SEMANTICS A4).

A received property or body value keeps its type: a `Short` is an `int` that remembers that it was a short, so it
can be sent on unchanged. Python's `int` stands for int or long by size, `float` for double, `str` for String,
`bytes` for byte[].
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ackwire.errors import LocalProtocolError


class Byte(int):
    """A signed number of 8 bits."""


class Short(int):
    """A signed number of 16 bits."""


class Int(int):
    """A signed number of 32 bits."""


class Long(int):
    """A signed number of 64 bits."""


class Float(float):
    """A floating point number of 32 bits."""


class Char(str):
    """One UTF-16 code unit."""

    def __new__(cls, value: str) -> "Char":
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise LocalProtocolError(f"a char is one UTF-16 code unit, not {value!r}")
        return super().__new__(cls, value)


Value: TypeAlias = "bool | int | float | str | bytes | Mapping[str, Value] | Sequence[Value] | None"
"""What a property, a map entry, a stream entry or an entry of a nested map or list can hold."""
