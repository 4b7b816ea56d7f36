"""The past of a retroactive durable subscription (SEMANTICS A3): messages published before its consumer came.

As in ActiveMQ, a new one (`consumer.retroactive=true`) gets the persistent messages that still wait for other durable
subscriptions of its topics. Where there are none, and each time that its consumer comes back and nothing waits for it,
it gets what the topic retains by policy (`retained_messages_max`). Selector and `noLocal` apply.

The work is cut into slices of the loop. Nothing is sent to the consumer before the last slice, and the copies have
sequences that were reserved when the consumer came: what is published meanwhile stands behind them. There is one for
each message that waits, and for each that an open transaction has acknowledged: a rollback in between brings it back. A
crash before the last slice leaves the subscription without the rest.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import merge
from typing import Final, final

from ackwire.broker.fetching import Fetch
from ackwire.broker.queue import Queue
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.topic import DurableSubscription, Topic
from ackwire.jms.destinations import Destination, matches_pattern
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock

_UNITS: Final = 5
"""Units of a slice that one message takes: it is examined, copied and recorded."""


@final
class Recall:
    """Brings the past of one durable subscription into its queue."""

    def __init__(
        self,
        durable: DurableSubscription,
        *,
        store: Store,
        clock: Clock,
        editor: MessageEditor,
        take_sequences: Callable[[int], int],
    ) -> None:
        self._durable = durable
        self._store = store
        self._clock = clock
        self._lookup = editor.lookup
        self._stamper = editor.stamper
        self._take_sequences = take_sequences
        self._past: Iterator[Message | Fetch | None] = iter(())
        self._slices: Slices | None = None
        self._next_sequence = 0
        self._end_sequence = 0
        """Behind the last sequence that is reserved."""

    def begin(
        self, others: Iterable[DurableSubscription], retaining: Iterable[Topic], undecided: int, slices: Slices
    ) -> None:
        """Start, before the consumer is added to the queue, with what waits for *others* or else what topics retain.
        Open transactions have acknowledged *undecided* messages, in whatever queues."""
        queue = self._durable.queue
        kept = [other.queue for other in others if other is not self._durable]
        retained = [] if queue.view.pending_count else self._retained(retaining)
        count = sum(other.view.message_count for other in kept) + len(retained)
        if count == 0:
            return
        self._next_sequence = self._take_sequences(count + undecided)
        self._end_sequence = self._next_sequence + count + undecided
        self._past = self._wanted(kept, retained)
        queue.dispatcher.begin_change()
        self._slices = slices
        if self._work(slices.budget()):
            slices.start(self._work)

    def _retained(self, topics: Iterable[Topic]) -> list[tuple[Message, str | None]]:
        found = [it for topic in topics if self._is_heard(topic.destination) for it in topic.retained()]
        return sorted(found, key=lambda it: it[0].sequence)

    def _wanted(
        self, kept: list[Queue], retained: list[tuple[Message, str | None]]
    ) -> Iterator[Message | Fetch | None]:
        """The messages that it gets, in order; None for each message examined that it does not get, and a `Fetch` for
        messages that have yet to arrive."""
        durable = self._durable
        found = False
        for message in _once(kept):
            if isinstance(message, Fetch):
                yield message
                continue
            wanted = message.persistent and self._is_heard(message.destination)
            wanted = wanted and durable.wants(message.origin.connection_id, self._lookup(message))
            found = found or wanted
            yield message if wanted else None
        for message, sender in () if found else retained:
            yield message if durable.wants(sender, self._lookup(message)) else None

    def _is_heard(self, topic: Destination) -> bool:
        return matches_pattern(self._durable.record.destination.name, topic.name)

    def _work(self, budget: Budget) -> bool:
        """One slice; True if there is more."""
        queue = self._durable.queue
        if queue.is_gone:
            return False
        has_ended = True  # a failure is an end, too: the consumer gets what is there
        try:
            copies, next_step = self._next_copies(budget)
            queue.accept_in_place(copies)
            has_ended = next_step is None
        finally:
            if has_ended:
                queue.dispatcher.end_change()
        if isinstance(next_step, Fetch):
            assert self._slices is not None
            next_step.when_arrived(partial(self._slices.start, self._work))
            return False
        return not has_ended

    def _next_copies(self, budget: Budget) -> tuple[list[Message], Fetch | Budget | None]:
        """The copies of one slice, and what ended it: messages that have yet to arrive, its budget, or None if there is
        no more."""
        now_ms = self._clock.now_ms()
        copies: list[Message] = []
        for message in self._past:
            if isinstance(message, Fetch):
                return copies, message
            if message is not None and not 0 < message.expiration <= now_ms:
                copies.append(self._copy(message, now_ms))
            if budget.spend(_UNITS):
                return copies, budget
        return copies, None

    def _copy(self, message: Message, now_ms: int) -> Message:
        copy = message.copy()
        self._stamper.stamp(copy, self._take_sequence(), now_ms)
        if copy.persistent:
            self._store.append(copy, [self._durable.key])
        return copy

    def _take_sequence(self) -> int:
        """The next sequence that is reserved. If more has come back than was counted, it is a new one: the copy stands
        behind what was published meanwhile, and takes no other message's place."""
        sequence = self._next_sequence
        if sequence >= self._end_sequence:
            return self._take_sequences(1)
        self._next_sequence = sequence + 1
        return sequence


def _once(queues: list[Queue]) -> Iterator[Message | Fetch]:
    """The messages of all *queues* in order, each once; a `Fetch` where a queue has yet to go on."""
    is_prioritized = any(queue.policy.prioritized for queue in queues)
    seen: set[int] = set()  # only with priorities: otherwise equal sequences are neighbours
    last = 0
    for message in merge(*map(_of, queues), key=_by_priority if is_prioritized else _by_sequence):
        if isinstance(message, Fetch):
            yield message
        elif message.sequence != last and message.sequence not in seen:
            yield message
            last = message.sequence
            if is_prioritized:
                seen.add(last)


_FIRST: Final = (-(1 << 16), 0)
"""Before all messages: a queue that has yet to go on must do so before its messages can be compared."""


def _by_sequence(it: Message | Fetch) -> tuple[int, int]:
    return _FIRST if isinstance(it, Fetch) else (0, it.sequence)


def _by_priority(it: Message | Fetch) -> tuple[int, int]:
    return _FIRST if isinstance(it, Fetch) else (-it.priority, it.sequence)


def _of(queue: Queue) -> Iterator[Message | Fetch]:
    for batch in queue.view.browse():
        if isinstance(batch, Fetch):
            yield batch
        else:
            yield from batch
