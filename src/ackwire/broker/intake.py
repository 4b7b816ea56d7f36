"""How a message comes in: space, duplicates, order, where it goes (SEMANTICS B, G1)."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.limits import HeldSend
from ackwire.broker.queue import Queue
from ackwire.broker.repetitions import Repetitions
from ackwire.broker.router import is_virtual_topic
from ackwire.broker.scheduler import LATEST_MS, SCHEDULER_MARK, mentions_scheduler
from ackwire.broker.session import Connection
from ackwire.broker.topic import Topic
from ackwire.destinations import Destination, Kind
from ackwire.errors import BrokerError, InvalidDestination, NotAuthorised
from ackwire.message import Message
from ackwire.policy import DestinationPolicy
from ackwire.store.contract import Store

if TYPE_CHECKING:
    from ackwire.broker.broker import Broker

_COMPOSITE_PARTS_MAX: Final = 256
"""Destinations in one composite name."""

_TIME_TO_LIVE_SHARE_TOLERATED: Final = 0.1
"""What a message may lose of its time to live to a clock that is behind."""


@final
class Intake:
    """Takes messages from clients and puts them where they belong."""

    def __init__(self, broker: "Broker", store: Store) -> None:
        self._broker = broker
        self._store = store
        self._audit = broker.audit
        self._stores_first = broker.settings.store.store_first
        self._next_sequence = 1
        self._clock = broker.clock
        self._placing = broker.placing
        self._stamper = broker.editor.stamper
        self._lasting: DestinationPolicy | None = None
        """The last policy that left a message its expiration: that of most messages."""
        self.repetitions = Repetitions(store)
        self._attaching = broker.registry.attaching

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
        """The order goes on where an earlier run left it, and what it had stored is recognised (J4)."""
        self._next_sequence = self._store.last_sequence() + 1
        self.repetitions.restore()

    def send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        """Take *message*, or hold it until there is space."""
        if message.expiration:
            self._settle_clock_difference(message)
        if (
            connection.is_reconnect
            and message.origin.transaction is None
            and self.repetitions.includes(connection, message)
        ):
            self._answer(message, on_stored, on_refused)  # it has its space already
            return
        try:
            self._send(connection, message, on_stored, on_refused)
        except BrokerError:
            self.repetitions.refused(message)
            raise

    def _send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        if self._broker.flow.has_space(message) and not self._broker.registry.has_memory_limits:
            self._take(connection, message, on_stored, on_refused)
            return
        waits = self._broker.flow.must_wait(connection, message) or self._no_space(message)
        if waits and not self._continues_transaction(message):
            self._hold(connection, message, on_stored, on_refused)
        else:
            self._take(connection, message, on_stored, on_refused)

    def _no_space(self, message: Message) -> str | None:
        """Why *message* has to wait: the broker's limit, or that of the queue it is for; None if it need not."""
        reason = self._broker.flow.no_space(message)
        registry = self._broker.registry
        if reason is not None or not registry.has_memory_limits:
            return reason
        return next(filter(None, map(self._is_full, message.destination.parts())), None)

    def _is_full(self, where: Destination) -> str | None:
        target = self._broker.registry.router.get(where)
        limit = target.policy.memory_bytes_max if isinstance(target, Queue) else None
        if limit is None or not isinstance(target, Queue) or target.size_bytes < limit:
            return None
        return f"{where!r} is full: {target.size_bytes} of {limit} bytes (its policy's memory_bytes_max)"

    def _excess_bytes(self, message: Message) -> int:
        """How far the queue that *message* is for is above its own limit; the most of them for a composite."""
        queues = map(self._broker.registry.router.get, message.destination.parts())
        limited = [it for it in queues if isinstance(it, Queue) and it.policy.memory_bytes_max is not None]
        return max((it.size_bytes - (it.policy.memory_bytes_max or 0) for it in limited), default=0)

    def _continues_transaction(self, message: Message) -> bool:
        """A transaction waits for space before its first work, and not half way: its end is what makes space."""
        transaction_id = message.origin.transaction
        if transaction_id is None or not self._broker.transactor.has_begun_work(transaction_id):
            return False
        self._broker.flow.admit(transaction_id)  # an earlier send may still wait, from before it began with an ack
        return True

    def _hold(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        flow = self._broker.flow

        def proceed() -> None:
            try:
                self._take(connection, message, on_stored, on_refused)
            except BrokerError as error:
                self.repetitions.refused(message)
                if on_refused is None:
                    raise
                on_refused(message, error)

        def refuse(error: BrokerError) -> None:
            self.repetitions.refused(message)
            if message.origin.transaction is not None:
                self._broker.transactor.fail(connection, message.origin.transaction, str(error))
            if on_refused is not None:
                on_refused(message, error)

        policy = self._broker.registry.policy_for(message.destination)
        reason = partial(self._no_space, message)
        if policy.advise_full and not flow.must_wait(connection, message):
            self._broker.advisories.full(message.destination, reason() or "")
        excess = partial(self._excess_bytes, message)
        flow.hold(connection, HeldSend(message, self._clock.now_ms(), reason, proceed, refuse, policy, excess))

    def _take(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        message.redelivery_counter = 0  # new here, whatever its sender counted
        transaction_id = message.origin.transaction
        if transaction_id is not None:
            self._broker.transactor.add_send(transaction_id, connection, message)
        elif on_stored is not None and message.persistent:
            if connection.awaited_sequence > max(self._store.durable_sequence, connection.forgone_sequence):
                connection.has_loose_ends = True
            # What was answered for must be in the audit after a crash, and what came before it in the store.
            acks_answer = self._audit is None and not connection.has_loose_ends
            has_left = self._take_awaited(connection, message, acks_answer=acks_answer)
            connection.awaited_sequence = message.sequence
            if has_left and acks_answer:
                on_failed = None if on_refused is None else partial(on_refused, message)
                self._broker.desk.answer_when_done(connection, message, on_stored, on_failed)
                return
        else:
            if message.persistent:
                connection.has_loose_ends = True
            self._route_new(connection, message)
        self._answer(message, on_stored, on_refused)

    def _take_awaited(self, connection: Connection, message: Message, *, acks_answer: bool) -> bool:
        """The sender waits until *message* is on disk; a consumer need not always, except for copies of it. Whether
        one has it already."""
        may_have_left = (
            connection.is_reconnect
            and _is_for_one_queue(message)
            and self.repetitions.may_have_left(connection, message)
        )
        if may_have_left:
            message.redelivery_counter = 1
        desk = self._broker.desk
        after_pause = self._broker.turns.after_pause
        if not self._stores_first and desk.may_go_ahead(connection, after_pause=after_pause, acks_answer=acks_answer):
            desk.ahead = message
        desk.has_left = False
        self._store.expect()
        try:
            self._route_new(connection, message)
        finally:
            desk.ahead = None
        if may_have_left:
            self.repetitions.settled(connection, message)
        return desk.has_left

    def _route_new(self, connection: Connection, message: Message) -> None:
        if self.repetitions.is_wanted_again(connection, message):
            with self._store.atomically():  # stored, and no longer refused
                self.repetitions.no_longer_wanted(message)
                self.route(connection, message)
        else:
            self.route(connection, message)
        self.repetitions.taken(message)

    def _answer(
        self,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        if on_stored is None:
            return
        if message.persistent and message.origin.transaction is None:
            self._store.when_durable(on_stored, None if on_refused is None else partial(on_refused, message))
        else:
            on_stored()

    def check(self, message: Message, sender: Connection | None) -> None:
        """Raise what `route` would raise for *sender*, before anything has happened."""
        self._refuse_advisories(message.destination)
        if message.properties_offset and mentions_scheduler(message):
            self._broker.scheduler.check(message, sender)
        for part in self.parts(message.destination):
            self._broker.registry.get_or_make(part, sender)

    def parts(self, where: Destination) -> tuple[Destination, ...]:
        """The destinations that *where* stands for, each once."""
        parts = tuple(dict.fromkeys(where.parts()))
        if len(parts) > _COMPOSITE_PARTS_MAX:
            raise InvalidDestination(f"a composite of {len(parts)} destinations: the limit is {_COMPOSITE_PARTS_MAX}")
        return parts

    def route(self, connection: Connection | None, message: Message) -> None:
        """Put *message* where it is addressed to, or leave it to the scheduler if it is meant for later (I)."""
        if connection is not None:
            self._refuse_advisories(message.destination)
        offset = message.properties_offset
        # `mentions_scheduler`, written out: every message with properties passes here.
        if (
            offset
            and message.frame.find(SCHEDULER_MARK, offset) >= 0
            and self._broker.scheduler.take(message, connection)
        ):
            return
        if self._audit is not None:
            self._audit.coming = message
        self.put(connection, message)

    def _refuse_advisories(self, where: Destination) -> None:
        """What the broker tells about itself, it tells alone: clients act on it."""
        if where.kind is Kind.QUEUE and not where.is_composite:
            return
        parts = where.parts()
        if is_advisory(parts[0]) if len(parts) == 1 else any(map(is_advisory, parts)):
            raise NotAuthorised(f"{where!r} is a topic of the broker's own: clients read it and do not write to it")

    def put(self, connection: Connection | None, message: Message) -> None:
        """Put *message* where it is addressed to: now, and visible to consumers."""
        where = message.destination
        if where.is_composite:
            parts = self.parts(where)
            for part in parts:
                self._broker.registry.get_or_make(part, connection)  # all of them, or none
            self.tell_sent(message)
            with self._store.atomically():  # all of them after a crash too, or a repetition would not bring the rest
                for part in parts:
                    self._put(connection, self.copy_for(message, part, original=where), part)
        else:
            self._put(connection, message, where)

    def tell_sent(self, message: Message) -> None:
        """Let the audit know that *message* was taken, if it was and that was not told yet."""
        if self._audit is not None and self._audit.coming is message:
            self._audit.sent(message)

    def copy_for(self, message: Message, where: Destination, *, original: Destination) -> Message:
        """A copy of *message*, sent to *original*, for one of the destinations that this stands for."""
        return self._broker.editor.readdressed(message, where, original_destination=original)

    def _put(self, connection: Connection | None, message: Message, where: Destination) -> None:
        target = self._broker.registry.get_or_make(where, connection)
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
            for queue_name in self._broker.registry.router.virtual_queues(where):
                self._put(sender, self.copy_for(message, queue_name, original=where), queue_name)

    def publish_staged(self, message: Message) -> None:
        """Publish *message*, which has its expiration, on its topic; in the order of now, because others came since."""
        topic = self._broker.registry.get_or_make(message.destination)
        assert isinstance(topic, Topic)
        if self._attaching.is_busy:
            self._attaching.complete(topic)
        self.stamp(message)
        if self._audit is not None:
            self._audit.sent(message)
        self._publish_to_all(topic, message, None)

    def publish(self, topic: Topic, message: Message) -> None:
        """Publish *message*, which the broker made."""
        self.stamp(message)
        self._publish(topic, message, None)

    def _publish(self, topic: Topic, message: Message, sender: Connection | None) -> None:
        """Put *message*, which has its sequence, into all places that listen to *topic*."""
        has_expired = 0 < message.expiration <= self._clock.now_ms()
        self._placing.begin()
        try:
            if has_expired:
                self._broker.advisories.expired(topic.destination, message)
            if topic.policy.advise_no_consumers and not topic.has_subscribers:
                self._broker.advisories.no_consumers(topic.destination, message)
            topic.accept(message, sender, has_expired=has_expired)
        finally:
            self._placing.end()

    def enqueue(self, queue: Queue, message: Message) -> None:
        """Record *message* and put it on *queue*."""
        if message.persistent and queue.is_stored:
            self._store.append(message, (queue.place,))
        if not queue.advises_arrivals:
            queue.accept(message)
            return
        self._placing.begin()
        try:
            self._advise_arrival(queue, message)
            queue.accept(message)
        finally:
            self._placing.end()

    def _advise_arrival(self, queue: Queue, message: Message) -> None:
        if queue.policy.advise_no_consumers and queue.consumer_count == 0:
            self._broker.advisories.no_consumers(message.destination, message)
        if queue.policy.advise_delivered:
            self._broker.advisories.delivered(message.destination, message)

    def _settle_clock_difference(self, message: Message) -> None:
        """Count the time to live from now where the producer's clock is not ours: good messages must not expire (N1).

        On arrival and not in `settle_expiration`, because a transaction or a full memory may hold the message up, and
        that time is its own.
        """
        clocks = self._broker.settings.clocks
        time_to_live_ms = message.expiration - message.timestamp
        if clocks.correction == "off" or message.timestamp <= 0 or time_to_live_ms <= 0:
            return
        now_ms = self._clock.now_ms()
        behind_ms = now_ms - message.timestamp
        tolerated_ms = min(clocks.tolerance_seconds * 1000, time_to_live_ms * _TIME_TO_LIVE_SHARE_TOLERATED)
        if behind_ms > tolerated_ms or (clocks.correction == "both" and -behind_ms > tolerated_ms):
            self._broker.editor.with_expiration(message, min(now_ms + time_to_live_ms, LATEST_MS), now_ms)

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
            self._broker.editor.with_expiration(message, expiration, now_ms)


def _is_for_one_queue(message: Message) -> bool:
    where = message.destination
    return where.kind is Kind.QUEUE and not where.is_composite
