"""What can be done with transactions: begin, work, prepare, commit, roll back, recover (SEMANTICS G).

One with many sends or acks is prepared and committed in slices of the loop: see `large_commits.py`.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, final

from ackwire.broker.committed_sends import CommittedSends
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.large_commits import LargeCommits
from ackwire.broker.limits import FlowControl
from ackwire.broker.publishing import Publisher
from ackwire.broker.routing import Routing
from ackwire.broker.session import Connection
from ackwire.broker.slices import Slices
from ackwire.broker.staging import Staging
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
from ackwire.errors import BrokerError, NotAuthorised, ResourceLimit
from ackwire.jms.message import Message
from ackwire.store.contract import PreparedTransaction, Store
from ackwire.util.clock import Clock

_OPEN_MAX: Final = 10_000
"""Open transactions of one connection."""

_RECOVERED_MAX: Final = 32_767
"""Transactions in one answer to `recover`; the wire counts them in a signed short."""


def _to_keep(transaction: Transaction) -> PreparedTransaction:
    """The persistent part of *transaction*: the rest is gone after a restart anyway."""
    return PreparedTransaction(
        transaction.transaction_id,
        tuple(message for _, message in transaction.sends if message.persistent and transaction.part is None),
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
class TransactionManager:
    """Carries transactions through their life."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        transactions: Transactions,
        flow: FlowControl,
        slices: Slices,
        routing: Routing,
        publisher: Publisher,
        sends: CommittedSends,
        staging: Staging,
        gate: DispatchGate,
        operator: str,
    ) -> None:
        self._clock = clock
        self._store = store
        self.transactions = transactions
        self._flow = flow
        self._routing = routing
        self._sends = sends
        self._staging = staging
        self._gate = gate
        self._operator = operator
        """The user that may decide every prepared transaction; empty for none."""
        self.large = LargeCommits(
            slices=slices,
            store=store,
            flow=flow,
            transactions=transactions,
            routing=routing,
            publisher=publisher,
            sends=sends,
            staging=staging,
            gate=gate,
            outcomes=self,
        )

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
        if transaction.state is not TransactionState.ACTIVE:
            raise TransactionError(
                f"transaction {transaction_id} is {transaction.state.value} and takes no more work", XA_PROTOCOL_ERROR
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
        """Note that a step of the transaction failed whose client did not wait for an answer: the commit will fail."""
        transaction = self.transactions.find(transaction_id)
        if transaction is not None and transaction.connection is connection and transaction.failure is None:
            transaction.failure = reason

    def prepare(
        self,
        connection: Connection,
        transaction_id: Hashable,
        on_prepared: Callable[[int], None],
        on_failed: Callable[[BrokerError], None] | None = None,
    ) -> bool:
        """Promise that a commit will succeed. *on_prepared* gets XA's answer once the promise is durable.

        True if that goes on in later turns: what the same client asks for next must wait for one of the two calls.
        """
        transaction = self._to_prepare(connection, transaction_id)
        if transaction.state is TransactionState.ACTIVE and self.large.is_large(transaction):
            self._refuse_failed(transaction)
            self.large.prepare(transaction, on_prepared, on_failed)
            return True
        result = self._prepare(transaction)
        self._store.when_durable(lambda: on_prepared(result), on_failed)
        return False

    def _to_prepare(self, connection: Connection, transaction_id: Hashable) -> Transaction:
        self._refuse_foreign(connection, self.transactions.find(transaction_id))
        self._flow.admit(transaction_id)
        if self.transactions.find(transaction_id) is None:
            raise BrokerError(f"transaction {transaction_id} had not been started or previously returned XA_RDONLY")
        transaction = self._find(connection, transaction_id)
        if not transaction.is_xa:
            raise TransactionError(f"transaction {transaction_id} is local and commits in one phase", XA_PROTOCOL_ERROR)
        self.large.refuse_other(transaction)
        return transaction

    def _prepare(self, transaction: Transaction) -> int:
        if transaction.state is TransactionState.PREPARED:
            return XA_OK
        self._refuse_failed(transaction)
        if transaction.is_empty:
            self.transactions.close(transaction, committed=True)
            return XA_READ_ONLY
        self._check_sends(transaction)
        transaction.state = TransactionState.PREPARED
        self.record_prepared(transaction)
        return XA_OK

    def record_prepared(self, transaction: Transaction) -> None:
        """Record the promise."""
        self._store.prepare(_to_keep(transaction))

    def commit(
        self,
        connection: Connection,
        transaction_id: Hashable,
        on_stored: Callable[[], None],
        on_failed: Callable[[BrokerError], None] | None = None,
        *,
        one_phase: bool,
    ) -> bool:
        """Make everything in it happen, as one; *on_stored* when that is durable. A repeated commit does nothing.

        True if that goes on in later turns: what the same client asks for next must wait for one of the two calls.
        """
        if self.large.join(transaction_id, lambda _: on_stored(), on_failed):
            return True
        if connection.is_reconnect and self._joins_last_run(transaction_id, on_stored, on_failed):
            return True
        if self._is_repetition(connection, transaction_id):
            self._store.when_durable(on_stored, on_failed)
            return False
        transaction = self._find(connection, transaction_id)
        self.large.refuse_other(transaction)
        self._flow.admit(transaction_id)
        if not one_phase and transaction.state is not TransactionState.PREPARED:
            raise TransactionError(f"transaction {transaction_id} is not prepared", XA_PROTOCOL_ERROR)
        is_large = self.large.is_large(transaction)
        if transaction.state is not TransactionState.PREPARED:  # which has promised
            self._refuse_failed(transaction)
            if not is_large:
                self._check_sends(transaction)
        if is_large:
            self.large.commit(transaction, lambda _: on_stored(), on_failed)
            return True
        self._gate.begin_group()
        try:
            self._commit(transaction)
            self._flow.release()  # what went to topics takes no space any more
            self._store.when_durable(on_stored, on_failed)
        finally:
            self._gate.end_group()
        return False

    def _joins_last_run(
        self,
        transaction_id: Hashable,
        on_stored: Callable[[], None],
        on_failed: Callable[[BrokerError], None] | None,
    ) -> bool:
        """Whether a client that came back repeats a large commit that the last run has decided, and this one has yet to
        carry out. It is answered when all of it is visible: else what the client sends next could overtake (H1)."""
        on_shown = partial(self._store.when_durable, on_stored, on_failed)
        is_open = self.transactions.find(transaction_id) is not None
        return not is_open and self._staging.when_shown(transaction_id, on_shown)

    def _commit(self, transaction: Transaction) -> None:
        with self._store.atomically():
            self.record_commit(transaction, was_prepared=transaction.state is TransactionState.PREPARED)
            for acked in transaction.acks:
                acked.finish_all()
            for sender, message in transaction.sends:
                self._count_uncommitted(-message.size_bytes)
                self._sends.route(sender, message)
        self.transactions.close(transaction, committed=True)

    def record_commit(self, transaction: Transaction, *, was_prepared: bool) -> None:
        """Record that it commits."""
        if was_prepared:
            self._store.decide(transaction.transaction_id)
        if not transaction.is_xa:
            self._store.committed(transaction.transaction_id)

    def uncount(self, message: Message) -> None:
        """*message* is no longer one of an open transaction."""
        self._count_uncommitted(-message.size_bytes)

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
            self.undo(transaction)
            raise TransactionError(
                f"transaction {transaction.transaction_id} was rolled back: {transaction.failure}", XA_ROLLED_BACK
            )

    def roll_back(self, connection: Connection, transaction_id: Hashable) -> None:
        """Undo everything in it. One that is gone already has nothing left to undo."""
        self._refuse_foreign(connection, self.transactions.find(transaction_id))
        self._flow.admit(transaction_id)
        if not self.transactions.was_rolled_back(transaction_id):
            transaction = self._find(connection, transaction_id)
            self.large.refuse_other(transaction)
            self.undo(transaction)

    def roll_back_all(self, connection: Connection) -> None:
        """A client has gone: what it had not committed or prepared is undone."""
        self.large.leave(connection)
        for transaction in self.transactions.of_connection(connection):
            self.undo(transaction)

    def undo(self, transaction: Transaction) -> None:
        """Its sends are forgotten, and what it acknowledged goes back to where it was."""
        self.transactions.close(transaction, committed=False)
        if transaction.state is TransactionState.PREPARED:
            self._store.decide(transaction.transaction_id)
        for _, message in transaction.sends:
            self._count_uncommitted(-message.size_bytes)
        for acked in reversed(transaction.acks):
            acked.undo()
        if transaction.part is not None:
            self.large.drop(transaction.part)
        self._flow.release()

    def forget(self, connection: Connection, transaction_id: Hashable) -> None:
        """Drop what is remembered of an outcome that was decided by an operator."""
        transaction = self._find(connection, transaction_id)
        self.large.refuse_other(transaction)
        self.undo(transaction)

    def restore(self, transaction: Transaction) -> None:
        """A prepared transaction of the last run waits for its decision again."""
        self.transactions.begin(transaction)
        for _, message in transaction.sends:
            self._count_uncommitted(message.size_bytes)

    def restore_set_aside(self, transaction_id: Hashable) -> None:
        """A prepared transaction of the last run, if it was large, gets its sends back."""
        found = self._staging.restore_prepared(transaction_id)
        transaction = self.transactions.find(transaction_id)
        if found is not None and transaction is not None:
            transaction.part, messages = found
            for message in messages:
                transaction.sends.append((None, message))
                self._count_uncommitted(message.size_bytes)

    def prepared(self, connection: Connection) -> list[Hashable]:
        """The ids of prepared transactions that *connection* may decide, for `recover`."""
        theirs = [it for it in self.transactions.prepared() if self._may_decide(connection, it)]
        return [transaction.transaction_id for transaction in theirs[:_RECOVERED_MAX]]
