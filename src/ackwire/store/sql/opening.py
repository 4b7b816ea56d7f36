"""Opens a database: schema, places, subscriptions, and the beginning of a run.

What ActiveMQ has done since the last run of ours is taken over: queues and subscriptions that are new, messages behind
`LAST_ACKED_ID`, subscriptions that have ended.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final, final

from ackwire.errors import AckwireError, InvalidSelector
from ackwire.jms.destinations import Destination, Kind, parse_destination
from ackwire.selector import Selector, compile_selector
from ackwire.store.contract import DurableKey, DurableRecord, Place
from ackwire.store.journal.record import Reader, pack_durable, pack_place_name, unpack_durable
from ackwire.store.journal.state import job_id_of, state_record_key_of
from ackwire.store.sql.catalog import Catalog, PlaceInfo
from ackwire.store.sql.changes import Changes
from ackwire.store.sql.driver import Row, Session, Statement, inserted
from ackwire.store.sql.journal_mark import JournalMark, unpack_mark
from ackwire.store.sql.memory import Memory, RecordKind
from ackwire.store.sql.prepared import unpack_prepared
from ackwire.store.sql.progress import Progress
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.statements import Statements

PORTION: Final = 10_000
"""Rows that are read at once: about 1 MB of memory."""

_SELECTED_AT_ONCE: Final = 500
"""Messages that are read at once to ask a selector: their bodies may be large."""

_log = logging.getLogger(__name__)


@final
class Opening:
    """Reads a database into a catalog. `changes` has what the first transaction is to put right."""

    def __init__(self, session: Session, statements: Statements, form: RowForm, description: str) -> None:
        self._session = session
        self._description = description
        self._statements = statements
        self._form = form
        self.catalog = Catalog()
        self.memory = Memory(form)
        self.changes = Changes()
        self.crashed_ms: int | None = None
        self.lowest_id = 0
        self.mark: JournalMark | None = None
        """How far the database is, if there is or was a journal in front of it."""
        self.run_id = ""
        """The last run."""
        self.recorded_sequence = 0
        """The last sequence that a run of ours has recorded: higher ones are ActiveMQ's."""

    def read(self) -> None:
        """Read everything but messages."""
        self._read_records()
        self._read_places()
        if self.mark is None or self.mark.is_drained:  # else the journal has numbers for places that are new here
            self._read_containers()
        self._read_subscriptions()
        self._clear_topics()
        self._read_sequence()

    def begin_run(self, run_id: str, now_ms: int, mark: JournalMark | None = None) -> None:
        """Mark the database as used by this run: the last one may not write any more. With a journal in front of it
        that journal's *mark* is written, too."""
        _, _, _, is_open, crashed_ms = self._session.select(self._statements.state)[0]
        self.crashed_ms = now_ms if is_open else crashed_ms
        values: Row = (run_id, self.catalog.last_sequence, self.crashed_ms)
        statements = [Statement(self._statements.begin_run, [values])]
        if mark is not None:
            statements.append(inserted(self._statements.put_record, [mark.row()]))
        self._session.transact(statements)

    # ---- places ----------------------------------------------------------------------------------------------------

    def _read_places(self) -> None:
        for place_id, name, dispatched, terms in self._session.select(self._statements.places):
            place = Reader(memoryview(bytes(name))).place_name()
            record = None if terms is None else unpack_durable(memoryview(bytes(terms)))[1]
            self.catalog.add(PlaceInfo(place_id, place, dispatched, record))
        by_id = {info.place_id: info for info in self.catalog.places.values()}
        for (place_id,) in self._session.select(self._statements.extra_places):
            if place_id in by_id:
                by_id[place_id].has_extra = True

    def _read_containers(self) -> None:
        """Queues that ActiveMQ has made."""
        for (container,) in self._session.select(self._statements.containers):
            place = destination_of(container)
            if place is not None and place.kind is Kind.QUEUE and place not in self.catalog.places:
                self._add_place(place, None)

    def _add_place(self, place: Place, terms: DurableRecord | None) -> PlaceInfo:
        info = self.catalog.make(place)
        info.terms = terms
        packed = None if terms is None else pack_durable(info.place_id, terms)
        self.changes.places[info.place_id] = (pack_place_name(place), 0, packed)
        return info

    # ---- subscriptions ---------------------------------------------------------------------------------------------

    def _read_subscriptions(self) -> None:
        by_priority: dict[tuple[str, DurableKey], dict[int, int]] = {}
        for container, client_id, name, sub_dest, selector, last_acked, priority, xid in self._session.select(
            self._statements.acks
        ):
            key = DurableKey(client_id, name)
            self._know_subscription(key, container, sub_dest, selector)
            by_priority.setdefault((container, key), {})[priority] = last_acked or 0
            if xid:
                _log.warning("%r: the acks of a prepared transaction on %s are not taken over", key, container)
        self._forget_ended({key for _, key in by_priority})
        ranges = self._read_ranges()
        for (container, key), acked in by_priority.items():
            info = self.catalog.places.get(key)
            if info is not None:
                self._read_progress(info, container, acked, ranges.pop((info.place_id, container), []))
        for (place_id, container), left in ranges.items():
            self.changes.done.update(((place_id, container, first), None) for first, _ in left)

    def _know_subscription(self, key: DurableKey, container: str, sub_dest: str | None, selector: str | None) -> None:
        """Add a subscription that ActiveMQ has made, or take over its new terms."""
        where = destination_of(sub_dest or container)
        info = self.catalog.places.get(key)
        if where is None:
            return
        if info is None:
            self._add_place(key, DurableRecord(key, where, selector, no_local=False))
        elif info.terms is None or (info.terms.destination, info.terms.selector or None) != (where, selector or None):
            info.terms = DurableRecord(key, where, selector, no_local=False)
            self.changes.places[info.place_id] = (
                pack_place_name(key),
                info.dispatched,
                pack_durable(info.place_id, info.terms),
            )

    def _forget_ended(self, known: set[DurableKey]) -> None:
        """Forget subscriptions that had rows in ActiveMQ's table, and have none any more."""
        for info in list(self.catalog.places.values()):
            terms = info.terms
            if terms is None or not info.is_shared or terms.destination.is_wildcard or terms.key in known:
                continue
            self.catalog.forget(info)
            self.changes.places[info.place_id] = None
            self.changes.done_gone.append(info.place_id)

    def _read_ranges(self) -> dict[tuple[int, str], list[tuple[int, int]]]:
        """What is done above `LAST_ACKED_ID`, by place and topic, in order."""
        ranges: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for place_id, container, first, last in self._session.select(self._statements.done):
            ranges.setdefault((place_id, container), []).append((first, last))
        return ranges

    def _read_progress(
        self, info: PlaceInfo, container: str, acked: dict[int, int], ranges: list[tuple[int, int]]
    ) -> None:
        """*acked* has the last acked message by priority: several, if ActiveMQ had prioritised the topic."""
        lowest = min(acked.values())
        progress = self.catalog.subscribe(info, container, Progress(lowest, is_stored=0 in acked))
        skipped = []
        left = ranges[::-1]
        for sequence, priority in self._topic_rows(container, lowest):
            while left and left[-1][1] < sequence:
                left.pop()
            if left and left[-1][0] <= sequence:
                continue
            if sequence > acked.get(priority or 0, lowest):
                progress.restore(sequence)
            else:
                skipped.append(sequence)
        for first, last in ranges:
            progress.restore_range(first, last)
        for sequence in skipped:
            progress.skip(sequence)
        if info.terms is not None and info.terms.selector:
            self._select(container, progress, info.terms.selector, is_new=info.place_id in self.changes.places)
        if len(acked) > 1 and isinstance(info.place, DurableKey):
            self.changes.single_priorities.append((container, info.place.client_id, info.place.name))
            progress.is_changed = True
        if progress.is_changed or progress.changed_ranges:
            self.catalog.touched[info.place_id] = info

    def _select(self, container: str, progress: Progress, selector: str, *, is_new: bool) -> None:
        """Leave out messages of ActiveMQ that the selector does not match: it asks it only when it delivers, we ask it
        when a message comes. All messages of a subscription that *is_new* to us are ActiveMQ's; of another, those whose
        bytes have another sequence than their row."""
        try:
            wanted = compile_selector(selector)
        except InvalidSelector as error:
            _log.error("%s: a subscription gets all messages, because its selector is none: %s", container, error)
            return
        pending = list(progress.pending)
        for start in range(0, len(pending), _SELECTED_AT_ONCE):
            part = pending[start : start + _SELECTED_AT_ONCE]
            for sql, values in self._statements.select_messages(container, part):
                for sequence, data in self._session.select(sql, tuple(values)):
                    if not self._is_wanted(wanted, bytes(data), None if is_new else sequence):
                        progress.finish(sequence)

    def _is_wanted(self, selector: Selector, data: bytes, sequence: int | None) -> bool:
        """Whether the selector matches, or the message has that *sequence*, so that it was asked before."""
        try:
            message = self._form.unpack(data, None)
        except AckwireError:
            return True  # reported when it is delivered
        return message.sequence == sequence or selector.matches(self._form.lookup(message))

    def _clear_topics(self) -> None:
        """Delete messages that no subscription needs: ActiveMQ does so once in a while."""
        for container in self.catalog.topics:
            floor = self.catalog.floor(container)
            if floor:
                self.changes.clear(container, floor)

    def _topic_rows(self, container: str, first: int) -> Iterator[Row]:
        """ID and priority of the messages of a topic behind *first*."""
        while True:
            rows = self._session.select(self._statements.topic_ids, (container, first, PORTION))
            yield from rows
            if len(rows) < PORTION:
                return
            first = rows[-1][0]

    # ---- the rest --------------------------------------------------------------------------------------------------

    def _read_records(self) -> None:
        keys: dict[int, Any] = {
            RecordKind.JOB: lambda data: job_id_of(memoryview(data)),
            RecordKind.PREPARED: lambda data: unpack_prepared(data).transaction,
            RecordKind.STATE: lambda data: state_record_key_of(memoryview(data)),
        }
        for record_id, kind, data in self._session.select(self._statements.records):
            if kind == RecordKind.JOURNAL:
                self.mark = unpack_mark(bytes(data), self._description)
                continue
            self.memory.restore_record(RecordKind(kind), keys[kind](bytes(data)), record_id)
        for slot, producer_key, count, heard in self._session.select(self._statements.counts):
            self.memory.restore_count(slot, bytes(producer_key), count, heard)
        for heard, transaction in self._session.select(self._statements.commits):
            self.memory.restore_commit(heard, self._form.transaction_from_bytes(bytes(transaction)))

    def _read_sequence(self) -> None:
        self.run_id, _, last, _, _ = self._session.select(self._statements.state)[0]
        self.recorded_sequence = last
        found = [last, *self._session.select(self._statements.last_ids)[0]]
        found += self._session.select(self._statements.last_extra)[0]
        self.catalog.last_sequence = max(it or 0 for it in found)
        self.lowest_id = min(self._session.select(self._statements.first_id)[0][0] or 0, 0)


def destination_of(container: str) -> Destination | None:
    """The destination of a container; None for a name that cannot be one."""
    try:
        return parse_destination(container)
    except AckwireError as error:
        _log.error("container %r is left alone: %s", container, error)
        return None
