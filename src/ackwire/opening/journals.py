"""Opens a journal in files of this machine."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ackwire.config import Settings
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import Progress, Tenure, data_directory, holder_of, journal_options
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.background import ThreadBackground
from ackwire.server.turn import Turn
from ackwire.store.files import HeldElsewhere, OsFiles
from ackwire.store.index_files import IndexKind
from ackwire.store.indexes import open_index
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.leftovers import Leftovers
from ackwire.util.clock import Clock
from ackwire.wire.openwire.stored import OpenWireStoredForm

_log = logging.getLogger(__name__)


@contextmanager
def opened_journal(
    settings: Settings,
    clock: Clock,
    turn: Turn,
    progress: Progress,
    tenure: Tenure,
    on_failed: Callable[[StoreFailed], None],
) -> Iterator[JournalStore]:
    """The journal in the data directory. A first start that fails leaves no files behind. Raises `ConfigError`."""
    leftovers = Leftovers(Path(settings.store.data))
    writing, indexing, reading = ThreadBackground("journal"), ThreadBackground("index"), ThreadBackground("reads")
    try:
        with leftovers.removed_if_bare(OsFiles()):
            store = _open_journal(settings, clock, turn, tenure, writing, indexing, reading, on_failed)
        try:
            yield store
        except BaseException:
            if not tenure.has_lock and leftovers.is_new and store.is_first_start and not progress.is_ready:
                store.abandon(leftovers.remove)
            raise
        finally:
            store.close()
    finally:
        writing.stop()
        indexing.stop()
        reading.stop()


def _open_journal(
    settings: Settings,
    clock: Clock,
    turn: Turn,
    tenure: Tenure,
    writing: ThreadBackground,
    indexing: ThreadBackground,
    reading: ThreadBackground,
    on_failed: Callable[[StoreFailed], None],
) -> JournalStore:
    data = data_directory(settings)
    try:
        store = JournalStore.open(
            OsFiles(),
            data,
            form=OpenWireStoredForm(wire_limits(settings)),
            clock=clock,
            open_index=lambda fresh: open_index(IndexKind(settings.store.index), data / "index", fresh=fresh),
            options=journal_options(settings),
            writing=writing,
            indexing=indexing,
            reading=reading,
            new_id=lambda: os.urandom(16),
            holder=holder_of(settings),
            on_failed=on_failed,
            at_turn_end=turn.at_end,
            lock=HeldElsewhere() if tenure.has_lock else None,
        )
    except (UnusableStore, OSError) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    _log.info("journal in %s, sync %s; %s", data, settings.store.sync, store.report)
    for damage in store.report.damages:
        _log.error("%s: %s", data, damage)
    return store
