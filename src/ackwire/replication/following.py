"""A node as a follower, over all links to one master after another: it promises, dials, and tries again.

Whatever was begun for one master (a promise, a dial) is of no effect when it ends while another is to be followed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ackwire.replication.copy_log import CopyLog
from ackwire.replication.follower import Follower
from ackwire.replication.host import Host, LinkHandler
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import NodeState
from ackwire.replication.messages import Reason
from ackwire.replication.promises import Promises
from ackwire.util.clock import Clock, Timer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """The master that the elector has named."""

    epoch: int
    node_id: str
    address: str


class FollowingEvents(Protocol):
    """What the node is asked and told."""

    def may_follow(self) -> bool:
        """Whether the node is free to follow anyone."""
        ...

    def on_linked(self, why: str) -> None:
        """It has said hello to a master."""
        ...

    def on_unlinked(self, why: str) -> None:
        """It has no link any more, or could not make one, and tries again later."""
        ...

    def on_disk_failed(self, error: Exception) -> None: ...


class Following:
    """Implements `FollowerEvents`."""

    follower_class = Follower

    def __init__(
        self,
        identity: Identity,
        state: NodeState,
        promises: Promises,
        host: Host,
        copy: CopyLog,
        *,
        clock: Clock,
        timing: Timing,
        events: FollowingEvents,
    ) -> None:
        self.copy = copy
        self.target: Target | None = None
        self.follower: Follower | None = None
        self._identity = identity
        self._state = state
        self._promises = promises
        self._host = host
        self._clock = clock
        self._timing = timing
        self._events = events
        self._is_dialing = False
        self._attempt = 0
        """Counts what was begun: an outcome of an earlier attempt is of no effect."""
        self._redial: Timer | None = None
        self._redial_seconds = timing.redial_seconds

    @property
    def epoch(self) -> int:
        """Of the master that is followed, or to be followed; 0 if there is none."""
        return 0 if self.target is None else self.target.epoch

    # ---- whom to follow ----------------------------------------------------------------------------------------

    def follow(self, target: Target) -> None:
        """The elector has named a master."""
        if target == self.target:
            return
        self.stop(f"{target.node_id} was granted epoch {target.epoch}")
        self.target = target
        self._redial_seconds = self._timing.redial_seconds
        self.go_on()

    def stop(self, why: str) -> None:
        """End the link, and whatever is under way to make one."""
        self._attempt += 1
        self._is_dialing = False
        if self._redial is not None:
            self._redial.cancel()
            self._redial = None
        follower, self.follower = self.follower, None
        if follower is not None:
            follower.stop(Reason.NONE, why)

    def forget(self, why: str) -> None:
        """The named master is of no use any more."""
        self.stop(why)
        self.target = None

    # ---- links -------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Promise the epoch of the master, and make a link to it, unless that is under way."""
        if self.target is None or self.follower is not None or self._is_dialing or not self._events.may_follow():
            return
        self._is_dialing = True
        self._attempt += 1
        attempt, target = self._attempt, self.target
        self.copy.when_idle(lambda: self._promise_to(attempt, target))

    def _promise_to(self, attempt: int, target: Target) -> None:
        if attempt != self._attempt:
            return
        if target.epoch < self._promises.asked:
            self._is_dialing = False
        else:
            self._promises.promise(target.epoch, lambda: self._dial(attempt, target))

    def _dial(self, attempt: int, target: Target) -> None:
        if attempt == self._attempt:
            self._host.dial(
                target.address,
                lambda link: self._linked(attempt, target, link),
                lambda reason, text: self._not_linked(attempt, reason, text),
            )

    def _linked(self, attempt: int, target: Target, link: Link) -> LinkHandler | None:
        if attempt != self._attempt:
            link.close(Reason.NONE, "it came too late")
            return None
        self._is_dialing = False
        follower = self.follower = self.follower_class(
            self._identity,
            target.epoch,
            link,
            self.copy,
            group_id=self._state.group_id,
            disk_id=self._state.disk_id,
            may_vote=self._state.may_vote,
            clock=self._clock,
            timing=self._timing,
            events=self,
        )
        follower.begin()
        self._events.on_linked(f"{target.node_id} is granted epoch {target.epoch}")
        return follower

    def _not_linked(self, attempt: int, reason: Reason, text: str) -> None:
        if attempt == self._attempt:
            self._is_dialing = False
            self.on_refused(reason, text)

    def tick(self) -> None:
        """Call it each `heartbeat_seconds`."""
        if self.follower is not None:
            self.follower.tick()

    # ---- what the follower tells -------------------------------------------------------------------------------

    def on_accepted(self) -> None:
        """See `FollowerEvents`."""
        self._redial_seconds = self._timing.redial_seconds

    def on_refused(self, reason: Reason, text: str) -> None:
        """See `FollowerEvents`."""
        if reason is Reason.LOST_RECORDS:
            _log.error(
                "node %s has lost records and has no vote until it has all again: %s", self._identity.node_id, text
            )
            self._state.lose_vote(self._unless_failed(lambda: None))
        if reason.is_lasting:
            self._redial_seconds = self._timing.redial_seconds_max
            _log.error("node %s is refused: %s", self._identity.node_id, text)
        self.on_link_over(text)

    def on_link_over(self, text: str) -> None:
        """See `FollowerEvents`."""
        self.follower = None
        if self._redial is None:
            self._redial = self._clock.call_later(self._redial_seconds, self._try_again)
            self._redial_seconds = min(2 * self._redial_seconds, self._timing.redial_seconds_max)
        self._events.on_unlinked(text)

    def _try_again(self) -> None:
        self._redial = None
        self.go_on()

    def grant_vote(self, done: Callable[[], None]) -> None:
        """See `FollowerEvents`."""

        self._state.grant_vote(self._unless_failed(done))

    def _unless_failed(self, done: Callable[[], None]) -> Callable[[Exception | None], None]:
        def written(error: Exception | None) -> None:
            if error is not None:
                self._events.on_disk_failed(error)
            else:
                done()

        return written
