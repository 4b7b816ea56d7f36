"""How messages go out: subscriptions of every kind, acks, pulls, rejected messages (SEMANTICS A3, C, D, E, F)."""

import logging
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, final

from ackwire.broker.acks import AckKind, InFlight
from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit, Event
from ackwire.broker.clients import Clients
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.early_dispatch import EarlyDispatch
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.redelivery import DELAY_PROPERTY, redelivery_delay_seconds
from ackwire.broker.registry import Registry
from ackwire.broker.replay import Replays
from ackwire.broker.reserved import is_reserved, refuse_reserved
from ackwire.broker.retroactive import Recall
from ackwire.broker.router import is_virtual_pattern
from ackwire.broker.session import Connection, ConsumerPort
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import (
    BrowserSubscription,
    QueueSubscription,
    Subscription,
    SubscriptionRequest,
    TopicSubscription,
)
from ackwire.broker.topic import DurableSubscription, Topic
from ackwire.broker.transactions import AckedMessages, Transaction
from ackwire.errors import BrokerError, DestinationGone, InvalidDestination, NotAuthorised, ResourceLimit
from ackwire.jms.destinations import Destination, Kind, is_unicode
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Long, Value
from ackwire.selector import Selector
from ackwire.store.contract import DurableKey, DurableRecord, Store
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

LAST_DELIVERED_UNKNOWN: Final = -2
"""Nobody knows what a consumer saw: all it held counts as delivered."""

_CONSUMED_PARTS_MAX: Final = 256
"""Destinations in one composite name that a consumer reads from."""

_PULLS_MAX: Final = 1000
"""Pulls of one consumer that may wait; clients have one."""

_MATCHED_AT_ONCE: Final = 8
"""Messages that a browser's selector is asked about before it may be another's turn."""

_REJECTED: Final = "rejected by the consumer"

_log = logging.getLogger(__name__)


