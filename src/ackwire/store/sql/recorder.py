"""The verbs of `Recorder` on a database: each changes the catalog at once, and adds to the next transaction."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.message import Message
from ackwire.store.contract import DurableKey, DurableRecord, Place, PreparedTransaction, ScheduledJob, StateRecord
from ackwire.store.journal.record import pack_durable, pack_place_name
from ackwire.store.journal.state import pack_job, pack_state_record
from ackwire.store.sql.catalog import Catalog, PlaceInfo, container_of, fits
from ackwire.store.sql.changes import ALL, AckRow, Changes, ExtraKey, pending_row
from ackwire.store.sql.commit import Commit
from ackwire.store.sql.frames import Frame
from ackwire.store.sql.memory import Memory, RecordKind
from ackwire.store.sql.prepared import PreparedRecord, pack_prepared
from ackwire.store.sql.progress import Progress
from ackwire.store.sql.reads import Reads
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.xids import ACKNOWLEDGED, SENT, signed_xid


class SqlRecorder:
    """Records changes to the database. `SqlStore` inherits it."""

    _catalog: Catalog
    _memory: Memory
    _commit: Commit
    _form: RowForm
    _reads: Reads
    """Those under way hear of what comes and goes meanwhile."""
    _written_sequence = 0
    """No message behind this one is in the database."""
    _lowest_id = 0
    """The smallest ID in use: prepared sends have negative ones."""

    # ---- messages --------------------------------------------------------------------------------------------------

    def append(self, message: Message, places: Sequence[Place]) -> None:
        """See `Recorder`."""
        self._append(message, places, message.frame)

    def _append(self, message: Message, places: Sequence[Place], frame: Frame) -> None:
        changes, sequence = self._commit.record(), message.sequence
        is_known = sequence <= self._catalog.last_sequence
        self._catalog.use_sequence(sequence)
        if sequence > self._commit.appended_sequence:
            self._commit.appended_sequence = sequence
        takers: set[int] = set()
        topic = container_of(message.destination) if message.destination.kind is Kind.TOPIC else None
        if is_known and topic is not None and self._catalog.is_needed_by_others(topic, sequence, places):
            topic = None  # the row of the topic stays as it is
        producer = self._form.producer(message)
        is_plain = fits(producer)
        for place in places:
            info = self._catalog.places.get(place) or self._new_place(place)
            self._reads.on_append(info, message)
            if is_plain and info.container is not None and place == message.destination:
                self._put_row(changes, info.container, producer, message, frame)
            elif is_plain and topic is not None and info.is_shared:
                takers.add(info.place_id)
                self._progress(info, topic).take(sequence)
                if is_known and info.has_extra:
                    changes.delete_extra(ExtraKey(info.place_id, sequence))
            else:
                self._finish(info, sequence)
                self._put_extra(changes, info, producer, message, frame)
        if takers and topic is not None:
            self._put_row(changes, topic, producer, message, frame)
            self._catalog.skip(topic, takers, sequence)
        self._memory.remember_count(changes, message.origin.producer_key, message.producer_count)
        self._commit.begin_if_large()

    def _finish(self, info: PlaceInfo, sequence: int) -> None:
        """A subscription does not need the row of the topic any more."""
        for progress in info.progress.values():
            if progress.finish(sequence):
                self._catalog.touched[info.place_id] = info

    def append_beside(self, message: Message, places: Sequence[Place]) -> None:
        """Like `append`, for another form of a message that has a row already: `ACTIVEMQ_MSGS` takes one for each
        sequence, so this one goes to our own table."""
        changes, producer = self._commit.record(), self._form.producer(message)
        for place in places:
            info = self._catalog.places.get(place) or self._new_place(place)
            self._reads.on_append(info, message)
            self._put_extra(changes, info, producer, message, message.frame)
        self._memory.remember_count(changes, message.origin.producer_key, message.producer_count)
        self._commit.begin_if_large()

    def skip_to(self, sequence: int) -> None:
        """Have no message get a sequence up to this one: it may be used already."""
        self._commit.record()
        self._catalog.use_sequence(sequence)

    def _put_extra(self, changes: Changes, info: PlaceInfo, producer: str, message: Message, frame: Frame) -> None:
        info.has_extra = True
        row = pending_row(message, "", producer, is_new=False, frame=frame)
        changes.put_extra(ExtraKey(info.place_id, message.sequence), row)

    def _put_row(self, changes: Changes, container: str, producer: str, message: Message, frame: Frame) -> None:
        is_new = message.sequence > self._written_sequence
        changes.put_row(message.sequence, pending_row(message, container, producer, is_new=is_new, frame=frame))

    def _progress(self, info: PlaceInfo, container: str) -> Progress:
        self._catalog.touched[info.place_id] = info
        progress = info.progress.get(container)
        if progress is None:
            new = Progress(self._catalog.last_sequence, is_stored=False)
            progress = self._catalog.subscribe(info, container, new)
        return progress

    def remove(self, place: Place, message: Message) -> None:
        """See `Recorder`."""
        self.remove_many(place, (message.sequence,))

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        info = self._catalog.places.get(place)
        if info is not None:
            changes = self._commit.record()
            for sequence in sequences:
                self._remove(changes, info, sequence)
            self._commit.begin_if_large()

    def _remove(self, changes: Changes, info: PlaceInfo, sequence: int) -> None:
        self._reads.on_remove(info, sequence)
        if info.container is not None:
            changes.delete_row(sequence, info.container)
        for container, progress in info.progress.items():
            if progress.finish(sequence):
                self._catalog.touched[info.place_id] = info
                self._release(changes, container, sequence)
        if info.has_extra:
            changes.delete_extra(ExtraKey(info.place_id, sequence))

    def _release(self, changes: Changes, container: str, sequence: int) -> None:
        """Delete a message of a topic if no subscription needs it any more."""
        catalog = self._catalog
        if catalog.has_few_subscriptions(container):
            if not catalog.is_needed(container, sequence):
                changes.delete_row(sequence, container)
        else:
            self._memory.crowded_topics.add(container)

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        changes = self._commit.record()
        self._clear(changes, info, last_sequence, frozenset(kept))

    def _clear(self, changes: Changes, info: PlaceInfo, last: int, kept: frozenset[int]) -> None:
        self._reads.on_clear(info, last, kept)
        if info.container is not None:
            changes.clear(info.container, last, kept)
        for container, progress in info.progress.items():
            self._catalog.touched[info.place_id] = info
            for sequence in [it for it in progress.pending if it <= last and it not in kept]:
                progress.finish(sequence)
                self._release(changes, container, sequence)
        if info.has_extra:
            changes.clear_extra(info.place_id, last, kept)

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        info = self._catalog.places.get(place) or self._new_place(place)
        if sequence > info.dispatched:
            self._catalog.use_sequence(sequence)
            info.dispatched = sequence
            self._record_place(self._commit.record(), info)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        info = self._catalog.places.get(place)
        if info is not None and sequence < info.dispatched:
            info.dispatched = sequence
            self._record_place(self._commit.record(), info)

    # ---- places ----------------------------------------------------------------------------------------------------

    def _new_place(self, place: Place) -> PlaceInfo:
        info = self._catalog.make(place)
        self._record_place(self._commit.record(), info)
        return info

    def _record_place(self, changes: Changes, info: PlaceInfo) -> None:
        terms = None if info.terms is None else pack_durable(info.place_id, info.terms)
        changes.places[info.place_id] = (pack_place_name(info.place), info.dispatched, terms)

    def remove_place(self, place: Place) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        changes = self._commit.record()
        self._clear(changes, info, ALL, frozenset())
        topics = self._catalog.forget(info)
        changes.places[info.place_id] = None
        if topics and isinstance(place, DurableKey):
            changes.acks_gone.append((place.client_id, place.name))
            changes.done_gone.append(info.place_id)
        for container in topics:
            floor = self._catalog.floor(container)
            changes.clear(container, ALL if floor is None else floor)

    def add_destination(self, destination: Destination) -> None:
        """See `Recorder`."""
        self._commit.require_good()
        if destination not in self._catalog.places:
            self._new_place(destination)

    def add_durable(self, record: DurableRecord) -> None:
        """See `Recorder`."""
        changes = self._commit.record()
        info = self._catalog.places.get(record.key) or self._catalog.make(record.key)
        info.terms = record
        self._record_place(changes, info)
        container = container_of(record.destination)
        if info.is_shared and container is not None and not record.destination.is_wildcard:
            self._progress(info, container)
        for progress in info.progress.values():
            progress.is_changed = True
            self._catalog.touched[info.place_id] = info

    # ---- jobs, transactions, state records -------------------------------------------------------------------------

    def add_job(self, job: ScheduledJob) -> None:
        """See `Recorder`."""
        changes = self._commit.record()
        is_new = self._memory.put(changes, RecordKind.JOB, job.job_id, pack_job(job, with_message=True))
        if is_new:
            message = job.message
            self._memory.remember_count(changes, message.origin.producer_key, message.producer_count)
        self._catalog.use_sequence(job.message.sequence)

    def remove_job(self, job_id: str) -> None:
        """See `Recorder`."""
        self._memory.drop(self._commit.record(), RecordKind.JOB, job_id)

    def remember_count(self, producer_key: bytes, count: int) -> None:
        """See `Recorder`."""
        self._memory.remember_count(self._commit.record(), producer_key, count)

    def put_state_record(self, record: StateRecord) -> None:
        """See `Recorder`."""
        self._memory.put(self._commit.record(), RecordKind.STATE, record.key, pack_state_record(record))

    def drop_state_record(self, key: str) -> None:
        """See `Recorder`."""
        self._memory.drop(self._commit.record(), RecordKind.STATE, key)

    def committed(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        self._memory.remember_commit(self._commit.record(), transaction_id)

    def prepare(self, transaction: PreparedTransaction) -> None:
        """See `Recorder`. ActiveMQ's table has the sends, if it can have all, and marks on acknowledged messages."""
        changes = self._commit.record()
        xid = self._form.xid(transaction.transaction_id)
        containers = [container_of(it.destination) for it in transaction.sends]
        producers = [self._form.producer(it) for it in transaction.sends]
        is_shared = xid is not None and None not in containers and all(map(fits, producers))
        if xid is not None and is_shared:
            signed = signed_xid(SENT, xid)
            self._lowest_id -= len(transaction.sends)
            rows = zip(transaction.sends, containers, producers, strict=True)
            for number, (message, container, producer) in enumerate(rows):
                row = pending_row(message, container or "", producer, is_new=True, xid=signed)
                changes.put_row(self._lowest_id + number, row)
        for place, message in transaction.acks:
            info = self._catalog.places.get(place) or self._new_place(place)
            if xid is not None and info.container is not None and place == message.destination:
                changes.xids[message.sequence] = signed_xid(ACKNOWLEDGED, xid), info.container
        record = PreparedRecord(
            self._form.transaction_to_bytes(transaction.transaction_id),
            transaction.user,
            () if is_shared else tuple(it.frame for it in transaction.sends),
            tuple((place, message.sequence) for place, message in transaction.acks),
            len(transaction.sends) if is_shared else 0,
        )
        self._memory.put(changes, RecordKind.PREPARED, record.transaction, pack_prepared(record))

    def decide(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        changes = self._commit.record()
        self._memory.drop(changes, RecordKind.PREPARED, self._form.transaction_to_bytes(transaction_id))
        xid = self._form.xid(transaction_id)
        if xid is not None:
            changes.decide(xid, (signed_xid(SENT, xid), signed_xid(ACKNOWLEDGED, xid)))

    @contextmanager
    def atomically(self) -> Iterator[None]:
        """See `Recorder`."""
        self._commit.require_good()
        self._commit.depth += 1
        try:
            yield
        finally:
            self._commit.leave_group()

    def full(self) -> str | None:
        """See `Recorder`."""
        return self._commit.full()

    def on_room(self, callback: Callable[[], None]) -> None:
        """See `Recorder`."""
        self._commit.when_room(callback)

    # ---- what is known only when a transaction begins --------------------------------------------------------------

    def _complete(self, changes: Changes) -> None:
        """Add how far subscriptions are, and the last sequence."""
        catalog = self._catalog
        for container in self._memory.crowded_topics:
            floor = catalog.floor(container)
            changes.clear(container, ALL if floor is None else floor)
        self._memory.crowded_topics.clear()
        touched, catalog.touched = catalog.touched, {}
        for info in touched.values():
            for container, progress in info.progress.items():
                self._add_progress(changes, info, container, progress)
        changes.last_sequence = self._written_sequence = catalog.last_sequence

    def _add_progress(self, changes: Changes, info: PlaceInfo, container: str, progress: Progress) -> None:
        key, terms = info.place, info.terms
        if progress.is_changed and isinstance(key, DurableKey) and terms is not None:
            selector = terms.selector if terms.selector is None or fits(terms.selector) else None
            row = AckRow(progress.acked, selector, repr(terms.destination), container, key.client_id, key.name)
            (changes.updated_acks if progress.is_stored else changes.new_acks).append(row)
            progress.is_stored, progress.is_changed = True, False
        if progress.changed_ranges:
            for first, last in progress.changed_ranges.items():
                changes.done[info.place_id, container, first] = last
            progress.changed_ranges = {}
