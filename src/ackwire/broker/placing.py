"""While one message is added to its queues, delays whatever would publish another (SEMANTICS A2, H1).

A message gets its sequence and is then added to each of its queues. If another message were published in between, it
would have the next sequence and could reach one of those queues first. A queue accepts only rising sequences, so the
first message could not be added any more. Two things can publish in between: advisories, because a message expires, is
dropped or finds a slow consumer; and blocked sends, which go on when a leaving message frees space.
"""

from collections import deque
from collections.abc import Callable
from typing import final


@final
class Placing:
    """Knows whether a message is being put in its places, and keeps what has to wait for that."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_running = False
        self._deferred: deque[Callable[[], None]] = deque()

    @property
    def is_under_way(self) -> bool:
        return self._depth > 0

    def begin(self) -> None:
        """A message that has its sequence is about to be put in its places; `end` follows, whatever happens."""
        self._depth += 1

    def end(self) -> None:
        """It is in its places: what was deferred happens now, in its order."""
        self._depth -= 1
        if self._deferred and not self._depth and not self._is_running:
            self._run_deferred()

    def defer(self, action: Callable[[], None]) -> None:
        """Have *action* done at the end of what is under way. It raises nothing."""
        self._deferred.append(action)

    def _run_deferred(self) -> None:
        self._is_running = True
        try:
            while self._deferred:  # what these put in places may defer more, which comes behind them
                self._deferred.popleft()()
        finally:
            self._is_running = False
