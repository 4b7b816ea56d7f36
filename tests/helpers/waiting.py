"""What waits in a queue, read on the spot: the broker itself never waits for its store."""

from collections.abc import Iterator

from ackwire.broker.fetching import Fetch
from ackwire.broker.pending import NO_LIMIT, PagedOut
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription
from ackwire.broker.why.reasons import Steps
from ackwire.jms.message import Message


def pending_in(queue: Queue) -> Iterator[Message]:
    """The messages that wait for any consumer, in the order of dispatch."""
    for level in reversed(queue.contents.levels):
        for it in level.between(0, NO_LIMIT, NO_LIMIT, NO_LIMIT):
            yield from _read(queue, it.sequence, it.entry)


def waiting_for(queue: Queue, subscription: QueueSubscription) -> Iterator[Message]:
    """The messages of *queue* that wait for *subscription* alone."""
    for entry, _ in list(subscription.waiting_in.get(queue.place, ())):
        yield from _read(queue, entry.sequence, entry.ticket if isinstance(entry, PagedOut) else entry)


def _read(queue: Queue, sequence: int, entry: Message | int) -> list[Message]:
    """The message of *entry*; none if it is lost."""
    if isinstance(entry, Message):
        return [entry]
    pager = queue.contents.pages._pager
    if entry:
        found = pager._load_spilled(queue.place, entry)
    else:
        [found] = queue.contents.store.load(queue.place, [sequence])
    return [] if found is None else [found]


def answered(steps: Steps[list[str]]) -> list[str]:
    """The answer of a query, of a broker whose store answers at once."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            lines: list[str] = end.value
            return lines
        assert not isinstance(step, Fetch) or step.has_arrived
