"""Records what happens in the journal, in its own record format; places have the numbers that the database has."""

from collections.abc import Collection, Iterable, Sequence
from typing import final

from ackwire.jms.message import Message
from ackwire.store.catalog import PlaceInfo
from ackwire.store.contract import PreparedTransaction, ScheduledJob, StateRecord
from ackwire.store.journal.pending_records import PendingPayload
from ackwire.store.journal.record import (
    RecordKind,
    pack_durable,
    pack_place,
    pack_place_gone,
    pack_purged,
    pack_text,
)
from ackwire.store.journal.state import PreparedRecord, pack_job, pack_prepared, pack_state_record
from ackwire.store.journal_sql.journaled_message import JournaledMessage, JournalFrame
from ackwire.store.journal_sql.log import Log
from ackwire.store.sql.catalog import PlaceInfo as SqlPlaceInfo


@final
class LogRecorder:
    """Puts records into the journal's buffer."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._buffer = log.buffer
        self._catalog = log.journal.catalog
        self._replacing: set[int] = set()
        """Messages in the buffer that may be elsewhere already: a removal of one must be recorded all the same."""
        self._commits_of_group: list[bytes] = []

    def wrote(self) -> None:
        """The buffer was written."""
        self._replacing.clear()

    def _place(self, info: SqlPlaceInfo) -> PlaceInfo:
        return self._catalog.place_by_id.get(info.place_id) or self._catalog.add_place(info.place_id, info.place, 0)

    # ---- messages --------------------------------------------------------------------------------------------------

    def append(self, message: Message, infos: Sequence[SqlPlaceInfo], frame: JournalFrame) -> None:
        commit, sequence = self._log.commit, message.sequence
        if sequence > commit.appended_sequence:
            commit.appended_sequence = sequence
            self._log.skip_to(sequence)
        else:
            self._replacing.add(sequence)
        places = [self._place(it) for it in infos]
        record = JournaledMessage(self._catalog, message, places, frame)
        self._buffer.add_message(record, sequence, len(message.frame))

    def remove_many(self, info: SqlPlaceInfo, sequences: Iterable[int]) -> None:
        place, pending = self._place(info), self._buffer.messages
        written = []
        for sequence in sequences:
            if sequence not in pending or not self._drop(place, sequence):
                written.append(sequence)
        if written:
            removals = self._buffer.removals()
            for sequence in written:
                removals.add(place.place_id, sequence, 0)

    def _drop(self, place: PlaceInfo, sequence: int) -> bool:
        """Whether the record of a message need not be written, nor its removal."""
        buffer = self._buffer
        if buffer.must_write_before_removal(place, sequence):
            self._log.commit.write_before_removal()
        record = buffer.message_in(place, sequence)
        if record is None:
            return False
        buffer.drop(record, sequence, place)
        return sequence not in self._replacing

    def purge(self, info: SqlPlaceInfo, last_sequence: int, kept: Collection[int]) -> None:
        place = self._place(info)
        if self._buffer.must_write_before_removal(place):
            self._log.commit.write_before_removal()
        self._buffer.drop_place(place, last_sequence, kept)
        self._add(RecordKind.PURGED, pack_purged(place.place_id, last_sequence, kept))

    # ---- everything else -------------------------------------------------------------------------------------------

    def _add(self, kind: RecordKind, payload: bytes) -> None:
        self._buffer.add(PendingPayload(kind, payload))

    def place(self, info: SqlPlaceInfo, last_sequence: int) -> None:
        """Record a place, or what is new about it."""
        self._log.skip_to(last_sequence)
        self.begin_group()  # the place of a subscription is nothing without its terms
        self._add(RecordKind.PLACE, pack_place(info.place_id, info.place, info.dispatched))
        if info.terms is not None:
            self._add(RecordKind.DURABLE, pack_durable(info.place_id, info.terms))
        self.leave_group()

    def remove_place(self, info: SqlPlaceInfo) -> None:
        place = self._place(info)
        if self._buffer.must_write_before_removal(place):
            self._log.commit.write_before_removal()
        self._buffer.drop_place(place)
        self._catalog.end_place(info.place_id)
        self._add(RecordKind.PLACE_GONE, pack_place_gone(info.place_id))

    def job(self, job: ScheduledJob) -> None:
        """Record a job with its message, also where only its time is new: the database may not have it yet."""
        self._log.skip_to(job.message.sequence)
        self._add(RecordKind.JOB, pack_job(job, with_message=True))

    def job_gone(self, job_id: str) -> None:
        self._add(RecordKind.JOB_GONE, pack_text(job_id))

    def count(self, producer_key: bytes, count: int) -> None:
        self._buffer.count(producer_key, count)

    def state_record(self, record: StateRecord) -> None:
        self._add(RecordKind.STATE_RECORD, pack_state_record(record))

    def state_record_gone(self, key: str) -> None:
        self._add(RecordKind.STATE_RECORD_GONE, pack_text(key))

    def prepare(
        self, transaction: bytes, prepared: PreparedTransaction, acks: Iterable[tuple[SqlPlaceInfo, int]]
    ) -> None:
        frames = tuple(it.frame for it in prepared.sends)
        acked = tuple((info.place_id, sequence) for info, sequence in acks)
        self._add(RecordKind.PREPARED, pack_prepared(PreparedRecord(transaction, frames, acked, prepared.user)))

    def decide(self, transaction: bytes) -> None:
        self._add(RecordKind.DECIDED, transaction)

    def committed(self, transaction: bytes) -> None:
        if self._buffer.depth:
            self._commits_of_group.append(transaction)  # worth a record only if the group has others
        else:
            self._add(RecordKind.COMMITTED, transaction)

    # ---- groups ----------------------------------------------------------------------------------------------------

    def begin_group(self) -> None:
        self._buffer.begin_group()

    def leave_group(self) -> None:
        if not self._buffer.leave_group():
            return
        commits, self._commits_of_group = self._commits_of_group, []
        if self._buffer.group_has_records:
            for transaction in commits:
                self._add(RecordKind.COMMITTED, transaction)
        self._buffer.end_group()
