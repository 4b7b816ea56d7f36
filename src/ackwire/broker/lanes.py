"""Who gets the next message (SEMANTICS A2, C5, H2, H3).

Consumers with the same selector form a lane: they want the same messages, so one scan serves them all. Inside a lane
the ones with the highest priority come first, and equals take turns. Only consumers that may have room take part in the
round: one without room drops out when its turn comes and is offered again when something about it changes, so a message
does not cost a look at every consumer that is full.
"""

from collections import deque
from itertools import islice
from typing import Final, final

from ackwire.broker.groups import MessageGroups
from ackwire.broker.subscription import QueueSubscription
from ackwire.selector import Selector
from ackwire.store.contract import Place

_NO_PRIORITY: Final = 1 << 16
"""Beyond all priorities, which are bytes."""

_COMPARED_MAX: Final = 64
"""Consumers that are compared for a new message group: more make no message wait for the search."""


@final
class Rotation:
    """Consumers in turn, by priority."""

    __slots__ = ("_dropped", "_in_order", "_in_round", "_rounds", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: list[QueueSubscription] = []
        self._rounds: dict[int, deque[QueueSubscription]] = {}
        self._in_order: list[deque[QueueSubscription]] = []
        """The rounds, that of the highest priority first."""
        self._in_round: set[QueueSubscription] = set()
        self._dropped: dict[QueueSubscription, None] = {}
        """Those that were found full and were not `take_full` since."""

    @property
    def priority(self) -> int:
        """The highest of those that may have room."""
        for turns in self._in_order:
            if turns:
                return turns[0].priority
        return -_NO_PRIORITY

    def add(self, subscription: QueueSubscription) -> None:
        self.subscriptions.append(subscription)
        if subscription.priority not in self._rounds:
            self._rounds[subscription.priority] = deque()
            self._order_rounds()
        self.offer(subscription)

    def remove(self, subscription: QueueSubscription) -> None:
        self.subscriptions.remove(subscription)
        self._dropped.pop(subscription, None)
        if subscription in self._in_round:
            self._in_round.remove(subscription)
            self._rounds[subscription.priority].remove(subscription)
        if not any(other.priority == subscription.priority for other in self.subscriptions):
            del self._rounds[subscription.priority]
            self._order_rounds()

    def _order_rounds(self) -> None:
        self._in_order = [self._rounds[priority] for priority in sorted(self._rounds, reverse=True)]

    def offer(self, subscription: QueueSubscription) -> None:
        """*subscription* may have room: give it a place at the end of the round."""
        if subscription not in self._in_round:
            self._in_round.add(subscription)
            self._rounds[subscription.priority].append(subscription)

    def next(self, place: Place) -> QueueSubscription | None:
        """The consumer whose turn it is, or None if all are full; *place* is the queue that asks."""
        for turns in self._in_order:
            while turns:
                subscription = turns[0]
                if subscription.has_room and not (subscription.waiting_in and place in subscription.waiting_in):
                    if len(turns) > 1:
                        turns.rotate(-1)
                    return subscription
                turns.popleft()
                self._in_round.remove(subscription)
                self._dropped[subscription] = None
                if subscription.has_several_queues:
                    subscription.passed_over[place] = None
        return None

    def for_new_group(self, chosen: QueueSubscription, place: Place, groups: MessageGroups) -> QueueSubscription:
        """Of those with room and the priority of *chosen*, whose turn it is, the one that owns the fewest groups (H3).

        Beyond a number of consumers only those are compared whose turn comes next.
        """
        fewest = groups.count_of(chosen)
        if fewest == 0:
            return chosen
        for other in islice(self._rounds[chosen.priority], _COMPARED_MAX):
            count = groups.count_of(other)
            if count < fewest and other.has_room and place not in other.waiting_in:
                chosen, fewest = other, count
                if count == 0:
                    break
        return chosen

    def take_full(self) -> dict[QueueSubscription, None]:
        """Those that dropped out of the round since the last call, because they were full."""
        full = self._dropped
        if full:
            self._dropped = {}
        return full


@final
class Lane:
    """The consumers that share a selector, and how far they have looked through the queue."""

    __slots__ = ("cost", "positions", "rotation", "selector", "text")

    def __init__(self, selector: Selector | None, levels: int) -> None:
        self.selector = selector
        self.text = None if selector is None else selector.text
        self.cost = 1 if selector is None else selector.cost
        """What a message takes of the budget of a search."""
        self.rotation = Rotation()
        self.positions = [-(2**62)] * levels
        """For each priority level: everything in front of this was examined, and is not for this lane."""

    def look_again_from(self, level: int, position: int) -> None:
        """Something changed at *position*: what was examined behind it must be examined again."""
        self.positions[level] = min(self.positions[level], position)

    def look_at_all_again(self) -> None:
        self.positions = [-(2**62)] * len(self.positions)
