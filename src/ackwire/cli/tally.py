"""Counts the messages of a command, shows how far it is on a terminal, holds it to a rate, and sums up at the end."""

import time
from collections.abc import Callable
from typing import Final, TextIO

from ackwire.cli.amounts import messages_text, rate_text, seconds_text
from ackwire.cli.terminal_line import TerminalLine

_BAR_WIDTH: Final = 24


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
        self._line = TerminalLine(stream, monotonic, is_shown=is_shown)

    def add(self, count: int = 1) -> None:
        self.count += count
        self._line.show(self._text)

    def begin(self) -> None:
        """Count the time from now on: connecting is no part of the rate."""
        self._line.begin()

    @property
    def elapsed_seconds(self) -> float:
        return self._line.elapsed_seconds

    def summary(self, where: str) -> str:
        """`sent 12 messages to queue://orders in 0.31 s, 39/s`."""
        elapsed = self.elapsed_seconds
        per_second = rate_text(self.count, elapsed)
        speed = f" in {seconds_text(elapsed)}, {per_second}" if per_second else ""
        return f"{self._verb} {messages_text(self.count)} {where}{speed}"

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        self._line.clear()

    def _text(self, elapsed: float) -> str:
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
