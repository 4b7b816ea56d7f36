"""One deadline at a time: by then a peer must have sent something, or is closed."""

from collections.abc import Callable
from typing import final

from ackwire.util.clock import Clock, Timer


@final
class Deadline:
    """A timer that a later one replaces."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None

    def set(self, seconds: float, on_expiry: Callable[[], None]) -> None:
        """Call *on_expiry* in *seconds*, unless another deadline is set, or this one is cancelled."""
        self.cancel()
        self._timer = self._clock.call_later(seconds, on_expiry)

    def cancel(self) -> None:
        timer = self._timer
        if timer is not None:
            timer.cancel()
            self._timer = None
