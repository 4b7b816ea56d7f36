"""How many messages each place holds, counted from time to time for the audit: whoever adds up events can compare.

At the start and at a stop in peace all places are counted, and in between every so often, a few in each turn of the
loop. Each count belongs to the moment at which it is told.
"""

from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Final, final

from ackwire.broker.auditing import Audit
from ackwire.broker.queue import Queue
from ackwire.store.contract import Store

if TYPE_CHECKING:
    from ackwire.broker.broker import Broker

_QUEUES_PER_TURN: Final = 200
_NOT_KEPT: Final = "it was not persistent, and the broker has stopped"


@final
class Census:
    """Counts messages."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def begin(self, audit: Audit) -> None:
        """Count everything now, and again every so often."""
        self._count(audit, deque(self._broker.registry.queues()), at_once=True)
        self._count_later(audit)

    def _count_later(self, audit: Audit) -> None:
        self._broker.clock.call_later(self._broker.settings.audit.census_seconds, partial(self._count_again, audit))

    def _count_again(self, audit: Audit) -> None:
        self._count_later(audit)
        self._count(audit, deque(self._broker.registry.queues()), at_once=False)

    def _count(self, audit: Audit, queues: deque[Queue], *, at_once: bool) -> None:
        undecided = self._undecided()
        for _ in range(len(queues) if at_once else min(len(queues), _QUEUES_PER_TURN)):
            queue = queues.popleft()
            if queue.audit is not None and not queue.is_gone:
                audit.census(queue, queue.held_count + undecided[queue])
        if queues:
            self._broker.clock.call_later(0, partial(self._count, audit, queues, at_once=False))

    def _undecided(self) -> Counter[Queue]:
        """What open transactions have acknowledged, by queue."""
        counts: Counter[Queue] = Counter()
        for transaction in self._broker.transactor.transactions:
            for acked in transaction.acks:
                for queue, messages in acked.by_queue:
                    counts[queue] += len(messages)
        return counts

    def end(self, audit: Audit, store: Store) -> None:
        """The broker stops in peace: what it cannot keep ends here, and the rest is counted."""
        undecided = self._undecided()
        for queue in self._broker.registry.queues():
            if queue.audit is not None:
                # A store that pages is one on a disk.
                left = queue.tell_not_kept(_NOT_KEPT, keeps_persistent=store.pages)
                audit.census(queue, left + undecided[queue])
        audit.stopped(store.last_sequence())
