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
_MOVED_PER_STEP: Final = 500
"""Messages that wait for one consumer, looked at in one step; those that are due go back to the lists, in 1 ms."""


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
        for subscription in [it for it in self._consumers if it.waiting_in]:
            yield from self._return_due(subscription, now_ms)
        for level in self._contents.levels[:]:
            if level.may_be_due(now_ms):
                yield from self._expire_level(level, now_ms)

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

    def _return_due(self, subscription: QueueSubscription, now_ms: int) -> Iterator[None]:
        """Put the expired messages that wait for *subscription* alone back in the lists, where they are found next.

        It looks at the last ones first: then those that go back stand before all that went back, which costs least.
        What comes or goes between two steps may make it pass a message over, up to the next sweep.
        """
        place, waiting_in = self._contents.place, subscription.waiting_in
        end = len(waiting_in.get(place, ()))
        has_returned = False
        while end > 0 and (waiting := waiting_in.get(place)) is not None:
            end = min(end, len(waiting))
            start = max(0, end - _MOVED_PER_STEP)
            due = _take_due(waiting, start, end, now_ms)
            if not waiting:
                del waiting_in[place]
            if due:
                has_returned = True
                self._put_in_lists(due)
            end = start
            yield None
        if has_returned and subscription in self._consumers.lane_subscriptions(subscription):
            self._dispatcher.resume(subscription)

    def _put_in_lists(self, due: list[Message | PagedOut]) -> None:
        """Put *due* in their places. Consumers do not look at them again: they are to expire here, in slices."""
        contents = self._contents
        for number, level in enumerate(contents.levels):
            mine = [it for it in due if contents.level_of(it) == number]
            if mine:
                level.put_back(mine)


def _take_due(
    waiting: deque[tuple[Message | PagedOut, bool]], start: int, end: int, now_ms: int
) -> list[Message | PagedOut]:
    """Take what is due out of *waiting*, from *start* to *end*; the others keep their order."""
    due: list[Message | PagedOut] = []
    kept: list[tuple[Message | PagedOut, bool]] = []
    waiting.rotate(-start)
    for _ in range(start, end):
        it = waiting.popleft()
        if _is_due(it[0], now_ms):
            due.append(it[0])
        else:
            kept.append(it)
    waiting.extendleft(reversed(kept))
    waiting.rotate(start)
    return due


def _is_due(entry: Message | PagedOut, now_ms: int) -> bool:
    return 0 < entry.expiration <= now_ms
