"""Removes disconnected clients and all that they announced, in slices of the loop (SEMANTICS D7).

A client may have ten thousand consumers and as many temporary queues. All its consumers stop receiving immediately.
Then they are removed one by one, queue by queue, then its producers and its temporary destinations. If another client
needs something that is still to be removed, that is removed first: a durable subscription that its owner takes up
again, a temporary destination that a client announces again after a failover, a queue that is to be deleted.
"""

from collections.abc import Callable, Iterator
from typing import final

from ackwire.broker.registry import Registry
from ackwire.broker.session import Connection
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import Subscription
from ackwire.broker.subscriptions import Subscriptions

_UNITS = 4
"""What it costs of a slice to remove one thing."""


@final
class Departures:
    """Removes what has left."""

    def __init__(
        self,
        slices: Slices,
        subscriptions: Subscriptions,
        registry: Registry,
        remove_producer: Callable[[Connection, str], None],
    ) -> None:
        self._slices = slices
        self._subscriptions = subscriptions
        self._registry = registry
        self._remove_producer = remove_producer
        self._under_way: dict[Iterator[None], None] = {}
        self._former: dict[str, list[Connection]] = {}
        """The connections that leave, by their id: a client that comes back has the same."""

    def close_session(self, connection: Connection, session_id: int, last_delivered: int) -> None:
        """A session ends with its consumers and producers."""
        consumers = self._marked(connection.subscriptions_of(session_id), last_delivered)
        producers = [it.producer_id for it in connection.producers.values() if it.session_id == session_id]
        self._begin(self._session_steps(connection, consumers, producers), self._slices.budget())

    def _session_steps(
        self, connection: Connection, consumers: list[Subscription], producers: list[str]
    ) -> Iterator[None]:
        yield from self._subscriptions.remove_all(consumers)
        yield from self._producer_steps(connection, producers)

    def close_connection(
        self, connection: Connection, last_delivered: int, roll_back: Callable[[Connection], None]
    ) -> None:
        """*connection* has ended. *roll_back* undoes its transactions, now."""
        consumers = self._marked(list(connection.subscriptions.values()), last_delivered)
        budget = self._slices.budget()
        removals = self._subscriptions.remove_all(consumers)
        self._take(removals, budget)
        roll_back(connection)
        self._registry.leaving_owners.add(connection)
        self._former.setdefault(connection.connection_id, []).append(connection)
        self._begin(self._connection_steps(connection, removals), budget)

    def _connection_steps(self, connection: Connection, removals: Iterator[None]) -> Iterator[None]:
        yield from removals
        yield from self._producer_steps(connection, list(connection.producers))
        for temporary in list(connection.temporary):
            self._registry.remove_temporary(temporary, connection)
            yield
        self._registry.leaving_owners.discard(connection)
        former = self._former[connection.connection_id]
        former.remove(connection)
        if not former:
            del self._former[connection.connection_id]

    def forestall(self, connection_id: str, *, consumer_id: str | None = None, producer_id: str | None = None) -> None:
        """A client that has come back announces something again. The old one is removed first, so that listeners
        hear of its end and then of its return."""
        for former in self._former.get(connection_id, ()):
            consumer = None if consumer_id is None else former.subscriptions.get(consumer_id)
            if consumer is not None:
                self._subscriptions.unsubscribe(consumer, consumer.last_delivered)
            if producer_id in former.producers:
                self._remove_producer(former, producer_id)

    def _producer_steps(self, connection: Connection, producers: list[str]) -> Iterator[None]:
        for producer_id in producers:
            if producer_id in connection.producers:
                self._remove_producer(connection, producer_id)
                yield

    @staticmethod
    def _marked(subscriptions: list[Subscription], last_delivered: int) -> list[Subscription]:
        """None of them gets anything more: what one gives back must not go to another that leaves as well."""
        for subscription in subscriptions:
            subscription.is_leaving = True
            subscription.last_delivered = last_delivered
        return subscriptions

    def _begin(self, steps: Iterator[None], budget: Budget) -> None:
        if self._take(steps, budget):
            self._under_way[steps] = None
            self._slices.start(lambda more: self._go_on(steps, more))

    def _go_on(self, steps: Iterator[None], budget: Budget) -> bool:
        if self._take(steps, budget):
            return True
        self._under_way.pop(steps, None)
        return False

    @staticmethod
    def _take(steps: Iterator[None], budget: Budget) -> bool:
        """Whether there are more steps than *budget* allows."""
        if budget.is_spent:
            return True
        return any(budget.spend(_UNITS) for _ in steps)

    def finish(self) -> None:
        """The broker stops: all who were about to leave have left."""
        for steps in list(self._under_way):
            for _ in steps:
                pass
        self._under_way.clear()
