"""Opens a journal as a copy: its index as of a committed position, and the raw log behind it, which is not applied.

The log of a copy ends before the first record that is missing or damaged, whatever follows: what a record says about
syncs, it says of the disk of the broker that wrote it. Everything that is there is durable when the copy is open, so
that a vote for a master can tell its end.
"""

import logging
from dataclasses import dataclass
from typing import Final, NamedTuple

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Position
from ackwire.store.index import OtherIndex, UnavailableIndex
from ackwire.store.journal.index_trust import trusted_position
from ackwire.store.journal.opening import (
    JournalSource,
    OpenJournal,
    opened_index,
    stand_at_end,
    take_lock,
)
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.record import Record, RecordKind, unpack_numbers
from ackwire.store.journal.recovery_report import Quarantine, Report, UnusableStore
from ackwire.store.journal.replica.log_map import LogMap, LogSegment
from ackwire.store.journal.replica.node_state import NodeStateFile, store_id_of
from ackwire.store.journal.replica.refill_files import finish_swap, remove_leftovers
from ackwire.store.journal.replica.walk import walk
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, SegmentScan
from ackwire.store.journal.segment_files import SegmentFiles
from ackwire.store.journal.shipping import EMPTY, LogEnd

_WALKED_MAX: Final = 4
"""Segments that are read only to know when earlier epochs began."""

_log = logging.getLogger(__name__)


class Applied(NamedTuple):
    """Up to where the catalog knows the log."""

    number: int
    epoch: int
    segment: int
    offset: int
    last_offset: int
    """Where the last record before it begins, in that segment; 0 where that is not known."""


@dataclass(slots=True)
class _End:
    """The end of the log, as what `stand_at_end` asks for."""

    catalog: Catalog
    report: Report
    quarantine: Quarantine
    store_id: bytes
    epoch: int = 0
    number: int = 0
    segment: int = 0
    offset: int = 0
    last_segment: int = 0
    can_resume: bool = False
    last_offset: int = 0


@dataclass(slots=True)
class OpenCopy:
    """A journal that was opened as a copy."""

    journal: OpenJournal
    log: LogMap
    applied: Applied
    end: LogEnd
    settled_at: int
    """The log up to this record is read anew, without an index."""
    needs_refill: str | None
    """Why what is here cannot be used."""


def open_copy(source: JournalSource, options: JournalOptions, node: NodeStateFile, *, adopt: bool) -> OpenCopy:
    """Raises `UnusableStore` if the files cannot be used, another broker uses them, or a broker without replication has
    written them; with *adopt* that is no reason: they become the first copy of a group."""
    lock = take_lock(source)
    try:
        source.files.touch(source.data / "journal")
        finish_swap(source.files, source.data, lambda: source.open_index(True).abandon())
        remove_leftovers(source.files, source.data)
        opening = _Opening(source, node)
        try:
            opening.run(adopt=adopt)
            journal = stand_at_end(source, options, lock, opening.end, was_cut_off=bool(opening.end.store_id))
        except BaseException:
            opening.end.catalog.index.abandon()
            raise
        journal.writer.epoch = opening.end.epoch
        journal.writer.last_offset = opening.end.last_offset
        if not opening.end.store_id:
            journal.store_id = journal.writer.store_id = b""
        end = LogEnd(opening.end.epoch, opening.end.number)
        settled_at = 0 if opening.applied.epoch else end.number
        end = end if end.number else EMPTY
        return OpenCopy(journal, opening.log, opening.applied, end, settled_at, opening.needs_refill)
    except BaseException:
        lock.release()
        raise


