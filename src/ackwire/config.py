"""Every setting, once: type, unit, default, range and reason, and the TOML file they are read from.

A table of the file is a frozen dataclass here, and a key has the same name in both, so one search finds it
everywhere. Durations and sizes are plain numbers in the unit that the name ends in, or text with a unit:
`"30 s"`, `"500 ms"`, `"64 KiB"`, `"1 GB"` (KB, MB, GB count in thousands; KiB, MiB, GiB in 1024s).

`load` reads a file, `problems` names everything wrong with a text, `render` writes a complete file that
explains itself. How it works: tomllib says what the file means, `_Reader` checks it against the rules
below, and because tomllib forgets where things stood, `_KeyLocator` finds the lines again.
"""

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from ackwire.errors import ConfigError
from ackwire.listener_uri import (
    FRAME_BYTES_HIGHEST,
    INACTIVITY_MS_HIGHEST,
    did_you_mean,
    parse_listener_uri,
)

_T = TypeVar("_T")

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

_SECONDS_PER_UNIT: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}
_BYTES_PER_UNIT: Final = {
    unit: Decimal(factor)
    for unit, factor in (
        ("B", 1), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB),
    )
}  # fmt: skip


# --- the rules a value follows -------------------------------------------------------------------------


class Kind(Enum):
    """What sort of value a setting takes."""

    TEXT = "text"
    CHOICE = "choice"
    DIRECTORY = "directory"
    LISTENERS = "list of listener URIs"
    COUNT = "count"
    SECONDS = "seconds"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a setting may be, and why it is what it is; kept in the metadata of its field."""

    kind: Kind
    reason: str
    lowest: float = 0
    highest: float = 0
    choices: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of a plain number, empty if the value is no number."""
        return self.kind.value if self.kind in (Kind.COUNT, Kind.SECONDS, Kind.BYTES) else ""


def _setting(default: _T, rule: Rule) -> _T:
    return field(default=default, metadata={"rule": rule})


def _seconds(default: float, *, lowest: float, highest: float, reason: str) -> float:
    return _setting(float(default), Rule(Kind.SECONDS, reason, lowest, highest))


def _bytes(default: int, *, lowest: int, highest: int, reason: str) -> int:
    return _setting(default, Rule(Kind.BYTES, reason, lowest, highest))


def _count(default: int, *, lowest: int = 1, highest: int, reason: str) -> int:
    return _setting(default, Rule(Kind.COUNT, reason, lowest, highest))


def _choice(*choices: str, reason: str) -> str:
    return _setting(choices[0], Rule(Kind.CHOICE, reason, choices=choices))


# --- the settings --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The broker as a whole."""

    name: str = _setting(
        "localhost",
        Rule(Kind.TEXT, "Clients see it as the broker's name; ActiveMQ's default is the same.", 1, 255),
    )


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Where clients connect."""

    uris: tuple[str, ...] = _setting(
        ("tcp://127.0.0.1:61616",),
        Rule(
            Kind.LISTENERS,
            "Loopback until told otherwise, because there is no authentication yet. Schemes: tcp, nio, ssl, "
            "auto and their combinations; options follow a question mark.",
            1,
            64,
        ),
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where messages are kept."""

    kind: str = _choice("memory", reason="The memory store forgets everything when the broker stops.")
    data: str | None = _setting(
        None, Rule(Kind.DIRECTORY, "The directory of stores that write files; the memory store uses none.")
    )


