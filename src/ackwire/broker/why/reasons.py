"""Why nothing moves: for a blocked producer, a message that waits, an idle consumer or an open transaction, the reason.

Pure queries on the broker: they change nothing and answer in plain sentences, with the figures: which limit, who holds
it, since when; `NotHere` says that what was asked about does not exist. They look at everything there is, so they are
for people and consoles, not for the message path.

A query that looks at messages is a generator (`Steps`), because these may be many, and on disk: its caller serves other
clients between two steps, and where it yields a `Fetch`, goes on when that has arrived.
"""

from collections.abc import Generator, Iterator
from typing import Final, TypeAlias, TypeVar

from ackwire.broker.cursors import Cursor
from ackwire.broker.fetching import Fetch
from ackwire.broker.queue import Queue
from ackwire.broker.queue_view import Batch
from ackwire.broker.staged_part import Part
from ackwire.broker.subscription import BrowserSubscription, QueueSubscription, Subscription, TopicSubscription
from ackwire.broker.topic import Topic
from ackwire.broker.transactions import Transaction
from ackwire.broker.why.limit_usage import connection_use
from ackwire.broker.why.sentences import (
    NAMED_MAX,
    and_more,
    blocked,
    kept_for,
    matches,
    message_waits,
    no_room,
    open_transaction,
    since,
)
from ackwire.broker.why_view import BrokerView
from ackwire.errors import NotHere
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.util.plurals import agree, counted

_LINES_MAX: Final = 20
"""Consumers, transactions and the like that get a sentence of their own in an answer about a queue."""
_FILES_MAX: Final = 200
"""Files that an answer explains."""
_EXAMINED_MAX: Final = 1000
"""Messages tested against a selector to tell whether it matches any."""
SEARCHED_PER_STEP: Final = 64
"""Messages that are looked at before others may have their turn."""
_DIGITS_MAX: Final = 19
"""Digits of the largest number that a message can have."""

_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[Fetch | None, None, _Result]
"""A query in steps, and its answer."""


# ---- queues ----------------------------------------------------------------------------------------------------


def why_queue(broker: BrokerView, where: Destination) -> Steps[list[str]]:
    """The state of a queue or topic: what is pending and why, and what blocks its consumers and producers."""
    made = broker.registry.router.get(where)
    if made is None:
        raise NotHere(f"{where!r} does not exist: it has had no message and no consumer")
    lines = yield from _about_queue(broker, made) if isinstance(made, Queue) else _about_topic(broker, made)
    held = [(connection, send) for connection, send in broker.flow.held() if where in send.message.destination.parts()]
    for connection in dict.fromkeys(connection for connection, _ in held):
        lines.append(blocked(broker, connection, None))
    return lines


def _about_queue(broker: BrokerView, queue: Queue) -> Steps[list[str]]:
    in_transactions = yield from acked_in_transactions(broker, queue)
    acked = sum(count for _, count in in_transactions)
    lines = [
        f"{queue!r}: {counted(queue.view.pending_count, 'message')} waiting{_on_disk(queue)}, "
        f"{queue.view.in_flight_count} in flight to "
        f"{counted(queue.consumer_count, 'consumer')}, {acked} acknowledged in open transactions; "
        f"{queue.size_bytes} bytes"
    ]
    consumers = list(queue.consumers)
    lines += yield from _first_of(broker, queue, consumers)
    for consumer in consumers[:_LINES_MAX]:
        lines.append((yield from _idle(broker, consumer, [queue])))
    if len(consumers) > _LINES_MAX:
        lines.append(f"{queue!r} has {len(consumers) - _LINES_MAX} more consumers")
    lines += [open_transaction(broker, transaction) for transaction, _ in in_transactions[:_LINES_MAX]]
    for holder in list(queue.reservations.holders)[:_LINES_MAX]:
        lines.append((yield from _held_by(broker, holder)))
    return lines


