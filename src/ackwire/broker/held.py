"""Messages that are in a queue and out of everybody's reach but one's, in an order of their own.

A cursor holds what it has been given and has not committed, and a staged batch what nobody is to see yet. There may be
millions, so only numbers are kept. The store has the messages.
"""

from array import array
from typing import final

from ackwire.store.contract import WaitingMessage
from ackwire.util.sequence_runs import Runs, runs_of


@final
class Held:
    """A list that grows at its end and is consumed from its front."""

    __slots__ = ("_expirations", "_priorities", "_sequences", "_sizes", "redeliveries", "unsafe")

    def __init__(self) -> None:
        self._sequences = array("q")
        self._expirations = array("q")
        self._priorities = array("b")
        self._sizes = array("I")
        self.redeliveries: dict[int, int] = {}
        """By sequence: how often those were delivered to others before, which the store does not know."""
        self.unsafe: set[int] = set()
        """The sequences of those that were not persistent, and are in the store only because they are held."""

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, message: WaitingMessage) -> None:
        self._sequences.append(message.sequence)
        self._expirations.append(message.expiration)
        self._priorities.append(message.priority)
        self._sizes.append(message.size_bytes)

    def add_many(self, sequences: "array[int]", priority: int, sizes: "array[int]") -> None:
        """Messages of one priority that never expire."""
        self._sequences.extend(sequences)
        self._expirations.frombytes(bytes(8 * len(sequences)))
        self._priorities.extend([priority] * len(sequences))
        self._sizes.extend(sizes)

    def sequences(self, start: int = 0, end: int | None = None) -> list[int]:
        return self._sequences[start:end].tolist()

    def messages(self) -> list[WaitingMessage]:
        columns = (self._sequences, self._expirations, self._priorities, self._sizes)
        return [WaitingMessage(*it) for it in zip(*columns, strict=True)]

    def first_bytes(self, count: int) -> int:
        """What the first *count* take."""
        return sum(self._sizes[:count])

    def drop_first(self, count: int) -> None:
        """Forget the first *count*."""
        if self.redeliveries or self.unsafe:
            for sequence in self.sequences(0, count):
                self.redeliveries.pop(sequence, None)
                self.unsafe.discard(sequence)
        for column in (self._sequences, self._expirations, self._priorities, self._sizes):
            del column[:count]

    def runs(self) -> Runs:
        return runs_of(self._sequences)
