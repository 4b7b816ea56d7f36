"""Checkpoints: the database catches up with the journal, one transaction at a time (SEMANTICS K4, ADR 18).

The journal answers. The changes collect here, each row in its final state, until a checkpoint writes them in one
transaction beside the mark. What was consumed by then is in no row. A transaction that fails is kept and repeated as it
is; meanwhile the next one fills.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.store.background import Background
from ackwire.store.contract import DurabilityState, Sync
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal_sql.frame_reader import UnreadableFrame
from ackwire.store.journal_sql.log import Log
from ackwire.store.sql.changes import Changes
from ackwire.store.sql.commit import failure_of
from ackwire.store.sql.errors import Superseded
from ackwire.store.sql.group_commit import TransactionWriter
from ackwire.store.sql.journal_mark import MARK_ID
from ackwire.store.sql.memory import RecordKind
from ackwire.util.clock import Clock

_ROWS_MAX: Final = 100_000
"""Changes of rows that begin a checkpoint by themselves: about 40 MB of memory."""

_ROWS_FULL: Final = 2_000_000
"""Producers wait when so many changes of rows wait for a database that is away: about 1 GB of memory."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """When the database catches up."""

    seconds: float = 30.0
    """At the latest so long after the last checkpoint."""
    journal_bytes: int = 256 << 20
    """Or when so much was written to the journal since then."""


@final
class JournaledCommit:
    """Implements `Commit`: the journal makes changes durable, transactions follow."""

    def __init__(
        self,
        writer: TransactionWriter,
        background: Background,
        clock: Clock,
        state: FailureState,
        options: CheckpointOptions,
        *,
        complete: Callable[[Changes], None],
        run_id: str,
    ) -> None:
        self._writer = writer
        self._background = background
        self._clock = clock
        self._state = state
        self._options = options
        self._complete = complete
        self._run_id = run_id
        self._log: Log | None = None
        self.filling = Changes()
        self.in_flight: Changes | None = None
        self.appended_sequence = 0
        self.depth = 0
        self._recorded = self._taken = 0
        """How much was recorded, and how much of it a checkpoint has taken."""
        self._number = 0
        self._segment = 0
        """The database needs no segment before this one, when the transaction under way is committed."""
        self._began_at = clock.monotonic()
        self._written_bytes = 0
        """To the journal, since the last checkpoint began."""
        self._is_writing = False
        self._is_asked_for = False
        """Whether a checkpoint begins when the journal's buffer is written."""
        self._is_last = False
        self.trouble: str | None = None
        """Why the transaction under way was not committed yet; it is repeated."""
        self.on_checkpoint: Callable[[int], None] = lambda _: None
        """Called with the first segment that is still needed."""

    @property
    def log(self) -> Log:
        assert self._log is not None, "the journal is not open yet"
        return self._log

    def begin(self, log: Log) -> None:
        """The journal is open: everything that is recorded from now on is in it."""
        self._log = log

    # ---- recording -------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> StoreFailed | None:
        return self._state.failure

    def require_good(self) -> None:
        """See `Commit`."""
        self._state.require_good()

    def record(self) -> Changes:
        """See `Commit`."""
        self._state.require_good()
        self._recorded += 1
        return self.filling

    def leave_group(self) -> None:
        """See `Commit`."""
        self.depth -= 1

    def begin_if_large(self) -> None:
        """See `Commit`."""
        if self.filling.row_count > _ROWS_MAX and self.in_flight is None and self._log is not None:
            self.checkpoint()

    def wrote(self, size_bytes: int) -> None:
        """So much was written to the journal."""
        self._written_bytes += size_bytes

    # ---- durability is the journal's -------------------------------------------------------------------------------

    @property
    def durability(self) -> DurabilityState:
        return self.log.commit.durability

    def when_durable(
        self, callback: Callable[[], None], on_failed: Callable[[StoreFailed], None] | None, sync: Sync
    ) -> None:
        self.log.commit.when_durable(callback, on_failed, sync)

    def cancel(self, callback: Callable[[], None]) -> bool:
        return self.log.commit.cancel(callback)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        self.log.commit.before_write, self.log.commit.on_durable = before_write, on_durable

    def full(self) -> str | None:
        """See `Commit`: a database that is away stops producers only when the journal is full."""
        reason = self.log.full()
        if reason is None and self.filling.row_count > _ROWS_FULL:
            reason = f"{self.filling.row_count} changes wait for the database, and {_ROWS_FULL} is the limit"
        trouble = self._writer.trouble or self.trouble
        return reason if reason is None or trouble is None else f"{reason}; {trouble}"

    @property
    def silent_seconds(self) -> float:
        """See `Commit`: no caller waits for the database."""
        return 0.0

    def when_room(self, callback: Callable[[], None]) -> None:
        self.log.space.on_room(callback)

    def fail(self, error: Exception) -> None:
        """See `Commit`."""
        self._state.fail_with(failure_of(error))

    def stop_timer(self) -> None:
        """See `Commit`: there is none."""

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether the database does not have everything."""
        return self.in_flight is not None or self._recorded != self._taken

    def tick(self) -> None:
        """Begin a checkpoint if one is due; repeat one that has failed."""
        is_time = self._clock.monotonic() - self._began_at >= self._options.seconds
        if self.in_flight is not None or is_time or self._written_bytes > self._options.journal_bytes:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Let the database catch up, beside the loop."""
        if self._state.failure is not None or self._is_writing:
            return
        if self.in_flight is not None:
            self._write(self.in_flight)
        elif self._recorded != self._taken and not self.depth and not self._is_asked_for:
            self._is_asked_for = True
            self.log.commit.when_written(self._take_if_none_is_under_way)

    def _take_if_none_is_under_way(self) -> None:
        self._is_asked_for = False
        if self.in_flight is None and not self._is_writing and self._state.failure is None:
            self._take()

    def _take(self) -> None:
        """Take what has collected. Its journal is synced first: the database must never know more than the journal."""
        log = self.log
        changes, self.filling = self.filling, Changes()
        self.in_flight = changes
        self._taken = self._recorded
        self._began_at, self._written_bytes = self._clock.monotonic(), 0
        self._number += 1
        changes.number = self._number
        self._complete(changes)
        mark = log.mark(self._run_id, is_drained=self._is_last)
        changes.records[MARK_ID] = (int(RecordKind.JOURNAL), mark.pack())
        self._segment = mark.segment
        self._is_writing = True
        log.sync(lambda: self._write(changes))

    def _write(self, changes: Changes) -> None:
        self._is_writing = True
        self._background.submit(lambda: self._writer.write(changes), self._done)

    def _done(self, error: Exception | None) -> None:
        self._is_writing = False
        if isinstance(error, Superseded):
            self.fail(error)
        elif isinstance(error, UnreadableFrame):
            self._state.fail("read", error)
        elif error is not None:
            self._keep(error)
        else:
            if self.trouble is not None:
                _log.info("the database takes what the journal has again")
            self.in_flight = self.trouble = None
            self.on_checkpoint(self._segment)
            self.begin_if_large()

    def _keep(self, error: Exception) -> None:
        """The transaction is kept as it is; the next tick repeats it."""
        if self.trouble is None:
            _log.warning("a checkpoint has failed and will be repeated; the journal has everything: %s", error)
        self.trouble = f"the database takes nothing at the moment: {error}"

    def finish(self) -> None:
        """See `Commit`; also returns when the database takes nothing."""
        assert not self.depth, "a group is open"
        self.trouble = None
        while self._may_go_on():
            self.log.write()
            self.checkpoint()
            self.log.finish()
            self._background.finish()

    def _may_go_on(self) -> bool:
        return self._state.failure is None and self.has_news and self.trouble is None

    def finish_for_good(self) -> None:
        """The same for the last time: the mark says that the journal has nothing more."""
        self.finish()
        if self.trouble is None and self._state.failure is None:
            self._is_last = True
            self.record().is_open = False
            self.finish()
