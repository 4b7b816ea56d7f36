"""Ack kinds, and which messages in flight an ack speaks of (SEMANTICS D, E).

`InFlight` holds what a consumer was sent and has not finished, in the order of dispatch. A range runs from the first
message id to the last in that order; without a first id it starts at the oldest.
"""

from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum
from typing import final

from ackwire.errors import BrokerError
from ackwire.message import Message


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
    """Messages dispatched to one consumer and not yet finished."""

    __slots__ = ("_messages", "_undecided")

    def __init__(self) -> None:
        self._undecided: set[bytes] = set()
        """Keys of messages that an open transaction has acknowledged: they may come back."""
        # Not a plain dict: its first entry would be ever slower to find while its head is being consumed.
        self._messages: OrderedDict[bytes, Message] = OrderedDict()

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, key: bytes) -> bool:
        """Whether a message of that key is here, or may come back."""
        return key in self._messages or key in self._undecided

    def add(self, message: Message) -> None:
        self._messages[message.key] = message

    def has(self, message: Message) -> bool:
        """Whether it is this very message that is in flight."""
        return self._messages.get(message.key) is message

    def take_one(self, key: bytes) -> Message:
        """Remove the message *key*."""
        message = self._messages.pop(key, None)
        if message is None:
            raise _unmatched(key)
        return message

    def take_range(self, first: bytes | None, last: bytes, count: int) -> list[Message]:
        """Remove the messages from *first* to *last*, which must be *count*."""
        if count == 1 and (first is None or first == last):
            return [self.take_one(last)]
        messages = self.range(first, last)
        if count != len(messages):
            raise UnmatchedAck(
                f"an ack says it covers {count} messages, but {len(messages)} are in flight in its range"
            )
        for message in messages:
            del self._messages[message.key]
        return messages

    def range(self, first: bytes | None, last: bytes) -> list[Message]:
        """The messages from *first* to *last*, left where they are."""
        if last not in self._messages:
            raise _unmatched(last)
        found: list[Message] = []
        started = first is None
        for key, message in self._messages.items():
            started = started or key == first
            if started:
                found.append(message)
            if key == last:
                break
        if not started:
            raise _unmatched(first or last)
        return found

    def position(self, key: bytes) -> int:
        """How many messages are in flight up to *key*, itself included."""
        return len(self.range(None, key))

    def expect_back(self, messages: list[Message]) -> None:
        """*messages*, taken out by an ack in a transaction, may come back."""
        self._undecided.update(message.key for message in messages)

    def decide(self, messages: list[Message]) -> None:
        """The transaction has ended."""
        self._undecided.difference_update(message.key for message in messages)

    def put_back_first(self, messages: list[Message]) -> None:
        """Messages whose ack was undone are the oldest in flight again."""
        for message in reversed(messages):
            self._messages[message.key] = message
            self._messages.move_to_end(message.key, last=False)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())


def _unmatched(key: bytes) -> UnmatchedAck:
    return UnmatchedAck(f"an ack names message {key.hex()}, which is not in flight to this consumer")
