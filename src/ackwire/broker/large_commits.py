"""Transactions with many sends or acks: prepared and committed in slices of the loop (SEMANTICS G, H1).

Many are more than a slice has units. Where the store keeps none of the sends, slices cost next to nothing: there, many
are more than can be committed while other clients wait. A smaller transaction commits in one turn
(`transaction_manager.py`). A large one takes these steps, each as many turns as it needs:

1. *Check*: what cannot be routed is found before anything is done. Then the transaction is rolled back.
2. *Keep*: its persistent messages are recorded in a place of the broker's own (`SET_ASIDE`), as a part of `staging.py`
   that is not committed. After a crash they are dropped.
3. *List*: what is acknowledged, if it is much, is listed as runs of sequences (`large_acks.py`).
4. *Decide*: one group of records, in one turn: the acks or the list of them, the outcome, and that the part is
   committed. For a prepare: the acks, and that the part belongs to a prepared transaction, which ends there.
5. *Remove*: when the decision is durable, what is on the list is removed. After a crash the next start does that.
6. *Route*: when the decision is durable, the messages go where they are addressed to, in their order. Each slice of
   them reaches the store as one, together with the note of what is left. After a crash the next start goes on with the
   rest (`staging.py`). When all are there, the commit is answered, also one that is repeated after the crash.

What others can see in between: nothing of the sends before the decision is durable. After it the sends become visible
from the first to the last, some in each turn, and messages of other clients may come to stand between them. The acks
take effect with the decision: what is acknowledged is out of reach before and after it. No client is answered before
everything is visible and removed, and later commands of the client that commits wait for that
(`adapters/openwire.py`), so they cannot overtake. After a crash all of it happens, or nothing.

A client that goes before the decision takes its transaction with it, as one that goes before it commits; unless that
was prepared. A commit that is decided is carried out whether or not its client is still there.

A store that does not page keeps nothing through a crash, so nothing is set aside there.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeAlias, final

from ackwire.broker.committed_sends import CommittedSends
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.large_acks import AckList, LargeAcks
from ackwire.broker.limits import FlowControl
from ackwire.broker.publishing import Publisher
from ackwire.broker.routing import Routing
from ackwire.broker.session import Connection
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.staged_part import Part
from ackwire.broker.staging import SET_ASIDE, Staging
from ackwire.broker.transactions import (
    XA_OK,
    XA_PROTOCOL_ERROR,
    XA_ROLLED_BACK,
    Transaction,
    TransactionError,
    Transactions,
    TransactionState,
)
from ackwire.errors import BrokerError, StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import Store, WaitingMessage

_AT_ONCE_MAX: Final = 200
"""Sends that are committed at once if the store keeps none of them: about what `GIVE_WAY_SECONDS` are enough for."""
_KEEP_UNITS: Final = 2
"""What it costs of a slice to record a message."""
_ROUTE_UNITS: Final = 2
_AHEAD_MESSAGES: Final = 2000
_AHEAD_BYTES: Final = 2 * 1024 * 1024
"""What the disk gets ahead of a wait for it: so much may be written in one turn."""
_DROPPED_PER_TURN: Final = 2000
_REMOVED_AHEAD: Final = 10_000
"""Acknowledged messages that are removed ahead of a wait for the disk."""

Done: TypeAlias = Callable[[int], None]
"""Told XA's answer: only a prepare has one to choose from."""
Failed: TypeAlias = Callable[[BrokerError], None]


@final
@dataclass(eq=False, slots=True)
class _Work:
    """A commit or a prepare that is under way."""

    transaction: Transaction
    is_prepare: bool
    was_prepared: bool
    waiters: list[tuple[Done, Failed | None]] = field(default_factory=list)
    position: int = 0
    """How many sends the present step is through with."""
    ahead_messages: int = 0
    ahead_bytes: int = 0
    """What was recorded, or routed, since the disk was waited for."""
    acked: AckList | None = None
    """What is acknowledged in it, if that is much."""
    removed_ahead: int = 0
    is_decided: bool = False
    is_routing: bool = False
    """Whether messages are routed that are not durable yet: none of them leaves before that."""
    has_ended: bool = False

    @property
    def has_more(self) -> bool:
        return self.position < len(self.transaction.sends)

    def may_go_on(self) -> bool:
        """Whether there is more to do, and the disk need not catch up first."""
        if self.has_more and self.ahead_messages < _AHEAD_MESSAGES and self.ahead_bytes < _AHEAD_BYTES:
            return True
        self.ahead_messages = self.ahead_bytes = 0
        return False

    def take(self) -> tuple[Connection | None, Message]:
        """The next send."""
        sent = self.transaction.sends[self.position]
        self.position += 1
        self.ahead_messages += 1
        self.ahead_bytes += sent[1].size_bytes
        return sent


