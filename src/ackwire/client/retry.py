"""How long to wait before the next attempt: each pause is twice the one before, up to a limit."""

from typing import Final

FIRST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 10.0


class BackOff:
    """The pauses between attempts that fail; `reset` after one that worked."""

    def __init__(self, first_seconds: float = FIRST_SECONDS, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._next_seconds = first_seconds

    def next_seconds(self) -> float:
        pause = self._next_seconds
        self._next_seconds = min(self._longest_seconds, pause * 2)
        return pause

    def reset(self) -> None:
        self._next_seconds = self._first_seconds
