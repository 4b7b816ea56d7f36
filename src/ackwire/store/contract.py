"""What the broker asks of a store, and exactly what is durable when.

The broker records what happens in the order in which it happens and goes on at once; only those who were promised
durability wait, by `when_durable`. So one sync can serve everybody who waits for it. A store keeps that order: after a
crash it holds everything up to some point and nothing after it, and that point is not before the last promise.

A store that fails to write or to sync is *failed*: from then on it promises nothing, and every verb that records
raises `StoreFailed` (K7). Only a new start, which reads what is really there, makes it good again.
"""

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

from ackwire.destinations import Destination
from ackwire.errors import AckwireError, StoreFailed
from ackwire.message import Message
from ackwire.runs import Runs


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
    user: str = ""
    """Who began it, and may decide it; empty for a client that gave no name."""


@dataclass(frozen=True, slots=True)
class CursorRecord:
    """A cursor: what it reads, how far it has committed, and which messages are its own since then."""

    name: str
    place: Place
    """Where its messages are, though nobody else gets them."""
    destination: Destination
    selector: str | None
    committed: int
    """The number of the last message that it needs no more."""
    removed: int
    """The number of the last one that has left its place; those between the two are about to."""
    held: Runs
    """The messages behind that, in the order of their numbers."""
    unsafe: Runs
    """Those of them that were not persistent: they are in the store only because the cursor has them."""

    @property
    def key(self) -> str:
        return f"cursor {self.name}"


@dataclass(frozen=True, slots=True)
class StagedRecord:
    """Part of a batch: messages that are in their places, and that nobody sees yet."""

    producer: str
    part: str
    batch: int
    since_ms: int
    committed: bool
    """They are to be seen; those of topics are about to be published."""
    held: tuple[tuple[Place, Runs], ...]

    @property
    def key(self) -> str:
        return f"part {len(self.producer)} {self.producer} {self.part}"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The last batch that a producer has committed, so that a repetition is recognised."""

    producer: str
    batch: int
    committed_ms: int

    @property
    def key(self) -> str:
        return f"batch {self.producer}"


StateRecord = CursorRecord | StagedRecord | BatchRecord
"""What is remembered of those who read and write in bulk. A note replaces the one with the same key."""


Kept = Place | DurableRecord | PreparedTransaction | ScheduledJob | StateRecord
"""One thing that a start brings back."""


StoredFrame = tuple[bytes, int]
"""A message as it was recorded, unread: its bytes, and how often it was delivered before."""


class WaitingMessage(NamedTuple):
    """What a restart needs to know of a message that waits, without its bytes."""

    sequence: int
    expiration: int
    priority: int
    size_bytes: int


@final
class WaitingMessages:
    """Many of them, column by column: a restart may have millions."""

    __slots__ = ("expirations", "priorities", "sequences", "sizes")

    def __init__(self, messages: Iterable[WaitingMessage] = ()) -> None:
        self.sequences = array("q")
        self.expirations = array("q")
        self.priorities = array("b")
        self.sizes = array("I")
        for message in messages:
            self.sequences.append(message.sequence)
            self.expirations.append(message.expiration)
            self.priorities.append(message.priority)
            self.sizes.append(message.size_bytes)

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[WaitingMessage]:
        return map(WaitingMessage, self.sequences, self.expirations, self.priorities, self.sizes)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a store, and what keeps it there."""

    number: int
    size_bytes: int
    live_messages: int
    """A message counts once for each place where it waits."""
    live_bytes: int
    places: tuple[tuple[Place, int, int], ...]
    """Whose messages are in it: place, messages, bytes."""
    state: tuple[tuple[str, int], ...]
    """What else it tells of: what, and how many."""
    removals: tuple[tuple[int, int], ...]
    """For each older file, how many messages of it this one says are gone."""
    oldest_ms: int | None
    """When the oldest message in it was sent, if that is known."""
    why: str
    """All that as a sentence."""


class StoredForm(Protocol):
    """How values that only the wire knows become bytes and come back; stores keep the bytes."""

    def message(self, frame: bytes) -> Message:
        """The message whose canonical bytes were kept, with its sequence, never redelivered."""
        ...

    def transaction_to_bytes(self, transaction_id: Hashable) -> bytes:
        """A transaction's id as bytes."""
        ...

    def transaction_from_bytes(self, data: bytes) -> Hashable:
        """The id that `transaction_to_bytes` was given; equal to it, and with the same hash."""
        ...


