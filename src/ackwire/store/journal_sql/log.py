"""The journal in front of a database: its group commit, its space, and its segments until the database has them."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.store.background import Background
from ackwire.store.files import DataFile
from ackwire.store.journal.answers import AtTurnEnd
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.group_commit import GroupCommit
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.pending_records import PendingPayload
from ackwire.store.journal.presence import Misplaced
from ackwire.store.journal.record import RecordKind, pack_numbers
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.segment import segment_path
from ackwire.store.journal.space import Space
from ackwire.store.sql.journal_mark import JournalMark
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


@final
class _NoTrouble:
    """A database that is away does not stop producers: the size of the journal does."""

    full_because: Final = None


@final
class Log:
    """The journal while the broker runs."""

    def __init__(
        self,
        journal: OpenJournal,
        state: FailureState,
        *,
        options: JournalOptions,
        clock: Clock,
        at_turn_end: AtTurnEnd | None,
        writing: Background,
        housekeeping: Background,
    ) -> None:
        self.journal = journal
        self._state = state
        self._options = options
        self._clock = clock
        self._writing = writing
        self._housekeeping = housekeeping
        self._is_closed = False
        self.buffer = RecordBuffer(journal.catalog)
        self.commit = GroupCommit(
            self.buffer,
            journal.writer,
            journal.catalog,
            state,
            journal.presence,
            clock=clock,
            at_turn_end=at_turn_end,
            policy=options.sync,
            background=writing,
            quorum=None,
        )
        self.space = Space(journal, _NoTrouble(), state, options=options, background=housekeeping)
        self.commit.on_drained = self.space.tell_of_room
        self._undeleted: list[int] = []
        """Segments whose files are not needed any more."""
        self._is_deleting = False

    # ---- beginning -------------------------------------------------------------------------------------------------

    def begin_epoch(self, last_sequence: int) -> None:
        """Begin a new epoch, on the medium before anything else is: what was cut off can never come back. Raises
        `StoreFailed`."""
        self.skip_to(last_sequence)
        self.commit.appended_sequence = self.commit.durability.durable_sequence = last_sequence
        self.buffer.add(PendingPayload(RecordKind.OPENED, pack_numbers((self._clock.now_ms(), last_sequence))))
        self.commit.write()
        self.commit.sync_on_the_spot()
        self._state.require_good()
        self.space.check()
        if self._options.sync is SyncPolicy.PERIODIC:
            self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)

    def skip_to(self, sequence: int) -> None:
        """Have no message get a sequence up to this one: it may be used already."""
        catalog, writer = self.journal.catalog, self.journal.writer
        if sequence > catalog.last_sequence:
            catalog.last_sequence = sequence
        writer.last_sequence = catalog.last_sequence

    def _sync_periodically(self) -> None:
        if not self._is_closed and self._state.failure is None:
            self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)
            self.commit.sync_periodically()

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def mark(self, run_id: str, *, is_drained: bool = False) -> JournalMark:
        """The end of what is written."""
        writer = self.journal.writer
        return JournalMark(
            self.journal.store_id,
            writer.epoch,
            writer.segment,
            writer.offset,
            writer.last_number,
            writer.last_offset,
            is_drained,
            run_id=run_id,
            journal=str(self.journal.data),
        )

    def write(self) -> bool:
        """Write what is in the buffer; False if that failed."""
        return not self.buffer.records or self.commit.write()

    def sync(self, done: Callable[[], None]) -> None:
        """Have everything that is written synced, then call *done*; not if that failed."""
        number = self.journal.writer.last_number

        def synced(error: Exception | None) -> None:
            if error is not None or self._state.failure is not None:
                self._state.fail("sync", error or self._state.failure)
                return
            self.journal.writer.synced_up_to(number)
            self.commit.close_idle_files()
            done()

        self.commit.sync_for_checkpoint(synced)

    def finish(self) -> None:
        """Return when nothing is under way."""
        self._writing.finish()
        self._housekeeping.finish()

    # ---- segments --------------------------------------------------------------------------------------------------

    def open_segment(self, number: int) -> DataFile:
        """A segment, to read from; the caller closes it."""
        return self.journal.files.open(segment_path(self.journal.data / "journal", number), writable=False)

    def delete_before(self, segment: int) -> None:
        """Delete all segments before *segment*: the database has what is in them."""
        catalog = self.journal.catalog
        for number in sorted(it for it in catalog.segments if it < segment):
            catalog.end_segment(number)
            self.journal.writer.forget(number)
            self._undeleted.append(number)
        catalog.begin_changes()  # there is no index that wants to know what has changed
        self.delete_files()

    def delete_files(self) -> None:
        """Delete files that are not needed any more, the oldest first: a journal has no gaps."""
        if self._undeleted and not self._is_deleting and not self._is_closed:
            self._is_deleting = True
            number = self._undeleted[0]
            self._housekeeping.submit(partial(self.journal.writer.remove, number), self._deleted)

    def _deleted(self, error: Exception | None) -> None:
        self._is_deleting = False
        if error is not None:  # the next tick tries again
            _log.error("segment %d, which is not needed any more, cannot be deleted yet: %s", self._undeleted[0], error)
            return
        self._undeleted.pop(0)
        self.space.check()
        self.delete_files()

    # ---- as time passes --------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Look after files and space; False if the journal is not where the next start will look for it."""
        try:
            self.journal.presence.check_all()
            if self.journal.writer.cut_off is not None:
                raise Misplaced(self.journal.writer.cut_off)
        except Misplaced as error:
            self._state.fail("find", error)
            return False
        self.space.make_spare()
        self.delete_files()
        self.space.check()
        return True

    def full(self) -> str | None:
        """Why nothing more should be sent here."""
        buffer = self.buffer
        if buffer.size_bytes > buffer.full_above:
            return buffer.full_because(self.journal.data)
        return self.space.full_because

    # ---- the end ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write and sync everything on the spot."""
        if self.write():
            self.commit.sync_on_the_spot()

    def close(self, *, clean: bool) -> None:
        """Let go of all files; the caller releases the lock."""
        if not self._is_closed:
            self._is_closed = True
            self.commit.stop()
            self.journal.close(clean=clean)
