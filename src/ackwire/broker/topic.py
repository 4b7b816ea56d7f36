"""A topic: every subscriber gets each message published while it is here (SEMANTICS A3)."""

from typing import final

from ackwire.broker.session import Connection
from ackwire.broker.subscription import TopicSubscription
from ackwire.destinations import Destination
from ackwire.message import Message


@final
class Topic:
    """One topic and its subscribers."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.subscriptions: list[TopicSubscription] = []
        self.enqueued = 0

    def __repr__(self) -> str:
        return f"{self.destination!r} ({len(self.subscriptions)} subscribers)"

    @property
    def consumer_count(self) -> int:
        return len(self.subscriptions)

    def accept(self, message: Message, sender: Connection | None) -> None:
        """Publish *message* to everyone who is here."""
        self.enqueued += 1
        for subscription in self.subscriptions:
            subscription.publish(message, sender)

    def add(self, subscription: TopicSubscription) -> None:
        self.subscriptions.append(subscription)

    def remove(self, subscription: TopicSubscription) -> None:
        self.subscriptions.remove(subscription)
