"""The SQL store: messages in a database, in ActiveMQ's own tables (SEMANTICS K3, ADR 17).

Its parts: `recorder.py` (the verbs), `changes.py` (what a transaction does), `group_commit.py` (when it does it),
`writer.py` (in a thread, with a database that may go away), `reads.py`, `opening.py` and `restore.py`.
"""

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

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
from ackwire.store.sql.commit import Commit
from ackwire.store.sql.driver import Driver, Hold, Session
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.execution import Execution
from ackwire.store.sql.frames import Frames, FramesInMemory
from ackwire.store.sql.group_commit import GroupCommit
from ackwire.store.sql.journal_mark import refuse_waiting_journal
from ackwire.store.sql.locking import refuse_lease_of_activemq, wait_for_lock
from ackwire.store.sql.opening import Opening
from ackwire.store.sql.reads import Fetch, ReadingSession, Reads
from ackwire.store.sql.recorder import SqlRecorder
from ackwire.store.sql.restore import Restoring
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.schema import Tables, prepare_schema
from ackwire.store.sql.statements import Statements
from ackwire.store.sql.writer import CLOSING_SECONDS_MAX, Attempts, Writer
from ackwire.util.clock import Clock, Timer

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
    at_turn_end: Callable[[Callable[[], None]], Timer] | None = None


_OPENING_ADVICE: Final = "check that the server runs, and address, database, user, password and privileges"


class Sessions(NamedTuple):
    """The connections of a store."""

    writing: Session
    reading: Session
    held: Hold


_T = TypeVar("_T")


def with_sessions(driver: Driver, clock: Clock, options: SqlOptions, make: Callable[[Sessions], _T]) -> _T:
    """What *make* makes with sessions of a database whose tables are there. Raises `UnusableDatabase`, and has closed
    them then."""
    names = Tables(options.table_prefix)
    lease_of_activemq = Statements(driver.dialect, names).lease_of_activemq
    opened = ExitStack()  # what is closed again if the store does not open
    try:
        writing = wait_for_lock(lambda: driver.connect(is_writer=True), clock)
        opened.callback(writing.close)

        def try_to_hold() -> Hold:
            held = driver.hold(names.lock)
            try:
                refuse_lease_of_activemq(writing, lease_of_activemq, driver.description)
            except BaseException:
                held.close()
                raise
            return held

        def hold() -> Hold:
            held = wait_for_lock(try_to_hold, clock)
            opened.callback(held.close)
            return held

        held = prepare_schema(driver, writing, names, hold, create_tables=options.create_tables)
        reading = driver.connect(is_writer=False)
        opened.callback(reading.close)
        return make(Sessions(writing, reading, held))
    except Exception as error:
        with suppress(Exception):
            opened.close()
        diagnosis = driver.diagnose(error)
        if isinstance(error, UnusableDatabase) or diagnosis.is_unforeseen:
            raise
        advice = diagnosis.advice or _OPENING_ADVICE
        raise UnusableDatabase(f"{driver.description} cannot be used: {diagnosis.sentence}; {advice}") from error


