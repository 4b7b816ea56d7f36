"""Counts of each destination, for `/metrics` and `/v1/destinations`.

There may be very many, so they are counted in portions, and the loop serves other work in between.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from typing import Final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.broker import Broker
from ackwire.broker.queue import Queue
from ackwire.broker.topic import Topic
from ackwire.config.policy import DEFAULT_POLICY, DeadLetterPolicy
from ackwire.jms.destinations import Destination

_PER_TURN: Final = 100
"""Destinations that are counted before others get their turn."""


@dataclass(slots=True)
class Counts:
    """One destination, or several together."""

    pending: int = 0
    in_flight: int = 0
    consumers: int = 0
    enqueued: int = 0
    dequeued: int = 0
    expired: int = 0
    bytes: int = 0

    def add(self, other: "Counts") -> None:
        for key in fields(self):
            setattr(self, key.name, getattr(self, key.name) + getattr(other, key.name))


async def destination_stats(broker: Broker) -> AsyncIterator[tuple[str, bool, Counts]]:
    """Name, whether it is temporary, and counts: of each queue, each topic and each durable subscription."""
    for number, where in enumerate(broker.registry.router.names()):
        made = broker.registry.router.get(where)
        if made is not None and not is_advisory(where):
            counts = _of_queue(made) if isinstance(made, Queue) else _of_topic(made)
            yield repr(where), where.kind.is_temporary, counts
        if number % _PER_TURN == _PER_TURN - 1:
            await asyncio.sleep(0)
    for number, durable in enumerate(list(broker.registry.durables.values())):
        yield f"durable://{durable.key.client_id}/{durable.key.name}", False, _of_queue(durable.queue)
        if number % _PER_TURN == _PER_TURN - 1:
            await asyncio.sleep(0)


def _of_queue(queue: Queue) -> Counts:
    return Counts(
        pending=queue.view.pending_count,
        in_flight=queue.view.in_flight_count,
        consumers=queue.consumer_count,
        enqueued=queue.contents.enqueued,
        dequeued=queue.contents.dequeued,
        expired=queue.contents.expired,
        bytes=queue.size_bytes,
    )


def _of_topic(topic: Topic) -> Counts:
    """Counts of a topic, without the messages of its durable subscriptions, which have counts of their own."""
    return Counts(
        pending=sum(len(subscription.pending) for subscription in topic.subscriptions),
        in_flight=sum(subscription.dispatched for subscription in topic.subscriptions),
        consumers=topic.consumer_count,
        enqueued=topic.enqueued,
    )


def dead_letter_queues(broker: Broker) -> list[Queue]:
    """The queues there are into which a policy puts dead letters."""
    policies = (DEFAULT_POLICY, *broker.settings.policies)
    shared = {it.dead_letter_queue for it in policies if it.dead_letters is DeadLetterPolicy.SHARED}
    individual = [it for it in policies if it.dead_letters is DeadLetterPolicy.INDIVIDUAL]
    prefixes = tuple(p for it in individual for p in (it.dead_letter_queue_prefix, it.dead_letter_topic_prefix))
    return [
        made
        for made in broker.registry.router
        if isinstance(made, Queue) and isinstance(made.place, Destination)
        if made.place.name in shared or made.place.name.startswith(prefixes)
    ]
