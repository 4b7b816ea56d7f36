"""The last moment of a master that hands over to another node, without I/O.

Nothing is confirmed from the beginning on, so producers that wait send nothing more, and the copy of the successor soon
has everything. Then the master gives up. What was not answered is sent again, to the successor. A producer that does
not wait may send without end: after a second the master goes on as before.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from ackwire.replication.leader import Leader, LeaderState
from ackwire.replication.quorum import CommitQuorum
from ackwire.util.clock import Clock, Timer

HAND_OVER_SECONDS_MAX: Final = 1.0

_log = logging.getLogger(__name__)


@final
class HandingOver:
    """Waits until *node_id* has everything, then calls *give_up*."""

    def __init__(
        self,
        leader: Leader,
        quorum: CommitQuorum,
        node_id: str,
        *,
        clock: Clock,
        give_up: Callable[[], None],
    ) -> None:
        self._leader = leader
        self._quorum = quorum
        self._node_id = node_id
        self._clock = clock
        self._give_up = give_up
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Hold back what could be confirmed, and look."""
        self._quorum.hold()
        self._leader.on_progress = self._look
        self._timer = self._clock.call_later(HAND_OVER_SECONDS_MAX, self._took_too_long)
        self._look()

    def _look(self) -> None:
        if self._leader.state is LeaderState.ENDED:
            self._end()
            return
        refusal = self._leader.cannot_hand_over(self._node_id)
        if refusal is not None:
            self._stay(refusal)
        elif not self._leader.lag_of(self._node_id):
            self._end()
            self._give_up()

    def _took_too_long(self) -> None:
        if self._leader.state is LeaderState.ENDED:
            self._end()
        else:
            self._stay(f"after {HAND_OVER_SECONDS_MAX:g} s it still does not have everything")

    def _stay(self, why: str) -> None:
        _log.warning("this node stays the master, and does not hand over to %s: %s", self._node_id, why)
        self._end()
        self._quorum.let_go()

    def _end(self) -> None:
        self._leader.on_progress = None
        if self._timer is not None:
            self._timer.cancel()
