"""What Ackwire answers to a selector, in the letters of the vectors.

One letter for each message: T true, F false, U unknown, E where ActiveMQ raises; or "invalid" for all. `matches` shows
only T, so the negation tells F from U.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ackwire.errors import InvalidSelector
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.selector import compile_selector
from ackwire.selector.parser import CONVERTING_PREFIX

Properties: TypeAlias = Mapping[str, Sequence[str]]
"""Name to type and text."""

TYPES: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": lambda text: text == "true",
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": lambda text: Float(struct.unpack("f", struct.pack("f", float(text)))[0]),
    "double": float,
    "char": Char,
    "string": str,
    "bytes": str.encode,
    "list": lambda text: [text],
}


def decoded(properties: Properties) -> dict[str, Value]:
    """The values of a message of the vectors."""
    return {name: TYPES[kind](text) for name, (kind, text) in properties.items()}


def answers(text: str, messages: Sequence[Properties]) -> str:
    """One letter for each message, or "invalid"."""
    try:
        selector, negation = compile_selector(text), compile_selector(negated(text))
    except InvalidSelector:
        return "invalid"
    letters = {(True, False): "T", (False, True): "F", (False, False): "U"}
    found = [decoded(properties).get for properties in messages]
    return "".join(letters[selector.matches(lookup), negation.matches(lookup)] for lookup in found)


def negated(text: str) -> str:
    prefix = CONVERTING_PREFIX if text.startswith(CONVERTING_PREFIX) else ""
    return f"{prefix}NOT ({text.removeprefix(prefix)})"


def is_departure(theirs: str, ours: str) -> bool:
    """Whether the two differ only where ActiveMQ raises an exception and Ackwire has an answer."""
    return len(theirs) == len(ours) and all(t in ("E", o) for t, o in zip(theirs, ours, strict=True))
