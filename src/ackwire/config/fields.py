"""Options: how settings of the broker, options of listeners and clients, and those of Spark are declared.

An option is a field of a frozen dataclass, made by one of the functions below. It has a type with unit and range
(`types.py`), a default, a reason, and the name that users write where that is not the field's own. The declaration
yields checks, `ackwire config show` (`writing.py`), the tables of the guides (`tools/option_tables.py`) and the hint at
the nearest name. How options are found in the query of a URI: `queries.py`.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, TypeVar

from ackwire.config.types import Bytes, Choice, Factor, Number, Seconds, Switch, Text, Type

QUEUE_NAME_LENGTH_MAX: Final = 1024
"""Characters of a queue name in a setting; as a prefix it leaves room for a name behind it."""

_T = TypeVar("_T")
_Seconds = TypeVar("_Seconds", float, float | None)
_Int = TypeVar("_Int", int, int | None)


@dataclass(frozen=True, slots=True)
class Option:
    """What an option may be, and why; kept in the metadata of its field."""

    type: Type
    reason: str
    name: str = ""
    """What users write; `options_of` fills in the field's name where they write that."""
    aliases: tuple[str, ...] = ()
    is_secret: bool = False
    """No message, `str` or `repr` shows its value."""
    uses: frozenset[Enum] = frozenset()
    """What it can be used for; empty: everything."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


def options_of(group: type[Any]) -> dict[str, Option]:
    """The options of a dataclass, by field."""
    found = {key.name: key.metadata["option"] for key in fields(group) if "option" in key.metadata}
    return {key: option if option.name else replace(option, name=key) for key, option in found.items()}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "…"?` for the known word nearest to *word*, or nothing when none is near."""
    by_lower_case = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    return f'; did you mean "{by_lower_case[near[0]]}"?' if near else ""


# ---- declaring a field -----------------------------------------------------------------------------------------


def option(default: _T, declared: Option) -> _T:
    return field(default=default, repr=not declared.is_secret, metadata={"option": declared})


def computed(factory: Callable[[], _T], declared: Option) -> _T:
    """An option whose default is found out when it is needed."""
    return field(default_factory=factory, metadata={"option": declared})


def text(default: str, *, length_max: int, reason: str) -> str:
    return option(default, Option(Text(length_max), reason))


def choice(*choices: str, reason: str, default: str | None = None) -> str:
    """One of several words, the first unless *default* says otherwise."""
    return option(default or choices[0], Option(Choice(choices), reason))


def member(default: _T, *, reason: str) -> _T:
    """A member of an enum whose values are words."""
    enum = type(default)
    assert issubclass(enum, Enum)
    return option(default, Option(Choice(tuple(it.value for it in enum), enum), reason))


def switch(default: bool, *, reason: str) -> bool:
    return option(default, Option(Switch(), reason))


def seconds(default: _Seconds, *, lowest: float, highest: float, reason: str) -> _Seconds:
    """A duration; None for none of its own."""
    return option(default, Option(Seconds(lowest, highest), reason))


def size(default: _Int, *, lowest: int, highest: int, reason: str) -> _Int:
    """A number of bytes; None for no limit of its own."""
    return option(default, Option(Bytes(lowest, highest), reason))


def count(default: _Int, *, lowest: int = 1, highest: int, reason: str) -> _Int:
    """A number of things; None for no limit of its own."""
    return option(default, Option(Number(lowest, highest), reason))


def factor(default: float, *, lowest: float, highest: float, reason: str) -> float:
    return option(float(default), Option(Factor(float(lowest), float(highest)), reason))
