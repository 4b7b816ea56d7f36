"""A small store that keeps the contract on a `Files`, and can be told to make one mistake: it shows that tests notice.

Only the number of each record is on the disk, with a checksum; what was recorded is in a list beside it that outlives
crashes. That is enough to lose, tear and reorder records, and simple enough to be right.
"""

import struct
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeAlias

from ackwire.errors import StoreFailed
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.background import Background
from ackwire.store.contract import (
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
from ackwire.store.files import Files
from ackwire.store.memory import MemoryStore

_RECORD: Final = struct.Struct(">QQI492x")  # a sector each, so that any of them can be missing
_DIRECTORY: Final = Path("/toy")
_SIZE_BYTES: Final = 1 << 16
"""At first; it grows."""

Recorded: TypeAlias = Callable[[MemoryStore], None]


class Mistake(Enum):
    """What a store can do wrong."""

    PROMISES_BEFORE_SYNC = auto()
    PROMISES_WHAT_CAME_LATER = auto()
    TEARS_GROUPS = auto()
    SKIPS_HOLES = auto()
    KEEPS_OLD_RECORDS = auto()
    FORGETS_SEQUENCE = auto()
    FORGETS_COUNTS = auto()
    FORGETS_TO_CLOSE = auto()
    CALLS_BACK_BACKWARDS = auto()
    LOADS_FROM_ANYWHERE = auto()
    IGNORES_FAILED_SYNC = auto()


class _Memory(MemoryStore):
    """Counts of producers only grow: a message that is replaced in its place is no news of them (J4)."""

    def append(self, message: Message, places: Sequence[Place]) -> None:
        known = dict(self.last_counts()).get(message.origin.producer_key, message.producer_count)
        super().append(message, places)
        self._last_counts[message.origin.producer_key] = max(known, message.producer_count)


class ToyStore:
    """Implements `Store`. *shelf* is where it keeps what was recorded; the disk says how much of that is there."""

    pages = False

    def __init__(
        self, files: Files, background: Background, shelf: list[Recorded], mistake: Mistake | None = None
    ) -> None:
        self._background = background
        self._shelf = shelf
        self._mistake = mistake
        self._memory = _Memory()
        self._depth = 0
        self._group_from: int | None = None
        self._unwritten: list[tuple[int, int]] = []
        """Records to be written: for each its own number, and the number of the last record of its group."""
        self._durable = 0
        self.durability = DurabilityState()
        self._appended = 0
        self._is_flushing = False
        self._failure: StoreFailed | None = None
        self._waiters: list[tuple[int, Callable[[], None], Callable[[StoreFailed], None] | None]] = []
        files.make_directory(_DIRECTORY)
        self._lock = files.lock(_DIRECTORY / "lock", "toy")
        path = _DIRECTORY / "log"
        self._file = files.open(path) if files.exists(path) else files.create(path, _SIZE_BYTES)
        self._recover()

    def _recover(self) -> None:
        data = self._file.read(0, self._file.size_bytes)
        found = self._good_records(data)
        assert not found or found[-1] <= len(self._shelf), "records of an earlier life have come back"
        self._shelf[:] = [self._shelf[number - 1] for number in found]
        end = len(found) * _RECORD.size
        if self._mistake is Mistake.SKIPS_HOLES:
            self._file.write(b"".join(_record(number, number) for number in range(1, len(found) + 1)), 0)
        else:  # again: a sync that failed may have left bytes in the cache that no sync brings to the medium
            self._file.write(data[:end], 0)
        if self._mistake is not Mistake.KEEPS_OLD_RECORDS:
            self._file.write(bytes(len(data) - end), end)
        self._file.sync()
        for recorded in self._shelf:
            recorded(self._memory)
        self._durable = len(found)
        self.durability.durable_sequence = self._memory.last_sequence()
        self._forget_what_it_should_not()

    def _good_records(self, data: bytes) -> list[int]:
        """The numbers of the records up to the first hole, and up to the end of a group."""
        found: list[int] = []
        whole = 0
        for index in range(len(data) // _RECORD.size):
            number, last, check = _RECORD.unpack_from(data, index * _RECORD.size)
            if number == index + 1 and check == _check(number, last):
                found.append(number)
                if last == number or self._mistake is Mistake.TEARS_GROUPS:
                    whole = len(found)
            elif self._mistake is not Mistake.SKIPS_HOLES:
                break
        return found[:whole]

    def _forget_what_it_should_not(self) -> None:
        memory = self._memory
        if self._mistake is Mistake.FORGETS_SEQUENCE:
            memory._last_sequence = max((it for m in memory._places.values() for it in m), default=0)
        if self._mistake is Mistake.FORGETS_COUNTS:
            there = {it.origin.producer_key for m in memory._places.values() for it in m.values()}
            for key in [key for key in memory._last_counts if key not in there]:
                memory._last_counts.pop(key)

    # ---- what happens ------------------------------------------------------------------------------------------

    def _record(self, recorded: Recorded) -> None:
        self._raise_if_failed()
        self._shelf.append(recorded)
        recorded(self._memory)
        number = len(self._shelf)
        if self._depth == 0:
            self._unwritten.append((number, number))
        elif self._group_from is None:
            self._group_from = number

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def append(self, message: Message, places: Sequence[Place]) -> None:
        self._record(lambda memory: memory.append(message, places))
        self._appended = max(self._appended, message.sequence)

    def remove(self, place: Place, message: Message) -> None:
        self._record(lambda memory: memory.remove(place, message))

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        gone = list(sequences)
        self._record(lambda memory: memory.remove_many(place, gone))

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        self._record(lambda memory: memory.purge(place, last_sequence, kept))

    def remove_place(self, place: Place) -> None:
        self._record(lambda memory: memory.remove_place(place))

    def add_destination(self, destination: Destination) -> None:
        self._record(lambda memory: memory.add_destination(destination))

    def add_durable(self, record: DurableRecord) -> None:
        self._record(lambda memory: memory.add_durable(record))

    def add_job(self, job: ScheduledJob) -> None:
        self._record(lambda memory: memory.add_job(job))

    def remove_job(self, job_id: str) -> None:
        self._record(lambda memory: memory.remove_job(job_id))

    def remember_count(self, producer_key: bytes, count: int) -> None:
        self._record(lambda memory: memory.remember_count(producer_key, count))

    def put_state_record(self, note: StateRecord) -> None:
        self._record(lambda memory: memory.put_state_record(note))

    def drop_state_record(self, key: str) -> None:
        self._record(lambda memory: memory.drop_state_record(key))

    def prepare(self, transaction: PreparedTransaction) -> None:
        self._record(lambda memory: memory.prepare(transaction))

    def decide(self, transaction_id: Hashable) -> None:
        self._record(lambda memory: memory.decide(transaction_id))

    def committed(self, transaction_id: Hashable) -> None:
        self._record(lambda memory: memory.committed(transaction_id))

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        self._record(lambda memory: memory.mark_dispatched(place, sequence))

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        self._record(lambda memory: memory.unmark_dispatched(place, sequence))

    @contextmanager
    def atomically(self) -> Iterator[None]:
        self._raise_if_failed()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0 and self._group_from is not None:
                last = len(self._shelf)
                self._unwritten += [(number, last) for number in range(self._group_from, last + 1)]
                self._group_from = None
                self._flush()

    # ---- promises ----------------------------------------------------------------------------------------------

    def cancel(self, callback: Callable[[], None]) -> bool:
        forgone = [it for it in self._waiters if it[1] is callback]
        for it in forgone:
            self._waiters.remove(it)
        self.durability.has_waiters = bool(self._waiters)
        return bool(forgone)

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,  # noqa: ARG002
    ) -> None:
        if self._failure is not None:
            if on_failed is not None:
                on_failed(self._failure)
        elif self._durable == len(self._shelf):
            callback()
        else:
            self._waiters.append((len(self._shelf), callback, on_failed))
            self.durability.has_waiters = True
            self._flush()

    def _flush(self) -> None:
        if self._is_flushing or not self._unwritten or not self._waiters or self._failure is not None:
            return
        self._is_flushing = self.durability.is_syncing = True
        records, self._unwritten = self._unwritten, []
        self._background.submit(lambda: self._write(records), lambda error: self._flushed(records, error))

    def _write(self, records: list[tuple[int, int]]) -> None:
        self._file.write(b"".join(_record(*it) for it in records), (records[0][0] - 1) * _RECORD.size)
        if self._mistake is Mistake.PROMISES_BEFORE_SYNC:
            return
        try:
            self._file.sync()
        except OSError:
            if self._mistake is not Mistake.IGNORES_FAILED_SYNC:
                raise
            self._file.sync()

    def _flushed(self, records: list[tuple[int, int]], error: Exception | None) -> None:
        self._is_flushing = self.durability.is_syncing = False
        if error is not None:
            self._fail(StoreFailed(f"the toy store cannot write: {error}"))
            return
        later = self._mistake is Mistake.PROMISES_WHAT_CAME_LATER
        self._durable = len(self._shelf) if later else records[-1][0]
        if self._durable == len(self._shelf):
            self.durability.durable_sequence = self._appended
        served = [waiter for waiter in self._waiters if waiter[0] <= self._durable]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > self._durable]
        self.durability.has_waiters = bool(self._waiters)
        for _, callback, _ in reversed(served) if self._mistake is Mistake.CALLS_BACK_BACKWARDS else served:
            callback()
        self._flush()

    def _fail(self, failure: StoreFailed) -> None:
        self._failure = failure
        waiters, self._waiters = self._waiters, []
        for _, _, on_failed in waiters:
            if on_failed is not None:
                on_failed(failure)

    @property
    def failure(self) -> StoreFailed | None:
        return self._failure

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """For the journal alone."""

    def close(self) -> None:
        if self._mistake is not Mistake.FORGETS_TO_CLOSE:
            self.when_durable(lambda: None)
        self._background.finish()
        self._file.close()
        self._lock.release()

    # ---- what was kept -----------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        return self._memory.places()

    def waiting(self, place: Place) -> list[WaitingMessage]:
        return self._memory.waiting(place)

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        return self._memory.waiting_portions(place)

    def durables(self) -> list[DurableRecord]:
        return self._memory.durables()

    def jobs(self) -> list[ScheduledJob]:
        return self._memory.jobs()

    def prepared(self) -> list[PreparedTransaction]:
        return self._memory.prepared()

    def state_records(self) -> list[StateRecord]:
        return self._memory.state_records()

    def has_crashed(self, within_seconds: float) -> bool:  # noqa: ARG002  it does not know
        return False

    def last_counts(self) -> list[tuple[bytes, int]]:
        return self._memory.last_counts()

    def commits(self) -> list[Hashable]:
        return self._memory.commits()

    def dispatched_up_to(self, place: Place) -> int:
        return self._memory.dispatched_up_to(place)

    def last_sequence(self) -> int:
        return self._memory.last_sequence()

    # ---- while it runs -----------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        if self._mistake is Mistake.LOADS_FROM_ANYWHERE:
            everything = {n: m for messages in self._memory._places.values() for n, m in messages.items()}
            return [everything.get(sequence) for sequence in sequences]
        return self._memory.load(place, sequences)

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,  # noqa: ARG002 - it fails as a whole
    ) -> None:
        on_loaded(self.load(place, sequences))

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        return self._memory.read(place, sequences)

    def full(self) -> None:
        """Never, for a test."""

    def on_room(self, callback: Callable[[], None]) -> None:
        """There always is."""

    used_bytes = 0
    bytes_max = 0
    message_bytes_max: int | None = None

    def files(self) -> list[FileInfo]:
        return []

    def database(self) -> None:
        """There is none."""

    def checkpoint(self) -> None:
        """There is nothing that could lag behind."""


def _check(number: int, last: int) -> int:
    return zlib.crc32(struct.pack(">QQ", number, last))


def _record(number: int, last: int) -> bytes:
    return _RECORD.pack(number, last, _check(number, last))
