"""Whether to bet that a consumer is quicker than the disk (ADR 14).

A message that is consumed before it is on disk need not go there, and its sender is answered by the ack. If the
consumers of what somebody sends are that quick, its messages leave at once, and the disk is left alone for a moment. If
they are not, that is slower than to store first. Nobody knows beforehand; but consumers are what they were just now.
"""

from typing import Final, final

_WINS_MAX: Final = 40
_LOSS: Final = 20
"""So many wins does one loss take away: one slow ack among quick ones changes nothing, two in a row do."""

_SITS_OUT_FIRST: Final = 16
_SITS_OUT_MAX: Final = 4096
"""So many messages are stored first after the bets are lost, before another is tried: twice as many each time."""


@final
class Bets:
    """How it went with what one connection sent."""

    __slots__ = ("_sits_out", "_sits_out_next", "_wins")

    def __init__(self) -> None:
        self._wins = 0
        self._sits_out = _SITS_OUT_FIRST
        self._sits_out_next = _SITS_OUT_FIRST

    def may_try(self) -> bool:
        """Whether the next message is to leave ahead of its sync. To be asked once for each, if there is no other
        reason."""
        if self._wins:
            return True
        self._sits_out -= 1
        return self._sits_out <= 0

    @property
    def is_sure(self) -> bool:
        """Whether its sync, too, may wait for the ack."""
        return self._wins >= _LOSS

    def won(self) -> None:
        """The ack of one that left ahead came before the disk had it."""
        self._wins = min(self._wins + 1, _WINS_MAX)
        if self._wins == _WINS_MAX:
            self._sits_out_next = _SITS_OUT_FIRST

    def lost(self) -> None:
        """It came later, or others could not wait for it."""
        self._wins = max(self._wins - _LOSS, 0)
        if not self._wins:
            self._sits_out = self._sits_out_next
            self._sits_out_next = min(2 * self._sits_out_next, _SITS_OUT_MAX)
