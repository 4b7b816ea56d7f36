"""Until when this node's session with the elector certainly lasts, seen from here.

The elector gives a session up when it has heard nothing for the timeout. It heard of a request no earlier than that was
sent, so what counts is when a request that was answered was sent, and never when its answer came: an answer may have
been on its way for long. A margin covers clocks that run at different speeds.
"""

from typing import Final

MARGIN_SHARE: Final = 0.1
"""Of the timeout: this node stops answering so much sooner than the elector may grant mastership to another."""


class Lease:
    """Times are those of this node's monotonic clock."""

    def __init__(self, timeout_seconds: float, *, margin_share: float = MARGIN_SHARE) -> None:
        self._margin_share = margin_share
        self._sent_at: float | None = None
        self.lasts(timeout_seconds)

    def lasts(self, timeout_seconds: float) -> None:
        """The elector gives the session up after so long: it need not be what was asked for."""
        self._valid_seconds = timeout_seconds * (1 - self._margin_share)

    def answered(self, sent_at: float) -> None:
        """A request of this session, sent at *sent_at*, was answered."""
        self._sent_at = sent_at if self._sent_at is None else max(self._sent_at, sent_at)

    def ended(self) -> None:
        """The session is over."""
        self._sent_at = None

    @property
    def holds_until(self) -> float:
        return float("-inf") if self._sent_at is None else self._sent_at + self._valid_seconds