class Outcomes(Protocol):
    """Records how transactions of any size end."""

    def record_prepared(self, transaction: Transaction) -> None:
        """Record the promise."""
        ...

    def record_commit(self, transaction: Transaction, *, was_prepared: bool) -> None:
        """Record that it commits."""
        ...

    def uncount(self, message: Message) -> None:
        """*message* is no longer one of an open transaction."""
        ...

    def undo(self, transaction: Transaction) -> None:
        """Its sends are forgotten, and what it acknowledged goes back to where it was."""
        ...


_Step: TypeAlias = Callable[[_Work, Budget], bool]


def _is_kept(message: Message) -> bool:
    """Whether the store has to have it: what a temporary destination gets, it never has."""
    return message.persistent and not message.destination.kind.is_temporary


@final
class LargeCommits:
    """The large transactions that are being prepared or committed."""

    def __init__(
        self,
        *,
        slices: Slices,
        store: Store,
        flow: FlowControl,
        transactions: Transactions,
        routing: Routing,
        publisher: Publisher,
        sends: CommittedSends,
        staging: Staging,
        gate: DispatchGate,
        outcomes: Outcomes,
    ) -> None:
        self._slices = slices
        self._store = store
        self._flow = flow
        self._transactions = transactions
        self._routing = routing
        self._publisher = publisher
        self._sends = sends
        self._staging = staging
        self._gate = gate
        self._outcomes = outcomes
        self.acks = LargeAcks(store, slices.units)
        self._under_way: dict[Hashable, _Work] = {}
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._under_way)

    def is_large(self, transaction: Transaction) -> bool:
        """Whether it is too large to commit it in one turn; or was, when it was prepared before a restart."""
        if transaction.part is not None or transaction.acked_count > self._slices.units:
            return True
        count = len(transaction.sends)
        return count > self._slices.units or (count > _AT_ONCE_MAX and self._keeps_none(transaction))

    def _keeps_none(self, transaction: Transaction) -> bool:
        """Whether there is nothing to set aside: nothing in it survives a crash before it is committed."""
        return not self._store.pages or not any(_is_kept(message) for _, message in transaction.sends)

    def join(self, transaction_id: Hashable, on_done: Done, on_failed: Failed | None) -> bool:
        """Have the end of a commit that is under way told to one more client; False if there is none."""
        work = self._under_way.get(transaction_id)
        if work is None or work.is_prepare:
            return False
        work.waiters.append((on_done, on_failed))
        return True

    def commit(self, transaction: Transaction, on_done: Done, on_failed: Failed | None) -> None:
        """Begin to commit; one of the two is called when it has ended."""
        self._begin(transaction, on_done, on_failed, is_prepare=False)

    def prepare(self, transaction: Transaction, on_done: Done, on_failed: Failed | None) -> None:
        """Begin to prepare; one of the two is called when it has ended."""
        self._begin(transaction, on_done, on_failed, is_prepare=True)

    def _begin(self, transaction: Transaction, on_done: Done, on_failed: Failed | None, *, is_prepare: bool) -> None:
        was_prepared = transaction.state is TransactionState.PREPARED
        work = _Work(transaction, is_prepare, was_prepared, [(on_done, on_failed)])
        transaction.state = TransactionState.ENDING
        self._under_way[transaction.transaction_id] = work
        self._next(work, self._keep if was_prepared else self._check)

    def _next(self, work: _Work, step: _Step) -> None:
        if not work.has_ended:
            self._slices.start(partial(self._run, work, step))

    def _run(self, work: _Work, step: _Step, budget: Budget) -> bool:
        if work.has_ended:
            return False
        try:
            return step(work, budget)
        except BrokerError as error:
            self._fail(work, error)
        except Exception:
            self._fail(work, BrokerError("an error in the broker: see its log"))
            raise
        return False

    # ---- the steps ---------------------------------------------------------------------------------------------

    def _check(self, work: _Work, budget: Budget) -> bool:
        sends = work.transaction.sends
        while work.position < len(sends):
            sender, message = sends[work.position]
            self._routing.check(message, sender)
            work.position += 1
            if budget.spend():
                return True
        work.position = 0
        if self._keeps_none(work.transaction):
            if not self._has_many_acks(work):
                return self._decide(work)
            self._next(work, self._list)
            return False
        self._next(work, self._keep)
        return False

    def _keep(self, work: _Work, budget: Budget) -> bool:
        """Record some messages. Now and then wait until they are durable: a slow disk gets no more than it can take."""
        if not self._store.pages or (work.position == 0 and work.transaction.part is not None):
            self._next(work, self._list)
            return False
        with self._store.atomically():
            self._keep_some(work, budget)
        if work.may_go_on():
            return True
        step = self._keep if work.has_more else self._list
        self._store.when_durable(partial(self._next, work, step), partial(self._fail, work))
        return False

    def _keep_some(self, work: _Work, budget: Budget) -> None:
        kept: list[WaitingMessage] = []
        while work.has_more:
            _, message = work.take()
            if _is_kept(message):
                copy = message.copy()  # what is routed later has another place in the order
                self._publisher.stamp(copy)
                self._store.append(copy, (SET_ASIDE,))
                kept.append(WaitingMessage(copy.sequence, copy.expiration, copy.priority, copy.size_bytes))
            if budget.spend(_KEEP_UNITS):
                break
        if kept:
            transaction = work.transaction
            transaction.part = self._staging.set_aside(transaction.transaction_id, transaction.part, kept)

    def _list(self, work: _Work, budget: Budget) -> bool:
        """List some of what is acknowledged, if that is much; then decide."""
        if work.acked is None:
            if not self._has_many_acks(work):
                return self._decide(work)
            work.acked = self.acks.start_list(work.transaction)
        return work.acked.list_some(budget) or self._decide(work)

    def _has_many_acks(self, work: _Work) -> bool:
        return not work.is_prepare and work.transaction.acked_count > self._slices.units

    def _decide(self, work: _Work) -> bool:
        self._gate.begin_group()
        try:
            self._record_decision(work)
            self._go_on_when_decided(work)
        finally:
            self._gate.end_group()
        return False

    def _record_decision(self, work: _Work) -> None:
        transaction, part = work.transaction, work.transaction.part
        with self._store.atomically():
            if work.is_prepare:
                self._outcomes.record_prepared(transaction)
            else:
                self._outcomes.record_commit(transaction, was_prepared=work.was_prepared)
                if work.acked is None:
                    for acked in transaction.acks:
                        acked.finish_all()
                else:
                    self.acks.record(work.acked)
                if part is not None:
                    self._staging.decide(part)

    def _go_on_when_decided(self, work: _Work) -> None:
        transaction = work.transaction
        work.is_decided = True
        work.position = 0
        if work.is_prepare:
            transaction.state = TransactionState.PREPARED
            self._store.when_durable(partial(self._end, work), partial(self._fail, work))
        elif work.acked is not None:  # until they are removed, they are messages of an open transaction
            self._transactions.remember(transaction, committed=True)
            self._store.when_durable(partial(self._next, work, self._remove), partial(self._fail, work))
        else:
            self._transactions.close(transaction, committed=True)
            self._store.when_durable(partial(self._next, work, self._route), partial(self._fail, work))

    def _remove(self, work: _Work, budget: Budget) -> bool:
        """Remove some of what is acknowledged. That is waited for now and then, as in the other steps."""
        assert work.acked is not None
        with self._store.atomically():
            removed, has_more = self.acks.remove_some(work.acked, budget)
        if has_more:
            work.removed_ahead += removed
            if work.removed_ahead < _REMOVED_AHEAD:
                return True
            work.removed_ahead = 0
            self._store.when_durable(partial(self._next, work, self._remove), partial(self._fail, work))
            return False
        self._transactions.close(work.transaction, committed=True)
        if work.has_more:
            self._next(work, self._route)
        else:
            self._store.when_durable(partial(self._end, work), partial(self._fail, work))
        return False

    def _route(self, work: _Work, budget: Budget) -> bool:
        """Route some messages. They leave for consumers when they are durable; that is waited for now and then."""
        part = work.transaction.part
        kept = 0
        if not work.is_routing:
            work.is_routing = True
            self._gate.begin_group()
        with self._store.atomically():
            while work.has_more:
                sender, message = work.take()
                kept += _is_kept(message)
                self._outcomes.uncount(message)
                self._sends.route(sender, message)
                if budget.spend(_ROUTE_UNITS):
                    break
            if part is not None:
                self._staging.finish(part, kept if work.has_more else part.count)
        self._flow.release()  # what went to topics takes no space any more
        if work.may_go_on():
            return True
        if work.has_more:
            self._store.when_durable(partial(self._next, work, self._route), partial(self._fail, work))
        else:
            self._store.when_durable(partial(self._end, work), partial(self._fail, work))
        self._end_routing(work)
        return False

    def _end_routing(self, work: _Work) -> None:
        if work.is_routing:
            work.is_routing = False
            self._gate.end_group()

    # ---- the end -----------------------------------------------------------------------------------------------

    def _end(self, work: _Work) -> None:
        if not work.has_ended:
            self._forget(work)
            for on_done, _ in work.waiters:
                on_done(XA_OK)

    def _forget(self, work: _Work) -> None:
        self._end_routing(work)
        work.has_ended = True
        del self._under_way[work.transaction.transaction_id]

    def _fail(self, work: _Work, error: BrokerError) -> None:
        """Before the decision: roll back. If the store has failed, nothing can be done, or promised, any more."""
        if work.has_ended:
            return
        self._forget(work)
        reason = error
        if isinstance(error, StoreFailed):
            self._leave_open(work)
        elif not work.is_decided and not work.was_prepared:
            self._roll_back(work)
            reason = TransactionError(
                f"transaction {work.transaction.transaction_id} was rolled back: {error}", XA_ROLLED_BACK
            )
        for _, on_failed in work.waiters:
            if on_failed is not None:
                on_failed(reason)

    def _leave_open(self, work: _Work) -> None:
        """The store has failed: what is undecided is as open as before, and goes with its client. A new start drops
        what was recorded of it."""
        if not work.is_decided:
            work.transaction.state = TransactionState.PREPARED if work.was_prepared else TransactionState.ACTIVE
        elif self._transactions.find(work.transaction.transaction_id) is work.transaction and not work.is_prepare:
            self._transactions.close(work.transaction, committed=True)

    def _roll_back(self, work: _Work) -> None:
        work.transaction.state = TransactionState.ACTIVE
        self._outcomes.undo(work.transaction)

    def leave(self, connection: Connection) -> None:
        """A client has gone: what it was about to prepare or commit is rolled back if that is not decided."""
        for work in list(self._under_way.values()):
            if work.transaction.connection is connection and not (work.is_decided or work.was_prepared):
                self._fail(work, BrokerError("its client has gone"))

    def refuse_other(self, transaction: Transaction) -> None:
        """Raise `TransactionError` if *transaction* is being prepared or committed."""
        if transaction.state is TransactionState.ENDING:
            raise TransactionError(
                f"transaction {transaction.transaction_id} is being prepared or committed", XA_PROTOCOL_ERROR
            )

    def drop(self, part: Part) -> None:
        """What was set aside for a transaction that is rolled back is not needed any more."""
        self._slices.start(partial(self._drop_some, part))

    def _drop_some(self, part: Part, _budget: Budget) -> bool:
        if self._is_stopped:
            return False
        with suppress(StoreFailed):  # the next start drops it
            with self._store.atomically():
                self._staging.finish(part, min(part.count, _DROPPED_PER_TURN))
            return part.count > 0
        return False

    def stop(self) -> None:
        """The store is about to close: the next start drops what is not decided, and goes on with what is."""
        self._is_stopped = True
        for work in list(self._under_way.values()):
            self._forget(work)
