"""Applies the committed records of a copy to its catalog and index, by and by, so that a take-over finds both warm.

A step takes a few milliseconds at most, then others get their turn. Records are read from the files, mostly from the
system's cache, and those of a group are applied together. The index is written at committed positions only, and not in
the middle of an old journal that is read anew, after a refill: what compaction has written again there comes behind
what needs it, so two places may have one name for a while. If memory is short, the index takes what was read there,
and says that it has no position to start from.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.store.background import Background
from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import GAPS_KEY, Checkpoint, Position
from ackwire.store.contract import DurableRecord
from ackwire.store.journal.gradual_release import GradualRelease
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.record import Damaged, Flag, Record, RecordKind, read_record
from ackwire.store.journal.record_application import RecordApplication
from ackwire.store.journal.replica.log_map import LogMap
from ackwire.store.journal.replica.opening import Applied
from ackwire.store.journal.replica.walk import needed_bytes
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES
from ackwire.util.clock import Clock

_GOES_ON: Final = int(Flag.GOES_ON)
_CONTINUES: Final = int(Flag.CONTINUES)
_PIECE_BYTES: Final = 256 * 1024
_STEP_RECORDS: Final = 64
"""Records between two looks at the clock."""
_STEP_SECONDS: Final = 0.004
_FRESH_MAX: Final = 50_000
"""Entries in memory; beyond it they go to the index. `Replay` takes more, but has no loop beside it: the
thread that sorts so many holds the loop for 20 ms."""

_log = logging.getLogger(__name__)


@final
class Applying:
    """Brings the catalog of a copy to its committed end."""

    def __init__(
        self,
        journal: OpenJournal,
        log: LogMap,
        applied: Applied,
        *,
        settled_at: int,
        options: JournalOptions,
        clock: Clock,
        reading: Background,
        indexing: Background,
        sync: Callable[[int, Callable[[], None]], None],
        on_failed: Callable[[str, Exception], None],
        on_indexed: Callable[[list[int]], None],
    ) -> None:
        """Up to record *settled_at* the log is old: places may have been written again behind what is in them. *sync*
        calls back when the log is durable up to a record; *on_indexed* is told after each
        checkpoint which segments the master had removed before it."""
        self._journal = journal
        self._catalog = journal.catalog
        self._log = log
        self.applied = applied
        self._settled_at = settled_at
        self._options = options
        self._clock = clock
        self._reading = reading
        self._indexing = indexing
        self._sync = sync
        self._on_failed = on_failed
        self._on_indexed = on_indexed
        self.application = RecordApplication(self._catalog, journal.form, journal.quarantine)
        self._release = GradualRelease(clock)
        self.limit = applied.number
        """Committed up to here."""
        self._segment, self._offset = applied.segment, applied.offset
        """Of the next record to read."""
        self._next_number = applied.number + 1
        self._base, self._data = 0, memoryview(b"")
        """The piece of the segment that was read last."""
        self._reads = 0
        """Counts what makes a read void that is under way."""
        self._group: list[Record] = []
        self._ready: deque[Record] = deque()
        """Records of whole groups, to be applied."""
        self._is_reading = False
        self._is_scheduled = False
        self._is_stopped = False
        self._on_idle: list[Callable[[], None]] = []
        # The index:
        self._checkpoint: Checkpoint | None = None
        self.holds_index = False
        """Whether the index waits as long as memory allows it: a take-over does not."""
        self._is_trusted = True
        self._removed: set[int] = set(self._gaps())
        """Segments that the master has removed, or is about to, and that are here still."""
        self._removable: list[int] = []
        """Those of which the index knew so when its checkpoint began."""
        self._new_bytes = 0
        self._began_at = clock.monotonic()

    # ---- what is to be applied ---------------------------------------------------------------------------------

    def commit(self, number: int) -> None:
        """All records up to *number* may be applied."""
        if number > self.limit:
            self.limit = number
            self._schedule()

    def forget_piece(self) -> None:
        """The log was truncated: what was read behind what is committed may be replaced."""
        self._base, self._data = 0, memoryview(b"")
        self._reads += 1

    @property
    def is_idle(self) -> bool:
        """Whether all that may be applied is, and the index is at rest."""
        return self._checkpoint is None and not (self._is_scheduled or self._is_reading or self._ready)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call *callback* when that is so."""
        self._on_idle.append(callback)
        self._schedule()

    def stop(self) -> None:
        """Do nothing more."""
        self._is_stopped = True

    def _schedule(self) -> None:
        if not (self._is_scheduled or self._is_reading or self._is_stopped):
            self._is_scheduled = True
            self._clock.call_later(0, self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        until = self._clock.monotonic() + _STEP_SECONDS
        while self._advance(_STEP_RECORDS):
            if self._clock.monotonic() >= until:
                self._schedule()
                break
        self._after_step()

    def _after_step(self) -> None:
        if self._is_stopped:
            return
        self._keep_index()
        if self.is_idle:
            callbacks, self._on_idle = self._on_idle, []
            for callback in callbacks:
                callback()

    def _advance(self, count: int) -> bool:
        """Apply *count* records, or so; False if there are none, or they have to be read first."""
        if self._checkpoint is not None and self._is_full:
            return False  # the end of the checkpoint goes on
        for _ in range(count):
            if self._ready:
                self._apply(self._ready.popleft())
            elif not self._read_next():
                return False
        return True

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read_next(self) -> bool:
        """Take the next committed record to its group; False if there is none, or it has to be read."""
        if self._next_number > self.limit or not self._find_segment():
            return False
        record = read_record(self._data, self._base, self._offset, self._segment, self._journal.writer.seed)
        if record is None:
            self._read_piece()
            return not self._is_reading and not self._is_stopped
        if record.number != self._next_number:
            self._fail(f"record {self._next_number} at {self._offset} of segment {self._segment} is missing")
            return False
        self._next_number += 1
        self._offset += record.size_bytes
        self._take(record)
        return True

    def _find_segment(self) -> bool:
        """Go to the segment of the next record; False if that is not there yet."""
        segment = self._log.segments.get(self._segment)
        if segment is not None and self._offset < segment.end:
            return True
        later = [it for it in self._log.segments if it > self._segment]
        if not later:
            return False
        self._segment, self._offset = min(later), SEGMENT_HEADER_BYTES
        self._base, self._data = 0, memoryview(b"")
        self._next_number = max(self._next_number, self._log.segments[self._segment].first_number)
        return self._next_number <= self.limit

    def _read_piece(self) -> None:
        """Read on: at once if the system has it in memory, else beside the loop."""
        number, offset, end = self._segment, self._offset, self._log.segments[self._segment].end
        needed = needed_bytes(self._data, max(offset - self._base, 0)) if self._data else 0
        there = self._base + len(self._data)
        if self._data and offset + needed <= there:
            self._fail(f"the record at {offset} of segment {number} is damaged")
            return
        length = min(max(needed, _PIECE_BYTES), end - offset)
        try:
            data = self._journal.writer.file(number).read_cached(offset, length)
        except OSError as error:
            self._fail(str(error))
            return
        if data is not None:
            self._base, self._data = offset, memoryview(data)
            return
        self._is_reading = True
        found: list[bytes] = []

        def read() -> None:
            file = self._journal.writer.open_to_scan(number)
            try:
                found.append(file.read(offset, length))
            finally:
                file.close()

        self._reading.submit(read, partial(self._piece_read, self._reads, offset, length, found))

    def _piece_read(self, reads: int, offset: int, length: int, found: list[bytes], error: Exception | None) -> None:
        self._is_reading = False
        if self._is_stopped:
            return
        if reads != self._reads:
            self._schedule()
            return
        if error is not None or len(found[0]) < length:
            self._fail(str(error or f"segment {self._segment} ends before {offset + length}"))
            return
        self._base, self._data = offset, memoryview(found[0])
        self._schedule()

    def _fail(self, what: str) -> None:
        self._is_stopped = True
        self._on_failed("read", OSError(what))

    # ---- applying ----------------------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        if self._group and not record.flags & _CONTINUES:  # as `Replay` does: an old journal may be damaged
            self._ready.extend(self._group)
            self._group = []
        self._group.append(record)
        if not record.flags & _GOES_ON:
            self._ready.extend(self._group)
            self._group = []

    def _apply(self, record: Record) -> None:
        try:
            self.application.apply(record)
        except Damaged as error:
            what = f"segment {record.segment}: the record at {record.offset} cannot be used: {error}"
            self._journal.quarantine.put(what, f"{record.segment:010}-{record.offset}.bin", bytes(record.payload))
        if record.kind == RecordKind.GAPS:
            self._removed.update(self._gaps())
        self._new_bytes += record.size_bytes
        if not record.flags & _GOES_ON:
            end = record.offset + record.size_bytes
            self.applied = Applied(record.number, record.epoch, record.segment, end, record.offset)

    # ---- the index ---------------------------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return self._catalog.fresh_count > _FRESH_MAX

    @property
    def _is_between_groups(self) -> bool:
        return not self._ready or not self._ready[0].flags & _CONTINUES

    def _keep_index(self) -> None:
        if not self._new_bytes or self._checkpoint is not None or not self._is_between_groups:
            return
        is_settled = self.applied.number >= self._settled_at
        is_due = (
            self._new_bytes > self._options.checkpoint_bytes
            or self._clock.monotonic() - self._began_at >= self._options.checkpoint_seconds
        )
        if is_settled:
            if self._is_full or (is_due and not self.holds_index):
                self._begin_checkpoint(is_trusted=True)
        elif self._is_full and _can_be_packed(self._catalog):
            self._begin_checkpoint(is_trusted=False)

    def tick(self) -> None:
        """Time has passed."""
        if not self._is_stopped:
            self._keep_index()

    def checkpoint(self) -> None:
        """Let the index catch up now, if it can."""
        is_settled = self.applied.number >= self._settled_at
        if self._new_bytes and self._checkpoint is None and self._is_between_groups and is_settled:
            self._begin_checkpoint(is_trusted=True)

    def _begin_checkpoint(self, *, is_trusted: bool) -> None:
        applied = self.applied
        position = Position(
            self._journal.store_id,
            applied.segment if is_trusted else 0,
            applied.offset,
            applied.number,
            applied.epoch,
            self._catalog.last_sequence,
            last_offset=applied.last_offset,
        )
        checkpoint = self._checkpoint = Checkpoint(self._catalog, position)
        self._is_trusted = is_trusted
        self._removable = sorted(self._removed) if is_trusted else []
        self._new_bytes, self._began_at = 0, self._clock.monotonic()
        self._sync(applied.number, partial(self._write_index, checkpoint))

    def _write_index(self, checkpoint: Checkpoint) -> None:
        """The index must never know more than the medium has of the journal."""
        if not self._is_stopped:
            index = self._catalog.index
            self._indexing.submit(lambda: index.commit(checkpoint.changes()), partial(self._indexed, checkpoint))

    def _indexed(self, checkpoint: Checkpoint, error: Exception | None) -> None:
        if self._is_stopped:
            return
        if error is not None:
            self._is_stopped = True
            self._on_failed("write the index of", error)
            return
        for delta in checkpoint.end(self._catalog):
            self._release.add(delta)
        self._checkpoint = None
        if self._is_trusted:
            self._removed.difference_update(self._removable)
            self._on_indexed(self._removable)
        self._schedule()

    # ---- the end -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """All of the log is applied: what was only half told will not be told any more."""
        self.application.report_orphans()
        self.application.end_bare_places()
        self.application.report_lost_jobs()
        self._journal.quarantine.flush()

    def _gaps(self) -> list[int]:
        """What the last record about it says that the master has removed: it moves first what is alive in there."""
        gaps = self._catalog.state.get(GAPS_KEY)
        numbers = gaps.value if gaps is not None and isinstance(gaps.value, tuple) else ()
        return [it for it in numbers if isinstance(it, int) and it in self._catalog.segments]


def _can_be_packed(catalog: Catalog) -> bool:
    """Whether all durable subscriptions have their places: in an old journal those may come later."""
    values = (item.value for item in catalog.state.values())
    return all(value.key in catalog.places for value in values if isinstance(value, DurableRecord))
