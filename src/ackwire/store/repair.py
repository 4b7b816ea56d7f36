"""Repair of a damaged store: the repairs of a start, and those that need a check of everything (SEMANTICS K2, K7).

A start cuts the torn end and rebuilds an unusable index. Beyond that, where the journal is damaged and the index is
good, the index decides which messages were removed and which jobs exist. So the index is kept, messages that it lists
and that cannot be read are given up, and the content of damaged records is written to the journal again. Afterwards the
journal and the index agree, and `check` finds no damage. Damaged bytes stay where they are, with a copy in the
quarantine, until their segment goes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ackwire.jms.message import Message
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, StateKey
from ackwire.store.check import CheckReport, Finding, FindingKind, check
from ackwire.store.checkpoint import pack_state_payload
from ackwire.store.compare import Located
from ackwire.store.contract import (
    BatchRecord,
    CursorRecord,
    DurableKey,
    DurableRecord,
    Kept,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StagedRecord,
    StateRecord,
)
from ackwire.store.index_files import seal_path
from ackwire.store.inspect import QUARANTINE, Judgement, MessageReader, StoreInspection
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.pending_records import PendingCounts, PendingPayload, PendingRemovals
from ackwire.store.journal.record import Damaged, RecordKind, pack_place_gone, pack_text
from ackwire.store.journal.recovery_report import Quarantine, Report
from ackwire.store.numbered import numbered
from ackwire.store.offline import OfflineStore, OpenedStore


@dataclass(slots=True)
class RepairReport:
    """What `repair` did."""

    lost: Counter[Place] = field(default_factory=Counter)
    """Messages that were given up."""
    done: list[str] = field(default_factory=list)
    after: CheckReport = field(default_factory=CheckReport)
    """What a check says now."""


def needs_new_index(report: CheckReport) -> bool:
    """Whether the index is to be made anew: it cannot be used, or it is wrong although the journal is sound."""
    if not report.index_is_trusted:
        return True
    return not report.journal_is_damaged and bool(report.differences)


def repair(offline: OfflineStore, before: CheckReport) -> RepairReport:
    """Put in order what *before* found. Raises `UnusableStore` and `StoreFailed`; what was done until then stays."""
    report = RepairReport()
    if needs_new_index(before):
        _start_with_new_index(offline, report)
    else:
        with offline.opened():
            report.done.append("recovered as at a start")
    with offline.inspect() as inspection:
        found = check(inspection)
        _quarantine(inspection, found)
        if any(not it.is_known for it in found.findings):
            _amend(offline, inspection, found, report)
    with offline.inspect() as inspection:
        report.after = check(inspection)
    if report.after.is_sound or not report.after.index_is_trusted:
        return report
    _start_with_new_index(offline, report)  # what could not be mended: the journal is the truth
    with offline.inspect() as inspection:
        report.after = check(inspection)
    return report


def _start_with_new_index(offline: OfflineStore, report: RepairReport) -> None:
    kind = offline.index_kind
    aside = _put_index_aside(offline)
    with offline.opened(fresh_index=kind):
        report.done.append("made the index anew from the journal")
    if aside is not None:
        report.done.append(f"put the old index into quarantine/{aside}")


def _put_index_aside(offline: OfflineStore) -> str | None:
    """The old index may know what the journal has lost: it is kept, for inspection by hand."""
    index, quarantine = offline.data / "index", offline.data / QUARANTINE
    if not offline.files.exists(index):
        return None
    offline.files.make_directory(quarantine)
    name = f"index-{offline.now_ms()}"
    offline.files.rename(index, quarantine / name)
    if offline.files.exists(seal_path(index)):
        offline.files.remove(seal_path(index))
    return name


def _quarantine(inspection: StoreInspection, found: CheckReport) -> None:
    """A start that goes by its index does not see damage before its checkpoint: copy it now."""
    quarantine = Quarantine(inspection.files, inspection.data / QUARANTINE, Report(), inspection.now_ms)
    alone = inspection.alone()
    unknown = {it.what for it in found.findings if it.kind is FindingKind.JOURNAL and not it.is_known}
    for damage in alone.damages:
        if damage.what in unknown:
            unknown.discard(damage.what)
            data = b"" if damage.file is None else inspection.files.read(alone.quarantine / damage.file)
            quarantine.put(damage.what, damage.file or "", data)
    for what in sorted(unknown):
        quarantine.put(what, "")


# ---- amending --------------------------------------------------------------------------------------------------


def _amend(offline: OfflineStore, inspection: StoreInspection, found: CheckReport, report: RepairReport) -> None:
    with offline.opened() as opened:
        amending = _Amending(opened, inspection, report)
        for finding in found.findings:
            if finding.kind is FindingKind.MESSAGE and finding.place is not None:
                amending.give_up(finding)
            if finding.kept is not None:
                amending.remove(finding.kept, finding.what)
        if found.index_is_trusted:
            amending.tell_the_journal(found)
        opened.settle()


class _Amending:
    """Writes what the journal should have said."""

    def __init__(self, opened: OpenedStore, inspection: StoreInspection, report: RepairReport) -> None:
        self._opened = opened
        self._store: JournalStore = opened.store
        self._catalog: Catalog = opened.store.journal.catalog
        self._alone: Judgement = inspection.alone()
        self._reader: MessageReader = inspection.reader
        self._report = report
        self._given_up: set[tuple[Place, int]] = set()

    def give_up(self, finding: Finding) -> None:
        """A message that cannot be read is not there any more."""
        assert finding.place is not None
        assert finding.sequence is not None
        self._store.remove(finding.place, numbered(finding.sequence))
        self._given_up.add((finding.place, finding.sequence))
        self._report.lost[finding.place] += 1

    def remove(self, kept: Kept, what: str) -> None:
        """Remove what makes a start fail. Its bytes stay in the journal's file, and the quarantine names it."""
        match kept:
            case DurableRecord(key=key) | (DurableKey() as key):
                self._store.remove_place(key)
            case ScheduledJob(job_id=job_id):
                self._store.remove_job(job_id)
            case PreparedTransaction(transaction_id=transaction_id):
                self._store.decide(transaction_id)
            case CursorRecord() | StagedRecord() | BatchRecord():
                self._store.drop_state_record(kept.key)
            case _:
                return
        self._store.journal.report_damage(f"removed by repair: {what}")
        self._report.done.append(f"removed what stops a start: {what}")

    def tell_the_journal(self, found: CheckReport) -> None:
        """Record again what the index knows and the journal has lost."""
        differences = found.differences
        self._tell_places(found)
        for key in (*differences.state_lost, *differences.state_changed):
            self._tell_state(key)
        for key in differences.state_back:
            self._tell_end_of_state(key)
        self._tell_removals(differences.back)
        lost_places = {info.place_id for info in differences.places_lost}
        for located in differences.lost:
            if located.place_id not in lost_places:
                self._write_again(located, located.entry)
        for located, entry in differences.moved:
            self._write_again(located, entry, located.entry)
        self._tell_recent()
        self._report.done.append("told the journal again what its damaged records had said")

    def _tell_places(self, found: CheckReport) -> None:
        for lost in found.differences.places_lost:
            info = self._catalog.place_by_id.get(lost.place_id)
            if info is not None:
                self._store.states.record_place(info)
        for back in found.differences.places_back:
            if back.place_id not in self._catalog.place_by_id:
                payload = pack_place_gone(back.place_id)
                self._store.buffer.add(PendingPayload(RecordKind.PLACE_GONE, payload))

    def _tell_state(self, key: StateKey) -> None:
        item = self._catalog.state.get(key)
        if item is not None:
            payload = pack_state_payload(self._catalog, item.value)
            self._store.buffer.add(PendingPayload(key[0], payload, item.moved_to))
            self._catalog.changed_state.add(key)

    def _tell_end_of_state(self, key: StateKey) -> None:
        item = self._alone.catalog.state.get(key)
        if key[0] == RecordKind.PREPARED:
            self._store.buffer.add(PendingPayload(RecordKind.DECIDED, key[1]))
        elif item is not None and isinstance(item.value, ScheduledJob):
            self._store.buffer.add(PendingPayload(RecordKind.JOB_GONE, pack_text(item.value.job_id)))
        elif item is not None and isinstance(item.value, StateRecord):
            self._store.buffer.add(PendingPayload(RecordKind.STATE_RECORD_GONE, pack_text(item.value.key)))

    def _tell_removals(self, back: list[Located]) -> None:
        removals = PendingRemovals(self._catalog)
        for located in back:
            if located.place_id in self._catalog.place_by_id:
                removals.add(located.place_id, located.sequence, located.entry.segment)
        if removals.payload_bytes:
            self._store.buffer.add(removals)

    def _write_again(self, located: Located, *entries: Entry) -> None:
        """Write the message of *located* again if it can be read, else count it as lost."""
        if (located.place, located.sequence) in self._given_up:
            return
        message = next(self._readable(located.sequence, entries), None)
        self._store.remove(located.place, numbered(located.sequence))
        if message is None:
            self._report.lost[located.place] += 1
        else:
            self._store.append(message, [located.place])
        self._opened.settle()  # one message may be in several places, and the buffer holds it once

    def _readable(self, sequence: int, entries: tuple[Entry, ...]) -> Iterator[Message]:
        for entry in entries:
            try:
                yield self._reader.read(entry, sequence)
            except Damaged:
                continue

    def _tell_recent(self) -> None:
        known = self._alone.catalog
        counts = PendingCounts(self._catalog)
        counts.counts = {
            producer: count
            for producer, (count, _) in self._catalog.counts.items()
            if producer not in known.counts or known.counts[producer][0] != count
        }
        if counts.counts:
            self._store.buffer.add(counts)
        for transaction in [it for it in self._catalog.commits if it not in known.commits]:
            self._store.states.record_commit(transaction)
