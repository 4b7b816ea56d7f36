"""Counts the messages of a command, shows how far it is on a terminal, holds it to a rate, and sums up at the end."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from ackwire.cli.amounts import messages_text, rate_text, seconds_text

_INTERVAL_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 0.5
"""Work that is done sooner needs no line."""
_BAR_WIDTH: Final = 24
_CLEAR_LINE: Final = "\r\x1b[K"


class Tally:
    """How many messages were done, of how many if that is known. The line stands on standard error, if a terminal."""

    def __init__(
        self,
        verb: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        is_shown: bool = True,
    ) -> None:
        self.count = 0
        self._verb = verb
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._is_shown = is_shown and self._stream.isatty()
        self._began = self._told = monotonic()
        self._is_dirty = False

    def add(self, count: int = 1) -> None:
        self.count += count
        if self._is_shown:
            self._show()

    def begin(self) -> None:
        """Count the time from now on: connecting is no part of the rate."""
        self._began = self._told = self._monotonic()

    @property
    def elapsed_seconds(self) -> float:
        return self._monotonic() - self._began

    def summary(self, where: str) -> str:
        """`sent 12 messages to queue://orders in 0.31 s, 39/s`."""
        elapsed = self.elapsed_seconds
        per_second = rate_text(self.count, elapsed)
        speed = f" in {seconds_text(elapsed)}, {per_second}" if per_second else ""
        return f"{self._verb} {messages_text(self.count)} {where}{speed}"

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._is_dirty:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_dirty = False

    def _show(self) -> None:
        now = self._monotonic()
        if now - self._began < _QUIET_SECONDS or now - self._told < _INTERVAL_SECONDS:
            return
        self._told = now
        self._stream.write(_CLEAR_LINE + self._line(now - self._began))
        self._stream.flush()
        self._is_dirty = True

    def _line(self, elapsed: float) -> str:
        per_second = rate_text(self.count, elapsed)
        if not self._total:
            return f"{self._verb} {messages_text(self.count)}, {per_second}"
        done = min(1.0, self.count / self._total)
        bar = "#" * int(done * _BAR_WIDTH)
        left = elapsed * (self._total - self.count) / max(1, self.count)
        return f"[{bar:<{_BAR_WIDTH}}] {self.count} of {self._total}, {per_second}, {seconds_text(max(0.0, left))} left"


class Pace:
    """Holds work to so many messages per second, counted from its start: a slow one is caught up with."""

    def __init__(
        self,
        per_second: float | None,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._sleep = sleep
        self._monotonic = monotonic
        self._next_at: float | None = None

    @property
    def is_limited(self) -> bool:
        return self._per_second is not None

    def wait(self) -> None:
        """Return when the next message may go."""
        if self._per_second is None:
            return
        now = self._monotonic()
        # Not more than a second is caught up with: after a long stop there is no burst.
        due = now if self._next_at is None else max(self._next_at, now - 1.0)
        self._next_at = due + 1.0 / self._per_second
        if due > now:
            self._sleep(due - now)
