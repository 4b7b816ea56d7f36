"""Checks whether a store is sound, for the command line and for tests (K2, K7).

`check` reads every byte of the journal, decodes every live message, and compares the index with the journal. It
changes nothing. The result is a list of `Finding`: what and where, and what `repair` would do. Damage that an earlier
start or repair has handled stays in the files, and its lines in the quarantine; it is reported as known, and the store
still counts as sound.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ackwire.jms.destinations import Destination
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog
from ackwire.store.compare import Differences, Located, compare, state_text
from ackwire.store.contract import Kept, Place
from ackwire.store.inspect import QUARANTINE, Judgement, StoreInspection, read_damages
from ackwire.store.journal.record import Damaged, Record, RecordKind, seed_of, unpack_message
from ackwire.store.journal.segment import (
    SEGMENT_HEADER_BYTES,
    Damage,
    SegmentHeader,
    SegmentScan,
    UnreadableSegment,
    read_header,
    segment_path,
)
from ackwire.store.journal.state import read_message
from ackwire.util.plurals import counted

_TAIL: Final = "-tail.bin"
_EXAMPLES_MAX: Final = 1000
"""Findings of one kind about messages; beyond that only their number is reported."""


class FindingKind(Enum):
    """What a finding is about."""

    JOURNAL = "journal"
    """Bytes that were synced are no longer what they were, or are gone."""
    TORN = "torn"
    """The unfinished end of the last write. It was not confirmed to any client."""
    MESSAGE = "message"
    """A message that should be there and cannot be read."""
    INDEX = "index"
    """The index is not what the journal says."""
    START = "start"
    """Something that is kept well, and that a start cannot bring back: the broker would not start."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    kind: FindingKind
    what: str
    repair: str
    """What `repair` would do about it."""
    segment: int | None = None
    offset: int | None = None
    place: Place | None = None
    sequence: int | None = None
    kept: Kept | None = None
    """What a start cannot bring back."""
    is_known: bool = False
    """An earlier start or repair has dealt with it."""


@dataclass(slots=True)
class SegmentSurvey:
    """One segment, byte by byte."""

    number: int
    size_bytes: int
    records: int = 0
    first_record: int = 0
    last_record: int = 0
    damaged_bytes: int = 0
    torn_bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class CheckReport:
    """What `check` found."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Worth knowing, and no damage."""
    segments: list[SegmentSurvey] = field(default_factory=list)
    messages: dict[Place, int] = field(default_factory=dict)
    differences: Differences = field(default_factory=Differences)
    index_is_trusted: bool = True

    @property
    def is_sound(self) -> bool:
        return all(finding.is_known for finding in self.findings)

    @property
    def journal_is_damaged(self) -> bool:
        """Whether bytes are damaged that were synced, known or not: then the index may know better than the journal."""
        return any(finding.kind is FindingKind.JOURNAL for finding in self.findings)

    def lost_by_place(self) -> Counter[Place]:
        """Messages that cannot be read any more, as far as is known."""
        return Counter(it.place for it in self.findings if it.kind is FindingKind.MESSAGE and it.place is not None)


def check(inspection: StoreInspection) -> CheckReport:
    """Look at everything. Raises `UnusableStore` where nothing can be said."""
    report = CheckReport()
    alone, started = inspection.alone(), inspection.started()
    report.index_is_trusted = inspection.index_is_trusted
    report.messages = {info.place: info.message_count for info in started.catalog.places.values()}
    is_promised = report.index_is_trusted and started.recovery.number > alone.recovery.number
    report.findings += _journal_findings(alone, is_promised=is_promised)
    report.findings += _end_findings(alone, started, is_promised=is_promised)
    report.findings += _Surveyor(inspection, alone, report).survey()
    report.findings += _index_findings(inspection, started, report)
    if report.index_is_trusted:
        report.differences = compare(alone.catalog, started.catalog)
        report.findings += _difference_findings(inspection, report, alone.catalog, started.catalog)
    report.findings += _start_findings(inspection)
    report.notes += _notes(inspection, started)
    _mark_known(inspection, report)
    return report


def _mark_known(inspection: StoreInspection, report: CheckReport) -> None:
    """Damage that is in the quarantine already needs no one's attention."""
    known = {damage.what for damage in read_damages(inspection.files, inspection.data / QUARANTINE)}
    report.findings = [
        replace(it, is_known=it.kind is FindingKind.JOURNAL and it.what in known) for it in report.findings
    ]


def _start_findings(inspection: StoreInspection) -> Iterator[Finding]:
    """Findings of a rehearsed start."""
    for kept, what in () if inspection.rehearse is None else inspection.rehearse(inspection):
        plan = "leave it as it is" if isinstance(kept, Destination) else "note it in the quarantine and remove it"
        yield Finding(FindingKind.START, f"{what}; the broker would not start", plan, kept=kept)


# ---- the journal -----------------------------------------------------------------------------------------------


