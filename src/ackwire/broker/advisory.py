"""Advisories: topics on which the broker publishes its own events (openwire.md §9).

They are written only when somebody listens, and only once the broker has started: what comes back at a start is no
event. While a message is being put in its places they wait until it is there (`placing.py`). Those who come late are
shown the state that they would know had they listened all along: the Java client depends on that for temporary
destinations.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, Protocol, final

from ackwire.broker.clients import Clients
from ackwire.broker.numbered_set import E, NumberedSet
from ackwire.broker.placing import Placing
from ackwire.broker.session import Connection, Producer
from ackwire.broker.subscription import Subscription
from ackwire.errors import AckwireError
from ackwire.jms.destinations import Destination, Kind, derived_destination, matches_pattern
from ackwire.jms.message import Message
from ackwire.jms.message_editor import Advisory, AdvisoryKind, ConsumerDetails, MessageEditor
from ackwire.jms.types import Int, Value

_log = logging.getLogger(__name__)

PREFIX: Final = "ActiveMQ.Advisory."

_PORTION: Final = 64
"""Entries that a replay reads at once."""

_DESTINATION_TOPICS: Final = {
    Kind.QUEUE: "Queue",
    Kind.TOPIC: "Topic",
    Kind.TEMP_QUEUE: "TempQueue",
    Kind.TEMP_TOPIC: "TempTopic",
}


def is_advisory(where: Destination) -> bool:
    return where.kind is Kind.TOPIC and where.name.startswith(PREFIX)


def is_about_destination(where: Destination) -> bool:
    """Whether *where* is an advisory topic about one destination, such as `Consumer.Queue.orders`."""
    return is_advisory(where) and where.name.count(".", len(PREFIX)) > 1


def _topic(name: str) -> Destination:
    return derived_destination(Kind.TOPIC, PREFIX + name)


def _about(what: str, where: Destination) -> Destination:
    """The topic for events of *where*, such as `Consumer.Queue.orders`."""
    return _topic(f"{what}.{'Queue' if where.kind.is_queue else 'Topic'}.{where.name}")


def consumer_details(subscription: Subscription) -> ConsumerDetails:
    request = subscription.request
    return ConsumerDetails(
        consumer_id=request.consumer_id,
        destination=request.destination,
        prefetch=request.prefetch,
        selector=request.selector,
        subscription_name=request.subscription_name,
        no_local=request.no_local,
        exclusive=request.exclusive,
        priority=request.priority,
        browser=request.browser,
    )


class AdvisedDestinations(Protocol):
    """The interface to the existing destinations that advisories use."""

    def has_listeners(self, topic: Destination) -> bool:
        """Whether anyone would get a message published on *topic* now."""
        ...

    def consumer_count(self, where: Destination) -> int: ...

    def owner(self, temporary: Destination) -> Connection | None: ...

    def names_of(self, kind: Kind) -> NumberedSet[Destination]:
        """The names of that kind in the order of their making."""
        ...


class AdvisoryPublisher(Protocol):
    """Publishes what advisories say."""

    def publish_advisory(self, message: Message, topic: Destination, about: Destination | None) -> None:
        """Publish *message* on *topic*, which is made if need be, and goes with what it is *about*."""
        ...

    def publish_copy(self, copy: Message, about: Destination) -> None:
        """Publish *copy*, which is addressed to an advisory topic *about* where the message was sent."""
        ...


@final
class Advisories:
    """Writes advisories and replays state to late joiners."""

    _destinations: AdvisedDestinations
    _publisher: AdvisoryPublisher

    def __init__(self, editor: MessageEditor, placing: Placing, clients: Clients) -> None:
        self._editor = editor
        self._placing = placing
        self._clients = clients
        self._is_silent = True

    def bind(self, destinations: AdvisedDestinations, publisher: AdvisoryPublisher) -> None:
        """Set the parts that deliver advisories. They report to this one, so they are constructed later."""
        self._destinations = destinations
        self._publisher = publisher

    def begin(self) -> None:
        """Publish advisories from now on: everything that an earlier run left is restored."""
        self._is_silent = False

    def _tell(self, topic: Destination, make: Callable[[], Advisory]) -> None:
        """Publish what *make* makes if anyone listens. An advisory never decides the fate of what it is about."""
        if self._is_silent or topic.is_wildcard:
            return  # about a pattern: there is no topic of such a name
        self._try(topic, lambda: self._publish_if_heard(topic, make))

    def _publish_if_heard(self, topic: Destination, make: Callable[[], Advisory]) -> None:
        if self._destinations.has_listeners(topic):
            advisory = make()
            self._publish(topic, lambda: self._write(topic, advisory))

    def _write(self, topic: Destination, advisory: Advisory) -> None:
        self._publisher.publish_advisory(self._editor.advisory(advisory), topic, advisory.destination)

    def _publish(self, topic: Destination, publish: Callable[[], None]) -> None:
        """Publish on *topic*, or do so as soon as the message that is being put in its places is there."""
        if self._placing.is_under_way:
            self._placing.defer(partial(self._try, topic, publish))
        else:
            publish()

    def _try(self, topic: Destination, publish: Callable[[], None]) -> None:
        try:
            publish()
        except AckwireError as error:
            _log.warning("no advisory is published on %r: %s", topic, error)

    # ---- as it happens -----------------------------------------------------------------------------------------

    def connection_added(self, connection: Connection) -> None:
        self._tell(_topic("Connection"), lambda: _connection_added(connection))

    def connection_removed(self, connection: Connection) -> None:
        topic = _topic("Connection")
        self._tell(
            topic,
            lambda: Advisory(
                AdvisoryKind.CONNECTION_REMOVED,
                topic,
                connection_id=connection.connection_id,
                client_id=connection.client_id,
            ),
        )

    def destination_added(self, where: Destination, owner: Connection | None) -> None:
        topic = _topic(_DESTINATION_TOPICS[where.kind])
        self._tell(topic, lambda: _destination_event(AdvisoryKind.DESTINATION_ADDED, topic, where, owner))

    def destination_removed(self, where: Destination, owner: Connection | None) -> None:
        topic = _topic(_DESTINATION_TOPICS[where.kind])
        self._tell(topic, lambda: _destination_event(AdvisoryKind.DESTINATION_REMOVED, topic, where, owner))

    def consumer_added(self, subscription: Subscription) -> None:
        for where in subscription.request.destination.parts():
            if not is_advisory(where):
                topic = _about("Consumer", where)
                self._tell(topic, partial(self._consumer_added, topic, where, subscription))

    def _consumer_added(
        self, topic: Destination, where: Destination, subscription: Subscription, target: str | None = None
    ) -> Advisory:
        return Advisory(
            AdvisoryKind.CONSUMER_ADDED,
            topic,
            consumer=consumer_details(subscription),
            destination=where,
            target_consumer_id=target,
            properties={"consumerCount": Int(self._destinations.consumer_count(where))},
        )

    def consumer_removed(self, subscription: Subscription) -> None:
        for where in subscription.request.destination.parts():
            if not is_advisory(where):
                topic = _about("Consumer", where)
                self._tell(topic, partial(self._consumer_removed, topic, where, subscription))

    def _consumer_removed(self, topic: Destination, where: Destination, subscription: Subscription) -> Advisory:
        return Advisory(
            AdvisoryKind.CONSUMER_REMOVED,
            topic,
            consumer_id=subscription.consumer_id,
            destination=where,
            properties={"consumerCount": Int(self._destinations.consumer_count(where))},
        )

    def producer_added(self, producer: Producer) -> None:
        where = producer.destination
        if where is not None and not where.is_composite and not is_advisory(where):
            topic = _about("Producer", where)
            self._tell(topic, lambda: self._producer_event(AdvisoryKind.PRODUCER_ADDED, topic, where, producer))

    def producer_removed(self, producer: Producer) -> None:
        where = producer.destination
        if where is not None and not where.is_composite and not is_advisory(where):
            topic = _about("Producer", where)
            self._tell(topic, lambda: self._producer_event(AdvisoryKind.PRODUCER_REMOVED, topic, where, producer))

    def _producer_event(
        self,
        kind: AdvisoryKind,
        topic: Destination,
        where: Destination,
        producer: Producer,
        target: str | None = None,
    ) -> Advisory:
        return Advisory(
            kind,
            topic,
            producer_id=producer.producer_id,
            destination=where,
            target_consumer_id=target,
            properties={"producerCount": Int(self._clients.producer_count(where))},
        )

    def expired(self, where: Destination, message: Message) -> None:
        self._about_message("Expired", where, message, lambda: self._original_id(message))

    def delivered(self, where: Destination, message: Message) -> None:
        self._about_message("MessageDelivered", where, message, lambda: self._original(where, message))

    def consumed(self, where: Destination, message: Message) -> None:
        self._about_message("MessageConsumed", where, message, lambda: self._original(where, message))

    def dead_lettered(self, where: Destination, message: Message) -> None:
        self._about_message("MessageDLQd", where, message, dict)

    def discarded(self, where: Destination, message: Message, subscription: Subscription, count: int) -> None:
        """The *count*-th message that *subscription* lost."""

        def properties() -> dict[str, Value]:
            counted: dict[str, Value] = {"consumerId": subscription.consumer_id, "discardedCount": Int(count)}
            return {**self._original(where, message), **counted}

        self._about_message("MessageDiscarded", where, message, properties)

    def _about_message(
        self, what: str, where: Destination, message: Message, properties: Callable[[], dict[str, Value]]
    ) -> None:
        if not is_advisory(where):
            topic = _about(what, where)
            self._tell(
                topic,
                lambda: Advisory(
                    AdvisoryKind.MESSAGE, topic, message=message, destination=where, properties=properties()
                ),
            )

    def _original_id(self, message: Message) -> dict[str, Value]:
        return {"orignalMessageId": self._editor.message_id(message)}  # ActiveMQ's spelling

    def _original(self, where: Destination, message: Message) -> dict[str, Value]:
        return {**self._original_id(message), "orignalDestination": repr(where)}

    def no_consumers(self, where: Destination, message: Message) -> None:
        """Publish the advisory of a non-persistent message that no consumer gets."""
        if self._is_silent or message.persistent or is_advisory(where):
            return
        topic = _about("NoConsumer", where)
        self._try(topic, lambda: self._copy_if_heard(topic, message))

    def _copy_if_heard(self, topic: Destination, message: Message) -> None:
        if self._destinations.has_listeners(topic):
            copy, about = self._editor.readdressed(message, topic), message.destination
            self._publish(topic, lambda: self._publisher.publish_copy(copy, about))

    def slow_consumer(self, where: Destination, subscription: Subscription) -> None:
        if not is_advisory(where):
            topic = _about("SlowConsumer", where)
            self._tell(
                topic,
                lambda: Advisory(
                    AdvisoryKind.CONSUMER_ADDED,
                    topic,
                    consumer=consumer_details(subscription),
                    destination=where,
                    properties={"consumerId": subscription.consumer_id},
                ),
            )

    def full(self, where: Destination, reason: str) -> None:
        if not is_advisory(where):
            topic = _about("FULL", where)
            self._tell(
                topic,
                lambda: Advisory(AdvisoryKind.PLAIN, topic, destination=where, properties={"usageName": reason}),
            )

    # ---- for late joiners --------------------------------------------------------------------------------------

    def replay(self, topic: Destination, subscription: Subscription) -> Iterator[Message | None] | None:
        """The advisories that give a new subscriber to *topic* (a name or pattern) the present state; None if none.

        They are created while they are read, for what existed at this call and still exists; a None among them marks a
        step without result. Later changes are published as they happen. So the subscriber misses nothing, gets nothing
        twice, and nothing about what has gone meanwhile.
        """
        if not is_advisory(topic):
            return None
        subject = topic.name[len(PREFIX) :].partition(".")[0]
        states = [state for name, state in self._subjects().items() if subject in (name, "*", ">")]
        return chain.from_iterable([state(topic.name, subscription.consumer_id) for state in states])

    def _subjects(self) -> dict[str, Callable[[str, str], Iterator[Message | None]]]:
        """The state to replay, by the first part of the topic's name: only what was asked for is collected."""
        kinds = {name: partial(self._destinations_now, kind) for kind, name in _DESTINATION_TOPICS.items()}
        return {
            "Connection": self._connections_now,
            "Consumer": self._consumers_now,
            "Producer": self._producers_now,
            **kinds,
        }

    def _connections_now(self, pattern: str, target: str) -> Iterator[Message | None]:
        def tell(connection: Connection) -> Iterator[Advisory | None]:
            yield _connection_added(connection, target)

        return self._present(self._clients.connections, tell) if _is_told(pattern, _topic("Connection")) else iter(())

    def _consumers_now(self, pattern: str, target: str) -> Iterator[Message | None]:
        def tell(consumer: Subscription) -> Iterator[Advisory | None]:
            for where in consumer.request.destination.parts():
                if not is_advisory(where):
                    topic = _about("Consumer", where)
                    yield self._consumer_added(topic, where, consumer, target) if _is_told(pattern, topic) else None

        return self._present(self._clients.consumers, tell)

    def _producers_now(self, pattern: str, target: str) -> Iterator[Message | None]:
        def tell(producer: Producer) -> Iterator[Advisory | None]:
            where = producer.destination
            if where is not None and not where.is_composite and not is_advisory(where):
                topic = _about("Producer", where)
                if _is_told(pattern, topic):
                    yield self._producer_event(AdvisoryKind.PRODUCER_ADDED, topic, where, producer, target)

        return self._present(self._clients.producers, tell)

    def _destinations_now(self, kind: Kind, pattern: str, target: str) -> Iterator[Message | None]:
        topic = _topic(_DESTINATION_TOPICS[kind])

        def tell(where: Destination) -> Iterator[Advisory | None]:
            if not is_advisory(where):
                owner = self._destinations.owner(where)
                yield _destination_event(AdvisoryKind.DESTINATION_ADDED, topic, where, owner, target)

        return self._present(self._destinations.names_of(kind), tell) if _is_told(pattern, topic) else iter(())

    def _present(
        self, numbered: NumberedSet[E], tell: Callable[[E], Iterator[Advisory | None]]
    ) -> Iterator[Message | None]:
        """The result of *tell* for the entries that *numbered* has now, and still has when they are read."""
        return self._read(numbered, numbered.last_number, tell)

    def _read(
        self, numbered: NumberedSet[E], last: int, tell: Callable[[E], Iterator[Advisory | None]]
    ) -> Iterator[Message | None]:
        after = 0
        while portion := numbered.between(after, last, _PORTION):
            for after, entry in portion:
                if numbered.number_of(entry) != after:
                    continue
                for advisory in tell(entry):
                    yield None if advisory is None else self._editor.advisory(advisory)
                    if numbered.number_of(entry) != after:
                        break  # it has gone meanwhile, and those who listen were told


def _is_told(pattern: str, topic: Destination) -> bool:
    """Whether a subscriber to *pattern* gets messages of *topic*; a pattern is no topic."""
    return matches_pattern(pattern, topic.name) and not topic.is_wildcard


def _connection_added(connection: Connection, target: str | None = None) -> Advisory:
    return Advisory(
        AdvisoryKind.CONNECTION_ADDED,
        _topic("Connection"),
        connection_id=connection.connection_id,
        client_id=connection.client_id,
        user=connection.user,
        target_consumer_id=target,
    )


def _destination_event(
    kind: AdvisoryKind, topic: Destination, where: Destination, owner: Connection | None, target: str | None = None
) -> Advisory:
    return Advisory(
        kind,
        topic,
        destination=where,
        connection_id=None if owner is None else owner.connection_id,
        target_consumer_id=target,
    )
