"""Destination names: what a message is addressed to (SEMANTICS A8).

A `Destination` is a kind and a name. Values are interned by `destination`, so that the same name is the same
object and equality on the message path is identity. Text form: `queue://orders`, `topic://prices`,
`temp-queue://ID:…`, `temp-topic://ID:…`.
"""

from enum import Enum
from functools import lru_cache
from typing import Final, final

from ackwire.config.fields import did_you_mean
from ackwire.errors import InvalidDestination

NAME_LENGTH_MAX: Final = 4096
"""Characters in one destination name, composites included: longer ones are mistakes or attacks."""

_DERIVED_LENGTH_MAX: Final = NAME_LENGTH_MAX + 512
"""The same for names that the broker derives: advisory topics, dead-letter queues with a prefix."""


class Kind(Enum):
    """The four kinds, by their prefix in text."""

    QUEUE = "queue"
    TOPIC = "topic"
    TEMP_QUEUE = "temp-queue"
    TEMP_TOPIC = "temp-topic"

    @property
    def is_queue(self) -> bool:
        return self in (Kind.QUEUE, Kind.TEMP_QUEUE)

    @property
    def is_temporary(self) -> bool:
        return self in (Kind.TEMP_QUEUE, Kind.TEMP_TOPIC)


@final
class Destination:
    """A kind and a name; make one with `destination`."""

    __slots__ = ("_hash", "is_composite", "is_plain_queue", "kind", "name")

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.is_composite = "," in name
        """True for `A,B,topic://C`: one name, several destinations."""
        self.is_plain_queue = kind is Kind.QUEUE and not self.is_composite
        """True for one queue that is not temporary: where most messages go."""
        self._hash = hash((kind.value, name))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Destination) and self.kind is other.kind and self.name == other.name

    def __repr__(self) -> str:
        return f"{self.kind.value}://{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        """Spark sends some to its workers."""
        return Destination, (self.kind, self.name)

    @property
    def is_wildcard(self) -> bool:
        """True if a level of the name is `*` or `>`."""
        return any(level in ("*", ">") for level in self.name.split("."))

    def parts(self) -> "tuple[Destination, ...]":
        """The destinations a composite stands for; the destination itself otherwise."""
        if not self.is_composite:
            return (self,)
        return tuple(parse_destination(part.strip(), default=self.kind) for part in self.name.split(","))


_interned: Final = lru_cache(maxsize=4096)(Destination)


def destination(kind: Kind, name: str) -> Destination:
    """The destination of that kind and name. Raises `InvalidDestination` for an empty or oversized name."""
    if not name:
        raise InvalidDestination(f"a {kind.value} needs a name, and this one is empty")
    _check_length(kind, name, NAME_LENGTH_MAX)
    return _interned(kind, name)


def peer_destination(kind: Kind, name: str) -> Destination:
    """As `destination`, for a name that a peer chose: it must be text that logs, JSON and metrics can hold."""
    if not is_unicode(name):
        raise InvalidDestination(f"a {kind.value} cannot be called {name!r}: the name holds half a surrogate pair")
    return destination(kind, name)


def is_unicode(text: str) -> bool:
    """Whether *text* can be written in UTF-8. Java's strings, and JSON's, may hold half of a surrogate pair."""
    return text.isascii() or not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def derived_destination(kind: Kind, name: str) -> Destination:
    """A destination whose name the broker made from another: it may be a little longer."""
    _check_length(kind, name, _DERIVED_LENGTH_MAX)
    return _interned(kind, name)


def _check_length(kind: Kind, name: str, limit: int) -> None:
    if len(name) > limit:
        raise InvalidDestination(f"{kind.value} name of {len(name)} characters is too long: the limit is {limit}")


def parse_destination(text: str, *, default: Kind = Kind.QUEUE) -> Destination:
    """Read `queue://a`, `topic://b`, `temp-queue://c`, `temp-topic://d`, or a bare name of kind *default*.

    Any other prefix is part of the name, as in ActiveMQ: names come over the wire as their owners chose them. What a
    person or a program writes is read by `parse_written_destination`.
    """
    prefix, separator, rest = text.partition("://")
    if separator:
        for kind in Kind:
            if kind.value == prefix:
                return destination(kind, rest)
    return destination(default, text)


def parse_written_destination(text: str, *, default: Kind = Kind.QUEUE) -> Destination:
    """Read a destination that a person or a program wrote: a mistyped prefix is an error, not part of a name.

    Behind one of the four prefixes everything is a name: `queue://http://orders`. Raises `InvalidDestination`.
    """
    found = parse_destination(text, default=default)
    prefix, separator, _ = text.partition("://")
    is_prefixed = bool(separator) and any(kind.value == prefix for kind in Kind)
    for position, part in enumerate(text.split(",")):
        if position or not is_prefixed:
            _check_prefix(part.strip())
    return found


def _check_prefix(text: str) -> None:
    """Raise `InvalidDestination` if *text* begins with what looks like a prefix and is none."""
    known = [kind.value for kind in Kind]
    prefix, colon, rest = text.partition(":")
    if not colon or (prefix in known and rest.startswith("//")):
        return
    if prefix.lower() in known:
        raise InvalidDestination(f'"{text}" is not understood; did you mean "{prefix.lower()}://{rest.lstrip("/")}"?')
    if not rest.startswith("//"):
        return  # names may have colons
    hint = did_you_mean(prefix, known) or f"; known prefixes: {', '.join(f'{kind}://' for kind in known)}"
    raise InvalidDestination(f'unknown prefix "{prefix}"{hint} (queue://{text} is a queue with that name)')


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether *name* is one that *pattern* stands for: `*` is any one level, `>` at the end is all the rest.

    As in ActiveMQ, `a.>` matches `a` too.
    """
    if ">" not in pattern and "*" not in pattern:
        return pattern == name
    wanted = pattern.split(".")
    levels = name.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return True
        if index >= len(levels) or want not in ("*", levels[index]):
            return index == len(levels) and wanted[index:] == [">"]
    return len(levels) == len(wanted)
