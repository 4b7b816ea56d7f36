"""What makes this broker the master, as the settings say."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ackwire.cluster.file_lock import FileLock
from ackwire.cluster.mastership import Mastership
from ackwire.cluster.sql_lease import LeaseTerms, SqlLease
from ackwire.cluster.status import Group
from ackwire.config import Settings
from ackwire.config.member_uri import own_uri
from ackwire.config.store_uri import (
    MEMORY,
    REPLICATED,
    StoreUri,
    database_password,
    is_database,
    parse_store,
    parse_store_uri,
)
from ackwire.errors import ConfigError
from ackwire.opening.common import Tenure, holder_of, new_run_id
from ackwire.server.turn import Turn
from ackwire.store.sql.drivers import leasing_driver_for
from ackwire.store.sql.schema import NAME_LENGTH_MAX
from ackwire.util.clock import SystemClock

_ANSWERS: Final = 3
"""So often may the server be late within one lease."""
_ANSWER_SECONDS_MIN: Final = 2.0
"""MariaDB takes a second to say that a row is locked."""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A mastership to ask for, and what a grant means for the store."""

    mastership: Mastership
    tenure: Callable[[], Tenure]
    """What the store is opened with, once mastership is granted."""
    group: Group | None = None
    """What operators may ask and do, if there is a group of nodes."""


def candidacy_of(settings: Settings, turn: Turn) -> Candidacy | None:
    """None for a broker that shares its store with no other. *settings* have the store resolved. Raises `ConfigError`
    if a store cannot be shared."""
    store = settings.store
    if store.kind == REPLICATED:
        return _of_group(settings, turn)
    if not store.shared:
        return None
    choice = parse_store(store.kind)
    if choice.kind == MEMORY:
        raise ConfigError('store.shared is true, and store.kind is "memory", which no other broker can see')
    if choice.has_journal:
        raise ConfigError(
            "store.shared is true, and the journal in front of the database is on this machine only: use the database "
            "without a journal, or a journal in a shared folder"
        )
    if not is_database(choice.kind):
        return _of_file(settings, Path(store.data) / "lock")
    uri = parse_store_uri(choice.kind)
    return _of_file(settings, Path(f"{uri.path}.lock")) if uri.scheme == "sqlite" else _of_database(settings, uri)


def _of_group(settings: Settings, turn: Turn) -> Candidacy:
    if settings.store.shared:
        raise ConfigError('store.shared is true, and store.kind is "replicated": nodes share nothing but the network')
    try:
        from ackwire.serving.replication import ReplicatedMastership
    except ModuleNotFoundError as error:
        if error.name != "kazoo":
            raise
        raise ConfigError(
            'store.kind "replicated" needs kazoo, which is not installed: pip install "ackwire[replicated]"'
        ) from None
    mastership = ReplicatedMastership(settings, turn)
    return Candidacy(mastership, lambda: Tenure(opened=mastership.opened), mastership)


def _of_file(settings: Settings, path: Path) -> Candidacy:
    written = f"{holder_of(settings)}\n{own_uri(settings.cluster.uri, settings.listen.uris)}"
    return Candidacy(FileLock(path, written), lambda: Tenure(has_lock=True))


def _of_database(settings: Settings, uri: StoreUri) -> Candidacy:
    sql, seconds = settings.sql, settings.cluster.lease_seconds
    driver = leasing_driver_for(
        uri,
        database_password(uri, sql.password_file),
        sql.table_prefix,
        min(sql.answer_seconds_max, max(_ANSWER_SECONDS_MIN, seconds / _ANSWERS)),
    )
    holder = holder_of(settings)
    terms = LeaseTerms(
        name=holder[:NAME_LENGTH_MAX],
        uri=own_uri(settings.cluster.uri, settings.listen.uris)[:NAME_LENGTH_MAX],
        lease_seconds=seconds,
        table_prefix=sql.table_prefix,
        create_tables=sql.create_tables,
    )
    lease = SqlLease(driver, terms, SystemClock(), partial(new_run_id, holder))
    return Candidacy(lease, lambda: Tenure(run_id=lease.run_id, tag=lease.tag))
