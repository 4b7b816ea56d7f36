"""What a large transaction acknowledges: listed in one record, then removed in slices (`large_commits.py`).

The list is a `StagedRecord` of the broker's own: by place, the sequences of the persistent messages as runs. Once it is
durable they are consumed, whatever happens. The list stays as it is until the last of them is removed, because to
remove a message twice changes nothing. A start that finds a list removes what is left of it, before it shows anything.
"""

from hashlib import blake2b
from typing import Final, final

from ackwire.broker.in_flight import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.slices import Budget
from ackwire.broker.transactions import Transaction
from ackwire.store.contract import Place, StagedRecord, Store

_PRODUCER: Final = ""
"""No producer of batches has an empty name."""
_NAME: Final = "acks "
"""How the part of such a list begins."""
_PORTION: Final = 128
"""Messages that are listed or removed between two looks at the budget."""
_LISTED_PER_UNIT: Final = 8
_RESTORED_PORTION: Final = 256


def is_acks(note: StagedRecord) -> bool:
    """Whether *note* lists what a transaction has consumed."""
    return note.producer == _PRODUCER and note.part.startswith(_NAME)


@final
class AckList:
    """What one transaction acknowledges."""

    def __init__(self, transaction: Transaction, portion: int, *, is_recorded: bool) -> None:
        self.transaction = transaction
        self._portion = portion
        self.is_recorded = is_recorded
        """Whether the store keeps anything through a crash."""
        self._runs: dict[Place, list[int]] = {}
        self._ack = 0
        self._queue = 0
        self._offset = 0
        """What is listed next: which of the acks, of their queues, and of the messages there."""
        self.key = ""

    def list_some(self, budget: Budget) -> bool:
        """Go on with the list; whether there is more."""
        if not self.is_recorded:
            return False
        acks = self.transaction.acks
        while self._ack < len(acks):
            by_queue = acks[self._ack].by_queue
            if self._queue == len(by_queue):
                self._ack += 1
                self._queue = 0
                continue
            queue, messages = by_queue[self._queue]
            portion = messages[self._offset : self._offset + self._portion]
            self._offset += len(portion)
            if self._offset == len(messages):
                self._queue += 1
                self._offset = 0
            if queue.is_stored:
                _add_runs(
                    self._runs.setdefault(queue.place, []),
                    [message.sequence for message in portion if message.persistent],
                )
            if budget.spend(1 + len(portion) // _LISTED_PER_UNIT):
                return True
        return False

    def record(self) -> StagedRecord | None:
        """The list; None if there is nothing on it."""
        held = tuple([(place, tuple(runs)) for place, runs in self._runs.items() if runs])
        if not held:
            return None
        identity = repr(self.transaction.transaction_id).encode("utf-8", "surrogatepass")
        name = f"{_NAME}{held[0][1][0]} {blake2b(identity, digest_size=16).hexdigest()}"
        note = StagedRecord(_PRODUCER, name, 0, self.transaction.since_ms, True, held)
        self.key = note.key
        return note


def _add_runs(runs: list[int], sequences: list[int]) -> None:
    expected = runs[-2] + runs[-1] if runs else -1
    for sequence in sequences:
        if sequence == expected:
            runs[-1] += 1
        else:
            runs.append(sequence)
            runs.append(1)
        expected = sequence + 1


@final
class LargeAcks:
    """Carries out what large transactions have acknowledged."""

    def __init__(self, store: Store, units: int) -> None:
        """*units* of work are a slice."""
        self._store = store
        self._portion = min(_PORTION, units)
        self._restored: list[tuple[StagedRecord, list[tuple[Queue, list[int]]]]] = []
        """Lists of the last run, and what is left of each."""

    def start_list(self, transaction: Transaction) -> AckList:
        """An empty list for *transaction*, to which nothing is added any more."""
        return AckList(transaction, self._portion, is_recorded=self._store.pages)

    def record(self, acked: AckList) -> None:
        """From here on all that is on the list is consumed."""
        note = acked.record()
        if note is not None:
            self._store.put_state_record(note)
        acked.transaction.acks.reverse()  # the first is taken from the end

    def remove_some(self, acked: AckList, budget: Budget) -> tuple[int, bool]:
        """Carry out some of the acks; how many, and whether there are more. With the last one the list ends."""
        acks = acked.transaction.acks
        removed = 0
        while acks:
            ack = acks[-1]
            if not ack.by_queue:
                acks.pop()
                continue
            queue, messages = ack.by_queue[0]
            portion = messages[: self._portion]
            if len(portion) == len(messages):
                del ack.by_queue[0]
            else:
                del messages[: self._portion]
            ack.finish(queue, portion)
            removed += len(portion)
            if budget.spend(1 + len(portion)):
                break
        while acks and not acks[-1].by_queue:
            acks.pop()
        if not acks and acked.key:
            self._store.drop_state_record(acked.key)
        return removed, bool(acks)

    # ---- after a restart ---------------------------------------------------------------------------------------

    def restore(self, note: StagedRecord, left: list[tuple[Queue, list[int]]]) -> None:
        """A list of the last run, of which *left* is still there."""
        self._restored.append((note, left))

    def start(self) -> None:
        """Remove what is left of the lists of the last run; they end."""
        restored, self._restored = self._restored, []
        for note, left in restored:
            with self._store.atomically():
                for queue, sequences in left:
                    if queue.audit is not None:
                        self._tell(queue, sequences)
                    self._store.remove_many(queue.place, sequences)
                self._store.drop_state_record(note.key)

    def _tell(self, queue: Queue, sequences: list[int]) -> None:
        assert queue.audit is not None
        for first in range(0, len(sequences), _RESTORED_PORTION):
            messages = self._store.load(queue.place, sequences[first : first + _RESTORED_PORTION])
            there = [it for it in messages if it is not None]
            queue.audit.acked_all(queue, there, None, AckKind.STANDARD, None)
