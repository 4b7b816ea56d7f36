"""Recovery: reads the journal, from the index's checkpoint on or from its beginning.

`segment_files.py` sees which files are there, `replay.py` reads their records in order, `record_application.py` applies
them to the catalog. This module decides where to begin, and reports what is lost.

The end of the journal may be lost after it was synced: the file was cut off, or replaced by an older copy. Two marks
show that: a segment's header says how long its file is, and the index says where the last record before its checkpoint
is. The index then knows which messages are lost, and they are reported by their places.
"""

from collections.abc import Callable
from pathlib import Path
from typing import final

from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import GAPS_KEY, Position
from ackwire.store.contract import StoredForm
from ackwire.store.files import Files
from ackwire.store.journal.index_trust import trusted_position
from ackwire.store.journal.record_application import RecordApplication
from ackwire.store.journal.recovery_report import Quarantine, Report
from ackwire.store.journal.replay import Replay
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES
from ackwire.store.journal.segment_files import SegmentFiles
from ackwire.util.plurals import agree, counted


@final
class Recovery:
    """Brings a catalog to where the journal ends."""

    def __init__(
        self,
        files: Files,
        data: Path,
        catalog: Catalog,
        form: StoredForm,
        now_ms: Callable[[], int],
        *,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> None:
        self.catalog = catalog
        self._form = form
        self._progress = progress
        self.report = Report()
        self.quarantine = Quarantine(files, data / "quarantine", self.report, now_ms)
        self._segments = SegmentFiles(files, data / "journal")
        self.epoch = 0
        """The highest that was seen."""
        self.number = 0
        """The last record."""
        self.segment = 0
        self.offset = 0
        """The end of the journal."""
        self.last_segment = 0
        """The highest number of a segment that was ever used, as far as is known."""

    @property
    def store_id(self) -> bytes:
        """Empty for a new store."""
        return self._segments.store_id

    @property
    def can_resume(self) -> bool:
        """Whether the last segment can be written to: one that does not say what it is or how long, is only read."""
        header = self._segments.headers.get(self.segment)
        return self.segment in self.catalog.segments and header is not None and header.size_bytes > 0

    def run(self) -> None:
        """Recover. Raises `UnusableStore` where nothing can be said for sure."""
        self._segments.read_headers(self.catalog)
        self.catalog, position = trusted_position(self.catalog, self.store_id, self._form, self.quarantine)
        application = RecordApplication(self.catalog, self._form, self.quarantine)
        replay = Replay(
            self._segments, self.catalog, application, self.report, self.quarantine, progress=self._progress
        )
        first = self._begin_anew(replay) if position is None else self._begin_at(position, replay)
        replay.read()
        self._report_missing(first)
        self._segments.restore_sizes(self.catalog, self.quarantine)
        has_removed = bool(replay.settle_end())
        self.last_segment = max(self.catalog.segments if has_removed else self._segments.headers, default=0)
        self.epoch, self.number = replay.epoch, replay.number
        self.segment, self.offset = replay.segment, replay.offset
        application.report_orphans()
        application.end_bare_places()
        self._report_lost()
        application.report_lost_jobs()
        self.quarantine.flush()

    # ---- where to begin ----------------------------------------------------------------------------------------

    def _begin_anew(self, replay: Replay) -> int:
        """With the whole journal; returns its first segment."""
        headers = self._segments.headers
        self.report.is_rebuilt = bool(headers)
        self.catalog.indexed_to = 0
        first = min(headers, default=0)
        header = headers.get(first)
        replay.begin(first, SEGMENT_HEADER_BYTES, 0 if header is None else header.first_record - 1, 0)
        return first

    def _begin_at(self, position: Position, replay: Replay) -> int:
        """Behind a checkpoint; returns its segment."""
        self.catalog.last_sequence = max(self.catalog.last_sequence, position.last_sequence)
        self.catalog.indexed_to = position.last_sequence
        replay.begin(position.segment, position.offset, position.number, position.epoch)
        self._report_lost_end(position)
        return position.segment

    # ---- what is lost ------------------------------------------------------------------------------------------

    def _report_lost_end(self, position: Position) -> None:
        """Report that the journal ends before the checkpoint: everything up to there was synced. The index is kept: it
        knows what is lost, and what was removed."""
        segment = self.catalog.segments.get(position.segment)
        if segment is None:
            reason = "its file is missing"
        elif self._segments.has_record(position, segment.size_bytes):
            return
        else:
            last_number, end = self._segments.readable_end(position.segment)
            if last_number >= position.number:
                return  # damage between other records: found when the message is read
            self._segments.readable_to[position.segment] = end
            reason = f"nothing can be read from {end} on"
        self.quarantine.put(
            f"segment {position.segment}: {reason}, although the records up to {position.number}, which end at "
            f"{position.offset}, were synced",
            "",
        )

    def _report_missing(self, first: int) -> None:
        """Segments between others that are not there, and were not removed on purpose."""
        gaps = self.catalog.state.get(GAPS_KEY)
        removed = set(gaps.value) if gaps is not None and isinstance(gaps.value, tuple) else set()
        numbers = set(self._segments.headers)
        for number in range(first, max(numbers, default=0)):
            if number not in numbers and number not in removed:
                self.quarantine.put(f"segment {number} is missing, with all that was in it", "")

    def _report_lost(self) -> None:
        """Messages in segments that are not there, or whose end is lost: not those that replay has found elsewhere."""
        sound = self.catalog.segments.keys() - self._segments.readable_to.keys()
        for info in self.catalog.place_by_id.values():
            if info.held.keys() <= sound:
                continue
            lost = [it for it, entry in self.catalog.waiting(info) if self._is_lost(entry)]
            for sequence in lost:
                self.catalog.take(info, sequence)
            if lost:
                are = agree(len(lost), "is", "are")
                what = f"{counted(len(lost), 'message')} of {info!r} {are} lost with the segments that held them"
                self.quarantine.put(what, "")

    def _is_lost(self, entry: Entry) -> bool:
        if entry.segment not in self.catalog.segments:
            return True
        readable_to = self._segments.readable_to.get(entry.segment)
        return readable_to is not None and entry.offset + entry.record_bytes > readable_to
