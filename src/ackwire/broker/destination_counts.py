"""Counts the messages of each destination for the audit (event `census`), so that readers can check the sums of events.

All destinations are counted at the start and at a clean stop, and periodically in between, some in each iteration of
the loop. A count is exact for the moment of its event.
"""

from collections import Counter, deque
from functools import partial
from typing import Final, final

from ackwire.broker.auditing import Audit
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.transactions import Transactions
from ackwire.store.contract import Store
from ackwire.util.clock import Clock

_QUEUES_PER_TURN: Final = 200
_NOT_KEPT: Final = "it was not persistent, and the broker has stopped"


@final
class DestinationCounter:
    """Counts the messages of all queues, and tells the audit."""

    def __init__(self, clock: Clock, registry: Registry, transactions: Transactions, *, period_seconds: float) -> None:
        self._clock = clock
        self._registry = registry
        self._transactions = transactions
        self._period_seconds = period_seconds

    def begin(self, audit: Audit) -> None:
        """Count everything now, and again every so often."""
        self._count(audit, deque(self._registry.queues()), at_once=True)
        self._count_later(audit)

    def _count_later(self, audit: Audit) -> None:
        self._clock.call_later(self._period_seconds, partial(self._count_again, audit))

    def _count_again(self, audit: Audit) -> None:
        self._count_later(audit)
        self._count(audit, deque(self._registry.queues()), at_once=False)

    def _count(self, audit: Audit, queues: deque[Queue], *, at_once: bool) -> None:
        undecided = self._undecided()
        for _ in range(len(queues) if at_once else min(len(queues), _QUEUES_PER_TURN)):
            queue = queues.popleft()
            if queue.audit is not None and not queue.is_gone:
                audit.census(queue, queue.view.message_count + undecided[queue])
        if queues:
            self._clock.call_later(0, partial(self._count, audit, queues, at_once=False))

    def _undecided(self) -> Counter[Queue]:
        """What open transactions have acknowledged, by queue."""
        counts: Counter[Queue] = Counter()
        for transaction in self._transactions:
            for acked in transaction.acks:
                for queue, messages in acked.by_queue:
                    counts[queue] += len(messages)
        return counts

    def end(self, audit: Audit, store: Store) -> None:
        """A clean stop: report non-persistent messages as discarded, and count the others."""
        undecided = self._undecided()
        for queue in self._registry.queues():
            if queue.audit is not None:
                # A store that pages is one on a disk.
                left = queue.restart.tell_not_kept(_NOT_KEPT, keeps_persistent=store.pages)
                audit.census(queue, left + undecided[queue])
        audit.stopped(store.last_sequence())