def acked_in_transactions(broker: BrokerView, queue: Queue) -> Steps[list[tuple[Transaction, int]]]:
    """The open transactions in which messages of *queue* are acknowledged, and how many."""
    found: list[tuple[Transaction, int]] = []
    for transaction in list(broker.transactions):
        count = 0
        for number, acked in enumerate(list(transaction.acks), 1):
            count += sum(len(messages) for acked_queue, messages in acked.by_queue if acked_queue is queue)
            if not number % SEARCHED_PER_STEP:
                yield None
        if count:
            found.append((transaction, count))
    return found


def _first_of(broker: BrokerView, queue: Queue, consumers: list[QueueSubscription]) -> Steps[list[str]]:
    """A sentence about the first message that waits in *queue* or for one of its *consumers*, if there is one."""
    for first in (yield from _first_messages(queue.view.pending(), 1)):
        return [message_waits(broker, queue, first, ahead=0)]
    for consumer in consumers:
        for kept in (yield from _first_messages(queue.view.waiting_for(consumer), 1)):
            return [f"message {kept.sequence} of {queue!r} waits: {kept_for(broker, kept, consumer)}"]
    return []


def _first_messages(batches: Iterator[Batch], count: int) -> Steps[list[Message]]:
    """The first *count* messages of *batches*."""
    found: list[Message] = []
    for batch in batches:
        if isinstance(batch, Fetch):
            yield batch
            continue
        found += batch
        if len(found) >= count:
            break
        yield None
    return found[:count]


def _about_topic(broker: BrokerView, topic: Topic) -> Steps[list[str]]:
    lines = [
        f"{topic!r}: {counted(len(topic.subscriptions), 'subscriber')}, "
        f"{counted(len(topic.durables), 'durable subscription')}"
    ]
    for subscription in topic.subscriptions[:_LINES_MAX]:
        lines.append((yield from _idle(broker, subscription, [])))
    for durable in topic.durables[:_LINES_MAX]:
        lines += yield from _about_queue(broker, durable.queue)
    return lines


def _held_by(broker: BrokerView, holder: object) -> Steps[str]:
    """A sentence about a holder of reserved messages: a cursor or a staged batch."""
    if isinstance(holder, Cursor):
        if holder.is_closed:
            return f"{holder!r} is being closed"
        info, oldest = broker.cursors.info(holder.name), broker.cursors.oldest(holder.name)
        yield oldest
        sent_ms = next((it.timestamp for it in oldest.messages if it is not None), None)
        oldest_sent = "" if sent_ms is None else f"; the oldest was sent {since(broker, sent_ms)} ago"
        return (
            f"{holder!r} has {counted(info.assigned - info.committed, 'message')} that it has not committed "
            f"(numbers {info.committed + 1} to {info.assigned}){oldest_sent}; {info.waiting} more wait in its queue"
        )
    assert isinstance(holder, Part)
    return f"{holder!r} has {counted(holder.count, 'message')} staged, not visible before the batch is committed"


# ---- consumers -------------------------------------------------------------------------------------------------


def why_consumer(broker: BrokerView, consumer_id: str) -> Steps[list[str]]:
    """What a consumer waits for."""
    found = [s for s in all_subscriptions(broker) if consumer_id in (s.consumer_id, s.connection.connection_id)]
    if not found:
        raise NotHere(f"consumer {consumer_id} is not here: it has left or was never announced")
    lines: list[str] = []
    for subscription in found:
        lines.append((yield from _idle(broker, subscription, _queues_of(broker, subscription))))
    return lines


def _idle(broker: BrokerView, subscription: Subscription, queues: list[Queue]) -> Steps[str]:
    who = f"{subscription!r} ({subscription.connection!r})"
    full = no_room(broker, subscription)
    if full is not None:
        return f"{who} {full}"
    if isinstance(subscription, QueueSubscription):
        nothing = yield from _nothing_for(broker, subscription, queues)
        return f"{who} gets nothing: {nothing}"
    if isinstance(subscription, TopicSubscription):
        dropped = f"; it missed {counted(subscription.dropped, 'message')}" if subscription.dropped else ""
        count = len(subscription.pending)
        waiting = f"{counted(count, 'message')} {agree(count, 'waits', 'wait')} for it"
        return f"{who} waits for what is published next: {waiting}{dropped}"
    assert isinstance(subscription, BrowserSubscription)
    return f"{who} has been shown everything"


