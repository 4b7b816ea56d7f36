"""The SQL store: messages in a database, in ActiveMQ's own tables (SEMANTICS K3, ADR 17).

Its parts: `recorder.py` (the verbs), `changes.py` (what a transaction does), `group_commit.py` (when it does it),
`writer.py` (in a thread, with a database that may go away), `reads.py`, `opening.py` and `restore.py`.
"""

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import Background
from ackwire.store.contract import (
    DatabaseState,
    DurabilityState,
    DurableRecord,
    FileInfo,
    OnLoaded,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    StoredFrame,
    Sync,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.sql.driver import Driver, Session
from ackwire.store.sql.errors import Locked, UnusableDatabase
from ackwire.store.sql.execution import Execution
from ackwire.store.sql.group_commit import GroupCommit
from ackwire.store.sql.opening import Opening
from ackwire.store.sql.reads import ReadingSession, Reads
from ackwire.store.sql.recorder import SqlRecorder
from ackwire.store.sql.restore import Restoring
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.schema import Tables, prepare_schema
from ackwire.store.sql.statements import Statements
from ackwire.store.sql.writer import Attempts, Writer
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """How a database is used."""

    run_id: str
    """New for each start, up to 250 characters."""
    table_prefix: str = ""
    create_tables: bool = True
    reconnect_seconds_max: float = 60
    """How long the database may be away before the store fails."""


@dataclass(frozen=True, slots=True)
class SqlSurroundings:
    """What a store works with."""

    make_form: Callable[[], RowForm]
    """One for each thread."""
    clock: Clock
    writing: Background
    reading: Background
    on_failed: Callable[[StoreFailed], None] = lambda _: None
    at_turn_end: Callable[[Callable[[], None]], object] | None = None


_LOCKED_SECONDS_MAX: Final = 5.0
"""How long a start waits for the lock: a server may need a moment to notice that the last run has ended."""

_LOCKED_PAUSE_SECONDS: Final = 0.02


def _first_session(driver: Driver, clock: Clock) -> Session:
    began = clock.monotonic()
    attempts_left = round(_LOCKED_SECONDS_MAX / _LOCKED_PAUSE_SECONDS)
    while True:
        try:
            return driver.connect(is_writer=True)
        except Locked:
            attempts_left -= 1
            if not attempts_left or clock.monotonic() - began > _LOCKED_SECONDS_MAX:
                raise
            threading.Event().wait(_LOCKED_PAUSE_SECONDS)


@final
class SqlStore(SqlRecorder):
    """Implements `Store` on a database."""

    pages = True
    used_bytes = 0
    bytes_max = 0

    @classmethod
    def open(cls, driver: Driver, surroundings: SqlSurroundings, options: SqlOptions) -> "SqlStore":
        """Open a database. Raises `UnusableDatabase`: then nothing in it has changed, but for tables that were made."""
        sessions: list[Session] = []
        try:
            sessions.append(_first_session(driver, surroundings.clock))
            sessions.append(driver.connect(is_writer=False))
            return cls(driver, sessions[0], sessions[1], surroundings, options)
        except Exception as error:
            for session in sessions:
                with suppress(Exception):
                    session.close()
            diagnosis = driver.diagnose(error)
            if isinstance(error, UnusableDatabase) or diagnosis.is_unforeseen:
                raise
            raise UnusableDatabase(
                f"{driver.description} cannot be used: {diagnosis.sentence}; check that the server runs, and address, "
                "database, user, password and privileges"
            ) from error

    def __init__(
        self,
        driver: Driver,
        session: Session,
        reading_session: Session,
        surroundings: SqlSurroundings,
        options: SqlOptions,
    ) -> None:
        names = Tables(options.table_prefix)
        statements = Statements(driver.dialect, names)
        prepare_schema(driver, session, names, create_tables=options.create_tables)
        self._form = surroundings.make_form()
        opening = Opening(session, statements, self._form)
        opening.read()
        opening.begin_run(options.run_id, surroundings.clock.now_ms())
        self.message_bytes_max = driver.message_bytes_max
        """The largest message that the database takes; None if there is no such limit."""
        self._clock = surroundings.clock
        self._crashed_ms = opening.crashed_ms
        self._catalog, self._memory = opening.catalog, opening.memory
        self._written_sequence = self._catalog.last_sequence
        self._lowest_id = opening.lowest_id
        self._closing = threading.Event()
        self._attempts = [
            Attempts(driver, surroundings.clock, options.reconnect_seconds_max, self._closing) for _ in range(2)
        ]
        """Of the writer, and of reads."""
        execution = Execution(statements, surroundings.make_form(), options.run_id)
        self._writer = Writer(driver, session, statements, execution, options.run_id, self._attempts[0])
        self._commit = GroupCommit(
            self._writer,
            surroundings.writing,
            surroundings.clock,
            complete=self._complete,
            on_failed=surroundings.on_failed,
            at_turn_end=surroundings.at_turn_end,
            last_sequence=self._catalog.last_sequence,
        )
        self._commit.filling = opening.changes
        self._reading = surroundings.reading
        self._reading_form = surroundings.make_form()
        self._session = ReadingSession(driver, reading_session, self._attempts[1])
        self._reads = Reads(self._catalog, self._commit, self._session, statements, self._form)
        self._restoring = Restoring(self._catalog, self._memory, self._reads, self._session, statements, self._form)

    # ---- durability ------------------------------------------------------------------------------------------------

    @property
    def durability(self) -> DurabilityState:
        return self._commit.durability

    @property
    def failure(self) -> StoreFailed | None:
        return self._commit.failure

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,  # noqa: ARG002 - a transaction is always beside the loop
    ) -> None:
        """See `Durability`."""
        self._commit.when_durable(callback, on_failed)

    def cancel(self, callback: Callable[[], None]) -> bool:
        """See `Durability`."""
        return self._commit.cancel(callback)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """See `Durability`."""
        self._commit.before_write, self._commit.on_durable = before_write, on_durable

    def close(self) -> None:
        """See `Durability`."""
        self._closing.set()  # a database that is away is not waited for as long as usual
        self._commit.finish()
        if self._commit.failure is None:
            self._commit.record().is_open = False
            self._commit.finish()
        self._commit.stop_timer()
        self._reading.finish()
        self._writer.close()
        self._session.close()
        self._commit.require_good()

    # ---- restore ---------------------------------------------------------------------------------------------------

    def has_crashed(self, within_seconds: float) -> bool:
        """See `Restore`."""
        return self._crashed_ms is not None and self._clock.now_ms() - self._crashed_ms <= within_seconds * 1000

    def places(self) -> list[Place]:
        """See `Restore`."""
        return list(self._catalog.places)

    def waiting(self, place: Place) -> Iterator[WaitingMessage]:
        """See `Restore`."""
        for portion in self.waiting_portions(place):
            yield from portion

    def waiting_portions(self, place: Place) -> Iterable[WaitingMessages]:
        """See `Restore`."""
        return self._restoring.waiting_portions(place)

    def durables(self) -> list[DurableRecord]:
        """See `Restore`."""
        return self._restoring.durables()

    def jobs(self) -> list[ScheduledJob]:
        """See `Restore`."""
        self._commit.finish()
        return self._restoring.jobs()

    def prepared(self) -> list[PreparedTransaction]:
        """See `Restore`."""
        self._commit.finish()
        return self._restoring.prepared()

    def state_records(self) -> list[StateRecord]:
        """See `Restore`."""
        self._commit.finish()
        return self._restoring.state_records()

    def last_counts(self) -> list[tuple[bytes, int]]:
        """See `Restore`."""
        return list(self._memory.counts.items())

    def commits(self) -> list[Hashable]:
        """See `Restore`."""
        return list(self._memory.commits)

    def dispatched_up_to(self, place: Place) -> int:
        """See `Restore`."""
        info = self._catalog.places.get(place)
        return 0 if info is None else info.dispatched_before

    def last_sequence(self) -> int:
        """See `Restore`."""
        return self._catalog.last_sequence

    # ---- reading ---------------------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        """See `Reader`."""
        return self._reads.load(place, sequences)

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        """See `Reader`."""
        return [None if it is None else (it.frame, it.redelivery_counter) for it in self.load(place, sequences)]

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        """See `Reader`."""
        reads = self._reads
        fetch = reads.begin(place, sequences)
        if fetch is None or not fetch.queries:
            on_loaded([None] * len(sequences) if fetch is None else reads.end(fetch))
            return

        def done(error: Exception | None) -> None:
            reads.under_way.remove(fetch)
            if error is not None:
                self._commit.fail(error)
            if self._commit.failure is not None:
                return
            try:
                loaded = reads.end(fetch)
            except Exception:
                if on_failed is None:
                    raise
                _log.exception("a read of %r has failed", place)
                on_failed()
            else:
                on_loaded(loaded)

        reads.under_way.append(fetch)
        self._reading.submit(lambda: reads.run(fetch, self._reading_form), done)

    # ---- operators -------------------------------------------------------------------------------------------------

    def files(self) -> list[FileInfo]:
        """See `Administration`: a database has none to explain."""
        return []

    def database(self) -> DatabaseState:
        """See `Administration`."""
        now = self._clock.monotonic()
        away = [now - it.away_since for it in self._attempts if it.away_since is not None]
        return DatabaseState(
            name=self._writer.description,
            away_seconds=max([self._commit.silent_seconds, *away]),
            reconnects=sum(it.reconnects for it in self._attempts),
            transactions=self._writer.transactions,
            rows_written=self._writer.rows,
        )

    def checkpoint(self) -> None:
        """See `Administration`: a database does it itself."""
