"""A journal in front of a database (SEMANTICS K4, ADR 18).

The journal answers; checkpoints bring the database up to date, so what is consumed before one never reaches the
database. Each verb changes what is known of the database at once and adds to the next transaction, as in `SqlStore`,
and puts a record into the journal. Messages that the database does not have are read from the journal.

Its parts: `log.py` (the journal), `log_recorder.py` (its records), `journaled_commit.py` (checkpoints), and at a start
`log_recovery.py` with `record_replay.py`.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from ackwire.jms.message import Message
from ackwire.store.background import Background
from ackwire.store.contract import Place, PreparedTransaction, ScheduledJob, StateRecord
from ackwire.store.files import DataFile, Lock
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.opening import JournalSource, stand_at_end, take_lock
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.recovery_report import Report, UnusableStore
from ackwire.store.journal.segment import segment_path
from ackwire.store.journal_sql.frame_reader import FrameReader, UnreadableFrame
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions, JournaledCommit
from ackwire.store.journal_sql.journaled_message import JournalFrame
from ackwire.store.journal_sql.log import Log
from ackwire.store.journal_sql.log_recorder import LogRecorder
from ackwire.store.journal_sql.log_recovery import LogRecovery, start_of_replay
from ackwire.store.journal_sql.record_replay import RecordReplay
from ackwire.store.sql.catalog import PlaceInfo
from ackwire.store.sql.changes import Changes
from ackwire.store.sql.commit import Commit
from ackwire.store.sql.driver import Driver
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.store.sql.frames import Frames
from ackwire.store.sql.journal_mark import JournalMark
from ackwire.store.sql.opening import Opening
from ackwire.store.sql.reads import Fetch
from ackwire.store.sql.sql_store import Sessions, SqlOptions, SqlStore, SqlSurroundings, with_sessions

_log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 1.0
_FETCH_AGAIN_SECONDS: Final = 1.0
"""How long a fetch waits that has failed, usually because the database is away."""


@dataclass(frozen=True, slots=True)
class Front:
    """The journal of a store, and what it works with."""

    source: JournalSource
    options: JournalOptions
    checkpoints: CheckpointOptions
    writing: Background
    """Syncs the journal."""
    housekeeping: Background
    """Makes and deletes its segments."""
    reading: Background
    """Reads messages from it."""


@final
class JournalSqlStore(SqlStore):
    """Implements `Store` on a journal and a database."""

    @classmethod
    def open_both(
        cls, front: Front, driver: Driver, surroundings: SqlSurroundings, options: SqlOptions
    ) -> "JournalSqlStore":
        """Open journal and database, and recover. Raises `UnusableStore` and `UnusableDatabase`."""
        lock = take_lock(front.source)
        try:
            recovery = LogRecovery(front.source)
            return with_sessions(
                driver,
                surroundings.clock,
                options,
                lambda sessions: cls._opened(front, lock, recovery, driver, sessions, surroundings, options),
            )
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _opened(
        cls,
        front: Front,
        lock: Lock,
        recovery: LogRecovery,
        driver: Driver,
        sessions: Sessions,
        surroundings: SqlSurroundings,
        options: SqlOptions,
    ) -> "JournalSqlStore":
        store = cls(front, recovery, driver, sessions, surroundings, options)
        store._begin(lock, surroundings)
        return store

    def __init__(
        self,
        front: Front,
        recovery: LogRecovery,
        driver: Driver,
        sessions: Sessions,
        surroundings: SqlSurroundings,
        options: SqlOptions,
    ) -> None:
        self._front = front
        self._recovery = recovery
        self._seed = recovery.seed
        self._options = options
        self._state = FailureState(front.source.data, surroundings.on_failed)
        self._start: JournalMark | None = None
        self._is_closed = False
        self._retired = 0
        """Segments before this one are not needed any more, but for the fetches under way."""
        self._retired_fetches: list[Fetch] = []
        super().__init__(driver, sessions, surroundings, options)
        self._journal_form, self._journal_frames = surroundings.make_form(), self._make_frames()

    # ---- beginning -------------------------------------------------------------------------------------------------

    def _claim(self, opening: Opening, description: str, run_id: str, now_ms: int) -> None:
        self._start = start_of_replay(self._recovery, opening, str(self._front.source.data), description)
        self._begin_run: Callable[[JournalMark], None] = lambda mark: opening.begin_run(run_id, now_ms, mark)

    def _make_commit(self, surroundings: SqlSurroundings) -> Commit:
        self._checkpoints = JournaledCommit(
            self._writer,
            surroundings.writing,
            surroundings.clock,
            self._state,
            self._front.checkpoints,
            complete=self._complete,
            run_id=self._options.run_id,
        )
        return self._checkpoints

    def _make_frames(self) -> Frames:
        return FrameReader(self._open_segment, lambda: self._seed)

    def _open_segment(self, number: int) -> DataFile:
        source = self._front.source
        return source.files.open(segment_path(source.data / "journal", number), writable=False)

    def _begin(self, lock: Lock, surroundings: SqlSurroundings) -> None:
        """Replay what the database does not have, begin to write to the journal, and let the database catch up."""
        front = self._front
        try:
            self._replay()
            journal = stand_at_end(front.source, front.options, lock, self._recovery, was_cut_off=False)
        except OSError as error:
            raise UnusableStore(f"the journal in {front.source.data} cannot be used: {error}") from error
        self._seed = journal.writer.seed
        log = Log(
            journal,
            self._state,
            options=front.options,
            clock=surroundings.clock,
            at_turn_end=surroundings.at_turn_end,
            writing=front.writing,
            housekeeping=front.housekeeping,
        )
        self._log, self._recorder = log, LogRecorder(log)
        log.commit.on_written = self._wrote
        try:
            self._begin_to_write(log)
        except BaseException:
            log.finish()
            log.close(clean=False)
            raise

    def _replay(self) -> None:
        replay = RecordReplay(self._catalog, self._memory, self._commit, self._form, self._reads, self._lowest_id)
        self._recovery.run(replay, self._start)
        self._lowest_id = replay.lowest_id
        for info in self._catalog.places.values():
            info.dispatched_before = info.dispatched
        self._catalog.use_sequence(self._recovery.catalog.last_sequence)

    def _begin_to_write(self, log: Log) -> None:
        log.begin_epoch(self._catalog.last_sequence)
        start, run_id = self._start, self._options.run_id
        self._begin_run(log.mark(run_id) if start is None else start.of_run(run_id))
        self._checkpoints.begin(log)
        self._checkpoints.on_checkpoint = self._retire
        self._checkpoints.record()  # the mark moves, if nothing else does
        self._checkpoints.finish()
        self._state.require_good()
        if self._checkpoints.trouble is not None:
            raise UnusableDatabase(self._checkpoints.trouble)
        self._clock.call_later(_TICK_SECONDS, self._tick)

    @property
    def report(self) -> Report:
        """What recovery found in the journal, and did."""
        return self._recovery.report

    @property
    def is_first_start(self) -> bool:
        """Whether this journal was never opened before."""
        return self._log.journal.writer.epoch == 1

    # ---- as time passes --------------------------------------------------------------------------------------------

    def _wrote(self, size_bytes: int) -> None:
        self._recorder.wrote()
        self._log.space.wrote()
        self._checkpoints.wrote(size_bytes)

    def _tick(self) -> None:
        if self._is_closed or self._state.failure is not None:
            return
        self._clock.call_later(_TICK_SECONDS, self._tick)
        if self._log.tick():
            self._release_segments()
            self._checkpoints.tick()
            if self._log.space.full_because is not None:
                self._checkpoints.checkpoint()

    def _retire(self, segment: int) -> None:
        """A checkpoint has moved what was before *segment*; what is read from there now is waited for."""
        self._retired, self._retired_fetches = segment, list(self._reads.under_way)
        self._release_segments()

    def _release_segments(self) -> None:
        if not any(it in self._reads.under_way for it in self._retired_fetches):
            self._retired_fetches = []
            self._log.delete_before(self._retired)

    # ---- messages --------------------------------------------------------------------------------------------------

    def append(self, message: Message, places: Sequence[Place]) -> None:
        """See `Recorder`."""
        frame = JournalFrame(message.frame, len(message.frame), message.sequence)
        self._append(message, places, frame)
        known = self._catalog.places
        self._recorder.append(message, [known[it] for it in places], frame)

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        """See `Recorder`."""
        removed = list(sequences)
        info = self._catalog.places.get(place)
        super().remove_many(place, removed)
        if info is not None and removed:
            self._recorder.remove_many(info, removed)

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        """See `Recorder`."""
        super().purge(place, last_sequence, kept)
        info = self._catalog.places.get(place)
        if info is not None:
            self._recorder.purge(info, last_sequence, kept)

    # ---- everything else -------------------------------------------------------------------------------------------

    def _record_place(self, changes: Changes, info: PlaceInfo) -> None:
        super()._record_place(changes, info)
        self._recorder.place(info, self._catalog.last_sequence)

    def remove_place(self, place: Place) -> None:
        """See `Recorder`."""
        info = self._catalog.places.get(place)
        super().remove_place(place)
        if info is not None:
            self._recorder.remove_place(info)

    def add_job(self, job: ScheduledJob) -> None:
        """See `Recorder`."""
        super().add_job(job)
        self._recorder.job(job)

    def remove_job(self, job_id: str) -> None:
        """See `Recorder`."""
        super().remove_job(job_id)
        self._recorder.job_gone(job_id)

    def remember_count(self, producer_key: bytes, count: int) -> None:
        """See `Recorder`."""
        super().remember_count(producer_key, count)
        self._recorder.count(producer_key, count)

    def put_state_record(self, record: StateRecord) -> None:
        """See `Recorder`."""
        super().put_state_record(record)
        self._recorder.state_record(record)

    def drop_state_record(self, key: str) -> None:
        """See `Recorder`."""
        super().drop_state_record(key)
        self._recorder.state_record_gone(key)

    def prepare(self, transaction: PreparedTransaction) -> None:
        """See `Recorder`."""
        with self.atomically():  # places that are new are recorded, too
            super().prepare(transaction)
            acks = [(self._catalog.places[place], message.sequence) for place, message in transaction.acks]
            packed = self._form.transaction_to_bytes(transaction.transaction_id)
            self._recorder.prepare(packed, transaction, acks)

    def decide(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        super().decide(transaction_id)
        self._recorder.decide(self._form.transaction_to_bytes(transaction_id))

    def committed(self, transaction_id: Hashable) -> None:
        """See `Recorder`."""
        super().committed(transaction_id)
        self._recorder.committed(self._form.transaction_to_bytes(transaction_id))

    @contextmanager
    def atomically(self) -> Iterator[None]:
        """See `Recorder`."""
        with super().atomically():
            self._recorder.begin_group()
            try:
                yield
            finally:
                self._recorder.leave_group()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _run_beside(self, fetch: Fetch, done: Callable[[Exception | None], None]) -> None:
        if fetch.queries:
            super()._run_beside(fetch, done)
        else:  # it does not wait for a database that is away
            self._front.reading.submit(lambda: self._reads.run(fetch, self._journal_form, self._journal_frames), done)

    def _fetch_failed(self, error: Exception, again: Callable[[], None]) -> None:
        if isinstance(error, UnreadableFrame):
            self._state.fail("read", error)
        else:
            _log.warning("a fetch has failed and will be repeated: %s", error)
            self._clock.call_later(_FETCH_AGAIN_SECONDS, lambda: None if self._is_closed else again())

    # ---- operators -------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """See `Administration`: what the journal takes."""
        return self._log.space.used_bytes

    @property
    def bytes_max(self) -> int:
        """See `Administration`."""
        return self._front.options.bytes_max

    def checkpoint(self) -> None:
        """See `Administration`."""
        self._checkpoints.checkpoint()

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """See `Durability`. If the database is away, the journal keeps what it does not have for the next start."""
        if self._is_closed:
            return
        self._is_closed = True
        self._closing.set()  # a database that is away is not waited for as long as usual
        has_failed_before = self._state.failure is not None
        if not has_failed_before:
            self._log.finish()
            self._log.flush()
            self._checkpoints.finish_for_good()
        self._let_go()
        if not has_failed_before:
            self._state.require_good()

    def _let_go(self) -> None:
        """Close all files and sessions."""
        self._reading.finish()
        self._front.reading.finish()
        self._log.finish()
        self._log.close(clean=self._state.failure is None)
        self._log.journal.lock.release()
        self._writer.close()
        self._session.close()
