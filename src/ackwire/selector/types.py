"""The types that the parts of a selector share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from ackwire.jms.types import Value

Lookup: TypeAlias = Callable[[str], Value]
"""Gives the value of a header or property, None where the message has none."""

Evaluate: TypeAlias = Callable[[Lookup], Value]
"""The value of an expression; for a condition True, False or None, which is SQL's unknown."""

Test: TypeAlias = Callable[[Lookup], bool]
"""Whether a condition is true. Takes unknown for false, so it can stop earlier than `Evaluate`."""


SELECTOR_LENGTH_MAX: Final = 64 * 1024
"""Characters. Far above what people write."""

SELECTOR_TOKENS_MAX: Final = 6000
"""Words, numbers and signs. What stands in the list of an IN does not count. Reading the longest selectors takes
200 ms: a broker does that in slices (`reading_of`)."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Selector:
    """A selector, ready for use; `compile_selector` makes it."""

    text: str
    identifiers: frozenset[str] = field(repr=False)
    """The headers and properties that it asks for."""
    matches: Test = field(repr=False, compare=False)
    """Whether the message whose values the given function looks up is wanted. Never raises of itself.

    A field and not a method: it is called for every message, and this saves a call.
    """
    cost: int = field(default=1, repr=False, compare=False)
    """How many times the work of an ordinary selector one message may take, for those who cut searches into slices."""


class Reading(Protocol):
    """A selector that is read step by step: `goes_on` until it says no, then the `result`.

    As long as the result is kept, `compile_selector` gives it to others at once.
    """

    def goes_on(self) -> bool:
        """Take one step, of less than a millisecond mostly; whether there are more."""
        ...

    def result(self) -> Selector:
        """What was read. Raises `InvalidSelector`."""
        ...


@dataclass(frozen=True, slots=True)
class XPathLimits:
    """How much work one message may make for one `XPATH`."""

    body_bytes_max: int
    nodes_max: int
    steps_max: int


class Problem(Exception):
    """What is wrong with a selector, and where; the parser makes it an `InvalidSelector`."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position
        """The offset into the selector, from 0."""
        self.text = text
