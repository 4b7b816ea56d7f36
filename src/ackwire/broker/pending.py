"""Messages that wait in a queue, in order, with gaps where some were taken out of turn.

Positions count from the first message ever appended, so they stay valid while the list is consumed from the front. A
message that is taken leaves a gap; if it comes back it goes into its gap, in front of all that came later (H1). The
list of sequences beside the messages is what makes finding a gap a binary search.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, final

from ackwire.message import Message

_COMPACT_FROM: Final = 1024
"""Gaps at the front are given back when there are more of them than this, and more than messages."""


@final
class PendingList:
    """An ordered list with cheap ends, gaps, and positions."""

    __slots__ = ("_base", "_count", "_head", "_items", "_sequences")

    def __init__(self) -> None:
        self._items: list[Message | None] = []
        self._sequences: list[int] = []
        self._base = 0
        self._head = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        return (message for message in self._items[self._head :] if message is not None)

    @property
    def first_position(self) -> int:
        return self._base + self._head

    def append(self, message: Message) -> None:
        """Add the newest message; its sequence is above all others."""
        assert not self._sequences or message.sequence > self._sequences[-1], "messages arrive in order"
        self._items.append(message)
        self._sequences.append(message.sequence)
        self._count += 1

    def next_from(self, position: int) -> tuple[int, Message] | None:
        """The first message at or behind *position*, and where it is."""
        items = self._items
        index = max(position - self._base, self._head)
        while index < len(items):
            message = items[index]
            if message is not None:
                return self._base + index, message
            index += 1
        return None

    def take(self, position: int) -> Message:
        """Remove the message at *position*, leaving a gap."""
        index = position - self._base
        message = self._items[index]
        assert message is not None, "there is a message at every position that next_from returned"
        self._items[index] = None
        self._count -= 1
        if index == self._head:
            self._advance_head()
        return message

    def _advance_head(self) -> None:
        items, head = self._items, self._head
        while head < len(items) and items[head] is None:
            head += 1
        self._head = head
        if head == len(items):
            self._base += head
            items.clear()
            self._sequences.clear()
            self._head = 0
        elif head > _COMPACT_FROM and head * 2 > len(items):
            del items[:head]
            del self._sequences[:head]
            self._base += head
            self._head = 0

    def put_back(self, messages: list[Message]) -> int:
        """Return *messages* to their places; the answer is the foremost position that changed."""
        ordered = sorted(messages, key=lambda message: message.sequence)
        first_known = self._sequences[0] if self._sequences else None
        front = [m for m in ordered if first_known is None or m.sequence < first_known]
        foremost = self._base + len(self._items)
        if front:
            self._items[:0] = front
            self._sequences[:0] = [message.sequence for message in front]
            self._base -= len(front)
            self._head = 0
            foremost = self._base
        for message in ordered[len(front) :]:
            foremost = min(foremost, self._fill_gap(message))
        self._count += len(ordered)
        return foremost

    def _fill_gap(self, message: Message) -> int:
        index = bisect_left(self._sequences, message.sequence)
        if index < len(self._sequences) and self._sequences[index] == message.sequence:
            assert self._items[index] is None, "a message is in one place only"
            self._items[index] = message
        else:
            self._items.insert(index, message)
            self._sequences.insert(index, message.sequence)
        self._head = min(self._head, index)
        return self._base + index

    def remove(self, message: Message) -> bool:
        """Remove *message* wherever it stands; False if it is not here."""
        index = bisect_left(self._sequences, message.sequence)
        if index >= len(self._items) or self._items[index] is not message:
            return False
        self.take(self._base + index)
        return True

    @property
    def is_sparse(self) -> bool:
        """Whether there are many gaps between the messages, and more than messages: time for `compact`."""
        gaps = len(self._items) - self._head - self._count
        return gaps > _COMPACT_FROM and gaps > self._count

    def compact(self, positions: list[int]) -> list[int]:
        """Close all gaps; the answer is where each of *positions* has moved to."""
        kept = [index for index, message in enumerate(self._items) if message is not None]
        moved = [self._base + bisect_left(kept, position - self._base) for position in positions]
        self._items = [self._items[index] for index in kept]
        self._sequences = [self._sequences[index] for index in kept]
        self._head = 0
        return moved

    def clear(self) -> list[Message]:
        """Remove everything, in order."""
        messages = list(self)
        self._base += len(self._items)
        self._items.clear()
        self._sequences.clear()
        self._head = 0
        self._count = 0
        return messages
