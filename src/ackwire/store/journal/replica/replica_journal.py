"""A journal as a copy, on a node of a replicated group that is not its master.

It takes the records that the master ships, byte for byte, syncs them, and truncates what a later master does not have.
What is committed is applied to catalog and index by and by (`applying.py`), so that the copy becomes the master's
store without reading anything anew (`take_over.py`). Truncation therefore never touches the index.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.store.background import Background
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.recovery_report import Report
from ackwire.store.journal.replica.applying import Applying
from ackwire.store.journal.replica.chunk_check import checked_chunk
from ackwire.store.journal.replica.node_state import NodeStateFile
from ackwire.store.journal.replica.opening import Applied, OpenCopy, open_copy
from ackwire.store.journal.replica.refill import RefillFiles
from ackwire.store.journal.replica.syncing import CopySyncing, misplaced
from ackwire.store.journal.replica.truncation import CutEnd, truncate
from ackwire.store.journal.shipping import (
    EMPTY,
    Chunk,
    Done,
    LogEnd,
    Refill,
    RefusedChunk,
    SnapshotSegment,
)
from ackwire.util.clock import Clock, Timer

_TICK_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Busy(Exception):
    """Something is under way that changes the log as a whole, or the copy is closed."""


@final
class ReplicaJournal:
    """Implements `ReplicaLog`. `open` makes one."""

    def __init__(
        self,
        source: JournalSource,
        options: JournalOptions,
        node: NodeStateFile,
        copy: OpenCopy,
        *,
        clock: Clock,
        writing: Background,
        indexing: Background,
        reading: Background,
        on_failed: Callable[[StoreFailed], None],
    ) -> None:
        self.source = source
        self.options = options
        self.node = node
        self.clock = clock
        self.writing = writing
        self.indexing = indexing
        self.reading = reading
        self.state = FailureState(source.data, on_failed)
        self._busy = ""
        """What is under way that nothing else may meet."""
        self._is_closed = False
        self.syncing = CopySyncing(writing, clock, end=self.end, fail=self._fail)
        self._refill: RefillFiles | None = None
        self._timer: Timer | None = None
        self._load(copy)
        node.durable_now = self._known_durable
        self._tick()

    def _load(self, copy: OpenCopy) -> None:
        self.journal = copy.journal
        self.log = copy.log
        self._writer = copy.journal.writer
        self._end = copy.end
        self.syncing.attach(copy.journal, copy.end)
        self.needs_refill = copy.needs_refill or self.node.log_damage or None
        self.node.compare(copy.end)
        if copy.needs_refill is not None:
            self.node.is_log_whole = False
        self.applying = Applying(
            copy.journal,
            copy.log,
            copy.applied,
            settled_at=copy.settled_at,
            options=self.options,
            clock=self.clock,
            reading=self.reading,
            indexing=self.indexing,
            sync=self.syncing.when_durable,
            on_failed=self._applying_failed,
            on_indexed=self._indexed,
        )

    @classmethod
    def open(
        cls,
        source: JournalSource,
        options: JournalOptions,
        node: NodeStateFile,
        *,
        clock: Clock,
        writing: Background,
        indexing: Background,
        reading: Background,
        on_failed: Callable[[StoreFailed], None],
        adopt: bool = False,
    ) -> "ReplicaJournal":
        """Open the journal in a directory as a copy. With *adopt*, one that a broker without replication has written
        becomes the first copy of a group that is being formed. Raises `UnusableStore`."""
        copy = open_copy(source, options, node, adopt=adopt)
        return cls(
            source,
            options,
            node,
            copy,
            clock=clock,
            writing=writing,
            indexing=indexing,
            reading=reading,
            on_failed=on_failed,
        )

    # ---- what it is --------------------------------------------------------------------------------------------

    @property
    def store_id(self) -> bytes:
        return self.journal.store_id

    @property
    def report(self) -> Report:
        """What opening found and did."""
        return self.journal.report

    def end(self) -> LogEnd:
        """See `ReplicaLog`."""
        return self._end

    def durable(self) -> LogEnd:
        """See `ReplicaLog`."""
        return self.syncing.durable

    def _known_durable(self) -> LogEnd:
        """How far the log is durable, as far as that can be said now."""
        is_known = self.state.failure is None and not (self._busy or self._is_closed)
        return self.syncing.durable if is_known else EMPTY

    def committed(self) -> int:
        """See `ReplicaLog`."""
        return min(self.applying.limit, self._end.number)

    def epochs(self) -> list[tuple[int, int]]:
        """See `ReplicaLog`."""
        return self.log.epochs

    # ---- appending ---------------------------------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """See `ReplicaLog`."""
        self._require_free()
        if self.needs_refill is not None:
            raise RefusedChunk(self.needs_refill)
        if chunk.last.epoch > self.node.promised_epoch:
            raise RefusedChunk(f"it is of epoch {chunk.last.epoch}, and {self.node.promised_epoch} was promised")
        checked = checked_chunk(chunk, self._end, self._writer, self.journal.store_id)
        if not self.journal.store_id:
            self.journal.set_store_id(checked.store_id)
        try:
            self._writer.write_copy(chunk, checked.last_offset)
        except OSError as error:
            raise self._fail("write to", error) from None
        self.log.took(chunk, checked.epochs[0][0])
        for epoch, number in checked.epochs:
            self.log.saw(epoch, number)
        if checked.last_sequence:
            self._writer.last_sequence = checked.last_sequence
        self._end = chunk.last
        self.syncing.make_spare()

    def _require_free(self) -> None:
        self.state.require_good()
        if self._busy or self._is_closed:
            raise Busy(self._busy or "the copy is closed")

    # ---- syncing -----------------------------------------------------------------------------------------------

    def sync(self, done: Done) -> None:
        """See `ReplicaLog`."""
        if self.state.failure is not None:
            done(self.state.failure)
        else:
            self.syncing.sync(done)

    def _applying_failed(self, what: str, error: Exception) -> None:
        self._fail(what, error)

    def _fail(self, what: str, error: Exception) -> StoreFailed:
        self.applying.stop()
        failure = self.state.fail(what, error)
        self.syncing.tell_all(failure)
        return failure

    def begin(self, what: str) -> None:
        """*what* is under way from now on. Raises `Busy` if something else is."""
        self._require_free()
        self._busy = what

    def end_busy(self) -> None:
        """Nothing is under way any more."""
        self._busy = ""

    # ---- truncation --------------------------------------------------------------------------------------------

    def truncate_after(self, number: int, done: Done) -> None:
        """See `ReplicaLog`."""
        if number < self.committed():
            done(ValueError(f"record {self.committed()} is committed: the log cannot be truncated after {number}"))
            return
        if number >= self._end.number:
            done(None)
            return
        self.begin("the log is being truncated")

        def noted(error: Exception | None) -> None:
            if error is not None:
                self._busy = ""
                done(error)
            else:
                self.syncing.when_quiet(lambda: self._truncate(number, done))

        self.node.will_truncate(LogEnd(self.log.epoch_at(number), number), noted)

    def cut_group(self, number: int, done: Done) -> None:
        """Drop the unfinished group behind record *number*: this node is to be master, and decides."""

        def noted(error: Exception | None) -> None:
            if error is not None:
                done(self._fail("note the end of", error))
            else:
                self.syncing.when_quiet(lambda: self._truncate(number, done))

        self.node.will_cut_group(LogEnd(self.log.epoch_at(number), number), noted)

    def _truncate(self, number: int, done: Done) -> None:
        self.syncing.detach()
        unsynced = self._writer.unsynced_segments
        self._writer.let_go()
        self.applying.forget_piece()
        found: list[CutEnd] = []
        applied = self.applying.applied
        fallback = CutEnd(applied.segment, applied.offset, applied.last_offset, applied.epoch)
        segments = list(self.log.segments.values())
        directory, seed = self.source.data / "journal", self._writer.seed

        def work() -> None:
            found.append(truncate(self.source.files, directory, seed, segments, number, fallback, unsynced))

        self.writing.submit(work, lambda error: self._truncated(number, found, done, error))

    def _truncated(self, number: int, found: list[CutEnd], done: Done, error: Exception | None) -> None:
        self._busy = ""
        if error is not None:
            done(self._fail("truncate", error))
            return
        cut = found[0]
        self.log.cut(number, cut.offset)
        for segment in [it for it in self.journal.catalog.segments if it not in self.log.segments]:
            self.journal.catalog.segments.pop(segment)
            self.journal.presence.forget(segment)
        self._end = LogEnd(cut.epoch, number) if number else EMPTY
        writer = self._writer
        writer.next_number, writer.epoch, writer.next_segment = number + 1, cut.epoch, cut.segment + 1
        if cut.segment in self.log.segments:
            try:
                writer.resume(cut.segment, cut.offset)
            except OSError as failed:
                done(self._fail("open", failed))
                return
        writer.last_offset = cut.last_offset
        self.syncing.attach(self.journal, self._end)  # the truncation has synced what is left
        done(None)

    # ---- applying ----------------------------------------------------------------------------------------------

    def commit(self, number: int) -> None:
        """See `ReplicaLog`."""
        if self.state.failure is None and not self._is_closed:
            self.applying.commit(number)

    def _indexed(self, removable: list[int]) -> None:
        """The index has caught up; the master had removed *removable* before."""
        self.node.note_durable(self.syncing.durable)
        for number in removable:
            if number in self.journal.catalog.segments and number != self._writer.segment:
                self.journal.catalog.end_segment(number)
                self.log.segments.pop(number, None)
                self._writer.forget(number)
                self.indexing.submit(partial(self._writer.remove, number), partial(self._removed, number))

    def _removed(self, number: int, error: Exception | None) -> None:
        if error is not None:
            _log.error("segment %d, which the master has removed, cannot be deleted: %s", number, error)

    def _tick(self) -> None:
        if self._is_closed or self.state.failure is not None:
            return
        self._timer = self.clock.call_later(_TICK_SECONDS, self._tick)
        if not self._busy:
            error = misplaced(self.journal, everything=True)
            if error is not None:
                self._fail("find", error)
                return
        self.applying.tick()

    # ---- refill ------------------------------------------------------------------------------------------------

    def begin_refill(self, store_id: bytes, end: LogEnd, segments: Sequence[SnapshotSegment]) -> Refill:
        """See `ReplicaLog`."""
        if end.epoch > self.node.promised_epoch:
            raise RefusedChunk(f"it is of epoch {end.epoch}, and {self.node.promised_epoch} was promised")
        self.begin("the log is being refilled")
        try:
            self._refill = RefillFiles(
                self.source.files,
                self.source.data,
                self.writing,
                store_id,
                end,
                segments,
                swap=self._swap,
                give_up=self._refill_ended,
            )
        except BaseException:
            self._busy = ""
            raise
        return self._refill

    def _refill_ended(self, error: Exception | None) -> None:
        self._busy = ""
        if error is not None:  # the next start finds out which journal counts; nothing may be added to either
            self._fail("refill", error)

    def _swap(self, end: LogEnd, done: Done) -> None:
        """The new journal is complete: open it in the place of the old one."""
        self.applying.stop()
        self.syncing.when_quiet(lambda: self._reopen(end, done))

    def _reopen(self, end: LogEnd, done: Done) -> None:
        self.syncing.detach()
        for background in (self.indexing, self.reading):
            background.finish()
        self.journal.close(clean=False)
        self.journal.lock.release()
        found: list[OpenCopy] = []

        def work() -> None:  # it reads every record
            found.append(open_copy(self.source, self.options, self.node, adopt=True))

        self.writing.submit(work, lambda error: self._reopened(end, found, done, error))

    def _reopened(self, end: LogEnd, found: list[OpenCopy], done: Done, error: Exception | None) -> None:
        self._busy = ""
        if error is not None:  # the old journal is closed: only a new start helps
            self._is_closed = True
            done(self._fail("open", error))
            return
        self._load(found[0])
        if self._end != end:
            done(self._fail("refill", OSError(f"it ends with {self._end}, and {end} was expected")))
            return
        self.needs_refill = found[0].needs_refill
        self.node.was_refilled(end, done)

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, remember how far the log is durable, and vouch for the index."""
        if self._is_closed:
            return
        if self.state.failure is None and not self._busy:
            self.applying.checkpoint()
            self.sync(lambda _: None)
        self._finish()
        is_good = self.state.failure is None and not self._busy
        if is_good:
            self.node.note_durable(self.syncing.durable)
            self._finish()
        self.let_go()
        self.journal.close(clean=is_good)
        self.journal.lock.release()

    def abandon(self) -> None:
        """Let go of everything, and vouch for nothing."""
        if self._is_closed:
            return
        self.applying.stop()
        self._finish()
        self.let_go()
        self.journal.close(clean=False)
        self.journal.lock.release()

    def _finish(self) -> None:
        if self._refill is not None:
            self._refill.abandon(lambda _: None)
        for background in (self.writing, self.reading, self.indexing, self.writing):
            background.finish()

    def let_go(self) -> None:
        """Do nothing more: the journal has another owner, or is being closed."""
        self._is_closed = True
        self.applying.stop()
        if self._timer is not None:
            self._timer.cancel()

    def position(self) -> Applied:
        """Up to where the catalog knows the log."""
        return self.applying.applied
