"""Which store: `journal`, `memory`, or a URI.

    journal:                              journal:/var/lib/ackwire
    journal+leveldb:                      journal+leveldb:/var/lib/ackwire
    replicated:                           replicated:/var/lib/ackwire
    sqlite:///file                        sqlite:////absolute/file
    postgresql://user@host:5432/database?sslmode=verify-full
    mariadb://user@host:3306/database
    journal+postgresql://user@host/database, and so on: a journal in front of that database

The password comes from a file (option `password_file`, or the setting `sql.password_file`) or from the environment
(`database_password`). One that stands in the URI is taken, and never shown: but every user of the machine can read it
in the list of processes, so a start warns of it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ackwire.config.fields import did_you_mean
from ackwire.errors import ConfigError

JOURNAL: Final = "journal"
MEMORY: Final = "memory"
REPLICATED: Final = "replicated"
"""A journal with copies on other brokers."""
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
    password_file: str = ""
    password: str | None = field(default=None, repr=False)
    """The one that stands in the URI itself."""

    @property
    def warning(self) -> str | None:
        """What is wrong with the URI, although it works."""
        if self.password is None:
            return None
        return (
            f"{self}: the URI contains the password, which other users of this machine can see; name its file with "
            f"?password_file=, or set {PASSWORD_VARIABLE}"
        )

    def __str__(self) -> str:
        if self.scheme == "sqlite":
            return f"sqlite:///{self.path}"
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}/{self.path}"


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """What `store.kind` says."""

    kind: str
    """`journal`, `replicated`, `memory`, or the URI of a database."""
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
    if scheme == REPLICATED:
        return StoreChoice(REPLICATED, data=path or None)
    if scheme == JOURNAL:
        return StoreChoice(JOURNAL, data=path or None)
    behind = scheme.removeprefix(_IN_FRONT)
    if behind != scheme and behind in INDEXES:
        return StoreChoice(JOURNAL, index=behind, data=path or None)
    if ":" not in kind:
        raise ConfigError(
            f'must be "{JOURNAL}", "{REPLICATED}", "{MEMORY}" or the URI of a database, and is "{kind}"'
            f"{did_you_mean(kind, (JOURNAL, REPLICATED, MEMORY))}"
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
    path, example = unquote(parts.path[1:]), _EXAMPLES[DATABASES.index(scheme)]
    if not path or not text.startswith(f"{scheme}://") or (scheme == "sqlite" and parts.netloc):
        raise ConfigError(f"{scheme}: a URI like {example} is needed")
    if scheme != "sqlite" and "@" in parts.path:  # the rest of a password, maybe
        raise ConfigError(f"{scheme}: in a URI like {example} a / in a name is written as %2F, and an @ as %40")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError(f"{scheme}://{parts.hostname}: the port must be a number up to 65535") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "password" in options:
        raise ConfigError(f"{scheme}://{parts.hostname}: name the file of the password with ?password_file=")
    return StoreUri(
        scheme,
        parts.hostname or "127.0.0.1",
        port,
        unquote(parts.username or ""),
        path,
        options,
        options.pop("password_file", ""),
        None if parts.password is None else unquote(parts.password),
    )


def mask_store(kind: str) -> str:
    """`store.kind` with a password in it replaced by stars, for people to see."""
    return re.sub(r"(//[^:/@]*):.*@", r"\1:***@", kind)


def database_password(uri: StoreUri, password_file: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The password of a database: that of the URI, of the file that the URI names, of *password_file*, which is
    `sql.password_file`, or of the environment. None leaves it to the driver: that of PostgreSQL knows PGPASSWORD and
    PGPASSFILE. Raises `ConfigError`."""
    if uri.password is not None:
        return uri.password
    name, setting = (uri.password_file, "password_file") if uri.password_file else (password_file, "sql.password_file")
    if not name:
        return environment.get(PASSWORD_VARIABLE)
    try:
        return Path(name).read_text().partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text"
        raise ConfigError(f"{setting}: {name} cannot be read: {reason.lower()}") from None


def check_table_prefix(prefix: str) -> None:
    """Raise `ConfigError` if *prefix* cannot be part of a table's name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ConfigError(f'must begin with a letter and have letters, digits and "_" only, and is "{prefix}"')
