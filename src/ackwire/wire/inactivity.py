"""The inactivity monitor: keep-alives when we are silent, an end when the peer is (SEMANTICS J3).

Two checks, as ActiveMQ has them (openwire.md §5): the write check runs every third of the agreed time and sends a
KeepAlive if nothing went out since the last one; the read check runs every full time and gives up on a peer from which
nothing came between the last three, so two to three full times after its last byte. Timers run on the loop between
pieces of work, and received bytes are counted before timers run, so a busy broker never takes a living peer for a dead
one.
"""

from collections.abc import Callable
from typing import Final

from ackwire.util.clock import Clock, Timer

_WRITE_CHECKS_PER_PERIOD: Final = 3
_SHORTEST_DIVIDED_PERIOD_MS: Final = 3
_SILENT_CHECKS_MAX: Final = 2
"""Read checks in a row that may find nothing: ActiveMQ forgives one, and the second ends the connection."""


class InactivityMonitor:
    """Watches one connection in both directions."""

    def __init__(
        self,
        clock: Clock,
        *,
        period_ms: int,
        initial_delay_ms: int,
        send_keep_alive: Callable[[], None],
        on_silence: Callable[[float], None],
    ) -> None:
        self._clock = clock
        self._read_period = period_ms / 1000
        divided = period_ms > _SHORTEST_DIVIDED_PERIOD_MS
        self._write_period = self._read_period / (_WRITE_CHECKS_PER_PERIOD if divided else 1)
        self._send_keep_alive = send_keep_alive
        self._on_silence = on_silence
        self._heard = True
        self._sent = True
        self._silent_checks = 0
        self._last_heard = clock.monotonic()
        self.is_deaf = False
        """We have stopped reading for reasons of our own: silence then says nothing about the peer."""
        initial_delay = initial_delay_ms / 1000
        self._read_timer: Timer = clock.call_later(initial_delay, self._check_read)
        self._write_timer: Timer = clock.call_later(initial_delay, self._check_write)

    def stop(self) -> None:
        self._read_timer.cancel()
        self._write_timer.cancel()

    def heard(self) -> None:
        """Bytes came from the peer."""
        self._heard = True

    def sent(self) -> None:
        """Bytes went to the peer."""
        self._sent = True

    def _check_read(self) -> None:
        if self._heard or self.is_deaf:
            self._heard = False
            self._silent_checks = 0
            self._last_heard = self._clock.monotonic()
        else:
            self._silent_checks += 1
        if self._silent_checks < _SILENT_CHECKS_MAX:
            self._read_timer = self._clock.call_later(self._read_period, self._check_read)
        else:
            self._write_timer.cancel()
            self._on_silence(self._clock.monotonic() - self._last_heard)

    def _check_write(self) -> None:
        if not self._sent:
            self._send_keep_alive()
        self._sent = False  # a keep-alive does not count as activity
        self._write_timer = self._clock.call_later(self._write_period, self._check_write)
