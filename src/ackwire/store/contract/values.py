"""The values that a broker and its store exchange: names of places, and what is kept besides messages."""

from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.util.sequence_runs import Runs


class DurableKey(NamedTuple):
    """A durable subscription's name: client id and subscription name (SEMANTICS A3).

    A tuple, because stores look it up several times for each message: Python hashes and compares tuples in C.
    """

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
    """The place of its messages, which are reserved for it."""
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
    """Part of a batch: messages that are in their places and not visible yet."""

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
"""What is remembered of those who read and write in bulk. One replaces another with the same key."""


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
