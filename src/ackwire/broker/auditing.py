"""The audit: the broker reports every event in the life of a message, so that one can prove later where it went.

A broker has an `Audit` or none. It reports an event after the decision and before any effect outside of memory. So a
log that keeps the events in this order has everything that a crash leaves behind. Messages that the broker sends about
itself (advisories, answers to queries) are not reported.

Most messages go straight to a consumer when they arrive: `sent`, `stored` and `dispatched` are then one report
(`arrived`). `Message.is_send_unaudited` marks a message that a producer has just handed in: the event of its first
place then says that it was sent, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from ackwire.broker.in_flight import AckKind
from ackwire.broker.session import Subscription
from ackwire.compilation import mypyc_attr
from ackwire.jms.message import Message, Origin
from ackwire.store.contract import WaitingMessage


class Event(IntEnum):
    """What can happen; the first three are bits, because they often happen together."""

    SENT = 1
    STORED = 2
    DISPATCHED = 4
    ACKED = 8
    REDELIVERED = 9
    RETURNED = 10
    """It came back to its place, and its consumer had not seen it: it is not counted as redelivered."""
    DEAD_LETTERED = 11
    EXPIRED = 12
    PURGED = 13
    DISCARDED = 14
    RESTORED = 15
    CENSUS = 16
    STARTED = 17
    STOPPED = 18
    DURABLE = 19
    """Every event up to number `count` is on the medium; no client was answered for anything later."""
    DROPPED = 20
    """A send that waited for space when its client left, and for which there was none. It was never taken: it had no
    answer, and has neither a sequence nor a place."""


ENDS: Final = frozenset((Event.ACKED, Event.DEAD_LETTERED, Event.EXPIRED, Event.PURGED, Event.DISCARDED))
"""With one of these a message has left its place for good."""

Copy = tuple[Origin, bytes, int]
"""What is kept of a message that a topic's subscriber holds: origin, key, sequence."""


class AuditedPlace(Protocol):
    """A queue, a durable subscription or a topic."""

    @property
    def audit_name(self) -> str:
        """`queue://orders`, `durable://client/name`, `topic://news`."""
        ...


@dataclass(frozen=True, slots=True)
class DestinationPlace:
    """Implements `AuditedPlace` for a destination by its name: where a message was sent to that was not taken."""

    audit_name: str


@mypyc_attr(allow_interpreted_subclasses=True)  # tests have some
class Audit(ABC):
    """Gets the events of messages."""

    @abstractmethod
    def sent(self, message: Message) -> None:
        """A producer's message was taken: `Message.is_send_unaudited` is reset, here or by `stored` or `arrived`."""
        ...

    @abstractmethod
    def stored(self, place: AuditedPlace, message: Message) -> None:
        """*message* was put on *place*, where it waits."""
        ...

    @abstractmethod
    def arrived(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        """*message* was put on *place* and goes to *subscription* at once."""
        ...

    @abstractmethod
    def dispatched(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        """*message*, which waited, goes to *subscription*."""
        ...

    @abstractmethod
    def published(self, message: Message, subscription: Subscription) -> None:
        """A subscriber of a topic that is not durable is sent its copy."""
        ...

    @abstractmethod
    def acked(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        """The usual ack: one message, at once."""
        ...

    @abstractmethod
    def acked_all(
        self,
        place: AuditedPlace,
        messages: Iterable[Message],
        subscription: Subscription | None,
        kind: AckKind,
        transaction: Hashable | None,
    ) -> None:
        """Any other ack; *transaction* is the one that has committed it."""
        ...

    @abstractmethod
    def copies_acked(self, copies: Iterable[Copy], subscription: Subscription) -> None:
        """A subscriber of a topic has consumed *copies*."""
        ...

    @abstractmethod
    def happened(
        self,
        event: Event,
        place: AuditedPlace,
        message: Message,
        subscription: Subscription | None = None,
        cause: str | None = None,
    ) -> None:
        """Anything else about one message."""
        ...

    @abstractmethod
    def happened_to(self, event: Event, place: AuditedPlace, sequences: Iterable[int], cause: str | None) -> None:
        """The same about messages of which only the sequences are known."""
        ...

    @abstractmethod
    def cursor(
        self, event: Event, place: AuditedPlace, sequences: Iterable[int], name: str, cause: str | None = None
    ) -> None:
        """Messages were given to a cursor (dispatched), given back, committed (acked), or ended with it."""
        ...

    @abstractmethod
    def batch(self, place: AuditedPlace, messages: Iterable[WaitingMessage], producer_key: bytes | None) -> None:
        """Staged messages were committed: they are sent and stored. With a *producer_key* they are that producer's,
        and each has its sequence as its count."""
        ...

    @abstractmethod
    def census(self, place: AuditedPlace, count: int) -> None:
        """*place* holds *count* messages now."""
        ...

    @abstractmethod
    def started(self, last_sequence: int) -> str | None:
        """The broker starts with a store whose last sequence is *last_sequence*.

        Returns why the messages in the store must be reported (`Event.RESTORED`); None if the audit has them all.
        """
        ...

    @abstractmethod
    def stopped(self, last_sequence: int) -> None:
        """The broker has stopped in order."""
        ...
