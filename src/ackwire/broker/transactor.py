"""What can be done with transactions: begin, work, prepare, commit, roll back, recover (SEMANTICS G)."""

from collections.abc import Callable, Hashable
from typing import Final, final

from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.limits import FlowControl
from ackwire.broker.publishing import Publisher
from ackwire.broker.repetitions import Repetitions
from ackwire.broker.routing import Routing
from ackwire.broker.session import Connection
from ackwire.broker.transactions import (
    XA_OK,
    XA_PROTOCOL_ERROR,
    XA_READ_ONLY,
    XA_RESOURCE_MANAGER_ERROR,
    XA_ROLLED_BACK,
    Transaction,
    TransactionError,
    Transactions,
    TransactionState,
)
from ackwire.clock import Clock
from ackwire.errors import BrokerError, NotAuthorised, ResourceLimit, StoreFailed
from ackwire.message import Message
from ackwire.store.contract import PreparedTransaction, Store

_OPEN_MAX: Final = 10_000
"""Open transactions of one connection."""

_RECOVERED_MAX: Final = 32_767
"""Transactions in one answer to `recover`; the wire counts them in a signed short."""


def _to_keep(transaction: Transaction) -> PreparedTransaction:
    """The persistent part of *transaction*: the rest is gone after a restart anyway."""
    return PreparedTransaction(
        transaction.transaction_id,
        tuple(message for _, message in transaction.sends if message.persistent),
        tuple(
            (queue.place, message)
            for acked in transaction.acks
            for queue, messages in acked.by_queue
            for message in messages
            if message.persistent and queue.is_stored
        ),
        transaction.user,
    )


