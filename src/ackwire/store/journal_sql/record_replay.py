"""Applies the records of a journal to the changes that a database is to get: at a start, from the mark on."""

from typing import final

from ackwire.jms.message import Message
from ackwire.store.contract import Place, PreparedTransaction, StoredForm
from ackwire.store.journal.record import (
    Damaged,
    Reader,
    Record,
    RecordKind,
    unpack_counts,
    unpack_durable,
    unpack_message,
    unpack_place,
    unpack_place_gone,
    unpack_purged,
    unpack_removed,
)
from ackwire.store.journal.state import (
    job_id_of,
    read_message,
    state_record_key_of,
    unpack_job,
    unpack_prepared,
    unpack_state_record,
)
from ackwire.store.journal_sql.journaled_message import JournalFrame
from ackwire.store.sql.catalog import Catalog, PlaceInfo
from ackwire.store.sql.commit import Commit
from ackwire.store.sql.memory import Memory
from ackwire.store.sql.reads import Reads
from ackwire.store.sql.recorder import SqlRecorder
from ackwire.store.sql.row_form import RowForm


@final
class RecordReplay(SqlRecorder):
    """Implements `Application` with the verbs of the database's recorder, which record nothing in the journal here."""

    def __init__(
        self, catalog: Catalog, memory: Memory, commit: Commit, form: RowForm, reads: Reads, lowest_id: int
    ) -> None:
        self._catalog = catalog
        self._memory = memory
        self._commit = commit
        self._form = form
        self._reads = reads
        self._written_sequence = catalog.last_sequence
        self._lowest_id = lowest_id
        self._places = {info.place_id: info for info in catalog.places.values()}

    @property
    def lowest_id(self) -> int:
        return self._lowest_id

    def _place(self, place_id: int) -> Place:
        info = self._places.get(place_id)
        if info is None:
            raise Damaged(f"place {place_id} is not known")
        return info.place

    def apply(self, record: Record) -> None:
        """See `Application`."""
        payload = record.payload
        match record.kind:
            case RecordKind.MESSAGE:
                self._apply_message(record)
            case RecordKind.REMOVED:
                for place_id, sequence, _ in unpack_removed(payload):
                    if place_id in self._places:
                        self.remove_many(self._place(place_id), (sequence,))
            case RecordKind.OPENED:
                reader = Reader(payload)
                reader.u64()
                self._catalog.use_sequence(reader.u64())
            case RecordKind.PURGED:
                place_id, last_sequence, kept = unpack_purged(payload)
                self.purge(self._place(place_id), last_sequence, kept)
            case RecordKind.PLACE:
                self._apply_place(*unpack_place(payload))
            case RecordKind.PLACE_GONE:
                place_id = unpack_place_gone(payload)
                self.remove_place(self._place(place_id))
                del self._places[place_id]
            case RecordKind.DURABLE:
                self.add_durable(unpack_durable(payload)[1])
            case _:
                self._apply_state(record, self._form)

    def _apply_message(self, record: Record) -> None:
        stored = unpack_message(record.payload)
        places = [self._place(it) for it in stored.place_ids]
        message = self._read(bytes(stored.frame))
        message.redelivery_counter = stored.redeliveries
        frame = JournalFrame(None, len(stored.frame), stored.sequence)
        frame.is_at(record.segment, record.offset, record.size_bytes)
        self._append(message, places, frame)

    def _read(self, frame: bytes) -> Message:
        return read_message(self._form, frame)

    def _apply_place(self, place_id: int, place: Place, dispatched: int) -> None:
        info = self._places.get(place_id)
        if info is None:
            info = self._places[place_id] = self._catalog.add(PlaceInfo(place_id, place))
        elif info.place != place:
            raise Damaged(f"place {place_id} is {place!r}, and was {info.place!r}")
        info.dispatched = dispatched
        self._catalog.use_sequence(dispatched)
        self._record_place(self._commit.record(), info)

    def _apply_state(self, record: Record, form: StoredForm) -> None:
        payload = record.payload
        match record.kind:
            case RecordKind.COUNTS:
                for producer, count in unpack_counts(payload):
                    self.remember_count(producer, count)
            case RecordKind.JOB:
                self.add_job(unpack_job(payload, form, None))
            case RecordKind.JOB_GONE:
                self.remove_job(job_id_of(payload))
            case RecordKind.STATE_RECORD:
                self.put_state_record(unpack_state_record(payload))
            case RecordKind.STATE_RECORD_GONE:
                self.drop_state_record(state_record_key_of(payload))
            case RecordKind.PREPARED:
                self._apply_prepared(payload)
            case RecordKind.DECIDED:
                self.decide(form.transaction_from_bytes(bytes(payload)))
            case RecordKind.COMMITTED:
                self.committed(form.transaction_from_bytes(bytes(payload)))
            case _:
                raise Damaged(f"records of type {record.kind} are not known")

    def _apply_prepared(self, payload: memoryview) -> None:
        prepared = unpack_prepared(payload)
        acks = []
        for place_id, sequence in prepared.acks:
            place = self._place(place_id)
            [message] = self._reads.load(place, [sequence])
            if message is not None:
                acks.append((place, message))
        transaction_id = self._form.transaction_from_bytes(prepared.transaction)
        sends = tuple(map(self._read, prepared.frames))
        self.prepare(PreparedTransaction(transaction_id, sends, tuple(acks), prepared.user))
