"""What a broker asks of a store, in four parts: it records, makes durable, restores at a start, and reads back.

Each part of the broker takes the protocol that it needs; `Store` is all of them.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from ackwire.errors import StoreFailed
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract.administration import Administration
from ackwire.store.contract.durability import DurabilityState, Sync
from ackwire.store.contract.values import (
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    StoredFrame,
    WaitingMessage,
    WaitingMessages,
)


class Recorder(Protocol):
    """Records changes, in order. They are durable once a later `when_durable` has called back.

    Each verb raises `StoreFailed` once the store has failed.
    """

    def append(self, message: Message, places: Sequence[Place]) -> None:
        """Record that *message*, with its redelivery counter, waits in *places*, and that its producer has counted as
        far as it (J4)."""
        ...

    def remove(self, place: Place, message: Message) -> None:
        """Record that *message* has left *place*. A message removed before it was written need not be written."""
        ...

    def remove_many(self, place: Place, sequences: Iterable[int]) -> None:
        """Record that messages have left *place*, by their sequences; those that are not there change nothing."""
        ...

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        """Record that every message of *place* up to *last_sequence* is gone, but for the sequences *kept*."""
        ...

    def remove_place(self, place: Place) -> None:
        """Record that *place* and all that is in it are gone: a deleted queue, an ended subscription."""
        ...

    def add_destination(self, destination: Destination) -> None:
        """Record that a queue or topic exists, until `remove_place`; one that is known changes nothing."""
        ...

    def add_durable(self, record: DurableRecord) -> None:
        """Record a durable subscription, or its new terms."""
        ...

    def add_job(self, job: ScheduledJob) -> None:
        """Record a scheduled job, and that its producer has counted as far as its message (J4); or, where its id is
        known, when it is due next. A known one has the same message."""
        ...

    def remove_job(self, job_id: str) -> None:
        """Record that a scheduled job has ended; an unknown one changes nothing."""
        ...

    def remember_count(self, producer_key: bytes, count: int) -> None:
        """Record that a producer has counted as far as *count*, without a message; less than is known says nothing."""
        ...

    def prepare(self, transaction: PreparedTransaction) -> None:
        """Record a prepared transaction; it is kept until `decide`. Its sends are nowhere else yet."""
        ...

    def decide(self, transaction_id: Hashable) -> None:
        """Record that a prepared transaction is over; its effects are recorded beside this, `atomically`."""
        ...

    def committed(self, transaction_id: Hashable) -> None:
        """Record that a local transaction has committed, beside its effects, so that a repetition is recognised."""
        ...

    def put_state_record(self, record: StateRecord) -> None:
        """Record *record*, in the place of an earlier one with the same key."""
        ...

    def drop_state_record(self, key: str) -> None:
        """Record that a state record is not needed any more; an unknown one changes nothing."""
        ...

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        """Record that messages of *place* up to *sequence* may reach consumers from now on. A message that is
        dispatched before that is durable may come again after a crash as if for the first time."""
        ...

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        """Record that of what waits none behind *sequence* was seen by a consumer: at a clean end, when it is known."""
        ...

    def atomically(self) -> AbstractContextManager[None]:
        """Changes recorded inside are atomic: after a crash all of them are there, or none (G2)."""
        ...

    def full(self) -> str | None:
        """Why nothing more should be sent here, as a sentence with the limit; None if there is room. Removals always
        find room."""
        ...

    def on_room(self, callback: Callable[[], None]) -> None:
        """Have *callback* called whenever there may be room again after `full`."""
        ...


class Durability(Protocol):
    """When what was recorded is safe, and whether it can be at all."""

    @property
    def durability(self) -> DurabilityState:
        """How far the store is: the same object as long as the store is open."""
        ...

    @property
    def failure(self) -> StoreFailed | None:
        """Why nothing is promised any more, if the store has failed (K7)."""
        ...

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        sync: Sync = Sync.NOW,
    ) -> None:
        """Call *callback* as soon as everything recorded so far is durable, at once if it already is; or *on_failed*
        if that will never be known. *sync* says when the store begins to sync for it."""
        ...

    def cancel(self, callback: Callable[[], None]) -> bool:
        """Do not call *callback* any more. False if it was called, or was never to be."""
        ...

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None:
        """Have *before_write* called before anything is written, and *on_durable* with its result once that write is
        durable, before any `when_durable` calls back: so a log beside the store is never behind it. A store that
        writes nothing calls neither."""
        ...

    def close(self) -> None:
        """Make everything recorded so far durable and release all resources. Raises `StoreFailed` if that failed."""
        ...


class Restore(Protocol):
    """Returns what an earlier run has recorded. Called at a start, before anything new is recorded."""

    def has_crashed(self, within_seconds: float) -> bool:
        """Whether an earlier run ended without `close`, and the one after it began at most so long ago."""
        ...

    def places(self) -> Iterable[Place]:
        """The destinations that exist, and wherever else messages wait."""
        ...

    def waiting(self, place: Place) -> Iterable[WaitingMessage]:
        """The pending messages of *place*, in order of sequence."""
        ...

    def waiting_portions(self, place: Place) -> Iterable[WaitingMessages]:
        """The same, many at once."""
        ...

    def durables(self) -> Iterable[DurableRecord]:
        """The durable subscriptions."""
        ...

    def jobs(self) -> Iterable[ScheduledJob]:
        """The scheduled jobs that are there, in any order (I2)."""
        ...

    def prepared(self) -> Iterable[PreparedTransaction]:
        """The prepared transactions that are not decided."""
        ...

    def state_records(self) -> Iterable[StateRecord]:
        """The state records that are kept, in any order."""
        ...

    def last_counts(self) -> Iterable[tuple[bytes, int]]:
        """The last count of each producer that is remembered (`Origin.producer_key`), the longest unheard first."""
        ...

    def commits(self) -> Iterable[Hashable]:
        """The local transactions that are known to have committed, oldest first."""
        ...

    def dispatched_up_to(self, place: Place) -> int:
        """Up to which sequence messages of *place* may have reached consumers before this start. Such a message is
        loaded with a redelivery count of 1 at least."""
        ...

    def last_sequence(self) -> int:
        """The highest sequence that any message ever had here, or that was marked as dispatched; none is used twice."""
        ...


OnLoaded: TypeAlias = Callable[[list[Message | None]], None]
"""Gets the messages of a fetch."""


class Reader(Protocol):
    """Messages back, while the broker runs. What is recorded and not removed can be read at any time."""

    @property
    def pages(self) -> bool:
        """Whether messages are read from elsewhere than memory, so that a recorded message may leave memory."""
        ...

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        """Messages of *place*, one for each of *sequences*; None for one that is not there or cannot be read, which
        the store has reported. Blocks until they are read: for few and small messages of a local store."""
        ...

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        """Call *on_loaded* with what `load` gives, on the loop, which goes on meanwhile; it may be called before this
        returns. What has left *place* by then is None, and what took its place is given instead. *on_failed* is called
        instead if the fetch itself has failed later, for want of memory for example, which says nothing about the
        messages. Neither is called once the store has failed."""
        ...

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        """Like `load`, without parsing the messages: for bulk reads."""
        ...


class Store(Recorder, Durability, Restore, Reader, Administration, Protocol):
    """One contract for every store (SEMANTICS K1)."""
