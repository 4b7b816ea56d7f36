"""The connected clients: connections, and the producers and consumers that they announced.

Only the lists, in the order in which their entries came; `connections.py` says what happens when clients come and go.
"""

from collections import Counter
from typing import final

from ackwire.broker.numbered_set import NumberedSet
from ackwire.broker.session import Connection, Producer, Subscription
from ackwire.jms.destinations import Destination


@final
class Clients:
    """The connections, producers and consumers of the broker."""

    def __init__(self) -> None:
        self.connections: NumberedSet[Connection] = NumberedSet()
        self.producers: NumberedSet[Producer] = NumberedSet()
        self.consumers: NumberedSet[Subscription] = NumberedSet()
        self._by_connection_id: dict[str, Connection] = {}
        self._by_client_id: dict[str, Connection] = {}
        self._producer_counts: Counter[Destination] = Counter()

    def all(self) -> list[Connection]:
        """Every connection, the oldest first."""
        return list(self._by_connection_id.values())

    def by_connection_id(self, connection_id: str) -> Connection | None:
        return self._by_connection_id.get(connection_id)

    def by_client_id(self, client_id: str) -> Connection | None:
        return self._by_client_id.get(client_id)

    def add(self, connection: Connection) -> None:
        """*connection*, whose ids are free, is here from now on."""
        self._by_connection_id[connection.connection_id] = connection
        self._by_client_id[connection.client_id] = connection
        self.connections.add(connection)

    def remove(self, connection: Connection) -> None:
        """*connection* has ended; its producers and consumers may leave later."""
        del self._by_connection_id[connection.connection_id]
        del self._by_client_id[connection.client_id]
        self.connections.discard(connection)

    def forget_permissions(self) -> None:
        """Forget cached permissions, so that each is checked again."""
        for connection in self._by_connection_id.values():
            connection.sends_to = None
            connection.may_send_to.clear()

    def add_producer(self, producer: Producer) -> None:
        self.producers.add(producer)
        if producer.destination is not None:
            self._producer_counts[producer.destination] += 1

    def remove_producer(self, producer: Producer) -> None:
        self.producers.discard(producer)
        where = producer.destination
        if where is not None:
            self._producer_counts[where] -= 1
            if not self._producer_counts[where]:
                del self._producer_counts[where]

    def producer_count(self, where: Destination) -> int:
        """How many producers were announced for *where*."""
        return self._producer_counts[where]
