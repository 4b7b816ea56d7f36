"""`why store`: what keeps the store's content; for a database, which rows wait for whom.

The journal explains its files. A database has rows instead: each place has a sentence with its messages, its bytes, the
oldest, and what holds them. Nothing is read from the database for that, so the answer also comes while it is away.
"""

from collections.abc import Iterator
from typing import Final

from ackwire.broker.queue import Queue
from ackwire.broker.transactions import Transaction
from ackwire.broker.why.reasons import SEARCHED_PER_STEP, Steps, acked_in_transactions, why_file
from ackwire.broker.why.sentences import since
from ackwire.broker.why_view import BrokerView
from ackwire.errors import NotHere
from ackwire.jms.message import Message
from ackwire.store.contract import DatabaseState
from ackwire.util.plurals import agree, counted
from ackwire.why.protocol import QUESTIONS

_PLACES_MAX: Final = 200
"""Queues and subscriptions with a sentence of their own, those with the most bytes first."""

_Filled = tuple[Queue, list[tuple[Transaction, int]]]
"""A queue, and how many of its messages are acknowledged in which open transactions."""


def why_store(broker: BrokerView, name: str | None = None) -> Steps[list[str]]:
    """What keeps the store's files; for a database, who its rows wait for, by the *name* of one place or for all."""
    database = broker.store.database()
    if database is None:
        return why_file(broker, name)
    filled: list[_Filled] = []
    for number, queue in enumerate(list(broker.registry.queues()), 1):
        if queue.place != QUESTIONS and (name is None or name in (repr(queue), repr(queue).partition("://")[2])):
            acked = yield from acked_in_transactions(broker, queue)
            if queue.view.message_count or acked:
                filled.append((queue, acked))
        if not number % SEARCHED_PER_STEP:
            yield None
    if name is not None:
        if not filled:
            raise NotHere(f"{name} has no messages in {database.name}")
        return [_rows(broker, it) for it in filled]
    filled.sort(key=lambda it: (-it[0].size_bytes, repr(it[0])))
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


def _rows(broker: BrokerView, filled: _Filled) -> str:
    queue, acked = filled
    holders = "; ".join(_holders(broker, queue, acked))
    messages = f"{counted(queue.view.message_count, 'message')} ({queue.size_bytes} bytes)"
    return f"{queue!r}: {messages}{': ' if holders else ''}{holders}"


def _holders(broker: BrokerView, queue: Queue, acked: list[tuple[Transaction, int]]) -> Iterator[str]:
    pending, in_flight = queue.view.pending_count, queue.view.in_flight_count
    consumers = counted(queue.consumer_count, "consumer")
    if pending:
        whom = f"for {consumers}" if queue.consumer_count else "for a consumer, and none is there"
        yield f"{pending} {agree(pending, 'waits', 'wait')} {whom}{_oldest(broker, queue)}"
    if in_flight:
        yield f"{in_flight} in flight to {consumers}"
    for transaction, count in acked:
        yield f"{count} acknowledged in transaction {transaction.transaction_id}, which is {transaction.state.value}"
    for holder, reserved in queue.reservations.holders.items():
        yield f"{sum(1 for _ in reserved())} reserved for {holder!r}"


def _oldest(broker: BrokerView, queue: Queue) -> str:
    first = next((entry for entry, _ in queue.view.waiting_entries()), None)
    return f", the first sent {since(broker, first.timestamp)} ago" if isinstance(first, Message) else ""
