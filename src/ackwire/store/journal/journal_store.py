"""The journal store: everything in one log, answered after one sync for all who wait (SEMANTICS K1, K2, K7).

How it works. A verb changes the catalog at once and puts a record into the buffer (`recorder.py`, `record_buffer.py`).
At the end of the loop's turn the buffer is written and synced, and everyone who waits is called (`group_commit.py`).
`checkpointing.py` lets the index follow, `compaction.py` gives disk back, `space.py` knows how much there is,
`reads.py` brings messages back, and `opening.py` with `recovery.py` begins again. This class joins them.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import Background, OnTheSpot
from ackwire.store.catalog import CRASH_KEY
from ackwire.store.catalog_restore import CatalogRestore
from ackwire.store.contract import (
    DurabilityState,
    DurableRecord,
    FileInfo,
    OnLoaded,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    StoredForm,
    StoredFrame,
    Sync,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.explain import EXAMINED_MAX, explain
from ackwire.store.files import Files, Lock
from ackwire.store.index import Index
from ackwire.store.journal.answers import AtTurnEnd
from ackwire.store.journal.checkpointing import Checkpointing
from ackwire.store.journal.compaction import Compaction
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.gradual_release import GradualRelease
from ackwire.store.journal.group_commit import GroupCommit, Quorum
from ackwire.store.journal.opening import JournalSource, OpenJournal, open_journal, refuse_node
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.pending_records import PendingPayload
from ackwire.store.journal.presence import Misplaced
from ackwire.store.journal.reads import Reads
from ackwire.store.journal.record import RecordKind, pack_numbers
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.recorder import JournalRecorder
from ackwire.store.journal.recovery_report import Report
from ackwire.store.journal.space import Space
from ackwire.store.journal.state_recording import StateRecording
from ackwire.util.clock import Clock

_TICK_SECONDS: Final = 1.0


@final
class JournalStore(JournalRecorder):
    """Implements `Store` on files. `open` makes one.

    `journal`, `buffer`, `states` and `space` are for the offline tools, which look closer than the contract lets them.
    """

    pages = True
    message_bytes_max: int | None = None

    def __init__(
        self,
        journal: OpenJournal,
        state: FailureState,
        *,
        options: JournalOptions,
        clock: Clock,
        at_turn_end: AtTurnEnd | None,
        writing: Background,
        indexing: Background,
        reading: Background,
        quorum: Quorum | None,
    ) -> None:
        buffer = RecordBuffer(journal.catalog)
        commit = GroupCommit(
            buffer,
            journal.writer,
            journal.catalog,
            state,
            journal.presence,
            clock=clock,
            at_turn_end=at_turn_end,
            policy=options.sync,
            background=writing,
            quorum=quorum,
        )
        states = StateRecording(journal.catalog, buffer)
        release = GradualRelease(clock)
        super().__init__(journal, buffer, states, commit, state, release)
        self.journal = journal
        self._presence = journal.presence
        self._options = options
        self._clock = clock
        self._backgrounds = (writing, indexing, reading)
        self._is_closed = False
        self._has_quorum = quorum is not None
        self._checkpointing = Checkpointing(
            journal, buffer, commit, state, options=options, background=indexing, clock=clock, release=release
        )
        self.space = Space(journal, self._checkpointing, state, options=options, background=indexing)
        self._reads = Reads(journal, buffer, state, reading)
        self._restore = CatalogRestore(journal.catalog, journal.form, clock.now_ms, self._load_one)
        self._compaction = Compaction(
            journal,
            buffer,
            states,
            commit,
            self._checkpointing,
            state,
            on_freed=self.space.check,
            background=indexing,
            clock=clock,
        )
        commit.on_written = self._wrote
        commit.on_drained = self.space.tell_of_room
        self._checkpointing.on_done = self._checkpoint_done
        self.on_checkpoint: Callable[[], None] | None = None
        """Called after each checkpoint: what it tells of is durable here, and where a quorum has to confirm it."""

    # ---- beginning ---------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
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
        at_turn_end: AtTurnEnd | None = None,
        reading: Background | None = None,
        quorum: Quorum | None = None,
        lock: Lock | None = None,
    ) -> "JournalStore":
        """Open the store in *data* and recover. *open_index* opens the index, or with True a new one. *at_turn_end*
        runs something when all that the loop has read is acted upon; by default the clock does, without delay.
        *reading* serves `fetch`; without it, that reads on the spot. With a *quorum*, nothing is durable before that
        confirms it, and nothing should be sent before it has confirmed the first record. A *lock* that is held already
        is not taken again.

        Raises `UnusableStore` if the files cannot be used, or another broker uses them.
        """
        refuse_node(files, data)
        source = JournalSource(files, data, form, open_index, clock.now_ms, new_id, holder, lock)
        journal = open_journal(source, options)
        store = cls(
            journal,
            FailureState(data, on_failed),
            options=options,
            clock=clock,
            at_turn_end=at_turn_end,
            writing=writing,
            indexing=indexing,
            reading=reading or OnTheSpot(),
            quorum=quorum,
        )
        try:
            store.begin_epoch()
        except BaseException:
            store.abandon()
            raise
        return store

    def begin_epoch(self, begun: Callable[[], None] = lambda: None) -> None:
        """Begin a new epoch, on the medium before anything else is: what was cut off can never come back.

        With a quorum that takes a while: it calls *begun* when that has the first record of the epoch.
        """
        for info in self._catalog.place_by_id.values():
            info.dispatched_before = info.dispatched_up_to
        now_and_sequence = pack_numbers((self._clock.now_ms(), self._catalog.last_sequence))
        self.buffer.add(PendingPayload(RecordKind.OPENED, now_and_sequence))
        if self.journal.was_cut_off:
            self.buffer.count(CRASH_KEY, self._clock.now_ms())
        if self._has_quorum:
            self._commit.begin_with_quorum(partial(self._epoch_began, begun))
        else:
            self._commit.write()
            self._commit.sync_on_the_spot()
            self._state.require_good()
            self._epoch_began(begun)
        self._clock.call_later(_TICK_SECONDS, self._tick)
        if self._options.sync is SyncPolicy.PERIODIC:
            self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)

    def _epoch_began(self, begun: Callable[[], None]) -> None:
        self._checkpointing.begin()
        self.space.check()
        begun()

    @property
    def epoch(self) -> int:
        """How often this store was opened."""
        return self._writer.epoch

    @property
    def is_first_start(self) -> bool:
        """Whether this store was never opened before."""
        return self._writer.epoch == 1

    @property
    def report(self) -> Report:
        """What recovery found and did."""
        return self.journal.report

    # ---- as time passes ----------------------------------------------------------------------------------------

    def _wrote(self, size_bytes: int) -> None:
        self.space.wrote()
        self._checkpointing.wrote(size_bytes)

    def _checkpoint_done(self) -> None:
        if self.on_checkpoint is not None:
            self.on_checkpoint()
        self._compaction.checkpoint_done()

    def _tick(self) -> None:
        if self._is_closed or self._state.failure is not None:
            return
        self._clock.call_later(_TICK_SECONDS, self._tick)
        if not self._check_places():
            return
        self.space.make_spare()
        self._checkpointing.try_again()
        self.space.check()
        if self._checkpointing.is_due or (self._checkpointing.has_news and self.space.full_because is not None):
            self._checkpointing.begin()
        elif self._checkpointing.is_idle:
            self._compaction.begin()

    def _check_places(self) -> bool:
        """Whether everything is where the next start will look for it, also what is seldom checked."""
        try:
            self._presence.check_all()
            if self._writer.cut_off is not None:
                raise Misplaced(self._writer.cut_off)
        except Misplaced as error:
            self._state.fail("find", error)
            return False
        return True

    def _sync_periodically(self) -> None:
        if not self._is_closed and self._state.failure is None:
            self._clock.call_later(self._options.sync_interval_seconds, self._sync_periodically)
            self._commit.sync_periodically()

    # ---- durability --------------------------------------------------------------------------------------------

    @property
    def durability(self) -> DurabilityState:
        return self._commit.durability

    @property
    def failure(self) -> StoreFailed | None:
        return self._state.failure

    def fail(self, what: str, error: Exception) -> None:
        """Promise nothing any more, because *what* could not be done to the journal."""
        self._state.fail(what, error)

    def freeze(self) -> None:
        """Write nothing more from this moment on; `give_up` follows, when clients cannot hear of it any more."""
        self._commit.is_frozen = True

    def give_up(self, failure: StoreFailed) -> None:
        """Promise nothing any more and write nothing more, because another broker may use the files."""
        self._state.fail_with(failure)

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,
    ) -> None:
        self._commit.when_durable(callback, on_failed, sync)

    def cancel(self, callback: Callable[[], None]) -> bool:
        return self._commit.cancel(callback)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        self._commit.before_write, self._commit.on_durable = before_write, on_durable

    # ---- space, files ------------------------------------------------------------------------------------------

    def full(self) -> str | None:
        buffer = self.buffer
        if buffer.size_bytes > buffer.full_above:
            return buffer.full_because(self.journal.data)
        return self.space.full_because

    def on_room(self, callback: Callable[[], None]) -> None:
        self.space.on_room(callback)

    @property
    def used_bytes(self) -> int:
        return self.space.used_bytes

    @property
    def bytes_max(self) -> int:
        return self._options.bytes_max

    def database(self) -> None:
        """See `Administration`."""

    def checkpoint(self) -> None:
        self._checkpointing.begin()

    def files(self) -> list[FileInfo]:
        return explain(
            self._catalog,
            active=self._writer.segment,
            sent_ms=self._reads.sent_ms,
            examined_max=EXAMINED_MAX,
            is_running=True,
        )

    # ---- what was kept -----------------------------------------------------------------------------------------

    def has_crashed(self, within_seconds: float) -> bool:
        return self._restore.has_crashed(within_seconds)

    def places(self) -> list[Place]:
        return self._restore.places()

    def waiting(self, place: Place) -> Iterator[WaitingMessage]:
        return self._restore.waiting(place)

    def waiting_portions(self, place: Place) -> Iterator[WaitingMessages]:
        return self._restore.waiting_portions(place)

    def durables(self) -> list[DurableRecord]:
        return self._restore.durables()

    def jobs(self) -> list[ScheduledJob]:
        return self._restore.jobs()

    def prepared(self) -> list[PreparedTransaction]:
        return self._restore.prepared()

    def state_records(self) -> list[StateRecord]:
        return self._restore.state_records()

    def last_counts(self) -> list[tuple[bytes, int]]:
        return self._restore.last_counts()

    def commits(self) -> list[Hashable]:
        return self._restore.commits()

    def dispatched_up_to(self, place: Place) -> int:
        return self._restore.dispatched_up_to(place)

    def last_sequence(self) -> int:
        return self._catalog.last_sequence

    # ---- reading -----------------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        return self._reads.load(place, sequences)

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        self._reads.fetch(place, sequences, on_loaded, on_failed)

    def _load_one(self, place: Place, sequence: int) -> Message | None:
        return self._reads.load(place, [sequence])[0]

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        return self._reads.read(place, sequences)

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write and sync everything, let the index catch up, vouch for it."""
        if self._is_closed:
            return
        if self._state.failure is not None:
            self.abandon()
            return
        self._compaction.stop()
        self._finish_background()
        self.buffer.add(PendingPayload(RecordKind.CLOSED, pack_numbers((self._catalog.last_sequence,))))
        self._commit.write()
        self._commit.sync_on_the_spot()
        self._checkpointing.begin()
        self._finish_background()
        self._let_go(clean=self._is_good and self._check_places())
        self._state.require_good()

    @property
    def _is_good(self) -> bool:
        return self._state.failure is None

    def _finish_background(self) -> None:
        for background in self._backgrounds:
            background.finish()

    def abandon(self, remove: Callable[[], None] | None = None) -> None:
        """Let go of everything, and vouch for nothing; *remove* takes the files away while the lock is still held."""
        if not self._is_closed:
            self._finish_background()
            self._let_go(clean=False, remove=remove)

    def _let_go(self, *, clean: bool, remove: Callable[[], None] | None = None) -> None:
        self._is_closed = True
        self._commit.stop()
        self.journal.close(clean=clean)
        if remove is not None:
            remove()
        self.journal.lock.release()
