"""The memory store: durable until the process ends, which is all that `--store memory` promises (SEMANTICS K6).

It keeps what the contract says must be kept, so it is also the reference that other stores are compared with.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from ackwire.message import Message
from ackwire.store.contract import DurableKey, DurableRecord, Place, PreparedTransaction, ScheduledJob


class MemoryStore:
    """Implements `Store` without a disk."""

    def __init__(self) -> None:
        self._places: dict[Place, dict[int, Message]] = {}
        """For each place its messages by sequence: copies of one message share a key, and may meet in one place."""
        self._durables: dict[DurableKey, DurableRecord] = {}
        self._jobs: dict[str, ScheduledJob] = {}
        self._prepared: dict[Hashable, PreparedTransaction] = {}

    def append(self, message: Message, places: Sequence[Place]) -> None:
        for place in places:
            self._places.setdefault(place, {})[message.sequence] = message

    def remove(self, place: Place, message: Message) -> None:
        messages = self._places.get(place)
        if messages is not None:
            messages.pop(message.sequence, None)

    def remove_place(self, place: Place) -> None:
        self._places.pop(place, None)
        if isinstance(place, DurableKey):
            self._durables.pop(place, None)

    def add_durable(self, record: DurableRecord) -> None:
        self._durables[record.key] = record

    def add_job(self, job: ScheduledJob) -> None:
        self._jobs[job.job_id] = job

    def remove_job(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)

    def jobs(self) -> list[ScheduledJob]:
        return list(self._jobs.values())

    def prepare(self, transaction: PreparedTransaction) -> None:
        self._prepared[transaction.transaction_id] = transaction

    def decide(self, transaction_id: Hashable) -> None:
        self._prepared.pop(transaction_id, None)

    @contextmanager
    def atomically(self) -> Iterator[None]:
        yield

    def when_durable(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        self._places.clear()
        self._durables.clear()
        self._jobs.clear()
        self._prepared.clear()

    def places(self) -> list[Place]:
        return list(self._places)

    def prepared(self) -> list[PreparedTransaction]:
        return list(self._prepared.values())

    def messages(self, place: Place) -> list[Message]:
        """What waits in *place*, in the order in which it came."""
        return list(self._places.get(place, {}).values())

    def durables(self) -> list[DurableRecord]:
        return list(self._durables.values())
