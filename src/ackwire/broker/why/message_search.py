"""Finds a message, wherever it is, and says what it waits for there.

It may be pending, in flight, in a transaction, before a full broker, or scheduled; copies have a sentence each.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from ackwire.broker.fetching import Fetch
from ackwire.broker.queue import Queue
from ackwire.broker.queue_view import Batch
from ackwire.broker.subscription import TopicSubscription
from ackwire.broker.transactions import Transaction
from ackwire.broker.why.reasons import SEARCHED_PER_STEP, Steps, all_subscriptions
from ackwire.broker.why.sentences import (
    NAMED_MAX,
    and_more,
    blocked,
    dispatched_ms,
    kept_for,
    message_waits,
    no_room,
    open_transaction,
    redeliveries,
    scheduled,
    since,
)
from ackwire.broker.why_view import BrokerView
from ackwire.errors import NotHere
from ackwire.jms.message import Message

_SEARCHED_MAX: Final = 10_000
"""Messages of one queue that are searched for one if some must be read from disk for it."""
_ALL: Final = 1 << 62
"""More messages than there can be."""
_DIGITS_MAX: Final = 19
"""Digits of the largest number that a message can have."""

_Found: TypeAlias = Iterator[str | Fetch | None]
"""Sentences; None after each step of a long search, and a `Fetch` for messages that have yet to arrive."""


def why_message(broker: BrokerView, message_id: str) -> Steps[list[str]]:
    """Where a message is and what it waits for; *message_id* is its JMSMessageID or its number in the broker's order.

    Copies (several destinations, several durable subscriptions) have a sentence each.
    """
    lines: list[str] = []
    for line in _where(broker, _matcher(broker, message_id)):
        if isinstance(line, str):
            lines.append(line)
        else:
            yield line
    if lines:
        return lines
    deep = [
        queue
        for queue in broker.registry.queues()
        if queue.view.paged_count and queue.view.pending_count > _SEARCHED_MAX
    ]
    if deep:
        names = f"{', '.join(map(repr, deep[:NAMED_MAX]))}{and_more(deep)}"
        return [
            f"message {message_id} was not found in the first {_SEARCHED_MAX} messages of {names}; more are on disk"
        ]
    raise NotHere(f"message {message_id} is not here: it was consumed, moved, expired or discarded, or it never came")


def _where(broker: BrokerView, is_it: Callable[[Message], bool]) -> _Found:
    for queue in list(broker.registry.queues()):
        yield from _in_queue(broker, queue, is_it)
        yield None
    for subscription in list(all_subscriptions(broker)):
        if isinstance(subscription, TopicSubscription):
            for message in _searched(list(subscription.pending), is_it):
                yield message and (
                    f"message {message.sequence} of {message.destination!r} waits: "
                    f"{subscription!r} {no_room(broker, subscription) or 'takes its turn'}"
                )
            yield None
    for transaction in list(broker.transactions):
        yield from _in_transaction(broker, transaction, is_it)
    for connection, send in broker.flow.held():
        if is_it(send.message):
            yield f"a message to {send.message.destination!r} is not taken yet: {blocked(broker, connection, None)}"
    for job in broker.scheduler.jobs():
        if is_it(job.message):
            yield scheduled(broker, job.job_id, job.message.destination, job.due_ms)


def _searched(messages: Iterable[Message], is_it: Callable[[Message], bool]) -> Iterator[Message | None]:
    """Those of *messages* that are meant, and None after each step."""
    for number, message in enumerate(messages, 1):
        if is_it(message):
            yield message
        if not number % SEARCHED_PER_STEP:
            yield None


def _in_queue(broker: BrokerView, queue: Queue, is_it: Callable[[Message], bool]) -> _Found:
    count_max = _SEARCHED_MAX if queue.view.paged_count else _ALL
    for ahead, message in _in_batches(queue.view.pending(), count_max):
        if isinstance(message, Message) and is_it(message):
            yield message_waits(broker, queue, message, ahead=ahead)
        elif not isinstance(message, Message):
            yield message
    for consumer in list(queue.consumers):
        for _, kept in _in_batches(queue.view.waiting_for(consumer), _SEARCHED_MAX):
            if isinstance(kept, Message) and is_it(kept):
                yield f"message {kept.sequence} of {queue!r} waits: {kept_for(broker, kept, consumer)}"
            elif not isinstance(kept, Message):
                yield kept
        for sent in _searched(list(consumer.in_flight), is_it):
            if sent is None:
                yield None
            elif queue.owns(sent):
                message = sent
                yield (
                    f"message {message.sequence} of {queue!r} is in flight to consumer {consumer.consumer_id} of "
                    f"{consumer.connection!r} for {since(broker, dispatched_ms(broker, message))}"
                    f"{redeliveries(message)}"
                )


def _in_batches(batches: Iterator[Batch], count_max: int) -> Iterator[tuple[int, Message | Fetch | None]]:
    """The first *count_max* messages of *batches*, each with how many were ahead of it; None after each step, and a
    `Fetch` for messages that have yet to arrive."""
    ahead = 0
    for batch in batches:
        if isinstance(batch, Fetch):
            yield ahead, batch
            continue
        for message in batch:
            if ahead >= count_max:
                return
            yield ahead, message
            ahead += 1
            if not ahead % SEARCHED_PER_STEP:
                yield ahead, None


def _in_transaction(broker: BrokerView, transaction: Transaction, is_it: Callable[[Message], bool]) -> _Found:
    for message in _searched([message for _, message in transaction.sends], is_it):
        yield message and (
            f"a message to {message.destination!r} is invisible until its transaction commits: "
            + open_transaction(broker, transaction)
        )
    for acked in list(transaction.acks):
        for message in _searched(list(acked.messages), is_it):
            by = "before a restart" if acked.subscription is None else f"by consumer {acked.subscription.consumer_id}"
            yield message and (
                f"message {message.sequence} of {message.destination!r} was acknowledged {by} and goes when its "
                f"transaction commits: {open_transaction(broker, transaction)}"
            )


def _matcher(broker: BrokerView, message_id: str) -> Callable[[Message], bool]:
    """Whether a message has this id. Only those that may have it are decoded."""
    if message_id.isascii() and message_id.isdigit() and len(message_id) <= _DIGITS_MAX:
        number = int(message_id)
        return lambda message: message.sequence == number
    editor = broker.editor
    tail = message_id.rpartition(":")[2]
    if tail.isascii() and tail.isdigit() and len(tail) <= _DIGITS_MAX and int(tail) < 2**63:
        count = int(tail).to_bytes(8)
        return lambda message: message.key.endswith(count) and editor.message_id(message) == message_id
    foreign = message_id.removeprefix("ID:").encode("utf-8", "surrogatepass")
    return lambda message: foreign in message.frame and editor.message_id(message) == message_id
