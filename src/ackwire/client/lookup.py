"""Factories and destinations by name, from `ackwire.toml`: what JNDI is for Java (A1).

`config/settings_file.py` shows what the tables look like. The file is the one given, or that of the environment
variable ACKWIRE_CONFIG, or `ackwire.toml` in this folder; it may be the broker's own file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackwire.client.uri import DestinationUri, parse_destination_uri
from ackwire.config import settings_file
from ackwire.config.settings_file import CLIENT, DESTINATIONS, FACTORIES, VARIABLE, NotToml, Problem
from ackwire.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FactoryEntry:
    """What the file says about one factory."""

    url: str
    user_name: str | None = None
    password: str | None = None
    client_id: str | None = None


def factory(name: str, path: str | os.PathLike[str] | None = None) -> FactoryEntry:
    """The factory *name*. Raises `ConfigError` that names the file and what is wrong."""
    where, entries = _read(path, FACTORIES)
    entry = entries.get(name)
    if entry is None:
        raise ConfigError(f"{where}: there is no [{CLIENT}.{FACTORIES}.{name}]{_known(entries)}")
    return FactoryEntry(entry["url"], entry.get("user_name"), _password(entry, name, where), entry.get("client_id"))


def destination(name: str, path: str | os.PathLike[str] | None = None) -> DestinationUri:
    """The destination *name*, with its options."""
    where, entries = _read(path, DESTINATIONS)
    text = entries.get(name)
    if text is None:
        raise ConfigError(f"{where}: there is no {name!r} in [{CLIENT}.{DESTINATIONS}]{_known(entries)}")
    return parse_destination_uri(text)


def _read(path: str | os.PathLike[str] | None, table: str) -> tuple[Path, dict[str, Any]]:
    """The file that was read, and what is in *table* of it, which has the right form."""
    where = settings_file.find(path) or Path(settings_file.NAME)
    try:
        text = settings_file.read_text(where)
    except ConfigError as error:
        raise ConfigError(f"{error}; {VARIABLE} can name another file") from None
    try:
        document, lines = settings_file.parse(text)
    except NotToml as error:
        raise ConfigError(f"{where}:{error.problem}") from None
    for at, message in (*_misplaced(document), *settings_file.client_problems(document)):
        raise ConfigError(f"{where}:{Problem.at(at, lines, message)}")
    found: dict[str, Any] = document.get(CLIENT, {}).get(table, {})
    return where, found


def _misplaced(document: Mapping[str, Any]) -> list[tuple[tuple[str], str]]:
    """Tables that are meant for clients, and stand where those of the broker do; what else is there is the broker's."""
    said = ((name, settings_file.misplaced(name)) for name in document)
    return [((name,), message) for name, message in said if message is not None]


def _known(entries: dict[str, Any]) -> str:
    return f"; there are {', '.join(sorted(entries))}" if entries else ""


def _password(entry: dict[str, str], name: str, where: Path) -> str | None:
    if "password_env" in entry:
        variable = entry["password_env"]
        if variable not in os.environ:
            raise ConfigError(f"{where}: factories.{name}: the environment variable {variable} is not set")
        return os.environ[variable]
    if "password_file" in entry:
        try:
            return Path(entry["password_file"]).read_text().rstrip("\n")
        except OSError as error:
            raise ConfigError(f"{where}: factories.{name}.password_file cannot be read: {error.strerror}") from None
    return entry.get("password")
