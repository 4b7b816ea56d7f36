"""Recovery: what the journal says, from the index's checkpoint on or from its beginning.

How it works. Segments are read in order, and each record is applied to the catalog. A record number that is missing
opens a hole; what follows is held until a record shows that the missing one had been synced: then it is damage, which
is reported and skipped. If none does, the journal ends at the hole: nothing behind it was ever promised. A group is
applied when its last record is there. See `docs/formats/journal.md`.

The end of the journal may also be lost after it was synced: the file was cut off, or replaced by an older copy. Two
marks show that: a segment's header says how long its file is, and the index says where the last record before its
checkpoint is. The index then knows which messages are lost, and they are reported by their places.
"""

import errno
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from ackwire.plurals import agree, counted
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, PlaceInfo, StateKey
from ackwire.store.checkpoint import (
    GAPS_KEY,
    INDEX_FORMAT,
    Checkpoint,
    Position,
    durable_key,
    job_key,
    load,
    prepared_key,
    read_position,
    state_record_key,
    unpack_state,
)
from ackwire.store.contract import DurableKey, StoredForm
from ackwire.store.files import Files
from ackwire.store.index import DamagedIndex
from ackwire.store.journal.record import (
    Damaged,
    Flag,
    Reader,
    Record,
    RecordKind,
    read_record,
    record_bytes,
    seed_of,
    unpack_counts,
    unpack_durable,
    unpack_message,
    unpack_place,
    unpack_place_gone,
    unpack_purged,
    unpack_removed,
)
from ackwire.store.journal.segment import (
    SEGMENT_HEADER_BYTES,
    ZEROS,
    Damage,
    SegmentHeader,
    SegmentScan,
    UnreadableSegment,
    read_header,
    segment_numbers,
    segment_path,
    used_end,
)
from ackwire.store.journal.state import job_id_of, read_message, state_record_key_of, unpack_prepared
from ackwire.store.journal.writer import NEW_NAME, SPARE_NAME

_REPORT_NAME: Final = "report.jsonl"
_REPORT_BYTES_MAX: Final = 1 << 20
_GOES_ON: Final = int(Flag.GOES_ON)
_CONTINUES: Final = int(Flag.CONTINUES)
_FRESH_MAX: Final = 200_000
"""Entries in memory while a long journal is read; beyond it they go to the index."""


class UnusableStore(Exception):
    """The files of a store cannot be used; the text says why and what to do."""


@dataclass(slots=True)
class Report:
    """What recovery found and did."""

    replayed: int = 0
    """Records read from the journal."""
    is_rebuilt: bool = False
    """The index was made anew, from the whole journal."""
    cut_bytes: int = 0
    """The torn end of the last write."""
    damages: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        source = "the index made anew from the whole journal" if self.is_rebuilt else "the index was good"
        cut = counted(self.cut_bytes, "unfinished byte")
        return f"{source}, {counted(self.replayed, 'record')} replayed, {cut} cut off"


