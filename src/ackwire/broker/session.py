"""What one client owns: a connection with its sessions, producers and subscriptions.

Everything a connection announced is found here, and released as a unit when it leaves (SEMANTICS A1).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Protocol

from ackwire.broker.early_dispatch import Sender
from ackwire.broker.permissions import UNKNOWN, Principal
from ackwire.errors import ResourceLimit, UnknownResource
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.store.contract import DurableKey
from ackwire.util.clock import Timer

IMPLICIT_SESSION: int = -1
"""The session that exists with every connection; the Java client's own advisory consumer lives in it."""


class ClientPort(Protocol):
    """The server's end of a connection, as the broker sees it."""

    @property
    def is_ready(self) -> bool:
        """Whether the client takes more messages now. When it does again, call `Broker.resume`."""
        ...

    @property
    def has_received_all(self) -> bool:
        """Whether the client's system has confirmed every byte that was sent to it; False if that is unknown."""
        ...

    def hold(self, held: bool) -> None:
        """Stop reading from the client, or go on: its sends wait for space."""
        ...

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """Find out whether the client is still there, and say so later. It may leave before that."""
        ...

    def close(self, reason: str) -> None:
        """End the connection from the broker's side; it is already forgotten here."""
        ...


class ConsumerPort(Protocol):
    """The server's end of a subscription."""

    def deliver(self, message: Message, group_first: bool) -> None:
        """Send *message* to the consumer."""
        ...

    def change_prefetch(self, prefetch: int) -> None:
        """Tell the consumer that it may hold fewer messages than it asked for."""
        ...

    def end_of_messages(self) -> None:
        """Tell the consumer that there is nothing (more) for it."""
        ...


@dataclass(slots=True, eq=False)
class Producer:
    """A producer that a client announced."""

    producer_id: str
    session_id: int
    destination: Destination | None
    window_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much one connection may announce."""

    sessions_max: int
    producers_max: int
    consumers_max: int
    destinations_max: int


@dataclass(frozen=True, slots=True)
class Login:
    """Who a client says it is."""

    connection_id: str
    client_id: str | None
    user: str | None = None
    """The name that it gives; nothing checks it yet."""
    proof: bytes = b""
    """A digest of its password: who has another one is another client."""
    is_reconnect: bool = False
    """The client was here before and lost its connection: it may repeat what was not answered."""
    source: str = ""
    """The address that it comes from."""

    @property
    def principal(self) -> Principal:
        """Who it is, as far as it says so."""
        return Principal(self.user or "", source=self.source)


@dataclass(slots=True, eq=False)
class Connection:
    """One client's connection and all that it announced."""

    connection_id: str
    client_id: str
    port: ClientPort
    limits: ConnectionLimits
    principal: Principal = UNKNOWN
    """Who acts on it."""
    user: str | None = None
    proof: bytes = field(default=b"", repr=False)
    is_reconnect: bool = False
    """The client was here before and lost its connection: it may repeat what was not answered."""
    owner: int = 0
    """Who has its connection id, as the store remembers it (`duplicates.py`)."""
    owner_changes: int = 0
    """How often that id has changed hands, as far as is known."""
    owner_kept: int = -1
    """Whether that is remembered: 1 in the store, 0 in memory, -1 not yet."""
    sender: Sender = field(init=False)
    """What early dispatch knows of it."""
    sends_to: Destination | None = None
    """The destination of its last message, if it was permitted to send there."""
    may_send_to: set[Destination] = field(default_factory=set)
    """Where it was permitted to send, as long as the decision holds (`permissions.py`)."""
    temporary: set[Destination] = field(default_factory=set)
    """The temporary destinations it made; they go with it."""
    made: set[Destination | DurableKey] = field(default_factory=set)
    """The other destinations, and durable subscriptions, that it made and that still exist (`registry.py`)."""
    sessions: set[int] = field(default_factory=lambda: {IMPLICIT_SESSION})
    producers: dict[str, Producer] = field(default_factory=dict)
    subscriptions: "dict[str, Subscription]" = field(default_factory=dict)
    is_open: bool = True

    def __post_init__(self) -> None:
        self.sender = Sender(self.port)

    def __repr__(self) -> str:
        return f"connection {self.connection_id} (client {self.client_id})"

    def is_of(self, login: Login) -> bool:
        """Whether *login* comes from the client that this connection belongs to, by all that it says."""
        known = (self.connection_id, self.client_id, self.user or "")
        said = (login.connection_id, login.client_id, login.user or "")
        return known == said and compare_digest(self.proof, login.proof)

    def add_session(self, session_id: int) -> None:
        """Announce a session; a repetition, as after a failover, changes nothing."""
        if session_id not in self.sessions:
            self._check("sessions", len(self.sessions), self.limits.sessions_max)
            self.sessions.add(session_id)

    def add_producer(self, producer: Producer) -> None:
        """Announce a producer of an announced session."""
        self.require_session(producer.session_id)
        if producer.producer_id not in self.producers:
            self._check("producers", len(self.producers), self.limits.producers_max)
            self.producers[producer.producer_id] = producer

    def remove_producer(self, producer_id: str) -> None:
        if self.producers.pop(producer_id, None) is None:
            raise UnknownResource(f"producer {producer_id} was never announced on {self!r}")

    def check_consumers(self) -> None:
        """Raise `ResourceLimit` if there is no place for another consumer."""
        self._check("consumers", len(self.subscriptions), self.limits.consumers_max)

    def check_destinations(self) -> None:
        """Raise `ResourceLimit` if it may make no more destinations and durable subscriptions."""
        what = "destinations and durable subscriptions that it made"
        count = len(self.temporary) + len(self.made)
        self._check(what, count, self.limits.destinations_max, "connection.destinations_max")

    def require_session(self, session_id: int) -> None:
        if session_id not in self.sessions:
            raise UnknownResource(f"session {session_id} was never announced on {self!r}")

    def subscriptions_of(self, session_id: int) -> "list[Subscription]":
        return [s for s in self.subscriptions.values() if s.session_id == session_id]

    def _check(self, what: str, count: int, limit: int, name: str = "") -> None:
        if count >= limit:
            setting = f" ({name})" if name else ""
            raise ResourceLimit(f"{self!r} has {count} {what}: the limit is {limit}{setting}")


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What a consumer asks for."""

    consumer_id: str
    session_id: int
    destination: Destination
    prefetch: int
    selector: str | None = None
    no_local: bool = False
    subscription_name: str | None = None
    """Makes it durable."""
    browser: bool = False
    exclusive: bool = False
    retroactive: bool = False
    priority: int = 0
    pending_messages_max: int = 0
    """How many messages may wait for it on a topic; 0: the destination's policy decides."""


