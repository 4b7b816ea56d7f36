"""One transaction carries everything that was recorded; what is recorded while it commits fills the next one.

A transaction begins at the end of the loop's turn if a caller waits for it, and otherwise a moment later: a message
that is consumed in that moment is never written. All state here belongs to the loop; the writer works beside it.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from ackwire.errors import StoreFailed
from ackwire.store.background import Background
from ackwire.store.contract import DurabilityState, Sync
from ackwire.store.sql.changes import Changes
from ackwire.store.sql.commit import failure_of
from ackwire.util.clock import Clock, Timer

_IDLE_SECONDS: Final = 0.02
"""How long records wait that no caller waits for: acks, and sends without a response. Long enough for quick consumers,
short enough that few records are lost with the process."""

_FRAME_BYTES_MAX: Final = 4 << 20
"""Message bytes that begin a transaction by themselves."""

_ROWS_MAX: Final = 10_000
"""Rows that do so."""

_SILENT_SECONDS_MAX: Final = 2.0
"""A transaction that takes longer holds producers up: what they send meanwhile would only fill memory."""

_log = logging.getLogger(__name__)

Waiter = tuple[int, Callable[[], None], Callable[[StoreFailed], None] | None]


class TransactionWriter(Protocol):
    """Executes `Changes` (`writer.py`)."""

    @property
    def description(self) -> str:
        """The database, without credentials."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing is written at the moment, as a sentence."""
        ...

    def write(self, changes: Changes) -> None:
        """Return when *changes* are committed; called beside the loop. Raises if they never will be."""
        ...


