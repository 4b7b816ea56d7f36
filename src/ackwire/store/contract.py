"""What the broker asks of a store, and exactly what is durable when.

The broker records what happens in the order in which it happens and goes on at once; only those who were promised
durability wait, by `when_durable`. So one sync can serve everybody who waits for it. A store keeps that order: after a
crash it holds everything up to some point and nothing after it, and that point is not before the last promise.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ackwire.destinations import Destination
from ackwire.message import Message


@dataclass(frozen=True, slots=True)
class DurableKey:
    """A durable subscription's name: client id and subscription name (SEMANTICS A3)."""

    client_id: str
    name: str

    def __repr__(self) -> str:
        return f"durable subscription {self.name} of client {self.client_id}"


Place = Destination | DurableKey
"""Where a message can wait: a queue, or a durable subscription to a topic."""


@dataclass(frozen=True, slots=True)
class DurableRecord:
    """What is kept of a durable subscription besides its messages."""

    key: DurableKey
    destination: Destination
    selector: str | None
    no_local: bool


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A message that is to be delivered later, once or again and again (SEMANTICS I)."""

    job_id: str
    message: Message
    """As it was sent; it never changes while the job lives."""
    start_ms: int
    """When it was scheduled."""
    due_ms: int
    """When its next delivery is due."""
    delay_ms: int
    period_ms: int
    repeats_left: int
    """Deliveries that follow the next one; negative: without end."""
    cron: str
    """Empty for none."""
    fresh_ids: bool
    """Whether each delivery has a message id of its own: it was sent to be repeated."""


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """An XA transaction that promised to commit (SEMANTICS G3): what it will send, and what it will acknowledge."""

    transaction_id: Hashable
    sends: tuple[Message, ...]
    acks: tuple[tuple[Place, Message], ...]


class Store(Protocol):
    """One contract for every store (SEMANTICS K1)."""

    def append(self, message: Message, places: Sequence[Place]) -> None:
        """Record that *message* waits in *places*. Durable once a later `when_durable` has called back."""
        ...

    def remove(self, place: Place, message: Message) -> None:
        """Record that *message* has left *place*. A message removed before it was written need not be written."""
        ...

    def remove_place(self, place: Place) -> None:
        """Record that *place* and all that is in it are gone: a deleted queue, an ended subscription."""
        ...

    def add_durable(self, record: DurableRecord) -> None:
        """Record a durable subscription, or its new terms."""
        ...

    def add_job(self, job: ScheduledJob) -> None:
        """Record a scheduled job, or, where its id is known, when it is due next. A known one has the same message."""
        ...

    def remove_job(self, job_id: str) -> None:
        """Record that a scheduled job has ended; an unknown one changes nothing."""
        ...

    def jobs(self) -> Iterable[ScheduledJob]:
        """The scheduled jobs that are there, in any order. Asked once, when the broker starts (I2)."""
        ...

    def prepare(self, transaction: PreparedTransaction) -> None:
        """Record a prepared transaction; it is kept until `decide`. Its sends are nowhere else yet."""
        ...

    def decide(self, transaction_id: Hashable) -> None:
        """Record that a prepared transaction is over; what it came to is recorded beside this, `atomically`."""
        ...

    def places(self) -> Iterable[Place]:
        """Where messages wait. This and the following are asked once, when the broker starts."""
        ...

    def messages(self, place: Place) -> Iterable[Message]:
        """What waits in *place*."""
        ...

    def durables(self) -> Iterable[DurableRecord]:
        """The durable subscriptions."""
        ...

    def prepared(self) -> Iterable[PreparedTransaction]:
        """The prepared transactions that are not decided."""
        ...

    def atomically(self) -> AbstractContextManager[None]:
        """What is recorded inside is there after a crash as a whole, or not at all (G2)."""
        ...

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call *callback* as soon as everything recorded so far is durable; at once if it already is."""
        ...

    def close(self) -> None:
        """Make everything recorded so far durable and let go of all resources."""
        ...
