"""Pulls: a consumer with prefetch 0 asks the broker for each message (C3)."""

from typing import Final

from ackwire.client.core.wire_link import WireLink
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_to_wire

PULL_FOR_EVER: Final = 0
"""Milliseconds, as in MessagePull: the broker answers when it has a message."""
PULL_NO_WAIT: Final = -1
"""The broker answers at once."""


class Pulls:
    """The pulls of one consumer, and the broker's word that there is nothing to pull or browse."""

    def __init__(self, link: WireLink, consumer_id: commands.ConsumerId, destination: Destination) -> None:
        self._link = link
        self._consumer_id = consumer_id
        self._destination = destination
        self._unanswered = 0
        self.is_at_end = False
        """Whether the broker has said that there is nothing (more)."""

    @property
    def is_unanswered(self) -> bool:
        """Whether the broker has not answered a pull."""
        return self._unanswered > 0

    def ask(self, timeout_ms: int) -> bool:
        """Ask for one message; False if there is no link."""
        pull = commands.MessagePull(
            consumer_id=self._consumer_id, destination=destination_to_wire(self._destination), timeout=timeout_ms
        )
        is_sent = self._link.one_way(pull)
        self._unanswered += is_sent
        self.is_at_end = False
        return is_sent

    def answered(self) -> None:
        """A message came, which is the answer if there was a pull."""
        if self._unanswered:
            self._unanswered -= 1

    def ended(self) -> None:
        """The broker has none: a pull found nothing, or a browse is at its end."""
        self.answered()
        self.is_at_end = True

    def interrupted(self) -> None:
        """The link is lost, and every pull with it."""
        self._unanswered = 0