def _nothing_for(broker: BrokerView, consumer: QueueSubscription, queues: list[Queue]) -> Steps[str]:
    reasons: list[str] = []
    for queue in queues[:NAMED_MAX]:
        reasons.append((yield from _nothing_in(broker, consumer, queue)))
    return f"{'; '.join(reasons)}{and_more(queues)}" if reasons else "no queue matches its pattern"


def _nothing_in(broker: BrokerView, consumer: QueueSubscription, queue: Queue) -> Steps[str]:
    examined = yield from _first_messages(queue.view.pending(), _EXAMINED_MAX)
    if not examined:
        return f"nothing waits in {queue!r}"
    if queue.dispatcher.is_paused:
        return f"{queue!r} is paused"
    exclusive = queue.consumers.exclusive
    if exclusive is not None and exclusive is not consumer:
        return f"{queue!r} has another consumer that is exclusive: {exclusive.consumer_id}"
    mine: list[Message] = []
    for start in range(0, len(examined), SEARCHED_PER_STEP):
        some = examined[start : start + SEARCHED_PER_STEP]
        mine += [message for message in some if matches(broker, consumer.selector, message)]
        yield None
    if not mine:
        assert consumer.selector is not None
        first = counted(len(examined), "message")
        return f"none of the first {first} of {queue!r} match its selector: {consumer.selector.text}"
    owners = [queue.view.group_owner(m.group_id) if m.group_id is not None else None for m in mine]
    if all(owner is not None and owner is not consumer for owner in owners):
        return f"the first {counted(len(mine), 'message')} for it in {queue!r} belong to groups of other consumers"
    return f"its turn in {queue!r} comes"


def _queues_of(broker: BrokerView, subscription: Subscription) -> list[Queue]:
    return [queue for queue in broker.registry.queues() if _reads(subscription, queue)]


def _reads(subscription: Subscription, queue: Queue) -> bool:
    return any(consumer is subscription for consumer in queue.consumers)


def all_subscriptions(broker: BrokerView) -> Iterator[Subscription]:
    for connection in broker.clients.all():
        yield from connection.subscriptions.values()


# ---- producers -------------------------------------------------------------------------------------------------


def why_producer(broker: BrokerView, producer_id: str) -> list[str]:
    """Whether a producer is blocked, and by what; the id of a connection asks for all its producers at once."""
    for connection in broker.clients.all():
        if producer_id == connection.connection_id:
            return [blocked(broker, connection, None), connection_use(broker, connection)]
        if producer_id in connection.producers:
            return [blocked(broker, connection, producer_id)]
    raise NotHere(f"producer {producer_id} is not here: it has left or was never announced")


# ---- transactions ----------------------------------------------------------------------------------------------


def why_transaction(broker: BrokerView, transaction_id: str | None = None) -> list[str]:
    """What an open transaction holds, and since when; without an id every open one, the oldest first."""
    found = sorted(broker.transactions, key=lambda transaction: transaction.since_ms)
    if transaction_id is None:
        return [open_transaction(broker, transaction) for transaction in found]
    lines = [open_transaction(broker, t) for t in found if str(t.transaction_id) == transaction_id]
    if not lines:
        raise NotHere(f"transaction {transaction_id} is not open: it has ended or never began")
    return lines


# ---- files -----------------------------------------------------------------------------------------------------


def why_file(broker: BrokerView, name: str | None = None) -> list[str]:
    """What keeps a file of the store, by its number or name; without one, every file, the oldest first."""
    files = broker.store.files()
    if not files:
        return ["this broker keeps messages in memory: it has no files"]
    if name is None:
        more = len(files) - _FILES_MAX
        lines = [file.why for file in files[:_FILES_MAX]]
        return [*lines, f"and {counted(more, 'more file')}"] if more > 0 else lines
    number = name.removesuffix(".log")
    found = [file.why for file in files if number.isdecimal() and file.number == int(number[:_DIGITS_MAX])]
    if not found:
        raise NotHere(f"the journal has no file {name}: its files are {files[0].number} to {files[-1].number}")
    return found


def _on_disk(queue: Queue) -> str:
    return f" ({queue.view.paged_count:,} of them on disk)" if queue.view.paged_count else ""
