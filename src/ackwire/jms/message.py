"""Message: the value that every layer passes on.

A message travels through the broker as the bytes it came in. `frame` is its canonical form: an OpenWire 12 message in
loose encoding, without size prefix. Only the header fields that decide what happens to it are parsed, once, when
it arrives; body and properties are decoded by those who need them. Other protocols and older OpenWire versions are
turned into this form on arrival, so that the store and every consumer see one format.
"""

from typing import Final, Protocol, final

from ackwire.compilation import mypyc_attr
from ackwire.jms.destinations import Destination

LEAVES_FREELY: Final = 0
"""No sender waits for it: it leaves unless a caller waits for the store."""
WAITS_FOR_STORE: Final = 1
"""Its sender waits until it is durable, and so do its consumers."""
MAY_LEAVE_EARLY: Final = 2
"""Its sender waits until it is durable; a consumer need not."""
HAS_LEFT_EARLY: Final = 3
"""A consumer got it before it was durable."""


@final
class Origin:
    """The common fields of one producer's messages to one destination, in one transaction.

    Each connection keeps the last few: their bytes repeat in front of every message, so a message is recognised by
    one comparison.
    """

    __slots__ = ("connection_id", "destination", "id_end", "prefix", "producer_key", "transaction")

    def __init__(
        self,
        *,
        prefix: bytes,
        destination: Destination,
        transaction: object,
        connection_id: str | None,
        producer_key: bytes,
        id_end: int,
    ) -> None:
        self.prefix = prefix
        self.destination = destination
        self.transaction = transaction
        """The id of the transaction the message was sent in, or None."""
        self.connection_id = connection_id
        """The connection whose producer it is."""
        self.producer_key = producer_key
        """What the keys of the producer's messages begin with; its count follows."""
        self.id_end = id_end
        """Where in the frame the producer's part of the message id ends and the broker's sequence begins."""


@mypyc_attr(acyclic=True)  # compiled, the garbage collector does not look at it: there may be millions
@final
class Message:
    """One message and what the broker needs to know of it.

    `key` identifies it (producer and the producer's count); `sequence` is its place in the broker's order, 0 until the
    broker gave it one. Times are milliseconds since 1970, an `expiration` of 0 is never.
    """

    __slots__ = (
        "departure",
        "destination",
        "dispatched_ms",
        "expiration",
        "frame",
        "group_id",
        "group_sequence",
        "is_send_unaudited",
        "key",
        "origin",
        "persistent",
        "priority",
        "producer_count",
        "properties_offset",
        "redelivery_counter",
        "sequence",
        "tail_offset",
        "ticket",
        "timestamp",
    )

    def __init__(
        self,
        *,
        frame: bytes,
        key: bytes,
        origin: Origin,
        persistent: bool,
        priority: int,
        expiration: int,
        timestamp: int,
        properties_offset: int,
        tail_offset: int,
        producer_count: int | None = None,
    ) -> None:
        self.frame = frame
        self.key = key
        self.origin = origin
        self.destination = origin.destination
        self.persistent = persistent
        self.priority = priority
        self.expiration = expiration
        self.timestamp = timestamp
        self.properties_offset = properties_offset
        """Where the encoded properties begin in the frame; 0 for none."""
        self.tail_offset = tail_offset
        """Where the fields behind the properties begin in the frame."""
        self.producer_count = int.from_bytes(key[-8:], signed=True) if producer_count is None else producer_count
        """Which of its producer's messages it is, as its key says, too."""
        self.group_id: str | None = None
        self.group_sequence = 0
        self.redelivery_counter = 0
        self.sequence = 0
        self.dispatched_ms = 0
        """When a queue last sent it to a consumer; 0: when it arrived, if at all."""
        self.departure = LEAVES_FREELY
        """Whether it may go to a consumer before it is durable (`broker/early_dispatch.py`)."""
        self.is_send_unaudited = False
        """Whether a producer sent it and the audit has no record of that yet."""
        self.ticket = 0
        """Where its bytes stand in the temp store, if they were spilled; 0: nowhere."""

    def copy(self) -> "Message":
        """The same message once more, with a redelivery count of its own; the bytes are shared."""
        copy = Message(
            frame=self.frame,
            key=self.key,
            origin=self.origin,
            persistent=self.persistent,
            priority=self.priority,
            expiration=self.expiration,
            timestamp=self.timestamp,
            properties_offset=self.properties_offset,
            tail_offset=self.tail_offset,
            producer_count=self.producer_count,
        )
        copy.group_id = self.group_id
        copy.group_sequence = self.group_sequence
        copy.sequence = self.sequence
        return copy

    @property
    def size_bytes(self) -> int:
        """The bytes that the message counts towards a limit."""
        return len(self.frame)

    def __repr__(self) -> str:
        return f"<Message {self.sequence} to {self.destination!r}, {len(self.frame)} bytes>"


class Stamper(Protocol):
    """Gives messages their place in the broker's order. Compiled, as this is done to every message."""

    def stamp(self, message: Message, sequence: int, in_time_ms: int) -> None:
        """Write *sequence* and the time of arrival into *message*, in its bytes too."""
        ...
