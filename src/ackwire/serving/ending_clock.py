"""A clock whose timers end with a term: nothing of a broker that has stepped down may act later."""

from collections.abc import Callable
from typing import final

from ackwire.util.clock import Clock, Timer


@final
class EndingClock:
    """Implements `Clock`: tells the time of another clock; after `end` none of its timers runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_over = False

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        def run() -> None:
            if not self._is_over:
                callback()

        return self._clock.call_later(delay_seconds, run)

    def end(self) -> None:
        """Run nothing any more."""
        self._is_over = True
