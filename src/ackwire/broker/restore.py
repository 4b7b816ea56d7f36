"""Begin where the last run of the broker ended: what the store has kept comes back (SEMANTICS K1, G3, I2).

Messages return to their queues in their order, but their bytes stay in the store until their turn comes, so that a
start takes no longer for their number. Durable subscriptions return to their topics with what waits for them, prepared
transactions to the list that `recover` shows. What a prepared transaction had acknowledged stays out of everybody's
reach until it is decided.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ackwire.broker.acks import AckKind
from ackwire.broker.auditing import Event
from ackwire.broker.queue import Queue
from ackwire.broker.transactions import AckedMessages, Transaction, TransactionState
from ackwire.destinations import Destination
from ackwire.message import Message
from ackwire.runs import sequences_of
from ackwire.store.contract import (
    BatchNote,
    CursorNote,
    DurableKey,
    Note,
    Place,
    PreparedTransaction,
    StagedNote,
    Store,
    WaitingMessage,
    WaitingMessages,
)

if TYPE_CHECKING:
    from ackwire.broker.broker import Broker


def restore(broker: "Broker", store: Store, untold: str | None = None) -> None:
    """Bring back everything that *store* has kept. Called once, before any client connects.

    *untold* is why the audit has to hear of each message, if it has.
    """
    for record in store.durables():
        broker.registry.durable(record)
    prepared = list(store.prepared())
    undecided: dict[Place, set[int]] = {}
    for place, message in (ack for transaction in prepared for ack in transaction.acks):
        undecided.setdefault(place, set()).add(message.sequence)
    notes = list(store.notes())
    reserved = _reserved(notes)
    kept: dict[Place, dict[int, WaitingMessage]] = {}
    for place in list(store.places()):
        portions: Iterable[WaitingMessages] = store.waiting_portions(place)
        if mine := reserved.get(place):
            portions = map(partial(_without_kept, mine, kept.setdefault(place, {})), portions)
        if isinstance(place, Destination) and not place.kind.is_queue:
            deque(portions, maxlen=0)  # staged for a topic: nobody else waits there
            continue
        queue = _queue_at(broker, place)
        queue.restore_handed_out(store.handed_out(place))
        for portion in portions:
            queue.restore(_without(portion, undecided.get(place)))
            if untold is not None:
                queue.tell_restored(portion.sequences, untold)
    broker.intake.restore()
    broker.transactor.transactions.restore_commits(store.commits())
    for transaction in prepared:
        broker.transactor.restore(_transaction(broker, transaction))
    broker.scheduler.restore()
    _restore_notes(broker, notes, kept, untold)


def _reserved(notes: list[Note]) -> dict[Place, set[int]]:
    """What is in a place and out of everybody's reach: cursors have it, or it is staged."""
    reserved: dict[Place, set[int]] = {}
    for note in notes:
        match note:
            case CursorNote():
                reserved.setdefault(note.place, set()).update(sequences_of(note.held))
            case StagedNote():
                for place, runs in note.held:
                    reserved.setdefault(place, set()).update(sequences_of(runs))
    return reserved


def _without_kept(reserved: set[int], kept: dict[int, WaitingMessage], waiting: WaitingMessages) -> WaitingMessages:
    kept.update((it.sequence, it) for it in waiting if it.sequence in reserved)
    return _without(waiting, reserved)


def _restore_notes(
    broker: "Broker", notes: list[Note], kept: dict[Place, dict[int, WaitingMessage]], untold: str | None
) -> None:
    for note in notes:
        match note:
            case CursorNote():
                broker.cursors.restore(note, kept.get(note.place, {}), untold)
            case StagedNote():
                broker.staging.restore_part(note, kept, untold)
            case BatchNote():
                broker.staging.restore_batch(note)
    broker.staging.restored()


def _without(waiting: WaitingMessages, others: set[int] | None) -> WaitingMessages:
    if not others or others.isdisjoint(waiting.sequences):
        return waiting
    return WaitingMessages(it for it in waiting if it.sequence not in others)


def _queue_at(broker: "Broker", place: Place) -> Queue:
    if isinstance(place, DurableKey):
        return broker.registry.durables[place].queue
    return broker.registry.needed_queue(place)


def _transaction(broker: "Broker", kept: PreparedTransaction) -> Transaction:
    transaction = Transaction(
        kept.transaction_id,
        is_xa=True,
        connection=None,
        since_ms=broker.clock.now_ms(),
        state=TransactionState.PREPARED,
        sends=[(None, message) for message in kept.sends],
    )
    for place, message in kept.acks:
        queue = _queue_at(broker, place)
        queue.count_restored(message)
        transaction.acks.append(_acked(queue, message, kept.transaction_id))
    return transaction


def _acked(queue: Queue, message: Message, transaction_id: Hashable) -> AckedMessages:
    undo: Callable[[], None] = partial(_give_back, queue, message)
    finish = partial(_finish, queue, message, transaction_id)
    return AckedMessages(None, [message], [(queue, [message])], finish=finish, undo=undo)


def _finish(queue: Queue, message: Message, transaction_id: Hashable) -> None:
    if queue.audit is not None:
        queue.audit.acked_all(queue, [message], None, AckKind.STANDARD, transaction_id)
    queue.finish([message])


def _give_back(queue: Queue, message: Message) -> None:
    message.redelivery_counter += 1
    if queue.audit is not None:
        queue.audit.happened(Event.REDELIVERED, queue, message)
    queue.put_back([message])
