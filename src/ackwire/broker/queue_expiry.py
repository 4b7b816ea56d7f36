"""Removes the expired messages of one queue (SEMANTICS A6)."""

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from ackwire.broker.dispatch import Dispatcher
from ackwire.broker.pending import NO_LIMIT, PagedOut, PendingList
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.subscription import QueueSubscription
from ackwire.jms.message import Message

_PAGED_IN_AT_ONCE: Final = 16
"""Expired messages that are paged in together: each may become a dead letter."""
_LOOKS_PER_STEP: Final = 2000
"""Messages whose expiration is compared in one step."""


@final
class QueueExpiry:
    """Looks for messages of one queue whose time is over."""

    def __init__(self, contents: QueueContents, consumers: QueueConsumers, dispatcher: Dispatcher) -> None:
        self._contents = contents
        self._consumers = consumers
        self._dispatcher = dispatcher

    def expire_due(self, now_ms: int) -> Iterator[None]:
        """Remove the pending messages whose time is over, one with each step or after a look at many."""
        for level in self._contents.levels:
            if level.may_be_due(now_ms):
                yield from self._expire_level(level, now_ms)
        for subscription in [it for it in self._consumers if it.waiting_in]:
            self._expire_waiting(subscription, now_ms)

    def _expire_level(self, level: PendingList, now_ms: int) -> Iterator[None]:
        level.begin_look()
        after: int | None = 0
        earliest = NO_LIMIT
        while after is not None and not self._contents.is_gone:
            due, after, next_due = level.due(after, now_ms, _LOOKS_PER_STEP)
            earliest = min(earliest, next_due)
            yield
            for start in range(0, len(due), _PAGED_IN_AT_ONCE):
                batch = due[start : start + _PAGED_IN_AT_ONCE]
                self._page_in(level, batch)
                for sequence in batch:
                    self._expire_one(level, sequence)
                    yield
        level.end_look(earliest)

    def _expire_one(self, level: PendingList, sequence: int) -> None:
        position = level.position_of(sequence)
        message = None if position is None else level.at(position)
        if position is not None and isinstance(message, int):  # paged out again meanwhile
            self._page_in(level, [sequence])
            message = level.at(position)
        if position is not None and isinstance(message, Message):  # no consumer has taken it
            level.take(position)
            self._contents.expire(message)

    def _page_in(self, level: PendingList, sequences: list[int]) -> None:
        listed = [it for sequence in sequences for it in level.between(sequence - 1, sequence, 1, 0)]
        self._contents.pages.page_in_these(level, [it for it in listed if isinstance(it.entry, int)])

    def _expire_waiting(self, subscription: QueueSubscription, now_ms: int) -> None:
        contents = self._contents
        waiting = subscription.waiting_in.get(contents.place, deque())
        due = [entry for entry, _ in waiting if 0 < entry.expiration <= now_ms]
        if not due:
            return
        kept = [entry for entry in waiting if not 0 < entry[0].expiration <= now_ms]
        waiting.clear()
        waiting.extend(kept)
        for entry in due:
            message = contents.pages.unshelved(entry) if isinstance(entry, PagedOut) else entry
            if message is not None:
                contents.expire(message)
        self._dispatcher.resume(subscription)
