"""The store that `store.kind` names, and the files beside it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ackwire.config import Settings
from ackwire.config.store_uri import MEMORY, is_database, parse_store
from ackwire.opening.common import ALONE, Opened, Progress, StoreFailure, Tenure
from ackwire.opening.databases import opened_database, opened_journal_and_database
from ackwire.opening.journals import opened_journal
from ackwire.server.turn import Turn
from ackwire.store.contract import Store
from ackwire.store.files import OsFiles
from ackwire.store.memory import MemoryStore
from ackwire.store.temp import TempStore
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


@contextmanager
def opened_store(
    settings: Settings, clock: Clock, turn: Turn, progress: Progress, tenure: Tenure = ALONE
) -> Iterator[Opened]:
    """The store, closed at the end. A first start that fails leaves no files behind. Raises `ConfigError`."""
    if tenure.opened is not None:
        with tenure.opened() as opened:
            yield opened
        return
    failure = StoreFailure()
    if settings.store.kind == MEMORY:
        yield Opened(MemoryStore(), failure, lambda _: None)
        return

    choice = parse_store(settings.store.kind)
    if is_database(choice.kind):
        open_database = opened_journal_and_database if choice.has_journal else opened_database
        with open_database(settings, clock, turn, tenure, failure.tell) as database:
            yield Opened(database, failure, database.give_up)
        return
    with opened_journal(settings, clock, turn, progress, tenure, failure.tell) as journal:
        yield Opened(journal, failure, journal.give_up, journal.epoch)


def with_largest_message(settings: Settings, store: Store) -> Settings:
    """*settings* that let in no message that the database would refuse."""
    limit = store.message_bytes_max
    if limit is None or limit >= settings.wire.frame_bytes_max:
        return settings
    _log.warning(
        "the database takes messages up to %d bytes, so wire.frame_bytes_max is lowered from %d; raise its "
        "max_allowed_packet to more than twice that",
        limit,
        settings.wire.frame_bytes_max,
    )
    return replace(settings, wire=replace(settings.wire, frame_bytes_max=limit))


@contextmanager
def opened_temp_store(settings: Settings) -> Iterator[TempStore | None]:
    """Where non-persistent messages go that memory has no room for; a broker without files has none."""
    if settings.store.kind == MEMORY or settings.limits.temp_bytes_max == 0:
        yield None
        return
    temp = TempStore(OsFiles(), Path(settings.store.data) / "tmp", settings.limits.temp_bytes_max)
    try:
        yield temp
    finally:
        temp.close()