class SqlStore(SqlRecorder):
    """Implements `Store` on a database. `JournalSqlStore` puts a journal in front of it."""

    pages = True

    @classmethod
    def open(cls, driver: Driver, surroundings: SqlSurroundings, options: SqlOptions) -> "SqlStore":
        """Open a database. Raises `UnusableDatabase`: then nothing in it has changed, but for tables that were made."""
        return with_sessions(
            driver, surroundings.clock, options, lambda sessions: cls(driver, sessions, surroundings, options)
        )

    def __init__(
        self,
        driver: Driver,
        sessions: Sessions,
        surroundings: SqlSurroundings,
        options: SqlOptions,
    ) -> None:
        statements = Statements(driver.dialect, Tables(options.table_prefix))
        self._driver = driver
        self._form = surroundings.make_form()
        opening = Opening(sessions.writing, statements, self._form, driver.description)
        opening.read()
        self._claim(opening, driver.description, options.run_id, surroundings.clock.now_ms())
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
        execution = Execution(statements, surroundings.make_form(), self._make_frames(), options.run_id)
        self._writer = Writer(
            driver, sessions.writing, sessions.held, statements, execution, options.run_id, self._attempts[0]
        )
        self._commit = self._make_commit(surroundings)
        self._commit.filling = opening.changes
        self._reading, self._writing = surroundings.reading, surroundings.writing
        self._reading_form, self._reading_frames = surroundings.make_form(), self._make_frames()
        self._session = ReadingSession(driver, sessions.reading, self._attempts[1])
        self._reads = Reads(self._catalog, self._commit, self._session, statements, self._form, self._make_frames())
        self._restoring = Restoring(
            self._catalog, self._memory, self._reads, self._session, statements, self._form, surroundings.clock
        )

    # ---- what a journal in front of the database does in another way -----------------------------------------------

    def _claim(self, opening: Opening, description: str, run_id: str, now_ms: int) -> None:
        """See that the database may be used, and begin a run."""
        refuse_waiting_journal(opening.mark, description)
        opening.begin_run(run_id, now_ms)

    def _make_commit(self, surroundings: SqlSurroundings) -> Commit:
        return GroupCommit(
            self._writer,
            surroundings.writing,
            surroundings.clock,
            complete=self._complete,
            on_failed=surroundings.on_failed,
            at_turn_end=surroundings.at_turn_end,
            last_sequence=self._catalog.last_sequence,
        )

    def _make_frames(self) -> Frames:
        """A reader of frames for one thread."""
        return FramesInMemory()

    def _run_beside(self, fetch: Fetch, done: Callable[[Exception | None], None]) -> None:
        """Read what *fetch* asks for beside the loop."""
        self._reading.submit(lambda: self._reads.run(fetch, self._reading_form, self._reading_frames), done)

    def _fetch_failed(self, error: Exception, again: Callable[[], None]) -> None:  # noqa: ARG002 - a journal can wait
        """A fetch has failed for good; *again* would repeat it."""
        self._commit.fail(error)

    # ---- durability ------------------------------------------------------------------------------------------------

    @property
    def durability(self) -> DurabilityState:
        return self._commit.durability

    @property
    def failure(self) -> StoreFailed | None:
        return self._commit.failure

    def give_up(self, failure: StoreFailed) -> None:
        """Promise nothing any more, because another broker may use the database. What is written at this moment is
        refused by it if so."""
        self._commit.fail(failure)

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,
    ) -> None:
        """See `Durability`."""
        self._commit.when_durable(callback, on_failed, sync)

    def cancel(self, callback: Callable[[], None]) -> bool:
        """See `Durability`."""
        return self._commit.cancel(callback)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """See `Durability`."""
        self._commit.observe_writes(before_write, on_durable)

    def close(self) -> None:
        """See `Durability`."""
        self._closing.set()  # a database that is away, or silent, is not waited for as long as usual
        self._driver.limit_answers(CLOSING_SECONDS_MAX)
        self._commit.finish()
        if self._commit.failure is None:
            self._commit.record().is_open = False
            self._commit.finish()
        self._commit.stop_timer()
        self._writing.finish()  # after `give_up` a transaction may be under way
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
        if fetch is None or reads.is_at_hand(fetch):
            on_loaded([None] * len(sequences) if fetch is None else reads.end(fetch))
            return

        def done(error: Exception | None) -> None:
            reads.under_way.remove(fetch)
            if error is not None:
                self._fetch_failed(error, lambda: self.fetch(place, sequences, on_loaded, on_failed))
                return
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
        self._run_beside(fetch, done)

    # ---- operators -------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """See `Administration`: what a database takes on its disk is its own affair."""
        return 0

    @property
    def bytes_max(self) -> int:
        """See `Administration`."""
        return 0

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
