"""Which rows of a database wait for whom: the totals of `store stats`, the sentences of `store explain`, the findings
of `store check` (SEMANTICS K2, K3).

One pass over the tables without the bytes of messages; memory does not grow with their number.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, final

from ackwire.errors import AckwireError
from ackwire.store.contract import CursorRecord, DurableKey, Place, StagedRecord
from ackwire.store.explain import size_text, time_text
from ackwire.store.portable_export import Unreadable
from ackwire.store.sql.inspection import Head, SqlInspection
from ackwire.store.sql.opening import destination_of
from ackwire.store.sql.xids import read_xid
from ackwire.util.plurals import agree, counted
from ackwire.util.sequence_runs import Runs

_LISTED_MAX: Final = 1000
"""Messages of one kind of fault that a check names; it counts all."""


@final
@dataclass(slots=True)
class PlaceRows:
    """The rows that wait in one place."""

    place: Place
    rows: int = 0
    size_bytes: int = 0
    oldest: Head | None = None
    oldest_ms: int | None = None
    """When the oldest message was sent, by its producer's clock."""
    last_acked: int | None = None
    """Of a durable subscription, the smallest `LAST_ACKED_ID` of its topics."""
    acknowledged: Counter[str] = field(default_factory=Counter)
    """By prepared transaction: rows that are gone when it commits."""
    reserved: Counter[str] = field(default_factory=Counter)
    """By cursor and staged batch: rows that no consumer gets meanwhile."""

    @property
    def waiting(self) -> int:
        """Rows that nothing but a consumer is missing for."""
        return self.rows - self.acknowledged.total() - self.reserved.total()

    @property
    def why(self) -> str:
        """All that as a sentence."""
        return f"{self.place!r}: {counted(self.rows, 'row')} ({size_text(self.size_bytes)}){'; '.join(self._parts())}"

    def _parts(self) -> Iterator[str]:
        if self.oldest_ms is not None:
            yield f", {'sent' if self.rows == 1 else 'the oldest sent'} {time_text(self.oldest_ms)}"
        else:
            yield ""
        whom = "its subscriber" if isinstance(self.place, DurableKey) else "a consumer"
        if self.waiting:
            yield f"{self.waiting} {agree(self.waiting, 'waits', 'wait')} for {whom}"
        for transaction, rows in self.acknowledged.items():
            yield f"{rows} acknowledged in prepared transaction {transaction}, which waits for its end"
        for holder, rows in self.reserved.items():
            yield f"{rows} reserved for {holder}"
        if self.last_acked is not None:
            yield f"acknowledged up to ID {self.last_acked}"


@final
@dataclass(slots=True)
class Survey:
    """The rows of a database."""

    places: list[PlaceRows]
    """Those with rows, the largest first."""
    unneeded: dict[str, int]
    """By topic: rows that no subscription waits for, which the next start deletes."""
    foreign: dict[str, int]
    """By container: rows whose container is no destination."""
    prepared_sends: dict[str, int]
    """By prepared transaction: rows that it has sent."""

    @property
    def rows(self) -> int:
        """A message of a topic counts once for each subscription that waits for it."""
        return sum(it.rows for it in self.places)

    def sentences(self) -> Iterator[str]:
        """What keeps the rows of each place."""
        yield from (it.why for it in self.places)
        for transaction, rows in self.prepared_sends.items():
            yield f"prepared transaction {transaction}: {counted(rows, 'row')} sent, delivered if it commits"
        for container, rows in self.unneeded.items():
            yield f"{container}: {counted(rows, 'row')} that no subscription waits for; the next start deletes them"
        for container, rows in self.foreign.items():
            yield f"{container!r}: {counted(rows, 'row')} of a container that is no destination; they are left alone"


