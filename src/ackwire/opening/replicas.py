"""Opens the journal of a node: as a copy of the master's, and as the master's store."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import final

from ackwire.config import Settings
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import data_directory, holder_of, journal_options
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.background import ThreadBackground
from ackwire.server.turn import Turn
from ackwire.store.files import OsFiles
from ackwire.store.index_files import IndexKind
from ackwire.store.indexes import open_index
from ackwire.store.journal.group_commit import Quorum
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal.replica.node_state import NodeStateFile, open_node_state
from ackwire.store.journal.replica.opening import OpenCopy, open_copy
from ackwire.store.journal.replica.replica_journal import ReplicaJournal
from ackwire.store.journal.replica.take_over import Mastered, Surroundings, take_over
from ackwire.store.journal.shipping import LogSource
from ackwire.util.clock import Clock
from ackwire.wire.openwire.stored import OpenWireStoredForm

_log = logging.getLogger(__name__)


@final
class ReplicaFiles:
    """The files of one node, and the threads that work on them; they live as long as the process."""

    def __init__(self, settings: Settings, clock: Clock, turn: Turn, on_failed: Callable[[StoreFailed], None]) -> None:
        """Raises `ConfigError` if the files cannot be used."""
        self._settings = settings
        self._clock = clock
        self._turn = turn
        self._on_failed = on_failed
        self._data = data_directory(settings)
        self._threads = [ThreadBackground(name) for name in ("journal", "index", "reads")]
        self.store: JournalStore | None = None
        """While this node is the master."""
        self.copy: ReplicaJournal | None = None
        """While it is not."""
        try:
            writing, *_ = self._threads
            self.state: NodeStateFile = open_node_state(OsFiles(), self._data, writing, lambda: os.urandom(16))
            self.open_copy()
        except BaseException:
            self._stop_threads()
            raise

    def _source(self) -> JournalSource:
        settings, data = self._settings, self._data
        return JournalSource(
            OsFiles(),
            data,
            OpenWireStoredForm(wire_limits(settings)),
            lambda fresh: open_index(IndexKind(settings.store.index), data / "index", fresh=fresh),
            self._clock.now_ms,
            lambda: os.urandom(16),
            holder_of(settings),
        )

    def open_copy(self) -> ReplicaJournal:
        """Open the journal as a copy. Raises `ConfigError`."""
        source, options = self._source(), journal_options(self._settings)
        try:
            return self._has_copy(source, options, open_copy(source, options, self.state, adopt=False))
        except (UnusableStore, OSError) as error:
            raise _unusable(error) from None

    def reopen_copy(self, done: Callable[[ReplicaJournal | None, Exception | None], None]) -> None:
        """The same beside the loop: what is behind the index is read."""
        source, options = self._source(), journal_options(self._settings)
        found: list[OpenCopy] = []

        def opened(error: Exception | None) -> None:
            if error is None:
                done(self._has_copy(source, options, found[0]), None)
            else:
                done(None, _unusable(error) if isinstance(error, (UnusableStore, OSError)) else error)

        self._threads[0].submit(lambda: found.append(open_copy(source, options, self.state, adopt=False)), opened)

    def _has_copy(self, source: JournalSource, options: JournalOptions, opened: OpenCopy) -> ReplicaJournal:
        writing, indexing, reading = self._threads
        copy = ReplicaJournal(
            source,
            options,
            self.state,
            opened,
            clock=self._clock,
            writing=writing,
            indexing=indexing,
            reading=reading,
            on_failed=self._on_failed,
        )
        end = copy.end()
        _log.info("copy of the journal in %s, up to record %d of epoch %d", self._data, end.number, end.epoch)
        self.store, self.copy = None, copy
        return copy

    def take_over(self, epoch: int, quorum: Quorum, done: Callable[[LogSource | None, Exception | None], None]) -> None:
        """Make the copy the store of the master of *epoch*. See `replication.node.Host`."""
        copy = self.copy
        assert copy is not None

        def ready(mastered: Mastered | None, error: Exception | None) -> None:
            if mastered is not None:
                self.store, self.copy = mastered.store, None
            done(None if mastered is None else mastered.source, error)

        writing, indexing, reading = self._threads
        around = Surroundings(self._clock, writing, indexing, reading, self._on_failed, self._turn.at_end)
        take_over(copy, epoch, quorum, around, ready=ready, begun=lambda: None)

    def freeze_store(self) -> None:
        """The master's store writes nothing more: another node may be master already, and has all that is here."""
        if self.store is not None:
            self.store.freeze()

    def abandon_store(self) -> None:
        """Let go of the master's store. What was answered is on disk."""
        store, self.store = self.store, None
        if store is not None:
            store.abandon()

    def close(self) -> None:
        """Let go of everything."""
        try:
            self.abandon_store()
            self._threads[0].finish()  # a copy may be on its way
            copy, self.copy = self.copy, None
            if copy is not None:
                copy.close()
        finally:
            self._stop_threads()

    def _stop_threads(self) -> None:
        for thread in self._threads:
            thread.stop()


def _unusable(error: Exception) -> ConfigError:
    return ConfigError(f"the store cannot be used: {error}")


def secret_of(path: str) -> bytes:
    """The secret of the group; empty if there is none. Raises `ConfigError`."""
    if not path:
        return b""
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"replication.secret_file: {path} cannot be read: {(error.strerror or '').lower()}") from None
