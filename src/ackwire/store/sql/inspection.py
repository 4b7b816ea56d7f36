"""A database that no broker uses, as a start would find it; nothing in it changes (SEMANTICS K2, K3).

The very reading of a start (`Opening`) says what is there. What a start would put right afterwards is known here too,
and not written. Messages are read in order of sequence, a few MiB at a time, so memory does not grow with their number,
but for 8 bytes for each message that a durable subscription waits for.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, final

from ackwire.errors import AckwireError
from ackwire.jms.destinations import Kind
from ackwire.jms.message import Message
from ackwire.store.contract import DurableRecord, Place, ScheduledJob, StateRecord
from ackwire.store.inspect import Progress as Report
from ackwire.store.inspect import no_progress
from ackwire.store.journal.state import PreparedRecord as StoredTransaction
from ackwire.store.journal.state import unpack_job, unpack_state_record
from ackwire.store.portable_export import Found, Unreadable
from ackwire.store.sql.catalog import PlaceInfo
from ackwire.store.sql.driver import Driver, Session
from ackwire.store.sql.errors import UnfinishedCopy
from ackwire.store.sql.journal_mark import refuse_waiting_journal
from ackwire.store.sql.memory import RecordKind
from ackwire.store.sql.opening import PORTION, Opening, destination_of
from ackwire.store.sql.prepared import unpack_prepared
from ackwire.store.sql.restore import SharedRows, read_shared_rows
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.schema import Tables, check_schema
from ackwire.store.sql.statements import Statements

_READ_BYTES: Final = 4 << 20
"""Message bytes that are read at once."""

_READ_ROWS: Final = 500
"""Messages that are read at once, if they are small."""


class Head(NamedTuple):
    """A message in a table, without its bytes."""

    sequence: int
    size_bytes: int
    places: tuple[Place, ...]
    """Where it waits; none for a message of a topic that every subscription is done with."""
    container: str
    """Empty for a row of `ACKWIRE_MSGS`."""
    xid: str | None
    """Set if a prepared transaction has acknowledged it."""
    place_id: int = 0
    """Of a row of `ACKWIRE_MSGS`."""


@final
class SqlInspection:
    """Implements `portable_export.Source` on a database. *session* belongs to it, and excludes brokers."""

    def __init__(
        self,
        driver: Driver,
        session: Session,
        names: Tables,
        form: RowForm,
        now_ms: Callable[[], int],
        report: Report = no_progress,
        *,
        is_copy_checked: bool = False,
    ) -> None:
        """Raises `UnusableDatabase`. *is_copy_checked*: look at a copy that is not released yet."""
        try:
            check_schema(driver, session, names, create_tables=False)
        except UnfinishedCopy:
            if not is_copy_checked:
                raise
        self.driver = driver
        self.names = names
        self._session = session
        self._statements = Statements(driver.dialect, names)
        self.form = form
        self._report = report
        self._opening = Opening(session, self._statements, form, driver.description)
        self._opening.read()
        refuse_waiting_journal(self._opening.mark, driver.description)
        self.catalog = self._opening.catalog
        self._by_id = {info.place_id: info for info in self.catalog.places.values()}
        run_id, _, _, is_open, crashed_ms = session.select(self._statements.state)[0]
        self.run_id = str(run_id)
        """Of the last run."""
        self.was_closed = not is_open
        self.crashed_ms: int | None = now_ms() if is_open else crashed_ms
        self.last_sequence = self.catalog.last_sequence

    # ---- everything but messages -----------------------------------------------------------------------------------

    def place_of(self, place_id: int) -> Place | None:
        info = self._by_id.get(place_id)
        return None if info is None else info.place

    def places(self) -> Iterator[tuple[Place, int]]:
        return ((info.place, info.dispatched) for info in self.catalog.places.values())

    def durables(self) -> list[DurableRecord]:
        return [it.terms for it in self.catalog.places.values() if it.terms is not None]

    def jobs(self) -> Iterator[ScheduledJob]:
        return (unpack_job(memoryview(it), self.form, None) for it in self._records(RecordKind.JOB))

    def state_records(self) -> Iterator[StateRecord]:
        return (unpack_state_record(memoryview(it)) for it in self._records(RecordKind.STATE))

    def _records(self, kind: RecordKind) -> Iterator[bytes]:
        return (bytes(data) for _, found, data in self._session.select(self._statements.records) if found == kind)

    def state(self) -> Iterator[object]:
        yield from self.durables()
        yield from self.jobs()
        yield from self.state_records()
        yield from self.prepared()

    def prepared(self) -> Iterator[StoredTransaction]:
        """Prepared transactions, ours and those of ActiveMQ, with the ids of places."""
        shared = read_shared_rows(self._session.select, self._statements, self.form)
        for data in self._records(RecordKind.PREPARED):
            record = unpack_prepared(data)
            xid = self.form.xid(self.form.transaction_from_bytes(record.transaction))
            rows = (None if xid is None else shared.pop(xid, None)) or SharedRows()
            if rows.sends or not record.shared_sends:  # else ActiveMQ has decided it
                frames = record.frames or tuple(it.frame for it in rows.sends)
                yield StoredTransaction(record.transaction, frames, self._with_ids(record.acks), record.user)
        for xid, rows in shared.items():
            transaction = self.form.transaction_to_bytes(self.form.transaction(xid))
            yield StoredTransaction(transaction, tuple(it.frame for it in rows.sends), self._with_ids(rows.acks))

    def _with_ids(self, acks: Sequence[tuple[Place, int]]) -> tuple[tuple[int, int], ...]:
        known = self.catalog.places
        return tuple((known[place].place_id, sequence) for place, sequence in acks if place in known)

    def counts(self) -> list[tuple[bytes, int]]:
        return list(self._opening.memory.counts.items())

    def commits(self) -> Iterator[bytes]:
        return map(self.form.transaction_to_bytes, self._opening.memory.commits)

    def orphans(self) -> list[tuple[int, int]]:
        """Ids of places that `ACKWIRE_MSGS` names and `ACKWIRE_PLACES` does not, with their rows."""
        rows = self._session.select(self._statements.extra_totals)
        return [(place_id, count) for place_id, count, _ in rows if place_id not in self._by_id]

    @property
    def size_bytes(self) -> int:
        """Of all rows of messages, about: to tell how far a reader is."""
        (shared,) = self._session.select(self._statements.size)[0]
        return int(shared or 0) + sum(int(it) for _, _, it in self._session.select(self._statements.extra_totals))

    # ---- messages --------------------------------------------------------------------------------------------------

    def heads(self) -> Iterator[Head]:
        """Every row of a message that is not a prepared send, in order of sequence."""
        extra = (self._extra_heads(it) for it in self.catalog.places.values() if it.has_extra)
        return heapq.merge(self._shared_heads(), *extra, key=lambda it: it.sequence)

    def _shared_heads(self) -> Iterator[Head]:
        last = 0
        places: dict[str, Callable[[int], tuple[Place, ...]]] = {}
        while True:
            rows = self._session.select(self._statements.message_heads, (last, PORTION))
            for sequence, container, size_bytes, xid in rows:
                if container not in places:
                    places[container] = self._places_of(container)
                yield Head(sequence, size_bytes or 0, places[container](sequence), container, xid)
            if len(rows) < PORTION:
                return
            last = rows[-1][0]

    def _places_of(self, container: str) -> Callable[[int], tuple[Place, ...]]:
        """Says where a message of *container* waits."""
        destination = destination_of(container)
        if destination is None:
            return lambda _: ()
        if destination.kind is Kind.QUEUE:
            return lambda _: (destination,)
        subscriptions = list(self.catalog.topics.get(container, {}).values())
        return lambda sequence: tuple(it.place for it in subscriptions if sequence in it.progress[container].pending)

    def _extra_heads(self, info: PlaceInfo) -> Iterator[Head]:
        last = 0
        while True:
            rows = self._session.select(self._statements.waiting_extra, (info.place_id, last, _READ_ROWS))
            for sequence, _, _, size_bytes, _ in rows:
                yield Head(sequence, size_bytes, (info.place,), "", None, info.place_id)
            if len(rows) < _READ_ROWS:
                return
            last = rows[-1][0]

    def messages(self) -> Iterator[Found | Unreadable]:
        done_bytes, all_bytes = 0, self.size_bytes
        for part in _parts(it for it in self.heads() if it.places):
            found = self._read(part)
            for head in part:
                done_bytes += head.size_bytes
                self._report("reading messages", min(done_bytes, all_bytes), all_bytes)
                it = found.get((head.place_id, head.sequence))
                if isinstance(it, Message):
                    yield Found(head.sequence, list(head.places), it)
                else:
                    where = ", ".join(map(repr, head.places))
                    yield Unreadable(head.sequence, f"message {head.sequence} of {where} is left out: {it}")

    def message(self, head: Head) -> Message | None:
        """One message; None if it cannot be read."""
        found = self._read([head]).get((head.place_id, head.sequence))
        return found if isinstance(found, Message) else None

    def _read(self, heads: Sequence[Head]) -> dict[tuple[int, int], Message | str]:
        """Messages by place id, 0 in ActiveMQ's table, and sequence; a reason for one that cannot be read."""
        by_place: dict[int, list[int]] = {}
        for head in heads:
            by_place.setdefault(head.place_id, []).append(head.sequence)
        found: dict[tuple[int, int], Message | str] = {}
        for place_id, sequences in by_place.items():
            made = self._statements
            queries = made.select_extra(place_id, sequences) if place_id else made.select_any(sequences)
            for sql, values in queries:
                for sequence, data in self._session.select(sql, tuple(values)):
                    found[place_id, sequence] = self._unpacked(data, sequence)
        return found

    def _unpacked(self, data: bytes | None, sequence: int) -> Message | str:
        try:
            return self.form.unpack(bytes(data or b""), sequence)
        except AckwireError as error:
            return f"it cannot be read: {error}"


def _parts(heads: Iterator[Head]) -> Iterator[list[Head]]:
    """*heads* in portions that are read at once."""
    part: list[Head] = []
    size_bytes = 0
    for head in heads:
        part.append(head)
        size_bytes += head.size_bytes
        if size_bytes >= _READ_BYTES or len(part) >= _READ_ROWS:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part
