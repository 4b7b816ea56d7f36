"""The three kinds of subscription: to queues, to topics, and of browsers (SEMANTICS C2–C5).

`session.Subscription` says what they have in common.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Final, final

from ackwire.broker.auditing import Audit, Copy
from ackwire.broker.fetching import Fetch
from ackwire.broker.in_flight import InFlight
from ackwire.broker.pending import PagedOut
from ackwire.broker.session import Connection, ConsumerPort, Subscription, SubscriptionRequest
from ackwire.broker.slices import Budget
from ackwire.config.policy import Eviction
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.store.contract import Place

__all__ = [
    "BrowserSubscription",
    "QueueSubscription",
    "Subscription",
    "SubscriptionRequest",
    "TopicSubscription",
]

_UNITS_PER_LOOK: Final = 16
"""What it costs a browser's budget to look for more, whether there is some or not."""


@final
class QueueSubscription(Subscription):
    """A consumer of queues: each message it holds is its alone until it is finished."""

    __slots__ = ("has_several_queues", "in_flight", "passed_over", "waiting_at_gate", "waiting_in")

    def __init__(
        self, request: SubscriptionRequest, connection: Connection, port: ConsumerPort, selector: Selector | None
    ) -> None:
        super().__init__(request, connection, port, selector)
        self.has_several_queues = request.destination.is_composite or request.destination.is_wildcard
        """Whether it may hold messages of more than one queue."""
        self.in_flight = InFlight()
        self.waiting_at_gate = 0
        """Of those in flight, how many wait for the store before they go out (`dispatch_gate.py`)."""
        self.waiting_in: dict[Place, deque[tuple[Message | PagedOut, bool]]] = {}
        """For each of its queues, messages that are its alone and must wait: for room, because it owns their group, or
        for the end of another copy. Beside each, whether it is the first of its group for this consumer."""
        self.passed_over: OrderedDict[Place, None] = OrderedDict()
        """Of its several queues those that had something when it could not take it, the longest ago first: only these
        are asked when it has room again."""

    @property
    def waiting_count(self) -> int:
        """How many wait for it alone."""
        return sum(map(len, self.waiting_in.values()))

    @property
    def dispatched(self) -> int:
        return len(self.in_flight)

    def extend(self, last: bytes) -> None:
        """DELIVERED up to *last*: these no longer count against the prefetch (C4)."""
        if not self.is_pull:
            self.extension = max(self.extension, self.in_flight.position(last))

    def finished(self, count: int) -> None:
        """*count* messages are done; what the window was extended for is gone with them."""
        self.extension = max(0, self.extension - count)


