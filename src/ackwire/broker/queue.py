"""A queue: messages in order, each to exactly one consumer (SEMANTICS A2, H1).

`pending` is sorted by sequence. What a consumer gives back goes to its old place, so it is offered again before
everything that came later.
"""

from collections import deque
from collections.abc import Callable
from typing import final

from ackwire.broker.dispatch import Rotation
from ackwire.broker.session import Connection
from ackwire.broker.subscription import QueueSubscription
from ackwire.destinations import Destination
from ackwire.message import Message
from ackwire.store.contract import Store


@final
class Queue:
    """One queue and its consumers."""

    def __init__(self, destination: Destination, store: Store) -> None:
        self.destination = destination
        self._store = store
        self._pending: deque[Message] = deque()
        self._rotation = Rotation()
        self.enqueued = 0
        self.dequeued = 0

    def __repr__(self) -> str:
        return f"{self.destination!r} ({len(self._pending)} pending, {self.consumer_count} consumers)"

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    @property
    def consumer_count(self) -> int:
        return len(self._rotation.subscriptions)

    @property
    def in_flight_count(self) -> int:
        return sum(len(subscription.in_flight) for subscription in self._rotation.subscriptions)

    def accept(self, message: Message, _sender: Connection | None) -> None:
        """Take a new message: recorded first, then offered to a consumer."""
        if message.persistent:
            self._store.append(self.destination, message)
        self.enqueued += 1
        self._pending.append(message)
        self.dispatch()

    def dispatch(self) -> None:
        """Send pending messages to consumers as long as one has room."""
        pending = self._pending
        while pending and (subscription := self._rotation.next()) is not None:
            message = pending.popleft()
            subscription.in_flight.add(message)
            subscription.deliver(message)

    def add(self, subscription: QueueSubscription) -> None:
        self._rotation.add(subscription)
        self.dispatch()

    def remove(self, subscription: QueueSubscription, was_delivered: Callable[[Message], bool]) -> None:
        """A consumer leaves: what it had not finished goes back, marked as redelivered where it was seen (D7)."""
        self._rotation.remove(subscription)
        returned = subscription.in_flight.take_all()
        for message in returned:
            if was_delivered(message):
                message.redelivery_counter += 1
        self._put_back(returned)
        self.dispatch()

    def _put_back(self, returned: list[Message]) -> None:
        if not returned:
            return
        returned.sort(key=_sequence)
        last = returned[-1].sequence
        while self._pending and self._pending[0].sequence < last:
            returned.append(self._pending.popleft())
        returned.sort(key=_sequence)
        self._pending.extendleft(reversed(returned))

    def finish(self, subscription: QueueSubscription, messages: list[Message]) -> None:
        """*messages* are consumed: deleted here and in the store."""
        for message in messages:
            if message.persistent:
                self._store.remove(self.destination, message)
        self.dequeued += len(messages)
        subscription.finished(len(messages))
        self.resume(subscription)

    def resume(self, subscription: QueueSubscription) -> None:
        """*subscription* may have room again."""
        self._rotation.offer(subscription)
        if self._pending:
            self.dispatch()


def _sequence(message: Message) -> int:
    return message.sequence
