"""How options of URIs are declared, read and written; which options there are is in `options.py`.

A group of options is a frozen dataclass whose fields are made by the functions below (`switch`, `number`, …): each
takes ActiveMQ's name, the default and the meaning. A `Section` is such a group in a place: with a prefix, and with
the names that ActiveMQ knows and that mean nothing outside a JVM. `read` turns the pairs of a query into groups,
`write` does the reverse.

Rules, as in ActiveMQ unless said otherwise: names are case-sensitive but for the first letter of the last part; values
are form-encoded, so `%2B` is a plus and `+` is a space; given twice, the last one counts. A value of the wrong type is
an error here; ActiveMQ takes `yes` for false.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote_plus

from ackwire.listener_uri import Refused, did_you_mean

_log = logging.getLogger(__name__)

INT_LOWEST: Final = -(2**31)
INT_HIGHEST: Final = 2**31 - 1
LONG_HIGHEST: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = 4096
"""Characters of a value: the wire format takes 32 767 bytes, and nobody types that many."""
_SHOWN_LENGTH_MAX: Final = 80
MASK: Final = "***"

_Switch = TypeVar("_Switch", bool, bool | None)
_Number = TypeVar("_Number", int, int | None)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name in URIs, what it takes, and what it is for; kept in the metadata of its field."""

    name: str
    takes: str
    meaning: str
    read: Callable[[str], object]
    write: Callable[[Any], str] = str
    aliases: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A group of options in a place of the URI."""

    title: str
    prefix: str
    group: type[Any]
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Known to ActiveMQ, without meaning here: the reason, by name."""
    own: frozenset[str] = frozenset()
    """Names that ActiveMQ does not have."""


Pair = tuple[str, str]
"""Name and value of an option, decoded."""
Given = dict[type[Any], dict[str, Any]]
"""Values by group and field."""


def options_of(group: type[Any]) -> dict[str, Option]:
    """The options of a group, by field."""
    return {key.name: key.metadata["option"] for key in fields(group) if "option" in key.metadata}


def shown(text: str) -> str:
    """*text* in quotation marks, on one line and not too long, for messages."""
    cut = text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"
    clean = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return f'"{clean}"'


# ---- declaring a field -----------------------------------------------------------------------------------------


def switch(name: str, default: _Switch, meaning: str, *, aliases: tuple[str, ...] = ()) -> _Switch:
    option = Option(name, "true or false", meaning, _read_switch, _write_switch, aliases)
    return field(default=default, metadata={"option": option})


def number(
    name: str,
    default: _Number,
    meaning: str,
    *,
    unit: str = "number",
    lowest: int = INT_LOWEST,
    highest: int = INT_HIGHEST,
    clamped: bool = False,
    aliases: tuple[str, ...] = (),
) -> _Number:
    """A whole number; one above *highest* is an error, or taken for *highest* with a warning if *clamped*."""
    read = _read_number(lowest, highest, name if clamped else "")
    return field(default=default, metadata={"option": Option(name, unit, meaning, read, aliases=aliases)})


def milliseconds(name: str, default: int, meaning: str, *, lowest: int = -1, aliases: tuple[str, ...] = ()) -> int:
    return number(name, default, meaning, unit="ms", lowest=lowest, highest=LONG_HIGHEST, aliases=aliases)


def fraction(name: str, default: float, meaning: str, *, aliases: tuple[str, ...] = ()) -> float:
    option = Option(name, "number", meaning, _read_fraction, repr, aliases)
    return field(default=default, metadata={"option": option})


def text(name: str, meaning: str) -> str | None:
    return field(default=None, metadata={"option": Option(name, "text", meaning, _read_text)})


def secret(name: str, meaning: str) -> str | None:
    """A text that neither messages nor `repr` show."""
    option = Option(name, "text", meaning, _read_text, secret=True)
    return field(default=None, repr=False, metadata={"option": option})


def texts(
    name: str, meaning: str, *, read: Callable[[str], object] | None = None, aliases: tuple[str, ...] = ()
) -> tuple[str, ...]:
    option = Option(name, "texts, with commas", meaning, read or read_texts, ",".join, aliases)
    return field(default=(), metadata={"option": option})


def special(option: Option, default: int) -> int:
    """A number with rules of its own."""
    return field(default=default, metadata={"option": option})


# ---- values ----------------------------------------------------------------------------------------------------


