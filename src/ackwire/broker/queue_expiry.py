"""Removes the expired messages of one queue (SEMANTICS A6)."""

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from ackwire.broker.dispatch import Dispatcher
from ackwire.broker.fetching import Fetch
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

    def expire_due(self, now_ms: int) -> Iterator[Fetch | None]:
        """Remove the pending messages whose time is over, one with each step or after a look at many. A step that
        yields a `Fetch` has to be followed by the next one when that has arrived."""
        for level in self._contents.levels[:]:
            if level.may_be_due(now_ms):
                yield from self._expire_level(level, now_ms)
        for subscription in [it for it in self._consumers if it.waiting_in]:
            yield from self._expire_waiting(subscription, now_ms)

    def _expire_level(self, level: PendingList, now_ms: int) -> Iterator[Fetch | None]:
        level.begin_look()
        after: int | None = 0
        earliest = NO_LIMIT
        while after is not None and not self._contents.is_gone:
            due, after, next_due = level.due(after, now_ms, _LOOKS_PER_STEP)
            earliest = min(earliest, next_due)
            yield None
            for start in range(0, len(due), _PAGED_IN_AT_ONCE):
                batch = due[start : start + _PAGED_IN_AT_ONCE]
                fetch = self._page_in(level, batch)
                if not fetch.has_arrived:
                    yield fetch
                for sequence in batch:
                    if not self._expire_one(level, sequence):
                        earliest = min(earliest, now_ms)
                    yield None
        level.end_look(earliest)

    def _expire_one(self, level: PendingList, sequence: int) -> bool:
        """Remove an expired message, if it still waits; False if it is to be looked at again."""
        position = level.position_of(sequence)
        if position is None or self._contents.is_gone:
            return True
        message = level.at(position)
        if not isinstance(message, Message):  # paged out again meanwhile
            return False
        level.take(position)
        self._contents.expire(message)
        return True

    def _page_in(self, level: PendingList, sequences: list[int]) -> Fetch:
        listed = [it for sequence in sequences for it in level.between(sequence - 1, sequence, 1, 0)]
        return self._contents.pages.page_in_these(level, [it for it in listed if isinstance(it.entry, int)])

    def _expire_waiting(self, subscription: QueueSubscription, now_ms: int) -> Iterator[Fetch | None]:
        """Remove the expired messages that wait for *subscription* alone."""
        contents = self._contents
        place, waiting_in = contents.place, subscription.waiting_in
        has_expired = True
        while has_expired:
            paged = [it for it, _ in waiting_in.get(place, ()) if _is_due(it, now_ms) and isinstance(it, PagedOut)]
            fetch = contents.pages.unshelve_these(waiting_in, paged[:_PAGED_IN_AT_ONCE])
            if not fetch.has_arrived:
                yield fetch
            waiting = waiting_in.get(place, deque())
            due = [it for it, _ in waiting if isinstance(it, Message) and _is_due(it, now_ms)]
            has_expired = bool(due) and not contents.is_gone
            if has_expired:
                kept = [it for it in waiting if not (isinstance(it[0], Message) and _is_due(it[0], now_ms))]
                waiting.clear()
                waiting.extend(kept)
                if not kept:
                    del waiting_in[place]
                for message in due:
                    contents.expire(message)
                if subscription in self._consumers.lane_subscriptions(subscription):
                    self._dispatcher.resume(subscription)
                yield None


def _is_due(entry: Message | PagedOut, now_ms: int) -> bool:
    return 0 < entry.expiration <= now_ms
