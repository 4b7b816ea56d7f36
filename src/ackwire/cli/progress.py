"""One line on standard error that tells how far long work is; nothing where standard error is no terminal."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

_INTERVAL_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 0.5
"""Work that is done sooner needs no line."""
_CLEAR_LINE: Final = "\r\x1b[K"


class ProgressLine:
    """Use it in a `with`, so that the line goes at the end, whatever ends the work."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._is_shown = self._stream.isatty()
        self._what = ""
        self._began = self._told = monotonic()
        self._is_dirty = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, what: str, done_bytes: int, all_bytes: int) -> None:
        """Say that *done_bytes* of *all_bytes* are done of *what*."""
        if not self._is_shown:
            return
        now = self._monotonic()
        if what != self._what:
            self._what, self._began = what, now
        elapsed = now - self._began
        if elapsed < _QUIET_SECONDS or now - self._told < _INTERVAL_SECONDS:
            return
        self._told = now
        self._stream.write(f"{_CLEAR_LINE}{_line(what, done_bytes, all_bytes, elapsed)}")
        self._stream.flush()
        self._is_dirty = True

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._is_dirty:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_dirty = False


def _line(what: str, done_bytes: int, all_bytes: int, elapsed: float) -> str:
    # Imported here, because a store needs more than the standard library, and a client does not.
    from ackwire.store.explain import size_text

    per_second = done_bytes / elapsed if elapsed > 0 else 0.0
    share = f"{100 * done_bytes // all_bytes} %" if all_bytes else size_text(done_bytes)
    left = f", {_duration((all_bytes - done_bytes) / per_second)} left" if per_second and all_bytes else ""
    return f"{what}: {share}, {size_text(int(per_second))}/s{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
