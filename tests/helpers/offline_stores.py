"""Stores for tools, of every kind: read as a `Source`, written to as a `Target`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ackwire.store.copying import Summary, copy, summary_of
from ackwire.store.offline import OfflineStore
from ackwire.store.portable import JournalSource, Source
from ackwire.store.sql.driver import Driver
from ackwire.store.sql.offline import OfflineDatabase
from ackwire.store.sql.sqlite import SqliteDriver
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from ackwire.wire.openwire.portrait import restamped
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.store_on_disk import START_MS

Offline = OfflineStore | OfflineDatabase


def offline_database(driver: Driver) -> OfflineDatabase:
    return OfflineDatabase(driver, JdbcRows, lambda: START_MS, "the tests")


def offline_sqlite(path: Path) -> OfflineDatabase:
    return offline_database(SqliteDriver(path))


@contextmanager
def source_of(offline: Offline) -> Iterator[Source]:
    with offline.inspect() as inspection:
        yield JournalSource(inspection) if isinstance(offline, OfflineStore) else inspection  # type: ignore[arg-type, misc]


def copied(here: Offline, there: Offline) -> Summary:
    """Copy all; the summary of what was read."""
    with source_of(here) as source, there.opened() as target:
        return copy(source, target, OpenWireStoredForm(), restamped)


def summary(offline: Offline) -> Summary:
    with source_of(offline) as source:
        return summary_of(source)
