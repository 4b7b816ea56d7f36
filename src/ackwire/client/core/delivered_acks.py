"""DELIVERED acks: messages have arrived and are not done, so the broker may send more (D3)."""

from typing import Final

from ackwire.client.core.ack_sender import AckSender
from ackwire.client.core.delivery import Delivery
from ackwire.wire.openwire.commands import AckType

DELIVERED_ACK_SHARE: Final = 0.5
"""Of prefetch: so many messages are reported with one ack (D3)."""


class DeliveredAcks:
    """Counts the messages that the application has, and reports them to the broker at half the prefetch."""

    def __init__(self, acks: AckSender, prefetch: int) -> None:
        self._acks = acks
        self.prefetch = prefetch
        self._count = 0
        self._reported = 0
        """Of those, how many the broker knows of: its window is larger by so many."""
        self._first: Delivery | None = None
        """The first that is not reported."""

    def note(self, delivery: Delivery) -> None:
        """*delivery* is with the application."""
        self._count += 1
        if self._first is None:
            self._first = delivery
        count = self._count - self._reported
        if count >= DELIVERED_ACK_SHARE * self.prefetch:
            first = self._first if self._first.arrival < delivery.arrival else delivery
            self._acks.send(AckType.DELIVERED, [first, delivery], count=count)
            self._reported = self._count
            self._first = None

    def forget_first(self) -> None:
        """All that is delivered is about to be acknowledged: the next report begins behind it."""
        self._first = None

    def take_back(self, count: int) -> None:
        """*count* messages are no longer with the application."""
        self._first = None
        if self._count:
            self._count = max(0, self._count - count)
        if self._reported:
            self._reported = max(0, self._reported - count)

    def reset(self) -> None:
        """The link is lost, and the broker's window with it."""
        self._first = None
        self._count = self._reported = 0
