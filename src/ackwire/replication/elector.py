"""What a node asks of the one who elects, and what it hears from it. ZooKeeper is one; a simulation is another.

An elector carries no data. It keeps who the members of the group are (node and disk of each), how far each one's log
goes, and the epoch, which it raises by compare-and-set before it grants mastership to a node. It prefers the node whose
log goes furthest, but nothing depends on that: a candidate compares the logs of a quorum itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ackwire.replication.log import LogEnd


@dataclass(frozen=True, slots=True)
class Standing:
    """What a node tells the elector of itself."""

    node_id: str
    disk_id: str
    address: str
    end: LogEnd
    promised_epoch: int
    """No lower epoch is of use to this node."""
    may_vote: bool
    """Whether its log is one that the group counts on: only such a node can be master."""
    weight: int


@dataclass(frozen=True, slots=True)
class Joined:
    """What the elector has found when a session began: read after this node's own entry was written, so that no epoch
    is missing that was granted before."""

    group_id: str
    epoch: int
    """The highest that was granted so far; 0 in a group that never had a master."""
    is_member: bool
    """Whether this node with this disk is one of those that vote."""


class Elector(Protocol):
    """One node's connection with the elector."""

    def announce(self, standing: Standing) -> None:
        """This node is there, and a candidate if it may vote. Called again whenever it has changed."""
        ...

    def resign(self, why: str, *, better: str | None = None) -> None:
        """Give back a grant, or the master's place; this node stays a candidate, behind others. *better* names the node
        that has a better log."""
        ...

    def admit(self, node_id: str, disk_id: str, epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Have that disk vote from now on for that node, unless a higher epoch than *epoch* was granted."""
        ...

    def holds_until(self) -> float:
        """Until when, on this node's monotonic clock, no other node can be granted mastership (`lease.Lease`)."""
        ...

    def release(self) -> None:
        """This node leaves, with its grant if it has one."""
        ...


class ElectorEvents(Protocol):
    """What a node hears, on the loop."""

    def on_joined(self, joined: Joined) -> None:
        """A session has begun."""
        ...

    def on_leader(self, epoch: int, node_id: str, address: str) -> None:
        """That node was granted *epoch*: follow it."""
        ...

    def on_granted(self, epoch: int, members: Mapping[str, str]) -> None:
        """This node was granted *epoch*; *members* are the disks that vote, by their nodes."""
        ...

    def on_members(self, members: Mapping[str, str]) -> None:
        """The disks that vote have changed: a master must not count on a node that was removed. A place may be given to
        another node only after the master has heard of that (it asks to `admit` it)."""
        ...

    def on_suspended(self) -> None:
        """The connection is lost, and the session may be."""
        ...

    def on_resumed(self) -> None:
        """The connection is back, and so is the session."""
        ...

    def on_lost(self, why: str) -> None:
        """The session is over, and every grant with it. `on_joined` follows when there is a new one."""
        ...