@final
class Transactor:
    """Carries transactions through their life."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        transactions: Transactions,
        flow: FlowControl,
        repetitions: Repetitions,
        routing: Routing,
        publisher: Publisher,
        dead_letters: DeadLetters,
        operator: str,
    ) -> None:
        self._clock = clock
        self._store = store
        self.transactions = transactions
        self._flow = flow
        self._repetitions = repetitions
        self._routing = routing
        self._publisher = publisher
        self._dead_letters = dead_letters
        self._operator = operator
        """The user that may decide every prepared transaction; empty for none."""

    def begin(self, connection: Connection, transaction_id: Hashable, *, is_xa: bool) -> None:
        """Open a transaction. One that is known to have committed stays closed: it is being repeated."""
        if self.transactions.count(connection) >= _OPEN_MAX and self.transactions.find(transaction_id) is None:
            raise ResourceLimit(f"{connection!r} has {_OPEN_MAX} open transactions, the limit")
        if not self._is_repetition(connection, transaction_id):
            self._refuse_foreign(connection, self.transactions.find(transaction_id))
            now_ms = self._clock.now_ms()
            self.transactions.begin(
                Transaction(transaction_id, is_xa, connection, since_ms=now_ms, user=connection.user or "")
            )

    def _is_repetition(self, connection: Connection, transaction_id: Hashable) -> bool:
        """Whether a client that came back repeats a transaction that had committed: it had no answer (J4)."""
        return connection.is_reconnect and self.transactions.was_committed(transaction_id)

    def _find(self, connection: Connection, transaction_id: Hashable) -> Transaction:
        """The open transaction: *connection*'s own, or, if it is XA, its user's. Operators may decide every XA one."""
        transaction = self.transactions.get(transaction_id)
        if not transaction.is_xa and transaction.connection is not connection:
            raise NotAuthorised(f"transaction {transaction_id} belongs to another connection")
        self._refuse_foreign(connection, transaction)
        return transaction

    def _refuse_foreign(self, connection: Connection, transaction: Transaction | None) -> None:
        if transaction is not None and not self._may_decide(connection, transaction):
            owner = transaction.user or "a client without a user"
            raise TransactionError(
                f"transaction {transaction.transaction_id} was begun by {owner}: "
                "only that user, and broker.operator, may work in it or decide it",
                XA_RESOURCE_MANAGER_ERROR,
            )

    def _may_decide(self, connection: Connection, transaction: Transaction) -> bool:
        user = connection.user or ""
        return transaction.user == user or (user != "" and user == self._operator)

    def transaction_for_work(self, connection: Connection, transaction_id: Hashable) -> Transaction | None:
        """The open transaction, or None if it has committed before and its work is being repeated."""
        if self._is_repetition(connection, transaction_id):
            return None
        transaction = self._find(connection, transaction_id)
        if transaction.state is TransactionState.PREPARED:
            raise TransactionError(
                f"transaction {transaction_id} is prepared and takes no more work", XA_PROTOCOL_ERROR
            )
        return transaction

    def add_send(self, transaction_id: Hashable, connection: Connection, message: Message) -> None:
        """A message that is to be visible when the transaction commits."""
        transaction = self.transaction_for_work(connection, transaction_id)
        if transaction is not None:
            self._flow.check_uncommitted(message.size_bytes)
            transaction.sends.append((connection, message))
            self._count_uncommitted(message.size_bytes)

    def _count_uncommitted(self, size_bytes: int) -> None:
        self._flow.used_bytes += size_bytes
        self._flow.uncommitted_bytes += size_bytes

    def has_begun_work(self, transaction_id: Hashable) -> bool:
        """Whether something was sent or acknowledged in it."""
        transaction = self.transactions.find(transaction_id)
        return transaction is not None and not transaction.is_empty

    def fail(self, connection: Connection, transaction_id: Hashable, reason: str) -> None:
        """Something in it went wrong, and nobody waited for an answer: the commit will say so."""
        transaction = self.transactions.find(transaction_id)
        if transaction is not None and transaction.connection is connection and transaction.failure is None:
            transaction.failure = reason

    def prepare(
        self,
        connection: Connection,
        transaction_id: Hashable,
        on_prepared: Callable[[int], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
    ) -> None:
        """Promise that a commit will succeed. *on_prepared* gets XA's answer once the promise is durable."""
        result = self._prepare(connection, transaction_id)
        self._store.when_durable(lambda: on_prepared(result), on_failed)

    def _prepare(self, connection: Connection, transaction_id: Hashable) -> int:
        self._refuse_foreign(connection, self.transactions.find(transaction_id))
        self._flow.admit(transaction_id)
        if self.transactions.find(transaction_id) is None:
            raise BrokerError(f"transaction {transaction_id} had not been started or previously returned XA_RDONLY")
        transaction = self._find(connection, transaction_id)
        if not transaction.is_xa:
            raise TransactionError(f"transaction {transaction_id} is local and commits in one phase", XA_PROTOCOL_ERROR)
        if transaction.state is TransactionState.PREPARED:
            return XA_OK
        self._refuse_failed(transaction)
        if transaction.is_empty:
            self.transactions.close(transaction, committed=True)
            return XA_READ_ONLY
        self._check_sends(transaction)
        transaction.state = TransactionState.PREPARED
        self._store.prepare(_to_keep(transaction))
        return XA_OK

    def commit(
        self,
        connection: Connection,
        transaction_id: Hashable,
        on_stored: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None = None,
        *,
        one_phase: bool,
    ) -> None:
        """Make everything in it happen, at once; *on_stored* when that is durable. A repeated commit does nothing."""
        if self._is_repetition(connection, transaction_id):
            self._store.when_durable(on_stored, on_failed)
            return
        transaction = self._find(connection, transaction_id)
        self._flow.admit(transaction_id)
        if not one_phase and transaction.state is not TransactionState.PREPARED:
            raise TransactionError(f"transaction {transaction_id} is not prepared", XA_PROTOCOL_ERROR)
        if transaction.state is not TransactionState.PREPARED:  # which has promised
            self._refuse_failed(transaction)
            self._check_sends(transaction)
        self._store.expect()
        with self._store.atomically():
            if transaction.state is TransactionState.PREPARED:
                self._store.decide(transaction_id)
            if not transaction.is_xa:
                self._store.committed(transaction_id)
            for acked in transaction.acks:
                acked.finish()
            for sender, message in transaction.sends:
                self._count_uncommitted(-message.size_bytes)
                self._route(sender, message)
        self.transactions.close(transaction, committed=True)
        self._flow.release()  # what went to topics takes no space any more
        self._store.when_durable(on_stored, on_failed)

    def _route(self, sender: Connection | None, message: Message) -> None:
        """What was promised is kept: a message whose destination has gone since is a dead letter."""
        self._repetitions.committed(sender, message)
        try:
            self._routing.route(sender, message)
        except BrokerError as error:
            self._publisher.tell_sent(message)
            self._dead_letters.keep_unrouted(message, str(error))

    def _check_sends(self, transaction: Transaction) -> None:
        """All or nothing: what cannot be routed must be known before anything is done."""
        try:
            for sender, message in transaction.sends:
                self._routing.check(message, sender)
        except BrokerError as error:
            transaction.failure = str(error)
            self._refuse_failed(transaction)

    def _refuse_failed(self, transaction: Transaction) -> None:
        if transaction.failure is not None:
            self._undo(transaction)
            raise TransactionError(
                f"transaction {transaction.transaction_id} was rolled back: {transaction.failure}", XA_ROLLED_BACK
            )

    def roll_back(self, connection: Connection, transaction_id: Hashable) -> None:
        """Undo everything in it. One that is gone already has nothing left to undo."""
        self._refuse_foreign(connection, self.transactions.find(transaction_id))
        self._flow.admit(transaction_id)
        if not self.transactions.was_rolled_back(transaction_id):
            self._undo(self._find(connection, transaction_id))

    def roll_back_all(self, connection: Connection) -> None:
        """A client has gone: what it had not committed or prepared is undone."""
        for transaction in self.transactions.of_connection(connection):
            self._undo(transaction)

    def _undo(self, transaction: Transaction) -> None:
        self.transactions.close(transaction, committed=False)
        if transaction.state is TransactionState.PREPARED:
            self._store.decide(transaction.transaction_id)
        for _, message in transaction.sends:
            self._count_uncommitted(-message.size_bytes)
        for acked in reversed(transaction.acks):
            acked.undo()
        self._flow.release()

    def forget(self, connection: Connection, transaction_id: Hashable) -> None:
        """Drop what is remembered of an outcome that was decided by an operator."""
        self._undo(self._find(connection, transaction_id))

    def restore(self, transaction: Transaction) -> None:
        """A prepared transaction of the last run waits for its decision again."""
        self.transactions.begin(transaction)
        for _, message in transaction.sends:
            self._count_uncommitted(message.size_bytes)

    def prepared(self, connection: Connection) -> list[Hashable]:
        """The ids of prepared transactions that *connection* may decide, for `recover`."""
        theirs = [it for it in self.transactions.prepared() if self._may_decide(connection, it)]
        return [transaction.transaction_id for transaction in theirs[:_RECOVERED_MAX]]
