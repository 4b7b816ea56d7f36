"""The sentences of an answer: why a message waits, a consumer gets nothing, a producer is blocked, and the like.

They are made from figures that the broker has at hand. `reasons.py` and `message_search.py` choose among them.
"""

from collections.abc import Iterable
from typing import Final

from ackwire.broker.queue import Queue
from ackwire.broker.session import Connection
from ackwire.broker.subscription import QueueSubscription, Subscription
from ackwire.broker.transactions import Transaction
from ackwire.broker.why_view import BrokerView
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.util.plurals import counted

NAMED_MAX: Final = 3
"""Consumers that one sentence names; of more it gives the number."""


# ---- why a message waits ---------------------------------------------------------------------------------------


def message_waits(broker: BrokerView, queue: Queue, message: Message, *, ahead: int) -> str:
    place = f", {ahead} in front of it" if ahead else ""
    return (
        f"message {message.sequence} of {queue!r} waits for {since(broker, _arrived_ms(broker, message))}"
        f"{place}{redeliveries(message)}: {_reason(broker, queue, message)}"
    )


def _reason(broker: BrokerView, queue: Queue, message: Message) -> str:
    consumers = list(queue.consumers)
    if queue.dispatcher.is_paused:
        return "the queue is paused"
    if 0 < message.expiration <= broker.clock.now_ms():
        return f"it expired {since(broker, message.expiration)} ago and goes when the queue is next looked through"
    if not consumers:
        return "no consumer is connected"
    exclusive = queue.consumers.exclusive
    if exclusive is not None:
        return f"the queue has an exclusive consumer {exclusive.consumer_id}, {_which(broker, exclusive, message)}"
    takers = [consumer for consumer in consumers if matches(broker, consumer.selector, message)]
    if not takers:
        return f"no consumer's selector matches ({counted(len(consumers), 'consumer')}: {_selectors(consumers)})"
    owner = None if message.group_id is None else queue.view.group_owner(message.group_id)
    if owner is not None:
        return (
            f"it belongs to group {message.group_id} owned by consumer {owner.consumer_id}, "
            f"{_which(broker, owner, message)}"
        )
    return _none_has_room(broker, takers, len(consumers))


def _which(broker: BrokerView, consumer: QueueSubscription, message: Message) -> str:
    """Why the only *consumer* that may have *message* has it not: `which is full (…)`."""
    if not matches(broker, consumer.selector, message):
        assert consumer.selector is not None
        return f"whose selector does not match: {consumer.selector.text}"
    return f"which {no_room(broker, consumer) or 'takes its turn'}"


def _none_has_room(broker: BrokerView, takers: list[QueueSubscription], total: int) -> str:
    of_all = "" if len(takers) == total else f" of {total} have a selector that matches"
    free = sum(1 for consumer in takers if consumer.has_room)
    if free:
        return f"{counted(len(takers), 'consumer')}{of_all}, {free} with room: its turn comes"
    everyone = {1: "", 2: "both "}.get(len(takers), "all ")
    figures = {(c.prefetch, c.extension, c.dispatched) for c in takers}
    if len(figures) == 1 and all(_is_full(consumer) for consumer in takers):
        prefetch, extension, dispatched = figures.pop()
        each = " each" if len(takers) > 1 else ""
        oldest = min(_oldest_ms(broker, consumer) for consumer in takers)
        return (
            f"{counted(len(takers), 'consumer')}{of_all}, {everyone}full (prefetch {prefetch} + extension {extension}, "
            f"{dispatched} in flight{each}; oldest for {since(broker, oldest)})"
        )
    named = "; ".join(f"{c.consumer_id} {no_room(broker, c)}" for c in takers[:NAMED_MAX])
    return f"{counted(len(takers), 'consumer')}{of_all}, none with room: {named}{and_more(takers)}"


def kept_for(broker: BrokerView, message: Message, consumer: QueueSubscription) -> str:
    if message.key in consumer.in_flight:
        return f"consumer {consumer.consumer_id} holds a copy of it from another queue, and gets this one afterwards"
    room = no_room(broker, consumer) or f"takes its turn: {consumer.waiting_count} wait for it alone"
    group = "" if message.group_id is None else f"it belongs to group {message.group_id}, "
    return f"{group}owned by consumer {consumer.consumer_id}, which {room}"


# ---- consumers, producers, transactions, schedules -------------------------------------------------------------


def no_room(broker: BrokerView, subscription: Subscription) -> str | None:
    """Why a consumer cannot be sent anything, or None if it can."""
    if subscription.has_room:
        return None
    if subscription.is_pull and subscription.pulls == 0:
        return "asks for nothing (prefetch 0, and no receive waits)"
    if not _is_full(subscription):
        return "is not sent to: its connection has too much output waiting (connection.write_pause_bytes)"
    oldest = ""
    if isinstance(subscription, QueueSubscription) and subscription.dispatched:
        oldest = f"; oldest for {since(broker, _oldest_ms(broker, subscription))}"
    return (
        f"is full (prefetch {subscription.prefetch} + extension {subscription.extension}, "
        f"{subscription.dispatched} in flight{oldest})"
    )


