"""One line on standard error that tells how far work on so many bytes is; nothing where that is no terminal."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from ackwire.cli.amounts import seconds_text
from ackwire.cli.terminal_line import TerminalLine


class ProgressLine:
    """Use it in a `with`, so that the line goes at the end, whatever ends the work."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._line = TerminalLine(stream, monotonic)
        self._what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, what: str, done_bytes: int, all_bytes: int) -> None:
        """Say that *done_bytes* of *all_bytes* are done of *what*."""
        if what != self._what:
            self._what = what
            self._line.begin()
        else:
            self._line.show(lambda elapsed: _text(what, done_bytes, all_bytes, elapsed))

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        self._line.clear()


def _text(what: str, done_bytes: int, all_bytes: int, elapsed: float) -> str:
    # Imported here, because a store needs more than the standard library, and a client does not.
    from ackwire.store.explain import size_text

    per_second = done_bytes / elapsed if elapsed > 0 else 0.0
    share = f"{100 * done_bytes // all_bytes} %" if all_bytes else size_text(done_bytes)
    left = f", {_seconds_text((all_bytes - done_bytes) / per_second)} left" if per_second and all_bytes else ""
    return f"{what}: {share}, {size_text(int(per_second))}/s{left}"


def _seconds_text(number: float) -> str:
    return seconds_text(round(max(0.0, number)))  # whole ones, because it is a guess
