"""Gives messages their place in the broker's order, and puts them where they are addressed to (SEMANTICS A2, A8, B).

Whatever is published passes here: what clients send, what the scheduler delivers, dead letters, staged batches,
advisories. Whether a message may come in is decided before (`sending.py`).
"""

from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit
from ackwire.broker.placing import Placing
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.router import is_virtual_topic
from ackwire.broker.session import Connection
from ackwire.broker.topic import Topic
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import InvalidDestination
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock

_COMPOSITE_PARTS_MAX: Final = 256
"""Destinations in one composite name."""


@final
class Publisher:
    """Puts messages on queues and topics."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        placing: Placing,
        registry: Registry,
        advisories: Advisories,
        audit: Audit | None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._stamper = editor.stamper
        self._placing = placing
        self._registry = registry
        self._router = registry.router
        self._attaching = registry.attaching
        self._advisories = advisories
        self._audit = audit
        self._next_sequence = 1
        self._lasting: DestinationPolicy | None = None
        """The last policy that left a message its expiration: that of most messages."""

    def stamp(self, message: Message) -> None:
        """Give *message* the next place in the broker's order."""
        sequence = self._next_sequence
        self._next_sequence = sequence + 1
        self._stamper.stamp(message, sequence, self._clock.now_ms())

    def take_sequences(self, count: int) -> int:
        """The first of *count* places in the broker's order, which are taken from now on."""
        first = self._next_sequence
        self._next_sequence = first + count
        return first

    def restore(self) -> None:
        """The order goes on where an earlier run left it."""
        self._next_sequence = self._store.last_sequence() + 1

    def parts(self, where: Destination) -> tuple[Destination, ...]:
        """The destinations that *where* stands for, each once."""
        parts = tuple(dict.fromkeys(where.parts()))
        if len(parts) > _COMPOSITE_PARTS_MAX:
            raise InvalidDestination(f"a composite of {len(parts)} destinations: the limit is {_COMPOSITE_PARTS_MAX}")
        return parts

    def put(self, connection: Connection | None, message: Message) -> None:
        """Put *message* where it is addressed to: now, and visible to consumers."""
        where = message.destination
        if where.is_composite:
            parts = self.parts(where)
            for part in parts:
                self._registry.get_or_make(part, connection)  # all of them, or none
            self.tell_sent(message)
            with self._store.atomically():  # all of them after a crash too, or a repetition would not bring the rest
                for part in parts:
                    self._put(connection, self.copy_for(message, part, original=where), part)
        else:
            self._put(connection, message, where)

    def tell_sent(self, message: Message) -> None:
        """Have the audit record that *message* was sent, unless it has."""
        if message.is_send_unaudited and self._audit is not None:
            self._audit.sent(message)

    def copy_for(self, message: Message, where: Destination, *, original: Destination) -> Message:
        """A copy of *message*, sent to *original*, for one of the destinations that this stands for."""
        return self._editor.readdressed(message, where, original_destination=original)

    def _put(self, connection: Connection | None, message: Message, where: Destination) -> None:
        target = self._registry.get_or_make(where, connection)
        self.stamp(message)
        self.settle_expiration(message, target.policy)
        if isinstance(target, Queue):
            self.enqueue(target, message)
            return
        if self._attaching.is_busy:
            self._attaching.complete(target)
        self.tell_sent(message)
        self._publish_to_all(target, message, connection)

    def _publish_to_all(self, topic: Topic, message: Message, sender: Connection | None) -> None:
        """Publish *message* on *topic*, and on the queues behind it if it is a virtual topic (A8)."""
        where = topic.destination
        if not is_virtual_topic(where):
            self._publish(topic, message, sender)
            return
        with self._store.atomically():
            self._publish(topic, message, sender)
            for queue_name in self._router.virtual_queues(where):
                self._put(sender, self.copy_for(message, queue_name, original=where), queue_name)

    def publish_staged(self, message: Message) -> None:
        """Publish *message*, which has its expiration, on its topic; in the order of now, because others came since."""
        topic = self._registry.get_or_make(message.destination)
        assert isinstance(topic, Topic)
        if self._attaching.is_busy:
            self._attaching.complete(topic)
        self.stamp(message)
        if self._audit is not None:
            self._audit.sent(message)
        self._publish_to_all(topic, message, None)

    def publish_advisory(self, message: Message, topic: Destination, about: Destination | None) -> None:
        """Publish *message*, which the broker made, on *topic*, which goes with what it is *about*."""
        made = self._registry.advisory_topic(topic, about)
        self.stamp(message)
        self._publish(made, message, None)
        if about is not None:
            self._registry.forget_if_gone(made, about)

    def publish_copy(self, copy: Message, about: Destination) -> None:
        """Publish *copy* of a message that was sent to *about*, on the advisory topic that it is addressed to."""
        self._registry.advisory_topic(copy.destination, about)
        self.put(None, copy)

    def _publish(self, topic: Topic, message: Message, sender: Connection | None) -> None:
        """Put *message*, which has its sequence, into all places that listen to *topic*."""
        has_expired = 0 < message.expiration <= self._clock.now_ms()
        self._placing.begin()
        try:
            if has_expired:
                self._advisories.expired(topic.destination, message)
            if topic.policy.advise_no_consumers and not topic.has_subscribers:
                self._advisories.no_consumers(topic.destination, message)
            topic.accept(message, sender, has_expired=has_expired)
        finally:
            self._placing.end()

    def enqueue(self, queue: Queue, message: Message) -> None:
        """Record *message* and put it on *queue*."""
        if message.persistent and queue.is_stored:
            self._store.append(message, (queue.place,))
        if queue.advises_arrivals:
            self.enqueue_with_advisories(queue, message)
        else:
            queue.accept(message)

    def enqueue_with_advisories(self, queue: Queue, message: Message) -> None:
        """Put *message*, which is recorded, on *queue*, whose policy asks for advisories about arrivals."""
        self._placing.begin()
        try:
            self._advise_arrival(queue, message)
            queue.accept(message)
        finally:
            self._placing.end()

    def _advise_arrival(self, queue: Queue, message: Message) -> None:
        if queue.policy.advise_no_consumers and queue.consumer_count == 0:
            self._advisories.no_consumers(message.destination, message)
        if queue.policy.advise_delivered:
            self._advisories.delivered(message.destination, message)

    def settle_expiration(self, message: Message, policy: DestinationPolicy) -> None:
        """The policy's default for messages that would live for ever, and its ceiling for all."""
        if policy is self._lasting:
            return
        if policy.expiration_default_seconds == 0 and policy.expiration_ceiling_seconds == 0:
            self._lasting = policy
            return
        now_ms, expiration = self._clock.now_ms(), message.expiration
        if expiration <= 0 and policy.expiration_default_seconds > 0:
            expiration = now_ms + round(policy.expiration_default_seconds * 1000)
        if policy.expiration_ceiling_seconds > 0:
            latest = now_ms + round(policy.expiration_ceiling_seconds * 1000)
            expiration = min(expiration, latest) if expiration > 0 else latest
        if expiration != message.expiration:
            self._editor.with_expiration(message, expiration, now_ms)
