"""How far a store is with making things durable, and how urgently a caller asks for it."""

from enum import Enum
from typing import final


class Sync(Enum):
    """When a store syncs for a caller of `when_durable`."""

    NOW = "now"
    """At the end of this turn of the loop."""
    BESIDE = "beside"
    """The same, but never on the loop itself: a call of `cancel` may arrive while the sync is under way."""
    DELAYED = "delayed"
    """A moment later, unless another caller needs a sync sooner: the caller will probably call `cancel` by then."""


@final
class DurabilityState:
    """How far a store is. The store keeps one such object and changes it; others only read it."""

    __slots__ = ("durable_sequence", "has_waiters", "is_syncing")

    def __init__(self, durable_sequence: int = 0) -> None:
        self.has_waiters = False
        """Whether a caller waits for `when_durable`."""
        self.is_syncing = False
        """Whether a sync is under way that does not cover what is recorded now: that takes this sync and another."""
        self.durable_sequence = durable_sequence
        """Every message that was recorded with a sequence up to this one is durable, if it is there at all."""