def _is_full(subscription: Subscription) -> bool:
    return not subscription.is_pull and subscription.dispatched >= subscription.prefetch + subscription.extension


def blocked(broker: BrokerView, connection: Connection, producer_id: str | None) -> str:
    who = f"{connection!r}" if producer_id is None else f"producer {producer_id} of {connection!r}"
    of_connection = [send for held_by, send in broker.flow.held() if held_by is connection]
    sends = [s for s in of_connection if producer_id is None or _producer_of(broker, s.message) == producer_id]
    if not sends:
        return f"{who} is not blocked: no send of it waits, {_space(broker)}"
    first = sends[0]
    size_bytes = sum(send.message.size_bytes for send in sends)
    reason = first.reason() or "earlier sends of the same connection wait"
    unread = "" if broker.flow.is_read(connection) else ", no more is read"
    return (
        f"{who} is blocked for {since(broker, first.since_ms)}: {reason}; {_largest_holder(broker)}; "
        f"{counted(len(sends), 'send')} waiting ({size_bytes} bytes){unread}"
    )


def _space(broker: BrokerView) -> str:
    flow = broker.flow
    used = f"{flow.used_bytes} of {flow.memory_bytes_max} bytes of memory are in use"
    if flow.temp is not None and flow.temp.used_bytes:
        used += f" and {flow.temp.used_bytes} of {flow.temp.bytes_max} bytes of the temp store"
    full = flow.store_is_full()
    return used if full is None else f"{used}; {full}"


def _producer_of(broker: BrokerView, message: Message) -> str:
    return broker.editor.message_id(message).rpartition(":")[0]


def _largest_holder(broker: BrokerView) -> str:
    largest = max(broker.registry.queues(), key=lambda queue: queue.size_bytes, default=None)
    if largest is None or not largest.size_bytes:
        return "no queue holds messages"
    return f"largest holder {largest!r} with {largest.size_bytes} bytes"


def open_transaction(broker: BrokerView, transaction: Transaction) -> str:
    size_bytes = sum(message.size_bytes for _, message in transaction.sends)
    acked: dict[Destination, int] = {}
    for acks in transaction.acks:
        for message in acks.messages:
            acked[message.destination] = acked.get(message.destination, 0) + 1
    holds = [f"{counted(len(transaction.sends), 'send')} ({size_bytes} bytes)"] if transaction.sends else []
    holds += [f"{counted(count, 'acknowledged message')} of {where!r}" for where, count in acked.items()]
    owner = repr(transaction.connection) if transaction.connection else "an earlier run of the broker"
    if transaction.user:
        owner += f", user {transaction.user},"
    failure = "" if transaction.failure is None else f"; it can only roll back: {transaction.failure}"
    return (
        f"transaction {transaction.transaction_id} of {owner} is {transaction.state.value} for "
        f"{since(broker, transaction.since_ms)} and holds {' and '.join(holds) or 'nothing'}{failure}"
    )


def scheduled(broker: BrokerView, job_id: str, where: Destination, due_ms: int) -> str:
    now_ms = broker.clock.now_ms()
    if due_ms > now_ms:
        return f"a message to {where!r} is scheduled: job {job_id} is due in {_duration(due_ms - now_ms)}"
    reason = broker.flow.memory_is_full() or "it is its turn"
    return f"a message to {where!r} is scheduled: job {job_id} was due {_duration(now_ms - due_ms)} ago: {reason}"


# ---- parts of sentences ----------------------------------------------------------------------------------------


def redeliveries(message: Message) -> str:
    return f", redelivered {counted(message.redelivery_counter, 'time')}" if message.redelivery_counter else ""


def matches(broker: BrokerView, selector: Selector | None, message: Message) -> bool:
    return selector is None or selector.matches(broker.editor.lookup(message))


def _selectors(consumers: list[QueueSubscription]) -> str:
    texts = dict.fromkeys(c.selector.text for c in consumers if c.selector is not None)
    return f"{', '.join(list(texts)[:NAMED_MAX])}{and_more(texts)}"


def and_more(items: "Iterable[object]") -> str:
    more = len(list(items)) - NAMED_MAX
    return f"; and {more} more" if more > 0 else ""


def _oldest_ms(broker: BrokerView, consumer: QueueSubscription) -> int:
    oldest = next(iter(consumer.in_flight), None)
    return broker.clock.now_ms() if oldest is None else dispatched_ms(broker, oldest)


def dispatched_ms(broker: BrokerView, message: Message) -> int:
    return message.dispatched_ms or _arrived_ms(broker, message)


def _arrived_ms(broker: BrokerView, message: Message) -> int:
    arrived = broker.editor.lookup(message)("JMSActiveMQBrokerInTime")
    return arrived if isinstance(arrived, int) else broker.clock.now_ms()


def since(broker: BrokerView, time_ms: int) -> str:
    """How long ago *time_ms* was."""
    return _duration(broker.clock.now_ms() - time_ms)


def _duration(time_ms: int) -> str:
    seconds = max(0, time_ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