@final
class Quarantine:
    """Where damaged bytes go, with a line that says what they were."""

    def __init__(self, files: Files, directory: Path, report: Report, now_ms: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._now_ms = now_ms
        self._lines: list[str] = []

    def put(self, what: str, name: str, data: bytes = b"") -> None:
        """Report *what*, and keep *data* under *name* if there is any. The report is written by `flush`."""
        self._report.damages.append(what)
        if data:
            self._files.make_directory(self._directory)
            self._files.replace(self._directory / name, data)
        self._lines.append(json.dumps({"at_ms": self._now_ms(), "what": what, "file": name if data else None}))

    def flush(self) -> None:
        """Write the lines that are new, as long as the report is not too long to be of use."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        path = self._directory / _REPORT_NAME
        self._files.make_directory(self._directory)
        old = self._files.read(path) if self._files.exists(path) else b""
        if len(old) < _REPORT_BYTES_MAX:
            self._files.replace(path, old + "".join(f"{line}\n" for line in lines).encode())


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
        self._files = files
        self._directory = data / "journal"
        self.catalog = catalog
        self._form = form
        self._progress = progress
        self.report = Report()
        self.quarantine = Quarantine(files, data / "quarantine", self.report, now_ms)
        self.store_id = b""
        self.epoch = 0
        """The highest that was seen."""
        self.number = 0
        """The last record."""
        self.segment = 0
        self.offset = 0
        """The end of the journal."""
        self.last_segment = 0
        """The highest number of a segment that was ever used, as far as is known."""
        self._headers: dict[int, SegmentHeader | None] = {}
        self._bad_headers: dict[int, tuple[str, bytes]] = {}
        self._cut_off: dict[int, int] = {}
        """Segments whose file is shorter than it was made, and its size then; 0 where that is lost as well."""
        self._readable_to: dict[int, int] = {}
        """Segments whose end is lost, and where it begins."""
        self._last_record = (0, 0, 0)
        """Number, segment and offset of the last record that was applied."""
        self._seed = 0
        self._synced = 0
        """Every record up to this one is on the medium."""
        self._written_at: deque[tuple[int, int, int]] = deque()
        """Numbers and positions of records; all before the first of them is on the medium."""
        self._hole: int | None = None
        """The number of a missing record, while it is not known whether it had been synced."""
        self._held: list[Record] = []
        self._group: list[Record] = []
        self._damages: list[tuple[Damage, bytes]] = []
        self._clean_end = (0, 0)
        """The last segment behind whose last record nothing is, and where that ends."""
        self._orphans: set[int] = set()
        self._due_only: set[StateKey] = set()
        """Jobs of which only a due time was seen."""
        self._ended: set[int] = set()

    def run(self) -> None:
        """Recover. Raises `UnusableStore` where nothing can be said for sure."""
        self._remove_spare()
        self._read_headers()
        position = self._trusted_position()
        if position is None:
            self._rebuild()
        else:
            self._replay(position)
        self._report_cut_off()
        self._settle_end()
        if self._group:  # its records never happened, and their numbers are free again
            self.number = self._last_applied
        self._report_orphans()
        self._end_bare_places()
        self._report_lost()
        self._report_lost_jobs()
        self.quarantine.flush()

    @property
    def can_resume(self) -> bool:
        """Whether the last segment can be written to: one that does not say what it is or how long, is only read."""
        header = self._headers.get(self.segment)
        return self.segment in self.catalog.segments and header is not None and header.size_bytes > 0

    # ---- segments ----------------------------------------------------------------------------------------------

    def _remove_spare(self) -> None:
        for name in (SPARE_NAME, NEW_NAME):
            if self._files.exists(self._directory / name):
                self._files.remove(self._directory / name)

    def _read_headers(self) -> None:
        for number in segment_numbers(self._files, self._directory):
            header = self._headers[number] = self._header(number)
            file = self._files.open(segment_path(self._directory, number), writable=False)
            size_bytes = file.size_bytes
            file.close()
            self.catalog.add_segment(number, size_bytes)
            made_bytes = SEGMENT_HEADER_BYTES if header is None else header.size_bytes
            if size_bytes < made_bytes:
                self._cut_off[number] = 0 if header is None else made_bytes
                self._readable_to[number] = size_bytes
        self.last_segment = max(self._headers, default=0)
        ids = {header.store_id for header in self._headers.values() if header is not None}
        if len(ids) > 1:
            raise UnusableStore(f"{self._directory} has segments of {len(ids)} different stores: take the others away")
        self.store_id = next(iter(ids), b"") or self._store_id_of_index()
        if not self.store_id and any(map(self._has_bytes, self._headers)):
            raise UnusableStore(f"{self._directory} has no segment that can be read; restore one from a copy")
        self._seed = seed_of(self.store_id)

    def _store_id_of_index(self) -> bytes:
        """No segment says whose it is; the index may know."""
        try:
            position = read_position(self.catalog)
        except DamagedIndex:
            position = None
        return b"" if position is None else position.store_id

    def _header(self, number: int) -> SegmentHeader | None:
        file = self._files.open(segment_path(self._directory, number), writable=False)
        data = file.read(0, SEGMENT_HEADER_BYTES)
        file.close()
        try:
            return read_header(data)
        except UnreadableSegment as error:
            self._bad_headers[number] = (str(error), data)
            return None

    def _has_bytes(self, number: int) -> bool:
        file = self._files.open(segment_path(self._directory, number), writable=False)
        data = file.read(0, file.size_bytes)
        file.close()
        return len(data.rstrip(b"\0")) > SEGMENT_HEADER_BYTES + record_bytes(16)  # no more than a first start writes

    # ---- where to begin ----------------------------------------------------------------------------------------

    def _trusted_position(self) -> Position | None:
        """The index's checkpoint, with the catalog as of then; None if the index cannot be used."""
        try:
            position = read_position(self.catalog)
            if position is None:
                return None
            self._check(position)
            load(self.catalog, self._form)
            if not self.catalog.index.is_vouched_for:
                self._verify_index()
        except DamagedIndex as error:
            self.quarantine.put(f"the index is made anew: {error}", "")
            self._forget_index()
            return None
        return position

    def _verify_index(self) -> None:
        """After a crash: every entry by its checksum, and as many as were counted."""
        for info in self.catalog.place_by_id.values():
            counted = self.catalog.verified_counts(info.place_id)
            if counted != {number: messages for number, (messages, _) in info.held.items()}:
                raise DamagedIndex(f"it has other messages of {info!r} than it counted")

    def _check(self, position: Position) -> None:
        if position.index_format != INDEX_FORMAT:
            raise DamagedIndex(f"its format is {position.index_format}, and this broker's is {INDEX_FORMAT}")
        if position.store_id != self.store_id:
            raise DamagedIndex("it belongs to another journal")
        if position.segment == 0:
            raise DamagedIndex("it has no checkpoint")

    def _forget_index(self) -> None:
        self.catalog.index.clear()
        fresh = Catalog(self.catalog.index)
        fresh.segments = {number: type(it)(number, it.size_bytes) for number, it in self.catalog.segments.items()}
        self.catalog = fresh

    def _rebuild(self) -> None:
        self.report.is_rebuilt = bool(self._headers)
        self.catalog.indexed_to = 0
        first = min(self._headers, default=0)
        header = self._headers.get(first)
        self._begin(first, SEGMENT_HEADER_BYTES, 0 if header is None else header.first_record - 1, 0)
        self._read_from(first)
        self._report_missing(first)

    def _replay(self, position: Position) -> None:
        self.catalog.last_sequence = max(self.catalog.last_sequence, position.last_sequence)
        self.catalog.indexed_to = position.last_sequence
        self._begin(position.segment, position.offset, position.number, position.epoch)
        self._report_lost_end(position)
        self._read_from(position.segment)
        self._report_missing(position.segment)

    def _report_lost_end(self, position: Position) -> None:
        """Report that the journal ends before the checkpoint: everything up to there was synced. The index is kept: it
        knows what is lost, and what was removed."""
        size = self.catalog.segments.get(position.segment)
        if size is None:
            reason = "its file is missing"
        elif self._has_record(position):
            return
        else:
            last_number, end = self._readable_end(position.segment)
            if last_number >= position.number:
                return  # damage between other records: found when the message is read
            self._readable_to[position.segment] = end
            reason = f"nothing can be read from {end} on"
        self.quarantine.put(
            f"segment {position.segment}: {reason}, although the records up to {position.number}, which end at "
            f"{position.offset}, were synced",
            "",
        )

    def _has_record(self, position: Position) -> bool:
        """Whether the last record before the checkpoint is where it was."""
        size_bytes = self.catalog.segments[position.segment].size_bytes
        if position.offset > size_bytes or not position.last_offset:
            return position.offset <= size_bytes  # an older version did not say where the record is
        offset = position.last_offset
        file = self._files.open(segment_path(self._directory, position.segment), writable=False)
        try:
            data = memoryview(file.read(offset, position.offset - offset))
        finally:
            file.close()
        record = read_record(data, offset, offset, position.segment, self._seed)
        return record is not None and record.number == position.number

    def _readable_end(self, number: int) -> tuple[int, int]:
        """Number and end of the last good record of a segment."""
        file = self._files.open(segment_path(self._directory, number), writable=False)
        try:
            scan = SegmentScan(file, number, self._seed, last_number=0, last_epoch=0)
            for _ in scan:
                pass
        finally:
            file.close()
        return scan.last_number, scan.end

    def _begin(self, segment: int, offset: int, number: int, epoch: int) -> None:
        self.segment, self.offset, self.number, self.epoch = segment, offset, number, epoch
        self._last_applied = number
        self._synced = number  # a checkpoint is written when everything before it is synced
        self._written_at = deque([(number + 1, segment, offset)])

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read_from(self, first: int) -> None:
        self._first_unsynced = first
        numbers = sorted(it for it in self._headers if it >= first)
        last_number, last_epoch = self.number, self.epoch
        for done, number in enumerate(numbers):
            self._progress(done, len(numbers))
            header = self._headers[number]
            if header is not None:
                self.catalog.last_sequence = max(self.catalog.last_sequence, header.last_sequence)
                if number - 1 not in self._headers:  # records of segments that were removed are not missing
                    last_number = max(last_number, header.first_record - 1)
                    self.number = max(self.number, last_number) if self._hole is None else self.number
            start = self.offset if number == first else SEGMENT_HEADER_BYTES
            last_number, last_epoch = self._read_segment(number, start, last_number, last_epoch)
            if self.catalog.fresh_count > _FRESH_MAX and self._hole is None and not self._group:
                self._write_index()
        self._progress(len(numbers), len(numbers))

    def _write_index(self) -> None:
        """Let the index have what was read so far: memory is not for millions of entries."""
        is_here = self._last_record[:2] == (self.number, self.segment)
        position = Position(
            self.store_id,
            self.segment,
            self.offset,
            self.number,
            self.epoch,
            self.catalog.last_sequence,
            last_offset=self._last_record[2] if is_here else 0,
        )
        for number in sorted(it for it in self.catalog.segments if self._first_unsynced <= it <= self.segment):
            file = self._files.open(segment_path(self._directory, number))
            file.sync()  # the index must never know more than the journal
            file.close()
        self._first_unsynced = self.segment
        checkpoint = Checkpoint(self.catalog, position)
        self.catalog.index.commit(checkpoint.changes())
        checkpoint.end(self.catalog)

    def _read_segment(self, number: int, start: int, last_number: int, last_epoch: int) -> tuple[int, int]:
        file = self._files.open(segment_path(self._directory, number), writable=False)
        try:
            scan = SegmentScan(file, number, self._seed, start=start, last_number=last_number, last_epoch=last_epoch)
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
        """What is missing had been synced: it is damaged, and what was held is as good as ever."""
        first_missing, held = self.number + 1, self._held
        self._held, self._hole = [], None
        for damage, data in self._damages:
            self._report_damage(damage, data)
        if not self._damages:
            following = held[0].number if held else witness.number
            self.quarantine.put(f"records from {first_missing} to {following - 1} are missing", "")
        self._damages.clear()
        for record in held:
            self._take(record)

    def _report_damage(self, damage: Damage, data: bytes) -> None:
        what = f"segment {damage.segment}: {damage.length} damaged bytes at {damage.offset} were skipped"
        self.quarantine.put(what, f"{damage.segment:010}-{damage.offset}.bin", data)

    def _take(self, record: Record) -> None:
        """Apply *record*, with the group that it ends."""
        self.report.replayed += 1
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
                self._apply(record)
            except Damaged as error:
                what = f"segment {record.segment}: the record at {record.offset} cannot be used: {error}"
                self.quarantine.put(what, f"{record.segment:010}-{record.offset}.bin", bytes(record.payload))

    # ---- the end -----------------------------------------------------------------------------------------------

    def _settle_end(self) -> None:
        """Cut what is behind the last record that counts."""
        behind = [number for number in self._headers if number > self.segment]
        doubtful = [*self._held, *self._group]
        if not self._headers:
            return
        if self._held:
            count = len(self._held)
            were = agree(count, "was", "were")
            what = f"{counted(count, 'record')} behind a missing one {were} never promised, and cut off"
            self.quarantine.put(what, f"{self.segment:010}-{self.offset}-tail.bin", b"".join(map(_payload, doubtful)))
        if (
            self.segment in self._headers
            and self._headers[self.segment] is None
            and self.offset == SEGMENT_HEADER_BYTES
        ):
            behind.append(self.segment)  # it was made, and never begun
        for number, (why, data) in self._bad_headers.items():
            if number not in behind:  # the torn beginning of a segment with nothing in it is no damage
                self.quarantine.put(f"segment {number}: {why}", f"{number:010}-header.bin", data)
        for number in sorted(behind, reverse=True):  # a crash meanwhile must not leave one without its predecessor
            self._cut(number, 0)
            self._files.remove(segment_path(self._directory, number))
            self.catalog.segments.pop(number)
        if behind:
            self.last_segment = max(self.catalog.segments, default=0)
        if self.segment in self.catalog.segments and self._clean_end != (self.segment, self.offset):
            self._cut(self.segment, self.offset)
        self._make_durable()

    def _report_cut_off(self) -> None:
        """Report segments whose files are shorter than they were made, and make them as long again: what was in the
        rest is lost, and the report is in the quarantine."""
        for number, made_bytes in sorted(self._cut_off.items()):
            segment = self.catalog.segments[number]
            what = f"segment {number}: its file was cut off: it has {segment.size_bytes}"
            if not made_bytes:
                self.quarantine.put(f"{what} bytes, and all that was in it is lost", "")
                continue
            self.quarantine.put(f"{what} of {made_bytes} bytes, and what was in the others is lost", "")
            self.quarantine.flush()
            if self._lengthen(number, segment.size_bytes, made_bytes):
                segment.size_bytes = made_bytes

    def _lengthen(self, number: int, size_bytes: int, made_bytes: int) -> bool:
        """Write zeros behind the end of a file; False if the disk is full: the next start reports it again."""
        file = self._files.open(segment_path(self._directory, number))
        try:
            for offset in range(size_bytes, made_bytes, len(ZEROS)):
                file.write(ZEROS[: made_bytes - offset], offset)
            file.sync()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False
        finally:
            file.close()
        return True

    def _make_durable(self) -> None:
        """What was read is told to others from now on. It may be in the cache only; after a sync that failed it may
        even be there although no sync will bring it to the medium. So what no record vouches for is written again."""
        if self.number <= self._synced:
            return
        _, first, offset = self._written_at[0]
        for number in sorted(it for it in self.catalog.segments if it >= first):
            file = self._files.open(segment_path(self._directory, number))
            try:
                start = offset if number == first and offset > SEGMENT_HEADER_BYTES else 0
                end = self.offset if number == self.segment else file.size_bytes
                file.write(file.read(start, max(0, end - start)), start)
                file.sync()
            finally:
                file.close()

    def _cut(self, number: int, offset: int) -> None:
        """Zero a segment from *offset* on."""
        file = self._files.open(segment_path(self._directory, number))
        try:
            length = used_end(file, offset) - offset
            self.report.cut_bytes += length
            for start in range(0, length, len(ZEROS)):
                file.write(ZEROS[: length - start], offset + start)
            if length:
                file.sync()
        finally:
            file.close()

    def _report_missing(self, first: int) -> None:
        """Segments between others that are not there, and were not removed on purpose."""
        gaps = self.catalog.state.get(GAPS_KEY)
        removed = set(gaps.value) if gaps is not None and isinstance(gaps.value, tuple) else set()
        numbers = set(self._headers)
        for number in range(first, max(numbers, default=0)):
            if number not in numbers and number not in removed:
                self.quarantine.put(f"segment {number} is missing, with all that was in it", "")

    def _end_bare_places(self) -> None:
        """The place of a durable subscription is nothing without its terms, whose record is lost."""
        for place_id, info in list(self.catalog.place_by_id.items()):
            if isinstance(info.place, DurableKey) and durable_key(place_id) not in self.catalog.state:
                self.quarantine.put(
                    f"the terms of {info!r} are lost, and with them {counted(info.message_count, 'message')}", ""
                )
                self.catalog.end_place(place_id)

    def _report_lost_jobs(self) -> None:
        for _, job_id in self._due_only:
            self.quarantine.put(f"job {job_id.decode(errors='replace')} is due, and its message is lost", "")

    def _report_lost(self) -> None:
        """Messages in segments that are not there, or whose end is lost: not those that replay has found elsewhere."""
        sound = self.catalog.segments.keys() - self._readable_to.keys()
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
        readable_to = self._readable_to.get(entry.segment)
        return readable_to is not None and entry.offset + entry.record_bytes > readable_to

    def _report_orphans(self) -> None:
        """Places whose own record is lost: a queue is known by its messages, others are not."""
        for place_id in self._orphans:
            info = self.catalog.place_by_id.get(place_id)
            count = 0 if info is None else info.message_count
            if info is None or self.catalog.places.get(info.place) is info:
                if count:
                    self.quarantine.put(
                        f"the record of place {place_id} is lost; {counted(count, 'message')} "
                        f"{agree(count, 'says', 'say')} {info!r}",
                        "",
                    )
                continue
            if count:
                self.quarantine.put(
                    f"the record of place {place_id} is lost, and with it {counted(count, 'message')}", ""
                )
            self.catalog.end_place(place_id)

    # ---- applying ----------------------------------------------------------------------------------------------

    def _apply(self, record: Record) -> None:
        catalog, payload, segment = self.catalog, record.payload, record.segment
        match record.kind:
            case RecordKind.MESSAGE:
                self._apply_message(record)
            case RecordKind.REMOVED:
                self._apply_removed(record)
            case RecordKind.OPENED:
                reader = Reader(payload)
                reader.u64()
                catalog.last_sequence = max(catalog.last_sequence, reader.u64())
            case RecordKind.CLOSED:
                catalog.last_sequence = max(catalog.last_sequence, Reader(payload).u64())
            case RecordKind.PLACE:
                place_id, place, dispatched_up_to = unpack_place(payload)
                self._orphans.discard(place_id)
                catalog.add_place(place_id, place, segment, dispatched_up_to)
                catalog.last_sequence = max(catalog.last_sequence, dispatched_up_to)
            case RecordKind.PLACE_GONE:
                place_id = unpack_place_gone(payload)
                self._ended.add(place_id)
                catalog.next_place_id = max(catalog.next_place_id, place_id + 1)
                catalog.end_place(place_id)
                catalog.end_state(durable_key(place_id))
            case RecordKind.PURGED:
                place_id, last_sequence, kept = unpack_purged(payload)
                info = self.catalog.place_by_id.get(place_id)
                if info is not None:
                    catalog.purge(info, last_sequence, kept)
            case RecordKind.COUNTS:
                for producer, count in unpack_counts(payload):
                    catalog.set_count(producer, count, segment)
            case RecordKind.COMMITTED:
                catalog.set_commit(bytes(payload), segment)
            case RecordKind.JOB_GONE:
                key = job_key(job_id_of(payload))
                self._due_only.discard(key)
                catalog.end_state(key)
            case RecordKind.DECIDED:
                catalog.end_state(prepared_key(bytes(payload)))
            case RecordKind.STATE_RECORD_GONE:
                catalog.end_state(state_record_key(state_record_key_of(payload)))
            case _:
                self._apply_state(record)

    def _apply_state(self, record: Record) -> None:
        catalog, payload = self.catalog, record.payload
        match record.kind:
            case RecordKind.DURABLE:
                place_id, durable = unpack_durable(payload)
                if place_id not in catalog.place_by_id and place_id not in self._ended:
                    catalog.add_place(place_id, durable.key, record.segment)  # its own record is moved, or damaged
                key = durable_key(place_id)
            case RecordKind.JOB | RecordKind.JOB_DUE:
                key = job_key(job_id_of(payload))
            case RecordKind.PREPARED:
                key = prepared_key(unpack_prepared(payload).transaction)
            case RecordKind.STATE_RECORD:
                key = state_record_key(state_record_key_of(payload))
            case RecordKind.GAPS:
                key = GAPS_KEY
            case _:
                raise Damaged(f"records of type {record.kind} are not known")
        known = catalog.state.get(key)
        if record.kind == RecordKind.JOB_DUE and known is None:
            self._due_only.add(key)  # its own record was moved and comes later, or is lost
            return
        self._due_only.discard(key)
        value = unpack_state(record.kind, payload, self._form, None if known is None else known.value)
        catalog.set_state(key, value, record.segment, is_update=record.kind == RecordKind.JOB_DUE)

    def _apply_message(self, record: Record) -> None:
        message = unpack_message(record.payload)
        catalog = self.catalog
        catalog.last_sequence = max(catalog.last_sequence, message.sequence)
        catalog.set_count(message.producer_key, message.producer_count, record.segment)
        frame_bytes, place_count = len(message.frame), len(message.place_ids)
        where = (record.segment, record.offset, frame_bytes, place_count, message.priority, message.expiration)
        entry = tuple.__new__(Entry, where)
        for place_id in message.place_ids:
            if place_id not in self._ended:
                info = catalog.place_by_id.get(place_id)
                if info is None:
                    info = self._adopt(place_id, bytes(message.frame), record.segment)
                catalog.move(info, message.sequence, entry)

    def _adopt(self, place_id: int, frame: bytes, segment: int) -> PlaceInfo:
        """A place whose record was not seen: it may be gone, as a later record will say, or its record is damaged."""
        self._orphans.add(place_id)
        place = read_message(self._form, frame).destination
        if place.kind.is_queue and place not in self.catalog.places:
            return self.catalog.add_place(place_id, place, segment)
        return self.catalog.add_nameless_place(place_id, place, segment)

    def _apply_removed(self, record: Record) -> None:
        for place_id, sequence, segment in unpack_removed(record.payload):
            info = self.catalog.place_by_id.get(place_id)
            entry = None if info is None else self.catalog.find(info, sequence)
            if info is not None and entry is not None and entry.segment <= segment:
                self.catalog.take(info, sequence)
            self.catalog.note_removals(record.segment, segment)


def _payload(record: Record) -> bytes:
    return bytes(record.payload)
