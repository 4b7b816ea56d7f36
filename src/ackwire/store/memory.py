"""The memory store: durable until the process ends, which is all that `--store memory` promises (SEMANTICS K6).

It keeps what the contract says must be kept, so it is also the reference that other stores are compared with.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ackwire.errors import StoreFailed
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract import (
    DurabilityState,
    DurableKey,
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
from ackwire.util.lru import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED, Recent

_ALL_SEQUENCES: Final = 1 << 62
"""Above every sequence: what is recorded in memory is as durable as it will be."""


class MemoryStore:
    """Implements `Store` without a disk."""

    pages = False
    failure: StoreFailed | None = None
    used_bytes = 0
    bytes_max = 0
    message_bytes_max: int | None = None

    def __init__(self) -> None:
        self.durability = DurabilityState(_ALL_SEQUENCES)
        self._places: dict[Place, dict[int, Message]] = {}
        """For each place its messages by sequence: copies of one message share a key, and may meet in one place."""
        self._durables: dict[DurableKey, DurableRecord] = {}
        self._jobs: dict[str, ScheduledJob] = {}
        self._prepared: dict[Hashable, PreparedTransaction] = {}
        self._notes: dict[str, StateRecord] = {}
        self._last_counts: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED)
        self._commits: Recent[Hashable, None] = Recent(COMMITS_REMEMBERED)
        self._handed_out: dict[Place, int] = {}
        self._last_sequence = 0

    # ---- what happens ------------------------------------------------------------------------------------------

    def append(self, message: Message, places: Sequence[Place]) -> None:
        for place in places:
            self._places.setdefault(place, {})[message.sequence] = message
        self._count(message)
        self._last_sequence = max(self._last_sequence, message.sequence)

    def _count(self, message: Message) -> None:
        self.remember_count(message.origin.producer_key, message.producer_count)

    def remove(self, place: Place, message: Message) -> None:
        messages = self._places.get(place)
        if messages is not None:
            messages.pop(message.sequence, None)

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        messages = self._places.get(place, {})
        for sequence in sequences:
            messages.pop(sequence, None)

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        messages = self._places.get(place, {})
        for sequence in [it for it in messages if it <= last_sequence and it not in kept]:
            del messages[sequence]

    def remove_place(self, place: Place) -> None:
        self._places.pop(place, None)
        self._handed_out.pop(place, None)
        if isinstance(place, DurableKey):
            self._durables.pop(place, None)

    def add_destination(self, destination: Destination) -> None:
        self._places.setdefault(destination, {})

    def add_durable(self, record: DurableRecord) -> None:
        self._durables[record.key] = record

    def add_job(self, job: ScheduledJob) -> None:
        if job.job_id not in self._jobs:
            self._count(job.message)
        self._jobs[job.job_id] = job

    def remove_job(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)

    def remember_count(self, producer_key: bytes, count: int) -> None:
        last = self._last_counts.get(producer_key)  # it may be an older one again
        self._last_counts[producer_key] = count if last is None else max(count, last)

    def put_state_record(self, note: StateRecord) -> None:
        self._notes[note.key] = note

    def drop_state_record(self, key: str) -> None:
        self._notes.pop(key, None)

    def prepare(self, transaction: PreparedTransaction) -> None:
        self._prepared[transaction.transaction_id] = transaction

    def decide(self, transaction_id: Hashable) -> None:
        self._prepared.pop(transaction_id, None)

    def committed(self, transaction_id: Hashable) -> None:
        self._commits[transaction_id] = None

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        self._handed_out[place] = max(sequence, self._handed_out.get(place, 0))
        self._last_sequence = max(sequence, self._last_sequence)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        self._handed_out[place] = min(sequence, self._handed_out.get(place, 0))

    @contextmanager
    def atomically(self) -> Iterator[None]:
        yield

    # ---- promises ----------------------------------------------------------------------------------------------

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,  # noqa: ARG002 - memory does not fail
        sync: Sync = Sync.NOW,  # noqa: ARG002
    ) -> None:
        callback()

    def cancel(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002
        return False

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """Nothing is ever written."""

    def close(self) -> None:
        self._places.clear()
        self._durables.clear()
        self._jobs.clear()
        self._prepared.clear()
        self._notes.clear()

    # ---- what was kept -----------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        return list(self._places)

    def waiting(self, place: Place) -> list[WaitingMessage]:
        messages = sorted(self._places.get(place, {}).values(), key=lambda message: message.sequence)
        return [WaitingMessage(it.sequence, it.expiration, it.priority, it.size_bytes) for it in messages]

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        return [WaitingMessages(self.waiting(place))]

    def durables(self) -> list[DurableRecord]:
        return list(self._durables.values())

    def jobs(self) -> list[ScheduledJob]:
        return list(self._jobs.values())

    def prepared(self) -> list[PreparedTransaction]:
        return list(self._prepared.values())

    def state_records(self) -> list[StateRecord]:
        return list(self._notes.values())

    def has_crashed(self, within_seconds: float) -> bool:  # noqa: ARG002  what it knew would be gone
        return False

    def last_counts(self) -> list[tuple[bytes, int]]:
        return list(self._last_counts.items())

    def commits(self) -> list[Hashable]:
        return list(self._commits)

    def dispatched_up_to(self, place: Place) -> int:
        return self._handed_out.get(place, 0)

    def last_sequence(self) -> int:
        return self._last_sequence

    # ---- while it runs -----------------------------------------------------------------------------------------

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        messages = self._places.get(place, {})
        return [messages.get(sequence) for sequence in sequences]

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,  # noqa: ARG002 - memory does not fail
    ) -> None:
        on_loaded(self.load(place, sequences))

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        messages = self.load(place, sequences)
        return [None if it is None else (it.frame, it.redelivery_counter) for it in messages]

    def full(self) -> None:
        """Memory has a limit of its own (`limits.memory_bytes_max`)."""

    def on_room(self, callback: Callable[[], None]) -> None:
        """There always is."""

    def files(self) -> list[FileInfo]:
        return []

    def database(self) -> None:
        """There is none."""

    def checkpoint(self) -> None:
        """There is nothing that could lag behind."""