def _read_switch(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise Refused(f"must be true or false, and is {shown(value)}")
    return value.lower() == "true"


def _write_switch(value: bool) -> str:
    return "true" if value else "false"


def read_whole(value: str) -> int | None:
    """A whole number, None if *value* is none; the length is bounded because int() takes quadratic time."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else None


def _read_number(lowest: int, highest: int, clamped: str) -> Callable[[str], int]:
    def read(value: str) -> int:
        given = read_whole(value)
        if given is None or given < lowest or (given > highest and not clamped):
            raise Refused(f"must be a number from {lowest} to {highest}, and is {shown(value)}")
        if given > highest:
            _log.warning("option %s: %d is taken for %d, the highest", clamped, given, highest)
        return min(given, highest)

    return read


def _read_fraction(value: str) -> float:
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,18})?(e-?[0-9]{1,2})?", value, re.IGNORECASE):
        return float(value)
    raise Refused(f"must be a number such as 2 or 1.5, and is {shown(value)}")


def _read_text(value: str) -> str:
    if not value:
        raise Refused("has no value")
    if len(value) > TEXT_LENGTH_MAX:
        raise Refused(f"has {len(value)} characters; {TEXT_LENGTH_MAX} is the limit")
    return value


def read_texts(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in _read_text(value).split(",") if part.strip())


# ---- queries ---------------------------------------------------------------------------------------------------


def pairs_of(query: str) -> list[Pair]:
    """The names and values of a query. Raises `Refused` for a name without value and for bad percent signs."""
    pairs = []
    for part in filter(None, query.split("&")):
        name, separator, value = part.partition("=")
        if not separator:
            raise Refused(f"option {shown(_decoded(name))} has no value")
        pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(encoded: str) -> str:
    try:
        return unquote_plus(encoded, errors="strict")
    except UnicodeDecodeError:
        raise Refused("percent signs must stand for UTF-8") from None


def normalised(name: str) -> str:
    """*name* with its last part beginning in lower case: ActiveMQ takes jms.UseAsyncSend for jms.useAsyncSend."""
    before, dot, last = name.rpartition(".")
    return f"{before}{dot}{last[:1].lower()}{last[1:]}"


@dataclass(frozen=True, slots=True)
class Known:
    """All options of a place, for looking up."""

    options: Mapping[str, tuple[type[Any], str, Option]]
    ignored: Mapping[str, str]

    @classmethod
    def of(cls, sections: Iterable[Section]) -> "Known":
        options, ignored = {}, {}
        for section in sections:
            for key, option in options_of(section.group).items():
                for name in (option.name, *option.aliases):
                    options[section.prefix + name] = (section.group, key, option)
            ignored.update({section.prefix + name: reason for name, reason in section.ignored.items()})
        return cls(options, ignored)

    def __contains__(self, name: str) -> bool:
        return normalised(name) in self.options or normalised(name) in self.ignored

    def names(self) -> list[str]:
        return [*self.options, *self.ignored]


def read(pairs: Sequence[Pair], known: Known) -> Given:
    """The values given. Raises `Refused`, naming the option, for one that is unknown or has a bad value."""
    given: Given = {}
    for raw_name, value in pairs:
        name = normalised(raw_name)
        if name in known.ignored:
            _log.warning("option %s is ignored: %s", name, known.ignored[name])
            continue
        if name not in known.options:
            raise Refused(f"unknown option {shown(raw_name)}{did_you_mean(raw_name, known.names())}")
        group, key, option = known.options[name]
        try:
            given.setdefault(group, {})[key] = option.read(value)
        except Refused as refused:
            raise Refused(f"option {name} {refused}") from None
    return given


def warn_of_repetitions(pairs: Sequence[Pair]) -> None:
    for name, times in Counter(normalised(name) for name, _ in pairs).items():
        if times > 1:
            _log.warning("option %s is given more than once: the last one counts", shown(name))


def write(section: Section, group: Any, *, secrets: bool) -> list[str]:
    """`name=value` for everything in *group* that is not the default; with *secrets*, or with stars instead."""
    plain = section.group()
    parts = []
    for key, option in options_of(section.group).items():
        value = getattr(group, key)
        if value != getattr(plain, key):
            hidden = option.secret and not secrets
            parts.append(f"{section.prefix}{option.name}={MASK if hidden else quote(option.write(value), safe='/:')}")
    return parts
