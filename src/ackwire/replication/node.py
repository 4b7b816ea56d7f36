"""What one node does over its life, without I/O.

    FOLLOWER ─granted─► CANDIDATE ─quorum promised─► TAKING_OVER ─committed─► MASTER
        ▲                   │ better log, lost           │ lost                 │ lost, resigned
        └───────────────────┴──────── STEPPING_DOWN ◄────┴──────────────────────┘         and FAILED, STOPPED

The elector says who is to be master of which epoch, the host opens and closes the store and dials. The invariants:

- A promise is durable before the hello that tells of it, and a link of a lower epoch is ended before it is promised.
- The copy is spoken of only while no truncation or refill is under way.
- What was begun for one epoch (a promise, a dial, a take-over) is of no effect when it ends in another.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ackwire.errors import StoreFailed
from ackwire.replication.copies import Copy, CopyStatus
from ackwire.replication.copy_log import CopyLog
from ackwire.replication.elector import Elector, Joined, Standing
from ackwire.replication.follower import Follower
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.leader import Leader
from ackwire.replication.log import LogEnd, LogSource, NodeState, ReplicaLog
from ackwire.replication.messages import Bye, Hello, Message, Reason, Welcome
from ackwire.replication.quorum import CommitQuorum
from ackwire.util.clock import Clock, Timer

_log = logging.getLogger(__name__)


class NodeRole(Enum):
    """See the module."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    TAKING_OVER = "taking over"
    MASTER = "master"
    STEPPING_DOWN = "stepping down"
    FAILED = "failed"
    STOPPED = "stopped"


_LEADING = frozenset((NodeRole.CANDIDATE, NodeRole.TAKING_OVER, NodeRole.MASTER))


class LinkHandler(Protocol):
    """Receives what comes over a link, on the loop."""

    def receive(self, message: Message) -> None: ...

    def turn_ended(self) -> None:
        """All messages that came together were received."""
        ...

    def closed(self) -> None:
        """The link has ended, but not from this side."""
        ...


class Host(Protocol):
    """Does for a node what needs a store or a network. Callbacks come on the loop, perhaps before the call returns."""

    def dial(
        self, address: str, on_link: Callable[[Link], LinkHandler | None], on_failed: Callable[[Reason, str], None]
    ) -> None:
        """Make a link to the node at *address*, and prove the secret. *on_link* returns who receives what comes over
        it, or None if it has closed the link, which is of no use any more."""
        ...

    def take_over(
        self,
        log: ReplicaLog,
        epoch: int,
        quorum: CommitQuorum,
        done: Callable[[LogSource | None, Exception | None], None],
    ) -> None:
        """Open *log* as a store that writes records of *epoch* and is durable when *quorum* says so. *done* when it
        stands at the end of the log; then, and not before, it writes the first record of the epoch. With an error, the
        log stays a copy."""
        ...

    def serve(self, epoch: int) -> None:
        """Everything that was ever committed is in the store: clients may come."""
        ...

    def suspended(self, is_suspended: bool) -> None:
        """Whether the grant is in doubt."""
        ...

    def step_down(self, why: str, done: Callable[[ReplicaLog], None]) -> None:
        """Serve no more, and let go of the store; *done* with the journal as a copy again."""
        ...

    def fail(self, error: Exception) -> None:
        """This node cannot go on until it is started anew."""
        ...


