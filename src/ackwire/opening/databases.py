"""Opens a database, with or without a journal in front of it."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from ackwire.config import Settings
from ackwire.config.store_uri import database_password, parse_store, parse_store_uri
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import Tenure, data_directory, holder_of, journal_options, new_run_id
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.background import ThreadBackground
from ackwire.server.turn import Turn
from ackwire.store.files import OsFiles
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal_sql.journal_sql_store import Front, JournalSqlStore
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions
from ackwire.store.journal_sql.no_index import NoIndex
from ackwire.store.leftovers import Leftovers
from ackwire.store.sql.driver import Driver
from ackwire.store.sql.drivers import driver_for
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.file_lock import locked_file
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.util.clock import Clock
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from ackwire.wire.openwire.stored import OpenWireStoredForm

_FRONT_DIRECTORY: Final = "sql-journal"
"""Below the data directory: the journal in front of a database, which no other kind of store reads."""

_log = logging.getLogger(__name__)


@contextmanager
def opened_database(
    settings: Settings, clock: Clock, turn: Turn, tenure: Tenure, on_failed: Callable[[StoreFailed], None]
) -> Iterator[SqlStore]:
    with _database(settings, clock, turn, tenure, on_failed) as (driver, surroundings, options):
        store = _open_database(driver, surroundings, options)
        try:
            yield store
        finally:
            store.close()


def _open_database(driver: Driver, surroundings: SqlSurroundings, options: SqlOptions) -> SqlStore:
    clock = surroundings.clock
    began = clock.monotonic()
    try:
        store = SqlStore.open(driver, surroundings, options)
    except UnusableDatabase as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info("messages in %s; opened in %.1f s", driver.description, clock.monotonic() - began)
    return store


@contextmanager
def opened_journal_and_database(
    settings: Settings, clock: Clock, turn: Turn, tenure: Tenure, on_failed: Callable[[StoreFailed], None]
) -> Iterator[SqlStore]:
    threads = [ThreadBackground(name) for name in ("journal", "segments", "reads")]
    writing, housekeeping, reading = threads
    data = data_directory(settings)
    front = Front(
        JournalSource(
            OsFiles(),
            data / _FRONT_DIRECTORY,
            OpenWireStoredForm(wire_limits(settings)),
            lambda _: NoIndex(),
            clock.now_ms,
            new_id=lambda: os.urandom(16),
            holder=holder_of(settings),
        ),
        journal_options(settings),
        CheckpointOptions(settings.store.checkpoint_seconds, settings.store.checkpoint_bytes),
        writing=writing,
        housekeeping=housekeeping,
        reading=reading,
    )
    try:
        with _database(settings, clock, turn, tenure, on_failed) as (driver, surroundings, options):
            with Leftovers(data / _FRONT_DIRECTORY).removed_if_bare(OsFiles()):
                store = _open_journal_and_database(front, driver, surroundings, options)
            try:
                yield store
            finally:
                store.close()
    finally:
        for thread in threads:
            thread.stop()


def _open_journal_and_database(
    front: Front, driver: Driver, surroundings: SqlSurroundings, options: SqlOptions
) -> JournalSqlStore:
    began = surroundings.clock.monotonic()
    try:
        store = JournalSqlStore.open_both(front, driver, surroundings, options)
    except (UnusableDatabase, UnusableStore) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info(
        "journal in %s in front of %s; %d records replayed; opened in %.1f s",
        front.source.data,
        driver.description,
        store.report.replayed,
        surroundings.clock.monotonic() - began,
    )
    for damage in store.report.damages:
        _log.error("%s: %s", front.source.data, damage)
    return store


@contextmanager
def _database(
    settings: Settings, clock: Clock, turn: Turn, tenure: Tenure, on_failed: Callable[[StoreFailed], None]
) -> Iterator[tuple[Driver, SqlSurroundings, SqlOptions]]:
    """A database that is about to be opened, and the threads that use it."""
    uri = parse_store_uri(parse_store(settings.store.kind).kind)
    if uri.warning is not None:
        _log.warning("%s", uri.warning)
    password = database_password(uri, settings.sql.password_file)
    driver = driver_for(uri, password, settings.sql.table_prefix, settings.sql.answer_seconds_max, tenure.tag)
    holder = holder_of(settings)
    writing, reading = ThreadBackground("database writer"), ThreadBackground("database reader")
    surroundings = SqlSurroundings(
        make_form=lambda: JdbcRows(wire_limits(settings)),
        clock=clock,
        writing=writing,
        reading=reading,
        on_failed=on_failed,
        at_turn_end=turn.at_end,
    )
    options = SqlOptions(
        run_id=tenure.run_id or new_run_id(holder),
        table_prefix=settings.sql.table_prefix,
        create_tables=settings.sql.create_tables,
        reconnect_seconds_max=settings.sql.reconnect_seconds_max,
    )
    try:
        with nullcontext() if tenure.has_lock else locked_file(uri, holder):
            yield driver, surroundings, options
    finally:
        writing.stop()
        reading.stop()
