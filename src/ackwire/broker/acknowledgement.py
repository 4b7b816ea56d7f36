"""Acks of every kind, redelivery, and messages that a consumer rejects (SEMANTICS D, E, F)."""

from collections.abc import Hashable
from typing import Final, final

from ackwire.broker.auditing import Event
from ackwire.broker.consumer_queues import ConsumerQueues, only
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.early_dispatch import EarlyDispatch
from ackwire.broker.in_flight import AckKind
from ackwire.broker.pumping import Pump
from ackwire.broker.queue import Queue
from ackwire.broker.redelivery import DELAY_PROPERTY, redelivery_delay_seconds
from ackwire.broker.subscription import QueueSubscription, Subscription
from ackwire.broker.transactions import AckedMessages, Transaction
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Long, Value
from ackwire.store.contract import Store
from ackwire.util.clock import Clock

_REJECTED: Final = "rejected by the consumer"


@final
class Acknowledgement:
    """Carries out acks."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        queues: ConsumerQueues,
        pump: Pump,
        dead_letters: DeadLetters,
        early_dispatch: EarlyDispatch,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._queues = queues
        self._pump = pump
        self._dead_letters = dead_letters
        self._early_dispatch = early_dispatch

    def acknowledge(
        self,
        subscription: Subscription,
        kind: AckKind,
        first: bytes | None,
        last: bytes,
        count: int,
        transaction: Transaction | None,
        cause: str | None,
    ) -> None:
        """Carry out an ack, or collect it in *transaction*."""
        if isinstance(subscription, QueueSubscription):
            if count == 1 and kind is AckKind.STANDARD and transaction is None and (first is None or first == last):
                self._finish_one(subscription, last)
                return
            self._acknowledge_queue(subscription, kind, first, last, count, transaction, cause)
            return
        # Topic consumers and browsers have copies: an ack only moves their window.
        if kind is AckKind.DELIVERED:
            subscription.extension += max(0, count)
        elif kind is not AckKind.REDELIVERED:
            subscription.finished(max(0, count))
        self._pump.pump(subscription)

    def _acknowledge_queue(
        self,
        subscription: QueueSubscription,
        kind: AckKind,
        first: bytes | None,
        last: bytes,
        count: int,
        transaction: Transaction | None,
        cause: str | None,
    ) -> None:
        in_flight = subscription.in_flight
        match kind:
            case AckKind.STANDARD | AckKind.UNMATCHED:
                messages = in_flight.take_range(first, last, count)
                self._finish_or_collect(subscription, messages, transaction, kind)
            case AckKind.INDIVIDUAL:
                self._finish_or_collect(subscription, [in_flight.take_one(last)], transaction, kind)
            case AckKind.DELIVERED:
                subscription.extend(last)
                self._pump.pump(subscription)
            case AckKind.REDELIVERED:
                in_flight.check_range(first, last)  # the client counts; what it leaves unfinished is counted then
            case AckKind.POISON:
                self._reject(subscription, in_flight.take_range(first, last, count), cause)
            case AckKind.EXPIRED:
                self._expire_at_client(subscription, in_flight.take_range(first, last, count))

    # ---- consumed ----------------------------------------------------------------------------------------------

    def _finish_one(self, subscription: QueueSubscription, key: bytes) -> None:
        """The usual ack on the shortest way: a consumer of one queue is done with one message."""
        message = subscription.in_flight.take_one(key)
        attached = self._queues.of[subscription]
        if len(attached) > 1:
            self._finish_or_collect(subscription, [message], None, AckKind.STANDARD)
            return
        queue = only(attached)
        audit = queue.contents.audit
        if audit is not None:
            audit.acked(queue, message, subscription)
        done = [message]
        queue.finish(done)
        self._early_dispatch.acked(done)
        subscription.finished(1)
        queue.dispatcher.resume(subscription)

    def _finish_or_collect(
        self,
        subscription: QueueSubscription,
        messages: list[Message],
        transaction: Transaction | None,
        kind: AckKind,
    ) -> None:
        if transaction is None:
            for queue, theirs in self._queues.by_queue(subscription, messages):
                if queue.audit is not None:
                    queue.audit.acked_all(queue, theirs, subscription, kind, None)
                queue.finish(theirs)
            self._early_dispatch.acked(messages)
        else:
            self._collect(subscription, messages, transaction, kind)
        subscription.finished(len(messages))
        self._pump.pump(subscription)

    def _collect(
        self, subscription: QueueSubscription, messages: list[Message], transaction: Transaction, kind: AckKind
    ) -> None:
        """Leave the end of *messages* to *transaction*; the queues are noted now: the consumer may be gone by then."""
        by_queue = self._queues.by_queue(subscription, messages)
        subscription.in_flight.expect_back(messages)
        as_acked = (kind, transaction.transaction_id)
        transaction.acks.append(
            AckedMessages(
                subscription,
                messages,
                by_queue,
                finish=lambda queue, theirs: self._finish(subscription, queue, theirs, as_acked),
                undo=lambda: self._undo(subscription, messages, by_queue),
            )
        )

    def _finish(
        self,
        subscription: QueueSubscription,
        queue: Queue,
        messages: list[Message],
        as_acked: tuple[AckKind, Hashable],
    ) -> None:
        """A committed ack, or a portion of it."""
        if queue.audit is not None:
            queue.audit.acked_all(queue, messages, subscription, *as_acked)
        queue.finish(messages)
        subscription.in_flight.decide(messages)
        if subscription in self._queues.of:
            self._pump.pump(subscription)

    def _undo(
        self, subscription: QueueSubscription, messages: list[Message], by_queue: list[tuple[Queue, list[Message]]]
    ) -> None:
        """A rolled back ack: the consumer has its messages again, or the queue if the consumer has gone."""
        subscription.in_flight.decide(messages)
        if subscription in self._queues.of:
            subscription.in_flight.put_back_first(messages)
            return
        for queue, theirs in by_queue:
            for message in theirs:
                message.redelivery_counter += 1
                if queue.audit is not None:
                    queue.audit.happened(Event.REDELIVERED, queue, message, subscription)
            queue.put_back(theirs)

    # ---- rejected ----------------------------------------------------------------------------------------------

    def _reject(self, subscription: QueueSubscription, messages: list[Message], cause: str | None) -> None:
        """POISON: the consumer gives these up."""
        for queue, theirs in self._queues.by_queue(subscription, messages):
            for message in theirs:
                delay = redelivery_delay_seconds(queue.policy, message.redelivery_counter)
                if delay is None:
                    with self._store.atomically():
                        verdict = self._dead_letters.keep(queue, message, cause or _REJECTED, expired=False)
                        if queue.audit is not None:
                            event = Event.DISCARDED if verdict.queue is None else Event.DEAD_LETTERED
                            queue.audit.happened(event, queue, message, subscription, verdict.reason)
                        queue.finish([message])
                else:
                    again = self._redeliver_later(queue, message, delay)
                    if queue.audit is not None:
                        queue.audit.happened(Event.REDELIVERED, queue, again, subscription, cause or _REJECTED)
        subscription.finished(len(messages))
        self._pump.pump(subscription)

    def _redeliver_later(self, queue: Queue, message: Message, delay_seconds: float) -> Message:
        """Offer *message* again after a while, marked: the Java client lets it pass though it gave it up once."""
        delay: dict[str, Value] = {DELAY_PROPERTY: Long(round(delay_seconds * 1000))}
        again = self._editor.readdressed(message, message.destination, properties=delay)
        self._editor.stamper.stamp(again, message.sequence, self._clock.now_ms())
        again.redelivery_counter = message.redelivery_counter + 1
        queue.contents.replace(message, again)
        self._clock.call_later(delay_seconds, lambda: queue.put_back([again]))
        return again

    def _expire_at_client(self, subscription: QueueSubscription, messages: list[Message]) -> None:
        """EXPIRED: the client found them too old. By our clock they may not be (N1): they are kept as dead letters."""
        for queue, theirs in self._queues.by_queue(subscription, messages):
            queue.expire(theirs)
        subscription.finished(len(messages))
        self._pump.pump(subscription)
