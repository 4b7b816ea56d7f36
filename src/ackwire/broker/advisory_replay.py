"""Shows late subscribers of advisories what is there, as fast as they take it and a slice of the loop at a time.

Nothing is kept for a subscriber that does not read: its replay waits, and is made of what is there when it goes on.
"""

from functools import partial
from typing import final

from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import TopicSubscription

_UNITS: int = 8
"""What an advisory costs of a slice: it is made from nothing."""


@final
class Replays:
    """The replays that are not at their end."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._waiting_for_turn: set[TopicSubscription] = set()

    def go_on(self, subscription: TopicSubscription) -> None:
        """Show *subscription* more, as far as it has room."""
        if subscription not in self._waiting_for_turn and self._show(subscription, self._slices.budget()):
            self._waiting_for_turn.add(subscription)
            self._slices.start(partial(self._show_more, subscription))

    def _show_more(self, subscription: TopicSubscription, budget: Budget) -> bool:
        if self._show(subscription, budget):
            return True
        self._waiting_for_turn.remove(subscription)
        return False

    def _show(self, subscription: TopicSubscription, budget: Budget) -> bool:
        """Whether there is more, and room for it."""
        replay = subscription.replay
        while replay is not None and not subscription.pending and subscription.has_room:
            units = 1
            for message in replay:
                if message is not None:
                    subscription.publish(message)
                    units = _UNITS
                break
            else:
                subscription.replay = replay = None
            if budget.spend(units):
                return replay is not None
        return False