@final
class Consumption:
    """Serves consumers."""

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
        advisories: Advisories,
        dead_letters: DeadLetters,
        early_dispatch: EarlyDispatch,
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
        self._advisories = advisories
        self._dead_letters = dead_letters
        self._early_dispatch = early_dispatch
        self._broker_id = broker_id
        """The broker's own connection may consume what others may not."""
        self._audit = audit
        self._attached: dict[QueueSubscription, dict[Destination | DurableKey, Queue]] = {}
        """For each consumer of queues, the queues it reads from."""
        self._topics: dict[TopicSubscription, dict[Topic, None]] = {}
        self._watches: dict[Subscription, list[Callable[[], None]]] = {}
        """How to stop waiting for destinations that a pattern matches."""
        self._replays = Replays(slices)
        self._durable_of: dict[QueueSubscription, DurableSubscription] = {}
        self._asking: dict[QueueSubscription, int] = {}
        """Consumers of several queues that are being asked, a slice at a time, whether they have something."""

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
        self._attached[subscription] = {}
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
        if where not in self._attached[subscription]:
            self._attached[subscription][where] = queue
            queue.add(subscription)

    def _attach_pattern(self, subscription: QueueSubscription, pattern: Destination) -> None:
        def attach(where: Destination, queue: Queue | Topic) -> None:
            if not is_reserved(where):
                self._attach_queue(subscription, where, queue)

        stop = self._registry.router.watch(pattern, attach)
        self._watches.setdefault(subscription, []).append(stop)
        self._registry.attaching.begin(pattern, attach, lambda: subscription in self._attached)

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
        snapshots = chain.from_iterable([self._browsed(part, connection) for part in parts])
        batches = self._matching(selector, snapshots)
        subscription = BrowserSubscription(request, connection, port, selector, batches)
        connection.subscriptions[request.consumer_id] = subscription
        self.pump(subscription)
        return subscription

    def _browsed(self, part: Destination, connection: Connection) -> Iterator[list[Message]]:
        """What is in a queue now, or in each queue that a pattern stands for when its turn comes; in batches."""
        registry = self._registry
        if part.is_wildcard and part.kind is Kind.QUEUE and not is_virtual_pattern(part):
            return chain.from_iterable(map(_browse_found, registry.router.matching(part)))
        queue = registry.get_or_make(part, connection)
        return queue.browse() if isinstance(queue, Queue) else iter(())

    def _matching(self, selector: Selector | None, batches: Iterator[list[Message]]) -> Iterator[list[Message]]:
        """What *selector* matches, in small portions: it may be costly."""
        lookup = self._editor.lookup
        for batch in batches:
            if selector is None:
                yield batch
                continue
            count = _MATCHED_AT_ONCE if selector.cost <= 1 else 1
            for start in range(0, len(batch), count):
                portion = batch[start : start + count]
                yield [message for message in portion if selector.matches(lookup(message))]

    def _show(self, browser: BrowserSubscription) -> None:
        """Show *browser* more; a long search gives way to others in between."""
        slices = self._slices
        if browser.pump(slices.budget()) and not browser.is_continuing:
            browser.is_continuing = True
            slices.start(partial(self._show_on, browser))

    def _show_on(self, browser: BrowserSubscription, budget: Budget) -> bool:
        browser.is_continuing = browser.pump(budget)
        return browser.is_continuing

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
        self._attached[subscription] = {key: durable.queue}
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
        recall.begin(others, registry.retaining, self._slices)

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
        attached = self._attached.pop(subscription)
        for place in self._held_places(subscription, attached):
            attached.pop(place).remove(subscription, seen)
        if attached:
            self._registry.attaching.leave(subscription, attached)

    def _held_places(
        self, subscription: QueueSubscription, attached: "dict[Destination | DurableKey, Queue]"
    ) -> list[Destination | DurableKey]:
        """Those of its queues that *subscription* has messages of."""
        if len(attached) == 1:
            return list(attached)
        held: dict[Destination | DurableKey, None] = {it.destination: None for it in subscription.in_flight}
        return [place for place in (held | dict.fromkeys(subscription.waiting_in)) if place in attached]

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
        readers: list[Subscription] = list(
            target.subscriptions() if isinstance(target, Queue) else target.subscriptions
        )
        for subscription in readers:
            self.unsubscribe(subscription, LAST_DELIVERED_UNKNOWN)

    def drop_leaving(self, target: "Queue | Topic") -> None:
        """Remove the consumers of *target* that are about to be removed anyway: somebody asks whether it has any."""
        readers: list[Subscription] = list(
            target.subscriptions() if isinstance(target, Queue) else target.subscriptions
        )
        for subscription in readers:
            if subscription.is_leaving:
                self.unsubscribe(subscription, subscription.last_delivered)

    def remove_all(self, subscriptions: list[Subscription]) -> Iterator[None]:
        """Remove *subscriptions*, which are leaving, one with each step. While those of a queue leave it waits, and
        dispatches what they give back when all of them are gone."""
        groups: dict[Queue | None, list[Subscription]] = {}
        for subscription in subscriptions:
            attached = self._attached.get(subscription) if isinstance(subscription, QueueSubscription) else None
            groups.setdefault(_only(attached) if attached and len(attached) == 1 else None, []).append(subscription)
        for group in groups.values():
            queues = self._held_queues(group)
            for queue in queues:
                queue.begin_change()
            for subscription in group:
                self.unsubscribe(subscription, subscription.last_delivered)
                yield
            for queue in queues:
                queue.end_change()

    def _held_queues(self, subscriptions: list[Subscription]) -> dict[Queue, None]:
        """The queues that *subscriptions* have messages of."""
        queues: dict[Queue, None] = {}
        for subscription in subscriptions:
            if isinstance(subscription, QueueSubscription):
                attached = self._attached.get(subscription, {})
                queues.update((attached[place], None) for place in self._held_places(subscription, attached))
        return queues

    # ---- acks --------------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        subscription: Subscription,
        kind: AckKind,
        first: bytes | None,
        last: bytes,
        count: int,
        transaction: Transaction | None,
        cause: str | None,
    ) -> None:
        """Carry out an ack, or collect it in *transaction*."""
        if isinstance(subscription, QueueSubscription):
            if count == 1 and kind is AckKind.STANDARD and transaction is None and (first is None or first == last):
                self._finish_one(subscription, last)
                return
            self._acknowledge_queue(subscription, kind, first, last, count, transaction, cause)
            return
        # Topic consumers and browsers hold copies: an ack only moves their window.
        if kind is AckKind.DELIVERED:
            subscription.extension += max(0, count)
        elif kind is not AckKind.REDELIVERED:
            subscription.finished(max(0, count))
        self.pump(subscription)

    def _acknowledge_queue(
        self,
        subscription: QueueSubscription,
        kind: AckKind,
        first: bytes | None,
        last: bytes,
        count: int,
        transaction: Transaction | None,
        cause: str | None,
    ) -> None:
        in_flight = subscription.in_flight
        match kind:
            case AckKind.STANDARD | AckKind.UNMATCHED:
                messages = in_flight.take_range(first, last, count)
                self._finish_or_collect(subscription, messages, transaction, kind)
            case AckKind.INDIVIDUAL:
                self._finish_or_collect(subscription, [in_flight.take_one(last)], transaction, kind)
            case AckKind.DELIVERED:
                subscription.extend(last)
                self.pump(subscription)
            case AckKind.REDELIVERED:
                in_flight.check_range(first, last)  # the client counts; what it leaves unfinished is counted then
            case AckKind.POISON:
                self._reject(subscription, in_flight.take_range(first, last, count), cause)
            case AckKind.EXPIRED:
                self._expire_at_client(subscription, in_flight.take_range(first, last, count))

    def _finish_one(self, subscription: QueueSubscription, key: bytes) -> None:
        """What most acks ask for, on the shortest way: one message of a consumer of one queue is done."""
        message = subscription.in_flight.take_one(key)
        attached = self._attached[subscription]
        if len(attached) > 1:
            self._finish_or_collect(subscription, [message], None, AckKind.STANDARD)
            return
        queue = _only(attached)
        if queue.audit is not None:
            queue.audit.acked(queue, message, subscription)
        done = [message]
        queue.finish(done)
        self._early_dispatch.acked(done)
        subscription.finished(1)
        queue.resume(subscription)

    def _finish_or_collect(
        self,
        subscription: QueueSubscription,
        messages: list[Message],
        transaction: Transaction | None,
        kind: AckKind,
    ) -> None:
        if transaction is None:
            for queue, theirs in self._by_queue(subscription, messages):
                if queue.audit is not None:
                    queue.audit.acked_all(queue, theirs, subscription, kind, None)
                queue.finish(theirs)
            self._early_dispatch.acked(messages)
        else:
            self._collect(subscription, messages, transaction, kind)
        subscription.finished(len(messages))
        self.pump(subscription)

    def _collect(
        self, subscription: QueueSubscription, messages: list[Message], transaction: Transaction, kind: AckKind
    ) -> None:
        """Leave the end of *messages* to *transaction*; the queues are noted now: the consumer may be gone by then."""
        by_queue = self._by_queue(subscription, messages)
        subscription.in_flight.expect_back(messages)
        as_acked = (kind, transaction.transaction_id)
        transaction.acks.append(
            AckedMessages(
                subscription,
                messages,
                by_queue,
                finish=lambda queue, theirs: self._finish(subscription, queue, theirs, as_acked),
                undo=lambda: self._undo(subscription, messages, by_queue),
            )
        )

    def _finish(
        self,
        subscription: QueueSubscription,
        queue: Queue,
        messages: list[Message],
        as_acked: tuple[AckKind, Hashable],
    ) -> None:
        """A committed ack, or a portion of it."""
        if queue.audit is not None:
            queue.audit.acked_all(queue, messages, subscription, *as_acked)
        queue.finish(messages)
        subscription.in_flight.decide(messages)
        if subscription in self._attached:
            self.pump(subscription)

    def _undo(
        self, subscription: QueueSubscription, messages: list[Message], by_queue: "list[tuple[Queue, list[Message]]]"
    ) -> None:
        """A rolled back ack: the consumer has its messages again, or the queue if the consumer has gone."""
        subscription.in_flight.decide(messages)
        if subscription in self._attached:
            subscription.in_flight.put_back_first(messages)
            return
        for queue, theirs in by_queue:
            for message in theirs:
                message.redelivery_counter += 1
                if queue.audit is not None:
                    queue.audit.happened(Event.REDELIVERED, queue, message, subscription)
            queue.put_back(theirs)

    def _by_queue(
        self, subscription: QueueSubscription, messages: list[Message]
    ) -> "list[tuple[Queue, list[Message]]]":
        """*messages* by the queue they came from."""
        attached = self._attached[subscription]
        if len(attached) == 1:
            return [(_only(attached), messages)]
        groups: dict[Destination | DurableKey, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.destination, []).append(message)
        return [(attached[where], theirs) for where, theirs in groups.items()]

    # ---- what nobody could consume -----------------------------------------------------------------------------

    def _reject(self, subscription: QueueSubscription, messages: list[Message], cause: str | None) -> None:
        """POISON: the consumer gives these up."""
        for queue, theirs in self._by_queue(subscription, messages):
            for message in theirs:
                delay = redelivery_delay_seconds(queue.policy, message.redelivery_counter)
                if delay is None:
                    with self._store.atomically():
                        verdict = self._dead_letters.keep(queue, message, cause or _REJECTED, expired=False)
                        if queue.audit is not None:
                            event = Event.DISCARDED if verdict.queue is None else Event.DEAD_LETTERED
                            queue.audit.happened(event, queue, message, subscription, verdict.reason)
                        queue.finish([message])
                else:
                    again = self._redeliver_later(queue, message, delay)
                    if queue.audit is not None:
                        queue.audit.happened(Event.REDELIVERED, queue, again, subscription, cause or _REJECTED)
        subscription.finished(len(messages))
        self.pump(subscription)

    def _redeliver_later(self, queue: Queue, message: Message, delay_seconds: float) -> Message:
        """Offer *message* again after a while, marked: the Java client lets it pass though it gave it up once."""
        delay: dict[str, Value] = {DELAY_PROPERTY: Long(round(delay_seconds * 1000))}
        again = self._editor.readdressed(message, message.destination, properties=delay)
        self._editor.stamper.stamp(again, message.sequence, self._clock.now_ms())
        again.redelivery_counter = message.redelivery_counter + 1
        queue.replace(message, again)
        self._clock.call_later(delay_seconds, lambda: queue.put_back([again]))
        return again

    def _expire_at_client(self, subscription: QueueSubscription, messages: list[Message]) -> None:
        """EXPIRED: the client found them too old. By our clock they may not be (N1): they are kept as dead letters."""
        for queue, theirs in self._by_queue(subscription, messages):
            queue.expire(theirs)
        subscription.finished(len(messages))
        self.pump(subscription)

    # ---- pulling and pumping -----------------------------------------------------------------------------------

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """One message now, or later, or an empty answer."""
        if not subscription.is_pull:
            raise BrokerError(f"{subscription!r} has a prefetch of {subscription.prefetch} and does not pull")
        if subscription.pulls >= _PULLS_MAX:
            raise ResourceLimit(f"{subscription!r} has asked for {subscription.pulls} messages at once, the limit")
        subscription.pulls += 1
        waiting = subscription.pulls
        self.pump(subscription)
        if subscription.pulls < waiting or timeout_ms == 0:
            return
        if timeout_ms < 0:
            subscription.give_up_pull()
        else:
            timer = self._clock.call_later(timeout_ms / 1000, lambda: subscription.give_up_pull(timer))
            subscription.pull_timers.append(timer)

    def pump(self, subscription: Subscription) -> None:
        """Send what there is for *subscription*, as far as it has room."""
        if isinstance(subscription, QueueSubscription):
            if subscription.has_several_queues:
                self._pump_several(subscription)
            else:
                _only(self._attached[subscription]).resume(subscription)
        elif isinstance(subscription, TopicSubscription):
            if subscription.pending:
                self._pump_topic(subscription)
            if subscription.replay is not None:
                self._replays.go_on(subscription)
        elif isinstance(subscription, BrowserSubscription):
            self._show(subscription)

    def _pump_several(self, subscription: QueueSubscription) -> None:
        """Ask the queues that had something for *subscription* when it was full, each once; anew if that goes on."""
        is_asking = subscription in self._asking
        self._asking[subscription] = len(subscription.passed_over)
        if not is_asking and self._ask_more(subscription, self._slices.budget()):
            self._slices.start(partial(self._ask_more, subscription))

    def _ask_more(self, subscription: QueueSubscription, budget: Budget) -> bool:
        """Go on with the round of *subscription*; whether some are left. A queue that must keep what it has for
        *subscription* is passed over again, and waits for the next round: a round ends."""
        attached = self._attached.get(subscription)
        if attached is not None:
            passed_over = subscription.passed_over
            while passed_over and subscription.has_room and self._asking[subscription] > 0:
                self._asking[subscription] -= 1
                place, _none = passed_over.popitem(last=False)
                queue = attached.get(place)
                if queue is None:  # it was deleted
                    continue
                queue.resume(subscription)
                if place in subscription.waiting_in:
                    passed_over[place] = None
                if budget.is_spent and self._asking[subscription] > 0:
                    return True
        del self._asking[subscription]
        return False

    def _pump_topic(self, subscription: TopicSubscription) -> None:
        for message in subscription.pump(self._clock.now_ms()):
            self._tell_expired_copy(subscription, message)
            self._advisories.expired(message.destination, message)

    def _tell_expired_copy(self, subscription: TopicSubscription, message: Message) -> None:
        topic = self._registry.router.get(message.destination)
        if isinstance(topic, Topic) and topic.audit is not None:
            topic.audit.happened(Event.EXPIRED, topic, message, subscription)


def _browse_found(found: "tuple[Destination, Queue | Topic] | None") -> Iterator[list[Message]]:
    """What a browser of a pattern is shown of a destination; an empty batch for a look at others."""
    return found[1].browse() if found is not None and isinstance(found[1], Queue) else iter(([],))


def _only(attached: dict[Destination | DurableKey, Queue]) -> Queue:
    for queue in attached.values():  # compiled, the shortest way to it
        return queue
    raise AssertionError("a consumer that is attached to no queue has no messages")


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
    sequences = [message.sequence for message in in_flight]
    up_to = sequences.index(last_delivered) + 1 if last_delivered in sequences else 0
    seen = set(sequences[:up_to])
    return lambda message: message.sequence <= last_delivered or message.sequence in seen
