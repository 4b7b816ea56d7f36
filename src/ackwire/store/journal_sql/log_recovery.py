"""Reads a journal in front of a database at a start: whose it is, and what the database does not have of it."""

import logging
from typing import Final, final

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Position
from ackwire.store.journal.opening import JournalSource
from ackwire.store.journal.record import Record, RecordKind
from ackwire.store.journal.recovery_report import Quarantine, Report
from ackwire.store.journal.replay import Application, Replay
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES
from ackwire.store.journal.segment_files import SegmentFiles
from ackwire.store.journal_sql.no_index import NoIndex
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.journal_mark import JournalMark
from ackwire.store.sql.opening import Opening

_SEGMENTS_PER_REPORT: Final = 50

_log = logging.getLogger(__name__)


@final
class LogRecovery:
    """Implements `RecoveredJournal`. The lock of the journal is held by the caller."""

    def __init__(self, source: JournalSource) -> None:
        """Raises `UnusableStore` if the files are not those of one journal."""
        self._source = source
        self.catalog = Catalog(NoIndex())
        self.report = Report()
        self.quarantine = Quarantine(source.files, source.data / "quarantine", self.report, source.now_ms)
        self._segments = SegmentFiles(source.files, source.data / "journal")
        self._segments.read_headers(self.catalog)
        self.epoch = 0
        """The highest that was seen."""
        self.number = 0
        """The last record."""
        self.segment = 0
        self.offset = 0
        """The end of the journal."""
        self.last_segment = 0
        """The highest number of a segment that was ever used."""

    @property
    def store_id(self) -> bytes:
        """Empty for a new journal."""
        return self._segments.store_id

    @property
    def seed(self) -> int:
        return self._segments.seed

    @property
    def can_resume(self) -> bool:
        """Whether the last segment can be written to."""
        header = self._segments.headers.get(self.segment)
        return self.segment in self.catalog.segments and header is not None and header.size_bytes > 0

    # ---- whose it is -----------------------------------------------------------------------------------------------

    def is_bare(self) -> bool:
        """Whether it tells of nothing but its own beginnings: a first start was cut off."""
        found = _Contents()
        self._begun(found, None).read()
        return not found.has_any

    def has(self, mark: JournalMark) -> bool:
        """Whether the journal has the last record before *mark* where that says."""
        segment = self.catalog.segments.get(mark.segment)
        position = Position(
            mark.journal_id, mark.segment, mark.offset, mark.number, mark.epoch, 0, last_offset=mark.last_offset
        )
        return segment is not None and self._segments.has_record(position, segment.size_bytes)

    def ends_at(self, mark: JournalMark) -> bool:
        """Whether nothing is behind *mark*."""
        last_number, _ = self._segments.readable_end(max(self.catalog.segments))
        return max(self.catalog.segments) == mark.segment and last_number == mark.number

    # ---- replay ----------------------------------------------------------------------------------------------------

    def _begun(self, application: Application, mark: JournalMark | None) -> Replay:
        """A replay that begins at *mark*, or with the whole journal."""
        replay = Replay(
            self._segments, self.catalog, application, self.report, self.quarantine, progress=self._progress
        )
        if mark is not None:
            replay.begin(mark.segment, mark.offset, mark.number, mark.epoch)
        else:
            first = min(self._segments.headers, default=0)
            header = self._segments.headers.get(first)
            replay.begin(first, SEGMENT_HEADER_BYTES, 0 if header is None else header.first_record - 1, 0)
        return replay

    def run(self, application: Application, mark: JournalMark | None) -> None:
        """Apply what is behind *mark*, each record once, and cut off the torn end. Without a mark the journal is new,
        or bare."""
        self.report.replayed = 0
        replay = self._begun(application, mark)
        replay.read()
        self._report_missing(0 if mark is None else mark.segment)
        self._segments.restore_sizes(self.catalog, self.quarantine)
        has_removed = bool(replay.settle_end())
        self.last_segment = max(self.catalog.segments if has_removed else self._segments.headers, default=0)
        self.epoch, self.number = replay.epoch, replay.number
        self.segment, self.offset = replay.segment, replay.offset
        self.quarantine.flush()

    def _report_missing(self, first: int) -> None:
        """Report segments behind the mark that are not there: none of them was ever deleted."""
        there = [it for it in self._segments.headers if it >= first]
        for number in range(min(there, default=0), max(there, default=0)):
            if number not in self._segments.headers:
                self.quarantine.put(f"segment {number} is missing, with all that was in it", "")

    def _progress(self, done: int, count: int) -> None:
        if done and done % _SEGMENTS_PER_REPORT == 0:
            _log.info("reading the journal in %s: %d of %d segments", self._source.data, done, count)


@final
class _Contents:
    """Implements `Application` to see whether there is anything."""

    has_any = False

    def apply(self, record: Record) -> None:
        if record.kind != RecordKind.OPENED:
            self.has_any = True


def start_of_replay(recovery: LogRecovery, opening: Opening, journal: str, database: str) -> JournalMark | None:
    """The mark at which replay begins; None if the journal is new. Raises `UnusableDatabase` if *journal* and
    *database* do not belong together."""
    mark = opening.mark
    is_ours = mark is not None and mark.journal_id == recovery.store_id
    if not is_ours and (not recovery.store_id or recovery.is_bare()):
        if mark is not None and not mark.is_drained:
            raise UnusableDatabase(
                f"{database} belongs to the journal in {mark.journal}, which has messages that are not in the database "
                "yet; start with the data directory of that journal"
            )
        return None
    if mark is None or not is_ours:
        raise UnusableDatabase(
            f"the journal in {journal} belongs to another database than {database}; start it with its own database, "
            "choose another data directory, or delete the journal if nothing in it is needed"
        )
    if not recovery.has(mark):
        raise UnusableDatabase(
            f"{database} and the journal in {journal} do not fit together: the database goes on behind record "
            f"{mark.number} of segment {mark.segment}, which the journal does not have; restore both as they were at "
            "the same time"
        )
    _refuse_other_writers(recovery, opening, mark, journal, database)
    return mark


def _refuse_other_writers(
    recovery: LogRecovery, opening: Opening, mark: JournalMark, journal: str, database: str
) -> None:
    """Raise if another broker has written to the database, and the journal has something to add."""
    is_changed = mark.run_id != opening.run_id or opening.catalog.last_sequence > opening.recorded_sequence
    if is_changed and not recovery.ends_at(mark):
        raise UnusableDatabase(
            f"{database} was written to by another broker since the journal in {journal} was last used, and the "
            "journal has messages that are not in the database; restore it as that broker found it"
        )
