"""From a TOML text to settings, with everything that is wrong with it, by line.

How it works: `settings_file.parse` says what the file means and where everything stands, and `_Reader` checks it
against the options of `settings.py`. The tables of clients are checked for their form only.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ackwire.config.fields import Option, did_you_mean, options_of
from ackwire.config.policy import DestinationPolicy
from ackwire.config.settings import ORDERED, POLICY, TABLES, Settings
from ackwire.config.settings_file import CLIENT, NotToml, Problem, client_problems, misplaced, parse, read_text
from ackwire.config.toml_lines import Path as KeyPath
from ackwire.config.types import Bytes, Share, Uris, Whole
from ackwire.config.wholes import Wholes, wholes_of_this_machine
from ackwire.errors import ConfigError

_KNOWN: Mapping[str, type[Any]] = {**TABLES, POLICY: DestinationPolicy}

_RENAMED: Mapping[tuple[str, str], tuple[str, Mapping[bool, str]]] = {
    ("store", "store_first"): ("early_dispatch", {True: "off", False: "adaptive"}),
}
"""Table and old name of a switch, its new name, and what its values are called now."""

_log = logging.getLogger(__name__)


def load(path: str | Path, *, memory_bytes: int | None = None) -> Settings:
    """The settings of a file. Raises `ConfigError` naming the file, the first problem and its line.

    Percentages are of *memory_bytes*, by default this machine's memory, or of the disk that holds the data directory.
    """
    settings, found = _read(read_text(path), memory_bytes)
    if found:
        rest = f" (and {len(found) - 1} more: ackwire config check {path})" if len(found) > 1 else ""
        raise ConfigError(f"{path}:{found[0]}{rest}")
    return settings


def problems(text: str, *, memory_bytes: int | None = None) -> list[Problem]:
    """Everything wrong with a configuration text, by line; empty if it can be used."""
    return _read(text, memory_bytes)[1]


def with_setting(settings: Settings, table: str, key: str, value: object) -> Settings:
    """*settings* with one value replaced, checked as in a file. Raises `ConfigError` without its name."""
    checked = _read_value(options_of(TABLES[table])[key], value, wholes_of_this_machine(settings.store.data))
    changed = replace(settings, **{table: replace(getattr(settings, table), **{key: checked})})
    return _with_other_disk(changed) if (table, key) == ("store", "data") else changed


def _with_other_disk(settings: Settings) -> Settings:
    """*settings*, whose data directory is another one now, with the percentages of that disk."""
    wholes = wholes_of_this_machine(settings.store.data)
    shares = {
        key: Share(value.percent, wholes.disk_bytes)
        for key, option in options_of(type(settings.limits)).items()
        if _whole(option) is Whole.DISK and isinstance(value := getattr(settings.limits, key), Share)
    }
    changes: dict[str, Any] = dict(shares)
    return replace(settings, limits=replace(settings.limits, **changes))


def _read_value(option: Option, value: object, wholes: Wholes) -> object:
    """*value* as the setting takes it; percentages are of *wholes*. Raises `ConfigError` saying what it must be."""
    if isinstance(option.type, Bytes):
        return option.type.read_share(value, wholes.of(option.type.percent_of))
    return option.type.read(value)


def _whole(option: Option) -> Whole | None:
    """What the option can be a percentage of."""
    return option.type.percent_of if isinstance(option.type, Bytes) and option.type.percent else None


def _read(text: str, memory_bytes: int | None) -> tuple[Settings, list[Problem]]:
    """The settings, with defaults where something is wrong, and what is wrong."""
    try:
        document, lines = parse(text)
    except NotToml as error:
        return Settings(), [error.problem]
    store = document.get("store")
    data = store.get("data") if isinstance(store, dict) else None
    reader = _Reader(lines, wholes_of_this_machine(data, memory=memory_bytes))
    settings = reader.read(document)
    return settings, sorted(reader.problems)


class _Reader:
    """Turns a parsed document into settings and collects the problems on the way."""

    def __init__(self, lines: Mapping[KeyPath, int], wholes: Wholes) -> None:
        self.problems: list[Problem] = []
        self._lines = lines
        self._wholes = wholes
        self._wrong: set[KeyPath] = set()

    def read(self, document: Mapping[str, object]) -> Settings:
        for name, value in document.items():
            if name not in _KNOWN and name != CLIENT:
                self._note((name,), misplaced(name) or _unknown_table(name, value))
        for path, message in client_problems(document):  # of no interest to a broker, but a mistake is a mistake
            self._note(path, message)
        sections: dict[str, Any] = {name: self._section((name,), document.get(name, {})) for name in TABLES}
        return Settings(**sections, policies=self._policies(document.get(POLICY, [])))

    def _policies(self, given: object) -> tuple[DestinationPolicy, ...]:
        if not isinstance(given, list):
            self._note((POLICY,), f"must be written [[{POLICY}]], a table for each pattern")
            return ()
        policies = []
        seen: dict[str, int] = {}
        for index, table in enumerate(given):
            policy = self._section((POLICY, index), table)
            assert isinstance(policy, DestinationPolicy)
            policies.append(policy)
            path: KeyPath = (POLICY, index, "match")
            if path in self._wrong or (POLICY, index) in self._wrong:
                continue
            first = seen.setdefault(policy.match, index)
            if first != index:
                where = self._lines[(POLICY, first)]
                at = path if path in self._lines else (POLICY, index)
                self._note(at, f'the policy for "{policy.match}" is in line {where}; there can be only one')
        return tuple(policies)

    def _section(self, path: KeyPath, given: object) -> object:
        """One table: the settings class that it stands for."""
        section = _KNOWN[str(path[0])]
        options = options_of(section)
        values: dict[str, Any] = {
            key: Share(option.type.percent, self._wholes.of(option.type.percent_of))
            for key, option in options.items()
            if isinstance(option.type, Bytes) and option.type.percent
        }
        if not isinstance(given, dict):
            self._note(path, f"must be a table: {_header(str(path[0]))}")
            given = {}
        for key, value in self._renamed(path, given).items():
            if key not in options:
                self._note((*path, key), _unknown_key(str(path[0]), key))
                continue
            try:
                values[key] = self._value(options[key], (*path, key), value)
            except ConfigError as error:
                self._note((*path, key), str(error))
        settings = section(**values)
        self._check_order(path, settings)
        return settings

    def _renamed(self, path: KeyPath, given: Mapping[str, object]) -> dict[str, object]:
        """*given* with today's names and values for settings that had other ones."""
        renamed = dict(given)
        for (table, old), (new, meanings) in _RENAMED.items():
            value = given.get(old)
            if path != (table,) or not isinstance(value, bool) or new in given:
                continue
            del renamed[old]
            renamed[new] = meanings[value]
            line = self._lines.get((*path, old))
            self._lines = {**self._lines, (*path, new): line} if line is not None else self._lines
            _log.warning(
                '[%s] %s = %s is deprecated: write %s = "%s"', table, old, str(value).lower(), new, meanings[value]
            )
        return renamed

    def _value(self, option: Option, path: KeyPath, value: object) -> object:
        if not isinstance(option.type, Uris) or not isinstance(value, list):
            return _read_value(option, value, self._wholes)
        good = []
        for index, item in enumerate(value):  # each wrong URI is a problem with a line of its own
            try:
                good.append(option.type.read_item(item))
            except ConfigError as error:
                self._note((*path, index), str(error))
        return tuple(good) if len(good) < len(value) else option.type.read(value)

    def _check_order(self, path: KeyPath, section: Any) -> None:
        for lower, upper in ORDERED.get(str(path[0]), ()):
            if self._wrong & {(*path, lower), (*path, upper)}:
                continue  # what was wrong is at its default now, which says nothing
            if getattr(section, lower) <= getattr(section, upper):
                continue
            # Only a key that was given has a line; the other one is at its default.
            named, other = (lower, upper) if (*path, lower) in self._lines else (upper, lower)
            limit = options_of(type(section))[other].type.show(getattr(section, other))
            comparison = "at most" if named == lower else "at least"
            self._note((*path, named), f"must be {comparison} {other} = {limit}")

    def _note(self, path: KeyPath, message: str) -> None:
        self._wrong.add(path)
        self.problems.append(Problem.at(path, self._lines, message))


def _header(table: str) -> str:
    return f"[[{table}]]" if table == POLICY else f"[{table}]"


def _owner(key: str) -> str | None:
    """The table that *key* belongs into."""
    return next((_header(table) for table, section in _KNOWN.items() if key in options_of(section)), None)


def _unknown_table(name: str, value: object) -> str:
    if isinstance(value, dict) or (isinstance(value, list) and did_you_mean(name, (*_KNOWN, CLIENT))):
        hint = did_you_mean(name, (*_KNOWN, CLIENT)) or f"; known tables: {', '.join((*_KNOWN, CLIENT))}"
        return f"unknown table{hint}"
    owner = _owner(name)
    return f"unknown setting{f'; it belongs into {owner}' if owner else ': settings stand in tables'}"


def _unknown_key(table: str, key: str) -> str:
    options = options_of(_KNOWN[table])
    hint = did_you_mean(key, options)
    if not hint:
        owner = _owner(key)
        hint = f"; it belongs into {owner}" if owner else f"; known in {_header(table)}: {', '.join(options)}"
    return f"unknown setting{hint}"
