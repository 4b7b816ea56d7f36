"""Why nothing moves: for a blocked producer, a message that waits, an idle consumer or an open transaction, the reason.

Pure queries on the broker: they change nothing and answer in plain sentences, with the figures: which limit, who holds
it, since when; `NotHere` says that what was asked about does not exist. They look at everything there is, so they are
for people and consoles, not for the message path.

A query that looks at messages is a generator (`Steps`), because these may be many, and on disk: its caller serves other
clients between two steps, and where it yields a `Fetch`, goes on when that has arrived.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from ackwire.broker.cursors import Cursor
from ackwire.broker.fetching import Fetch
from ackwire.broker.queue import Queue
from ackwire.broker.queue_view import Batch
from ackwire.broker.session import Connection
from ackwire.broker.staged_part import Part
from ackwire.broker.subscription import BrowserSubscription, QueueSubscription, Subscription, TopicSubscription
from ackwire.broker.topic import Topic
from ackwire.broker.transactions import Transaction
from ackwire.broker.why.limit_usage import connection_use
from ackwire.broker.why_view import BrokerView
from ackwire.errors import NotHere
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.util.plurals import agree, counted

_NAMED_MAX: Final = 3
"""Consumers that one sentence names; of more it gives the number."""
_LINES_MAX: Final = 20
"""Consumers, transactions and the like that get a sentence of their own in an answer about a queue."""
_FILES_MAX: Final = 200
"""Files that an answer explains."""
_EXAMINED_MAX: Final = 1000
"""Messages tested against a selector to tell whether it matches any."""
_SEARCHED_MAX: Final = 10_000
"""Messages of one queue that are searched for one if some must be read from disk for it."""
_ALL: Final = 1 << 62
"""More messages than there can be."""
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
        lines.append(_blocked(broker, connection, None))
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
    lines += [_open(broker, transaction) for transaction, _ in in_transactions[:_LINES_MAX]]
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
        return [_waiting(broker, queue, first, ahead=0)]
    for consumer in consumers:
        for kept in (yield from _first_messages(queue.view.waiting_for(consumer), 1)):
            return [f"message {kept.sequence} of {queue!r} waits: {_kept_for(broker, kept, consumer)}"]
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


# ---- messages --------------------------------------------------------------------------------------------------


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
        names = f"{', '.join(map(repr, deep[:_NAMED_MAX]))}{_and_more(deep)}"
        return [
            f"message {message_id} was not found in the first {_SEARCHED_MAX} messages of {names}; more are on disk"
        ]
    raise NotHere(f"message {message_id} is not here: it was consumed, moved, expired or discarded, or it never came")


_Found: TypeAlias = Iterator[str | Fetch | None]
"""Sentences; None after each step of a long search, and a `Fetch` for messages that have yet to arrive."""


def _where(broker: BrokerView, is_it: Callable[[Message], bool]) -> _Found:
    for queue in list(broker.registry.queues()):
        yield from _in_queue(broker, queue, is_it)
        yield None
    for subscription in list(_subscriptions(broker)):
        if isinstance(subscription, TopicSubscription):
            for message in _searched(list(subscription.pending), is_it):
                yield message and (
                    f"message {message.sequence} of {message.destination!r} waits: "
                    f"{subscription!r} {_no_room(broker, subscription) or 'takes its turn'}"
                )
            yield None
    for transaction in list(broker.transactions):
        yield from _in_transaction(broker, transaction, is_it)
    for connection, send in broker.flow.held():
        if is_it(send.message):
            yield f"a message to {send.message.destination!r} is not taken yet: {_blocked(broker, connection, None)}"
    for job in broker.scheduler.jobs():
        if is_it(job.message):
            yield _scheduled(broker, job.job_id, job.message.destination, job.due_ms)


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
            yield _waiting(broker, queue, message, ahead=ahead)
        elif not isinstance(message, Message):
            yield message
    for consumer in list(queue.consumers):
        for _, kept in _in_batches(queue.view.waiting_for(consumer), _SEARCHED_MAX):
            if isinstance(kept, Message) and is_it(kept):
                yield f"message {kept.sequence} of {queue!r} waits: {_kept_for(broker, kept, consumer)}"
            elif not isinstance(kept, Message):
                yield kept
        for sent in _searched(list(consumer.in_flight), is_it):
            if sent is None:
                yield None
            elif queue.owns(sent):
                message = sent
                yield (
                    f"message {message.sequence} of {queue!r} is in flight to consumer {consumer.consumer_id} of "
                    f"{consumer.connection!r} for {since(broker, _dispatched_ms(broker, message))}"
                    f"{_redeliveries(message)}"
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
            + _open(broker, transaction)
        )
    for acked in list(transaction.acks):
        for message in _searched(list(acked.messages), is_it):
            by = "before a restart" if acked.subscription is None else f"by consumer {acked.subscription.consumer_id}"
            yield message and (
                f"message {message.sequence} of {message.destination!r} was acknowledged {by} and goes when its "
                f"transaction commits: {_open(broker, transaction)}"
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


# ---- why a message waits ---------------------------------------------------------------------------------------


def _waiting(broker: BrokerView, queue: Queue, message: Message, *, ahead: int) -> str:
    place = f", {ahead} in front of it" if ahead else ""
    return (
        f"message {message.sequence} of {queue!r} waits for {since(broker, _arrived_ms(broker, message))}"
        f"{place}{_redeliveries(message)}: {_reason(broker, queue, message)}"
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
    takers = [consumer for consumer in consumers if _matches(broker, consumer.selector, message)]
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
    if not _matches(broker, consumer.selector, message):
        assert consumer.selector is not None
        return f"whose selector does not match: {consumer.selector.text}"
    return f"which {_no_room(broker, consumer) or 'takes its turn'}"


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
    named = "; ".join(f"{c.consumer_id} {_no_room(broker, c)}" for c in takers[:_NAMED_MAX])
    return f"{counted(len(takers), 'consumer')}{of_all}, none with room: {named}{_and_more(takers)}"


def _kept_for(broker: BrokerView, message: Message, consumer: QueueSubscription) -> str:
    if message.key in consumer.in_flight:
        return f"consumer {consumer.consumer_id} holds a copy of it from another queue, and gets this one afterwards"
    room = _no_room(broker, consumer) or f"takes its turn: {consumer.waiting_count} wait for it alone"
    group = "" if message.group_id is None else f"it belongs to group {message.group_id}, "
    return f"{group}owned by consumer {consumer.consumer_id}, which {room}"


# ---- consumers -------------------------------------------------------------------------------------------------


def why_consumer(broker: BrokerView, consumer_id: str) -> Steps[list[str]]:
    """What a consumer waits for."""
    found = [s for s in _subscriptions(broker) if consumer_id in (s.consumer_id, s.connection.connection_id)]
    if not found:
        raise NotHere(f"consumer {consumer_id} is not here: it has left or was never announced")
    lines: list[str] = []
    for subscription in found:
        lines.append((yield from _idle(broker, subscription, _queues_of(broker, subscription))))
    return lines


def _idle(broker: BrokerView, subscription: Subscription, queues: list[Queue]) -> Steps[str]:
    who = f"{subscription!r} ({subscription.connection!r})"
    full = _no_room(broker, subscription)
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
    for queue in queues[:_NAMED_MAX]:
        reasons.append((yield from _nothing_in(broker, consumer, queue)))
    return f"{'; '.join(reasons)}{_and_more(queues)}" if reasons else "no queue matches its pattern"


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
        mine += [message for message in some if _matches(broker, consumer.selector, message)]
        yield None
    if not mine:
        assert consumer.selector is not None
        first = counted(len(examined), "message")
        return f"none of the first {first} of {queue!r} match its selector: {consumer.selector.text}"
    owners = [queue.view.group_owner(m.group_id) if m.group_id is not None else None for m in mine]
    if all(owner is not None and owner is not consumer for owner in owners):
        return f"the first {counted(len(mine), 'message')} for it in {queue!r} belong to groups of other consumers"
    return f"its turn in {queue!r} comes"


def _no_room(broker: BrokerView, subscription: Subscription) -> str | None:
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


def _queues_of(broker: BrokerView, subscription: Subscription) -> list[Queue]:
    return [queue for queue in broker.registry.queues() if _reads(subscription, queue)]


def _reads(subscription: Subscription, queue: Queue) -> bool:
    return any(consumer is subscription for consumer in queue.consumers)


def _subscriptions(broker: BrokerView) -> Iterator[Subscription]:
    for connection in broker.clients.all():
        yield from connection.subscriptions.values()


# ---- producers -------------------------------------------------------------------------------------------------


def why_producer(broker: BrokerView, producer_id: str) -> list[str]:
    """Whether a producer is blocked, and by what; the id of a connection asks for all its producers at once."""
    for connection in broker.clients.all():
        if producer_id == connection.connection_id:
            return [_blocked(broker, connection, None), connection_use(broker, connection)]
        if producer_id in connection.producers:
            return [_blocked(broker, connection, producer_id)]
    raise NotHere(f"producer {producer_id} is not here: it has left or was never announced")


def _blocked(broker: BrokerView, connection: Connection, producer_id: str | None) -> str:
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


# ---- transactions ----------------------------------------------------------------------------------------------


def why_transaction(broker: BrokerView, transaction_id: str | None = None) -> list[str]:
    """What an open transaction holds, and since when; without an id every open one, the oldest first."""
    found = sorted(broker.transactions, key=lambda transaction: transaction.since_ms)
    if transaction_id is None:
        return [_open(broker, transaction) for transaction in found]
    lines = [_open(broker, t) for t in found if str(t.transaction_id) == transaction_id]
    if not lines:
        raise NotHere(f"transaction {transaction_id} is not open: it has ended or never began")
    return lines


def _open(broker: BrokerView, transaction: Transaction) -> str:
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


# ---- the parts of sentences ------------------------------------------------------------------------------------


def _scheduled(broker: BrokerView, job_id: str, where: Destination, due_ms: int) -> str:
    now_ms = broker.clock.now_ms()
    if due_ms > now_ms:
        return f"a message to {where!r} is scheduled: job {job_id} is due in {_duration(due_ms - now_ms)}"
    reason = broker.flow.memory_is_full() or "it is its turn"
    return f"a message to {where!r} is scheduled: job {job_id} was due {_duration(now_ms - due_ms)} ago: {reason}"


def _on_disk(queue: Queue) -> str:
    return f" ({queue.view.paged_count:,} of them on disk)" if queue.view.paged_count else ""


def _redeliveries(message: Message) -> str:
    return f", redelivered {counted(message.redelivery_counter, 'time')}" if message.redelivery_counter else ""


def _matches(broker: BrokerView, selector: Selector | None, message: Message) -> bool:
    return selector is None or selector.matches(broker.editor.lookup(message))


def _selectors(consumers: list[QueueSubscription]) -> str:
    texts = dict.fromkeys(c.selector.text for c in consumers if c.selector is not None)
    return f"{', '.join(list(texts)[:_NAMED_MAX])}{_and_more(texts)}"


def _and_more(items: "Iterable[object]") -> str:
    more = len(list(items)) - _NAMED_MAX
    return f"; and {more} more" if more > 0 else ""


def _oldest_ms(broker: BrokerView, consumer: QueueSubscription) -> int:
    oldest = next(iter(consumer.in_flight), None)
    return broker.clock.now_ms() if oldest is None else _dispatched_ms(broker, oldest)


def _dispatched_ms(broker: BrokerView, message: Message) -> int:
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
