"""Transactions: sends and acks that happen together, or not at all (SEMANTICS G).

A transaction only collects. What it was sent is nowhere to be seen until it commits; what it acknowledged stays out of
everybody's reach, and goes back to the consumer, or to the queue if the consumer has left, when it rolls back.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

from ackwire.broker.queue import Queue
from ackwire.broker.session import Connection
from ackwire.broker.staged_part import Part
from ackwire.broker.subscription import Subscription
from ackwire.errors import BrokerError
from ackwire.jms.message import Message
from ackwire.util.lru import COMMITS_REMEMBERED, Recent

XA_OK: Final = 0
XA_READ_ONLY: Final = 3
XA_RESOURCE_MANAGER_ERROR: Final = -3
XA_NO_SUCH_TRANSACTION: Final = -4
XA_INVALID: Final = -5
XA_PROTOCOL_ERROR: Final = -6
XA_ROLLED_BACK: Final = 100


class TransactionError(BrokerError):
    """A transaction cannot do what was asked; `xa_code` is XA's number for the reason."""

    def __init__(self, message: str, xa_code: int) -> None:
        super().__init__(message)
        self.xa_code = xa_code
        self.is_xa = False
        """Whether the client expects XA's own exception; set by who knows the kind of the transaction."""


class TransactionState(Enum):
    """How far a transaction has come."""

    ACTIVE = "active"
    PREPARED = "prepared"
    ENDING = "being prepared or committed"
    """In slices (`large_commits.py`): nothing else may be done in it."""


@dataclass(slots=True)
class AckedMessages:
    """Messages that a transaction acknowledged, and whose they were."""

    subscription: Subscription | None
    """Whose they were; None after a restart."""
    messages: list[Message]
    by_queue: list[tuple[Queue, list[Message]]]
    """The same by queue; a large commit takes out what it has finished (`large_commits.py`)."""
    finish: Callable[[Queue, list[Message]], None]
    """Carries the ack out for one of `by_queue`, or a portion of it."""
    undo: Callable[[], None]

    def finish_all(self) -> None:
        for queue, messages in self.by_queue:
            self.finish(queue, messages)


@final
@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction: what was sent and acknowledged in it."""

    transaction_id: Hashable
    is_xa: bool
    connection: Connection | None
    """Who began it; None after a restart."""
    since_ms: int
    state: TransactionState = TransactionState.ACTIVE
    sends: list[tuple[Connection | None, Message]] = field(default_factory=list)
    acks: list[AckedMessages] = field(default_factory=list)
    user: str = ""
    """Who began it: the name that the client gave, empty for none."""
    failure: str | None = None
    """Why it can only roll back, if something in it failed."""
    part: Part | None = None
    """What of its sends the store has already, if there are many (`large_commits.py`)."""

    @property
    def is_empty(self) -> bool:
        return not self.sends and not self.acks

    @property
    def acked_count(self) -> int:
        """How many messages are acknowledged in it."""
        return sum([len(acked.messages) for acked in self.acks])


@final
class Transactions:
    """Every transaction that is open, and how recent ones ended."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Transaction] = {}
        self._counts: Counter[Connection | None] = Counter()
        """How many each connection has open."""
        self._outcomes: Recent[Hashable, bool] = Recent(COMMITS_REMEMBERED)
        self._found: Transaction | None = None
        self._found_id: Hashable = None
        """The last that was found, and the very object that it was found by. A client sends many messages in one
        transaction, all with the same object; to hash it costs as much as all else that is done with the message."""

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._open.values()))

    def count(self, connection: Connection) -> int:
        """How many *connection* has open."""
        return self._counts[connection]

    def has_acks_of(self, connection: Connection) -> bool:
        """Whether *connection* has acknowledged something in an open transaction that is not prepared."""
        return any(transaction.acks for transaction in self.of_connection(connection))

    def find(self, transaction_id: Hashable) -> Transaction | None:
        if transaction_id is self._found_id:
            return self._found
        transaction = self._open.get(transaction_id)
        if transaction is not None:
            self._found, self._found_id = transaction, transaction_id
        return transaction

    def begin(self, transaction: Transaction) -> None:
        """Open a transaction; a repetition, as after a failover, changes nothing."""
        if transaction.transaction_id not in self._open:
            self._open[transaction.transaction_id] = transaction
            self._counts[transaction.connection] += 1
        self._outcomes.pop(transaction.transaction_id)  # of an earlier connection that had the same id

    def get(self, transaction_id: Hashable) -> Transaction:
        transaction = self.find(transaction_id)
        if transaction is None:
            raise TransactionError(
                f"transaction {transaction_id} was never started or has ended", XA_NO_SUCH_TRANSACTION
            )
        return transaction

    def was_committed(self, transaction_id: Hashable) -> bool:
        """Whether it is known to have committed: then a repeated commit is answered, and not carried out."""
        return self._outcomes.get(transaction_id) is True

    def was_rolled_back(self, transaction_id: Hashable) -> bool:
        return self._outcomes.get(transaction_id) is False

    def close(self, transaction: Transaction, *, committed: bool) -> None:
        """Forget *transaction*, but for its outcome."""
        del self._open[transaction.transaction_id]
        self._found = self._found_id = None
        self._counts[transaction.connection] -= 1
        if not self._counts[transaction.connection]:
            del self._counts[transaction.connection]
        self.remember(transaction, committed=committed)

    def remember(self, transaction: Transaction, *, committed: bool) -> None:
        """Remember how it ends. Transaction managers know the outcome of XA themselves: theirs is not remembered."""
        if not transaction.is_xa:
            self._outcomes[transaction.transaction_id] = committed

    def restore_commits(self, commits: Iterable[Hashable]) -> None:
        """What an earlier run has committed is not committed again."""
        self._outcomes.update((transaction_id, True) for transaction_id in commits)

    def of_connection(self, connection: Connection) -> list[Transaction]:
        """The open transactions that end with *connection*: all but prepared ones."""
        return [t for t in self._open.values() if t.connection is connection and t.state is TransactionState.ACTIVE]

    def prepared(self) -> list[Transaction]:
        return [t for t in self._open.values() if t.state is TransactionState.PREPARED]
