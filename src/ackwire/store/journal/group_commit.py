"""Group commit: one write, one sync, and then all who wait for it are answered (SEMANTICS K1, K7).

At the end of the loop's turn the buffer is written and synced, and everyone who waits is called: one sync serves all
that came in that turn, and a lone producer waits for no other. Where syncs are quick they are done on the loop, because
going to a thread and back takes as long; where they are slow the thread does them, and what comes meanwhile is the next
group. Records that no caller waits for are written a moment later, so that a message which is consumed by then is not
written at all.

A long buffer, as it collects behind a slow sync, is written in portions, one in each turn of the loop and cut between
groups of records (`portions.py`). The sync follows the last one.

What is on the local medium is durable, unless a `Quorum` has to confirm it: that is the seam for replication.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, final

from ackwire.errors import StoreFailed
from ackwire.store.background import Background
from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Position
from ackwire.store.contract import DurabilityState, Sync
from ackwire.store.files import DataFile
from ackwire.store.journal.answers import Answers, AtTurnEnd, Waiter, call_all
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.lazy_timer import LazyTimer
from ackwire.store.journal.options import SyncPolicy
from ackwire.store.journal.portions import Portions
from ackwire.store.journal.presence import Misplaced, Presence
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.writer import JournalWriter
from ackwire.util.clock import Clock, Timer

_SOON_SECONDS: Final = 0.02
"""How long a record may wait to be written that no caller waits for."""

_MOMENT_SECONDS: Final = 0.001
"""How long nothing is done for what will probably be cancelled. Loops have no shorter timers."""

_QUICK_SYNC_SECONDS: Final = 0.0005
"""Syncs that take less on average are done on the loop: a thread would not be faster."""


class JournalEnd(NamedTuple):
    """How far the journal goes: behind its last record."""

    epoch: int
    number: int
    """Of the last record."""
    segment: int
    offset: int


class Quorum(Protocol):
    """Other copies of the journal, enough of which must have a record before it is durable."""

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        """The local medium has everything up to *end*: call *confirmed*, on the loop, when enough others have it too.
        Confirmations come in order; what is asked may be lower than what was asked before. If one never comes, the
        callers of `when_durable` wait, and the store must be failed by the one who knows (`JournalStore.fail`)."""
        ...


@final
class GroupCommit:
    """Writes the buffer, syncs, and answers."""

    def __init__(
        self,
        buffer: RecordBuffer,
        writer: JournalWriter,
        catalog: Catalog,
        state: FailureState,
        presence: Presence,
        *,
        clock: Clock,
        at_turn_end: AtTurnEnd | None,
        policy: SyncPolicy,
        background: Background,
        quorum: Quorum | None,
    ) -> None:
        self._buffer = buffer
        self._writer = writer
        self._state = state
        self._presence = presence
        self._clock = clock
        self._at_turn_end: AtTurnEnd = at_turn_end or partial(clock.call_later, 0)
        self._always_syncs = policy is SyncPolicy.ALWAYS
        self._background = background
        self._quorum = quorum
        self.before_write: Callable[[], int] | None = None
        self.on_durable: Callable[[int], None] | None = None
        self.on_written: Callable[[int], None] | None = None
        """Told the bytes of each write, when it is done."""
        self.on_drained: Callable[[], None] | None = None
        """Called soon after a buffer was written that was full."""
        self.portions = Portions(buffer)
        self._is_writing_portion = False
        self._when_written: list[Callable[[], None]] = []
        self._waiters: list[Waiter] = []
        self._syncing: list[Waiter] = []
        """Those that the thread syncs for."""
        self.answers = Answers(clock, self._at_turn_end, self._all_are_answered)
        self._unconfirmed: deque[tuple[int, list[Waiter]]] = deque()
        """Last record and waiters of each sync that the quorum has not confirmed."""
        self._is_urgent = False
        """Whether some of the waiters can only be answered by a sync."""
        self.is_frozen = False
        """Whether nothing is written any more, although the store has not failed yet."""
        self.durability = DurabilityState(catalog.last_sequence)
        self.appended_sequence = catalog.last_sequence
        self._written_sequence = 0
        """The highest of a message appended before the last write."""
        self._writes: deque[tuple[int, int, int | None]] = deque()
        """Of each write that is not durable yet: its last record, the highest sequence of a message appended by then,
        and what `before_write` returned."""
        self._urgent_flush: Timer | None = None
        self._flush_is_urgent = False
        self._moment = LazyTimer(
            clock, _MOMENT_SECONDS, is_needed=lambda: bool(self._waiters), callback=self._flush_now
        )
        """By its end a caller that can wait will hardly wait any more; there is one at most, and others do not wait."""
        self._later = LazyTimer(
            clock,
            _SOON_SECONDS,
            is_needed=lambda: not (self._is_on_medium or self._flush_is_urgent),
            callback=self._flush,
        )
        """For records that no caller waits for."""
        self._is_syncing = False
        self._is_checkpoint_syncing = False
        self._sync_seconds = 0.0
        buffer.on_first = self._later.set
        buffer.on_many = self._flush_now
        state.tell_waiters = self._tell_all

    # ---- promises ----------------------------------------------------------------------------------------------

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,
    ) -> None:
        """See `Durability`."""
        failure = self._state.failure
        if failure is not None:
            if on_failed is not None:
                on_failed(failure)
        elif not self._buffer.records and self._is_durable:
            self.answers.give([(callback, on_failed)]) if self.answers.is_giving else callback()
        else:
            self._waiters.append((callback, on_failed))
            self.durability.has_waiters = True
            if sync is Sync.DELAYED:
                self._moment.set()
                return
            self._is_urgent = self._is_urgent or sync is Sync.NOW
            if not self._flush_is_urgent:
                self._flush_now()

    def cancel(self, callback: Callable[[], None]) -> bool:
        """See `Durability`."""
        for waiters in (self._waiters, self._syncing, *(it for _, it in self._unconfirmed)):
            for waiter in waiters:
                if waiter[0] is callback:
                    waiters.remove(waiter)
                    self.durability.has_waiters = self._has_waiters
                    return True
        return self.answers.cancel(callback)

    @property
    def _has_waiters(self) -> bool:
        return bool(self._waiters or self._syncing or any(waiters for _, waiters in self._unconfirmed))

    def _set_syncing(self, *, for_callers: bool, for_checkpoint: bool) -> None:
        self._is_syncing, self._is_checkpoint_syncing = for_callers, for_checkpoint
        self.durability.is_syncing = for_callers or for_checkpoint

    @property
    def _is_durable(self) -> bool:
        if self._quorum is not None and self._writes:
            return False
        return self._is_on_medium

    @property
    def _is_on_medium(self) -> bool:
        """Whether nothing is left to do here; a quorum may still have to confirm."""
        if self._buffer.records or self._waiters:
            return False
        return not self._always_syncs or (
            not self._is_syncing and self._writer.synced_number == self._writer.last_number
        )

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call *callback* when everything is on the medium, whatever producers are promised: files may go then."""
        if self._always_syncs:
            self.when_durable(callback)
        elif self._is_syncing:
            self._clock.call_later(_SOON_SECONDS, lambda: self.when_synced(callback))
        else:
            self.when_written(lambda: self._sync_written(callback))

    def _sync_written(self, callback: Callable[[], None]) -> None:
        if self._is_syncing:  # one that has begun meanwhile
            self.when_synced(callback)
        else:
            self._sync_beside([(callback, None)])

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call *callback* when the buffer is empty, because all of it is written: at once if little waits, and within a
        number of turns otherwise, whatever sync is under way. Not if the store has failed by then."""
        if self._state.failure is not None:
            return
        if not self._is_writing_portion and not self._when_written and self.portions.one_is_enough:
            if not self._buffer.records or self.write():
                callback()
            return
        self._when_written.append(callback)
        if not self._is_writing_portion and not self._flush_is_urgent:
            self._flush_is_urgent = True
            self._urgent_flush = self._clock.call_later(0, self._flush)

    # ---- when to write -----------------------------------------------------------------------------------------

    def _flush_now(self) -> None:
        """At the end of this turn, when all that the sockets had is recorded."""
        if not self._flush_is_urgent:
            self._flush_is_urgent = True
            self._urgent_flush = self._at_turn_end(self._flush)

    def _flush(self) -> None:
        """Write the buffer, a portion of it in each turn, then sync."""
        self.portions.begin()
        self._flush_portion()

    def _flush_portion(self) -> None:
        self._urgent_flush = None
        self._flush_is_urgent = False
        is_held_up = self._is_syncing and self._always_syncs
        if self._state.failure is not None or (is_held_up and not self._when_written):
            return  # what is in the buffer is the next group
        self._is_writing_portion = True
        is_written = self.write(self.portions.next())
        self._is_writing_portion = False
        if not is_written:
            return
        if self._buffer.records:
            self.portions.begin()
            self._flush_is_urgent = True
            self._urgent_flush = self._clock.call_later(0, self._flush_portion)
            return
        if is_held_up:
            return
        if self._always_syncs:
            self._sync()
        elif self.is_in_place():
            self._medium_has(self._writer.last_number, self._take_waiters())

    # ---- writing -----------------------------------------------------------------------------------------------

    def write(self, first: int | None = None) -> bool:
        """Write what is in the buffer, or the *first* so many records; False if that failed, or is over."""
        if self.is_frozen:
            return False
        mark = None if self.before_write is None else self.before_write()
        self._buffer.record_last_sequence(first, self._clock.now_ms)
        if first is None:
            self._written_sequence = self.appended_sequence
            if self._buffer.full_above < self._buffer.full_bytes:
                self._buffer.full_above = self._buffer.full_bytes
                if self.on_drained is not None:
                    self._clock.call_later(0, self.on_drained)
        else:
            mark = None  # it may be about records behind them
        records = self._buffer.take(first)
        before, payload_bytes = self._writer.last_number, self._writer.payload_bytes
        try:
            self._writer.write(records)
            self._buffer.are_written(records)
        except Exception as error:  # whatever it is: records are missing, and must not be answered for
            self._state.fail("write to", error)
            return False
        self._writes.append((self._writer.last_number, self._written_sequence, mark))
        if self._writer.last_number != before and self.on_written is not None:
            self.on_written(self._writer.payload_bytes - payload_bytes)
        if self._when_written and first is None:
            callbacks, self._when_written = self._when_written, []
            for callback in callbacks:
                callback()
        return True

    def write_before_removal(self) -> None:
        """Write what the group that is being recorded is about to remove (`RecordBuffer.must_write_before_removal`)."""
        buffer = self._buffer
        self.write(buffer.group_started_at if buffer.depth else None)
        buffer.group_started_at = 0
        self._state.require_good()

    # ---- syncing -----------------------------------------------------------------------------------------------

    def _take_waiters(self) -> list[Waiter]:
        waiters, self._waiters, self._is_urgent = self._waiters, [], False
        return waiters

    def _sync(self) -> None:
        """Sync what is written, on the loop where that is quick and urgent, and answer.

        Never beside a sync of the thread: if that one fails, its error is told once, the system drops what was to be
        written, and a later sync of the same file succeeds. The thread's outcomes come in order.
        """
        if self._is_urgent and self._sync_seconds < _QUICK_SYNC_SECONDS and not self._is_checkpoint_syncing:
            number = self._writer.last_number
            try:
                self._timed_sync(self._writer.unsynced())
            except Exception as error:
                self._state.fail("sync", error)
                return
            if self.is_in_place():
                self._writer.synced_up_to(number)
                self._medium_has(number, self._take_waiters())
            return
        waiters = self._syncing = self._take_waiters()
        self._sync_beside(waiters)

    def _sync_beside(self, waiters: list[Waiter]) -> None:
        """Have the thread sync all that is written, for *waiters*."""
        self._set_syncing(for_callers=True, for_checkpoint=self._is_checkpoint_syncing)
        work = partial(self._timed_sync, self._writer.unsynced())
        self._background.submit(work, partial(self._synced, waiters, self._writer.last_number))

    def _timed_sync(self, files: list[DataFile]) -> None:
        before = self._clock.monotonic()
        for file in files:
            file.sync()
        self._sync_seconds += (self._clock.monotonic() - before - self._sync_seconds) / 8

    def _synced(self, waiters: list[Waiter], number: int, error: Exception | None) -> None:
        self._set_syncing(for_callers=False, for_checkpoint=self._is_checkpoint_syncing)
        self._syncing = []
        self.close_idle_files()
        later, self._waiters = self._waiters, waiters + self._waiters  # a failure is told to all of them
        if error is not None or self._state.failure is not None:
            self._state.fail("sync", error or self._state.failure)
            return
        if not self.is_in_place():
            return
        self._waiters = later
        self._writer.synced_up_to(number)
        if not self._buffer.records and self._writer.synced_number == self._writer.last_number:
            waiters += self._take_waiters()  # they came later, and nothing new came with them
        self._medium_has(number, waiters)
        if self._waiters:
            self._flush_now()
        elif self._buffer.records:
            self._later.keep()

    def sync_periodically(self) -> None:
        """Sync what is written, for `SyncPolicy.PERIODIC`."""
        if not self._is_syncing and self._writer.unsynced():
            self._sync_beside([])

    def sync_for_checkpoint(self, done: Callable[[Exception | None], None]) -> None:
        """Have the thread sync all that is written, then call *done*: the index must never know more than the journal.
        Answers wait for a sync of their own."""
        files = self._writer.unsynced()

        def sync() -> None:
            for file in files:
                file.sync()

        def synced(error: Exception | None) -> None:
            self._set_syncing(for_callers=self._is_syncing, for_checkpoint=False)
            done(error)

        self._set_syncing(for_callers=self._is_syncing, for_checkpoint=True)
        self._background.submit(sync, synced)

    def begin_with_quorum(self, begun: Callable[[], None]) -> None:
        """Write the first record of an epoch, have the thread sync it, and call *begun* when the quorum has it."""
        if self.write():
            self._sync_beside([(begun, lambda _: None)])

    def when_confirmed(self, position: Position, confirmed: Callable[[], None]) -> None:
        """Call *confirmed* when the quorum has everything up to *position*, which the local medium has."""
        if self._quorum is None:
            confirmed()
        else:
            end = JournalEnd(position.epoch, position.number, position.segment, position.offset)
            self._quorum.confirm(end, confirmed)

    def sync_on_the_spot(self) -> None:
        """Sync and answer before anything else happens: at the start, and at the end."""
        if self._state.failure is not None:
            return
        number = self._writer.last_number
        try:
            for file in self._writer.unsynced():
                file.sync()
        except Exception as error:
            self._state.fail("sync", error)
            return
        if self.is_in_place():
            self._writer.synced_up_to(number)
            waiters = self._take_waiters()
            if self._quorum is None:
                self._is_durable_up_to(number)
                self.durability.has_waiters = False
                self.answers.finish()
                call_all([callback for callback, _ in waiters])
            else:
                self._medium_has(number, waiters)
                self.answers.finish()

    def close_idle_files(self) -> None:
        """Let go of files that are synced for good, unless a sync is under way."""
        if not self.durability.is_syncing:
            self._writer.close_idle()

    def is_in_place(self) -> bool:
        """Whether the next start will find what was written: no caller is answered before that is known."""
        try:
            self._presence.check()
        except Misplaced as error:
            self._state.fail("find", error)
            return False
        return True

    # ---- answering ---------------------------------------------------------------------------------------------

    def _medium_has(self, number: int, waiters: list[Waiter]) -> None:
        """The local medium has every record up to *number*, for which *waiters* wait."""
        if self._quorum is None:
            self._is_durable_up_to(number)
            self._answer(waiters)
            return
        self._unconfirmed.append((number, waiters))
        writer = self._writer
        end = JournalEnd(writer.epoch, number, writer.segment, writer.offset)
        self._quorum.confirm(end, partial(self._confirmed, number))

    def _confirmed(self, number: int) -> None:
        """Enough copies have every record up to *number*."""
        while self._unconfirmed and self._unconfirmed[0][0] <= number and self._state.failure is None:
            up_to, waiters = self._unconfirmed.popleft()
            self._is_durable_up_to(up_to)
            self._answer(waiters)

    def _is_durable_up_to(self, number: int) -> None:
        durability = self.durability
        durable_mark = None
        while self._writes and self._writes[0][0] <= number:
            _, sequence, mark = self._writes.popleft()
            durability.durable_sequence = max(durability.durable_sequence, sequence)
            durable_mark = durable_mark if mark is None else mark
        if durable_mark is not None and self.on_durable is not None:
            self.on_durable(durable_mark)

    def _answer(self, waiters: list[Waiter]) -> None:
        self.durability.has_waiters = bool(self._waiters or self._unconfirmed)
        self.answers.give(waiters)
        if self.answers.is_giving:
            self.durability.has_waiters = True

    def _all_are_answered(self) -> None:
        self.durability.has_waiters = self._has_waiters

    def _tell_all(self, failure: StoreFailed) -> None:
        """Tell everyone who waits; for those that the thread syncs for, its outcome is still to come."""
        unconfirmed = [waiter for _, waiters in self._unconfirmed for waiter in waiters]
        self._unconfirmed.clear()
        _tell_failure(unconfirmed + self._take_waiters(), failure)

    def stop(self) -> None:
        """Do nothing more on time."""
        self.answers.stop()
        for timer in (self._later, self._urgent_flush, self._moment):
            if timer is not None:
                timer.cancel()


def _tell_failure(waiters: list[Waiter], failure: StoreFailed) -> None:
    call_all([partial(on_failed, failure) for _, on_failed in waiters if on_failed is not None])
