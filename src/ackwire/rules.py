"""What a setting may be: the rules that stand in the metadata of a settings dataclass's fields.

A field is declared with one of the functions below (`seconds`, `size`, `count`, …), each of which takes the default,
the range and the reason; `config/` reads, checks and explains settings by these rules alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, TypeVar

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

QUEUE_NAME_LENGTH_MAX: Final = 1024
"""Characters of a queue name in a setting; as a prefix it leaves room for a name behind it."""

_T = TypeVar("_T")
_Seconds = TypeVar("_Seconds", float, float | None)
_Int = TypeVar("_Int", int, int | None)


class Kind(Enum):
    """What sort of value a setting takes."""

    TEXT = "text"
    CHOICE = "choice"
    SWITCH = "switch"
    DIRECTORY = "directory"
    LISTENERS = "list of listener URIs"
    ADDRESS = "host and port"
    FILE = "file"
    PATTERN = "destination pattern"
    QUEUE_NAME = "queue name"
    COUNT = "count"
    FACTOR = "factor"
    SECONDS = "seconds"
    BYTES = "bytes"


class Whole(Enum):
    """What a percentage is a part of."""

    MEMORY = "the machine's memory"
    DISK = "the disk that holds the data directory"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a setting may be, and why it is what it is; kept in the metadata of its field."""

    kind: Kind
    reason: str
    lowest: float = 0
    highest: float = 0
    choices: tuple[str, ...] = ()
    enum: type[Enum] | None = None
    """The choices are the values of this enum, and the setting is one of its members."""
    may_be_empty: bool = False
    """An empty text says: none."""
    percent: int = 0
    """Above 0: bytes may also be a percentage, and by default they are this one."""
    percent_of: Whole = Whole.MEMORY

    @property
    def is_number(self) -> bool:
        return self.kind in (Kind.COUNT, Kind.FACTOR, Kind.SECONDS, Kind.BYTES)

    @property
    def unit(self) -> str:
        """The unit of a plain number, empty if the value is no number or has none."""
        return self.kind.value if self.is_number and self.kind is not Kind.FACTOR else ""


def rules_of(settings: type[Any]) -> dict[str, Rule]:
    """The rules of a settings dataclass, by key."""
    return {key.name: key.metadata["rule"] for key in fields(settings)}


# ---- declaring a field -----------------------------------------------------------------------------------------


def setting(default: _T, rule: Rule) -> _T:
    return field(default=default, metadata={"rule": rule})


def computed(factory: Callable[[], _T], rule: Rule) -> _T:
    """A setting whose default is found out when it is needed."""
    return field(default_factory=factory, metadata={"rule": rule})


def text(default: str, *, length_max: int, reason: str) -> str:
    return setting(default, Rule(Kind.TEXT, reason, 1, length_max))


def choice(*choices: str, reason: str, default: str | None = None) -> str:
    """One of several words, the first unless *default* says otherwise."""
    return setting(default or choices[0], Rule(Kind.CHOICE, reason, choices=choices))


def member_of(enum: type[Enum], *, reason: str) -> dict[str, Rule]:
    """The metadata of a field that is a member of *enum*, whose values are words."""
    return {"rule": Rule(Kind.CHOICE, reason, choices=tuple(member.value for member in enum), enum=enum)}


def switch(default: bool, *, reason: str) -> bool:
    return setting(default, Rule(Kind.SWITCH, reason))


def pattern(default: str, *, reason: str) -> str:
    """Destinations by name or wildcard."""
    return setting(default, Rule(Kind.PATTERN, reason))


def queue_name(default: str, *, reason: str) -> str:
    return setting(default, Rule(Kind.QUEUE_NAME, reason, 1, QUEUE_NAME_LENGTH_MAX))


def seconds(default: _Seconds, *, lowest: float, highest: float, reason: str) -> _Seconds:
    """A duration; None for none of its own."""
    return setting(default, Rule(Kind.SECONDS, reason, lowest, highest))


def size(default: _Int, *, lowest: int, highest: int, reason: str) -> _Int:
    """A number of bytes; None for no limit of its own."""
    return setting(default, Rule(Kind.BYTES, reason, lowest, highest))


def count(default: _Int, *, lowest: int = 1, highest: int, reason: str) -> _Int:
    """A number of things; None for no limit of its own."""
    return setting(default, Rule(Kind.COUNT, reason, lowest, highest))


def factor(default: float, *, lowest: float, highest: float, reason: str) -> float:
    return setting(float(default), Rule(Kind.FACTOR, reason, lowest, highest))
