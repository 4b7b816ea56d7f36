"""When the index catches up with the journal: from time to time, after many bytes, and on demand.

A checkpoint syncs the journal, then writes to the index what has changed since the last one; both beside the loop. If
the index cannot be written, the journal has everything, and the next tick tries again.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import final

from ackwire.store.background import Background
from ackwire.store.checkpoint import Checkpoint, Position
from ackwire.store.index import IndexTrouble
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.gradual_release import GradualRelease
from ackwire.store.journal.group_commit import GroupCommit
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


@final
class Checkpointing:
    """One checkpoint after the other."""

    def __init__(
        self,
        journal: OpenJournal,
        buffer: RecordBuffer,
        commit: GroupCommit,
        state: FailureState,
        *,
        options: JournalOptions,
        background: Background,
        clock: Clock,
        release: GradualRelease,
    ) -> None:
        self._journal = journal
        self._catalog = journal.catalog
        self._buffer = buffer
        self._commit = commit
        self._state = state
        self._options = options
        self._background = background
        self._clock = clock
        self._release = release
        self.on_done: Callable[[], None] | None = None
        """Called after each checkpoint."""
        self._current: Checkpoint | None = None
        self._began_at = clock.monotonic()
        self._number = 0
        """The last record before the last checkpoint."""
        self._written_bytes = 0
        """Since then."""
        self._is_writing_index = False
        self.segment = 0
        """Replay begins in this segment: no later one may go."""
        self.trouble: str | None = None
        """Why the last checkpoint did not succeed; it is tried again."""

    @property
    def is_idle(self) -> bool:
        """Whether none is under way, or the one that is cannot go on for now."""
        return self._current is None or self.trouble is not None

    @property
    def is_due(self) -> bool:
        return self.has_news and self._clock.monotonic() - self._began_at >= self._options.checkpoint_seconds

    @property
    def has_news(self) -> bool:
        """Whether anything was written since the last one began."""
        return self._journal.writer.last_number != self._number

    def wrote(self, size_bytes: int) -> None:
        """So much was written to the journal."""
        self._written_bytes += size_bytes
        if self._written_bytes > self._options.checkpoint_bytes:
            self.begin()

    def begin(self) -> None:
        """Let the index catch up, beside the loop."""
        if self._buffer.records and not self._buffer.depth:
            self._commit.write()
        if self._current is not None or self._state.failure is not None or self._buffer.depth:
            return  # what was just written may have called for one already
        writer = self._journal.writer
        position = Position(
            self._journal.store_id,
            writer.segment,
            writer.offset,
            writer.last_number,
            writer.epoch,
            self._catalog.last_sequence,
            last_offset=writer.last_offset,
        )
        checkpoint = self._current = Checkpoint(self._catalog, position)
        self._written_bytes = 0
        self._began_at = self._clock.monotonic()
        self._number = writer.last_number
        self._commit.sync_for_checkpoint(partial(self._synced, checkpoint))

    def _synced(self, checkpoint: Checkpoint, error: Exception | None) -> None:
        if error is not None or self._state.failure is not None:
            self._state.fail("sync", error)
            return
        self._journal.writer.synced_up_to(checkpoint.position.number)
        self._commit.when_confirmed(checkpoint.position, partial(self._confirmed, checkpoint))

    def _confirmed(self, checkpoint: Checkpoint) -> None:
        """The journal will keep everything up to there, whatever becomes of this broker."""
        if self._state.failure is None:
            self._write_index(checkpoint)

    def try_again(self) -> None:
        """Write the index if that has failed before."""
        if self.trouble is not None and self._current is not None and not self._is_writing_index:
            self._write_index(self._current)

    def _write_index(self, checkpoint: Checkpoint) -> None:
        self._is_writing_index = True
        index = self._catalog.index
        self._background.submit(lambda: index.commit(checkpoint.changes()), partial(self._done, checkpoint))

    def _done(self, checkpoint: Checkpoint, error: Exception | None) -> None:
        self._is_writing_index = False
        if isinstance(error, IndexTrouble):
            self._state.fail("trust the index of", error)
            return
        self.trouble = None if error is None else f"the index in {self._journal.data} cannot be written: {error}"
        if self.trouble is not None:  # the journal has everything: the next tick tries again
            _log.error("%s", self.trouble)
            return
        if self._state.failure is None:
            for delta in checkpoint.end(self._catalog):
                self._release.add(delta)
            self._current = None
            self._commit.close_idle_files()
            self.segment = checkpoint.position.segment
            if self.on_done is not None:
                self.on_done()
