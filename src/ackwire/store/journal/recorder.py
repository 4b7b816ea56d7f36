"""The verbs of `Recorder` on a journal: each changes the catalog at once and puts a record into the buffer."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.catalog import PlaceInfo
from ackwire.store.checkpoint import durable_key, job_key, prepared_key, state_record_key
from ackwire.store.contract import DurableRecord, Place, PreparedTransaction, ScheduledJob, StateRecord
from ackwire.store.index import IndexTrouble
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.gradual_release import GradualRelease
from ackwire.store.journal.group_commit import GroupCommit
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.pending_records import PendingMessage, PendingPayload
from ackwire.store.journal.record import (
    RecordKind,
    pack_durable,
    pack_place_gone,
    pack_purged,
    pack_text,
)
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.state import PreparedRecord, pack_job, pack_prepared, pack_state_record
from ackwire.store.journal.state_recording import StateRecording


class JournalRecorder:
    """Records changes to the journal. `JournalStore` inherits it, which saves a call for each message."""

    def __init__(
        self,
        journal: OpenJournal,
        buffer: RecordBuffer,
        states: StateRecording,
        commit: GroupCommit,
        state: FailureState,
        release: GradualRelease,
    ) -> None:
        self._catalog = journal.catalog
        self._writer = journal.writer
        self._form = journal.form
        self.buffer = buffer
        self.states = states
        self._commit = commit
        self._state = state
        self._release = release
        self._commits_of_group: list[bytes] = []

    # ---- messages ----------------------------------------------------------------------------------------------

    def append(self, message: Message, places: Sequence[Place]) -> None:
        """See `Recorder`."""
        if self._state.failure is not None:
            raise self._state.failure
        catalog, commit = self._catalog, self._commit
        infos = [catalog.places.get(place) or self.states.place(place) for place in places]
        sequence = message.sequence
        for info in infos:
            info.active.fresh[sequence] = None
        if sequence > catalog.last_sequence:
            catalog.last_sequence = self._writer.last_sequence = sequence
        if sequence > commit.appended_sequence:
            commit.appended_sequence = sequence
        self.buffer.add_message(PendingMessage(catalog, message, infos), sequence, len(message.frame))

    def remove(self, place: Place, message: Message) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self._catalog.places.get(place)
        if info is not None:
            self._remove(info, message.sequence)

    def _remove(self, info: PlaceInfo, sequence: int) -> None:
        buffer = self.buffer
        if sequence in buffer.messages:
            if buffer.must_write_before_removal(info, sequence):
                self._commit.write_before_removal()
            pending = buffer.message_in(info, sequence)
            if pending is not None:
                buffer.drop(pending, sequence, info)
                if isinstance(pending, PendingMessage):
                    info.active.fresh.pop(sequence, None)
                    return
        try:
            entry = self._catalog.take(info, sequence)
        except IndexTrouble as error:
            raise self._state.fail("trust the index of", error) from None
        if entry is not None:
            buffer.removals().add(info.place_id, sequence, entry.segment)

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        written = list(sequences)
        pending = self.buffer.messages
        if pending:
            still_here = [it for it in written if it in pending]
            written = [it for it in written if it not in pending]
            for sequence in still_here:
                self._remove(info, sequence)
        try:
            taken = self._catalog.take_many(info, written)
        except IndexTrouble as error:
            raise self._state.fail("trust the index of", error) from None
        if taken:
            self.buffer.removals().add_many(info.place_id, taken)

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        if self.buffer.must_write_before_removal(info):
            self._commit.write_before_removal()
        self.buffer.drop_place(info, last_sequence, kept)
        self._release.add_table(self._catalog.purge(info, last_sequence, frozenset(kept)))
        self.buffer.add(PendingPayload(RecordKind.PURGED, pack_purged(info.place_id, last_sequence, kept)))

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self.states.place(place)
        if sequence > info.dispatched_up_to:
            info.dispatched_up_to = sequence
            self.skip_to(sequence)
            self.states.record_place(info)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self._catalog.places.get(place)
        if info is not None and sequence < info.dispatched_up_to:
            info.dispatched_up_to = sequence
            self.states.record_place(info)

    def skip_to(self, sequence: int) -> None:
        """Have no message get a sequence up to this one: it may be used already."""
        if sequence > self._catalog.last_sequence:
            self._catalog.last_sequence = sequence
        self._writer.last_sequence = self._catalog.last_sequence

    # ---- places ------------------------------------------------------------------------------------------------

    def remove_place(self, place: Place) -> None:
        """See `Recorder`."""
        self._state.require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        if self.buffer.must_write_before_removal(info):
            self._commit.write_before_removal()
        self.buffer.drop_place(info)
        self._catalog.end_place(info.place_id)
        self._release.add(info.active)
        self._catalog.end_state(durable_key(info.place_id))
        self.buffer.add(PendingPayload(RecordKind.PLACE_GONE, pack_place_gone(info.place_id)))

    def add_destination(self, destination: Destination) -> None:
        """See `Recorder`."""
        self._state.require_good()
        self.states.place(destination)

    def add_durable(self, record: DurableRecord) -> None:
        """See `Recorder`."""
        with self.atomically():  # the place of a subscription is nothing without its terms
            info = self.states.place(record.key)
            key = durable_key(info.place_id)
            known = self._catalog.state.get(key)
            if known is None or known.value != record:
                self.states.set(key, record, RecordKind.DURABLE, pack_durable(info.place_id, record))

    # ---- jobs, transactions, state records ---------------------------------------------------------------------

    def add_job(self, job: ScheduledJob) -> None:
        """See `Recorder`."""
        self._state.require_good()
        key = job_key(job.job_id)
        is_known = key in self._catalog.state
        kind = RecordKind.JOB_DUE if is_known else RecordKind.JOB
        with self.atomically():
            self.states.set(key, job, kind, pack_job(job, with_message=not is_known), is_update=is_known)
            if not is_known:
                self.buffer.count_message(job.message)
        self.skip_to(job.message.sequence)

    def remove_job(self, job_id: str) -> None:
        """See `Recorder`."""
        self._state.require_good()
        self.states.end(job_key(job_id), RecordKind.JOB_GONE, pack_text(job_id))

    def remember_count(self, producer_key: bytes, count: int) -> None:
        """See `Recorder`."""
        self._state.require_good()
        self.buffer.count(producer_key, count)

    def put_state_record(self, record: StateRecord) -> None:
        """See `Recorder`."""
        self._state.require_good()
        payload = pack_state_record(record)
        self.states.set(state_record_key(record.key), record, RecordKind.STATE_RECORD, payload)

    def drop_state_record(self, key: str) -> None:
        """See `Recorder`."""
        self._state.require_good()
        self.states.end(state_record_key(key), RecordKind.STATE_RECORD_GONE, pack_text(key))

    def prepare(self, transaction: PreparedTransaction) -> None:
        """See `Recorder`."""
        self._state.require_good()
        prepared = PreparedRecord(
            self._form.transaction_to_bytes(transaction.transaction_id),
            tuple(message.frame for message in transaction.sends),
            tuple((self.states.place(place).place_id, message.sequence) for place, message in transaction.acks),
            transaction.user,
        )
        key = prepared_key(prepared.transaction)
        self.states.set(key, prepared, RecordKind.PREPARED, pack_prepared(prepared))

    def decide(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        self._state.require_good()
        transaction = self._form.transaction_to_bytes(transaction_id)
        self.states.end(prepared_key(transaction), RecordKind.DECIDED, transaction)

    def committed(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        self._state.require_good()
        transaction = self._form.transaction_to_bytes(transaction_id)
        if self.buffer.depth:
            self._commits_of_group.append(transaction)  # worth a record only if the group has others
        else:
            self.states.record_commit(transaction)

    @contextmanager
    def atomically(self) -> Iterator[None]:
        """See `Recorder`."""
        self._state.require_good()
        self.buffer.begin_group()
        try:
            yield
        finally:
            if self.buffer.leave_group():
                self._end_group()

    def _end_group(self) -> None:
        commits, self._commits_of_group = self._commits_of_group, []
        if self.buffer.group_has_records:
            for transaction in commits:
                self.states.record_commit(transaction)
        self.buffer.end_group()
