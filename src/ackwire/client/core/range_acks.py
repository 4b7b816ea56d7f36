"""Acks in ranges: one for many consumed messages, at a share of the prefetch or after a time (D2, D4)."""

from collections.abc import Callable
from itertools import islice
from typing import Final

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.modes import AckMode
from ackwire.client.core.reply import Reply
from ackwire.client.options import ConnectionOptions
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Clock, Timer
from ackwire.wire.openwire.structures import Structure

OPTIMIZED_ACK_SHARE: Final = 0.65
"""Of prefetch: when a range of consumed messages is acknowledged (D2)."""
LAZY_ACK_SHARE: Final = 0.5
"""The same for DUPS_OK on a topic (D4)."""


class RangeAcks:
    """Keeps acks of consumed messages back until a range is large enough, or old enough."""

    def __init__(
        self,
        delivered: dict[Delivery, None],
        send: Callable[[list[Delivery]], list[Reply[Structure]]],
        clock: Clock,
        options: ConnectionOptions,
        prefetch: int,
        *,
        is_lazy: bool,
    ) -> None:
        self._delivered = delivered
        """The consumer's: oldest first, so the first `_count` of it are those that were consumed."""
        self._send = send
        self._clock = clock
        self._share = LAZY_ACK_SHARE if is_lazy else OPTIMIZED_ACK_SHARE
        self.prefetch = prefetch
        self._timeout_seconds = 0 if is_lazy else options.optimize_acknowledge_timeout_ms / 1000
        self._interval_seconds = options.optimized_ack_interval_ms / 1000
        self._count = 0
        """Consumed and not yet acknowledged."""
        self._timer: Timer | None = None
        self._is_ended = False
        self.last_ack_at = clock.monotonic()

    def consumed(self) -> list[Reply[Structure]]:
        """One more message was consumed."""
        self._count += 1
        timeout = self._timeout_seconds
        is_due = timeout > 0 and self._clock.monotonic() >= self.last_ack_at + timeout
        if is_due or self._count >= self.prefetch * self._share:
            return self.acknowledge()
        if self._interval_seconds > 0 and self._timer is None:
            self._timer = self._clock.call_later(self._interval_seconds, self._acknowledge_on_time)
        return []

    def _acknowledge_on_time(self) -> None:
        self._timer = None
        if not self._is_ended:
            self.acknowledge()

    def acknowledge(self) -> list[Reply[Structure]]:
        """Acknowledge what was consumed so far."""
        consumed = list(islice(self._delivered, self._count))
        for delivery in consumed:
            del self._delivered[delivery]
        self._count = 0
        self.last_ack_at = self._clock.monotonic()
        return self._send(consumed) if consumed else []

    def take_count(self) -> int:
        """How many of the delivered messages were consumed; they are acknowledged in another way."""
        count, self._count = self._count, 0
        return count

    def end(self) -> None:
        """The consumer is closed."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()


def range_acks(
    mode: AckMode,
    destination: Destination,
    delivered: dict[Delivery, None],
    send: Callable[[list[Delivery]], list[Reply[Structure]]],
    connection: ConnectionCore,
    prefetch: int,
) -> RangeAcks | None:
    """The ranges of a consumer in *mode*; None if it acknowledges in another way."""
    options = connection.options
    is_optimized = mode is AckMode.AUTO and options.optimize_acknowledge
    if prefetch <= 0 or not (mode is AckMode.DUPS_OK or is_optimized):
        return None
    is_lazy = mode is AckMode.DUPS_OK and not destination.kind.is_queue
    return RangeAcks(delivered, send, connection.clock, options, prefetch, is_lazy=is_lazy)
