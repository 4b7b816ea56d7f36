"""What this node has promised: to follow no master of a lower epoch, durably before it says so to anyone."""

from collections.abc import Callable

from ackwire.replication.log import NodeState


class Promises:
    """Keeps apart what is durable and what is only on its way to the disk."""

    def __init__(self, state: NodeState, on_failed: Callable[[Exception], None]) -> None:
        self._state = state
        self._on_failed = on_failed
        self.durable = state.promised_epoch
        """What is promised durably."""
        self.asked = state.promised_epoch
        """The highest that this node was ever about to promise: a lower one is of no use any more."""

    def promise(self, epoch: int, done: Callable[[], None]) -> None:
        """Promise *epoch* durably, then call *done*."""

        def promised(error: Exception | None) -> None:
            if error is not None:
                self._on_failed(error)
                return
            self.durable = max(self.durable, epoch)
            done()

        self.asked = max(self.asked, epoch)
        if epoch <= self.durable:
            done()
        else:
            self._state.promise(epoch, promised)
