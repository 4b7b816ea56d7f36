"""A small store on SQLite: it shows that the contract holds for a database too, and what such a store needs.

What happens becomes statements in a list. One transaction takes everything that waits, beside the loop; what comes
meanwhile is the next one. Which messages wait in which place is known in memory; their bytes are, until the database
has them.
"""

import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, final

from ackwire.errors import StoreFailed
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.background import Background
from ackwire.store.contract import (
    DurabilityState,
    DurableRecord,
    FileInfo,
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
from ackwire.store.journal.record import Reader, pack_durable, pack_place_name, unpack_durable
from ackwire.store.journal.state import pack_job, pack_state_record, unpack_job, unpack_state_record
from ackwire.util.clock import Clock
from ackwire.util.lru import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED, Recent

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS places (place BLOB PRIMARY KEY, dispatched INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    place BLOB, sequence INTEGER, expiration INTEGER, priority INTEGER, size INTEGER, redeliveries INTEGER, frame BLOB,
    PRIMARY KEY (place, sequence));
CREATE TABLE IF NOT EXISTS durables (place BLOB PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS jobs (id BLOB PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS prepared (xid BLOB PRIMARY KEY, user BLOB);
CREATE TABLE IF NOT EXISTS prepared_sends (xid BLOB, number INTEGER, frame BLOB);
CREATE TABLE IF NOT EXISTS prepared_acks (xid BLOB, number INTEGER, place BLOB, sequence INTEGER);
CREATE TABLE IF NOT EXISTS counts (producer BLOB PRIMARY KEY, count INTEGER, heard INTEGER);
CREATE TABLE IF NOT EXISTS commits (xid BLOB PRIMARY KEY, heard INTEGER);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER);
"""

_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_PLACE: Final = "INSERT INTO places VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET dispatched = excluded.dispatched"

Statement: TypeAlias = tuple[str, tuple[object, ...]]
Commit: TypeAlias = Callable[[Callable[[], None]], None]


def connect(path: str) -> sqlite3.Connection:
    """Open a database whose transactions are on the medium when they are committed."""
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _commit(commit: Callable[[], None]) -> None:
    commit()


@final
class SqliteStore:
    """Implements `Store`. *commit* commits a transaction, and may fail instead, as a test wants it."""

    pages = True
    used_bytes = 0
    bytes_max = 0

    def __init__(
        self,
        connection: sqlite3.Connection,
        form: StoredForm,
        clock: Clock,
        background: Background,
        commit: Commit = _commit,
    ) -> None:
        self._connection = connection
        self._form = form
        self._clock = clock
        self._background = background
        self._commit = commit
        self.failure: StoreFailed | None = None
        self._statements: list[Statement] = []
        self._fresh: list[tuple[Place, int, Message]] = []
        """Messages of which the next transaction tells the database."""
        self._there: dict[Place, dict[int, Message | None]] = {}
        """What waits, by sequence; None once the database has it."""
        self._dispatched: dict[Place, int] = {}
        self._last_sequence = 0
        self._counts: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED, self._forget_count)
        self._commits: Recent[Hashable, None] = Recent(COMMITS_REMEMBERED, self._forget_commit)
        self._depth = 0
        self._recorded = self._durable = 0
        """How much was recorded, and how much of it is durable."""
        self.durability = DurabilityState()
        self._appended = 0
        self._waiters: list[tuple[int, Callable[[], None], Callable[[StoreFailed], None] | None]] = []
        self._before_write: Callable[[], int] | None = None
        self._on_durable: Callable[[int], None] | None = None
        self._restore()

    # ---- opening -----------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        self._connection.executescript(SCHEMA)
        for data, dispatched in self._connection.execute("SELECT place, dispatched FROM places"):
            place = _place(data)
            self._there[place] = {}
            self._dispatched[place] = dispatched
        for data, sequence in self._connection.execute("SELECT place, sequence FROM messages ORDER BY sequence"):
            self._there[_place(data)][sequence] = None
        for producer, count in self._connection.execute("SELECT producer, count FROM counts ORDER BY heard"):
            self._counts[producer] = count
        for (xid,) in self._connection.execute("SELECT xid FROM commits ORDER BY heard"):
            self._commits[self._form.transaction_from_bytes(xid)] = None
        self._jobs = {job.job_id for job in self.jobs()}
        meta = dict(self._connection.execute("SELECT name, value FROM meta"))
        self._dispatched_before = dict(self._dispatched)
        self._last_sequence = self.durability.durable_sequence = self._appended = meta.get("last_sequence", 0)
        self._heard: int = meta.get("heard", 0)
        self._crashed_ms: int | None = meta.get("crashed_ms")
        if meta.get("is_open"):
            self._crashed_ms = self._clock.now_ms()
            self._execute(_META, "crashed_ms", self._crashed_ms)
        self._execute(_META, "is_open", 1)
        statements, self._statements = self._statements, []
        self._transact(statements)
        self._durable = self._recorded

    # ---- recording ---------------------------------------------------------------------------------------------

    def _execute(self, statement: str, *values: object) -> None:
        self._statements.append((statement, values))
        self._recorded += 1

    def _require_good(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _add_place(self, place: Place) -> dict[int, Message | None]:
        there = self._there.get(place)
        if there is None:
            there = self._there[place] = {}
            self._execute(_PLACE, pack_place_name(place), 0)
        return there

    def append(self, message: Message, places: Sequence[Place]) -> None:
        self._require_good()
        for place in places:
            self._add_place(place)[message.sequence] = message
            self._fresh.append((place, message.sequence, message))
            self._execute(
                "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",
                pack_place_name(place),
                message.sequence,
                message.expiration,
                message.priority,
                message.size_bytes,
                message.redelivery_counter,
                message.frame,
            )
        self._count(message)
        self._appended = max(self._appended, message.sequence)
        self._use_sequence(message.sequence)

    def _use_sequence(self, sequence: int) -> None:
        if sequence > self._last_sequence:
            self._last_sequence = sequence
            self._execute(_META, "last_sequence", sequence)

    def _count(self, message: Message) -> None:
        self.remember_count(message.origin.producer_key, message.producer_count)

    def remember_count(self, producer_key: bytes, count: int) -> None:
        self._require_good()
        last = self._counts.get(producer_key)
        self._counts[producer_key] = count if last is None else max(count, last)
        values = (producer_key, self._counts.get(producer_key), self._hear())
        self._execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", *values)

    def _hear(self) -> int:
        self._heard += 1
        self._execute(_META, "heard", self._heard)
        return self._heard

    def _forget_count(self, producer_key: bytes) -> None:
        self._execute("DELETE FROM counts WHERE producer = ?", producer_key)

    def _forget_commit(self, transaction_id: Hashable) -> None:
        self._execute("DELETE FROM commits WHERE xid = ?", self._form.transaction_to_bytes(transaction_id))

    def remove(self, place: Place, message: Message) -> None:
        self.remove_many(place, [message.sequence])

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        self._require_good()
        there, data = self._there.get(place, {}), pack_place_name(place)
        for sequence in sequences:
            if sequence in there:
                del there[sequence]
                self._execute("DELETE FROM messages WHERE place = ? AND sequence = ?", data, sequence)

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        there = self._there.get(place, {})
        self.remove_many(place, [it for it in there if it <= last_sequence and it not in kept])

    def remove_place(self, place: Place) -> None:
        self._require_good()
        self._there.pop(place, None)
        self._dispatched.pop(place, None)
        self._dispatched_before.pop(place, None)
        data = pack_place_name(place)
        self._execute("DELETE FROM places WHERE place = ?", data)
        self._execute("DELETE FROM messages WHERE place = ?", data)
        self._execute("DELETE FROM durables WHERE place = ?", data)

    def add_destination(self, destination: Destination) -> None:
        self._require_good()
        self._add_place(destination)

    def add_durable(self, record: DurableRecord) -> None:
        self._require_good()
        self._add_place(record.key)
        data = pack_durable(0, record)
        self._execute("INSERT OR REPLACE INTO durables VALUES (?, ?)", pack_place_name(record.key), data)

    def add_job(self, job: ScheduledJob) -> None:
        self._require_good()
        self._execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", _text(job.job_id), pack_job(job, with_message=True))
        if job.job_id not in self._jobs:
            self._jobs.add(job.job_id)
            self._count(job.message)
        self._use_sequence(job.message.sequence)

    def remove_job(self, job_id: str) -> None:
        self._require_good()
        self._jobs.discard(job_id)
        self._execute("DELETE FROM jobs WHERE id = ?", _text(job_id))

    def prepare(self, transaction: PreparedTransaction) -> None:
        self._require_good()
        xid = self._form.transaction_to_bytes(transaction.transaction_id)
        self._execute("INSERT OR REPLACE INTO prepared VALUES (?, ?)", xid, _text(transaction.user))
        for number, message in enumerate(transaction.sends):
            self._execute("INSERT INTO prepared_sends VALUES (?, ?, ?)", xid, number, message.frame)
        for number, (place, message) in enumerate(transaction.acks):
            values = (xid, number, pack_place_name(place), message.sequence)
            self._execute("INSERT INTO prepared_acks VALUES (?, ?, ?, ?)", *values)

    def decide(self, transaction_id: Hashable) -> None:
        self._require_good()
        xid = self._form.transaction_to_bytes(transaction_id)
        self._execute("DELETE FROM prepared WHERE xid = ?", xid)
        self._execute("DELETE FROM prepared_sends WHERE xid = ?", xid)
        self._execute("DELETE FROM prepared_acks WHERE xid = ?", xid)

    def committed(self, transaction_id: Hashable) -> None:
        self._require_good()
        self._commits[transaction_id] = None
        xid = self._form.transaction_to_bytes(transaction_id)
        self._execute("INSERT OR REPLACE INTO commits VALUES (?, ?)", xid, self._hear())

    def put_state_record(self, record: StateRecord) -> None:
        self._require_good()
        self._execute("INSERT OR REPLACE INTO records VALUES (?, ?)", _text(record.key), pack_state_record(record))

    def drop_state_record(self, key: str) -> None:
        self._require_good()
        self._execute("DELETE FROM records WHERE key = ?", _text(key))

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        self._require_good()
        self._add_place(place)
        self._set_dispatched(place, max(sequence, self._dispatched.get(place, 0)))
        self._use_sequence(sequence)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        self._require_good()
        if place in self._there:
            self._set_dispatched(place, min(sequence, self._dispatched.get(place, 0)))

    def _set_dispatched(self, place: Place, sequence: int) -> None:
        if sequence != self._dispatched.get(place, 0):
            self._dispatched[place] = sequence
            self._execute(_PLACE, pack_place_name(place), sequence)

    @contextmanager
    def atomically(self) -> Iterator[None]:
        self._require_good()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._flush()

    def full(self) -> None:
        """Never, for a test."""

    def on_room(self, callback: Callable[[], None]) -> None:
        """There always is."""

    # ---- durability --------------------------------------------------------------------------------------------

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
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
            self._flush()

    def cancel(self, callback: Callable[[], None]) -> bool:
        cancelled = [it for it in self._waiters if it[1] is callback]
        for it in cancelled:
            self._waiters.remove(it)
        self.durability.has_waiters = bool(self._waiters)
        return bool(cancelled)

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        self._before_write, self._on_durable = before_write, on_durable

    def _flush(self) -> None:
        """Begin a transaction with everything that was recorded, if a caller waits and none is under way."""
        if self._waiters and not (self.durability.is_syncing or self._depth or self.failure):
            self._begin_transaction()

    def _begin_transaction(self) -> None:
        self.durability.is_syncing = True
        mark = None if self._before_write is None else self._before_write()
        statements, self._statements = self._statements, []
        fresh, self._fresh = self._fresh, []
        recorded, appended = self._recorded, self._appended

        def done(error: Exception | None) -> None:
            self.durability.is_syncing = False
            if error is not None:
                self._fail(error)
                return
            self._durable, self.durability.durable_sequence = recorded, appended
            for place, sequence, message in fresh:
                there = self._there.get(place)
                if there is not None and there.get(sequence) is message:
                    there[sequence] = None
            if mark is not None and self._on_durable is not None:
                self._on_durable(mark)
            self._answer()

        self._background.submit(lambda: self._transact(statements), done)

    def _transact(self, statements: list[Statement]) -> None:
        self._connection.execute("BEGIN")
        try:
            for statement, values in statements:
                self._connection.execute(statement, values)
            self._commit(self._connection.commit)
        except Exception:
            self._connection.rollback()
            raise

    def _answer(self) -> None:
        served = [it for it in self._waiters if it[0] <= self._durable]
        self._waiters = [it for it in self._waiters if it[0] > self._durable]
        self.durability.has_waiters = bool(self._waiters)
        for _, callback, _ in served:
            callback()
        self._flush()

    def _fail(self, error: Exception) -> None:
        self.failure = StoreFailed(f"the database has failed: {error}. Nothing more is acknowledged")
        waiters, self._waiters = self._waiters, []
        for _, _, on_failed in waiters:
            if on_failed is not None:
                on_failed(self.failure)

    def close(self) -> None:
        if self.failure is None:
            self._background.finish()
            self._execute(_META, "is_open", 0)
            self.when_durable(lambda: None)
            self._background.finish()
            self._require_good()

    # ---- what was kept -----------------------------------------------------------------------------------------

    def _select(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()

    def has_crashed(self, within_seconds: float) -> bool:
        return self._crashed_ms is not None and self._clock.now_ms() - self._crashed_ms <= within_seconds * 1000

    def places(self) -> list[Place]:
        return list(self._there)

    def waiting(self, place: Place) -> list[WaitingMessage]:
        columns = "SELECT sequence, expiration, priority, size FROM messages WHERE place = ?"
        stored = {row[0]: WaitingMessage(*row) for row in self._select(columns, pack_place_name(place))}
        there = self._there.get(place, {})
        return [stored[it] if message is None else _waiting(message) for it, message in sorted(there.items())]

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        return [WaitingMessages(self.waiting(place))]

    def durables(self) -> list[DurableRecord]:
        return [unpack_durable(memoryview(data))[1] for (data,) in self._select("SELECT data FROM durables")]

    def jobs(self) -> list[ScheduledJob]:
        return [unpack_job(memoryview(data), self._form, None) for (data,) in self._select("SELECT data FROM jobs")]

    def prepared(self) -> list[PreparedTransaction]:
        return [self._prepared(xid, user.decode()) for xid, user in self._select("SELECT xid, user FROM prepared")]

    def _prepared(self, xid: bytes, user: str) -> PreparedTransaction:
        sends = self._select("SELECT frame FROM prepared_sends WHERE xid = ? ORDER BY number", xid)
        acks = []
        for data, sequence in self._select(
            "SELECT place, sequence FROM prepared_acks WHERE xid = ? ORDER BY number", xid
        ):
            message = self.load(_place(data), [sequence])[0]
            if message is not None:
                acks.append((_place(data), message))
        messages = tuple(self._form.message(frame) for (frame,) in sends)
        return PreparedTransaction(self._form.transaction_from_bytes(xid), messages, tuple(acks), user)

    def state_records(self) -> list[StateRecord]:
        return [unpack_state_record(memoryview(data)) for (data,) in self._select("SELECT data FROM records")]

    def last_counts(self) -> list[tuple[bytes, int]]:
        return list(self._counts.items())

    def commits(self) -> list[Hashable]:
        return list(self._commits)

    def dispatched_up_to(self, place: Place) -> int:
        return self._dispatched_before.get(place, 0)

    def last_sequence(self) -> int:
        return self._last_sequence

    # ---- reading -----------------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        return [None if it is None else self._message(it) for it in self.read(place, sequences)]

    def _message(self, stored: StoredFrame) -> Message:
        message = self._form.message(stored[0])
        message.redelivery_counter = stored[1]
        return message

    def fetch(self, place: Place, sequences: Sequence[int], on_loaded: Callable[[list[Message | None]], None]) -> None:
        stored: list[StoredFrame | None] = []
        version, are_stored = self._recorded, not any(self._there.get(place, {}).get(it) for it in sequences)

        def select() -> None:
            stored.extend([self._selected(place, it) for it in sequences])

        def done(error: Exception | None) -> None:
            if error is not None:
                self._fail(error)
            if self.failure is not None:
                return
            if are_stored and version == self._recorded:
                on_loaded([None if it is None else self._message(it) for it in stored])
            else:  # what was read may have changed meanwhile
                on_loaded(self.load(place, sequences))

        self._background.submit(select, done)

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        return [self._read(place, sequence) for sequence in sequences]

    def _read(self, place: Place, sequence: int) -> StoredFrame | None:
        there = self._there.get(place, {})
        if sequence not in there:
            return None
        pending = there[sequence]
        return self._selected(place, sequence) if pending is None else (pending.frame, pending.redelivery_counter)

    def _selected(self, place: Place, sequence: int) -> StoredFrame | None:
        query = "SELECT frame, redeliveries FROM messages WHERE place = ? AND sequence = ?"
        for frame, redeliveries in self._select(query, pack_place_name(place), sequence):
            is_marked = sequence <= self._dispatched_before.get(place, 0) and not redeliveries
            return frame, 1 if is_marked else redeliveries
        return None

    # ---- operators ---------------------------------------------------------------------------------------------

    def files(self) -> list[FileInfo]:
        return []

    def checkpoint(self) -> None:
        """SQLite does it itself."""


def _waiting(it: Message) -> WaitingMessage:
    return WaitingMessage(it.sequence, it.expiration, it.priority, it.size_bytes)


def _place(data: bytes) -> Place:
    return Reader(memoryview(data)).place_name()


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
