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

from ackwire.errors import StoreFailed
from ackwire.replication.copies import Copy, CopyStatus
from ackwire.replication.copy_log import CopyLog
from ackwire.replication.elector import Elector, Joined
from ackwire.replication.following import Following, Target
from ackwire.replication.handing_over import HandingOver
from ackwire.replication.host import Host, LinkHandler
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.leader import Leader
from ackwire.replication.log import LogEnd, LogSource, NodeState, ReplicaLog
from ackwire.replication.membership import Membership
from ackwire.replication.messages import Bye, Hello, Message, Reason, Welcome
from ackwire.replication.promises import Promises
from ackwire.replication.quorum import CommitQuorum
from ackwire.util.clock import Clock

__all__ = ["Host", "LinkHandler", "Node", "NodeRole", "NodeStatus"]

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
    """One node of a group; implements `ElectorEvents` and the events of its parts."""

    leader_class = Leader
    following_class = Following
    membership_class = Membership
    promises_class = Promises
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
        self._copy = self.copy_class(log, self.on_disk_failed)
        self._elector = elector
        self._host = host
        self._clock = clock
        self._timing = timing or Timing()
        self._promises = self.promises_class(state, self.on_disk_failed)
        self._membership = self.membership_class(identity, state, self._promises, elector, self)
        self._following = self.following_class(
            identity, state, self._promises, host, self._copy, clock=clock, timing=self._timing, events=self
        )
        self._grant: tuple[int, Mapping[str, str]] | None = None
        """For which this node does not stand yet."""
        self._tried: tuple[int, Mapping[str, str]] | None = None
        """The last grant whose epoch this node was about to promise to itself."""
        self.leader: Leader | None = None
        """Of the grant that is in force."""
        self._quorum: CommitQuorum | None = None
        self._is_suspended = False
        self._is_opening = False
        """Whether the host has not said yet what became of a take-over."""
        self._waits_to_serve = False

    def start(self) -> None:
        """Begin. The elector is told of this node when it says that a session has begun."""
        if self._was_used_alone():
            text = f"the journal has records of epoch {self.end.epoch}, which this node never promised to anyone: "
            self.on_disk_failed(ValueError(text + "it was used without its group"))
            return
        self._tick()
        self._membership.begin(self._announce)

    def _was_used_alone(self) -> bool:
        """Whether a broker without replication has written to the journal: a node promises an epoch first."""
        return self.end.epoch > self._state.promised_epoch

    # ---- facts -------------------------------------------------------------------------------------------------

    @property
    def end(self) -> LogEnd:
        return self._copy.end

    @property
    def epoch(self) -> int:
        """Of the grant, or of the master that is followed; 0 if there is neither."""
        if self.leader is not None:
            return self.leader.epoch
        return self._following.epoch

    @property
    def _granted_epoch(self) -> int:
        """Of a grant that is in force, or of which nothing was done yet; 0 if there is none."""
        if self._grant is not None:
            return self._grant[0]
        return 0 if self.leader is None else self.leader.epoch

    def status(self) -> NodeStatus:
        leader = self.leader
        copies: tuple[CopyStatus, ...] = () if leader is None else tuple(leader.statuses())
        committed = self._committed
        target = self._following.target
        master = self.identity.node_id if leader is not None else "" if target is None else target.node_id
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

    def _announce(self, *, anew: bool = False) -> None:
        if self.role is NodeRole.FOLLOWER:
            self._membership.announce(self.end, anew=anew)

    # ---- the elector: sessions ---------------------------------------------------------------------------------

    def on_joined(self, joined: Joined) -> None:
        """See `ElectorEvents`."""
        self._membership.joined(joined)

    def on_higher_floor(self, epoch: int) -> None:
        """See `MembershipEvents`."""
        if self._following.epoch < epoch:
            self._following.forget(f"epoch {epoch} was granted")

    def on_member(self) -> None:
        """See `MembershipEvents`."""
        self._announce(anew=True)
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
        if node_id == self.identity.node_id or epoch < max(self._promises.asked, self._granted_epoch):
            return  # an old message
        self._grant = None
        if self.leader is not None and epoch > self.leader.epoch:
            self._step_down(f"{node_id} was granted epoch {epoch}")
        self._following.follow(Target(epoch, node_id, address))

    def may_follow(self) -> bool:
        """See `FollowingEvents`."""
        return self.role is NodeRole.FOLLOWER and self._membership.is_joined and self._grant is None

    def on_linked(self, why: str) -> None:
        """See `FollowingEvents`."""
        self._become(NodeRole.FOLLOWER, why)

    def on_unlinked(self, why: str) -> None:
        """See `FollowingEvents`."""
        if self.role is NodeRole.FOLLOWER:
            self._become(NodeRole.FOLLOWER, why)
            self._announce()

    def _go_on(self) -> None:
        """Do what the elector has said, now that something else is over."""
        if self._grant is not None:
            self._try_grant()
        else:
            self._following.go_on()

    # ---- a grant -----------------------------------------------------------------------------------------------

    def on_granted(self, epoch: int, members: Mapping[str, str]) -> None:
        """See `ElectorEvents`."""
        if self.role in (NodeRole.FAILED, NodeRole.STOPPED) or epoch == self._granted_epoch:
            return
        self._grant = (epoch, members)
        if self.role in _LEADING:
            self._step_down(f"epoch {epoch} is granted anew")
        self._following.stop(f"epoch {epoch} is granted to this node")
        self._try_grant()

    def _try_grant(self) -> None:
        grant = self._grant
        if grant is not None and self.role is NodeRole.FOLLOWER and self._membership.is_joined:
            self._copy.when_idle(lambda: self._promise_own(grant))

    def _promise_own(self, grant: tuple[int, Mapping[str, str]]) -> None:
        if grant is not self._grant or grant is self._tried:
            return
        self._tried = grant
        epoch, members = grant
        refusal = self._no_candidate(epoch, members)
        if refusal is not None:
            self._grant = None
            self._elector.resign(refusal)
            self._following.go_on()
            return
        self._promises.promise(epoch, lambda: self._stand(grant))

    def _no_candidate(self, epoch: int, members: Mapping[str, str]) -> str | None:
        """Why this node cannot use a grant."""
        if epoch <= self._promises.asked:
            return f"epoch {epoch} is not above the promised {self._promises.asked}"
        if members.get(self.identity.node_id) != self._state.disk_id or not self._state.may_vote:
            return f"the copy of {self.identity.node_id} is not one that the group counts on"
        return None

    def _stand(self, grant: tuple[int, Mapping[str, str]]) -> None:
        """The promise to itself is durable: collect those of others."""
        if grant is not self._grant:
            return
        (epoch, members), self._grant = grant, None
        self._following.forget("this node is a candidate")
        self._quorum = self.quorum_class(epoch, mode=self.identity.mode, may_answer=self._may_answer)
        if self._is_suspended:
            self._quorum.suspend()
        self.leader = self._make_leader(epoch, members, self._quorum)
        self._become(NodeRole.CANDIDATE, f"epoch {epoch} is granted")
        self.leader.begin()

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

    def on_members(self, members: Mapping[str, str]) -> None:
        """See `ElectorEvents`."""
        if self.leader is not None:
            self.leader.members_are(members)

    def on_better_log(self, node_id: str, end: LogEnd) -> None:
        """See `LeaderEvents`."""
        why = f"the log of {node_id} ends at {tuple(end)}, and this node's at {tuple(self.end)}"
        self._give_up(why, better=node_id)

    def on_no_quorum(self, text: str) -> None:
        """See `LeaderEvents`."""
        self._give_up(text)

    def on_slow_disk(self, text: str, better: str) -> None:
        """See `LeaderEvents`."""
        self._give_up(text, better=better)

    def on_damaged_log(self, text: str, better: str | None) -> None:
        """See `LeaderEvents`."""
        if better is None:
            _log.error("%s; no other node has everything, so this one goes on", text)
            return
        self._state.lose_log(text, lambda error: None if error is None else self.on_disk_failed(error))
        self._give_up(text, better=better)

    def on_higher_epoch(self, epoch: int, node_id: str) -> None:
        """See `LeaderEvents`."""
        self._give_up(f"{node_id} has promised epoch {epoch}")

    def _give_up(self, why: str, *, better: str | None = None) -> None:
        self._step_down(why)
        self._elector.resign(why, better=better)

    def hand_over(self, node_id: str) -> str | None:
        """Have *node_id* be master in place of this node, as soon as its copy has everything; or say why not."""
        if self.role is not NodeRole.MASTER or self.leader is None or self._quorum is None:
            return "this node is not the master"
        if self._quorum.is_held:
            return "this node hands over already"
        refusal = self.leader.cannot_hand_over(node_id)
        if refusal is None:
            HandingOver(
                self.leader,
                self._quorum,
                node_id,
                clock=self._clock,
                give_up=lambda: self._give_up(f"it hands over to {node_id}", better=node_id),
            ).begin()
        return refusal

    def on_quorum_promised(self) -> None:
        """See `LeaderEvents`."""
        leader, quorum = self.leader, self._quorum
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
            self.on_disk_failed(error)
        elif source is None:
            self._not_taken_over(leader, f"the log cannot be taken over: {error}")
        elif leader is not self.leader:  # the grant is lost meanwhile
            self._close_store()
        else:
            leader.took_over(source)

    def _not_taken_over(self, leader: Leader, why: str) -> None:
        """The log is a copy still."""
        if leader is self.leader:
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
        if self._waits_to_serve and self.leader is not None and self._may_answer() and not self._is_suspended:
            self._waits_to_serve = False
            self._become(NodeRole.MASTER, f"a quorum has epoch {self.leader.epoch} on disk")
            self._host.serve(self.leader.epoch)

    def admit(self, node_id: str, disk_id: str, done: Callable[[Exception | None], None]) -> None:
        """See `LeaderEvents`."""
        assert self.leader is not None
        self._elector.admit(node_id, disk_id, self.leader.epoch, done)

    def _step_down(self, why: str) -> None:
        """End the leadership, if there is one."""
        leader = self.leader
        if leader is None:
            return
        had_store = self.role is not NodeRole.CANDIDATE
        leader.end(why)
        self.leader = self._quorum = None
        self._waits_to_serve = False
        if had_store:
            self._become(NodeRole.STEPPING_DOWN, why)
            if not self._is_opening:
                self._close_store()
        else:
            self._become(NodeRole.FOLLOWER, why)
            self._announce(anew=True)

    def _close_store(self) -> None:
        self._host.step_down(self.why, self._stepped_down)

    def _stepped_down(self, log: ReplicaLog) -> None:
        if self.role is not NodeRole.STEPPING_DOWN:
            return
        self._copy = self._following.copy = self.copy_class(log, self.on_disk_failed)
        self._become(NodeRole.FOLLOWER, self.why)
        self._announce(anew=True)
        self._go_on()

    # ---- links that others have made ---------------------------------------------------------------------------

    def accepted(self, link: Link) -> LinkHandler:
        """Another node has dialed, and has proved the secret."""
        return _Accepted(self, link)

    # ---- time, and the end -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.role in (NodeRole.FAILED, NodeRole.STOPPED):
            return
        self._clock.call_later(self._timing.heartbeat_seconds, self._tick)
        self._following.tick()
        if self.leader is not None:
            self.leader.tick()
            self._serve_if_held()

    def on_disk_failed(self, error: Exception) -> None:
        """See `FollowingEvents`: nothing of this node can be relied on until it is started anew."""
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
        self._following.stop(why)
        leader, self.leader = self.leader, None
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
            self._copy = self._hello(message)
        elif isinstance(message, Bye):
            self._link.close(Reason.NONE, "")
        else:
            self._link.close(Reason.BROKEN_PROTOCOL, f"a {type(message).__name__} before a hello")

    def _hello(self, hello: Hello) -> tuple[Leader, Copy] | None:
        """The first message of a link; None if it is refused."""
        node, leader = self._node, self._node.leader
        if leader is not None:
            copy = leader.hello(self._link, hello)
            return None if copy is None else (leader, copy)
        name = node.identity.node_id
        self._link.send(Welcome(Reason.NOT_MASTER, node.epoch, b"", name, f"{name} is no master"))
        self._link.close(Reason.NOT_MASTER, f"{name} is no master")
        return None

    def turn_ended(self) -> None:
        """Acknowledgements were counted as they came."""

    def closed(self) -> None:
        if self._copy is not None:
            leader, copy = self._copy
            leader.closed(copy)