@final
class _Holders:
    """Cursors and staged batches that have reserved messages of one place."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, list[int], list[int]]] = []

    def add(self, name: str, runs: Runs) -> None:
        pairs = sorted(zip(runs[::2], runs[1::2], strict=True))
        self._runs.append((name, [first for first, _ in pairs], [first + count for first, count in pairs]))

    def of(self, sequence: int) -> str | None:
        for name, firsts, ends in self._runs:
            at = bisect_right(firsts, sequence) - 1
            if at >= 0 and sequence < ends[at]:
                return name
        return None


def survey(inspection: SqlInspection, transaction_text: Callable[[Hashable], str] = str) -> Survey:
    """Look at every row of a message; *transaction_text* names a transaction for people."""
    places: dict[Place, PlaceRows] = {}
    unneeded: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    holders = _holders(inspection)
    xids = _Transactions(inspection, transaction_text)
    for head in inspection.heads():
        if not head.places:
            (unneeded if destination_of(head.container) else foreign)[head.container] += 1
        for place in head.places:
            found = places.setdefault(place, PlaceRows(place))
            found.rows += 1
            found.size_bytes += head.size_bytes
            found.oldest = found.oldest or head
            holder = holders[place].of(head.sequence) if place in holders else None
            if head.xid is not None:
                found.acknowledged[xids.text(head.xid)] += 1
            elif holder is not None:
                found.reserved[holder] += 1
    for it in places.values():
        _complete(inspection, it)
    largest_first = sorted(places.values(), key=lambda it: (-it.size_bytes, repr(it.place)))
    return Survey(largest_first, dict(unneeded), dict(foreign), xids.sends())


def _complete(inspection: SqlInspection, rows: PlaceRows) -> None:
    message = None if rows.oldest is None else inspection.message(rows.oldest)
    rows.oldest_ms = None if message is None else message.timestamp
    info = inspection.catalog.places.get(rows.place)
    if info is not None and info.progress:
        rows.last_acked = min(it.acked for it in info.progress.values())


def _holders(inspection: SqlInspection) -> dict[Place, _Holders]:
    found: dict[Place, _Holders] = {}
    for record in inspection.state_records():
        match record:
            case CursorRecord(name=name, place=place, held=held):
                found.setdefault(place, _Holders()).add(f"cursor {name}", held)
            case StagedRecord(producer=producer, part=part, batch=batch, committed=committed, held=parts):
                state = "committed" if committed else "not committed"
                for place, runs in parts:
                    text = f"part {part} of batch {batch} of producer {producer}, {state}"
                    found.setdefault(place, _Holders()).add(text, runs)
    return found


@final
class _Transactions:
    """Prepared transactions as people read them."""

    def __init__(self, inspection: SqlInspection, text: Callable[[Hashable], str]) -> None:
        self._inspection = inspection
        self._text = text
        self._texts: dict[str, str] = {}

    def text(self, xid: str) -> str:
        """For the column `XID`."""
        if xid not in self._texts:
            try:
                self._texts[xid] = self._text(self._inspection.form.transaction(read_xid(xid)[1]))
            except AckwireError:
                self._texts[xid] = xid
        return self._texts[xid]

    def sends(self) -> dict[str, int]:
        form = self._inspection.form
        found = ((form.transaction_from_bytes(it.transaction), len(it.frames)) for it in self._inspection.prepared())
        return {self._text(transaction): sends for transaction, sends in found if sends}


# ---- statistics ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    """Totals of a database."""

    database: str
    """Without credentials."""
    table_prefix: str
    run_id: str
    """Of the last run."""
    was_closed: bool
    """Whether that ended in good order."""
    last_sequence: int
    messages: int
    """A message counts once for each place where it waits."""
    message_bytes: int
    places: tuple[PlaceRows, ...]
    oldest_ms: int | None
    oldest_place: Place | None
    durables: int
    jobs: int
    prepared: int
    producers: int
    commits: int


def database_stats(inspection: SqlInspection) -> DatabaseStats:
    """Totals of what a start would find."""
    found = survey(inspection)
    with_oldest = [it for it in found.places if it.oldest is not None]
    oldest = min(with_oldest, default=None, key=lambda it: it.oldest.sequence if it.oldest is not None else 0)
    return DatabaseStats(
        database=inspection.driver.description,
        table_prefix=inspection.names.prefix,
        run_id=inspection.run_id,
        was_closed=inspection.was_closed,
        last_sequence=inspection.last_sequence,
        messages=found.rows,
        message_bytes=sum(it.size_bytes for it in found.places),
        places=tuple(found.places),
        oldest_ms=None if oldest is None else oldest.oldest_ms,
        oldest_place=None if oldest is None else oldest.place,
        durables=len(inspection.durables()),
        jobs=sum(1 for _ in inspection.jobs()),
        prepared=sum(1 for _ in inspection.prepared()),
        producers=len(inspection.counts()),
        commits=sum(1 for _ in inspection.commits()),
    )


# ---- check -----------------------------------------------------------------------------------------------------


@final
@dataclass(slots=True)
class DatabaseCheck:
    """What is wrong in a database."""

    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    messages: Counter[Place] = field(default_factory=Counter)

    @property
    def is_sound(self) -> bool:
        return not self.findings


def check_database(inspection: SqlInspection) -> DatabaseCheck:
    """Read every message and all state, and say what a broker could not serve."""
    report = DatabaseCheck()
    faults = 0
    for it in inspection.messages():
        if isinstance(it, Unreadable):
            faults += 1
            if faults <= _LISTED_MAX:
                report.findings.append(it.why)
        else:
            report.messages.update(it.places)
    if faults > _LISTED_MAX:
        report.findings.append(f"{faults} messages cannot be read, of which the first {_LISTED_MAX} are listed")
    report.findings += _orphans(inspection)
    found = survey(inspection)
    report.findings += [
        f"container {container!r}: {counted(rows, 'row')} that no broker serves, because it is no destination"
        for container, rows in found.foreign.items()
    ]
    report.notes += [
        f"{container}: {counted(rows, 'row')} that no subscription waits for; the next start deletes them"
        for container, rows in found.unneeded.items()
    ]
    if not inspection.was_closed:
        report.notes.append("the last run did not end in good order")
    return report


def _orphans(inspection: SqlInspection) -> Iterator[str]:
    names = inspection.names
    for place_id, rows in inspection.orphans():
        what = f"{names.extra}: {counted(rows, 'row')} of place {place_id}"
        yield f"{what}, which {names.places} does not have; no broker serves them"
