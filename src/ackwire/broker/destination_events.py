"""Handles events of queues and topics: publishes advisories, creates dead letters, writes the log."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Event
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription, TopicSubscription
from ackwire.broker.topic import Topic
from ackwire.broker.transactions import Transactions
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message

_TOO_SLOW: Final = "the subscriber is too slow"

_log = logging.getLogger(__name__)


@final
class BrokerEvents:
    """Implements `registry.DestinationEvents`."""

    def __init__(self, advisories: Advisories, dead_letters: DeadLetters, transactions: Transactions) -> None:
        self._advisories = advisories
        self._dead_letters = dead_letters
        self._transactions = transactions

    def on_expired(self, queue: Queue, message: Message) -> None:
        """A message has left *queue* because its time is over."""
        self._advisories.expired(message.destination, message)
        cause = f"java.lang.Throwable: Message Expired. Expiration:{message.expiration}"  # ActiveMQ's words
        self._dead_letters.keep(queue, message, cause, expired=True)

    def on_consumed(self, queue: Queue, messages: list[Message]) -> None:  # noqa: ARG002 - a queue's own listeners ask
        for message in messages:
            self._advisories.consumed(message.destination, message)

    def undecided(self, queue: Queue) -> Iterator[Message]:
        """The messages of *queue* that open transactions have acknowledged: removed or returned when they end."""
        for transaction in self._transactions:
            for acked in transaction.acks:
                for of_queue, messages in acked.by_queue:
                    if of_queue is queue:
                        yield from messages

    def on_slow(self, queue: Queue, subscription: QueueSubscription) -> None:
        if queue.policy.advise_slow_consumers and isinstance(queue.place, Destination):
            self._advisories.slow_consumer(queue.place, subscription)

    def on_discarded(self, topic: Topic, subscription: TopicSubscription, messages: Sequence[Message]) -> None:
        if subscription.dropped == len(messages):
            _log.warning("%r is too slow: its oldest waiting messages are dropped", subscription)
        if topic.audit is not None:
            for message in messages:
                topic.audit.happened(Event.DISCARDED, topic, message, subscription, _TOO_SLOW)
        for count, message in enumerate(messages, subscription.dropped - len(messages) + 1):
            self._advisories.discarded(topic.destination, message, subscription, count)

    def on_slow_subscriber(self, topic: Topic, subscription: TopicSubscription) -> None:
        self._advisories.slow_consumer(topic.destination, subscription)
