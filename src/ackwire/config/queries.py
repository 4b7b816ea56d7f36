"""Options in the query of a URI, or by name from elsewhere: which there are, what was given, and how it is written.

A `Section` is a group of options in a place: with a prefix, and with the names that ActiveMQ knows and that mean
nothing outside a JVM. `Known` finds options of several sections, `read` turns pairs of name and value into groups, and
`write` does the reverse.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from ackwire.config.fields import Option, did_you_mean, options_of
from ackwire.config.types import Refused, quoted
from ackwire.errors import ConfigError

_log = logging.getLogger(__name__)

MASK: Final = "***"
_LISTED_MAX: Final = 25
"""Names in a message."""


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


@dataclass(frozen=True, slots=True)
class Found:
    """An option by one of its names."""

    name: str
    group: type[Any]
    key: str
    option: Option


@dataclass(frozen=True, slots=True)
class Known:
    """All options of a place, for looking up; *spelling* makes one name of those that mean the same."""

    options: Mapping[str, Found]
    ignored: Mapping[str, str]
    spelling: Callable[[str], str] = str

    @classmethod
    def of(cls, sections: Iterable[Section], spelling: Callable[[str], str] = str) -> "Known":
        options, ignored = {}, {}
        for section in sections:
            for key, option in options_of(section.group).items():
                for name in (section.prefix + name for name in option.names):
                    options[spelling(name)] = Found(name, section.group, key, option)
            ignored.update({spelling(section.prefix + name): reason for name, reason in section.ignored.items()})
        return cls(options, ignored, spelling)

    def __contains__(self, name: str) -> bool:
        return self.spelling(name) in self.options or self.spelling(name) in self.ignored

    def names(self) -> list[str]:
        return [*(found.name for found in self.options.values()), *self.ignored]

    def hint(self, name: str) -> str:
        """The known name that is nearest to *name*, or all of them if there are few."""
        names = self.names()
        listed = f"; known options: {', '.join(names)}" if len(names) <= _LISTED_MAX else ""
        return did_you_mean(name, names) or listed

    def find(self, name: str) -> Found | None:
        """The option of that name; None, with a warning, for one that is ignored. Raises `Refused` if it is unknown."""
        spelt = self.spelling(name)
        if spelt in self.ignored:
            _log.warning("option %s is ignored: %s", spelt, self.ignored[spelt])
            return None
        if spelt not in self.options:
            raise Refused(f"unknown option {quoted(name)}{self.hint(name)}")
        return self.options[spelt]


def read(pairs: Iterable[Pair], known: Known) -> Given:
    """The values given; of several for one option the last. Raises `Refused`, naming the option."""
    given: Given = {}
    for name, value in pairs:
        if found := known.find(name):
            given.setdefault(found.group, {})[found.key] = read_value(found, value)
    return given


def read_value(found: Found, value: str) -> Any:
    """*value* of an option. Raises `Refused`, naming it."""
    try:
        return found.option.type.read_text(value)
    except ConfigError as error:
        raise Refused(f"option {found.name} {error}") from None


def write(section: Section, group: Any, *, secrets: bool) -> list[str]:
    """`name=value` for everything in *group* that is not the default; with *secrets*, or with stars instead."""
    plain = section.group()
    parts = []
    for key, option in options_of(section.group).items():
        value = getattr(group, key)
        if value != getattr(plain, key):
            is_hidden = option.is_secret and not secrets
            shown = MASK if is_hidden else quote(option.type.show(value), safe="/:")
            parts.append(f"{section.prefix}{option.name}={shown}")
    return parts


def pairs_of(query: str, decoded: Callable[[str], str]) -> Sequence[Pair]:
    """The names and values of a query. Raises `Refused` for a name without value."""
    pairs = []
    for part in filter(None, query.split("&")):
        name, separator, value = part.partition("=")
        if not separator:
            raise Refused(f"option {quoted(decoded(name))} has no value")
        pairs.append((decoded(name), decoded(value)))
    return pairs