class Store(Protocol):
    """One contract for every store (SEMANTICS K1)."""

    # ---- what happens: recorded in this order, durable once a later `when_durable` has called back ------------------

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
        """Record that a prepared transaction is over; what it came to is recorded beside this, `atomically`."""
        ...

    def committed(self, transaction_id: Hashable) -> None:
        """Record that a local transaction has committed, beside what it came to, so that a repetition is recognised."""
        ...

    def put_state_record(self, note: StateRecord) -> None:
        """Record *note*, in the place of an earlier one with the same key."""
        ...

    def drop_state_record(self, key: str) -> None:
        """Record that a note is not needed any more; an unknown one changes nothing."""
        ...

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        """Record that messages of *place* up to *sequence* may reach consumers from now on. Whoever lets one out before
        that is durable may have it delivered again after a crash as if for the first time."""
        ...

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        """Record that of what waits none behind *sequence* was seen by a consumer: at a clean end, when it is known."""
        ...

    def atomically(self) -> AbstractContextManager[None]:
        """What is recorded inside is there after a crash as a whole, or not at all (G2)."""
        ...

    # ---- promises --------------------------------------------------------------------------------------------------

    def expect(self) -> None:
        """Say that what is recorded from now on to the next `when_durable` is waited for."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for `when_durable`, or is about to."""
        ...

    @property
    def is_syncing(self) -> bool:
        """Whether a sync is under way that was not begun for what is recorded now: that takes this one and another."""
        ...

    @property
    def durable_sequence(self) -> int:
        """Every message that was recorded with a sequence up to this one is durable, if it is there at all."""
        ...

    def when_durable(
        self,
        callback: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        *,
        is_cancellable: bool = False,
        can_wait: bool = False,
    ) -> None:
        """Call *callback* as soon as everything recorded so far is durable, at once if it already is; or *on_failed*
        if that will never be known. If it *may_be_forgone*, the caller must be free to hear why meanwhile. If it also
        *can_wait*, it probably will be in a moment, and nothing is done for it before."""
        ...

    def cancel(self, callback: Callable[[], None]) -> bool:
        """Do not call *callback* any more: nobody waits for it. False if it was called, or was never to be."""
        ...

    def close(self) -> None:
        """Make everything recorded so far durable and let go of all resources. Raises `StoreFailed` if that failed."""
        ...

    # ---- what was kept: asked once, when the broker starts ---------------------------------------------------------

    def has_crashed(self, within_seconds: float) -> bool:
        """Whether an earlier run ended without `close`, and the one after it began at most so long ago."""
        ...

    def places(self) -> Iterable[Place]:
        """The destinations that exist, and wherever else messages wait."""
        ...

    def waiting(self, place: Place) -> Iterable[WaitingMessage]:
        """What waits in *place*, in order of sequence."""
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
        """The notes that are kept, in any order."""
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
        """The highest sequence that any message ever had here, or that was handed out; none is used twice."""
        ...

    # ---- while it runs ---------------------------------------------------------------------------------------------

    @property
    def pages(self) -> bool:
        """Whether `load` reads from elsewhere than memory, so that a recorded message may be let go."""
        ...

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        """Messages of *place*, one for each of *sequences*; None for one that is not there or cannot be read, which
        the store has reported. Messages that are recorded and not removed can be loaded at any time."""
        ...

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        """What `load` gives, without looking into the messages: for those who pass them on in bulk."""
        ...

    def full(self) -> str | None:
        """Why nothing more should be sent here, as a sentence with the limit; None if there is room. Removals always
        find room."""
        ...

    def on_room(self, callback: Callable[[], None]) -> None:
        """Have *callback* called whenever there may be room again after `full`."""
        ...

    def files(self) -> list[FileInfo]:
        """The files there are, oldest first, with what keeps each; none where there are no files to explain."""
        ...


class SpillDamaged(AckwireError):
    """Spilled bytes cannot be read, or are not the ones that were written."""


class Spill(Protocol):
    """Room beside memory for messages that nobody expects to find after a restart (SEMANTICS B6, B7)."""

    def append(self, frame: bytes) -> int | None:
        """Keep *frame*; the answer is a ticket above 0, or None if there is no room."""
        ...

    def read(self, ticket: int) -> bytes:
        """What was kept. Raises `SpillDamaged`; the ticket is to be freed all the same."""
        ...

    def free(self, ticket: int) -> None:
        """The frame is not needed any more. Each ticket is freed once."""
        ...

    def has_room(self, size_bytes: int) -> bool:
        """Whether a frame of that size would be taken now, as far as is known."""
        ...

    @property
    def used_bytes(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...

    def close(self) -> None:
        """Forget everything."""
        ...