@final
class GroupCommit:
    """Who waits, what is recorded, and the transaction under way."""

    def __init__(
        self,
        writer: TransactionWriter,
        background: Background,
        clock: Clock,
        *,
        complete: Callable[[Changes], None],
        on_failed: Callable[[StoreFailed], None],
        at_turn_end: Callable[[Callable[[], None]], object] | None,
        last_sequence: int,
    ) -> None:
        self._writer = writer
        self._background = background
        self._clock = clock
        self._complete = complete
        """Adds to changes what is only known when they are written."""
        self._on_failed = on_failed
        self._at_turn_end = at_turn_end
        self.failure: StoreFailed | None = None
        self.filling = Changes()
        self.in_flight: Changes | None = None
        self.depth = 0
        """How many `atomically` blocks are open."""
        self._recorded = self._durable = 0
        """How much was recorded, and how much of it is durable."""
        self._number = 0
        self._began = 0.0
        """When the transaction under way began."""
        self._waiters: list[Waiter] = []
        self._is_turn_noted = False
        self._idle_timer: Timer | None = None
        self._on_room: list[Callable[[], None]] = []
        self._was_full = False
        self.before_write: Callable[[], int] | None = None
        self.on_durable: Callable[[int], None] | None = None
        self.durability = DurabilityState(last_sequence)
        self.appended_sequence = last_sequence

    # ---- recording -------------------------------------------------------------------------------------------------

    def require_good(self) -> None:
        """Raise `StoreFailed` once the store has failed."""
        if self.failure is not None:
            raise self.failure

    def record(self) -> Changes:
        """The changes that a verb adds to. Raises `StoreFailed` once the store has failed."""
        self.require_good()
        self._recorded += 1
        if self._idle_timer is None and self.in_flight is None:
            self._idle_timer = self._clock.call_later(_IDLE_SECONDS, self._on_idle)
        return self.filling

    def _on_idle(self) -> None:
        self._idle_timer = None
        self._begin()

    def leave_group(self) -> None:
        self.depth -= 1
        if not self.depth and self._waiters:
            self._note_turn()

    # ---- who waits -------------------------------------------------------------------------------------------------

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None,
        sync: Sync = Sync.NOW,  # noqa: ARG002 - a transaction is always beside the loop
    ) -> None:
        if self.failure is not None:
            if on_failed is not None:
                on_failed(self.failure)
        elif self._durable == self._recorded:
            callback()
        else:
            self._waiters.append((self._recorded, callback, on_failed))
            self.durability.has_waiters = True
            self._note_turn()

    def cancel(self, callback: Callable[[], None]) -> bool:
        cancelled = [it for it in self._waiters if it[1] is callback]
        for it in cancelled:
            self._waiters.remove(it)
        self.durability.has_waiters = bool(self._waiters)
        return bool(cancelled)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """See `Durability`."""
        self.before_write, self.on_durable = before_write, on_durable

    def full(self) -> str | None:
        """Why nothing more should be sent: the database is away, or does not answer."""
        trouble = self._writer.trouble
        if trouble is None and self.silent_seconds > 0:
            trouble = f"the database {self._writer.description} has not answered for {self.silent_seconds:.0f} s"
        if trouble is not None:
            self._was_full = True
        return trouble

    @property
    def silent_seconds(self) -> float:
        """How long the transaction under way has taken, if that is too long; else 0."""
        waited = 0.0 if self.in_flight is None else self._clock.monotonic() - self._began
        return waited if waited > _SILENT_SECONDS_MAX else 0.0

    def when_room(self, callback: Callable[[], None]) -> None:
        self._on_room.append(callback)

    # ---- transactions ----------------------------------------------------------------------------------------------

    def _note_turn(self) -> None:
        """Begin a transaction when the turn ends, unless one is under way: its end begins the next."""
        if self.in_flight is not None or self._is_turn_noted:
            return
        if self._at_turn_end is None:
            self._begin()
        else:
            self._is_turn_noted = True
            self._at_turn_end(self._on_turn_end)

    def _on_turn_end(self) -> None:
        self._is_turn_noted = False
        self._begin()

    def begin_if_large(self) -> None:
        """Begin a transaction if it has become large."""
        filling = self.filling
        if self.in_flight is None and (filling.frame_bytes > _FRAME_BYTES_MAX or filling.row_count > _ROWS_MAX):
            self._begin()

    def _begin(self) -> None:
        if self.in_flight is not None or self.depth or self.failure is not None or self._recorded == self._durable:
            return
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        changes, self.filling = self.filling, Changes()
        self.in_flight = changes
        self.durability.is_syncing = True
        self._began = self._clock.monotonic()
        self._number += 1
        changes.number = self._number
        self._complete(changes)
        mark = None if self.before_write is None else self.before_write()
        recorded, appended = self._recorded, self.appended_sequence

        def done(error: Exception | None) -> None:
            self.in_flight = None
            self.durability.is_syncing = False
            if error is not None:
                self.fail(error)
                return
            self._durable, self.durability.durable_sequence = recorded, appended
            if mark is not None and self.on_durable is not None:
                self.on_durable(mark)
            self._answer()

        self._background.submit(lambda: self._writer.write(changes), done)

    def _answer(self) -> None:
        served = [it for it in self._waiters if it[0] <= self._durable]
        self._waiters = [it for it in self._waiters if it[0] > self._durable]
        self.durability.has_waiters = bool(self._waiters)
        for _, callback, _ in served:
            callback()
        if self._waiters:
            self._note_turn()
        elif self._recorded != self._durable:
            self.begin_if_large()
            if self.in_flight is None and self._idle_timer is None:
                self._idle_timer = self._clock.call_later(_IDLE_SECONDS, self._on_idle)
        if self._was_full and self._writer.trouble is None:
            self._was_full = False
            for callback in self._on_room:
                callback()

    def fail(self, error: Exception) -> None:
        """Promise nothing more (K7)."""
        if self.failure is not None:
            return
        failure = failure_of(error)
        self.failure = failure
        _log.critical("%s", failure)
        waiters, self._waiters = self._waiters, []
        for _, _, on_failed in waiters:
            if on_failed is not None:
                on_failed(failure)
        self._on_failed(failure)

    def finish(self) -> None:
        """Return when everything recorded so far is durable, or the store has failed."""
        assert not self.depth, "a group is open"
        while self.failure is None and (self.in_flight is not None or self._recorded != self._durable):
            self._begin()
            self._background.finish()

    def stop_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
