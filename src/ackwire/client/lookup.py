"""Factories and destinations by name, from a configuration file: what JNDI is for Java (A1).

    [factories.orders]
    url = "failover:(tcp://a:61616,tcp://b:61616)"
    user_name = "app"
    password_env = "ORDERS_PASSWORD"    # or password = "…", or password_file = "…"
    client_id = "orders-1"

    [destinations]
    orders = "queue://ORDERS?consumer.prefetchSize=1"

The file is the one given, or that of the environment variable ACKWIRE_CONFIG, or `ackwire.toml` in this folder.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackwire.client.uri import DestinationUri, parse_destination_uri
from ackwire.errors import ConfigError

VARIABLE: Final = "ACKWIRE_CONFIG"
DEFAULT_PATH: Final = "ackwire.toml"
_KEYS: Final = ("url", "user_name", "password", "password_env", "password_file", "client_id")


@dataclass(frozen=True, slots=True)
class FactoryEntry:
    """What the file says about one factory."""

    url: str
    user_name: str | None = None
    password: str | None = None
    client_id: str | None = None


def factory(name: str, path: str | os.PathLike[str] | None = None) -> FactoryEntry:
    """The factory *name*. Raises `ConfigError` that names the file and what is wrong."""
    where, content = _read(path)
    entries = _table(content, "factories", where)
    entry = entries.get(name)
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: there is no [factories.{name}]{_known(entries)}")
    for key, value in entry.items():
        if key not in _KEYS:
            raise ConfigError(f"{where}: factories.{name}: unknown key {key!r}; known are {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"{where}: factories.{name}.{key} is text")
    if "url" not in entry:
        raise ConfigError(f"{where}: factories.{name} has no url")
    return FactoryEntry(entry["url"], entry.get("user_name"), _password(entry, name, where), entry.get("client_id"))


def destination(name: str, path: str | os.PathLike[str] | None = None) -> DestinationUri:
    """The destination *name*, with its options."""
    where, content = _read(path)
    entries = _table(content, "destinations", where)
    text = entries.get(name)
    if not isinstance(text, str):
        raise ConfigError(f"{where}: there is no {name!r} in [destinations]{_known(entries)}")
    return parse_destination_uri(text)


def _read(path: str | os.PathLike[str] | None) -> tuple[Path, dict[str, Any]]:
    where = Path(path or os.environ.get(VARIABLE) or DEFAULT_PATH)
    try:
        with where.open("rb") as file:
            return where, tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}; {VARIABLE} can name another file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}") from None


def _table(content: dict[str, Any], name: str, where: Path) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {name} is a table")
    return table


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
