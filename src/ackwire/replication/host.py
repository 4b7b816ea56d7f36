"""What a node asks of the program that it is part of, and what links deliver to."""

from collections.abc import Callable
from typing import Protocol

from ackwire.replication.identity import Link
from ackwire.replication.log import LogSource, ReplicaLog
from ackwire.replication.messages import Message, Reason
from ackwire.replication.quorum import CommitQuorum


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
