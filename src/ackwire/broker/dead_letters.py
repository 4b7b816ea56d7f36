"""Moves messages that could not be consumed to the dead letter queue of their policy (SEMANTICS F4)."""

import logging
from typing import final

from ackwire.broker.advisory import Advisories
from ackwire.broker.dead_letter_memory import DeadLetterMemory
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.redelivery import (
    CAUSE_PROPERTY,
    ORIGINAL_DELIVERY_MODE_PROPERTY,
    ORIGINAL_EXPIRATION_PROPERTY,
    Verdict,
    judge,
)
from ackwire.broker.registry import Registry
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Long, Value
from ackwire.store.contract import DurableKey

_log = logging.getLogger(__name__)


@final
class DeadLetters:
    """Keeps copies of messages that could not be consumed, each with the cause."""

    def __init__(self, editor: MessageEditor, registry: Registry, publisher: Publisher, advisories: Advisories) -> None:
        self._editor = editor
        self._registry = registry
        self._publisher = publisher
        self._advisories = advisories
        self._memory = DeadLetterMemory()

    def keep(self, queue: Queue, message: Message, cause: str, *, expired: bool) -> Verdict:
        """Move a copy of *message* to its dead letter queue, with the cause (F4), and return the outcome."""
        is_topic = isinstance(queue.place, DurableKey)
        verdict = judge(queue.policy, message, is_topic=is_topic, expired=expired, cause=cause)
        if verdict.queue is None or verdict.queue == message.destination:
            _log.info("a message of %r was discarded: %s", queue, verdict.reason)
            return Verdict(None, verdict.reason)
        return self._keep_once(queue.policy, message, verdict, cause)

    def keep_unrouted(self, message: Message, cause: str) -> None:
        """Keep a message that has no queue: its destination has gone, or cannot be made."""
        where = message.destination
        policy = self._registry.policy_for(where)
        verdict = judge(policy, message, is_topic=not where.kind.is_queue, expired=False, cause=cause)
        if verdict.queue is None:
            _log.info("a message to %r was discarded: %s", where, verdict.reason)
        else:
            self._keep_once(policy, message, verdict, cause)

    def _keep_once(self, policy: DestinationPolicy, message: Message, verdict: Verdict, cause: str) -> Verdict:
        """Keep a copy in the queue of *verdict*, unless a copy of the same message is there already."""
        assert verdict.queue is not None
        if not self._memory.is_first(policy, message):
            return Verdict(None, f"{cause}; it is in {verdict.queue!r} already")
        self._keep(message, verdict.queue, cause)
        return verdict

    def _keep(self, message: Message, where: Destination, cause: str) -> None:
        added: dict[str, Value] = {CAUSE_PROPERTY: cause, ORIGINAL_EXPIRATION_PROPERTY: Long(message.expiration)}
        if not message.persistent:
            added[ORIGINAL_DELIVERY_MODE_PROPERTY] = "NON_PERSISTENT"
        copy = self._editor.readdressed(
            message,
            where,
            original_destination=message.destination,
            properties=added,
            expiration=0,
            persistent=True,  # who keeps non-persistent ones at all wants to find them again
        )
        target = self._registry.needed_queue(where)
        self._publisher.stamp(copy)
        self._publisher.enqueue(target, copy)
        self._advisories.dead_lettered(message.destination, message)

    def forget(self, message: Message) -> None:
        """*message* goes to its destination once more: if it cannot be consumed again, it is a dead letter again."""
        self._memory.forget(self._registry.policy_for(message.destination), message)
