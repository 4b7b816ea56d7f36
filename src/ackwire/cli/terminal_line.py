"""One line on a terminal that is written anew now and then, to tell how far long work is.

Where the stream is no terminal nothing is written, and nothing either for work that is done at once.
"""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

_INTERVAL_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 0.5
"""Work that is done sooner needs no line."""
_CLEAR_LINE: Final = "\r\x1b[K"


class TerminalLine:
    """The line, and the time since the work began. It stands on standard error, unless another stream is given."""

    def __init__(
        self,
        stream: TextIO | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        is_shown: bool = True,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._is_shown = is_shown and self._stream.isatty()
        self._began = self._told = monotonic()
        self._is_dirty = False

    def begin(self) -> None:
        """Count the time from now on."""
        self._began = self._told = self._monotonic()

    @property
    def elapsed_seconds(self) -> float:
        return self._monotonic() - self._began

    def show(self, text: Callable[[float], str]) -> None:
        """Write the line if it is time to; *text* makes it from the seconds since the work began."""
        if not self._is_shown:
            return
        now = self._monotonic()
        if now - self._began < _QUIET_SECONDS or now - self._told < _INTERVAL_SECONDS:
            return
        self._told = now
        self._stream.write(_CLEAR_LINE + text(now - self._began))
        self._stream.flush()
        self._is_dirty = True

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._is_dirty:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_dirty = False
