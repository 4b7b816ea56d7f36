"""The journal store: everything in one log, answered after one sync for all who wait (SEMANTICS K1, K2, K7).

How it works. A verb changes the catalog at once and puts a record into the buffer. At the end of the loop's turn the
buffer is written and synced, and everyone who waits is called: one sync serves all that came in that turn, and a lone
producer waits for nobody. Where syncs are quick they are done on the loop, because going to a thread and back takes as
long; where they are slow the thread does them, and what comes meanwhile is the next group. Records that nobody waits
for are written a moment later, so that a message which is consumed by then is not written at all.

`checkpoint.py` lets the index follow, `journal/compaction.py` gives disk back, `journal/recovery.py` begins again.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final, final

from ackwire.clock import Clock, Timer
from ackwire.destinations import Destination
from ackwire.errors import StoreFailed
from ackwire.message import Message
from ackwire.store.background import Background
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, PlaceInfo, StateKey, StateValue
from ackwire.store.checkpoint import Checkpoint, Position, durable_key, job_key, prepared_key, state_record_key
from ackwire.store.contract import (
    DurableRecord,
    FileInfo,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    StoredForm,
    StoredFrame,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.explain import EXAMINED_MAX, explain
from ackwire.store.files import DataFile, Files, Lock, LockHeld
from ackwire.store.index import DamagedIndex, Index, IndexTrouble, UnavailableIndex
from ackwire.store.journal.compaction import Compaction
from ackwire.store.journal.pending_records import (
    MovedMessage,
    PendingCounts,
    PendingMessage,
    PendingPayload,
    PendingRemovals,
)
from ackwire.store.journal.presence import Misplaced, Presence
from ackwire.store.journal.record import (
    Damaged,
    RecordKind,
    message_at,
    pack_durable,
    pack_numbers,
    pack_place_gone,
    pack_purged,
    pack_text,
    seed_of,
)
from ackwire.store.journal.recovery import Recovery, Report, UnusableStore
from ackwire.store.journal.state import PreparedRecord, pack_job, pack_prepared, pack_state_record, read_message
from ackwire.store.journal.writer import JournalWriter, PendingRecord, mark_groups

MIB: Final = 1 << 20

_SOON_SECONDS: Final = 0.02
"""How long a record may wait to be written that nobody waits for."""

_MOMENT_SECONDS: Final = 0.001
"""How long nothing is done for what will probably be forgone. Loops have no shorter timers."""

_BUFFER_BYTES_MAX: Final = MIB
"""Records that nobody waits for are written at once when there are this many bytes of them."""

_BUFFER_BYTES_FULL: Final = 64 * MIB
"""Producers wait when this much is to be written and a slow sync is in the way."""

CRASH: Final = b"crash"
"""Among the counts of producers, whose keys are longer: when the journal was opened after a crash, the last time."""

_QUICK_SYNC_SECONDS: Final = 0.0005
"""Syncs that take less on average are done on the loop: a thread would not be faster."""

_TICK_SECONDS: Final = 1.0
_SEGMENTS_PER_REPORT: Final = 50
_GAP_BYTES_MAX: Final = 4096
_READ_BYTES: Final = MIB
"""Neighbouring messages are read together, up to this size."""

_log = logging.getLogger(__name__)


class SyncPolicy(Enum):
    """When a producer is answered."""

    ALWAYS = "always"
    """When its message is on the medium."""
    PERIODIC = "periodic"
    """When the operating system has it; it is synced from time to time. Lost power loses what came since."""
    NEVER = "never"
    """When the operating system has it, which writes it when it likes."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """How a journal store behaves."""

    sync: SyncPolicy = SyncPolicy.ALWAYS
    sync_interval_seconds: float = 1.0
    segment_bytes: int = 32 * MIB
    bytes_max: int = 1 << 62
    free_bytes_min: int = 256 * MIB
    checkpoint_seconds: float = 5.0
    checkpoint_bytes: int = 32 * MIB


Waiter = tuple[Callable[[], None], Callable[[StoreFailed], None] | None]


@final
class JournalStore:
    """Implements `Store` on files."""

    pages = True

    def __init__(
        self,
        files: Files,
        data: Path,
        *,
        form: StoredForm,
        clock: Clock,
        open_index: Callable[[bool], Index],
        options: JournalOptions,
        writing: Background,
        indexing: Background,
        new_id: Callable[[], bytes],
        holder: str,
        on_failed: Callable[[StoreFailed], None],
        at_turn_end: Callable[[Callable[[], None]], Timer] | None = None,
    ) -> None:
        """Open the store in *data* and recover. *open_index* opens the index, or with True a new one. *at_turn_end*
        runs something when all that the loop has read is acted upon; by default the clock does, without delay.

        Raises `UnusableStore` if the files cannot be used, or another broker uses them.
        """
        self._files = files
        self._data = data
        self._form = form
        self._clock = clock
        self._at_turn_end: Callable[[Callable[[], None]], Timer] = at_turn_end or partial(clock.call_later, 0)
        self._options = options
        self._writing = writing
        self._indexing = indexing
        self._on_failed = on_failed
        self.failure: StoreFailed | None = None
        self.before_write: Callable[[], int] | None = None
        """Called before anything is written: who keeps a diary of what happens is never behind. Answers how far that
        is."""
        self.on_durable: Callable[[int], None] | None = None
        """Told what `before_write` has answered, once that is durable, and before anybody is answered."""
        self._writes: deque[tuple[int, int, int | None]] = deque()
        """Of each write that is not durable yet: its last record, the highest sequence of a message appended by then,
        and what `before_write` answered."""
        files.make_directory(data / "journal")
        self._lock = self._take_lock(holder)
        try:
            self._catalog, self.report, self._writer = self._recover(open_index, new_id)
        except BaseException:
            self._lock.release()
            raise
        self._buffer: list[PendingRecord] = []
        self._buffered_bytes = 0
        self._recorded_sequence = 0
        self._groups = count(1)
        self._unwritten: dict[int, list[PendingMessage | MovedMessage]] = {}
        """Messages in the buffer, by sequence."""
        self._depth = 0
        self._group = 0
        self._group_started_at = 0
        self._commits_of_group: list[bytes] = []
        self._waiters: list[Waiter] = []
        self._syncing: list[Waiter] = []
        """Those that the thread syncs for."""
        self._is_urgent = False
        """Whether some of the waiters can only be answered by a sync."""
        self.is_awaited = False
        self.durable_sequence = self._catalog.last_sequence
        self._appended_sequence = self._catalog.last_sequence
        self._written_sequence = 0
        """The highest of a message appended before the last write."""
        self._urgent_flush: Timer | None = None
        self._moment_timer: Timer | None = None
        self._moment_ends_at = 0.0
        self._flush_timer: Timer | None = None
        """For records that nobody waits for. It is left alone when they are written sooner: setting one and taking it
        back for each message costs more than what it does when it comes too early."""
        self._flush_later_at = 0.0
        """When they are to be written at the latest."""
        self._flush_is_urgent = False
        self._is_syncing = False
        self._is_checkpoint_syncing = False
        self._sync_seconds = 0.0
        self._checkpoint: Checkpoint | None = None
        self._checkpointed_at = clock.monotonic()
        self._checkpoint_number = 0
        self.checkpoint_segment = 0
        """Replay begins in this segment: no later one may go."""
        self._written_since_checkpoint = 0
        self._index_trouble: str | None = None
        """Why the last checkpoint did not succeed; it is tried again."""
        self._is_writing_index = False
        self._is_making_spare = False
        self._spare_failed = False
        """The disk had no space for another segment: the next tick tries again."""
        self._full: str | None = None
        self._on_room: list[Callable[[], None]] = []
        self._is_closed = False
        self._presence = Presence(
            files,
            data,
            segments=lambda: self._catalog.segments,
            active=lambda: self._writer.segment,
            index_trouble=lambda: self._catalog.index.misplaced,
            now_ms=clock.now_ms,
        )
        self._compaction = Compaction(self, self._catalog, self._writer, indexing, clock)
        try:
            self._open()
        except BaseException:
            self.abandon()
            raise

    @property
    def is_first_start(self) -> bool:
        """Whether nobody has ever opened this store before."""
        return self._writer.epoch == 1

    def _take_lock(self, holder: str) -> Lock:
        try:
            return self._files.lock(self._data / "lock", holder)
        except LockHeld as held:
            raise UnusableStore(f"{self._data} is in use by {held.holder or 'another process'}") from None

    def _recover(
        self, open_index: Callable[[bool], Index], new_id: Callable[[], bytes]
    ) -> tuple[Catalog, Report, JournalWriter]:
        damage: str | None = None
        try:
            index = open_index(False)
        except DamagedIndex as damaged:
            damage, index = str(damaged), open_index(True)
        except UnavailableIndex as unavailable:  # it may be as good as ever: nothing is changed
            raise UnusableStore(f"{unavailable}. Nothing was changed in {self._data}") from None
        recovery = Recovery(
            self._files, self._data, Catalog(index), self._form, self._clock.now_ms, progress=self._tell_progress
        )
        if damage is not None:
            recovery.quarantine.put(f"the index is made anew: {damage}", "")
        if index.seal_damage is not None:
            recovery.quarantine.put(index.seal_damage, "")
        try:
            recovery.run()
        except BaseException as error:
            recovery.catalog.index.abandon()
            if isinstance(error, (UnavailableIndex, MemoryError)):
                reason = str(error) or "there is too little memory to read the journal"
                raise UnusableStore(f"{reason}. Nothing was lost in {self._data}") from None
            raise
        self._quarantine = recovery.quarantine
        # A power cut may bring the index's seal back, and then the journal goes on behind the index.
        was_closed = recovery.catalog.index.is_vouched_for and not recovery.report.replayed
        self._was_cut_off = bool(recovery.store_id) and not was_closed
        self._store_id = recovery.store_id or new_id()
        self._seed = seed_of(self._store_id)
        catalog = recovery.catalog
        writer = JournalWriter(
            self._files,
            self._data / "journal",
            store_id=self._store_id,
            seed=self._seed,
            epoch=recovery.epoch + 1,
            segment_bytes=self._options.segment_bytes,
            next_segment=max(recovery.last_segment, recovery.segment) + 1,
            next_number=recovery.number + 1,
            on_segment=catalog.add_segment,
        )
        if recovery.can_resume:
            writer.resume(recovery.segment, recovery.offset)
        return catalog, recovery.report, writer

    def _tell_progress(self, done: int, count: int) -> None:
        if done and done % _SEGMENTS_PER_REPORT == 0:
            _log.info("reading the journal in %s: %d of %d segments", self._data, done, count)

    def _open(self) -> None:
        """Begin a new epoch, on the medium before anything else is: what was cut off can never come back."""
        for info in self._catalog.place_by_id.values():
            info.dispatched_before = info.dispatched_up_to
        self._writer.last_sequence = self._catalog.last_sequence
        now_and_sequence = pack_numbers((self._clock.now_ms(), self._catalog.last_sequence))
        self._record(PendingPayload(RecordKind.OPENED, now_and_sequence))
        if self._was_cut_off:
            self._count_as(CRASH, self._clock.now_ms())
        self._write()
        self._sync_on_the_spot()
        self._require_good()
        self._begin_checkpoint()
        self.check_space()
        self._clock.call_later(_TICK_SECONDS, self._tick)
        if self._options.sync is SyncPolicy.PERIODIC:
            self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)

    # ---- recording ---------------------------------------------------------------------------------------------

    def append(self, message: Message, places: Sequence[Place]) -> None:
        self._require_good()
        info = [self._place(place) for place in places]
        record = PendingMessage(self._catalog, message, info)
        sequence = message.sequence
        for it in info:
            it.active.fresh[sequence] = None
        self._unwritten.setdefault(sequence, []).append(record)
        if sequence > self._catalog.last_sequence:
            self._catalog.last_sequence = self._writer.last_sequence = sequence
        if sequence > self._appended_sequence:
            self._appended_sequence = sequence
        self._buffered_bytes += len(message.frame)
        self._record(record)

    def _place(self, place: Place) -> PlaceInfo:
        info = self._catalog.places.get(place)
        if info is None:
            info = self._catalog.add_place(self._catalog.next_place_id, place, 0)
            self.record_place(info)
        return info

    def record_place(self, info: PlaceInfo) -> None:
        """Record a place, or what is new about it."""
        written = partial(self._catalog.place_moved, info)
        self._record(PendingPayload(RecordKind.PLACE, info.payload(), written))
        self._catalog.changed_places.add(info.place_id)

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        self._require_good()
        info = self._place(place)
        if sequence > info.dispatched_up_to:
            info.dispatched_up_to = sequence
            self._catalog.last_sequence = max(sequence, self._catalog.last_sequence)
            self._writer.last_sequence = self._catalog.last_sequence
            self.record_place(info)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        self._require_good()
        info = self._catalog.places.get(place)
        if info is not None and sequence < info.dispatched_up_to:
            info.dispatched_up_to = sequence
            self.record_place(info)

    def skip_to(self, sequence: int) -> None:
        """Have no message get a sequence up to this one: another store has used them, whose messages are here."""
        self._catalog.last_sequence = max(sequence, self._catalog.last_sequence)
        self._writer.last_sequence = self._catalog.last_sequence

    def remove(self, place: Place, message: Message) -> None:
        self._require_good()
        info = self._catalog.places.get(place)
        if info is not None:
            self._remove(info, message.sequence)

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        self._require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        written = list(sequences)
        if self._unwritten:
            unwritten = [it for it in written if it in self._unwritten]
            written = [it for it in written if it not in self._unwritten]
            for sequence in unwritten:
                self._remove(info, sequence)
        taken = self._checked(lambda: self._catalog.take_many(info, written))
        if taken:
            self._removals().add_many(info.place_id, taken)

    def _checked(self, look: Callable[[], list[tuple[int, Entry]]]) -> list[tuple[int, Entry]]:
        try:
            return look()
        except IndexTrouble as error:
            raise self._fail("trust the index of", error) from None

    def _remove(self, info: PlaceInfo, sequence: int) -> None:
        self._keep_for_group(info, sequence)
        unwritten = self._unwritten_in(info, sequence)
        if unwritten is not None:
            self._take_out(unwritten, sequence, info)
            if isinstance(unwritten, PendingMessage):
                info.active.fresh.pop(sequence, None)
                return
        try:
            entry = self._catalog.take(info, sequence)
        except IndexTrouble as error:
            raise self._fail("trust the index of", error) from None
        if entry is not None:
            self._removals().add(info.place_id, sequence, entry.segment)

    def _take_out(self, record: PendingMessage | MovedMessage, sequence: int, info: PlaceInfo) -> None:
        """*record* need not be written for that place, or not at all."""
        record.places = [it for it in record.places if it is not info]
        if record.places:
            return
        self._unwritten[sequence].remove(record)
        if isinstance(record, PendingMessage):
            if self._buffer[-1] is record:  # a quick consumer has it: there may be many, and a slow disk
                self._buffer.pop()
                self._buffered_bytes = max(0, self._buffered_bytes - len(record.message.frame))
            self._count(record.message)

    def _unwritten_in(self, info: PlaceInfo, sequence: int) -> PendingMessage | MovedMessage | None:
        return next((it for it in self._unwritten.get(sequence, ()) if info in it.places), None)

    def _keep_for_group(self, info: PlaceInfo, sequence: int | None = None) -> None:
        """A group is there as a whole or not at all, so nothing is taken out of one, and what a group removes is there
        if the group is not: such messages are written before they are removed."""
        if sequence is None:
            records = [it for its in self._unwritten.values() for it in its]
        else:
            records = self._unwritten.get(sequence, [])
        if any(it.group != self._group and info in it.places for it in records):
            self._write(self._group_started_at if self._depth else None)
            self._group_started_at = 0
            self._require_good()

    def _count(self, message: Message) -> None:
        """Its producer is remembered although the message is not written: it may be sent again (J4)."""
        self._count_as(message.origin.producer_key, message.producer_count)

    def _count_as(self, key: bytes, count: int) -> None:
        last = self._buffer[-1] if self._buffer else None
        if not isinstance(last, PendingCounts) or last.group != self._group:
            last = PendingCounts(self._catalog)
            self._record(last)
        last.counts[key] = max(last.counts.pop(key, count), count)  # at the end: heard of last

    def _removals(self) -> PendingRemovals:
        last = self._buffer[-1] if self._buffer else None
        if not isinstance(last, PendingRemovals) or last.group != self._group:
            last = PendingRemovals(self._catalog)
            self._record(last)
        return last

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        self._require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        self._keep_for_group(info)
        for sequence, records in list(self._unwritten.items()):
            for record in [it for it in records if info in it.places]:
                if sequence <= last_sequence and sequence not in kept:
                    self._take_out(record, sequence, info)
        self._catalog.purge(info, last_sequence, frozenset(kept))
        self._record(PendingPayload(RecordKind.PURGED, pack_purged(info.place_id, last_sequence, kept)))

    def remove_place(self, place: Place) -> None:
        self._require_good()
        info = self._catalog.places.get(place)
        if info is None:
            return
        self._keep_for_group(info)
        for sequence, records in list(self._unwritten.items()):
            for record in [it for it in records if info in it.places]:
                self._take_out(record, sequence, info)
        self._catalog.end_place(info.place_id)
        self._catalog.end_state(durable_key(info.place_id))
        self._record(PendingPayload(RecordKind.PLACE_GONE, pack_place_gone(info.place_id)))

    def add_destination(self, destination: Destination) -> None:
        self._require_good()
        self._place(destination)

    def add_durable(self, record: DurableRecord) -> None:
        with self.atomically():  # the place of a subscription is nothing without its terms
            info = self._place(record.key)
            key = durable_key(info.place_id)
            known = self._catalog.state.get(key)
            if known is None or known.value != record:
                self.set_state(key, record, RecordKind.DURABLE, pack_durable(info.place_id, record))

    def add_job(self, job: ScheduledJob) -> None:
        self._require_good()
        key = job_key(job.job_id)
        is_known = key in self._catalog.state
        kind = RecordKind.JOB_DUE if is_known else RecordKind.JOB
        with self.atomically():
            self.set_state(key, job, kind, pack_job(job, with_message=not is_known), is_update=is_known)
            if not is_known:
                self._count(job.message)
        sequence = job.message.sequence
        if sequence > self._catalog.last_sequence:
            self._catalog.last_sequence = self._writer.last_sequence = sequence

    def remove_job(self, job_id: str) -> None:
        self._require_good()
        if job_key(job_id) in self._catalog.state:
            self._catalog.end_state(job_key(job_id))
            self._record(PendingPayload(RecordKind.JOB_GONE, pack_text(job_id)))

    def remember_count(self, producer_key: bytes, count: int) -> None:
        self._require_good()
        self._count_as(producer_key, count)

    def put_state_record(self, note: StateRecord) -> None:
        self._require_good()
        self.set_state(state_record_key(note.key), note, RecordKind.STATE_RECORD, pack_state_record(note))

    def drop_state_record(self, key: str) -> None:
        self._require_good()
        if state_record_key(key) in self._catalog.state:
            self._catalog.end_state(state_record_key(key))
            self._record(PendingPayload(RecordKind.STATE_RECORD_GONE, pack_text(key)))

    def prepare(self, transaction: PreparedTransaction) -> None:
        self._require_good()
        prepared = PreparedRecord(
            self._form.transaction_to_bytes(transaction.transaction_id),
            tuple(message.frame for message in transaction.sends),
            tuple((self._place(place).place_id, message.sequence) for place, message in transaction.acks),
            transaction.user,
        )
        key = prepared_key(prepared.transaction)
        self.set_state(key, prepared, RecordKind.PREPARED, pack_prepared(prepared))

    def decide(self, transaction_id: Hashable) -> None:
        self._require_good()
        transaction = self._form.transaction_to_bytes(transaction_id)
        if prepared_key(transaction) in self._catalog.state:
            self._catalog.end_state(prepared_key(transaction))
            self._record(PendingPayload(RecordKind.DECIDED, transaction))

    def committed(self, transaction_id: Hashable) -> None:
        self._require_good()
        transaction = self._form.transaction_to_bytes(transaction_id)
        if self._depth:
            self._commits_of_group.append(transaction)  # worth a record only if the group has others
        else:
            self.record_commit(transaction)

    def record_commit(self, transaction: bytes) -> None:
        """Record that a local transaction has committed."""
        written = partial(self._catalog.set_commit, transaction)
        self._record(PendingPayload(RecordKind.COMMITTED, transaction, written))

    def set_state(
        self, key: StateKey, value: StateValue, kind: RecordKind, payload: bytes, *, is_update: bool = False
    ) -> None:
        """Record something that is not a message."""
        self._catalog.set_state(key, value, 0, is_update=is_update)

        def written(segment: int) -> None:
            item = self._catalog.state.get(key)
            if item is not None:  # it may have ended before it was written
                item.segments.discard(0)
                item.segments.add(segment)
                self._catalog.changed_state.add(key)

        self._record(PendingPayload(kind, payload, written))

    def record_again(self, record: PendingRecord) -> None:
        """Write something once more, because the segment that holds it goes (`journal/compaction.py`)."""
        self._record(record)

    def move(self, record: MovedMessage, sequence: int) -> None:
        """Write a message once more. One that is in the buffer already is not moved: it will not be where it was."""
        there = self._unwritten.setdefault(sequence, [])
        record.places = [it for it in record.places if not any(it in other.places for other in there)]
        if record.places:
            there.append(record)
            self._record(record)

    def _record(self, record: PendingRecord) -> None:
        record.group = self._group
        if not self._buffer:
            self._flush_later_at = self._clock.monotonic() + _SOON_SECONDS
        self._buffer.append(record)
        if self._buffered_bytes > _BUFFER_BYTES_MAX and not self._flush_is_urgent:
            self._flush_now()
        else:
            self._flush_later()

    @contextmanager
    def atomically(self) -> Iterator[None]:
        self._require_good()
        self._depth += 1
        if self._depth == 1:
            self._group_started_at = len(self._buffer)
            self._group = next(self._groups)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._end_group()

    def _end_group(self) -> None:
        commits, self._commits_of_group = self._commits_of_group, []
        if len(self._buffer) > self._group_started_at:
            for transaction in commits:
                self.record_commit(transaction)
        self._group = 0

    def _require_good(self) -> None:
        if self.failure is not None:
            raise self.failure

    # ---- promises ----------------------------------------------------------------------------------------------

    def expect(self) -> None:
        self.is_awaited = True

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        *,
        is_cancellable: bool = False,
        can_wait: bool = False,
    ) -> None:
        if self.failure is not None:
            if on_failed is not None:
                on_failed(self.failure)
        elif self._is_durable:
            self.is_awaited = False
            callback()
        else:
            self._waiters.append((callback, on_failed))
            self._is_urgent = self._is_urgent or not is_cancellable
            self.is_awaited = True
            if can_wait:
                self._flush_in_a_moment()
            else:
                self._flush_now()

    @property
    def is_syncing(self) -> bool:
        return self._is_syncing or self._is_checkpoint_syncing

    def cancel(self, callback: Callable[[], None]) -> bool:
        for waiters in (self._waiters, self._syncing):
            for waiter in waiters:
                if waiter[0] is callback:
                    waiters.remove(waiter)
                    self.is_awaited = bool(self._waiters or self._syncing)
                    return True
        return False

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call *callback* when everything is on the medium, whatever producers are promised: files may go then."""
        if self._options.sync is SyncPolicy.ALWAYS:
            self.when_durable(callback)
        elif self._is_syncing:
            self._clock.call_later(_SOON_SECONDS, lambda: self.when_synced(callback))
        elif self.failure is None and self._write():
            self._is_syncing = True
            work = partial(self._timed_sync, self._writer.unsynced())
            self._writing.submit(work, partial(self._synced, [(callback, None)], self._writer.last_number))

    @property
    def _is_durable(self) -> bool:
        if self._buffer or self._waiters:
            return False
        if self._options.sync is not SyncPolicy.ALWAYS:
            return True
        return not self._is_syncing and self._writer.synced_number == self._writer.last_number

    def _flush_now(self) -> None:
        """At the end of this turn, when all that the sockets had is recorded."""
        if self._flush_is_urgent:
            return
        self._flush_is_urgent = True
        self._urgent_flush = self._at_turn_end(self._flush)

    def _flush_in_a_moment(self) -> None:
        """Who waits for it now will hardly do so then; there is one at most, and others do not wait."""
        self._moment_ends_at = self._clock.monotonic() + _MOMENT_SECONDS
        if self._moment_timer is None:
            self._moment_timer = self._clock.call_later(_MOMENT_SECONDS, self._end_moment)

    def _end_moment(self) -> None:
        self._moment_timer = None
        remaining = self._moment_ends_at - self._clock.monotonic()
        if self._waiters and remaining > 0:
            self._moment_timer = self._clock.call_later(remaining, self._end_moment)
        elif self._waiters:
            self._flush_now()

    def _flush_later(self) -> None:
        """Nobody waits for what is in the buffer."""
        if self._flush_timer is None:
            self._flush_timer = self._clock.call_later(_SOON_SECONDS, self._flush_if_due)

    def _flush_if_due(self) -> None:
        """Unless all that was there when the timer was set is written, and what came later may wait a little more."""
        self._flush_timer = None
        if self._is_durable or self._flush_is_urgent:
            return
        remaining = self._flush_later_at - self._clock.monotonic()
        if remaining > 0:
            self._flush_timer = self._clock.call_later(remaining, self._flush_if_due)
        else:
            self._flush()

    def _flush(self) -> None:
        self._urgent_flush = None
        self._flush_is_urgent = False
        if self.failure is not None or (self._is_syncing and self._options.sync is SyncPolicy.ALWAYS):
            return  # what is in the buffer is the next group
        if not self._write():
            return
        if self._options.sync is SyncPolicy.ALWAYS:
            self._sync()
        elif self._is_in_place():
            self._is_durable_up_to(self._writer.last_number)
            self._answer(self._take_waiters())

    def _write(self, first: int | None = None) -> bool:
        """Write what is in the buffer, or the *first* so many; False if that failed."""
        mark = None if self.before_write is None else self.before_write()
        self._record_sequence(first)
        if first is None:
            first = len(self._buffer)
            self._written_sequence = self._appended_sequence
        if self._buffered_bytes > _BUFFER_BYTES_FULL:
            self._clock.call_later(0, self._tell_of_room)
        buffer, self._buffer, self._buffered_bytes = self._buffer[:first], self._buffer[first:], 0
        records = [it for it in buffer if not isinstance(it, (PendingMessage, MovedMessage)) or it.places]
        mark_groups(records)
        before = self._writer.last_number
        try:
            self._writer.write(records)
            self._unwritten.clear()
            for it in self._buffer:
                if isinstance(it, (PendingMessage, MovedMessage)) and it.places:
                    self._unwritten.setdefault(it.sequence, []).append(it)
            for record in records:
                record.written()
        except Exception as error:  # whatever it is: records are missing, and must not be answered for
            self._fail("write to", error)
            return False
        self._writes.append((self._writer.last_number, self._written_sequence, mark))
        if self._writer.last_number != before:
            self._written_since_checkpoint += sum(it.payload_bytes for it in records)
            self._after_write()
        return True

    def _record_sequence(self, count: int | None) -> None:
        """A message that is not written had a sequence all the same: no other may have it."""
        written = [it.sequence for it in self._buffer[:count] if isinstance(it, PendingMessage) and it.places]
        self._recorded_sequence = max([self._recorded_sequence, *written])
        if count is None and self._buffer and self._recorded_sequence < self._catalog.last_sequence:
            self._recorded_sequence = self._catalog.last_sequence
            record = PendingPayload(RecordKind.OPENED, pack_numbers((self._clock.now_ms(), self._recorded_sequence)))
            record.group = 0
            self._buffer.append(record)

    def _after_write(self) -> None:
        if not self._spare_failed:
            self._make_spare()
        if self._written_since_checkpoint > self._options.checkpoint_bytes:
            self._begin_checkpoint()

    def _take_waiters(self) -> list[Waiter]:
        waiters, self._waiters, self._is_urgent = self._waiters, [], False
        return waiters

    def _sync(self) -> None:
        """Sync what is written, on the loop where that is quick and urgent, and answer.

        Never beside a sync of the thread: if that one fails, its error is told once, the system drops what was to be
        written, and a later sync of the same file succeeds. The thread's answers come in order.
        """
        is_urgent = self._is_urgent
        waiters, number, files = self._take_waiters(), self._writer.last_number, self._writer.unsynced()
        if is_urgent and self._sync_seconds < _QUICK_SYNC_SECONDS and not self._is_checkpoint_syncing:
            try:
                self._timed_sync(files)
            except Exception as error:
                self._waiters = waiters
                self._fail("sync", error)
                return
            self._waiters = waiters
            if self._is_in_place():
                self._synced_up_to(number)
                self._answer(self._take_waiters())
            return
        self._is_syncing = True
        self._syncing = waiters
        self._writing.submit(partial(self._timed_sync, files), partial(self._synced, waiters, number))

    def _timed_sync(self, files: list[DataFile]) -> None:
        before = self._clock.monotonic()
        for file in files:
            file.sync()
        self._sync_seconds += (self._clock.monotonic() - before - self._sync_seconds) / 8

    def _synced(self, waiters: list[Waiter], number: int, error: Exception | None) -> None:
        self._is_syncing = False
        self._syncing = []
        if self._checkpoint is None:
            self._writer.close_idle()
        if error is not None or self.failure is not None:
            self._waiters = waiters + self._waiters
            self._fail("sync", error or self.failure)
            return
        if not self._is_in_place():
            self._tell_failure(waiters)
            return
        self._synced_up_to(number)
        if not self._buffer and self._writer.synced_number == self._writer.last_number:
            waiters += self._take_waiters()  # they came later, and nothing new came with them
        self._answer(waiters)
        if self._waiters:
            self._flush_now()
        elif self._buffer:
            self._flush_later()

    def _synced_up_to(self, number: int) -> None:
        self._writer.synced_up_to(number)
        self._is_durable_up_to(number)

    def _is_durable_up_to(self, number: int) -> None:
        durable_mark = None
        while self._writes and self._writes[0][0] <= number:
            _, sequence, mark = self._writes.popleft()
            self.durable_sequence = max(self.durable_sequence, sequence)
            durable_mark = durable_mark if mark is None else mark
        if durable_mark is not None and self.on_durable is not None:
            self.on_durable(durable_mark)

    def _answer(self, waiters: list[Waiter]) -> None:
        """Those first who would be told of a failure: clients that do nothing until they are answered. The others at
        the end of the turn, behind what is written to those."""
        self.is_awaited = bool(self._waiters)
        self._call_all([callback for callback, on_failed in waiters if on_failed is not None])
        others = [callback for callback, on_failed in waiters if on_failed is None]
        if others:
            self._at_turn_end(partial(self._call_all, others))

    def _call_all(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            _log.exception("an answer could not be given")

    # ---- failures ----------------------------------------------------------------------------------------------

    @property
    def _has_failed(self) -> bool:
        return self.failure is not None

    def _fail(self, what: str, error: Exception | None) -> StoreFailed:
        """Promise nothing any more (K7): what is on the medium, only a new start can tell."""
        if self.failure is None:
            is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full: " if is_full else ""
            remedy = "there is space" if is_full else "the disk is in order"
            self.failure = StoreFailed(
                f"the store in {self._data} has failed: {reason}it could not {what} the journal: {error}. Nothing more "
                f"is acknowledged; start the broker again when {remedy}"
            )
            _log.critical("%s", self.failure)
        self._on_failed(self.failure)
        self._tell_failure(self._take_waiters())
        return self.failure

    def _tell_failure(self, waiters: list[Waiter]) -> None:
        assert self.failure is not None
        for _, on_failed in waiters:
            try:
                if on_failed is not None:
                    on_failed(self.failure)
            except Exception:
                _log.exception("a failure could not be told")

    def _is_in_place(self) -> bool:
        """Whether the next start will find what was written: nobody is answered before that is known."""
        try:
            self._presence.check()
        except Misplaced as error:
            self._fail("find", error)
            return False
        return True

    def _check_places(self) -> bool:
        """The same, with what is looked at only now and then."""
        try:
            self._presence.check_all()
            if self._writer.cut_off is not None:
                raise Misplaced(self._writer.cut_off)
        except Misplaced as error:
            self._fail("find", error)
            return False
        return True

    # ---- time --------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_closed or self.failure is not None:
            return
        self._clock.call_later(_TICK_SECONDS, self._tick)
        if not self._check_places():
            return
        self._make_spare()
        if self._index_trouble is not None and self._checkpoint is not None and not self._is_writing_index:
            self._write_index(self._checkpoint)
        self.check_space()
        now = self._clock.monotonic()
        has_changed = self._writer.last_number != self._checkpoint_number
        is_due = now - self._checkpointed_at >= self._options.checkpoint_seconds
        if has_changed and (is_due or self._full is not None):
            self._begin_checkpoint()
        elif self._checkpoint is None or self._index_trouble is not None:
            self._compaction.begin()

    def _sync_periodically(self) -> None:
        if self._is_closed or self.failure is not None:
            return
        self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)
        if not self._is_syncing and self._writer.unsynced():
            number, files = self._writer.last_number, self._writer.unsynced()
            self._is_syncing = True
            self._writing.submit(partial(self._timed_sync, files), partial(self._synced, [], number))

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def _begin_checkpoint(self) -> None:
        """Let the index catch up, beside the loop."""
        if self._buffer and not self._depth:
            self._write()
        if self._checkpoint is not None or self.failure is not None or self._depth:
            return  # what was just written may have called for one already
        writer = self._writer
        position = Position(
            self._store_id,
            writer.segment,
            writer.offset,
            writer.last_number,
            writer.epoch,
            self._catalog.last_sequence,
            last_offset=writer.last_offset,
        )
        files = writer.unsynced()
        checkpoint = self._checkpoint = Checkpoint(self._catalog, position)
        self._written_since_checkpoint = 0
        self._checkpointed_at = self._clock.monotonic()
        self._checkpoint_number = writer.last_number

        def sync() -> None:
            for file in files:  # the index must never know more than the journal
                file.sync()

        self._is_checkpoint_syncing = True
        self._writing.submit(sync, partial(self._checkpoint_synced, checkpoint))

    def _checkpoint_synced(self, checkpoint: Checkpoint, error: Exception | None) -> None:
        self._is_checkpoint_syncing = False
        self._write_index(checkpoint, error)

    def _write_index(self, checkpoint: Checkpoint, error: Exception | None = None) -> None:
        if error is not None or self.failure is not None:
            self._fail("sync", error)
            return
        self._writer.synced_up_to(checkpoint.position.number)
        self._is_writing_index = True
        index = self._catalog.index
        self._indexing.submit(lambda: index.commit(checkpoint.changes()), partial(self._checkpoint_done, checkpoint))

    def _checkpoint_done(self, checkpoint: Checkpoint, error: Exception | None) -> None:
        self._is_writing_index = False
        if isinstance(error, IndexTrouble):
            self._fail("trust the index of", error)
            return
        self._index_trouble = None if error is None else f"the index in {self._data} cannot be written: {error}"
        if self._index_trouble is not None:  # the journal has everything: the next tick tries again
            _log.error("%s", self._index_trouble)
            return
        if self.failure is None:
            checkpoint.end(self._catalog)
            self._checkpoint = None
            if not self._is_syncing:
                self._writer.close_idle()
            self.checkpoint_segment = checkpoint.position.segment
            self._compaction.checkpoint_done()

    # ---- space -------------------------------------------------------------------------------------------------

    def _make_spare(self) -> None:
        """Take the space of the next segment, and write zeros to it when that one is soon to come."""
        writer = self._writer
        if self._is_making_spare or (writer.has_spare and not (writer.wants_zeros and self._can_do_without_spare())):
            return
        self._is_making_spare = True
        if writer.has_spare:
            file = writer.take_spare()
            self._indexing.submit(partial(writer.fill, file), partial(self._spare_filled, file))
        else:
            made: list[DataFile] = []
            self._indexing.submit(lambda: made.append(writer.make_spare()), partial(self._spare_made, made))

    def _can_do_without_spare(self) -> bool:
        """Whether another segment could be made on the spot, while the spare one is being filled."""
        try:
            return self._files.free_bytes(self._data) > self._options.segment_bytes
        except OSError:
            return False

    def _spare_made(self, made: list[DataFile], error: Exception | None) -> None:
        self._is_making_spare = False
        if error is None:
            self._writer.keep_spare(made[0])
            self._spare_failed = False
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._spare_failed = True
        else:
            self._fail("make another segment of", error)
            return
        self.check_space()

    def _spare_filled(self, file: DataFile, error: Exception | None) -> None:
        self._is_making_spare = False
        self._writer.keep_spare(file, is_filled=True)
        if error is not None:
            self._fail("write to", error)

    @property
    def used_bytes(self) -> int:
        """What the store takes on disk."""
        segments = sum(segment.size_bytes for segment in self._catalog.segments.values())
        return (
            segments
            + (self._options.segment_bytes if self._writer.has_spare or self._is_making_spare else 0)
            + self._catalog.index.size_bytes
        )

    def check_space(self) -> None:
        """See whether there is room, and tell those who wait for it."""
        was_full, self._full = self._full, self._why_full()
        if self._full is not None and was_full is None:
            _log.warning("%s: producers of persistent messages wait until there is space", self._full)
        elif self._full is None and was_full is not None:
            _log.info("the store in %s has space again", self._data)
            self._tell_of_room()

    def _tell_of_room(self) -> None:
        for callback in self._on_room:
            callback()

    def _why_full(self) -> str | None:
        used, limit = self.used_bytes, self._options.bytes_max
        if used >= limit:
            return f"the store is full: {used} of {limit} bytes in {self._data} (limits.store_bytes_max)"
        try:
            free = self._files.free_bytes(self._data)
        except OSError as error:
            return f"the disk of {self._data} does not tell how much space it has: {error}"
        if free < self._options.free_bytes_min:
            return f"the disk of {self._data} has {free} bytes left, less than {self._options.free_bytes_min}"
        if self._index_trouble is not None:
            return self._index_trouble
        if self._spare_failed:
            return f"the disk of {self._data} has no space for another file of {self._options.segment_bytes} bytes"
        return None

    def full(self) -> str | None:
        if self._buffered_bytes > _BUFFER_BYTES_FULL:
            return f"the disk of {self._data} is slow: {self._buffered_bytes} bytes wait to be written"
        return self._full

    def on_room(self, callback: Callable[[], None]) -> None:
        self._on_room.append(callback)

    # ---- what was kept -----------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """For tools that look closer than the contract lets them."""
        return self._catalog

    def places(self) -> list[Place]:
        return list(self._catalog.places)

    def waiting(self, place: Place) -> Iterator[WaitingMessage]:
        return chain.from_iterable(self.waiting_portions(place))

    def waiting_portions(self, place: Place) -> Iterator[WaitingMessages]:
        info = self._catalog.places.get(place)
        return iter(()) if info is None else self._catalog.waiting_messages(info)

    def durables(self) -> list[DurableRecord]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, DurableRecord)]

    def jobs(self) -> list[ScheduledJob]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, ScheduledJob)]

    def prepared(self) -> list[PreparedTransaction]:
        records = [item.value for item in self._catalog.state.values() if isinstance(item.value, PreparedRecord)]
        return [self._prepared(record) for record in records]

    def _prepared(self, record: PreparedRecord) -> PreparedTransaction:
        acks: list[tuple[Place, Message]] = []
        for place_id, sequence in record.acks:
            place = self._catalog.place_of(place_id)
            message = None if place is None else self.load(place, [sequence])[0]
            if place is not None and message is not None:
                acks.append((place, message))
        sends = tuple(read_message(self._form, frame) for frame in record.frames)
        transaction_id = self._form.transaction_from_bytes(record.transaction)
        return PreparedTransaction(transaction_id, sends, tuple(acks), record.user)

    def state_records(self) -> list[StateRecord]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, StateRecord)]

    def has_crashed(self, within_seconds: float) -> bool:
        crash = self._catalog.counts.get(CRASH)
        return crash is not None and self._clock.now_ms() - crash[0] <= within_seconds * 1000

    def last_counts(self) -> list[tuple[bytes, int]]:
        return [(it, count) for it, (count, _) in self._catalog.counts.items() if it != CRASH]

    def commits(self) -> list[Hashable]:
        return [self._form.transaction_from_bytes(transaction) for transaction in self._catalog.commits]

    def dispatched_up_to(self, place: Place) -> int:
        info = self._catalog.places.get(place)
        return 0 if info is None else info.dispatched_before

    def last_sequence(self) -> int:
        return self._catalog.last_sequence

    # ---- reading -----------------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        stored = self.read(place, sequences)
        return [self._message(place, it, frame) for it, frame in zip(sequences, stored, strict=True)]

    def _message(self, place: Place, sequence: int, stored: StoredFrame | None) -> Message | None:
        if stored is None:
            return None
        try:
            message = read_message(self._form, stored[0])
        except Damaged as error:
            self.report_damage(f"message {sequence} of {place!r} is lost: {error}")
            return None
        message.redelivery_counter = stored[1]
        return message

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        info = self._catalog.places.get(place)
        if info is None:
            return [None] * len(sequences)
        found: dict[int, StoredFrame] = {}
        written = sequences
        if self._unwritten:
            written = []
            for sequence in sequences:
                unwritten = self._unwritten_in(info, sequence)
                if isinstance(unwritten, PendingMessage):
                    found[sequence] = (unwritten.message.frame, unwritten.message.redelivery_counter)
                else:
                    written.append(sequence)
        located = self._checked(lambda: self._catalog.find_many(info, written))
        entries = [(entry, it) for it, entry in located]
        for run in _runs(sorted(entries)):
            self._read_run(place, run, found, info.dispatched_before)
        return [found.get(sequence) for sequence in sequences]

    def _read_run(
        self, place: Place, run: list[tuple[Entry, int]], found: dict[int, StoredFrame], dispatched_before: int
    ) -> None:
        """Read neighbouring messages at once."""
        first, last = run[0][0], run[-1][0]
        length = last.offset + last.record_bytes - first.offset
        try:
            file = self._writer.file(first.segment)
            data = memoryview(file.read(first.offset, length))
            file.expect_read(first.offset + length, _READ_BYTES)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ENOENT):
                raise self._fail("read", error) from None  # they are there, and may be read after a new start
            self._report_unreadable(place, run, str(error))
            return
        base, seed = first.offset, self._seed
        for entry, sequence in run:
            try:
                stored = message_at(data, entry[1] - base, sequence, seed)
            except Damaged as damaged:
                self._report_unreadable(place, [(entry, sequence)], str(damaged))
                continue
            if sequence <= dispatched_before and not stored[1]:
                stored = (stored[0], 1)
            found[sequence] = stored

    def _report_unreadable(self, place: Place, run: list[tuple[Entry, int]], reason: str) -> None:
        for entry, sequence in run:
            self.report_damage(
                f"message {sequence} of {place!r}, at {entry.offset} of segment {entry.segment}, is lost: {reason}"
            )

    def report_damage(self, what: str) -> None:
        """Say loudly that something is lost, and leave a line beside the data."""
        _log.error("%s", what)
        try:
            self._quarantine.put(what, "")
            self._quarantine.flush()
        except OSError as error:
            _log.error("and the report cannot be written: %s", error)

    def files(self) -> list[FileInfo]:
        return explain(
            self._catalog,
            active=self._writer.segment,
            sent_ms=self._sent_ms,
            examined_max=EXAMINED_MAX,
            is_running=True,
        )

    def _sent_ms(self, place: Place, sequence: int, _: Entry) -> int | None:
        message = self.load(place, [sequence])[0]
        return None if message is None else message.timestamp

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write and sync everything, let the index catch up, vouch for it."""
        if self._is_closed:
            return
        if self.failure is not None:
            self.abandon()
            return
        self._compaction.stop()
        self._finish_background()
        self._record(PendingPayload(RecordKind.CLOSED, pack_numbers((self._catalog.last_sequence,))))
        self._write()
        self._sync_on_the_spot()
        self._begin_checkpoint()
        self._finish_background()
        if not self._has_failed:
            self._check_places()
        self._let_go(clean=not self._has_failed)
        self._require_good()

    def _finish_background(self) -> None:
        self._writing.finish()
        self._indexing.finish()

    def _sync_on_the_spot(self) -> None:
        """Sync and answer before anything else happens: at the start, and at the end."""
        if self.failure is not None:
            return
        waiters, number = self._take_waiters(), self._writer.last_number
        try:
            for file in self._writer.unsynced():
                file.sync()
        except Exception as error:
            self._waiters = waiters
            self._fail("sync", error)
        else:
            self._waiters = waiters
            if self._is_in_place():
                self._synced_up_to(number)
                self.is_awaited = False
                self._call_all([callback for callback, _ in self._take_waiters()])

    def abandon(self, remove: Callable[[], None] | None = None) -> None:
        """Let go of everything, and vouch for nothing; *remove* takes the files away while the lock is still held."""
        if not self._is_closed:
            self._finish_background()
            self._let_go(clean=False, remove=remove)

    def _let_go(self, *, clean: bool, remove: Callable[[], None] | None = None) -> None:
        self._is_closed = True
        for timer in (self._flush_timer, self._urgent_flush, self._moment_timer):
            if timer is not None:
                timer.cancel()
        if clean:
            self._catalog.index.close()
        else:
            self._catalog.index.abandon()
        self._writer.close()
        self._presence.close()
        if remove is not None:
            remove()
        self._lock.release()


def _runs(entries: list[tuple[Entry, int]]) -> Iterator[list[tuple[Entry, int]]]:
    """*entries*, sorted by their place, cut where they are not neighbours or there are too many bytes."""
    run: list[tuple[Entry, int]] = []
    segment = start = end = -1
    for item in entries:
        entry = item[0]
        offset, size_bytes = entry[1], entry.record_bytes
        is_neighbour = entry[0] == segment and offset - end <= _GAP_BYTES_MAX
        if run and (not is_neighbour or offset + size_bytes - start > _READ_BYTES):
            yield run
            run = []
        if not run:
            segment, start = entry[0], offset
        end = offset + size_bytes
        run.append(item)
    if run:
        yield run