def _journal_findings(alone: Judgement, *, is_promised: bool) -> Iterator[Finding]:
    """What recovery says of the journal."""
    for damage in alone.damages:
        if is_promised and (damage.file or "").endswith(_TAIL):
            continue  # the index shows that it was promised after all: see `_end_findings`
        if (damage.file or "").endswith(_TAIL):
            yield Finding(FindingKind.TORN, damage.what, "copy it to the quarantine", damage.segment, damage.offset)
            continue
        plan = "copy the bytes to the quarantine and go on behind them" if damage.file else "note it in the quarantine"
        yield Finding(FindingKind.JOURNAL, damage.what, plan, damage.segment, damage.offset)


def _end_findings(alone: Judgement, started: Judgement, *, is_promised: bool) -> Iterator[Finding]:
    end = alone.recovery
    if is_promised:
        yield Finding(
            FindingKind.JOURNAL,
            f"segment {end.segment}: what begins at {end.offset} is damaged: records {end.number + 1} to "
            f"{started.recovery.number} were synced, as the index knows",
            "go by the index, and give up what cannot be read",
            end.segment,
            end.offset,
        )
    elif end.report.cut_bytes:
        yield Finding(
            FindingKind.TORN,
            f"segment {end.segment}: the last write was not finished: {end.report.cut_bytes} bytes from {end.offset} "
            "on; they were not confirmed to any client",
            "cut them off",
            end.segment,
            end.offset,
        )


class _Surveyor:
    """Reads all segments once more, record by record, now that it is known what is alive."""

    def __init__(self, inspection: StoreInspection, alone: Judgement, report: CheckReport) -> None:
        self._inspection = inspection
        self._catalog = alone.catalog
        self._end = (alone.recovery.segment, alone.recovery.offset)
        self._seed = seed_of(alone.recovery.store_id)
        self._report = report
        self._last_number = 0
        self._last_epoch = 0

    def survey(self) -> Iterator[Finding]:
        done_bytes, size_bytes = 0, self._inspection.size_bytes
        known: set[int] = set()
        for number in self._inspection.segments:
            self._inspection.progress("checking every record", done_bytes, size_bytes)
            yield from self._survey_segment(number, follows=number - 1 in known)
            known.add(number)
            done_bytes += self._report.segments[-1].size_bytes
        self._inspection.progress("checking every record", size_bytes, size_bytes)

    def _survey_segment(self, number: int, *, follows: bool) -> Iterator[Finding]:
        file = self._inspection.files.open(segment_path(self._inspection.data / "journal", number), writable=False)
        try:
            header = _header(file.read(0, SEGMENT_HEADER_BYTES))
            if header is not None:
                yield from self._check_header(header, number)
                if not follows:
                    self._last_number = max(self._last_number, header.first_record - 1)
            survey = SegmentSurvey(number, file.size_bytes)
            self._report.segments.append(survey)
            scan = SegmentScan(file, number, self._seed, last_number=self._last_number, last_epoch=self._last_epoch)
            for item in scan:
                if isinstance(item, Damage):
                    survey.damaged_bytes += item.length
                else:
                    yield from self._survey_record(survey, item)
            self._last_number, self._last_epoch = scan.last_number, scan.last_epoch
            survey.torn_bytes = scan.torn_bytes
        finally:
            file.close()

    def _check_header(self, header: SegmentHeader, number: int) -> Iterator[Finding]:
        if header.number != number:
            yield Finding(
                FindingKind.JOURNAL,
                f"segment {number}: it says that it is segment {header.number}; was the file renamed?",
                "nothing: give the file its name back",
                number,
                0,
            )

    def _survey_record(self, survey: SegmentSurvey, record: Record) -> Iterator[Finding]:
        survey.records += 1
        survey.first_record = survey.first_record or record.number
        survey.last_record = record.number
        survey.kinds[_kind_name(record.kind)] += 1
        if record.kind == RecordKind.MESSAGE and (record.segment, record.offset) < self._end:
            yield from self._survey_message(record)

    def _survey_message(self, record: Record) -> Iterator[Finding]:
        """A message that is alive must be one that can be delivered."""
        try:
            stored = unpack_message(record.payload)
        except Damaged:
            return  # recovery has said so
        alive = [
            info.place
            for info in map(self._catalog.place_by_id.get, stored.place_ids)
            if info is not None and _is_at(self._catalog.find(info, stored.sequence), record)
        ]
        if not alive:
            return
        try:
            message = read_message(self._inspection.form, bytes(stored.frame))
            if message.sequence != stored.sequence:
                raise Damaged(f"it calls itself message {message.sequence}")
        except Damaged as error:
            for place in alive:
                where = f"at {record.offset} of segment {record.segment}"
                yield Finding(
                    FindingKind.MESSAGE,
                    f"message {stored.sequence} of {place!r}, {where}, cannot be read: {error}",
                    "give it up",
                    record.segment,
                    record.offset,
                    place,
                    stored.sequence,
                )


