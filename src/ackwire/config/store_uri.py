"""Which store: `journal`, `memory`, or a URI.

    journal:                              journal:/var/lib/ackwire
    journal+leveldb:                      journal+leveldb:/var/lib/ackwire
    sqlite:///file                        sqlite:////absolute/file
    postgresql://user@host:5432/database?sslmode=verify-full
    mariadb://user@host:3306/database
    journal+postgresql://user@host/database, and so on: a journal in front of that database

The password never stands in a URI, which every user of the machine can read in the list of processes: it comes from the
file `sql.password_file` or the environment variable ACKWIRE_STORE_PASSWORD.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ackwire.config.fields import did_you_mean
from ackwire.errors import ConfigError

JOURNAL: Final = "journal"
MEMORY: Final = "memory"
DATABASES: Final = ("sqlite", "postgresql", "mariadb")
"""Schemes of the URIs of databases."""
INDEXES: Final = ("lmdb", "leveldb")
"""What a journal's index can be written with."""
_IN_FRONT: Final = f"{JOURNAL}+"
"""Before the scheme of a database: the journal is in front of it. Before the name of an index: the journal has it."""

PASSWORD_VARIABLE: Final = "ACKWIRE_STORE_PASSWORD"  # noqa: S105 - its name
"""The environment variable with the password of the database."""

_EXAMPLES: Final = ("sqlite:///messages.db", "postgresql://user@host/database", "mariadb://user@host/database")


@dataclass(frozen=True, slots=True)
class StoreUri:
    """The parts of the URI of a database."""

    scheme: str
    host: str
    port: int | None
    user: str
    path: str
    """A file, or the name of the database."""
    options: Mapping[str, str]

    def __str__(self) -> str:
        if self.scheme == "sqlite":
            return f"sqlite:///{self.path}"
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}/{self.path}"


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """What `store.kind` says."""

    kind: str
    """`journal`, `memory`, or the URI of a database."""
    has_journal: bool = False
    """A journal is in front of the database."""
    index: str | None = None
    """What the journal's index is written with, if that is said."""
    data: str | None = None
    """The directory of the journal, if that is said."""


def parse_store(kind: str) -> StoreChoice:
    """Read `store.kind`. Raises `ConfigError` if it is no store."""
    scheme, _, path = kind.partition(":")
    if scheme == MEMORY and not path:
        return StoreChoice(MEMORY)
    if scheme == JOURNAL:
        return StoreChoice(JOURNAL, data=path or None)
    behind = scheme.removeprefix(_IN_FRONT)
    if behind != scheme and behind in INDEXES:
        return StoreChoice(JOURNAL, index=behind, data=path or None)
    if ":" not in kind:
        raise ConfigError(
            f'must be "{JOURNAL}", "{MEMORY}" or the URI of a database, and is "{kind}"'
            f"{did_you_mean(kind, (JOURNAL, MEMORY))}"
        )
    uri = kind.removeprefix(_IN_FRONT)
    parse_store_uri(uri)
    return StoreChoice(uri, has_journal=behind != scheme)


def is_database(kind: str) -> bool:
    """Whether `store.kind` is the URI of a database, without a journal in front of it."""
    return kind.partition(":")[0] in DATABASES


def store_name(kind: str) -> str:
    """`store.kind` in one word, for metrics."""
    return kind.partition(":")[0]


def check_store(kind: str) -> None:
    """Raise `ConfigError` if *kind* is no store."""
    parse_store(kind)


def parse_store_uri(text: str) -> StoreUri:
    """Read the URI of a database. Raises `ConfigError`, which never shows a password."""
    scheme = text.partition(":")[0]
    if scheme not in DATABASES:
        raise ConfigError(f'"{scheme}" is no database; known: {", ".join(_EXAMPLES)}{did_you_mean(scheme, DATABASES)}')
    parts = urlsplit(text)
    if parts.password is not None:
        raise ConfigError(
            "the URI of a store must not contain the password, because other users of this machine can see it; name "
            f"its file with sql.password_file, or set {PASSWORD_VARIABLE}"
        )
    path, example = unquote(parts.path[1:]), _EXAMPLES[DATABASES.index(scheme)]
    if not path or not text.startswith(f"{scheme}://") or (scheme == "sqlite" and parts.netloc):
        raise ConfigError(f"{scheme}: a URI like {example} is needed")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError(f"{scheme}://{parts.hostname}: the port must be a number up to 65535") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    return StoreUri(scheme, parts.hostname or "127.0.0.1", port, unquote(parts.username or ""), path, options)


def check_table_prefix(prefix: str) -> None:
    """Raise `ConfigError` if *prefix* cannot be part of a table's name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ConfigError(f'must begin with a letter and have letters, digits and "_" only, and is "{prefix}"')
