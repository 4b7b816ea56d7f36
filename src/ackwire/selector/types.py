"""The types that the parts of a selector share."""

from collections.abc import Callable
from typing import TypeAlias

from ackwire.values import Value

Lookup: TypeAlias = Callable[[str], Value]
"""Gives the value of a header or property, None where the message has none."""

Evaluate: TypeAlias = Callable[[Lookup], Value]
"""The value of an expression; for a condition True, False or None, which is SQL's unknown."""

Test: TypeAlias = Callable[[Lookup], bool]
"""Whether a condition is true. Takes unknown for false, so it can stop earlier than `Evaluate`."""


class Problem(Exception):
    """What is wrong with a selector, and where; the parser makes it an `InvalidSelector`."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position
        """The offset into the selector, from 0."""
        self.text = text
