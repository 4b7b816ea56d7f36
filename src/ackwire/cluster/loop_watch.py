"""Finds out from another thread that the loop hangs: in a sync that never ends, for example."""

from typing import Final, final

_LOOKS: Final = 5
"""So often in a row the loop must be found where it was. A process that was paused as a whole has looked only once."""


@final
class LoopWatch:
    """The loop calls `turn` all the time, a thread calls `look`."""

    def __init__(self, seconds: float) -> None:
        self.pause_seconds = seconds / _LOOKS
        """Between two looks."""
        self.hangs = False
        """Of the thread."""
        self._turns = 0
        self._seen_turns = -1
        self._looks = 0
        self._looked_at = 0.0

    def turn(self) -> None:
        """The loop runs."""
        self._turns += 1

    def look(self, now: float) -> bool:
        """Look at it, no matter how often; returns whether `hangs` has changed."""
        before = self.hangs
        if self._turns != self._seen_turns:
            self._seen_turns, self._looks, self._looked_at, self.hangs = self._turns, 0, now, False
        elif now - self._looked_at >= self.pause_seconds:
            self._looks, self._looked_at = self._looks + 1, now
            self.hangs = self._looks >= _LOOKS
        return self.hangs is not before
