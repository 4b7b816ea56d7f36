"""Subscribing and unsubscribing: consumers of queues and topics, browsers, durable subscriptions (SEMANTICS A3, C)."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.advisory_replay import Replays
from ackwire.broker.auditing import Audit
from ackwire.broker.browsers import Browsers
from ackwire.broker.clients import Clients
from ackwire.broker.consumer_queues import ConsumerQueues, places_with_messages
from ackwire.broker.in_flight import InFlight
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.reserved_names import is_reserved, refuse_reserved
from ackwire.broker.retroactive import Recall
from ackwire.broker.router import is_virtual_pattern
from ackwire.broker.session import Connection, ConsumerPort
from ackwire.broker.slices import Slices
from ackwire.broker.subscription import (
    BrowserSubscription,
    QueueSubscription,
    Subscription,
    SubscriptionRequest,
    TopicSubscription,
)
from ackwire.broker.topic import DurableSubscription, Topic
from ackwire.broker.transactions import Transactions
from ackwire.errors import BrokerError, DestinationGone, InvalidDestination, NotAuthorised
from ackwire.jms.destinations import Destination, is_unicode
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.selector import Selector
from ackwire.store.contract import DurableKey, DurableRecord, Store
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

LAST_DELIVERED_UNKNOWN: Final = -2
"""It is not known what a consumer saw: everything in flight to it counts as delivered."""

_CONSUMED_PARTS_MAX: Final = 256
"""Destinations in one composite name that a consumer reads from."""

_log = logging.getLogger(__name__)


@final
class Subscriptions:
    """Adds and removes consumers."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        slices: Slices,
        clients: Clients,
        registry: Registry,
        publisher: Publisher,
        transactions: Transactions,
        advisories: Advisories,
        queues: ConsumerQueues,
        browsers: Browsers,
        replays: Replays,
        broker_id: str,
        audit: Audit | None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._settings = settings
        self._slices = slices
        self._clients = clients
        self._registry = registry
        self._publisher = publisher
        self._transactions = transactions
        self._advisories = advisories
        self._queues = queues
        self._browsers = browsers
        self._replays = replays
        self._broker_id = broker_id
        """The broker's own connection may consume what others may not."""
        self._audit = audit
        self._topics: dict[TopicSubscription, dict[Topic, None]] = {}
        self._watches: dict[Subscription, list[Callable[[], None]]] = {}
        """How to stop waiting for destinations that a pattern matches."""
        self._durable_of: dict[QueueSubscription, DurableSubscription] = {}

    # ---- subscribing -------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, request: SubscriptionRequest, port: ConsumerPort) -> Subscription:
        """Add a consumer; announcing it again, as after a failover, changes nothing."""
        existing = connection.subscriptions.get(request.consumer_id)
        if existing is not None:
            return existing
        connection.require_session(request.session_id)
        connection.check_consumers()
        if not is_unicode(request.subscription_name or ""):
            raise InvalidDestination(f"a subscription cannot be called {request.subscription_name!r}: it is no text")
        selector = self._settings.compile_selector(request.selector) if request.selector else None
        parts = self._parts(connection, request.destination)
        asked, request = request, self._capped(request, parts)
        if request.browser:
            subscription: Subscription = self._browse(connection, request, port, selector, parts)
        elif request.subscription_name is not None:
            subscription = self._subscribe_durable(connection, request, port, parts)
        elif all(part.kind.is_queue for part in parts):
            subscription = self._subscribe_queues(connection, request, port, selector, parts)
        elif not any(part.kind.is_queue for part in parts):
            subscription = self._subscribe_topics(connection, request, port, selector, parts)
        else:
            raise InvalidDestination(f"{request.destination!r} mixes queues and topics; use a consumer for each")
        if isinstance(subscription, QueueSubscription):
            connection.sender.only_sends = False
        if request.prefetch != asked.prefetch:
            port.change_prefetch(request.prefetch)
        self._clients.consumers.add(subscription)
        self._advisories.consumer_added(subscription)
        return subscription

    def _parts(self, connection: Connection, destination: Destination) -> tuple[Destination, ...]:
        parts = destination.parts()
        if len(parts) > _CONSUMED_PARTS_MAX:
            raise InvalidDestination(f"a composite of {len(parts)} destinations: the limit is {_CONSUMED_PARTS_MAX}")
        for part in parts:
            if connection.connection_id != self._broker_id:
                refuse_reserved(part, "consume from")
            if part.kind.is_temporary:
                owner = self._registry.owner(part)
                if owner is None:
                    raise DestinationGone(f"{part!r} does not exist: it was deleted or never made")
                if owner is not connection:
                    raise NotAuthorised(f"{part!r} belongs to another connection, which alone may consume from it")
        return parts

    def _subscribe_queues(
        self,
        connection: Connection,
        request: SubscriptionRequest,
        port: ConsumerPort,
        selector: Selector | None,
        parts: tuple[Destination, ...],
    ) -> QueueSubscription:
        for part in parts:
            if not part.is_wildcard or is_virtual_pattern(part):
                self._registry.get_or_make(part, connection)  # may raise, before anything is registered
        subscription = QueueSubscription(request, connection, port, selector)
        connection.subscriptions[request.consumer_id] = subscription
        self._queues.of[subscription] = {}
        for part in parts:
            if not part.is_wildcard or is_virtual_pattern(part):
                self._attach_queue(subscription, part, self._registry.get_or_make(part))
            if part.is_wildcard:
                self._attach_pattern(subscription, part)
        return subscription

    def capped_prefetch(self, subscription: Subscription, prefetch: int) -> int:
        """*prefetch*, or what the policy of its destinations allows."""
        asked = replace(subscription.request, prefetch=prefetch)
        return self._capped(asked, asked.destination.parts()).prefetch

    def _capped(self, request: SubscriptionRequest, parts: tuple[Destination, ...]) -> SubscriptionRequest:
        policies = [self._registry.policy_for(part) for part in parts]
        caps = [policy.prefetch_max for policy in policies if policy.prefetch_max is not None]
        return replace(request, prefetch=min([request.prefetch, *caps])) if caps else request

    def _attach_queue(self, subscription: QueueSubscription, where: Destination, queue: "Queue | Topic") -> None:
        assert isinstance(queue, Queue)
        if where not in self._queues.of[subscription]:
            self._queues.of[subscription][where] = queue
            queue.add(subscription)

    def _attach_pattern(self, subscription: QueueSubscription, pattern: Destination) -> None:
        def attach(where: Destination, queue: Queue | Topic) -> None:
            if not is_reserved(where):
                self._attach_queue(subscription, where, queue)

        stop = self._registry.router.watch(pattern, attach)
        self._watches.setdefault(subscription, []).append(stop)
        self._registry.attaching.begin(pattern, attach, lambda: subscription in self._queues.of)

    def _subscribe_topics(
        self,
        connection: Connection,
        request: SubscriptionRequest,
        port: ConsumerPort,
        selector: Selector | None,
        parts: tuple[Destination, ...],
    ) -> TopicSubscription:
        registry = self._registry
        for part in parts:
            if not part.is_wildcard:
                registry.get_or_make(part, connection)
        policy = registry.policy_for(parts[0])
        subscription = TopicSubscription(
            request,
            connection,
            port,
            selector,
            pending_bytes_max=self._settings.current.destinations.topic_pending_bytes_max,
            pending_messages_max=_lower(request.pending_messages_max, policy.topic_pending_messages_max),
            eviction=policy.eviction,
            audit=self._audit,
        )
        connection.subscriptions[request.consumer_id] = subscription
        self._topics[subscription] = {}
        for part in parts:
            self._attach_topic_name(subscription, part)
        replays = [self._advisories.replay(part, subscription) for part in parts]
        subscription.replay = chain.from_iterable([it for it in replays if it is not None])
        self._replays.go_on(subscription)
        return subscription

    def _attach_topic_name(self, subscription: TopicSubscription, name: Destination) -> None:
        registry = self._registry
        if not name.is_wildcard:
            self._attach_topic(subscription, registry.get_or_make(name))
            return

        def attach(_where: Destination, topic: Queue | Topic) -> None:
            self._attach_topic(subscription, topic)

        self._watches.setdefault(subscription, []).append(registry.router.watch(name, attach))
        registry.attaching.begin(name, attach, lambda: subscription in self._topics)

    def _attach_topic(self, subscription: TopicSubscription, topic: "Queue | Topic") -> None:
        assert isinstance(topic, Topic)
        if topic not in self._topics[subscription]:
            self._topics[subscription][topic] = None
            topic.add(subscription)

    def _browse(
        self,
        connection: Connection,
        request: SubscriptionRequest,
        port: ConsumerPort,
        selector: Selector | None,
        parts: tuple[Destination, ...],
    ) -> BrowserSubscription:
        batches = self._browsers.batches(connection, parts, selector)
        subscription = BrowserSubscription(request, connection, port, selector, batches)
        connection.subscriptions[request.consumer_id] = subscription
        self._browsers.show(subscription)
        return subscription

    # ---- durable subscriptions ---------------------------------------------------------------------------------

    def _subscribe_durable(
        self,
        connection: Connection,
        request: SubscriptionRequest,
        port: ConsumerPort,
        parts: tuple[Destination, ...],
    ) -> QueueSubscription:
        assert request.subscription_name is not None
        if len(parts) > 1 or parts[0].kind.is_queue or parts[0].kind.is_temporary:
            raise InvalidDestination(f"a durable subscription needs one topic or pattern, not {request.destination!r}")
        key = DurableKey(connection.client_id, request.subscription_name)
        existing = self._registry.durables.get(key)
        self._drop_leaving_consumer(existing)
        if existing is not None and existing.consumer is not None:
            raise BrokerError(
                f"Durable consumer is in use for client: {key.client_id} and subscriptionName: {key.name}"
            )
        record = DurableRecord(key, parts[0], request.selector or None, request.no_local)
        if not record.destination.is_wildcard:
            self._registry.get_or_make(record.destination, connection)
        is_new = key not in self._registry.durables
        if is_new:
            connection.check_destinations()
        durable = self._registry.durable(record)
        if is_new:
            self._registry.note_maker(key, connection)
        durable.local_connection_id = connection.connection_id
        if request.retroactive:
            self._recall(durable, is_new=durable is not existing)
        # The selector was applied when the messages were kept; the consumer takes all that is there.
        subscription = QueueSubscription(request, connection, port, None)
        durable.consumer = subscription
        connection.subscriptions[request.consumer_id] = subscription
        self._durable_of[subscription] = durable
        self._queues.of[subscription] = {key: durable.queue}
        durable.queue.add(subscription)
        return subscription

    def _recall(self, durable: DurableSubscription, *, is_new: bool) -> None:
        """Bring back what was published before its consumer came; only a new one gets what waits for others."""
        registry = self._registry
        recall = Recall(
            durable,
            store=self._store,
            clock=self._clock,
            editor=self._editor,
            take_sequences=self._publisher.take_sequences,
        )
        others = registry.durables_beside(durable.record.destination) if is_new else ()
        undecided = sum(transaction.acked_count for transaction in self._transactions)
        recall.begin(others, registry.retaining, undecided, self._slices)

    def remove_durable(self, client_id: str, name: str) -> None:
        """End a durable subscription. Refused while its consumer is connected."""
        durable = self._registry.durables.get(DurableKey(client_id, name))
        if durable is None:
            raise InvalidDestination(f"No durable subscription exists for clientID: {client_id} and name: {name}")
        self._drop_leaving_consumer(durable)
        if durable.consumer is not None:
            raise BrokerError(f"Durable consumer is in use: {durable!r}")
        self._registry.end_durable(durable)

    def _drop_leaving_consumer(self, durable: DurableSubscription | None) -> None:
        """The consumer of *durable* does not stand in the way if it is about to be removed."""
        if durable is not None and durable.consumer is not None and durable.consumer.is_leaving:
            self.unsubscribe(durable.consumer, durable.consumer.last_delivered)

    # ---- unsubscribing -----------------------------------------------------------------------------------------

    def unsubscribe(self, subscription: Subscription, last_delivered: int) -> None:
        """Remove a consumer; what it had not finished goes back."""
        if subscription.connection.subscriptions.pop(subscription.consumer_id, None) is None:
            return
        subscription.is_leaving = True
        subscription.cancel_pulls()
        for stop in self._watches.pop(subscription, ()):
            stop()
        if isinstance(subscription, QueueSubscription):
            durable = self._durable_of.pop(subscription, None)
            if durable is not None:
                durable.consumer = None
            self._take_off_queues(subscription, _seen(subscription.in_flight, last_delivered))
        elif isinstance(subscription, TopicSubscription):
            for topic in self._topics.pop(subscription):
                topic.remove(subscription)
                if not topic.has_subscribers:
                    self._registry.forget_unheard(topic)
            if subscription.dropped:
                _log.warning("%r missed %s: it was too slow", subscription, counted(subscription.dropped, "message"))
        self._clients.consumers.discard(subscription)
        self._advisories.consumer_removed(subscription)

    def _take_off_queues(self, subscription: QueueSubscription, seen: Callable[[Message], bool]) -> None:
        """Give back what *subscription* holds, now; queues that it holds nothing of may forget it a little later."""
        attached = self._queues.of.pop(subscription)
        for place in places_with_messages(subscription, attached):
            attached.pop(place).remove(subscription, seen)
        if attached:
            self._registry.attaching.leave(subscription, attached)

    def let_go_of(self, topic: Topic) -> bool:
        """Take subscribers by pattern off *topic*, which is to be removed; False if others subscribe to its name."""
        if any(topic.destination in it.request.destination.parts() for it in topic.subscriptions):
            return False
        if any(not durable.record.destination.is_wildcard for durable in topic.durables):
            return False
        for subscription in list(topic.subscriptions):
            topic.remove(subscription)
            self._topics[subscription].pop(topic, None)
        for durable in list(topic.durables):
            topic.durables.remove(durable)
            durable.topics.pop(topic, None)
        return True

    def drop_consumers(self, target: "Queue | Topic") -> None:
        """A temporary destination goes away under its consumers, who are all its owner's."""
        readers: list[Subscription] = list(target.consumers if isinstance(target, Queue) else target.subscriptions)
        for subscription in readers:
            self.unsubscribe(subscription, LAST_DELIVERED_UNKNOWN)

    def drop_leaving(self, target: "Queue | Topic") -> None:
        """Remove the consumers of *target* that are about to be removed anyway: somebody asks whether it has any."""
        readers: list[Subscription] = list(target.consumers if isinstance(target, Queue) else target.subscriptions)
        for subscription in readers:
            if subscription.is_leaving:
                self.unsubscribe(subscription, subscription.last_delivered)

    def remove_all(self, subscriptions: list[Subscription]) -> Iterator[None]:
        """Remove *subscriptions*, which are leaving, one with each step. While those of a queue leave it waits, and
        dispatches what they give back when all of them are gone."""
        groups: dict[Queue | None, list[Subscription]] = {}
        for subscription in subscriptions:
            groups.setdefault(self._queues.only_queue(subscription), []).append(subscription)
        for group in groups.values():
            queues = self._queues.with_messages(group)
            for queue in queues:
                queue.dispatcher.begin_change()
            for subscription in group:
                self.unsubscribe(subscription, subscription.last_delivered)
                yield
            for queue in queues:
                queue.dispatcher.end_change()


def _lower(asked: int, limit: int | None) -> int | None:
    """What a consumer asks for lowers a limit, and never raises it; 0: it asks for nothing."""
    return limit if asked == 0 else asked if limit is None else min(asked, limit)


def _seen(in_flight: InFlight, last_delivered: int) -> Callable[[Message], bool]:
    """Which messages in flight the consumer has seen, if the last one it saw is known.

    Those dispatched up to that one; and those before it in the queue's order, because an ack that was rolled back has
    put its messages in front of others in flight. A mark too many says less than one that is missing.
    """
    if last_delivered == LAST_DELIVERED_UNKNOWN:
        return lambda _: True
    seen: set[int] = set()
    for message in in_flight:
        if message.sequence > last_delivered:
            seen.add(message.sequence)
        elif message.sequence == last_delivered:
            break
    else:
        seen.clear()
    return lambda message: message.sequence <= last_delivered or message.sequence in seen
