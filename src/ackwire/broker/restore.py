"""Restores the broker's state from its store at a start (SEMANTICS K1, G3, I2).

Messages return to their queues in their order, but their bytes stay in the store until their turn comes, so that a
start takes no longer for their number. Durable subscriptions return to their topics with what waits for them, prepared
transactions to the list that `recover` shows. Messages that a prepared transaction has acknowledged stay reserved until
it is decided.

Nothing is published, dispatched, written or timed before everything is restored, the broker's sequence included.
`Broker.start` begins all that afterwards. If something cannot be restored, it is named and the broker does not start.
`store check` restores in the same way, on a store that discards every change (`rehearsal.py`).
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import final

from ackwire.broker.auditing import Event
from ackwire.broker.cursors import Cursors
from ackwire.broker.duplicates import Duplicates
from ackwire.broker.early_dispatch import EarlyDispatch
from ackwire.broker.in_flight import AckKind
from ackwire.broker.large_acks import is_acks
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.scheduler import Scheduler
from ackwire.broker.staging import SET_ASIDE, Staging
from ackwire.broker.transaction_manager import TransactionManager
from ackwire.broker.transactions import AckedMessages, Transaction, TransactionState
from ackwire.errors import ConfigError, StoreFailed
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract import (
    BatchRecord,
    CursorRecord,
    DurableKey,
    DurableRecord,
    Kept,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StagedRecord,
    StateRecord,
    Store,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.util.clock import Clock
from ackwire.util.sequence_runs import sequences_of

_log = logging.getLogger(__name__)

OnFailed = Callable[[Kept, Exception], None]
"""Told what cannot be brought back, and why."""


def refuse(kept: Kept, error: Exception) -> None:
    """Raise `ConfigError`: the broker does not start without *kept*."""
    _log.error("%s cannot be brought back", describe(kept), exc_info=error)
    raise ConfigError(
        f"the broker cannot start: {describe(kept)} cannot be brought back ({type(error).__name__}: {error}). Nothing "
        "was changed; `ackwire store check` lists all that is in the way, `ackwire store repair` puts it aside"
    ) from error


def describe(kept: Kept) -> str:
    """A description for log messages."""
    match kept:
        case DurableRecord():
            return repr(kept.key)
        case PreparedTransaction():
            return f"prepared transaction {kept.transaction_id}"
        case ScheduledJob():
            return f"scheduled job {kept.job_id}"
        case CursorRecord() | StagedRecord() | BatchRecord():
            return kept.key
    return repr(kept)


@final
class Restoring:
    """Brings back everything that the store has kept, item by item. Used once, before any client connects."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        publisher: Publisher,
        duplicates: Duplicates,
        early_dispatch: EarlyDispatch,
        registry: Registry,
        transaction_manager: TransactionManager,
        scheduler: Scheduler,
        cursors: Cursors,
        staging: Staging,
    ) -> None:
        self._clock = clock
        self._store = store
        self._publisher = publisher
        self._duplicates = duplicates
        self._early_dispatch = early_dispatch
        self._registry = registry
        self._transaction_manager = transaction_manager
        self._scheduler = scheduler
        self._cursors = cursors
        self._staging = staging
        self._untold: str | None = None
        """Why each message must be reported to the audit; None if it need not be."""
        self._on_failed: OnFailed = refuse
        self._undecided: dict[Place, set[int]] = {}
        """What prepared transactions have acknowledged."""
        self._reserved: dict[Place, set[int]] = {}
        """What cursors have, or is staged."""
        self._kept: dict[Place, dict[int, WaitingMessage]] = {}
        """Of that, what is there."""

    def run(self, untold: str | None = None, on_failed: OnFailed = refuse) -> None:
        """Restore everything; *on_failed* is called for each item that fails, and may raise to end it.

        *untold* is the reason why the audit needs an event for each message, if it does.
        """
        self._untold, self._on_failed = untold, on_failed
        store = self._store
        self._publisher.restore()  # whatever gets a sequence has one behind all that are known
        self._duplicates.restore()
        self._early_dispatch.restore()
        self._transaction_manager.transactions.restore_commits(store.commits())
        places, prepared, notes = list(store.places()), list(store.prepared()), list(store.state_records())
        for place, message in (ack for transaction in prepared for ack in transaction.acks):
            self._undecided.setdefault(place, set()).add(message.sequence)
        self._reserved = _reserved(notes)
        for record in store.durables():
            self._try(record, partial(self._registry.restore_durable, record))
        for place in places:
            self._try(place, partial(self._restore_place, place))
        for transaction in prepared:
            self._try(transaction, partial(self._restore_prepared, transaction))
        for job in sorted(store.jobs(), key=lambda job: job.due_ms):
            self._try(job, partial(self._scheduler.restore, job))
        for note in notes:
            self._try(note, partial(self._restore_note, note))
        for transaction in prepared:
            self._try(transaction, partial(self._transaction_manager.restore_set_aside, transaction.transaction_id))

    def _try(self, kept: Kept, bring_back: Callable[[], None]) -> None:
        try:
            bring_back()
        except StoreFailed:
            raise  # the disk, and not what is kept there
        except Exception as error:
            self._on_failed(kept, error)

    def _restore_place(self, place: Place) -> None:
        store = self._store
        portions: Iterable[WaitingMessages] = store.waiting_portions(place)
        if mine := self._reserved.get(place):
            portions = map(partial(_without_kept, mine, self._kept.setdefault(place, {})), portions)
        if isinstance(place, Destination) and not place.kind.is_queue:
            if place != SET_ASIDE:
                self._registry.restore_destination(place)
            deque(portions, maxlen=0)  # staged for a topic: no other message is kept there
            return
        queue = self._queue_at(place)
        queue.restart.restore_dispatched(store.dispatched_up_to(place))
        for portion in portions:
            queue.restart.restore(_without(portion, self._undecided.get(place)))
            if self._untold is not None:
                queue.restart.tell_restored(portion.sequences, self._untold)

    def _restore_prepared(self, transaction: PreparedTransaction) -> None:
        self._transaction_manager.restore(self._transaction(transaction))

    def _restore_note(self, note: StateRecord) -> None:
        match note:
            case CursorRecord():
                self._cursors.restore(note, self._kept.get(note.place, {}), self._untold)
            case StagedRecord() if is_acks(note):
                self._restore_acks(note)
            case StagedRecord():
                self._staging.restore_part(note, self._kept, self._untold)
            case BatchRecord():
                self._staging.restore_batch(note)

    def _restore_acks(self, note: StagedRecord) -> None:
        """What a transaction has consumed, and the last run had no time to remove everywhere."""
        left: list[tuple[Queue, list[int]]] = []
        for place, runs in note.held:
            there = self._kept.get(place, {})
            sequences = [it for it in sequences_of(runs) if it in there]
            if sequences:
                queue = self._queue_at(place)
                left.append((queue, sequences))
                if self._untold is not None:
                    queue.restart.tell_restored(sequences, self._untold)
        self._transaction_manager.large.acks.restore(note, left)

    def _queue_at(self, place: Place) -> Queue:
        if isinstance(place, DurableKey):
            return self._registry.durables[place].queue
        return self._registry.needed_queue(place)

    def _transaction(self, kept: PreparedTransaction) -> Transaction:
        transaction = Transaction(
            kept.transaction_id,
            is_xa=True,
            connection=None,
            since_ms=self._clock.now_ms(),
            state=TransactionState.PREPARED,
            sends=[(None, message) for message in kept.sends],
            user=kept.user,
        )
        for place, message in kept.acks:
            queue = self._queue_at(place)
            queue.contents.count_restored(message)
            transaction.acks.append(_acked(queue, message, kept.transaction_id))
        return transaction


