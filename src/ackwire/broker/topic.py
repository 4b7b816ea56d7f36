"""A topic: every subscriber gets a copy of each message (SEMANTICS A3).

Non-durable subscribers see what is published while they are here. A durable subscription is a queue of its own
(`queue.py`), filled whether or not its consumer is connected. Selectors are applied when a message is published: what a
subscriber does not want is never kept for it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, final

from ackwire.broker.auditing import Audit
from ackwire.broker.queue import Queue
from ackwire.broker.session import Connection
from ackwire.broker.subscription import QueueSubscription, Subscription, TopicSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Value
from ackwire.selector import Lookup, Selector
from ackwire.store.contract import DurableKey, DurableRecord, Store


class TopicEvents(Protocol):
    """The events of a topic, for the broker."""

    def on_discarded(self, topic: "Topic", subscription: TopicSubscription, messages: Sequence[Message]) -> None:
        """A slow subscriber lost *messages*."""
        ...

    def on_slow_subscriber(self, topic: "Topic", subscription: TopicSubscription) -> None:
        """More waits for *subscription* than it asked to be sent at once."""
        ...


@final
class DurableSubscription:
    """A durable subscription: its terms, what waits for it, and its consumer if one is connected."""

    __slots__ = (
        "consumer",
        "local_connection_id",
        "no_local",
        "queue",
        "record",
        "selector",
        "stop_watching",
        "topics",
    )

    def __init__(self, record: DurableRecord, selector: Selector | None, queue: Queue) -> None:
        self.record = record
        self.selector = selector
        self.no_local = record.no_local
        self.queue = queue
        self.consumer: QueueSubscription | None = None
        self.local_connection_id: str | None = None
        """The connection of its consumer, or of the last one since the broker started: `noLocal` leaves out what this
        connection publishes. Another connection with the same client id is heard."""
        self.topics: dict[Topic, None] = {}
        self.stop_watching: Callable[[], None] = _nothing
        """Ends the wait for topics that its pattern may still match."""

    def hear(self, topic: object) -> None:
        """Get what is published on *topic* from now on."""
        assert isinstance(topic, Topic)
        if topic not in self.topics:
            self.topics[topic] = None
            topic.durables.append(self)

    def __repr__(self) -> str:
        return repr(self.key)

    @property
    def key(self) -> DurableKey:
        return self.record.key

    def wants(self, connection_id: str | None, lookup: Lookup) -> bool:
        """Whether a message that this connection published is for it; None: the broker's own."""
        if self.no_local and connection_id is not None and connection_id == self.local_connection_id:
            return False
        return self.selector is None or self.selector.matches(lookup)


@final
class Topic:
    """One topic and its subscribers."""

    def __init__(
        self,
        destination: Destination,
        *,
        store: Store,
        editor: MessageEditor,
        policy: DestinationPolicy,
        events: TopicEvents,
        audit: Audit | None = None,
    ) -> None:
        self.destination = destination
        self.audit = audit
        self.policy = policy
        self._advises_slow = policy.advise_slow_consumers
        self._store = store
        self._editor = editor
        self._events = events
        self.subscriptions: list[TopicSubscription] = []
        self.durables: list[DurableSubscription] = []
        self._retained: deque[tuple[Message, str | None]] = deque(maxlen=policy.retained_messages_max)
        """For retroactive subscribers: the last messages, each with the connection that published it."""
        self.enqueued = 0

    def use(self, policy: DestinationPolicy) -> None:
        """Go by another policy from now on."""
        self.policy = policy
        self._advises_slow = policy.advise_slow_consumers
        if self._retained.maxlen != policy.retained_messages_max:
            self._retained = deque(self._retained, maxlen=policy.retained_messages_max)

    def __repr__(self) -> str:
        return f"{self.destination!r}"

    @property
    def audit_name(self) -> str:
        return repr(self.destination)

    @property
    def consumer_count(self) -> int:
        return len(self.subscriptions) + sum(1 for durable in self.durables if durable.consumer is not None)

    @property
    def has_subscribers(self) -> bool:
        return bool(self.subscriptions or self.durables)

    def accept(self, message: Message, sender: Connection | None, *, has_expired: bool = False) -> None:
        """Publish *message*. One that has expired is kept for durable subscriptions, where it becomes a dead letter."""
        self.enqueued += 1
        if self.policy.retained_messages_max:
            self._retained.append((message, None if sender is None else sender.connection_id))
        lookup = _LazyLookup(self._editor, message)
        if self.durables:
            self._keep_for_durables(message, sender, lookup)
        if not has_expired:
            self._publish(message, sender, lookup)

    def _publish(self, message: Message, sender: Connection | None, lookup: "_LazyLookup") -> None:
        for subscription in self.subscriptions:
            if _wants(subscription, subscription.no_local, subscription.connection, sender, lookup):
                dropped = subscription.publish(message)
                if dropped:
                    self._events.on_discarded(self, subscription, dropped)
                if self._advises_slow and subscription.fell_behind():
                    self._events.on_slow_subscriber(self, subscription)

    def _keep_for_durables(self, message: Message, sender: Connection | None, lookup: "_LazyLookup") -> None:
        connection_id = None if sender is None else sender.connection_id
        takers = [durable for durable in self.durables if durable.wants(connection_id, lookup)]
        copies = [(durable, message.copy()) for durable in takers]
        if message.persistent and takers:
            self._store.append(message, [durable.key for durable in takers])
        for durable, copy in copies:
            durable.queue.accept(copy)

    def add(self, subscription: TopicSubscription) -> None:
        self.subscriptions.append(subscription)
        if subscription.request.retroactive or self.policy.retroactive_by_default:
            local = subscription.connection.connection_id if subscription.no_local else None
            for message, connection_id in list(self._retained):
                if local is not None and connection_id == local:
                    continue
                if subscription.selector is None or subscription.selector.matches(self._editor.lookup(message)):
                    subscription.publish(message)

    def remove(self, subscription: TopicSubscription) -> None:
        self.subscriptions.remove(subscription)

    def retained(self) -> list[tuple[Message, str | None]]:
        """The messages retained for retroactive subscribers, each with the connection that published it."""
        return list(self._retained)


def _nothing() -> None:
    """There is nothing to stop."""


class _LazyLookup:
    """A message's values for selectors: decoded when the first selector asks, once for all of them."""

    __slots__ = ("_editor", "_lookup", "_message")

    def __init__(self, editor: MessageEditor, message: Message) -> None:
        self._editor = editor
        self._message = message
        self._lookup: Lookup | None = None

    def __call__(self, name: str) -> Value:
        if self._lookup is None:
            self._lookup = self._editor.lookup(self._message)
        return self._lookup(name)


def _wants(
    subscription: Subscription,
    no_local: bool,
    connection: Connection,
    sender: Connection | None,
    lookup: Lookup,
) -> bool:
    if no_local and sender is connection:
        return False
    return subscription.selector is None or subscription.selector.matches(lookup)
