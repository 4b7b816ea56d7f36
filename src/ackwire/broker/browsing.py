"""What a browser is shown: a queue as it was at one moment, however long that is (SEMANTICS A2, B6).

Messages in memory are held fast, and shown though they are consumed meanwhile. Those that are paged out are read when
their turn to be shown comes; what is gone by then is not shown.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from ackwire.broker.paging import BATCH_MESSAGES, QueuePages
from ackwire.broker.pending import PagedOut, PendingList
from ackwire.message import Message

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
        self._pinned: list[list[Message]] = []
        """For each level, what is in memory, in order."""
        self._last: list[int] = []
        """For each level, the last sequence if something is paged out, or nothing more than what is pinned."""
        for number, level in enumerate(levels):
            held = in_hand(number)
            messages = level.in_memory() + [entry for entry in held if isinstance(entry, Message)]
            self._pinned.append(sorted(messages, key=_sequence_of))
            paged = [level.last_sequence] if level.paged_count else []
            paged += [entry.sequence for entry in held if isinstance(entry, PagedOut)]
            self._last.append(max(paged, default=_NOTHING))

    def batches(self) -> Iterator[list[Message]]:
        """The messages in the order of their dispatch, some at a time; each is let go when the next is asked for."""
        for number in range(len(self._levels) - 1, -1, -1):
            for batch in self._of_level(number):
                for start in range(0, len(batch), BATCH_MESSAGES):
                    yield batch[start : start + BATCH_MESSAGES]

    def _of_level(self, number: int) -> Iterator[list[Message]]:
        pinned, last, after = self._pinned[number], self._last[number], 0
        self._pinned[number] = []
        while after < last:
            found, up_to = self._pages.look(self._levels[number], after, last)
            found += self._pages.peek(it for it in self._in_hand(number) if after < it.sequence <= up_to)
            shown_until = bisect_right(pinned, up_to, key=_sequence_of)
            seen = {message.sequence: message for message in (*found, *pinned[:shown_until])}
            pinned = pinned[shown_until:]
            yield [seen[sequence] for sequence in sorted(seen)]
            after = up_to
        yield pinned


def _sequence_of(message: Message) -> int:
    return message.sequence