class _Opening:
    """One journal on its way to being a copy."""

    def __init__(self, source: JournalSource, node: NodeStateFile) -> None:
        files, data = source.files, source.data
        self._source = source
        self._node = node
        self._segments = SegmentFiles(files, data / "journal")
        report = Report()
        quarantine = Quarantine(files, data / "quarantine", report, source.now_ms)
        index, damage = opened_index(source)
        if damage is not None:
            quarantine.put(f"the index is made anew: {damage}", "")
        self.end = _End(Catalog(index), report, quarantine, b"")
        self.log = LogMap()
        self.applied = Applied(0, 0, 0, 0, 0)
        self.needs_refill: str | None = None
        self._gaps: set[int] = set()
        """Segments that records behind the index's position say were removed."""

    def run(self, *, adopt: bool) -> None:
        end, segments = self.end, self._segments
        # A power cut may leave the first segment without a header; what was in it was never durable.
        segments.read_headers(end.catalog, store_id_of(self._node.group_id) if self._node.group_id else b"")
        end.store_id = segments.store_id
        was_closed = end.catalog.index.is_vouched_for
        try:
            end.catalog, position = trusted_position(end.catalog, segments.store_id, self._source.form, end.quarantine)
        except (UnavailableIndex, OtherIndex) as error:
            raise UnusableStore(f"{error}. Nothing was changed in {self._source.data}") from None
        self._begin(position)
        self._read_log()
        if adopt:
            self._adopt()
        else:
            self._refuse_foreign()
        self._see_what_is_lost(position)
        self._cut()
        if not end.number and self.needs_refill is None:
            end.store_id = b""
        if not was_closed:
            self._make_durable()
        self._look_back()
        end.quarantine.flush()

    def _begin(self, position: Position | None) -> None:
        catalog, headers = self.end.catalog, self._segments.headers
        if position is not None:
            catalog.last_sequence = max(catalog.last_sequence, position.last_sequence)
            catalog.indexed_to = position.last_sequence
            self.applied = Applied(
                position.number, position.epoch, position.segment, position.offset, position.last_offset
            )
            return
        catalog.indexed_to = 0
        first = next((it for it, header in sorted(headers.items()) if header is not None), 0)
        header = headers.get(first)
        if header is not None:
            self.applied = Applied(header.first_record - 1, 0, first, SEGMENT_HEADER_BYTES, 0)

    # ---- the log behind the index ------------------------------------------------------------------------------

    def _read_log(self) -> None:
        end, applied = self.end, self.applied
        end.number, end.epoch, end.segment, end.offset = applied.number, applied.epoch, applied.segment, applied.offset
        end.last_offset = applied.last_offset
        if applied.epoch:
            self.log.saw(applied.epoch, applied.number)
        if applied.segment not in self._segments.headers:
            return
        for number in sorted(it for it in self._segments.headers if it >= applied.segment):
            header = self._segments.headers[number]
            if header is None or not self._follows(number, header):
                break
            start = applied.offset if number == applied.segment else SEGMENT_HEADER_BYTES
            if not self._read_segment(number, header, start):
                break

    def _follows(self, number: int, header: SegmentHeader) -> bool:
        """Whether a segment goes on where the log ends so far; numbers leap where a segment was removed."""
        end = self.end
        if number == self.applied.segment:
            return True
        if number == end.segment + 1:
            return header.first_record == end.number + 1
        if header.first_record <= end.number:
            return False
        end.number = header.first_record - 1
        return True

    def _read_segment(self, number: int, header: SegmentHeader, start: int) -> bool:
        """Read a segment's records; False if there are none."""
        end, expected = self.end, self.end.number + 1
        size_bytes = end.catalog.segments[number].size_bytes
        file = self._source.files.open(self._segments.path(number), writable=False)
        segment = LogSegment(number, size_bytes, header.first_record, header.epoch, start)
        try:
            for record in walk(file.read, number, self._segments.seed, start, size_bytes):
                if record.number != expected or record.epoch < end.epoch:
                    break
                expected += 1
                self._saw(record)
                segment.end = record.offset + record.size_bytes
        finally:
            file.close()
        if segment.end == SEGMENT_HEADER_BYTES:
            return False
        self.log.segments[number] = segment
        end.segment, end.offset = number, segment.end
        end.catalog.last_sequence = max(end.catalog.last_sequence, header.last_sequence)
        return True

    def _saw(self, record: Record) -> None:
        self.end.number, self.end.epoch, self.end.last_offset = record.number, record.epoch, record.offset
        self.log.saw(record.epoch, record.number)
        self.end.report.replayed += 1
        if record.kind == RecordKind.GAPS:
            self._gaps.update(unpack_numbers(record.payload))

    # ---- what it must not be -----------------------------------------------------------------------------------

    def _refuse_foreign(self) -> None:
        """Raises `UnusableStore` for a journal that a broker without replication has written."""
        node, data = self._node, self._source.data
        if not self.end.number or node.damage is not None:
            return
        if node.is_new:
            raise UnusableStore(
                f"{data} holds the journal of a broker without replication: form the group with it, or choose an "
                "empty directory"
            )
        if self.end.epoch > node.promised_epoch:
            raise UnusableStore(
                f"a broker without replication has written to {data}, which belongs to a replicated group (epoch "
                f"{self.end.epoch}, and {node.promised_epoch} was promised): move it away, and the group fills the "
                "node again"
            )

    def _adopt(self) -> None:
        node = self._node
        old = [it for it, header in self._segments.headers.items() if header is not None and not header.size_bytes]
        if old:
            raise UnusableStore(
                f"segment {old[0]} in {self._source.data} was written by an earlier version, which did not say how "
                "long it is: export the store and import it into a new one"
            )
        if self.needs_refill is None and self.end.epoch > node.promised_epoch:
            node.promised_epoch = self.end.epoch
            node.save_on_the_spot()

    def _see_what_is_lost(self, position: Position | None) -> None:
        """Find out whether what was committed is still there."""
        segments, catalog, data = self._segments, self.end.catalog, self._source.data
        last = self.end.segment
        if position is None:  # the log alone says what was removed
            missing = [it for it in range(min(segments.headers, default=0), last) if it not in segments.headers]
        else:
            missing = [it for info in catalog.place_by_id.values() for it in info.held if it not in segments.headers]
        missing = [it for it in missing if it not in self._gaps]
        cut_off = [it for it in segments.readable_to if it < last]
        bad = [it for it in segments.bad_headers if it < last]
        if position is not None:
            segment = catalog.segments.get(position.segment)
            if segment is None or not segments.has_record(position, segment.size_bytes):
                missing.append(position.segment)
        lost = sorted({*missing, *cut_off, *bad})
        if lost:
            which = ", ".join(map(str, lost))
            self.needs_refill = f"{data} has lost what was committed, in segment {which}: this node must be refilled"
        elif self._is_damaged_within():
            self.needs_refill = f"{data} has damaged records that were durable: this node must be refilled"
        if self.needs_refill is not None:
            self.end.quarantine.put(self.needs_refill, "")
            self._node.is_log_whole = False

    def _is_damaged_within(self) -> bool:
        """Whether good records follow the end, and what is missing before them was durable on this disk: the node
        knows, or has said so in a record that it wrote as the master. They may be the last copy of something."""
        end, node = self.end, self._node
        was_durable = LogEnd(end.epoch, end.number) < node.known_durable and node.damage is None
        for number in sorted(it for it in self._segments.headers if it >= end.segment):
            start = end.offset if number == end.segment else SEGMENT_HEADER_BYTES
            file = self._source.files.open(self._segments.path(number), writable=False)
            try:
                scan = SegmentScan(file, number, self._segments.seed, start=start, last_number=0, last_epoch=0)
                for item in scan:
                    if isinstance(item, Record) and item.number > end.number + 1:
                        own_word = node.led_epoch and item.epoch == node.led_epoch and item.synced > end.number
                        if was_durable or own_word:
                            return True
            finally:
                file.close()
        return False

    # ---- the end of the log ------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Zero what is behind the end, the last segment first."""
        end, segments = self.end, self._segments
        if self.needs_refill is not None:
            end.last_segment = max(segments.headers, default=0)
            return  # all of it will be replaced
        if not end.number:  # a segment without a record goes: its header may be of another store, and in the cache only
            self.applied = Applied(0, 0, 0, 0, 0)
            end.segment = end.offset = 0
        segments.restore_sizes(end.catalog, end.quarantine)
        for number in sorted((it for it in segments.headers if it > end.segment), reverse=True):
            end.report.cut_bytes += segments.cut(number, 0)
            segments.files.remove(segments.path(number))
            end.catalog.segments.pop(number)
            del segments.headers[number]
        if end.segment in end.catalog.segments:
            end.report.cut_bytes += segments.cut(end.segment, end.offset)
        end.last_segment = end.segment
        header = segments.headers.get(end.segment)
        end.can_resume = header is not None and header.size_bytes > 0

    def _make_durable(self) -> None:
        """Write again what is behind the index: it may be in the cache only (`SegmentFiles.write_again`)."""
        end, applied = self.end, self.applied
        if self.needs_refill is not None:
            return
        for number in [it for it in self.log.segments if it >= applied.segment]:
            start = applied.offset if number == applied.segment and applied.offset > SEGMENT_HEADER_BYTES else 0
            self._segments.write_again(number, start, end.offset if number == end.segment else None)

    def _look_back(self) -> None:
        """Note the segments before the index's position, and the epochs that their headers tell: the followers of a
        master may end there."""
        headers = {it: header for it, header in sorted(self._segments.headers.items()) if header is not None}
        before = [it for it in headers if it < self.applied.segment]
        later = self.log.segments
        self.log.segments = {}
        for number in before:
            header = headers[number]
            size_bytes = self.end.catalog.segments[number].size_bytes
            self.log.segments[number] = LogSegment(number, size_bytes, header.first_record, header.epoch)
        self.log.segments.update(later)
        self.log.saw_earlier(self._earlier_epochs(headers))

    def _earlier_epochs(self, headers: dict[int, SegmentHeader]) -> list[tuple[int, int]]:
        """When epochs began before the index's position, read backwards as long as few segments have to be read."""
        numbers = [it for it in headers if it <= self.applied.segment]
        found: list[tuple[int, int]] = []
        later_epoch, walked = self.applied.epoch, 0
        for number in reversed(numbers):
            header, here = headers[number], [(headers[number].epoch, headers[number].first_record)]
            if header.epoch != later_epoch:
                walked += 1
                if walked > _WALKED_MAX:
                    break
                here = self._epochs_within(number)
            found[:0] = here
            later_epoch = header.epoch
        return _distinct(found)

    def _epochs_within(self, number: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        is_last = number == self.applied.segment
        end = self.applied.offset if is_last else self.end.catalog.segments[number].size_bytes
        file = self._source.files.open(self._segments.path(number), writable=False)
        try:
            for record in walk(file.read, number, self._segments.seed, SEGMENT_HEADER_BYTES, end):
                if not found or found[-1][0] != record.epoch:
                    found.append((record.epoch, record.number))
        finally:
            file.close()
        return found


def _distinct(epochs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for epoch, number in epochs:
        if not found or found[-1][0] != epoch:
            found.append((epoch, number))
    return found
