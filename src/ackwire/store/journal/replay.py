"""Reads the records of a journal in order, and applies those that count.

A missing record number opens a gap. Later records are held back until one shows that the missing record had been
synced: then the gap is damage, which is reported and skipped. Otherwise the journal ends at the gap: nothing behind it
was confirmed to a client. A group is applied when its last record is there. See `docs/formats/journal.md`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Checkpoint, Position
from ackwire.store.journal.record import Damaged, Flag, Record
from ackwire.store.journal.recovery_report import Quarantine, Report
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, Damage, SegmentScan
from ackwire.store.journal.segment_files import SegmentFiles
from ackwire.util.plurals import agree, counted

_GOES_ON: Final = int(Flag.GOES_ON)
_CONTINUES: Final = int(Flag.CONTINUES)
_FRESH_MAX: Final = 200_000
"""Entries in memory while a long journal is read; beyond it they go to the index."""


class Application(Protocol):
    """Applies records to what a store knows."""

    def apply(self, record: Record) -> None:
        """Apply the next record. Raises `Damaged` if it cannot be used."""
        ...


@final
class Replay:
    """The position of the replay, and the records that are held back."""

    def __init__(
        self,
        segments: SegmentFiles,
        catalog: Catalog,
        application: Application,
        report: Report,
        quarantine: Quarantine,
        *,
        progress: Callable[[int, int], None],
    ) -> None:
        self._segments = segments
        self._catalog = catalog
        self._application = application
        self._report = report
        self._quarantine = quarantine
        self._progress = progress
        self.epoch = 0
        """The highest that was seen."""
        self.number = 0
        """The last record."""
        self.segment = 0
        self.offset = 0
        """The end of the journal."""
        self._last_applied = 0
        self._last_record = (0, 0, 0)
        """Number, segment and offset of the last record that was applied."""
        self._synced = 0
        """Every record up to this one is on the medium."""
        self._first_unsynced = 0
        """The first segment with records that may not be."""
        self._written_at: deque[tuple[int, int, int]] = deque()
        """Numbers and positions of records; all before the first of them is on the medium."""
        self._hole: int | None = None
        """The number of a missing record, while it is not known whether it had been synced."""
        self._held: list[Record] = []
        self._group: list[Record] = []
        self._damages: list[tuple[Damage, bytes]] = []
        self._clean_end = (0, 0)
        """The last segment behind whose last record nothing is, and where that ends."""

    def begin(self, segment: int, offset: int, number: int, epoch: int) -> None:
        """Everything before this position, and up to record *number*, is known already."""
        self.segment, self.offset, self.number, self.epoch = segment, offset, number, epoch
        self._last_applied = number
        self._synced = number  # a checkpoint is written when everything before it is synced
        self._written_at = deque([(number + 1, segment, offset)])

    # ---- reading -----------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read all segments from where it began."""
        first = self._first_unsynced = self.segment
        headers = self._segments.headers
        numbers = sorted(it for it in headers if it >= first)
        last_number, last_epoch = self.number, self.epoch
        for done, number in enumerate(numbers):
            self._progress(done, len(numbers))
            header = headers[number]
            if header is not None:
                self._catalog.last_sequence = max(self._catalog.last_sequence, header.last_sequence)
                if number - 1 not in headers:  # records of segments that were removed are not missing
                    last_number = max(last_number, header.first_record - 1)
                    self.number = max(self.number, last_number) if self._hole is None else self.number
            start = self.offset if number == first else SEGMENT_HEADER_BYTES
            last_number, last_epoch = self._read_segment(number, start, last_number, last_epoch)
            if self._catalog.fresh_count > _FRESH_MAX and self._hole is None and not self._group:
                self._write_index()
        self._progress(len(numbers), len(numbers))

    def _write_index(self) -> None:
        """Let the index have what was read so far: memory is not for millions of entries."""
        is_here = self._last_record[:2] == (self.number, self.segment)
        position = Position(
            self._segments.store_id,
            self.segment,
            self.offset,
            self.number,
            self.epoch,
            self._catalog.last_sequence,
            last_offset=self._last_record[2] if is_here else 0,
        )
        for number in sorted(it for it in self._catalog.segments if self._first_unsynced <= it <= self.segment):
            self._segments.sync(number)  # the index must never know more than the journal
        self._first_unsynced = self.segment
        checkpoint = Checkpoint(self._catalog, position)
        self._catalog.index.commit(checkpoint.changes())
        checkpoint.end(self._catalog)

    def _read_segment(self, number: int, start: int, last_number: int, last_epoch: int) -> tuple[int, int]:
        segments = self._segments
        file = segments.files.open(segments.path(number), writable=False)
        try:
            scan = SegmentScan(file, number, segments.seed, start=start, last_number=last_number, last_epoch=last_epoch)
            for item in scan:
                if isinstance(item, Damage):
                    self._damages.append((item, scan.data[item.offset - start : item.offset - start + item.length]))
                else:
                    self._feed(item)
            if scan.torn_bytes:
                torn = Damage(number, scan.end, scan.torn_bytes)
                self._damages.append((torn, scan.data[scan.end - start :][: scan.torn_bytes]))
            else:
                self._clean_end = (number, scan.end)
        finally:
            file.close()
        return scan.last_number, scan.last_epoch

    def _feed(self, record: Record) -> None:
        """Take the next good record; hold it while one before it is missing."""
        expected = self._held[-1].number + 1 if self._held else self.number + 1
        if self._hole is None and record.number != expected:
            self._hole = expected
        if self._hole is not None and record.synced < self._hole:
            self._held.append(record)
            return
        if self._hole is not None:
            self._accept_damage(record)
        self._take(record)

    def _accept_damage(self, witness: Record) -> None:
        """The missing records had been synced: report damage, and apply the records that were held back."""
        first_missing, held = self.number + 1, self._held
        self._held, self._hole = [], None
        for damage, data in self._damages:
            what = f"segment {damage.segment}: {damage.length} damaged bytes at {damage.offset} were skipped"
            self._quarantine.put(what, f"{damage.segment:010}-{damage.offset}.bin", data)
        if not self._damages:
            following = held[0].number if held else witness.number
            self._quarantine.put(f"records from {first_missing} to {following - 1} are missing", "")
        self._damages.clear()
        for record in held:
            self._take(record)

    def _take(self, record: Record) -> None:
        """Apply *record*, with the group that it ends."""
        self._report.replayed += 1
        self.number, self.epoch = record.number, max(self.epoch, record.epoch)
        if record.synced > self._synced:
            self._synced = record.synced
            self._written_at.append((record.number, record.segment, record.offset))
            while len(self._written_at) > 1 and self._written_at[1][0] <= self._synced + 1:
                self._written_at.popleft()
        if self._group and not record.flags & _CONTINUES:  # the end of that group was damaged
            self._apply_group()
        self._group.append(record)
        if not record.flags & _GOES_ON:
            self._apply_group()
            self.segment, self.offset = record.segment, record.offset + record.size_bytes
            self._last_applied = record.number
            self._last_record = (record.number, record.segment, record.offset)

    def _apply_group(self) -> None:
        group, self._group = self._group, []
        for record in group:
            try:
                self._application.apply(record)
            except Damaged as error:
                what = f"segment {record.segment}: the record at {record.offset} cannot be used: {error}"
                self._quarantine.put(what, f"{record.segment:010}-{record.offset}.bin", bytes(record.payload))

    # ---- the end of the journal --------------------------------------------------------------------------------

    def settle_end(self) -> list[int]:
        """Cut what is behind the last record that counts; returns the segments that are gone."""
        if not self._segments.headers:
            return []
        self._report_held()
        gone = self._segments_behind()
        for number, (why, data) in self._segments.bad_headers.items():
            if number not in gone:  # the torn beginning of a segment with nothing in it is no damage
                self._quarantine.put(f"segment {number}: {why}", f"{number:010}-header.bin", data)
        for number in sorted(gone, reverse=True):  # a crash meanwhile must not leave one without its predecessor
            self._report.cut_bytes += self._segments.cut(number, 0)
            self._segments.files.remove(self._segments.path(number))
            self._catalog.segments.pop(number)
        if self.segment in self._catalog.segments and self._clean_end != (self.segment, self.offset):
            self._report.cut_bytes += self._segments.cut(self.segment, self.offset)
        self._make_durable()
        if self._group:  # its records never happened, and their numbers are free again
            self.number = self._last_applied
        return gone

    def _report_held(self) -> None:
        if self._held:
            count = len(self._held)
            were = agree(count, "was", "were")
            what = f"{counted(count, 'record')} behind a missing one {were} never promised, and cut off"
            payloads = b"".join([bytes(it.payload) for it in (*self._held, *self._group)])
            self._quarantine.put(what, f"{self.segment:010}-{self.offset}-tail.bin", payloads)

    def _segments_behind(self) -> list[int]:
        headers = self._segments.headers
        behind = [number for number in headers if number > self.segment]
        if self.segment in headers and headers[self.segment] is None and self.offset == SEGMENT_HEADER_BYTES:
            behind.append(self.segment)  # it was made, and never begun
        return behind

    def _make_durable(self) -> None:
        """Write again the last records that are not known to be synced, before clients see their effects."""
        if self.number <= self._synced:
            return
        _, first, offset = self._written_at[0]
        for number in sorted(it for it in self._catalog.segments if it >= first):
            start = offset if number == first and offset > SEGMENT_HEADER_BYTES else 0
            self._segments.write_again(number, start, self.offset if number == self.segment else None)
