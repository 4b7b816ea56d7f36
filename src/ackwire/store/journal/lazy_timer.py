"""A timer that is set for each message and seldom needed: it is not taken back, but looks again when it comes."""

from collections.abc import Callable
from typing import final

from ackwire.util.clock import Clock, Timer


@final
class LazyTimer:
    """Calls back some time after it was set last. Setting a timer of the loop and taking it back for each message costs
    more than one that comes too early."""

    def __init__(
        self, clock: Clock, seconds: float, *, is_needed: Callable[[], bool], callback: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._is_needed = is_needed
        self._callback = callback
        self._timer: Timer | None = None
        self._due_at = 0.0

    def set(self) -> None:
        """Call back in so many seconds from now, and not sooner."""
        self._due_at = self._clock.monotonic() + self._seconds
        self.keep()

    def keep(self) -> None:
        """Call back in so many seconds at the latest, unless a later time was set."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._is_needed():
            return
        remaining = self._due_at - self._clock.monotonic()
        if remaining > 0:
            self._timer = self._clock.call_later(remaining, self._look)
        else:
            self._callback()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
