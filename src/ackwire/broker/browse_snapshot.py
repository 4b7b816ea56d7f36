"""The snapshot of a queue for a browser, read in batches (SEMANTICS A2, B6).

Nothing is kept of the queue but how far it went at that moment. A batch of messages is looked up when its turn to be
shown comes; what is gone by then is not shown. So a browser that stops half way keeps one batch alive, and no more.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from ackwire.broker.fetching import Fetch
from ackwire.broker.paging import QueuePages, Shown
from ackwire.broker.pending import PagedOut, PendingList
from ackwire.jms.message import Message

_InHand = Callable[[int], list[Message | PagedOut]]
"""What consumers have of a level, or what waits for one of them alone."""

_NOTHING: Final = 0


@final
class Snapshot:
    """One look at a queue."""

    def __init__(self, levels: Sequence[PendingList], pages: QueuePages, in_hand: _InHand) -> None:
        self._pages = pages
        self._in_hand = in_hand
        self._levels = levels
        self._last = [
            max((level.last_sequence, *(entry.sequence for entry in in_hand(number))), default=_NOTHING)
            for number, level in enumerate(levels)
        ]
        """For each level, the last sequence that was there."""

    def batches(self) -> "Iterator[list[Message] | Fetch]":
        """The messages in the order of their dispatch, in batches; a batch is freed when the next one is read. A
        `Fetch` is yielded when the next batch has yet to arrive."""
        for number in range(len(self._levels) - 1, -1, -1):
            after, last = _NOTHING, self._last[number]
            while after < last:
                listed = self._pages.listed(self._levels[number], after, last)
                up_to = listed[-1].sequence if listed else last
                in_hand = [it for it in self._in_hand(number) if after < it.sequence <= up_to]
                entries = sorted([*listed, *in_hand], key=_sequence_of)
                batch = self._pages.first_batch(entries)
                if len(batch) < len(entries):
                    up_to = batch[-1].sequence
                fetch = self._pages.read(batch)
                if not fetch.has_arrived:
                    yield fetch
                yield [it for it in fetch.messages if it is not None]
                after = up_to


def _sequence_of(entry: Shown) -> int:
    return entry.sequence
