"""Routes a transaction's messages after its commit (SEMANTICS G1)."""

from typing import final

from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.duplicates import Duplicates
from ackwire.broker.publishing import Publisher
from ackwire.broker.routing import Routing
from ackwire.broker.session import Connection
from ackwire.errors import BrokerError
from ackwire.jms.message import Message


@final
class CommittedSends:
    """Routes the sends of committed transactions."""

    def __init__(
        self, duplicates: Duplicates, routing: Routing, publisher: Publisher, dead_letters: DeadLetters
    ) -> None:
        self._duplicates = duplicates
        self._routing = routing
        self._publisher = publisher
        self._dead_letters = dead_letters

    def route(self, sender: Connection | None, message: Message) -> None:
        """What was promised is kept: a message whose destination has gone since is a dead letter."""
        self._duplicates.committed(sender, message)
        try:
            self._routing.route(sender, message)
        except BrokerError as error:
            self._publisher.tell_sent(message)
            self._dead_letters.keep_unrouted(message, str(error))