@final
class TopicSubscription(Subscription):
    """A non-durable consumer of topics: it sees what is published while it is here."""

    __slots__ = (
        "_audit",
        "_copies",
        "_dispatched",
        "_fell_behind",
        "dropped",
        "eviction",
        "pending",
        "pending_bytes",
        "pending_bytes_max",
        "pending_messages_max",
        "replay",
    )

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        port: ConsumerPort,
        selector: Selector | None,
        *,
        pending_bytes_max: int,
        pending_messages_max: int | None,
        eviction: Eviction,
        audit: Audit | None = None,
    ) -> None:
        super().__init__(request, connection, port, selector)
        self._audit = audit
        self._copies: deque[Copy] = deque()
        """What it was sent and has not finished, for the audit only: an ack says no more than how many."""
        self.pending: deque[Message] = deque()
        self.pending_bytes = 0
        self.pending_bytes_max = pending_bytes_max
        self.pending_messages_max = pending_messages_max
        self.eviction = eviction
        self.dropped = 0
        """Messages it missed because it was too slow."""
        self._dispatched = 0
        self._fell_behind = False
        self.replay: Iterator[Message | None] | None = None
        """What it is to be shown of the time before it came, as far as it has not seen it (`advisory_replay.py`)."""

    @property
    def dispatched(self) -> int:
        return self._dispatched

    def fell_behind(self) -> bool:
        """Whether more waits than it asked to be sent at once; True once, when it is so for the first time."""
        if self._fell_behind or len(self.pending) <= self.prefetch:
            return False
        self._fell_behind = True
        return True

    def publish(self, message: Message) -> Sequence[Message]:
        """Send *message* now or as soon as there is room. Returns the messages that were dropped at the limit."""
        if not self.pending and self.has_room:
            self._hand_over(message)
            return ()
        self.is_slow = True
        self.pending.append(message)
        self.pending_bytes += message.size_bytes
        dropped: list[Message] = []
        while self._is_over_limit():
            dropped.append(self._evict())
        self.dropped += len(dropped)
        return dropped

    def _is_over_limit(self) -> bool:
        count = len(self.pending)
        if self.pending_messages_max is not None and count > self.pending_messages_max:
            return True
        return self.pending_bytes > self.pending_bytes_max and count > 1

    def _evict(self) -> Message:
        if self.eviction is Eviction.OLDEST:
            victim = self.pending.popleft()
        else:
            victim = min(self.pending, key=lambda message: message.priority)
            self.pending.remove(victim)
        self.pending_bytes -= victim.size_bytes
        return victim

    def pump(self, now_ms: int) -> list[Message]:
        """Send what waits, as far as there is room. Returns the messages that have expired meanwhile."""
        expired: list[Message] = []
        while self.pending and self.has_room:
            message = self.pending.popleft()
            self.pending_bytes -= message.size_bytes
            if 0 < message.expiration <= now_ms:
                expired.append(message)
            else:
                self._hand_over(message)
        return expired

    def _hand_over(self, message: Message) -> None:
        self._dispatched += 1
        if self._audit is not None:
            self._audit.published(message, self)
            self._copies.append((message.origin, message.key, message.sequence))
        self.deliver(message)

    def finished(self, count: int) -> None:
        """*count* messages are done."""
        if self._audit is not None:
            done = [self._copies.popleft() for _ in range(min(count, len(self._copies)))]
            self._audit.copies_acked(done, self)
        self._dispatched = max(0, self._dispatched - count)
        self.extension = max(0, self.extension - count)


@final
class BrowserSubscription(Subscription):
    """A queue browser: it is shown what is there, in order, takes nothing, and is shown where it ends."""

    __slots__ = ("_batches", "_dispatched", "_ended", "_fetch", "_ready", "is_continuing")

    def __init__(
        self,
        request: SubscriptionRequest,
        connection: Connection,
        port: ConsumerPort,
        selector: Selector | None,
        batches: Iterator[list[Message] | Fetch],
    ) -> None:
        super().__init__(request, connection, port, selector)
        self._batches = batches
        self._ready: deque[Message] = deque()
        self._fetch: Fetch | None = None
        self._dispatched = 0
        self._ended = False
        self.is_continuing = False
        """It goes on in a later turn: its budget was spent, or messages have yet to arrive."""

    @property
    def dispatched(self) -> int:
        return self._dispatched

    def pump(self, budget: Budget) -> bool:
        """Show more, as far as there is room; then the end. True: *budget* is spent, and it is not there. It also stops
        at messages that have yet to arrive: `take_fetch`."""
        while not self._ended and not self.is_leaving and self._fetch is None:
            if self._ready:
                if not self.has_room:
                    return False
                self._dispatched += 1
                self.deliver(self._ready.popleft())
                if budget.spend():
                    return True
            else:
                self._look_on()
                if budget.spend(_UNITS_PER_LOOK):
                    return True
        return False

    def _look_on(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self._ended = True
            self.port.end_of_messages()
        elif isinstance(batch, Fetch):
            self._fetch = batch
        else:
            self._ready.extend(batch)

    def take_fetch(self) -> Fetch | None:
        """What has to arrive before it can go on, if anything."""
        fetch, self._fetch = self._fetch, None
        return fetch

    def finished(self, count: int) -> None:
        self._dispatched = max(0, self._dispatched - count)
