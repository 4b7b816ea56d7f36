"""Begin where the last run of the broker ended: what the store has kept comes back (SEMANTICS K1, G3, I2).

Messages return to their queues in their order, durable subscriptions to their topics with what waits for them, prepared
transactions to the list that `recover` shows. What a prepared transaction had acknowledged stays out of everybody's
reach until it is decided.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ackwire.broker.queue import Queue
from ackwire.broker.transactions import AckedMessages, Transaction, TransactionState
from ackwire.message import Message
from ackwire.store.contract import DurableKey, Place, PreparedTransaction, Store

if TYPE_CHECKING:
    from ackwire.broker.broker import Broker


def restore(broker: "Broker", store: Store) -> None:
    """Bring back everything that *store* has kept. Called once, before any client connects."""
    for record in store.durables():
        broker.registry.durable(record)
    prepared = list(store.prepared())
    undecided = {(place, message.sequence) for transaction in prepared for place, message in transaction.acks}
    for place in list(store.places()):
        messages = [message for message in store.load(place, [it.sequence for it in store.waiting(place)]) if message]
        waiting = [message for message in messages if (place, message.sequence) not in undecided]
        _queue_at(broker, place).restore([_own_copy(place, message) for message in waiting])
    broker.intake.restore()
    broker.transactor.transactions.restore_commits(store.commits())
    for transaction in prepared:
        broker.transactor.restore(_transaction(broker, transaction))
    broker.scheduler.restore()


def _own_copy(place: Place, message: Message) -> Message:
    """Durable subscriptions to one topic share the stored message, and count redeliveries each for itself."""
    return message.copy() if isinstance(place, DurableKey) else message


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
        transaction.acks.append(_acked(queue, message))
    return transaction


def _acked(queue: Queue, message: Message) -> AckedMessages:
    undo: Callable[[], None] = partial(_give_back, queue, message)
    return AckedMessages(None, [message], [(queue, [message])], finish=partial(queue.finish, [message]), undo=undo)


def _give_back(queue: Queue, message: Message) -> None:
    message.redelivery_counter += 1
    queue.put_back([message])
