"""What the broker asks of a store, and exactly what is durable when.

The broker records what happens in the order in which it happens and goes on at once; only those who were promised
durability wait, by `when_durable`. So one sync can serve everybody who waits for it. A store keeps that order: after a
crash it holds everything up to some point and nothing after it, and that point is not before the last promise.
"""

from collections.abc import Callable
from typing import Protocol

from ackwire.destinations import Destination
from ackwire.message import Message


class Store(Protocol):
    """One contract for every store (SEMANTICS K1)."""

    def append(self, queue: Destination, message: Message) -> None:
        """Record that *message* is on *queue*. Durable once a later `when_durable` has called back."""
        ...

    def remove(self, queue: Destination, message: Message) -> None:
        """Record that *message* has left *queue*. A message removed before it was written need not be written."""
        ...

    def remove_queue(self, queue: Destination) -> None:
        """Record that *queue* and all that is on it are gone."""
        ...

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call *callback* as soon as everything recorded so far is durable; at once if it already is."""
        ...

    def close(self) -> None:
        """Make everything recorded so far durable and let go of all resources."""
        ...
