"""The file `ackwire.toml`: where it is, how it is parsed, and the tables in it that clients read.

One file may serve a broker and its clients. A broker reads every table but `[client]`, whose form it checks all the
same (`config/`); a client reads `[client]` and leaves the others to the broker (`client/lookup.py`):

    [client.factories.orders]
    url = "failover:(tcp://a:61616,tcp://b:61616)"
    user_name = "app"
    password_env = "ORDERS_PASSWORD"    # or password = "…", or password_file = "…"
    client_id = "orders-1"

    [client.destinations]
    orders = "queue://ORDERS?consumer.prefetchSize=1"
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackwire.config.fields import did_you_mean
from ackwire.config.toml_lines import KeyLocator
from ackwire.config.toml_lines import Path as KeyPath
from ackwire.errors import ConfigError

NAME: Final = "ackwire.toml"
VARIABLE: Final = "ACKWIRE_CONFIG"
CLIENT: Final = "client"
FACTORIES: Final = "factories"
DESTINATIONS: Final = "destinations"
FACTORY_KEYS: Final = ("url", "user_name", "password", "password_env", "password_file", "client_id")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong with a configuration text. *key* is empty if the text is not TOML at all."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.line}: {self.key}: {self.message}" if self.key else f"{self.line}: {self.message}"

    @classmethod
    def at(cls, path: KeyPath, lines: Mapping[KeyPath, int], message: str) -> "Problem":
        """A problem with what stands at *path*."""
        return cls(lines[path], _one_line(_name(path)), _one_line(message))


class NotToml(Exception):
    """The text is not TOML; the argument is a `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


# ---- the file --------------------------------------------------------------------------------------------------


def find(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The file to read: the one *given*, or that of ACKWIRE_CONFIG, or `ackwire.toml` if it is in this folder."""
    named = given or os.environ.get(VARIABLE)
    if named:
        return Path(named)
    here = Path(NAME)
    return here if here.exists() else None


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a configuration file. Raises `ConfigError` if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from None


def parse(text: str) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    """Parse the text, and find the line of each key. Raises `NotToml`."""
    try:
        return tomllib.loads(text), KeyLocator(text).scan()
    except ValueError as error:
        raise NotToml(_syntax_problem(text, error)) from None
    except RecursionError:
        raise NotToml(Problem(1, "", "not TOML that can be read: nested too deeply")) from None


def _syntax_problem(text: str, error: ValueError) -> Problem:
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
    message = str(error)[: place.start()] if place else str(error)
    line = int(place[1]) if place and place[1] else text.rstrip().count("\n") + 1
    return Problem(line, "", f"not TOML: {message[:1].lower()}{message[1:]}")


# ---- the tables of clients -------------------------------------------------------------------------------------


def client_problems(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the form of `[client]`: where, and what."""
    table = document.get(CLIENT, {})
    if not isinstance(table, dict):
        yield (CLIENT,), f"must be a table: [{CLIENT}.{FACTORIES}.NAME] or [{CLIENT}.{DESTINATIONS}]"
        return
    for name, value in table.items():
        if name not in (FACTORIES, DESTINATIONS):
            hint = did_you_mean(name, (FACTORIES, DESTINATIONS)) or f"; known: {FACTORIES}, {DESTINATIONS}"
            yield (CLIENT, name), f"unknown table{hint}"
        elif not isinstance(value, dict):
            yield (CLIENT, name), "must be a table"
        elif name == FACTORIES:
            for factory, entry in value.items():
                yield from _factory_problems((CLIENT, FACTORIES, factory), entry)
        else:
            for destination, text in value.items():
                if not isinstance(text, str):
                    yield (CLIENT, DESTINATIONS, destination), 'must be text like "queue://ORDERS"'


def _factory_problems(path: KeyPath, entry: object) -> Iterator[tuple[KeyPath, str]]:
    if not isinstance(entry, dict):
        yield path, 'must be a table with url = "tcp://…"'
        return
    for key, value in entry.items():
        if key not in FACTORY_KEYS:
            hint = did_you_mean(key, FACTORY_KEYS) or f"; known are {', '.join(FACTORY_KEYS)}"
            yield (*path, key), f"unknown key{hint}"
        elif not isinstance(value, str):
            yield (*path, key), "must be text"
    if "url" not in entry:
        yield path, "has no url"


def misplaced(name: str) -> str | None:
    """A hint for a table that belongs into `[client]`, or has nearly the name of one that does; else None."""
    if name == FACTORIES:
        return f"unknown table; it belongs into [{CLIENT}]: [{CLIENT}.{FACTORIES}.NAME]"
    if name != CLIENT and name.lower().rstrip("s") == CLIENT:
        return f'unknown table; did you mean "{CLIENT}"?'
    return None


def _name(path: KeyPath) -> str:
    """`listen.uris[0]`, `policy[1].match`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _one_line(text: str) -> str:
    """*text* with control characters escaped, so that one problem stays one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