@dataclass(frozen=True, slots=True)
class _Target:
    """The master that the elector has named."""

    epoch: int
    node_id: str
    address: str


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as it is now."""

    node_id: str
    role: NodeRole
    epoch: int
    """Of the grant, or of the master that is followed."""
    master: str
    """The node that is or will be followed; empty if none is known."""
    end: LogEnd
    committed: int
    why: str
    copies: tuple[CopyStatus, ...]


class Node:
    """One node of a group; implements `ElectorEvents`, `LeaderEvents` and `FollowerEvents`."""

    leader_class = Leader
    follower_class = Follower
    quorum_class = CommitQuorum
    copy_class = CopyLog
    """What it is made of; tests replace parts to show what each is for."""

    def __init__(
        self,
        identity: Identity,
        state: NodeState,
        log: ReplicaLog,
        elector: Elector,
        host: Host,
        *,
        clock: Clock,
        timing: Timing | None = None,
    ) -> None:
        self.identity = identity
        self.role = NodeRole.FOLLOWER
        self.why = "it starts"
        """Why the role is what it is."""
        self.on_role: Callable[[NodeRole, str], None] | None = None
        """Told each new role, and why."""
        self._state = state
        self._copy = self.copy_class(log, self._disk_failed)
        self._elector = elector
        self._host = host
        self._clock = clock
        self._timing = timing or Timing()
        self._promised = state.promised_epoch
        """What is promised durably."""
        self._asked = state.promised_epoch
        """The highest that this node was ever about to promise: a lower one is of no use any more."""
        self._joined: Joined | None = None
        """What the last session has found: without one, nothing is known of what another disk of this node promised."""
        self._target: _Target | None = None
        self._follower: Follower | None = None
        self._is_dialing = False
        self._attempt = 0
        """Counts what was begun: an outcome of an earlier attempt is of no effect."""
        self._redial: Timer | None = None
        self._redial_seconds = self._timing.redial_seconds
        self._grant: tuple[int, Mapping[str, str]] | None = None
        """Of which nothing was done yet."""
        self._leader: Leader | None = None
        self._quorum: CommitQuorum | None = None
        self._is_suspended = False
        self._is_opening = False
        """Whether the host has not said yet what became of a take-over."""
        self._waits_to_serve = False
        self._announced: Standing | None = None

    def start(self) -> None:
        """Begin. The elector is told of this node when it says that a session has begun."""
        if self._was_used_alone():
            text = f"the journal has records of epoch {self.end.epoch}, which this node never promised to anyone: "
            self._disk_failed(ValueError(text + "it was used without its group"))
            return
        self._tick()
        # The elector is to know this disk by an id that a new start finds again, so that is on the disk first.
        self._state.promise(self._promised, self._started)

    def _was_used_alone(self) -> bool:
        """Whether a broker without replication has written to the journal: a node promises an epoch first."""
        return self.end.epoch > self._state.promised_epoch

    def _started(self, error: Exception | None) -> None:
        if error is not None:
            self._disk_failed(error)
        else:
            self._announce()

    # ---- facts -------------------------------------------------------------------------------------------------

    @property
    def end(self) -> LogEnd:
        return self._copy.end

    @property
    def epoch(self) -> int:
        """Of the grant, or of the master that is followed; 0 if there is neither."""
        if self._leader is not None:
            return self._leader.epoch
        return 0 if self._target is None else self._target.epoch

    @property
    def _granted_epoch(self) -> int:
        """Of a grant that is in force, or of which nothing was done yet; 0 if there is none."""
        if self._grant is not None:
            return self._grant[0]
        return 0 if self._leader is None else self._leader.epoch

    @property
    def is_leading(self) -> bool:
        return self.role in _LEADING

    def status(self) -> NodeStatus:
        leader = self._leader
        copies: tuple[CopyStatus, ...] = () if leader is None else tuple(leader.statuses())
        committed = self._committed
        master = self.identity.node_id if leader is not None else "" if self._target is None else self._target.node_id
        end = self.end if leader is None or leader.source_end is None else leader.source_end
        return NodeStatus(self.identity.node_id, self.role, self.epoch, master, end, committed, self.why, copies)

    @property
    def _committed(self) -> int:
        """Up to here the log is known to be committed; 0 between two roles, when the log has no owner."""
        if self._quorum is not None:
            return self._quorum.committed
        return self._copy.log.committed() if self.role is NodeRole.FOLLOWER else 0

    def _become(self, role: NodeRole, why: str) -> None:
        former, self.role, self.why = self.role, role, why
        if role is not former:
            _log.info("node %s is %s: %s", self.identity.node_id, role.value, why)
            if self.on_role is not None:
                self.on_role(role, why)

    def _announce(self) -> None:
        """Tell the elector of this node, if that has changed."""
        if self.role is not NodeRole.FOLLOWER:
            return
        identity, state = self.identity, self._state
        standing = Standing(
            identity.node_id,
            state.disk_id,
            identity.address,
            self.end,
            state.promised_epoch,
            state.may_vote,
            identity.weight,
        )
        if standing != self._announced:
            self._announced = standing
            self._elector.announce(standing)

    # ---- the elector: sessions ---------------------------------------------------------------------------------

    def on_joined(self, joined: Joined) -> None:
        """See `ElectorEvents`."""
        state = self._state
        if state.group_id and state.group_id != joined.group_id:
            text = f"this node belongs to group {state.group_id}, and the elector to group {joined.group_id}"
            self._disk_failed(ValueError(text))
        elif not state.group_id:
            state.join(joined.group_id, lambda error: self._joined_group(joined, error))
        else:
            self._joined_group(joined, None)

    def _joined_group(self, joined: Joined, error: Exception | None) -> None:
        """A disk that is not known may stand for one that is lost, with what that has promised: it promises as much."""
        if error is not None:
            self._disk_failed(error)
        elif self._must_promise(joined):
            self._promise(joined.epoch, lambda: self._is_joined(joined))
        else:
            self._is_joined(joined)

    def _must_promise(self, joined: Joined) -> bool:
        return not joined.is_member and joined.epoch > self._promised

    def _promise(self, epoch: int, done: Callable[[], None]) -> None:
        """Promise *epoch* durably, then call *done*."""

        def promised(error: Exception | None) -> None:
            if error is not None:
                self._disk_failed(error)
                return
            self._promised = max(self._promised, epoch)
            done()

        self._asked = max(self._asked, epoch)
        if epoch <= self._promised:
            done()
        else:
            self._state.promise(epoch, promised)

    def _is_joined(self, joined: Joined) -> None:
        self._joined = joined
        self._announced = None
        self._announce()
        self._go_on()

    def on_suspended(self) -> None:
        """See `ElectorEvents`."""
        self._is_suspended = True
        if self._quorum is not None:
            self._quorum.suspend()
            self._host.suspended(True)

    def on_resumed(self) -> None:
        """See `ElectorEvents`."""
        self._is_suspended = False
        if self._quorum is not None:
            self._quorum.resume()
            self._host.suspended(False)

    def on_lost(self, why: str) -> None:
        """See `ElectorEvents`."""
        self._is_suspended = False
        self._grant = None
        self._step_down(why)

    # ---- following ---------------------------------------------------------------------------------------------

    def on_leader(self, epoch: int, node_id: str, address: str) -> None:
        """See `ElectorEvents`."""
        if node_id == self.identity.node_id or epoch < max(self._asked, self._granted_epoch):
            return  # an old message
        self._grant = None
        if self._leader is not None and epoch > self._leader.epoch:
            self._step_down(f"{node_id} was granted epoch {epoch}")
        target = _Target(epoch, node_id, address)
        if target != self._target:
            self._target = target
            self._unfollow(f"{node_id} was granted epoch {epoch}")
            self._redial_seconds = self._timing.redial_seconds
            self._follow()

    def _go_on(self) -> None:
        """Do what the elector has said, now that something else is over."""
        if self._grant is not None:
            self._try_grant()
        else:
            self._follow()

    def _follow(self) -> None:
        """Promise the epoch of the master, and make a link to it, unless that is under way."""
        if not self._can_follow():
            return
        assert self._target is not None
        self._is_dialing = True
        self._attempt += 1
        attempt, target = self._attempt, self._target
        self._copy.when_idle(lambda: self._promise_to(attempt, target))

    def _can_follow(self) -> bool:
        return (
            self.role is NodeRole.FOLLOWER
            and self._target is not None
            and self._joined is not None
            and self._follower is None
            and not self._is_dialing
            and self._grant is None
        )

    def _promise_to(self, attempt: int, target: _Target) -> None:
        if attempt != self._attempt:
            return
        if target.epoch < self._asked:
            self._is_dialing = False
        else:
            self._promise(target.epoch, lambda: self._dial(attempt, target))

    def _dial(self, attempt: int, target: _Target) -> None:
        if attempt == self._attempt:
            self._host.dial(
                target.address,
                lambda link: self._linked(attempt, target, link),
                lambda reason, text: self._not_linked(attempt, reason, text),
            )

    def _linked(self, attempt: int, target: _Target, link: Link) -> LinkHandler | None:
        if attempt != self._attempt:
            link.close(Reason.NONE, "it came too late")
            return None
        self._is_dialing = False
        follower = self._follower = self.follower_class(
            self.identity,
            target.epoch,
            link,
            self._copy,
            group_id=self._state.group_id,
            disk_id=self._state.disk_id,
            may_vote=self._state.may_vote,
            clock=self._clock,
            timing=self._timing,
            events=self,
        )
        follower.begin()
        self._become(NodeRole.FOLLOWER, f"{target.node_id} is granted epoch {target.epoch}")
        return follower

    def _not_linked(self, attempt: int, reason: Reason, text: str) -> None:
        if attempt == self._attempt:
            self._is_dialing = False
            self.on_refused(reason, text)

    def on_accepted(self) -> None:
        """See `FollowerEvents`."""
        self._redial_seconds = self._timing.redial_seconds

    def on_refused(self, reason: Reason, text: str) -> None:
        """See `FollowerEvents`."""
        self._follower = None
        if reason.is_lasting:
            self._redial_seconds = self._timing.redial_seconds_max
            _log.error("node %s is refused: %s", self.identity.node_id, text)
        self._follow_later(text)

    def on_link_over(self, text: str) -> None:
        """See `FollowerEvents`."""
        self._follower = None
        self._follow_later(text)

    def _follow_later(self, why: str) -> None:
        if self.role is not NodeRole.FOLLOWER:
            return
        self._become(NodeRole.FOLLOWER, why)
        self._announce()
        if self._redial is None:
            self._redial = self._clock.call_later(self._redial_seconds, self._redial_now)
            self._redial_seconds = min(2 * self._redial_seconds, self._timing.redial_seconds_max)

    def _redial_now(self) -> None:
        self._redial = None
        self._follow()

    def grant_vote(self, done: Callable[[], None]) -> None:
        """See `FollowerEvents`."""

        def granted(error: Exception | None) -> None:
            if error is not None:
                self._disk_failed(error)
                return
            self._announce()
            done()

        self._state.grant_vote(granted)

    def _unfollow(self, why: str) -> None:
        """End the link, and whatever is under way to make one."""
        self._attempt += 1
        self._is_dialing = False
        if self._redial is not None:
            self._redial.cancel()
            self._redial = None
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.stop(Reason.NONE, why)

    # ---- a grant -----------------------------------------------------------------------------------------------

    def on_granted(self, epoch: int, members: Mapping[str, str]) -> None:
        """See `ElectorEvents`."""
        if self.role in (NodeRole.FAILED, NodeRole.STOPPED) or epoch == self._granted_epoch:
            return
        self._grant = (epoch, members)
        if self.is_leading:
            self._step_down(f"epoch {epoch} is granted anew")
        self._unfollow(f"epoch {epoch} is granted to this node")
        self._try_grant()

    def _try_grant(self) -> None:
        if self._grant is None or self.role is not NodeRole.FOLLOWER or self._joined is None:
            return
        attempt = self._attempt = self._attempt + 1
        self._copy.when_idle(lambda: self._promise_own(attempt))

    def _promise_own(self, attempt: int) -> None:
        if attempt != self._attempt or self._grant is None:
            return
        epoch, members = self._grant
        refusal = self._no_candidate(epoch, members)
        if refusal is not None:
            self._grant = None
            self._elector.resign(refusal)
            self._follow()
            return
        self._promise(epoch, lambda: self._stand(attempt))

    def _no_candidate(self, epoch: int, members: Mapping[str, str]) -> str | None:
        """Why this node cannot use a grant."""
        if epoch <= self._asked:
            return f"epoch {epoch} is not above the promised {self._asked}"
        if members.get(self.identity.node_id) != self._state.disk_id or not self._state.may_vote:
            return f"the copy of {self.identity.node_id} is not one that the group counts on"
        return None

    def _stand(self, attempt: int) -> None:
        """The promise to itself is durable: collect those of others."""
        if attempt != self._attempt:
            return
        if self._grant is None:
            self._follow()
            return
        (epoch, members), self._grant = self._grant, None
        self._target = None
        self._quorum = self._make_quorum(epoch)
        if self._is_suspended:
            self._quorum.suspend()
        self._leader = self._make_leader(epoch, members, self._quorum)
        self._become(NodeRole.CANDIDATE, f"epoch {epoch} is granted")
        self._leader.begin()

    def _make_quorum(self, epoch: int) -> CommitQuorum:
        return self.quorum_class(epoch, mode=self.identity.mode, may_answer=self._may_answer)

    def _may_answer(self) -> bool:
        return self._clock.monotonic() < self._elector.holds_until()

    def _make_leader(self, epoch: int, members: Mapping[str, str], quorum: CommitQuorum) -> Leader:
        return self.leader_class(
            self.identity,
            epoch,
            members,
            group_id=self._state.group_id,
            end=self.end,
            store_id=self._copy.log.store_id,
            quorum=quorum,
            clock=self._clock,
            timing=self._timing,
            events=self,
        )

    # ---- leading -----------------------------------------------------------------------------------------------

    def on_better_log(self, node_id: str, end: LogEnd) -> None:
        """See `LeaderEvents`."""
        why = f"the log of {node_id} ends at {tuple(end)}, and this node's at {tuple(self.end)}"
        self._give_up(why, better=node_id)

    def on_no_quorum(self, text: str) -> None:
        """See `LeaderEvents`."""
        self._give_up(text)

    def on_higher_epoch(self, epoch: int, node_id: str) -> None:
        """See `LeaderEvents`."""
        self._give_up(f"{node_id} has promised epoch {epoch}")

    def _give_up(self, why: str, *, better: str | None = None) -> None:
        self._step_down(why)
        self._elector.resign(why, better=better)

    def hand_over(self, node_id: str) -> str | None:
        """Have *node_id* be master in place of this node, if its copy has everything; otherwise say why not."""
        if self.role is not NodeRole.MASTER or self._leader is None:
            return "this node is not the master"
        refusal = self._leader.cannot_hand_over(node_id)
        if refusal is None:
            self._give_up(f"it hands over to {node_id}", better=node_id)
        return refusal

    def on_quorum_promised(self) -> None:
        """See `LeaderEvents`."""
        leader, quorum = self._leader, self._quorum
        assert leader is not None
        assert quorum is not None
        self._become(NodeRole.TAKING_OVER, f"a quorum has promised epoch {leader.epoch}")
        self._is_opening = True
        self._host.take_over(
            self._copy.log, leader.epoch, quorum, lambda source, error: self._took_over(leader, source, error)
        )

    def _took_over(self, leader: Leader, source: LogSource | None, error: Exception | None) -> None:
        self._is_opening = False
        if isinstance(error, (OSError, StoreFailed)):
            self._disk_failed(error)
        elif source is None:
            self._not_taken_over(leader, f"the log cannot be taken over: {error}")
        elif leader is not self._leader:  # the grant is lost meanwhile
            self._close_store()
        else:
            leader.took_over(source)

    def _not_taken_over(self, leader: Leader, why: str) -> None:
        """The log is a copy still."""
        if leader is self._leader:
            self.role = NodeRole.CANDIDATE  # which has no store
            self._give_up(why)
        else:
            self._become(NodeRole.FOLLOWER, why)
            self._announce()
            self._go_on()

    def on_established(self) -> None:
        """See `LeaderEvents`."""
        self._waits_to_serve = True
        self._serve_if_held()

    def _serve_if_held(self) -> None:
        """Serve, once it is certain that no other node is granted mastership at this moment."""
        if self._waits_to_serve and self._leader is not None and self._may_answer() and not self._is_suspended:
            self._waits_to_serve = False
            self._become(NodeRole.MASTER, f"a quorum has epoch {self._leader.epoch} on disk")
            self._host.serve(self._leader.epoch)

    def admit(self, node_id: str, disk_id: str, done: Callable[[Exception | None], None]) -> None:
        """See `LeaderEvents`."""
        assert self._leader is not None
        self._elector.admit(node_id, disk_id, self._leader.epoch, done)

    def _step_down(self, why: str) -> None:
        """End the leadership, if there is one."""
        leader = self._leader
        if leader is None:
            return
        had_store = self.role is not NodeRole.CANDIDATE
        leader.end(why)
        self._leader = self._quorum = None
        self._waits_to_serve = False
        self._announced = None
        if had_store:
            self._become(NodeRole.STEPPING_DOWN, why)
            if not self._is_opening:
                self._close_store()
        else:
            self._become(NodeRole.FOLLOWER, why)
            self._announce()

    def _close_store(self) -> None:
        self._host.step_down(self.why, self._stepped_down)

    def _stepped_down(self, log: ReplicaLog) -> None:
        if self.role is not NodeRole.STEPPING_DOWN:
            return
        self._copy = self.copy_class(log, self._disk_failed)
        self._become(NodeRole.FOLLOWER, self.why)
        self._announce()
        self._go_on()

    # ---- links that others have made ---------------------------------------------------------------------------

    def accepted(self, link: Link) -> LinkHandler:
        """Another node has dialed, and has proved the secret."""
        return _Accepted(self, link)

    def hello(self, link: Link, hello: Hello) -> tuple[Leader, Copy] | None:
        """The first message of a link; None if it is refused."""
        leader = self._leader
        if leader is not None:
            copy = leader.hello(link, hello)
            return None if copy is None else (leader, copy)
        text = f"{self.identity.node_id} is no master"
        link.send(Welcome(Reason.NOT_MASTER, self.epoch, b"", self.identity.node_id, text))
        link.close(Reason.NOT_MASTER, text)
        return None

    # ---- time, and the end -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.role in (NodeRole.FAILED, NodeRole.STOPPED):
            return
        self._clock.call_later(self._timing.heartbeat_seconds, self._tick)
        if self._follower is not None:
            self._follower.tick()
        if self._leader is not None:
            self._leader.tick()
            self._serve_if_held()

    def _disk_failed(self, error: Exception) -> None:
        """Nothing of this node can be relied on until it is started anew."""
        if self.role in (NodeRole.FAILED, NodeRole.STOPPED):
            return
        self._end(NodeRole.FAILED, str(error))
        self._host.fail(error)

    def fail(self, error: Exception) -> None:
        """The host says that the store or the copy has failed."""
        self._copy.fail(error)

    def stop(self) -> None:
        """Leave the group for now. The host closes the store."""
        if self.role not in (NodeRole.FAILED, NodeRole.STOPPED):
            self._end(NodeRole.STOPPED, "it is stopped")

    def _end(self, role: NodeRole, why: str) -> None:
        self._unfollow(why)
        leader, self._leader = self._leader, None
        self._become(role, why)
        if leader is not None:
            leader.end(why)
        self._quorum = None
        self._grant = None
        self._elector.release()


class _Accepted:
    """A link that another node has made: a hello first, then what a follower says."""

    def __init__(self, node: Node, link: Link) -> None:
        self._node = node
        self._link = link
        self._copy: tuple[Leader, Copy] | None = None

    def receive(self, message: Message) -> None:
        if self._copy is not None:
            leader, copy = self._copy
            leader.receive(copy, message)
        elif isinstance(message, Hello):
            self._copy = self._node.hello(self._link, message)
        elif isinstance(message, Bye):
            self._link.close(Reason.NONE, "")
        else:
            self._link.close(Reason.BROKEN_PROTOCOL, f"a {type(message).__name__} before a hello")

    def turn_ended(self) -> None:
        """Acknowledgements were counted as they came."""

    def closed(self) -> None:
        if self._copy is not None:
            leader, copy = self._copy
            leader.closed(copy)
