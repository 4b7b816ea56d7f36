"""Ack kinds, and which messages in flight an ack speaks of (SEMANTICS D, E).

`InFlight` holds what a consumer was sent and has not finished, in the order of dispatch. A range runs from the first
message id to the last in that order; without a first id it starts at the oldest.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum
from itertools import repeat
from typing import Final, final

from ackwire.errors import BrokerError
from ackwire.jms.message import Message
from ackwire.util.plurals import agree, counted

_COMPACT_FROM: Final = 64
"""Free slots are given back when there are more of them than this, and more than messages."""


class AckKind(IntEnum):
    """What an ack says about its messages; the values are ActiveMQ's."""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class UnmatchedAck(BrokerError):
    """An ack for messages that are not in flight to this consumer; nothing was acknowledged."""


@final
class InFlight:
    """Messages dispatched to one consumer and not yet finished.

    A list in the order of dispatch, and beside it where each key stands, so that no ack costs a walk over what it does
    not speak of. Positions count from the first message ever added. A message that is finished out of turn leaves a
    gap; the positions of gaps are kept in order, so that counting up to a message is a binary search.
    """

    __slots__ = ("_base", "_gaps", "_head", "_positions", "_slots", "_undecided")

    def __init__(self) -> None:
        self._undecided: set[bytes] = set()
        """Keys of messages that an open transaction has acknowledged: they may come back."""
        self._positions: dict[bytes, int] = {}
        self._slots: list[Message | None] = []
        self._base = 0
        """The position of the first slot."""
        self._head = 0
        """The slots in front of this one are free."""
        self._gaps: list[int] = []

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: bytes) -> bool:
        """Whether a message of that key is here, or may come back."""
        return key in self._positions or key in self._undecided

    def add(self, message: Message) -> None:
        slots = self._slots
        self._positions[message.key] = self._base + len(slots)
        slots.append(message)

    def has(self, message: Message) -> bool:
        """Whether it is this very message that is in flight."""
        position = self._positions.get(message.key)
        return position is not None and self._slots[position - self._base] is message

    def take_one(self, key: bytes) -> Message:
        """Remove the message *key*."""
        position = self._positions.pop(key, None)
        if position is None:
            raise _unmatched(key)
        slots = self._slots
        index = position - self._base
        message = slots[index]
        assert message is not None, "a position that is known is taken"
        slots[index] = None
        if index != self._head:
            self._leave_gap(position)
        elif index + 1 == len(slots):
            slots.clear()
            self._base = position + 1
            self._head = 0
        else:
            self._advance(index + 1)
        return message

    def take_all(self) -> None:
        """Remove all messages."""
        self._positions.clear()
        self._base += len(self._slots)
        self._slots.clear()
        self._gaps.clear()
        self._head = 0

    def _leave_gap(self, position: int) -> None:
        gaps = self._gaps
        if gaps and position < gaps[-1]:
            insort(gaps, position)
        else:
            gaps.append(position)
        if len(gaps) > _COMPACT_FROM and len(gaps) > len(self._positions):
            self._compact()

    def _advance(self, head: int) -> None:
        """The slots before *head* are free; those of gaps that follow are so, too."""
        gaps = self._gaps
        if gaps:
            passed = 0
            while passed < len(gaps) and gaps[passed] <= self._base + head:
                head = max(head, gaps[passed] - self._base + 1)
                passed += 1
            del gaps[:passed]
        self._head = head
        if head > _COMPACT_FROM and head * 2 > len(self._slots):
            del self._slots[:head]
            self._base += head
            self._head = 0

    def _compact(self) -> None:
        """Close all gaps."""
        messages = list(self)
        self._base += self._head
        self._head = 0
        self._gaps = []
        self._positions = {message.key: self._base + index for index, message in enumerate(messages)}
        self._slots = [*messages]

    def take_range(self, first: bytes | None, last: bytes, count: int) -> list[Message]:
        """Remove the messages from *first* to *last*, which must be *count*."""
        if count == 1 and (first is None or first == last):
            return [self.take_one(last)]
        begin, end = self._range(first, last)
        found = self._count(begin, end)
        if count != found:
            raise UnmatchedAck(
                f"an ack says it covers {counted(count, 'message')}, but {found} {agree(found, 'is', 'are')} in flight "
                "in its range"
            )
        start, stop = begin - self._base, end - self._base + 1
        messages = [message for message in self._slots[start:stop] if message is not None]
        for message in messages:
            del self._positions[message.key]
        self._slots[start:stop] = repeat(None, stop - start)
        if start == self._head:
            self._advance(stop)
            if not self._positions:
                self._compact()
            return messages
        self._gaps[bisect_left(self._gaps, begin) : bisect_right(self._gaps, end)] = range(begin, end + 1)
        if len(self._gaps) > _COMPACT_FROM and len(self._gaps) > len(self._positions):
            self._compact()
        return messages

    def check_range(self, first: bytes | None, last: bytes) -> None:
        """Raise `UnmatchedAck` unless *first* and *last* are here, in this order."""
        self._range(first, last)

    def _range(self, first: bytes | None, last: bytes) -> tuple[int, int]:
        """The positions from *first*, or the oldest, to *last*."""
        end = self._positions.get(last)
        if end is None:
            raise _unmatched(last)
        begin = self._base + self._head if first is None else self._positions.get(first)
        if begin is None or begin > end:
            raise _unmatched(first or last)
        return begin, end

    def _count(self, begin: int, end: int) -> int:
        """How many messages there are from position *begin* to *end*."""
        gaps = self._gaps
        return end - begin + 1 - (bisect_right(gaps, end) - bisect_left(gaps, begin) if gaps else 0)

    def position(self, key: bytes) -> int:
        """How many messages are in flight up to *key*, itself included."""
        return self._count(*self._range(None, key))

    def expect_back(self, messages: list[Message]) -> None:
        """*messages*, taken out by an ack in a transaction, may come back."""
        self._undecided.update(message.key for message in messages)

    def decide(self, messages: list[Message]) -> None:
        """The transaction has ended."""
        self._undecided.difference_update(message.key for message in messages)

    def put_back_first(self, messages: list[Message]) -> None:
        """Messages whose ack was undone are the oldest in flight again."""
        count = len(messages)
        if self._head < count:
            # As much again as there is: a rollback puts many back, one ack at a time.
            free = count + len(self._slots)
            self._slots[: self._head] = repeat(None, free)
            self._base -= free - self._head
            self._head = free
        self._slots[self._head - count : self._head] = messages
        self._head -= count
        first = self._base + self._head
        for index, message in enumerate(messages):
            self._positions[message.key] = first + index

    def __iter__(self) -> Iterator[Message]:
        return iter([message for message in self._slots[self._head :] if message is not None])


def _unmatched(key: bytes) -> UnmatchedAck:
    return UnmatchedAck(f"an ack names message {key.hex()}, which is not in flight to this consumer")