class Subscription:
    """A consumer: what it asked for, and whether it has room for more.

    Room is `prefetch + extension - dispatched`. Prefetch 0 means pull: room is what was asked for and not yet given.
    """

    __slots__ = (
        "connection",
        "consumer_id",
        "extension",
        "is_leaving",
        "is_pull",
        "is_slow",
        "last_delivered",
        "no_local",
        "port",
        "prefetch",
        "priority",
        "pull_timers",
        "pulls",
        "request",
        "selector",
        "session_id",
    )

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        port: ConsumerPort,
        selector: Selector | None,
    ) -> None:
        self.request = request
        self.consumer_id = request.consumer_id
        self.session_id = request.session_id
        self.priority = request.priority
        self.no_local = request.no_local
        self.connection = connection
        self.port = port
        self.selector = selector
        self.prefetch = request.prefetch
        self.extension = 0
        self.is_pull = request.prefetch == 0
        self.is_leaving = False
        """It is about to be removed: it gets nothing more."""
        self.last_delivered = 0
        """The sequence of the last message that it saw, once it is about to be removed."""
        self.is_slow = False
        """It was full when there was more for it (C5)."""
        self.pulls = 0
        """Messages asked for and not yet given, in pull mode."""
        self.pull_timers: deque[Timer] = deque()
        """For each of them that ends without a message at some time, what ends it; in their order."""

    def __repr__(self) -> str:
        return f"consumer {self.consumer_id} of {self.request.destination!r}"

    @property
    def dispatched(self) -> int:
        """Messages sent to the consumer and not yet finished."""
        raise NotImplementedError

    @property
    def has_room(self) -> bool:
        """Whether the consumer may be sent a message now."""
        if self.is_leaving:
            return False
        if self.is_pull:
            return self.pulls > 0 and self.connection.port.is_ready
        return self.dispatched < self.prefetch + self.extension and self.connection.port.is_ready

    @property
    def room(self) -> int:
        """How many messages it may be sent, as far as it is concerned."""
        return self.pulls if self.is_pull else max(0, self.prefetch + self.extension - self.dispatched)

    def finished(self, count: int) -> None:
        """*count* messages are done."""
        raise NotImplementedError

    def deliver(self, message: Message, group_first: bool = False) -> None:
        """Send *message*, which the caller has recorded as dispatched."""
        self.count_delivery()
        self.port.deliver(message, group_first)

    def count_delivery(self) -> None:
        """A message is on its way, though perhaps not yet to the port."""
        if self.is_pull:
            self.answer_pull()
        self.is_slow = False

    def answer_pull(self) -> None:
        """One of the pulls that wait is answered, the oldest with a deadline first."""
        self.pulls -= 1
        if self.pull_timers:
            self.pull_timers.popleft().cancel()

    def give_up_pull(self, timer: Timer | None = None) -> None:
        """There was no message in time: the client waits for an answer and gets an empty one."""
        self.pulls -= 1
        if timer is not None:
            self.pull_timers.remove(timer)
        self.port.end_of_messages()

    def cancel_pulls(self) -> None:
        """Drop the pulls that wait, because the consumer leaves."""
        while self.pulls:
            self.answer_pull()
