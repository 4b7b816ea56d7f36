"""The broker: the verbs that adapters call. It knows no protocol and no socket.

Every verb runs to its end before the next one starts: one loop owns all of this, and there are no locks. A verb that
cannot be carried out raises a `BrokerError` and has changed nothing.
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Final, final

from ackwire.broker.acks import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.session import ClientPort, Connection, ConnectionLimits, ConsumerPort, Producer
from ackwire.broker.subscription import (
    QueueSubscription,
    Subscription,
    SubscriptionRequest,
    TopicSubscription,
)
from ackwire.broker.topic import Topic
from ackwire.clock import Clock
from ackwire.config import Settings
from ackwire.destinations import Destination
from ackwire.errors import (
    BrokerError,
    InvalidClientId,
    InvalidDestination,
    ResourceLimit,
    UnknownResource,
    Unsupported,
)
from ackwire.message import Message
from ackwire.store.contract import Store

LAST_DELIVERED_UNKNOWN: Final = -2
"""Nobody knows what a consumer saw: all it held counts as delivered."""

_log = logging.getLogger(__name__)


@final
class Broker:
    """Connections, destinations, and what passes between them."""

    def __init__(self, *, clock: Clock, store: Store, settings: Settings) -> None:
        self.clock = clock
        self._store = store
        self._settings = settings
        self._connections: dict[str, Connection] = {}
        self._client_ids: dict[str, Connection] = {}
        self._destinations: dict[Destination, Queue | Topic] = {}
        self._sequences = count(1)
        self.broker_id = f"ID:{settings.broker.name}-{clock.now_ms()}"
        """This run of this broker, for clients that ask whom they talk to."""

    # ---- connections -------------------------------------------------------------------------------------------

    def connect(self, *, connection_id: str, client_id: str | None, user: str | None, port: ClientPort) -> Connection:
        """Admit a client. The same connection id again is the same client coming back: the old one goes."""
        if not client_id:
            raise InvalidClientId("a connection needs a client id, and this one has none")
        self._replace(connection_id)
        holder = self._client_ids.get(client_id)
        if holder is not None:
            raise InvalidClientId(
                f"client id {client_id} is in use by connection {holder.connection_id}; "
                "close that one first or choose another id"
            )
        limits = self._settings.connection
        connection = Connection(
            connection_id=connection_id,
            client_id=client_id,
            port=port,
            user=user,
            limits=ConnectionLimits(limits.sessions_max, limits.producers_max, limits.consumers_max),
        )
        self._connections[connection_id] = connection
        self._client_ids[client_id] = connection
        return connection

    def _replace(self, connection_id: str) -> None:
        old = self._connections.get(connection_id)
        if old is not None:
            self.disconnect(old)
            old.port.close("the client has opened this connection again")

    def disconnect(self, connection: Connection, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Forget a client and all it announced; what it had not finished goes to others."""
        if not connection.is_open:
            return
        connection.is_open = False
        del self._connections[connection.connection_id]
        del self._client_ids[connection.client_id]
        for subscription in list(connection.subscriptions.values()):
            self.unsubscribe(subscription, last_delivered)
        connection.producers.clear()

    def remove_session(
        self, connection: Connection, session_id: int, last_delivered: int = LAST_DELIVERED_UNKNOWN
    ) -> None:
        """Close a session with its producers and consumers."""
        connection.require_session(session_id)
        for subscription in connection.subscriptions_of(session_id):
            self.unsubscribe(subscription, last_delivered)
        for producer in [p for p in connection.producers.values() if p.session_id == session_id]:
            connection.remove_producer(producer.producer_id)
        connection.sessions.discard(session_id)

    def add_producer(self, connection: Connection, producer: Producer) -> None:
        """Announce a producer; its destination exists from then on."""
        if producer.destination is not None and not producer.destination.is_composite:
            self._destination(producer.destination)
        connection.add_producer(producer)

    # ---- destinations ------------------------------------------------------------------------------------------

    def add_destination(self, destination: Destination) -> None:
        """Create *destination*; it may exist already."""
        for part in destination.parts():
            self._destination(part)

    def remove_destination(self, destination: Destination) -> None:
        """Delete *destination* and all that is on it. Refused while it has consumers."""
        existing = self._destinations.get(destination)
        if existing is None:
            return
        if existing.consumer_count:
            raise BrokerError(f"{destination!r} still has {existing.consumer_count} consumers and cannot be removed")
        del self._destinations[destination]
        if isinstance(existing, Queue):
            self._store.remove_queue(destination)

    def _destination(self, destination: Destination) -> Queue | Topic:
        """The queue or topic of that name, made on first use."""
        existing = self._destinations.get(destination)
        return existing if existing is not None else self._make_destination(destination)

    def _make_destination(self, destination: Destination) -> Queue | Topic:
        if destination.is_wildcard:
            raise InvalidDestination(f"{destination!r} is a pattern, not a destination")
        limit = self._settings.destinations.count_max
        if len(self._destinations) >= limit:
            raise ResourceLimit(f"{destination!r} cannot be created: {limit} destinations exist, the limit")
        made: Queue | Topic
        made = Queue(destination, self._store) if destination.kind.is_queue else Topic(destination)
        self._destinations[destination] = made
        return made

    # ---- sending -----------------------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        """The next place in the broker's order; for the message that is sent next."""
        return next(self._sequences)

    def send(self, connection: Connection, message: Message, on_stored: Callable[[], None] | None = None) -> None:
        """Take a message. *on_stored* is called once it is as durable as it asked to be (B1)."""
        if message.origin.transaction is not None:
            raise Unsupported("transactions are not offered by this broker yet")
        destination = message.destination
        if destination.is_composite:
            raise Unsupported(f"sending to the composite {destination!r} is not offered by this broker yet")
        self._destination(destination).accept(message, connection)
        if on_stored is None:
            return
        if message.persistent:
            self._store.when_durable(on_stored)
        else:
            on_stored()

    # ---- receiving ---------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, request: SubscriptionRequest, port: ConsumerPort) -> Subscription:
        """Add a consumer. Messages may reach *port* before this returns."""
        existing = connection.subscriptions.get(request.consumer_id)
        if existing is not None:
            return existing
        connection.require_session(request.session_id)
        connection.check_consumers()
        parts = request.destination.parts()
        targets = [self._destination(part) for part in parts]
        subscription: Subscription
        if all(isinstance(target, Topic) for target in targets):
            limit = self._settings.destinations.topic_pending_bytes_max
            subscription = TopicSubscription(request, connection, parts, port, limit)
        elif len(parts) == 1:
            subscription = QueueSubscription(request, connection, parts, port)
        else:
            raise Unsupported(f"consuming from the composite {request.destination!r} is not offered by this broker yet")
        connection.subscriptions[request.consumer_id] = subscription
        self._attach(subscription)
        return subscription

    def _attach(self, subscription: Subscription) -> None:
        for destination in subscription.destinations:
            target = self._destinations[destination]
            if isinstance(subscription, QueueSubscription):
                assert isinstance(target, Queue)
                target.add(subscription)
            elif isinstance(subscription, TopicSubscription):
                assert isinstance(target, Topic)
                target.add(subscription)

    def unsubscribe(self, subscription: Subscription, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Remove a consumer. *last_delivered* is the sequence of the last message it saw, if that is known."""
        if subscription.connection.subscriptions.pop(subscription.consumer_id, None) is None:
            return
        subscription.cancel_pulls()
        for destination in subscription.destinations:
            target = self._destinations[destination]
            if isinstance(subscription, QueueSubscription):
                assert isinstance(target, Queue)
                target.remove(
                    subscription,
                    lambda message: last_delivered == LAST_DELIVERED_UNKNOWN or message.sequence <= last_delivered,
                )
            elif isinstance(subscription, TopicSubscription):
                assert isinstance(target, Topic)
                target.remove(subscription)
                if subscription.dropped:
                    _log.warning("%r missed %d messages: it was too slow", subscription, subscription.dropped)

    def subscription(self, connection: Connection, consumer_id: str) -> Subscription:
        """The consumer of that id, which *connection* announced."""
        subscription = connection.subscriptions.get(consumer_id)
        if subscription is None:
            raise UnknownResource(f"consumer {consumer_id} was never announced on {connection!r}")
        return subscription

    def acknowledge(
        self, subscription: Subscription, kind: AckKind, first: bytes | None, last: bytes, count: int
    ) -> None:
        """Carry out an ack outside of a transaction (E)."""
        if isinstance(subscription, QueueSubscription):
            self._acknowledge_queue(subscription, kind, first, last, count)
        elif isinstance(subscription, TopicSubscription):
            self._acknowledge_topic(subscription, kind, count)

    def _acknowledge_queue(
        self, subscription: QueueSubscription, kind: AckKind, first: bytes | None, last: bytes, count: int
    ) -> None:
        queue = self._queue_of(subscription)
        match kind:
            case AckKind.STANDARD:
                queue.finish(subscription, subscription.in_flight.take_range(first, last, count))
            case AckKind.INDIVIDUAL:
                queue.finish(subscription, [subscription.in_flight.take_one(last)])
            case AckKind.DELIVERED:
                subscription.extend(last)
                queue.resume(subscription)
            case AckKind.REDELIVERED:
                subscription.in_flight.range(first, last)
            case AckKind.POISON | AckKind.EXPIRED | AckKind.UNMATCHED:
                raise Unsupported(f"{kind.name} acks are not offered by this broker yet")

    def _acknowledge_topic(self, subscription: TopicSubscription, kind: AckKind, count: int) -> None:
        if kind is AckKind.DELIVERED:
            subscription.extension += max(0, count)
        elif kind is not AckKind.REDELIVERED:
            subscription.finished(count)
        subscription.pump()

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """Ask for one message: wait for ever (0), not at all (negative), or *timeout_ms* (C3)."""
        if not subscription.is_pull:
            raise BrokerError(f"{subscription!r} has a prefetch of {subscription.prefetch} and does not pull")
        subscription.pulls += 1
        waiting = subscription.pulls
        self._pump(subscription)
        if subscription.pulls < waiting or timeout_ms == 0:
            return
        if timeout_ms < 0:
            subscription.give_up_pull()
        else:
            timer = self.clock.call_later(timeout_ms / 1000, subscription.give_up_pull)
            subscription.pull_timers.append(timer)

    def set_prefetch(self, subscription: Subscription, prefetch: int) -> None:
        """Change how many messages a consumer may hold."""
        subscription.prefetch = prefetch
        subscription.is_pull = prefetch == 0
        self._pump(subscription)

    def resume(self, connection: Connection) -> None:
        """The client takes messages again."""
        for subscription in list(connection.subscriptions.values()):
            self._pump(subscription)

    def _pump(self, subscription: Subscription) -> None:
        if isinstance(subscription, QueueSubscription):
            self._queue_of(subscription).resume(subscription)
        elif isinstance(subscription, TopicSubscription):
            subscription.pump()

    def _queue_of(self, subscription: QueueSubscription) -> Queue:
        queue = self._destinations[subscription.destinations[0]]
        assert isinstance(queue, Queue)
        return queue
