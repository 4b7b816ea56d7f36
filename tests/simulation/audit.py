"""One look at the whole broker: do its counters equal its contents, is every message in one place, does nobody starve?

`audit` reads the broker's inside after a verb has ended and raises `Violation` for the first thing that cannot be. The
simulation calls it at every step, the model tests and the unit tests where they like.
"""

from collections import Counter
from collections.abc import Set

from ackwire.broker.broker import Broker
from ackwire.broker.lanes import Lane
from ackwire.broker.pending import NO_LIMIT, PagedOut, PendingList
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription
from ackwire.jms.message import Message
from ackwire.store.contract import Store
from tests.helpers.waiting import pending_in, waiting_for


class Violation(Exception):
    """Something that must never happen has happened."""


def audit(broker: Broker, store: Store | None = None) -> None:
    """Raise `Violation` if the broker contradicts itself."""
    in_transactions = _acked_in_transactions(broker)
    total = 0  # what is paged out takes no memory
    for queue in broker.registry.queues():
        held = _audit_queue(queue, in_transactions.pop(id(queue), []), broker.pump.rounds.keys())
        total += queue.size_bytes - _paged_bytes(queue)
        if store is not None and queue.is_stored:
            _audit_store(queue, held, store)
    # Of queues that were deleted meanwhile, what transactions have acknowledged is held until they end.
    total += sum(message.size_bytes for messages in in_transactions.values() for message in messages)
    uncommitted = sum(m.size_bytes for t in broker.transaction_manager.transactions for _, m in t.sends)
    if uncommitted != broker.flow.uncommitted_bytes:
        raise Violation(f"{broker.flow.uncommitted_bytes} uncommitted bytes are counted, and there are {uncommitted}")
    total += uncommitted
    if total != broker.flow.used_bytes:
        raise Violation(f"flow control counts {broker.flow.used_bytes} bytes, queues and transactions hold {total}")
    _audit_flow(broker)


def _acked_in_transactions(broker: Broker) -> dict[int, list[Message]]:
    """What open transactions have acknowledged, by the queue it belongs to."""
    found: dict[int, list[Message]] = {}
    for transaction in broker.transaction_manager.transactions:
        for acked in transaction.acks:
            for queue, messages in acked.by_queue:
                found.setdefault(id(queue), []).extend(messages)
    return found


def _audit_queue(queue: Queue, in_transactions: list[Message], asking: Set[QueueSubscription]) -> list[Message]:
    pending = list(pending_in(queue))
    for level in queue.contents.levels:
        _audit_order(queue, level)
    waiting, in_flight = [], []
    for subscription in queue.consumers:
        waiting += list(waiting_for(queue, subscription))
        in_flight += [message for message in subscription.in_flight if queue.owns(message)]
    everything = pending + waiting + in_flight + in_transactions
    twice = [n for n, times in Counter(message.sequence for message in everything).items() if times > 1]
    if twice:
        raise Violation(f"{queue!r}: messages {twice} are in more than one place, or in flight to two consumers")
    size = sum(message.size_bytes for message in everything)
    if size != queue.size_bytes:
        raise Violation(f"{queue!r} counts {queue.size_bytes} bytes and holds {size} in {len(everything)} messages")
    if queue.view.in_flight_count != len(in_flight):
        raise Violation(f"{queue!r} counts {queue.view.in_flight_count} in flight, and there are {len(in_flight)}")
    if queue.view.pending_count != len(pending) + len(waiting):
        raise Violation(
            f"{queue!r} counts {queue.view.pending_count} pending, and there are {len(pending)}+{len(waiting)}"
        )
    for lane in queue.consumers.lanes.values():
        _audit_idle(queue, lane, pending, asking)
    return everything


def _paged_bytes(queue: Queue) -> int:
    waiting = [entry for s in queue.consumers for entry, _ in s.waiting_in.get(queue.place, ())]
    return sum(level.paged_bytes for level in queue.contents.levels) + sum(
        entry.size_bytes for entry in waiting if isinstance(entry, PagedOut)
    )


def _audit_order(queue: Queue, level: PendingList) -> None:
    listed = level.between(0, NO_LIMIT, NO_LIMIT, NO_LIMIT)
    sequences = [it.sequence for it in listed]
    paged = [it.size_bytes for it in listed if isinstance(it.entry, int)]
    if (len(paged), sum(paged)) != (level.paged_count, level.paged_bytes):
        raise Violation(f"{queue!r}: a list counts {level.paged_count} paged messages, and {len(paged)} are")
    if sequences != sorted(set(sequences)):
        raise Violation(f"{queue!r}: pending messages are out of order: {sequences}")
    if len(sequences) != len(level):
        raise Violation(f"{queue!r}: a list counts {len(level)} messages and has {len(sequences)}")


def _audit_idle(queue: Queue, lane: Lane, pending: list[Message], asking: Set[QueueSubscription]) -> None:
    """A consumer with room, and a message that it may have, must not stand beside each other.

    Unless a slice of work is due that brings them together: one of the queue's, or of a consumer that is *asking* the
    queues that had something for it while it was full; or a page-in that has yet to arrive.
    """
    if queue.dispatcher.is_continuing or queue.dispatcher.is_paused or queue.dispatcher.page_in is not None:
        return
    exclusive = queue.consumers.exclusive
    for subscription in lane.rotation.subscriptions:
        if subscription in asking and queue.place in subscription.passed_over:
            continue
        if subscription in queue.dispatcher.unshelving:
            continue
        if not subscription.has_room or (exclusive is not None and exclusive is not subscription):
            continue
        waiting = subscription.waiting_in.get(queue.place)
        if waiting is not None:
            first = next(waiting_for(queue, subscription), None)
            if first is None or first.key not in subscription.in_flight:
                raise Violation(f"{subscription!r} has room, and messages of {queue!r} wait for it alone: {waiting}")
            continue
        for message in pending:
            if _may_have(queue, lane, message):
                raise Violation(f"{subscription!r} is idle, and {message!r} waits for it in {queue!r}")


def _may_have(queue: Queue, lane: Lane, message: Message) -> bool:
    if 0 < message.expiration <= queue.dispatcher._clock.now_ms():
        return False
    if lane.selector is not None and not lane.selector.matches(queue.dispatcher._editor.lookup(message)):
        return False
    owner = None if message.group_id is None else queue.consumers.groups._owners.get(message.group_id)
    return owner is None or queue.consumers.lane_of(owner) is lane


def _audit_store(queue: Queue, held: list[Message], store: Store) -> None:
    expected = {message.sequence for message in held if message.persistent}
    stored = {waiting.sequence for waiting in store.waiting(queue.place)}
    if not stored <= expected:
        raise Violation(f"{queue!r}: the store has messages that are gone: {sorted(stored - expected)}")
    unwritten = sorted(expected - stored)  # a store may list only what it has written, but it can load all
    if None in store.load(queue.place, unwritten):
        raise Violation(f"{queue!r}: persistent messages are not in the store, of these: {unwritten}")


def _audit_flow(broker: Broker) -> None:
    for connection, held in broker.flow.blocked():
        if held.reason() is None:
            raise Violation(f"{connection!r} waits for space that is there")
        if not connection.is_open:
            raise Violation(f"{connection!r} is closed, and its sends still wait")
