"""The driver for a store URI. The packages of drivers are extras, and imported only where they are used."""

import zlib
from pathlib import Path
from typing import Any, Final

from ackwire.config.store_uri import StoreUri
from ackwire.errors import ConfigError
from ackwire.store.sql.driver import Driver, LeasingDriver
from ackwire.store.sql.sqlite import SqliteDriver

_POSTGRESQL_OPTIONS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "options", "target_session_attrs")
_MARIADB_OPTIONS: Final = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_identity", "unix_socket")


ANSWER_SECONDS_MAX: Final = 60.0
"""How long a server may take to answer, unless the settings say something else."""


def driver_for(
    uri: StoreUri,
    password: str | None,
    table_prefix: str = "",
    answer_seconds_max: float = ANSWER_SECONDS_MAX,
    tag: str = "",
) -> Driver:
    """The driver for *uri*; sessions with a *tag* can be ended by it. Raises `ConfigError` if its package is not
    installed, or an option is not known."""
    match uri.scheme:
        case "sqlite":
            _check_options(uri, ())
            return SqliteDriver(Path(uri.path))
        case "postgresql":
            return _postgresql(uri, password, table_prefix, answer_seconds_max, tag)
        case _:
            return _mariadb(uri, password, table_prefix, answer_seconds_max, tag)


def leasing_driver_for(
    uri: StoreUri, password: str | None, table_prefix: str, answer_seconds_max: float
) -> LeasingDriver:
    """The driver for the *uri* of a server, with what a lease on it needs."""
    if uri.scheme == "postgresql":
        return _postgresql(uri, password, table_prefix, answer_seconds_max, "")
    return _mariadb(uri, password, table_prefix, answer_seconds_max, "")


def _check_options(uri: StoreUri, known: tuple[str, ...]) -> None:
    for name in uri.options:
        if name not in known:
            raise ConfigError(f"{uri}: unknown option {name}; known: {', '.join(known) or 'none'}")


def _parameters(uri: StoreUri, password: str | None) -> dict[str, Any]:
    given = {"host": uri.host, "port": uri.port, "user": uri.user, "password": password, **uri.options}
    return {name: value for name, value in given.items() if value not in (None, "")}


def _lock_number(uri: StoreUri, table_prefix: str) -> int:
    """What brokers on the same tables have in common."""
    return zlib.crc32(f"{uri.path} {table_prefix}".encode()) >> 1  # PostgreSQL's are signed


def _postgresql(
    uri: StoreUri, password: str | None, table_prefix: str, answer_seconds_max: float, tag: str
) -> LeasingDriver:
    _check_options(uri, _POSTGRESQL_OPTIONS)
    try:
        from ackwire.store.sql.postgresql import PostgresqlDriver
    except ImportError:
        raise _not_installed(uri, "psycopg") from None
    parameters = {**_parameters(uri, password), "dbname": uri.path}
    return PostgresqlDriver(parameters, str(uri), _lock_number(uri, table_prefix), answer_seconds_max, tag)


def _mariadb(
    uri: StoreUri, password: str | None, table_prefix: str, answer_seconds_max: float, tag: str
) -> LeasingDriver:
    _check_options(uri, _MARIADB_OPTIONS)
    try:
        from ackwire.store.sql.mariadb import MariadbDriver
    except ImportError:
        raise _not_installed(uri, "PyMySQL") from None
    parameters = {**_parameters(uri, password), **_mariadb_tls(uri), "database": uri.path}
    if password:
        parameters["password"] = password.encode()  # the driver knows Latin-1 only
    lock_name = f"ackwire {_lock_number(uri, table_prefix)}"
    return MariadbDriver(parameters, str(uri), lock_name, answer_seconds_max, tag)


def _mariadb_tls(uri: StoreUri) -> dict[str, bool]:
    """How far the server's certificate is checked. The driver alone checks nothing, even with an authority given."""
    text = uri.options.get("ssl_verify_identity", "true")
    if text not in ("true", "false"):
        raise ConfigError(f'{uri}: ssl_verify_identity must be true or false, and is "{text}"')
    if "ssl_ca" not in uri.options:
        if "ssl_verify_identity" in uri.options:
            raise ConfigError(f"{uri}: ssl_verify_identity needs ssl_ca, the file with the authority's certificate")
        return {}
    return {"ssl_verify_cert": True, "ssl_verify_identity": text == "true"}


def _not_installed(uri: StoreUri, package: str) -> ConfigError:
    return ConfigError(f'{uri.scheme}:// needs {package}, which is not installed: pip install "ackwire[{uri.scheme}]"')
