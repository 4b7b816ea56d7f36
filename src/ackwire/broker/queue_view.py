"""What is in one queue, for operators, browsers, questions and the audit. Nothing changes by looking."""

from collections.abc import Callable, Iterator
from typing import final

from ackwire.broker.browse_snapshot import Snapshot
from ackwire.broker.fetching import Fetch
from ackwire.broker.paging import Shown
from ackwire.broker.pending import NO_LIMIT, PagedOut
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.reservations import Reservations
from ackwire.broker.subscription import QueueSubscription
from ackwire.jms.message import Message

Row = tuple[int, bytes, int]
"""A message for bulk readers: its number or sequence, its bytes, and how often it was delivered before."""

OnRows = Callable[[list[Row], int | None], None]
"""Gets rows, and the sequence of the last message that was looked at; None if there was none."""

Batch = list[Message] | Fetch
"""Messages; or what has to arrive before the next messages can be shown."""


@final
class QueueView:
    """Shows one queue."""

    def __init__(self, contents: QueueContents, consumers: QueueConsumers, reservations: Reservations) -> None:
        self._contents = contents
        self._consumers = consumers
        self._reservations = reservations
        self._place = contents.place

    # ---- counts ------------------------------------------------------------------------------------------------

    @property
    def message_count(self) -> int:
        """All messages of the queue, without those whose acks wait for the end of a transaction."""
        owns = self._contents.owns
        in_flight = sum(
            sum(map(owns, s.in_flight)) if s.has_several_queues else len(s.in_flight) for s in self._consumers
        )
        return self.pending_count + in_flight + len(self._contents.set_aside) + self._reservations.told_count

    @property
    def pending_count(self) -> int:
        """Messages that wait for a consumer."""
        waiting = sum(len(s.waiting_in.get(self._place, ())) for s in self._consumers)
        return sum(map(len, self._contents.levels)) + waiting

    @property
    def paged_count(self) -> int:
        """Pending messages that are not in memory."""
        waiting = (entry for s in self._consumers for entry, _ in s.waiting_in.get(self._place, ()))
        return sum(level.paged_count for level in self._contents.levels) + sum(
            isinstance(it, PagedOut) for it in waiting
        )

    @property
    def in_flight_count(self) -> int:
        return sum(1 for subscription in self._consumers for it in subscription.in_flight if self._contents.owns(it))

    @property
    def group_count(self) -> int:
        return len(self._consumers.groups)

    def group_owner(self, group_id: str) -> QueueSubscription | None:
        """The consumer that a message group is bound to."""
        return self._consumers.groups.holder(group_id)

    # ---- messages ----------------------------------------------------------------------------------------------

    def browse(self) -> Iterator[Batch]:
        """Every message that is here now, in order, those in flight included: what a browser sees, in batches."""
        return Snapshot(self._contents.levels, self._contents.pages, self._with_consumers).batches()

    def pending_batches(self) -> Iterator[Batch]:
        """Everything that waits now, in order and in batches; what is paged out is read, and stays out."""
        yield from self.pending()
        for subscription in list(self._consumers):
            yield from self.waiting_for(subscription)

    def pending(self) -> Iterator[Batch]:
        """The messages that wait for any consumer now, in the order of dispatch, in batches that are read likewise."""
        levels, pages = self._contents.levels, self._contents.pages
        ends = [level.last_sequence for level in levels]
        for number in range(len(levels) - 1, -1, -1):
            after = 0
            while after < ends[number]:
                listed = pages.listed(levels[number], after, ends[number])
                yield from _arrived(pages.read(listed))
                after = listed[-1].sequence if listed else ends[number]

    def waiting_for(self, subscription: QueueSubscription) -> Iterator[Batch]:
        """The messages that wait for *subscription* alone now, without those that have gone when their batch is due."""
        pages = self._contents.pages
        left = [it.sequence for it, _ in subscription.waiting_in.get(self._place, ())]
        while left:
            here = {it.sequence: it for it, _ in subscription.waiting_in.get(self._place, ())}
            entries = [here[sequence] for sequence in left if sequence in here]
            batch = pages.first_batch(entries)
            left = [it.sequence for it in entries[len(batch) :]]
            yield from _arrived(pages.read(batch))

    def waiting_entries(self) -> Iterator[tuple[Message | int, int]]:
        """Everything that waits, with its sequence; a ticket stands for what is paged out."""
        for level in self._contents.levels:
            yield from level.entries()
        for subscription in self._consumers:
            for it, _ in subscription.waiting_in.get(self._place, ()):
                yield (it.ticket if isinstance(it, PagedOut) else it), it.sequence

    def _with_consumers(self, level: int) -> list[Message | PagedOut]:
        """The messages of a level that are in flight, or wait for one consumer alone."""
        contents = self._contents
        found: list[Message | PagedOut] = []
        for subscription in self._consumers:
            found += [entry for entry, _ in subscription.waiting_in.get(self._place, ())]
            found += [message for message in subscription.in_flight if contents.owns(message)]
        return [entry for entry in found if contents.level_of(entry) == level]

    # ---- rows for bulk readers ---------------------------------------------------------------------------------

    def sequences(self) -> list[int]:
        """The sequences of all that wait here or are in flight, in order."""
        levels = self._contents.levels
        found = [it.sequence for level in range(len(levels)) for it in self._with_consumers(level)]
        for level in levels:
            found += level.sequences()
        return sorted(found)

    def rows(self, after: int, to: int, limit: int, on_rows: OnRows) -> None:
        """Call *on_rows* with the next messages behind *after*, up to *to*, at most *limit*, and the sequence of the
        last one; with no sequence if there are no more. What cannot be read is left out, and has been reported."""
        found: dict[int, Shown] = {}
        for number, level in enumerate(self._contents.levels):
            found.update((it.sequence, it) for it in level.between(after, to, limit, NO_LIMIT))
            found.update((it.sequence, it) for it in self._with_consumers(number) if after < it.sequence <= to)
        sequences = sorted(found)[:limit]
        if not sequences:
            on_rows([], None)
            return
        fetch = self._contents.pages.read([found[it] for it in sequences])
        fetch.when_arrived(lambda: on_rows(_rows(sequences, fetch.messages), sequences[-1]))


def _rows(sequences: list[int], messages: list[Message | None]) -> list[Row]:
    return [
        (sequence, message.frame, message.redelivery_counter)
        for sequence, message in zip(sequences, messages, strict=True)
        if message is not None
    ]


def _arrived(fetch: Fetch) -> Iterator[Batch]:
    """The messages of *fetch*, after itself if they have yet to arrive."""
    if not fetch.has_arrived:
        yield fetch
    yield [it for it in fetch.messages if it is not None]
