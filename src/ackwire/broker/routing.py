"""Where a client's message goes: to its destination now, or to the scheduler if it is meant for later (SEMANTICS I)."""

from typing import final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.auditing import Audit
from ackwire.broker.publishing import Publisher
from ackwire.broker.registry import Registry
from ackwire.broker.scheduler import SCHEDULER_MARK, Scheduler
from ackwire.broker.session import Connection
from ackwire.errors import NotAuthorised
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message


@final
class Routing:
    """Sends messages on their way."""

    def __init__(self, registry: Registry, publisher: Publisher, scheduler: Scheduler, audit: Audit | None) -> None:
        self._registry = registry
        self._publisher = publisher
        self._scheduler = scheduler
        self._is_audited = audit is not None

    def check(self, message: Message, sender: Connection | None) -> None:
        """Raise what `route` would raise for *sender*, before anything has happened."""
        self._refuse_advisories(message.destination)
        if self.is_scheduled(message):
            self._scheduler.check(message, sender)
        for part in self._publisher.parts(message.destination):
            self._registry.get_or_make(part, sender)

    def route(self, connection: Connection | None, message: Message) -> None:
        """Put *message* where it is addressed to, or leave it to the scheduler if it is meant for later (I)."""
        if connection is not None:
            self._refuse_advisories(message.destination)
        if self.is_scheduled(message) and self._scheduler.take(message, connection):
            return
        message.is_send_unaudited = self._is_audited
        self._publisher.put(connection, message)

    def is_scheduled(self, message: Message) -> bool:
        """Whether *message* may be meant for later: it has properties that mention the scheduler."""
        offset = message.properties_offset
        return offset > 0 and message.frame.find(SCHEDULER_MARK, offset) >= 0

    def _refuse_advisories(self, where: Destination) -> None:
        """What the broker tells about itself, it tells alone: clients act on it."""
        if where.is_plain_queue:
            return
        parts = where.parts()
        if is_advisory(parts[0]) if len(parts) == 1 else any(map(is_advisory, parts)):
            raise NotAuthorised(f"{where!r} is a topic of the broker's own: clients read it and do not write to it")
