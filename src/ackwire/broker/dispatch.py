"""Who gets the next message: consumers with room, one after another."""

from collections import deque
from typing import final

from ackwire.broker.subscription import QueueSubscription


@final
class Rotation:
    """The consumers of a queue in turn.

    Only those that may have room are in the round, so a message does not cost a look at every consumer that is full:
    one without room drops out when its turn comes and is offered again when something about it changes.
    """

    __slots__ = ("_round", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: list[QueueSubscription] = []
        self._round: deque[QueueSubscription] = deque()

    def add(self, subscription: QueueSubscription) -> None:
        self.subscriptions.append(subscription)
        self.offer(subscription)

    def remove(self, subscription: QueueSubscription) -> None:
        self.subscriptions.remove(subscription)
        if subscription.in_rotation:
            self._round.remove(subscription)
            subscription.in_rotation = False

    def offer(self, subscription: QueueSubscription) -> None:
        """*subscription* may have room: give it a place at the end of the round."""
        if not subscription.in_rotation:
            subscription.in_rotation = True
            self._round.append(subscription)

    def next(self) -> QueueSubscription | None:
        """The consumer whose turn it is, or None if all are full."""
        turns = self._round
        while turns:
            subscription = turns[0]
            if subscription.has_room:
                turns.rotate(-1)
                return subscription
            turns.popleft()
            subscription.in_rotation = False
        return None
