"""Subscriptions: what a consumer asked for, what it was sent, and whether it has room for more (SEMANTICS C2–C4).

Room is `prefetch + extension - dispatched`. Prefetch 0 means pull: room is what was asked for and not yet given.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ackwire.broker.acks import InFlight
from ackwire.broker.session import Connection, ConsumerPort
from ackwire.clock import Timer
from ackwire.destinations import Destination
from ackwire.message import Message


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What a consumer asks for."""

    consumer_id: str
    session_id: int
    destination: Destination
    prefetch: int
    no_local: bool = False
    priority: int = 0


class Subscription:
    """What queue and topic subscriptions have in common."""

    __slots__ = (
        "connection",
        "consumer_id",
        "destinations",
        "extension",
        "is_pull",
        "port",
        "prefetch",
        "priority",
        "pull_timers",
        "pulls",
        "session_id",
    )

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        destinations: Sequence[Destination],
        port: ConsumerPort,
    ) -> None:
        self.consumer_id = request.consumer_id
        self.session_id = request.session_id
        self.priority = request.priority
        self.connection = connection
        self.destinations = tuple(destinations)
        self.port = port
        self.prefetch = request.prefetch
        self.extension = 0
        self.is_pull = request.prefetch == 0
        self.pulls = 0
        """Messages asked for and not yet given, in pull mode."""
        self.pull_timers: deque[Timer] = deque()

    def __repr__(self) -> str:
        return f"consumer {self.consumer_id} of {', '.join(map(repr, self.destinations))}"

    @property
    def dispatched(self) -> int:
        """Messages sent to the consumer and not yet finished."""
        raise NotImplementedError

    @property
    def has_room(self) -> bool:
        """Whether the consumer may be sent a message now."""
        if self.is_pull:
            return self.pulls > 0
        return self.dispatched < self.prefetch + self.extension and self.connection.port.is_ready

    def deliver(self, message: Message) -> None:
        """Send *message*, which the caller has recorded as dispatched."""
        if self.is_pull:
            self.answer_pull()
        self.port.deliver(message, False)

    def answer_pull(self) -> None:
        """One of the pulls that wait is answered, the oldest with a deadline first."""
        self.pulls -= 1
        if self.pull_timers:
            self.pull_timers.popleft().cancel()

    def give_up_pull(self) -> None:
        """There was no message in time: the client waits for an answer and gets an empty one."""
        self.answer_pull()
        self.port.end_of_messages()

    def cancel_pulls(self) -> None:
        """The consumer leaves: nobody waits any more."""
        while self.pulls:
            self.answer_pull()


class QueueSubscription(Subscription):
    """A consumer of a queue: each message it holds is its alone until it is finished."""

    __slots__ = ("in_flight",)

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        destinations: Sequence[Destination],
        port: ConsumerPort,
    ) -> None:
        super().__init__(request, connection, destinations, port)
        self.in_flight = InFlight()

    @property
    def dispatched(self) -> int:
        return len(self.in_flight)

    def extend(self, last: bytes) -> None:
        """DELIVERED up to *last*: these no longer count against the prefetch (C4)."""
        self.extension = max(self.extension, self.in_flight.position(last))

    def finished(self, count: int) -> None:
        """*count* messages are done; what the window was extended for is gone with them."""
        self.extension = max(0, self.extension - count)


class TopicSubscription(Subscription):
    """A non-durable consumer of topics: it sees what is published while it is here."""

    __slots__ = ("_dispatched", "dropped", "no_local", "pending", "pending_bytes", "pending_bytes_max")

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        destinations: Sequence[Destination],
        port: ConsumerPort,
        pending_bytes_max: int,
    ) -> None:
        super().__init__(request, connection, destinations, port)
        self.no_local = request.no_local
        self.pending: deque[Message] = deque()
        self.pending_bytes = 0
        self.pending_bytes_max = pending_bytes_max
        self.dropped = 0
        """Messages it missed because it was too slow."""
        self._dispatched = 0

    @property
    def dispatched(self) -> int:
        return self._dispatched

    def publish(self, message: Message, sender: Connection | None) -> None:
        """Send *message* now or as soon as there is room; the oldest waiting ones make way beyond the limit."""
        if self.no_local and sender is self.connection:
            return
        if not self.pending and self.has_room:
            self._dispatched += 1
            self.deliver(message)
            return
        self.pending.append(message)
        self.pending_bytes += message.size_bytes
        while self.pending_bytes > self.pending_bytes_max and len(self.pending) > 1:
            self.pending_bytes -= self.pending.popleft().size_bytes
            self.dropped += 1

    def pump(self) -> None:
        """Send what waits, as far as there is room."""
        while self.pending and self.has_room:
            message = self.pending.popleft()
            self.pending_bytes -= message.size_bytes
            self._dispatched += 1
            self.deliver(message)

    def finished(self, count: int) -> None:
        """*count* messages are done."""
        self._dispatched = max(0, self._dispatched - count)
        self.extension = max(0, self.extension - count)
