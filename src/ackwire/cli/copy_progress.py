"""How far a copy is: a bar on a terminal, and a plain line for each tenth elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from ackwire.cli.amounts import seconds_text
from ackwire.cli.terminal_line import TerminalLine

_BAR_WIDTH: Final = 24
"""Characters: bar, figures and times fit into 80 columns."""

_PLAIN_PERCENT: Final = 10
"""Of the bytes, between two plain lines."""


class CopyProgress:
    """Called with what is done, bytes done, and all bytes. Use it in a `with`, so that the bar goes at the end."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._line = TerminalLine(self._stream, monotonic)
        self._is_plain = not self._stream.isatty()
        self._step = self._what = ""
        self._told_percent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def begin(self, step: str) -> None:
        """A new step begins: copying, verifying."""
        self.clear()
        self._step = step
        self._told_percent = 0
        self._line.begin()

    def __call__(self, what: str, done_bytes: int, all_bytes: int) -> None:
        if what != self._what:
            self._what, self._told_percent = what, 0
        percent = 100 * done_bytes // all_bytes if all_bytes else 0
        if not self._is_plain:
            self._line.show(lambda elapsed: self._bar(percent, done_bytes, all_bytes, elapsed))
        elif percent >= self._told_percent + _PLAIN_PERCENT:
            self._told_percent = percent - percent % _PLAIN_PERCENT
            self._stream.write(f"{self._step}: {self._told_percent} %\n")
            self._stream.flush()

    def _bar(self, percent: int, done_bytes: int, all_bytes: int, elapsed: float) -> str:
        from ackwire.store.explain import size_text

        done = _BAR_WIDTH * percent // 100
        per_second = done_bytes / elapsed if elapsed > 0 else 0.0
        left = f", {seconds_text(round((all_bytes - done_bytes) / per_second))} left" if per_second else ""
        bar = f"{'#' * done}{'-' * (_BAR_WIDTH - done)}"
        return f"{self._step} [{bar}] {percent} %, {size_text(int(per_second))}/s{left}"

    def clear(self) -> None:
        """Take the bar away, so that something else can be written."""
        self._line.clear()