def _header(data: bytes) -> SegmentHeader | None:
    try:
        return read_header(data)
    except UnreadableSegment:
        return None  # recovery has said so


def _kind_name(kind: int) -> str:
    try:
        return RecordKind(kind).name.lower().replace("_", " ")
    except ValueError:
        return f"type {kind}"


def _is_at(entry: Entry | None, record: Record) -> bool:
    return entry is not None and (entry.segment, entry.offset) == (record.segment, record.offset)


# ---- the index -------------------------------------------------------------------------------------------------


def _index_findings(inspection: StoreInspection, started: Judgement, report: CheckReport) -> Iterator[Finding]:
    if report.index_is_trusted:
        return
    reasons = [it.what for it in started.damages if it.what.startswith("the index")]
    if inspection.index_is_missing:
        what = "the index is missing"
    elif inspection.index_damage is not None:
        what = f"the index cannot be used: {inspection.index_damage}"
    else:
        what = reasons[0] if reasons else "the index is empty"
    report.findings = [it for it in report.findings if it.what not in reasons]
    yield Finding(FindingKind.INDEX, what, "make it anew from the journal")


def _difference_findings(
    inspection: StoreInspection, report: CheckReport, alone: Catalog, started: Catalog
) -> Iterator[Finding]:
    differences = report.differences
    is_damaged = report.journal_is_damaged
    anew = "go by the index, and tell the journal" if is_damaged else "make the index anew from the journal"
    lost = _lost_findings(inspection, differences.lost, anew)
    yield from _some(lost, len(differences.lost), "messages are not in the journal")
    back = (_index_finding(f"{it}: the index does not have it", anew, it) for it in differences.back)
    yield from _some(back, len(differences.back), "messages are not in the index")
    moved = (_index_finding(f"{it}: the index has it at {_at(entry)}", anew, it) for it, entry in differences.moved)
    yield from _some(moved, len(differences.moved), "messages are elsewhere")
    for info in differences.places_lost:
        yield _index_finding(f"{info!r} is known to the index only", anew)
    for info in differences.places_back:
        yield _index_finding(f"{info!r} is known to the journal only", anew)
    for key in differences.state_lost:
        yield _index_finding(f"{state_text(started, key)} is known to the index only", anew)
    for key in differences.state_back:
        yield _index_finding(f"{state_text(alone, key)} is known to the journal only", anew)
    for key in differences.state_changed:
        yield _index_finding(f"{state_text(alone, key)} is not the same in index and journal", anew)
    for what in differences.counters:
        yield _index_finding(what, anew)


def _lost_findings(inspection: StoreInspection, lost: list[Located], anew: str) -> Iterator[Finding]:
    """Entries of the index without a record in the journal: the message is lost, or only its record."""
    for it in lost:
        entry = it.entry
        try:
            inspection.reader.read(entry, it.sequence)
        except Damaged as error:
            what = f"{it}, cannot be read: {error}"
            yield Finding(FindingKind.MESSAGE, what, "give it up", entry.segment, entry.offset, it.place, it.sequence)
        else:
            yield _index_finding(f"{it}: the journal does not say that it is there", anew, it)


def _index_finding(what: str, repair: str, located: Located | None = None) -> Finding:
    entry = None if located is None else located.entry
    return Finding(
        FindingKind.INDEX,
        what,
        repair,
        None if entry is None else entry.segment,
        None if entry is None else entry.offset,
        None if located is None else located.place,
        None if located is None else located.sequence,
    )


def _some(findings: Iterator[Finding], count: int, what: str) -> Iterator[Finding]:
    """All findings about lost messages, the first of others: an index of a million wrong entries is one finding."""
    for told, finding in enumerate(findings):
        if told < _EXAMPLES_MAX or finding.kind is FindingKind.MESSAGE:
            yield finding
    if count > _EXAMPLES_MAX:
        yield _index_finding(f"{count} {what}, of which the first {_EXAMPLES_MAX} are listed", "as for those")


def _at(entry: Entry) -> str:
    return f"{entry.offset} of segment {entry.segment}"


# ---- notes -----------------------------------------------------------------------------------------------------


def _notes(inspection: StoreInspection, started: Judgement) -> Iterator[str]:
    if inspection.index_is_trusted and not inspection.is_sealed and inspection.segments:
        replayed = counted(started.recovery.report.replayed, "record")
        yield f"the last stop was not a clean one: a start replays {replayed}"
    names = set(inspection.files.names(inspection.data / "journal"))
    for name in sorted(names - {f"{number:010}.log" for number in inspection.segments} - {"spare"}):
        yield f"journal/{name} is not a file of the journal"
    lines = sum(1 for _ in read_damages(inspection.files, inspection.data / QUARANTINE))
    if lines:
        yield f"quarantine/report.jsonl has {counted(lines, 'line')} about earlier damage"