@dataclass(frozen=True, slots=True)
class HandshakeSettings:
    """What a peer may do before it has logged in: little, so that strangers cost little."""

    frame_bytes_max: int = _bytes(
        64 * KIB,
        lowest=4 * KIB,
        highest=MIB,
        reason="The largest frame before login; a real client's handshake commands are below 1 KiB each.",
    )
    wire_format_timeout_seconds: float = _seconds(
        10,
        lowest=0.1,
        highest=600,
        reason="A peer must have sent its WireFormatInfo by then; clients send it at once.",
    )
    login_timeout_seconds: float = _seconds(
        60,
        lowest=0.1,
        highest=3600,
        reason="A peer must have finished its ConnectionInfo by then. The Java client sends it lazily, at "
        "start() or createSession(), so a short limit would break programs that work with ActiveMQ.",
    )
    tls_timeout_seconds: float = _seconds(
        10,
        lowest=0.1,
        highest=600,
        reason="The TLS handshake must be over by then, on listeners that use TLS.",
    )
    tls_handshakes_max: int = _count(
        256,
        highest=100_000,
        reason="TLS handshakes at once on one listener, at least 256 KiB of memory each; more are closed.",
    )


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Limits on what is decoded, checked before memory is taken; a peer beyond them is closed."""

    frame_bytes_max: int = _bytes(
        100 * MIB,
        lowest=64 * KIB,
        highest=FRAME_BYTES_HIGHEST,
        reason="The largest frame, so the largest message; ActiveMQ's shipped configuration says the same.",
    )
    inflated_bytes_max: int = _bytes(
        100 * MIB,
        lowest=64 * KIB,
        highest=FRAME_BYTES_HIGHEST,
        reason="The largest body after decompression; a small frame can inflate a thousandfold.",
    )
    map_entries_max: int = _count(
        65_536, highest=16_777_216, reason="Entries of one map: properties, or the body of a map message."
    )
    list_entries_max: int = _count(
        65_536, highest=16_777_216, reason="Entries of one list, or elements of one array of a command."
    )
    nesting_max: int = _count(
        32, highest=100, reason="How deep maps and lists may nest; deeper ones are an attack on the stack."
    )
    cache_bytes_max: int = _bytes(
        4 * MIB,
        lowest=64 * KIB,
        highest=GIB,
        reason="What the marshalling cache of one peer may hold, where a listener turns the cache on.",
    )


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Limits for each connection."""

    connections_max: int = _count(
        10_000,
        highest=1_000_000,
        reason="Connections at once on one listener; more are closed. Its URI may say maximumConnections.",
    )
    write_pause_bytes: int = _bytes(
        MIB,
        lowest=4 * KIB,
        highest=GIB,
        reason="Output waiting for a peer above which no more messages are dispatched to it.",
    )
    read_pause_bytes: int = _bytes(
        4 * MIB,
        lowest=4 * KIB,
        highest=GIB,
        reason="Output waiting for a peer above which nothing more is read from it: its requests would only "
        "add answers.",
    )
    max_inactivity_duration_seconds: float = _seconds(
        30,
        lowest=0,
        highest=INACTIVITY_MS_HIGHEST / 1000,
        reason="A peer silent for longer is taken for dead; the smaller value of both sides counts, 0 turns "
        "the check off. ActiveMQ's default.",
    )
    max_inactivity_initial_delay_seconds: float = _seconds(
        10,
        lowest=0,
        highest=INACTIVITY_MS_HIGHEST / 1000,
        reason="When the first inactivity check is due; the smaller value of both sides counts. ActiveMQ's default.",
    )
    sessions_max: int = _count(10_000, highest=1_000_000, reason="Sessions of one connection.")
    producers_max: int = _count(10_000, highest=1_000_000, reason="Producers of one connection.")
    consumers_max: int = _count(10_000, highest=1_000_000, reason="Consumers of one connection.")


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """Limits for queues and topics."""

    count_max: int = _count(
        100_000,
        highest=10_000_000,
        reason="Destinations in all, temporary ones included; clients create them by name, and by mistake.",
    )
    topic_pending_bytes_max: int = _bytes(
        64 * MIB,
        lowest=64 * KIB,
        highest=64 * GIB,
        reason="Messages waiting for one slow non-durable subscriber; beyond it the oldest are dropped.",
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How much the broker may hold, and what producers feel when it is full."""

    memory_bytes_max: int = _bytes(
        GIB,
        lowest=MIB,
        highest=1024 * GIB,
        reason="Bytes of messages in memory; beyond it producers wait, consumers go on.",
    )
    when_full: str = _choice("block", "fail", reason="block: a send waits for space. fail: it gets an error at once.")
    block_timeout_seconds: float = _seconds(
        0,
        lowest=0,
        highest=86_400,
        reason="A blocked send gets an error after this long; 0: it waits as long as it takes, as in ActiveMQ.",
    )
    held_bytes_max: int = _bytes(
        MIB,
        lowest=0,
        highest=GIB,
        reason="Sends of one connection that may wait for space before the broker stops reading from it.",
    )


@dataclass(frozen=True, slots=True)
class ShutdownSettings:
    """How the broker stops."""

    drain_timeout_seconds: float = _seconds(
        5, lowest=0, highest=3600, reason="Peers get this long to take what was sent; then they are cut off."
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, to standard error."""

    format: str = _choice("text", "json", reason="text for people, json for machines: one object per line.")
    level: str = _setting(
        "info",
        Rule(
            Kind.CHOICE,
            "The least important records that are written.",
            choices=("debug", "info", "warning", "error"),
        ),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `Settings()` is the default configuration."""

    broker: BrokerSettings = BrokerSettings()
    listen: ListenSettings = ListenSettings()
    store: StoreSettings = StoreSettings()
    handshake: HandshakeSettings = HandshakeSettings()
    wire: WireSettings = WireSettings()
    connection: ConnectionSettings = ConnectionSettings()
    destinations: DestinationSettings = DestinationSettings()
    limits: LimitSettings = LimitSettings()
    shutdown: ShutdownSettings = ShutdownSettings()
    log: LogSettings = LogSettings()


_ORDERED: Final = (
    ("handshake", "wire_format_timeout_seconds", "login_timeout_seconds"),
    ("connection", "write_pause_bytes", "read_pause_bytes"),
)
"""Pairs (table, lower, upper): the first key must not be above the second, or the second has no effect."""

_TABLES: Final[Mapping[str, type[Any]]] = {table.name: type(table.default) for table in fields(Settings)}


def _rules(table: str) -> dict[str, Rule]:
    """The rules of a table, by key."""
    return {key.name: _rule(key) for key in fields(_TABLES[table])}


def _rule(key: "Field[Any]") -> Rule:
    rule = key.metadata["rule"]
    assert isinstance(rule, Rule)
    return rule


# --- reading -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong with a configuration text. *key* is empty if the text is not TOML at all."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.line}: {self.key}: {self.message}" if self.key else f"{self.line}: {self.message}"


def load(path: str | Path) -> Settings:
    """The settings of a file. Raises `ConfigError` naming the file, the first problem and its line."""
    settings, found = _read(read_text(path))
    if found:
        rest = f" (and {len(found) - 1} more: ackwire config check {path})" if len(found) > 1 else ""
        raise ConfigError(f"{path}:{found[0]}{rest}")
    return settings


def problems(text: str) -> list[Problem]:
    """Everything wrong with a configuration text, by line; empty if it can be used."""
    return _read(text)[1]


def read_text(path: str | Path) -> str:
    """The text of a configuration file. Raises `ConfigError` if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from None


def with_setting(settings: Settings, table: str, key: str, value: object) -> Settings:
    """*settings* with one value replaced, checked as in a file. Raises `ConfigError` without its name."""
    checked = _read_value(_rules(table)[key], value)
    return replace(settings, **{table: replace(getattr(settings, table), **{key: checked})})


def _read(text: str) -> tuple[Settings, list[Problem]]:
    """The settings, with defaults where something is wrong, and what is wrong."""
    try:
        document = tomllib.loads(text)
        lines = _KeyLocator(text).scan()
    except ValueError as error:
        return Settings(), [_syntax_problem(text, error)]
    except RecursionError:
        return Settings(), [Problem(1, "", "not TOML that can be read: nested too deeply")]
    reader = _Reader(lines)
    settings = reader.read(document)
    return settings, sorted(reader.problems)


def _syntax_problem(text: str, error: ValueError) -> Problem:
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
    message = str(error)[: place.start()] if place else str(error)
    line = int(place[1]) if place and place[1] else text.rstrip().count("\n") + 1
    return Problem(line, "", f"not TOML: {message[:1].lower()}{message[1:]}")


_Path = tuple[str | int, ...]


class _Reader:
    """Turns a parsed document into settings and collects the problems on the way."""

    def __init__(self, lines: Mapping[_Path, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines

    def read(self, document: Mapping[str, object]) -> Settings:
        sections: dict[str, Any] = {}
        for name, value in document.items():
            if name not in _TABLES:
                self._note((name,), _unknown_table(name, value))
            elif not isinstance(value, dict):
                self._note((name,), f"must be a table: [{name}]")
            else:
                sections[name] = self._section(name, value)
        settings = Settings(**sections)
        self._check_order(settings)
        return settings

    def _section(self, table: str, given: Mapping[str, object]) -> object:
        rules = _rules(table)
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key not in rules:
                self._note((table, key), _unknown_key(table, key))
                continue
            try:
                values[key] = self._value(rules[key], (table, key), value)
            except ConfigError as error:
                self._note((table, key), str(error))
        return _TABLES[table](**values)

    def _value(self, rule: Rule, path: _Path, value: object) -> object:
        if rule.kind is not Kind.LISTENERS or not isinstance(value, list):
            return _read_value(rule, value)
        good = []
        for index, item in enumerate(value):  # each wrong URI is a problem with a line of its own
            try:
                good.append(_read_listener(item))
            except ConfigError as error:
                self._note((*path, index), str(error))
        return tuple(good) if len(good) < len(value) else _read_value(rule, value)

    def _check_order(self, settings: Settings) -> None:
        wrong = {problem.key for problem in self.problems}
        for table, lower, upper in _ORDERED:
            section = getattr(settings, table)
            if wrong & {f"{table}.{lower}", f"{table}.{upper}"}:
                continue  # what was wrong is at its default now, which says nothing
            if getattr(section, lower) <= getattr(section, upper):
                continue
            # Only a key that was given has a line; the other one is at its default.
            named, other = (lower, upper) if (table, lower) in self._lines else (upper, lower)
            limit = _show(_rules(table)[other], getattr(section, other))
            comparison = "at most" if named == lower else "at least"
            self._note((table, named), f"must be {comparison} {other} = {limit}")

    def _note(self, path: _Path, message: str) -> None:
        key = path[0] if len(path) == 1 else f"{path[0]}.{path[1]}"
        if len(path) > 2:
            key = f"{key}[{path[2]}]"
        self.problems.append(Problem(self._lines[path], _one_line(str(key)), _one_line(message)))


def _unknown_table(name: str, value: object) -> str:
    if isinstance(value, dict):
        hint = did_you_mean(name, _TABLES) or f"; known tables: {', '.join(_TABLES)}"
        return f"unknown table{hint}"
    owner = next((table for table in _TABLES if name in _rules(table)), None)
    return f"unknown setting{f'; it belongs into [{owner}]' if owner else ': settings stand in tables'}"


def _unknown_key(table: str, key: str) -> str:
    hint = did_you_mean(key, _rules(table))
    if not hint:
        owner = next((other for other in _TABLES if key in _rules(other)), None)
        known = ", ".join(_rules(table))
        hint = f"; it belongs into [{owner}]" if owner else f"; known in [{table}]: {known}"
    return f"unknown setting{hint}"


def _one_line(text: str) -> str:
    """*text* with control characters escaped, so that one problem stays one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# --- single values -------------------------------------------------------------------------------------


def _read_value(rule: Rule, value: object) -> object:
    """*value* as the field takes it. Raises `ConfigError` saying what it must be."""
    match rule.kind:
        case Kind.LISTENERS:
            return _in_number(rule, _read_listeners(value))
        case Kind.CHOICE:
            if value not in rule.choices:
                choices = " or ".join(f'"{choice}"' for choice in rule.choices)
                raise ConfigError(f"must be {choices}, and is {_quoted(value)}")
            return value
        case Kind.TEXT | Kind.DIRECTORY:
            return _read_text(rule, value)
        case _:
            return _read_number(rule, value)


def _read_listeners(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f'must be a list like ["tcp://127.0.0.1:61616"], and is {_quoted(value)}')
    return tuple(_read_listener(item) for item in value)


def _read_listener(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f'must be text like "tcp://127.0.0.1:61616", and is {_quoted(value)}')
    parse_listener_uri(value)
    return value


def _in_number(rule: Rule, uris: tuple[str, ...]) -> tuple[str, ...]:
    if not rule.lowest <= len(uris) <= rule.highest:
        raise ConfigError(f"must list from {rule.lowest} to {rule.highest} URIs, and lists {len(uris)}")
    return uris


def _read_text(rule: Rule, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"must be text, and is {_quoted(value)}")
    if not value or not value.isprintable():
        raise ConfigError(f"must be printable text, and is {_quoted(value)}")
    if rule.kind is Kind.TEXT and len(value) > rule.highest:
        raise ConfigError(f"must have at most {rule.highest} characters, and has {len(value)}")
    return value


def _read_number(rule: Rule, value: object) -> int | float:
    number = _with_unit(rule, value) if isinstance(value, str) and rule.kind is not Kind.COUNT else value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise ConfigError(f"must be {_example(rule)}, and is {_quoted(value)}")
    # Written so that NaN fails too.
    if not rule.lowest <= number <= rule.highest:
        low, high = _show(rule, rule.lowest), _show(rule, rule.highest)
        raise ConfigError(f"must be from {low} to {high}, and is {_quoted(value)}")
    if rule.kind is Kind.SECONDS:
        return float(number)
    if isinstance(number, float) or number != int(number):
        raise ConfigError(f"must be a whole number of {rule.unit}, and is {_quoted(value)}")
    return int(number)


def _with_unit(rule: Rule, text: str) -> Decimal:
    units = _SECONDS_PER_UNIT if rule.kind is Kind.SECONDS else _BYTES_PER_UNIT
    match = re.fullmatch(r"\s*(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    if match is None:
        raise ConfigError(f"must be {_example(rule)}, and is {_quoted(text)}")
    number, unit = match[1], match[2]
    if unit not in units:
        problem = f'unknown unit "{unit}"' if unit else "unit is missing"
        raise ConfigError(f"{problem} in {_quoted(text)}; known units: {', '.join(units)}")
    return Decimal(number) * units[unit]


def _example(rule: Rule) -> str:
    if rule.kind is Kind.COUNT:
        return "a whole number"
    example = '"500 ms" or "30 s"' if rule.kind is Kind.SECONDS else '"64 KiB" or "100 MiB"'
    return f"a number of {rule.unit}, or text with a unit like {example}"


def _quoted(value: object) -> str:
    """*value* as it would stand in a TOML file, or nearly so; cut off where it gets long."""
    if isinstance(value, str):
        text = _toml_text(value)
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, dict):
        text = "a table"
    else:
        try:
            text = str(value)
        except ValueError:  # Python refuses to write numbers of more than 4300 digits
            text = "a very long number"
    return text if len(text) <= 80 else f"{text[:77]}…"


# --- writing -------------------------------------------------------------------------------------------


def render(settings: Settings) -> str:
    """A complete TOML file: every setting with its unit, default, range and reason. `problems` likes it."""
    blocks = ['# Settings of Ackwire. Times and sizes: "30 s", "500 ms", "64 KiB", "1 GB", or plain numbers.']
    for table in _TABLES:
        section = getattr(settings, table)
        blocks.append(f"{_comment(type(section).__doc__ or '')}\n[{table}]")
        for key in fields(section):
            blocks.append(_render_setting(_rule(key), key.name, getattr(section, key.name), key.default))
    return "\n\n".join(blocks) + "\n"


def _render_setting(rule: Rule, key: str, value: object, default: object) -> str:
    # TOML has no word for None.
    line = f'# {key} = "…"' if value is None else f"{key} = {_toml(rule, value)}"
    return f"{_comment(rule.reason)}\n{_comment(_facts(rule, default))}\n{line}"


def _facts(rule: Rule, default: object) -> str:
    facts = [f"Default: {'none' if default is None else _show(rule, default)}"]
    if rule.unit:
        facts.append(f"range: {_show(rule, rule.lowest)} to {_show(rule, rule.highest)}")
        facts.append(f"unit of a plain number: {rule.unit}" if rule.kind is not Kind.COUNT else "unit: count")
    elif rule.choices:
        facts.append(f"choices: {', '.join(rule.choices)}")
    else:
        facts.append(f"a {rule.kind.value}")
    return "; ".join(facts) + "."


def _comment(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(rule: Rule, value: object) -> str:
    if rule.kind is Kind.LISTENERS:
        assert isinstance(value, tuple)
        return "[\n" + "".join(f"    {_toml_text(uri)},\n" for uri in value) + "]"
    shown = _show(rule, value)
    return shown if rule.kind is Kind.COUNT else _toml_text(shown)


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _show(rule: Rule, value: object) -> str:
    """A value for people, with its unit; `_read_value` reads it back to the same value."""
    if rule.kind is Kind.LISTENERS and isinstance(value, tuple):
        return ", ".join(value)
    if not isinstance(value, int | float):
        return str(value)
    if rule.kind is Kind.SECONDS:
        return _show_seconds(value)
    return _show_bytes(int(value)) if rule.kind is Kind.BYTES else str(int(value))


def _show_seconds(value: float) -> str:
    if value >= 3600 and value % 3600 == 0:
        return f"{int(value // 3600)} h"
    number = Decimal(repr(float(value)))
    unit = "ms" if 0 < number < 1 else "s"
    # By way of Decimal, because 0.07 * 1000 is no whole number of milliseconds in floating point.
    text = f"{number / _SECONDS_PER_UNIT[unit]:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def _show_bytes(value: int) -> str:
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} B"


# --- lines ---------------------------------------------------------------------------------------------


class _KeyLocator:
    """Finds the line of every table, key and array element in a text that tomllib has accepted.

    Because the text is known to be valid, it is enough to see where strings, arrays and inline tables end.
    """

    _BLANK = re.compile(r"(?:\s|#[^\n]*)*")
    _KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
    _STRING = re.compile(
        r'''"""(?:[^\\]|\\.)*?""""{0,2}|"(?:[^"\\\n]|\\.)*"'''
        r"""|'{3}.*?'{3}'{0,2}|'[^'\n]*'""",
        re.DOTALL,
    )
    _SCALAR = re.compile(r"[^,\]}#\n]+")

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._lines: dict[_Path, int] = {}

    def scan(self) -> dict[_Path, int]:
        """The line of each path, like `("listen", "uris", 0)`; the first one where a path occurs again."""
        table: _Path = ()
        while self._next():
            if self._next() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _next(self) -> str:
        """The next character that is no space and no comment, not yet consumed; empty at the end."""
        self._take(self._BLANK)
        return self._text[self._position : self._position + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, f"valid TOML is not understood at offset {self._position}"
        self._position = match.end()
        return match[0]

    def _note(self, path: _Path) -> None:
        self._lines.setdefault(path, self._text.count("\n", 0, self._position) + 1)

    def _header(self) -> _Path:
        while self._next() == "[":  # twice for an array of tables
            self._position += 1
        table = self._key(())
        while self._position < len(self._text) and self._text[self._position] in "] \t":
            self._position += 1
        return table

    def _key(self, prefix: _Path) -> _Path:
        """Consume a key, dotted or not; its path, every part of it noted."""
        path = prefix
        while True:
            self._next()
            start = self._position
            part = self._take(self._KEY_PART)
            # tomllib knows how to take quotes off.
            path = (*path, *tomllib.loads(f"{part} = 0"))
            self._lines.setdefault(path, self._text.count("\n", 0, start) + 1)
            if self._next() != ".":
                return path
            self._position += 1

    def _pair(self, prefix: _Path) -> None:
        path = self._key(prefix)
        self._position += 1  # the equals sign
        self._value(path)

    def _value(self, path: _Path) -> None:
        opening = self._next()
        self._note(path)
        if opening == "[":
            for index in self._items("]"):
                self._value((*path, index))
        elif opening == "{":
            for _ in self._items("}"):
                self._pair(path)
        else:
            self._take(self._STRING if opening in "\"'" else self._SCALAR)

    def _items(self, closing: str) -> Iterator[int]:
        """Consume brackets and commas; the caller consumes an item each time."""
        self._position += 1
        index = 0
        while self._next() != closing:
            yield index
            index += 1
            if self._next() == ",":
                self._position += 1
        self._position += 1
