"""The queues that each consumer reads from: one, or several by a composite name or a pattern."""

from typing import final

from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription, Subscription
from ackwire.jms.message import Message
from ackwire.store.contract import Place

Attached = dict[Place, Queue]
"""The queues of one consumer."""


@final
class ConsumerQueues:
    """For each consumer of queues, the queues it reads from."""

    def __init__(self) -> None:
        self.of: dict[QueueSubscription, Attached] = {}

    def by_queue(self, subscription: QueueSubscription, messages: list[Message]) -> list[tuple[Queue, list[Message]]]:
        """*messages* by the queue they came from."""
        attached = self.of[subscription]
        if len(attached) == 1:
            return [(only(attached), messages)]
        groups: dict[Place, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.destination, []).append(message)
        return [(attached[where], theirs) for where, theirs in groups.items()]

    def only_queue(self, subscription: Subscription) -> Queue | None:
        """The queue of a consumer of one; None for all others."""
        attached = self.of.get(subscription) if isinstance(subscription, QueueSubscription) else None
        return only(attached) if attached and len(attached) == 1 else None

    def with_messages(self, subscriptions: list[Subscription]) -> dict[Queue, None]:
        """The queues that *subscriptions* have messages of."""
        queues: dict[Queue, None] = {}
        for subscription in subscriptions:
            if isinstance(subscription, QueueSubscription):
                attached = self.of.get(subscription, {})
                queues.update((attached[place], None) for place in places_with_messages(subscription, attached))
        return queues


def only(attached: Attached) -> Queue:
    """The queue of a consumer that reads from one."""
    for queue in attached.values():  # compiled, the shortest way to it
        return queue
    raise AssertionError("a consumer that is attached to no queue has no messages")


def places_with_messages(subscription: QueueSubscription, attached: Attached) -> list[Place]:
    """Those of its queues that *subscription* has messages of."""
    if len(attached) == 1:
        return list(attached)
    found: dict[Place, None] = {it.destination: None for it in subscription.in_flight}
    return [place for place in (found | dict.fromkeys(subscription.waiting_in)) if place in attached]
