"""Who a node is, how it is set up, and what it measures time with: values that all parts of a node share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ackwire.replication.log import LogEnd
from ackwire.replication.messages import Message, Reason
from ackwire.replication.quorum import SyncMode

STORE_FORMAT: Final = 1
"""Of segments and records; copies are made byte by byte, so all nodes must have the same."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of a node."""

    node_id: str
    address: str
    """Where other nodes reach it."""
    incarnation: int
    """Chosen by chance when the process starts."""
    replicas: int
    store_format: int = STORE_FORMAT
    weight: int = 1
    mode: SyncMode = SyncMode.QUORUM_DISK


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient a node is, and how much it has on its way."""

    heartbeat_seconds: float = 0.5
    dead_seconds: float = 4.0
    """A peer that was silent for so long is cut off."""
    quorum_seconds: float = 10.0
    """A master or candidate that has had no quorum of followers for so long gives another node the chance."""
    disk_seconds: float = 10.0
    """A master whose disk has not taken for so long what a quorum of other disks has gives one of those the chance."""
    redial_seconds: float = 0.2
    """The pause before a failed link is tried again; it doubles up to the next."""
    redial_seconds_max: float = 3.0
    window_bytes: int = 16 << 20
    """Sent to a follower and not acknowledged; beyond it, it is sent what is in the files, as it acknowledges."""
    read_bytes: int = 1 << 20
    """Read from the files at a time for a follower that is behind."""


class Link(Protocol):
    """A connection with another node that has proved the secret. Both ends may close it at any time."""

    def send(self, message: Message) -> None:
        """Hand *message* to the network; it comes, in order, or the link ends."""
        ...

    def flush(self) -> None:
        """Hand over now what was sent in this turn, before something slow is done."""
        ...

    def close(self, reason: Reason, text: str) -> None:
        """Say *reason* to the peer, and end the link; nothing is received after that, and no end is reported."""
        ...


def last_common(
    ours: Sequence[tuple[int, int]], our_end: LogEnd, theirs: Sequence[tuple[int, int]], their_end: LogEnd
) -> int:
    """The last record that two logs share, found by their epochs; 0 if it is not known that they share any.

    Each epoch has one master, so two logs that have records of an epoch have the same ones, as far as both go in it.
    """
    our_last, their_last = _last_numbers(ours, our_end), _last_numbers(theirs, their_end)
    for epoch in sorted(our_last.keys() & their_last.keys(), reverse=True):
        common = min(our_last[epoch], their_last[epoch])
        if common > 0:
            return common
    return 0


def _last_numbers(epochs: Sequence[tuple[int, int]], end: LogEnd) -> dict[int, int]:
    """The last record of each epoch of a log."""
    nexts = [first - 1 for _, first in epochs[1:]] + [end.number]
    return {epoch: last for (epoch, _), last in zip(epochs, nexts, strict=True)} if epochs else {}
