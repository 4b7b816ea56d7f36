"""A node as the elector knows it: what it says of itself, and the group that it belongs to."""

from collections.abc import Callable
from typing import Protocol

from ackwire.replication.elector import Elector, Joined, Standing
from ackwire.replication.identity import Identity
from ackwire.replication.log import LogEnd, NodeState
from ackwire.replication.promises import Promises


class MembershipEvents(Protocol):
    """What the node hears."""

    def on_higher_floor(self, epoch: int) -> None:
        """A lower epoch than that may not be followed from now on."""
        ...

    def on_member(self) -> None:
        """A session has begun, and all is remembered that this node must know."""
        ...

    def on_disk_failed(self, error: Exception) -> None: ...


class Membership:
    """Tells the elector of this node, and takes what it finds when a session begins."""

    def __init__(
        self, identity: Identity, state: NodeState, promises: Promises, elector: Elector, events: MembershipEvents
    ) -> None:
        self.is_joined = False
        """Whether a session ever began in this process: without one, nothing is known of what another disk of this node
        has promised."""
        self._identity = identity
        self._state = state
        self._promises = promises
        self._elector = elector
        self._events = events
        self._announced: Standing | None = None

    def begin(self, done: Callable[[], None]) -> None:
        """The elector is to know this disk by an id that a new start finds again: write that down, then call *done*."""
        self._state.promise(self._promises.durable, lambda error: self._unless_failed(error, done))

    def announce(self, end: LogEnd, *, anew: bool = False) -> None:
        """Tell the elector of this node, if that has changed."""
        identity, state = self._identity, self._state
        standing = Standing(
            identity.node_id,
            state.disk_id,
            identity.address,
            end,
            state.promised_epoch,
            state.may_vote,
            identity.weight,
        )
        if anew or standing != self._announced:
            self._announced = standing
            self._elector.announce(standing)

    # ---- a session begins --------------------------------------------------------------------------------------

    def joined(self, joined: Joined) -> None:
        """A session has begun, and the elector has found this."""
        state = self._state
        if state.group_id and state.group_id != joined.group_id:
            text = f"this node belongs to group {state.group_id}, and the elector to group {joined.group_id}"
            self._events.on_disk_failed(ValueError(text))
        elif not state.group_id:
            state.join(joined.group_id, lambda error: self._unless_failed(error, lambda: self._of_group(joined)))
        else:
            self._of_group(joined)

    def _unless_failed(self, error: Exception | None, go_on: Callable[[], None]) -> None:
        if error is not None:
            self._events.on_disk_failed(error)
        else:
            go_on()

    def _of_group(self, joined: Joined) -> None:
        """A disk that is not known may stand for one that is lost, with what that has promised: it promises as much."""
        if self._must_promise(joined):
            self._events.on_higher_floor(joined.epoch)
            self._promises.promise(joined.epoch, self._is_member)
        else:
            self._is_member()

    def _must_promise(self, joined: Joined) -> bool:
        return not joined.is_member and joined.epoch > self._promises.durable

    def _is_member(self) -> None:
        self.is_joined = True
        self._events.on_member()
