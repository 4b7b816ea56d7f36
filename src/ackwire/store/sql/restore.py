"""What an earlier run has recorded: `Restore` on a database, in portions."""

import heapq
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Final, final

from ackwire.jms.message import Message
from ackwire.store.contract import (
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.journal.state import unpack_job, unpack_state_record
from ackwire.store.sql.catalog import Catalog, PlaceInfo
from ackwire.store.sql.changes import PendingRow
from ackwire.store.sql.driver import Row
from ackwire.store.sql.frames import frame_size
from ackwire.store.sql.memory import Memory, RecordKind
from ackwire.store.sql.opening import PORTION, destination_of
from ackwire.store.sql.prepared import PreparedRecord, unpack_prepared
from ackwire.store.sql.reads import ReadingSession, Reads
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.sequence_set import SequenceSet
from ackwire.store.sql.statements import Statements
from ackwire.store.sql.xids import ACKNOWLEDGED, SENT, read_xid
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)

_REPORT_SECONDS: Final = 3.0
"""Between two lines of the log about a start that takes long."""

_SIZE_BYTES: Final = 4
"""In front of each message in the database."""


@final
class Restoring:
    """Reads what a start asks for."""

    def __init__(
        self,
        catalog: Catalog,
        memory: Memory,
        reads: Reads,
        session: ReadingSession,
        statements: Statements,
        form: RowForm,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._memory = memory
        self._reads = reads
        self._session = session
        self._statements = statements
        self._form = form
        self._clock = clock
        self._row_count = 0
        """Rows of messages that were read."""
        self._reported = clock.monotonic()

    # ---- messages --------------------------------------------------------------------------------------------------

    def waiting_portions(self, place: Place) -> Iterator[WaitingMessages]:
        info = self._catalog.places.get(place)
        if info is None:
            return
        messages = self._waiting(info)
        while portion := WaitingMessages(islice(messages, PORTION)):
            yield portion

    def _waiting(self, info: PlaceInfo) -> Iterator[WaitingMessage]:
        """The messages of a place in order, whatever tables they are in."""
        reads, sources = self._reads, []
        if info.container is not None:
            sources += self._of_container(info.container, 0)
        for container, progress in info.progress.items():
            found = self._of_container(container, progress.acked)
            sources += [_those_in(rows, progress.pending) for rows in found]
        if info.has_extra:
            rows = self._read(self._statements.waiting_extra, info.place_id, 0)
            sources.append(it for it in rows if reads.extra_row(info, it.sequence) is None)
            sources.append(map(_waiting_row, reads.pending_extra(info)))
        return sources[0] if len(sources) == 1 else heapq.merge(*sources)

    def _of_container(self, container: str, after: int) -> list[Iterator[WaitingMessage]]:
        """The messages of a queue or topic: those in the database, and those that are on their way there."""
        rows, reads = self._read(self._statements.waiting, container, after), self._reads
        if reads.are_all_committed:
            return [rows]
        pending = reads.pending_of(container)
        return [(it for it in rows if reads.row(container, it.sequence) is None), map(_waiting_row, pending)]

    def _read(self, sql: str, where: str | int, last: int) -> Iterator[WaitingMessage]:
        while True:
            rows = self._session.select(sql, (where, last, PORTION))
            self._report(len(rows))
            for sequence, expiration, priority, size, head in rows:
                if head is not None:
                    priority = self._priority(where, sequence, bytes(head))
                yield WaitingMessage(sequence, expiration or 0, priority or 0, size - _SIZE_BYTES)
            if len(rows) < PORTION:
                return
            last = rows[-1][0]

    def _report(self, row_count: int) -> None:
        """Log now and then how far a start is: the database may be far away, and large."""
        self._row_count += row_count
        now = self._clock.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            _log.info("%d messages were read from the database so far", self._row_count)

    def _priority(self, container: str | int, sequence: int, head: bytes) -> int:
        """The priority that stands in a message: ActiveMQ writes 0 beside it unless a queue is prioritised."""
        found = self._form.priority(head)
        if found is None:
            [(sql, values)] = self._statements.select_messages(str(container), [sequence])
            for _, data in self._session.select(sql, tuple(values)):
                found = self._form.priority(bytes(data))
        return found or 0

    # ---- everything else -------------------------------------------------------------------------------------------

    def durables(self) -> list[DurableRecord]:
        return [it.terms for it in self._catalog.places.values() if it.terms is not None]

    def _records(self, wanted: RecordKind) -> Iterator[bytes]:
        for _, kind, data in self._session.select(self._statements.records):
            if kind == wanted:
                yield bytes(data)

    def jobs(self) -> list[ScheduledJob]:
        return [unpack_job(memoryview(data), self._form, None) for data in self._records(RecordKind.JOB)]

    def state_records(self) -> list[StateRecord]:
        return [unpack_state_record(memoryview(data)) for data in self._records(RecordKind.STATE)]

    def prepared(self) -> list[PreparedTransaction]:
        """Those of ours, unless ActiveMQ has decided them, and those that ActiveMQ has prepared."""
        found = read_shared_rows(self._session.select, self._statements, self._form)
        made = []
        for data in self._records(RecordKind.PREPARED):
            record = unpack_prepared(data)
            transaction_id = self._form.transaction_from_bytes(record.transaction)
            xid = self._form.xid(transaction_id)
            rows = None if xid is None else found.pop(xid, None)
            if not record.shared_sends or (rows is not None and rows.sends):
                made.append(self._prepared(transaction_id, record, rows or SharedRows()))
        for xid, rows in found.items():
            acks = tuple(self._present(rows.acks))
            made.append(PreparedTransaction(self._form.transaction(xid), tuple(rows.sends), acks))
        return made

    def _prepared(self, transaction_id: Hashable, record: PreparedRecord, rows: "SharedRows") -> PreparedTransaction:
        sends = [self._form.message(frame) for frame in record.frames] or rows.sends
        return PreparedTransaction(transaction_id, tuple(sends), tuple(self._present(record.acks)), record.user)

    def _present(self, acks: Iterable[tuple[Place, int]]) -> Iterator[tuple[Place, Message]]:
        for place, sequence in acks:
            [message] = self._reads.load(place, [sequence])
            if message is not None:
                yield place, message


@final
class SharedRows:
    """What a prepared transaction has in ActiveMQ's table."""

    __slots__ = ("acks", "sends")

    def __init__(self) -> None:
        self.sends: list[Message] = []
        self.acks: list[tuple[Place, int]] = []


def read_shared_rows(
    select: Callable[[str], list[Row]], statements: Statements, form: RowForm
) -> dict[bytes, SharedRows]:
    """What prepared transactions have in ActiveMQ's table, by XID."""
    found: dict[bytes, SharedRows] = {}
    for sequence, text, container, data in select(statements.pending):
        sign, xid = read_xid(text)
        rows = found.setdefault(xid, SharedRows())
        place = destination_of(container)
        if sign == SENT:
            rows.sends.append(form.unpack(bytes(data), None))
        elif sign == ACKNOWLEDGED and place is not None:
            rows.acks.append((place, sequence))
    return found


def _waiting_row(row: tuple[int, PendingRow]) -> WaitingMessage:
    sequence, it = row
    return WaitingMessage(sequence, it.expiration, it.priority, frame_size(it.frame))


def _those_in(rows: Iterator[WaitingMessage], pending: SequenceSet) -> Iterator[WaitingMessage]:
    return (row for row in rows if row.sequence in pending)