def _reserved(notes: list[StateRecord]) -> dict[Place, set[int]]:
    """The reserved messages of a place: those of cursors and of staged batches."""
    reserved: dict[Place, set[int]] = {}
    for note in notes:
        match note:
            case CursorRecord():
                reserved.setdefault(note.place, set()).update(sequences_of(note.held))
            case StagedRecord():
                for place, runs in note.held:
                    reserved.setdefault(place, set()).update(sequences_of(runs))
    return reserved


def _without_kept(reserved: set[int], kept: dict[int, WaitingMessage], waiting: WaitingMessages) -> WaitingMessages:
    kept.update((it.sequence, it) for it in waiting if it.sequence in reserved)
    return _without(waiting, reserved)


def _without(waiting: WaitingMessages, others: set[int] | None) -> WaitingMessages:
    if not others or others.isdisjoint(waiting.sequences):
        return waiting
    return WaitingMessages(it for it in waiting if it.sequence not in others)


def _acked(queue: Queue, message: Message, transaction_id: Hashable) -> AckedMessages:
    undo: Callable[[], None] = partial(_give_back, queue, message)
    finish = partial(_finish, transaction_id)
    return AckedMessages(None, [message], [(queue, [message])], finish=finish, undo=undo)


def _finish(transaction_id: Hashable, queue: Queue, messages: list[Message]) -> None:
    if queue.audit is not None:
        queue.audit.acked_all(queue, messages, None, AckKind.STANDARD, transaction_id)
    queue.finish(messages)


def _give_back(queue: Queue, message: Message) -> None:
    message.redelivery_counter += 1
    if queue.audit is not None:
        queue.audit.happened(Event.REDELIVERED, queue, message)
    queue.put_back([message])
