"""`why store`: what keeps the store's content; for a database, which rows wait for whom.

The journal explains its files. A database has rows instead: each place has a sentence with its messages, its bytes, the
oldest, and what holds them. Nothing is read from the database for that, so the answer also comes while it is away.
"""

from collections.abc import Iterator
from typing import Final

from ackwire.broker.queue import Queue
from ackwire.broker.transactions import Transaction
from ackwire.broker.why.reasons import acked_from, since, why_file
from ackwire.broker.why_view import BrokerView
from ackwire.errors import NotHere
from ackwire.jms.message import Message
from ackwire.store.contract import DatabaseState
from ackwire.util.plurals import agree, counted
from ackwire.why.protocol import QUESTIONS

_PLACES_MAX: Final = 200
"""Queues and subscriptions with a sentence of their own, those with the most bytes first."""


def why_store(broker: BrokerView, name: str | None = None) -> list[str]:
    """What keeps the store's files; for a database, who its rows wait for, by the *name* of one place or for all."""
    database = broker.store.database()
    if database is None:
        return why_file(broker, name)
    queues = [it for it in broker.registry.queues() if it.place != QUESTIONS]  # that of this very question
    filled = [it for it in queues if it.view.message_count or _transactions(broker, it)]
    if name is not None:
        filled = [it for it in filled if name in (repr(it), repr(it).partition("://")[2])]
        if not filled:
            raise NotHere(f"{name} has no messages in {database.name}")
        return [_rows(broker, it) for it in filled]
    filled.sort(key=lambda it: (-it.size_bytes, repr(it)))
    lines = [database_line(database), *(_rows(broker, it) for it in filled[:_PLACES_MAX])]
    more = len(filled) - _PLACES_MAX
    return [*lines, f"and {counted(more, 'more place')}"] if more > 0 else lines


def database_line(state: DatabaseState) -> str:
    """How the database stands, in one sentence."""
    figures = (
        f"{counted(state.transactions, 'transaction')} committed, {counted(state.rows_written, 'row')} written, "
        f"{counted(state.reconnects, 'reconnect')}"
    )
    if state.is_reachable:
        return f"messages are in {state.name}, which can be used: {figures}"
    return f"messages are in {state.name}, which has been away for {state.away_seconds:.0f} s: {figures}"


def _rows(broker: BrokerView, queue: Queue) -> str:
    holders = "; ".join(_holders(broker, queue))
    messages = f"{counted(queue.view.message_count, 'message')} ({queue.size_bytes} bytes)"
    return f"{queue!r}: {messages}{': ' if holders else ''}{holders}"


def _holders(broker: BrokerView, queue: Queue) -> Iterator[str]:
    pending, in_flight = queue.view.pending_count, queue.view.in_flight_count
    consumers = counted(queue.consumer_count, "consumer")
    if pending:
        whom = f"for {consumers}" if queue.consumer_count else "for a consumer, and none is there"
        yield f"{pending} {agree(pending, 'waits', 'wait')} {whom}{_oldest(broker, queue)}"
    if in_flight:
        yield f"{in_flight} in flight to {consumers}"
    for transaction, acked in _transactions(broker, queue):
        yield f"{acked} acknowledged in transaction {transaction.transaction_id}, which is {transaction.state.value}"
    for holder, reserved in queue.reservations.holders.items():
        yield f"{sum(1 for _ in reserved())} reserved for {holder!r}"


def _oldest(broker: BrokerView, queue: Queue) -> str:
    first = next((entry for entry, _ in queue.view.waiting_entries()), None)
    return f", the first sent {since(broker, first.timestamp)} ago" if isinstance(first, Message) else ""


def _transactions(broker: BrokerView, queue: Queue) -> list[tuple[Transaction, int]]:
    found = ((transaction, len(acked_from(transaction, queue))) for transaction in broker.transactions)
    return [it for it in found if it[1]]
