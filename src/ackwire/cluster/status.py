"""How a group of brokers stands, for operators: `ackwire cluster status`, `why`, HTTP."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from ackwire.util.plurals import counted


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """One node of a group, as the one that was asked knows it."""

    node_id: str
    role: str
    address: str = ""
    client_uri: str = ""
    epoch: int = 0
    """Of the last record of its log."""
    number: int = 0
    """Of that record."""
    lag_records: int = 0
    """How far its disk is behind the master's log; only the master knows it."""
    counts: bool = False
    """Whether the quorum counts on it now."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A group."""

    asked: str
    """The node that tells this."""
    role: str
    epoch: int
    master: str
    """Empty if there is none, or none is known."""
    replicas: int
    sync: str
    committed: int
    """The last record that a quorum is known to have."""
    why: str
    nodes: Sequence[NodeStanding]
    missing: Sequence[str]
    """Members of the group that are not there, or whose copies do not count."""

    @property
    def quorum(self) -> int:
        return self.replicas // 2 + 1

    @property
    def is_seen_from_master(self) -> bool:
        return bool(self.master) and self.master == self.asked

    @property
    def spare(self) -> int:
        """How many more nodes may fail; below 0 nothing is answered."""
        return sum(1 for it in self.nodes if it.counts) - self.quorum

    @property
    def outlook(self) -> str:
        """Which failure would be survived now, in a sentence."""
        missing = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        if not self.is_seen_from_master:
            where = f"; ask the master, {self.master}" if self.master else "; there is no master"
            return f"{self.asked} is no master, and does not know who has what{where}"
        if self.spare < 0:
            count = self.spare + self.quorum
            return (
                f"nothing is acknowledged: {counted(count, 'node')} of {self.replicas} can be counted on, and "
                f"{self.quorum} are needed{missing}"
            )
        if not self.spare:
            return f"no further failure would be survived: {self.quorum} of {self.replicas} nodes are there{missing}"
        return f"{counted(self.spare, 'more node')} may fail{missing}"

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "quorum": self.quorum, "outlook": self.outlook}

    def report(self) -> list[str]:
        """Sentences for `why broker`; what is wrong begins with that word."""
        first = f"node {self.asked} is {self.role} in epoch {self.epoch} of a group of {self.replicas}; {self.why}"
        return [first, f"wrong: {self.outlook}" if self.is_seen_from_master and self.spare < 0 else self.outlook]


class Group(Protocol):
    """What a broker of a group offers to operators. Only for the thread of its loop."""

    def standing(self) -> GroupStanding:
        """What this node knows now."""
        ...

    async def full_standing(self) -> GroupStanding:
        """The same, with what the elector knows of the other nodes."""
        ...

    def transfer(self, node_id: str) -> str | None:
        """Hand mastership over to that node; or say why not."""
        ...
