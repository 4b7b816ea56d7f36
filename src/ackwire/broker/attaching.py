"""Attaches consumers of patterns to their destinations, and detaches them, in slices (SEMANTICS A8).

A pattern may stand for a hundred thousand destinations. A consumer that subscribes is served by each of them as soon as
it is attached there. Before a topic publishes, its open attachments are completed (`complete`): a subscriber misses
nothing after its subscribe was answered. A consumer that leaves gets nothing more, and the messages it held are back in
their queues immediately. Queues of which it held no message drop it later, at the latest when they are deleted
(`forget_leaving`).
"""

from collections.abc import Callable, Iterator
from typing import final

from ackwire.broker.queue import Queue
from ackwire.broker.router import Router
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import QueueSubscription
from ackwire.broker.topic import Topic
from ackwire.jms.destinations import Destination, matches_pattern
from ackwire.store.contract import Place

_Attach = Callable[[Destination, Queue | Topic], None]


@final
class _Attachment:
    """One consumer and the destinations that its pattern stands for."""

    __slots__ = ("_found", "attach", "is_wanted", "pattern")

    def __init__(
        self,
        pattern: Destination,
        found: Iterator[tuple[Destination, Queue | Topic] | None],
        attach: _Attach,
        is_wanted: Callable[[], bool],
    ) -> None:
        self.pattern = pattern
        self.attach = attach
        self.is_wanted = is_wanted
        self._found = found

    def work(self, budget: Budget) -> bool:
        """Attach some more; True if there may be more."""
        if not self.is_wanted():
            return False
        for found in self._found:
            if found is not None:
                self.attach(*found)
            if budget.spend():
                return True
        return False


@final
class Attaching:
    """Attaches consumers to all that their patterns stand for, and takes them off again."""

    def __init__(self, router: Router[Queue | Topic], slices: Slices) -> None:
        self._router = router
        self._slices = slices
        self._coming: dict[_Attachment, None] = {}
        self._leaving: dict[QueueSubscription, dict[Place, Queue]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a consumer waits to be attached."""
        return bool(self._coming)

    def begin(self, pattern: Destination, attach: _Attach, is_wanted: Callable[[], bool]) -> None:
        """Call *attach* for each destination that *pattern* stands for, as long as *is_wanted*; some of them now, the
        rest in slices. It may be called again for one that is attached already."""
        attachment = _Attachment(pattern, self._router.matching(pattern), attach, is_wanted)
        if attachment.work(self._slices.budget()):
            self._coming[attachment] = None
            self._slices.start(lambda budget: self._go_on(attachment, budget))

    def _go_on(self, attachment: _Attachment, budget: Budget) -> bool:
        if attachment.work(budget):
            return True
        del self._coming[attachment]
        return False

    def complete(self, topic: Topic) -> None:
        """*topic* is about to publish: attach every subscription that waits for that."""
        where = topic.destination
        for attachment in self._coming:
            pattern = attachment.pattern
            if pattern.kind is where.kind and matches_pattern(pattern.name, where.name) and attachment.is_wanted():
                attachment.attach(where, topic)

    def leave(self, subscription: QueueSubscription, queues: dict[Place, Queue]) -> None:
        """*subscription*, which holds nothing of *queues*, is taken off each of them."""
        self._leaving[subscription] = queues
        if self._take_off(subscription, self._slices.budget()):
            self._slices.start(lambda budget: self._take_off(subscription, budget))

    def _take_off(self, subscription: QueueSubscription, budget: Budget) -> bool:
        queues = self._leaving[subscription]
        while queues:
            _, queue = queues.popitem()
            queue.remove(subscription, _nothing_seen)
            if budget.spend(2):
                break
        if queues:
            return True
        del self._leaving[subscription]
        return False

    def forget_leaving(self, place: Place) -> None:
        """The queue at *place* is to be deleted: consumers that have left it do not stand in the way."""
        for subscription, queues in self._leaving.items():
            queue = queues.pop(place, None)
            if queue is not None:
                queue.remove(subscription, _nothing_seen)


def _nothing_seen(_message: object) -> bool:
    return False
