"""What the broker may do to a message's bytes, without knowing their format.

A message travels as it came (`jms/message.py`). The few things that change it (its place in the broker's order, a new
destination, a cause of death, advisories that the broker writes itself) go through this seam; `wire/openwire/editor.py`
implements it for the canonical form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message, Stamper
from ackwire.jms.types import Value


class AdvisoryKind(Enum):
    """What an advisory is about; decides its payload."""

    CONNECTION_ADDED = "connection added"
    CONNECTION_REMOVED = "connection removed"
    CONSUMER_ADDED = "consumer added"
    CONSUMER_REMOVED = "consumer removed"
    PRODUCER_ADDED = "producer added"
    PRODUCER_REMOVED = "producer removed"
    DESTINATION_ADDED = "destination added"
    DESTINATION_REMOVED = "destination removed"
    MESSAGE = "message"
    """About one message (expired, dead-lettered, …), which is the payload."""
    PLAIN = "plain"
    """No payload, properties only."""


@dataclass(frozen=True, slots=True)
class ConsumerDetails:
    """What an advisory says about a consumer."""

    consumer_id: str
    destination: Destination
    prefetch: int
    selector: str | None = None
    subscription_name: str | None = None
    no_local: bool = False
    exclusive: bool = False
    priority: int = 0
    browser: bool = False


@dataclass(frozen=True, slots=True)
class Advisory:
    """Something that happened to the broker, to be published on *topic*."""

    kind: AdvisoryKind
    topic: Destination
    connection_id: str | None = None
    client_id: str | None = None
    user: str | None = None
    consumer: ConsumerDetails | None = None
    consumer_id: str | None = None
    producer_id: str | None = None
    destination: Destination | None = None
    """The destination it is about."""
    message: Message | None = None
    target_consumer_id: str | None = None
    """Set when it is replayed for one late joiner only."""
    properties: Mapping[str, Value] = field(default_factory=dict)


class MessageEditor(Protocol):
    """Reads and rewrites messages."""

    @property
    def stamper(self) -> Stamper:
        """A function that gives messages their sequence in the broker's order."""
        ...

    def restored(self, frame: bytes) -> Message:
        """The message whose canonical bytes were kept, with its place in the broker's order, never redelivered.

        Raises `RemoteProtocolError` for bytes that are no message.
        """
        ...

    def lookup(self, message: Message) -> Callable[[str], Value]:
        """The values of *message* for selectors: headers and properties by name, None for those not set."""
        ...

    def properties(self, message: Message) -> dict[str, Value]:
        """The message's properties, decoded; undecodable ones raise `RemoteProtocolError`."""
        ...

    def readdressed(
        self,
        message: Message,
        destination: Destination,
        *,
        original_destination: Destination | None = None,
        properties: Mapping[str, Value] | None = None,
        removed_properties: tuple[str, ...] = (),
        expiration: int | None = None,
        persistent: bool | None = None,
        new_id: bool = False,
    ) -> Message:
        """A copy for *destination*, out of any transaction, not yet stamped, never redelivered.

        *properties* are added to the ones it has, *removed_properties* taken away. With *new_id* the copy gets a
        message id of the broker's own, so that it is another message and not the same once more.
        """
        ...

    def with_expiration(self, message: Message, expiration: int, timestamp: int) -> None:
        """Change when *message* was sent and when it expires (N1)."""
        ...

    def advisory(self, advisory: Advisory) -> Message:
        """The message that tells of *advisory*, from the broker itself, non-persistent."""
        ...

    def message_id(self, message: Message) -> str:
        """JMSMessageID, for people."""
        ...
