"""The master's promise: records are answered for when enough copies have them on disk (`group_commit.Quorum`).

The commit number only grows. It is set on counts of records of the master's own epoch only, as Raft's is: a record of
an earlier epoch that is on many disks may still be replaced by a later master, unless one of this epoch lies behind it.
It always is an end that the store has asked about, so that a group of records is committed whole or not at all.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum

from ackwire.store.journal.group_commit import JournalEnd


class SyncMode(Enum):
    """When records are answered for."""

    QUORUM_DISK = "quorum_disk"
    """When a quorum, the master included, has them on disk."""
    QUORUM_MEM = "quorum_mem"
    """When the master has them on disk, and enough others in memory: a power cut of all may lose them."""
    LOCAL_DISK = "local_disk"
    """When the master has them on disk: a change of masters may lose them."""


def quorum_of(replicas: int) -> int:
    """How many copies, the master's included, make a quorum."""
    return replicas // 2 + 1


class CommitQuorum:
    """Implements `group_commit.Quorum` for one epoch. Everything happens on the loop.

    *may_answer* says whether the grant certainly is in force at this moment. While it is not, or while `is_suspended`,
    confirmations are held back; after `end` there are none any more.
    """

    def __init__(self, epoch: int, *, mode: SyncMode, may_answer: Callable[[], bool]) -> None:
        self.epoch = epoch
        self.first_own: int | None = None
        """The first record of the epoch, once the store stands at the end of the log."""
        self._mode = mode
        self._may_answer = may_answer
        self._ends: deque[int] = deque()
        """Record numbers that the store has on its medium and asked about, and that are not committed."""
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.local_durable = 0
        self.committed = 0
        self.is_suspended = False
        self.is_held = False
        """Whether nothing is confirmed for now, because another node is to be master."""
        self.is_ended = False
        self._is_releasing = False
        self.on_local: Callable[[], None] | None = None
        """Called when the local medium has more."""

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        """See `Quorum`."""
        if self.is_ended:
            return
        assert end.epoch == self.epoch, f"the store writes epoch {end.epoch} under a grant of {self.epoch}"
        if end.number > self.local_durable:
            self.local_durable = end.number
            self._ends.append(end.number)
        self._waiting.append((end.number, confirmed))
        if self.on_local is not None:
            self.on_local()
        self.release()

    def count(self, others: Iterable[int], needed: int) -> bool:
        """*others* are the last durable records of other copies that count, of which *needed* make a quorum with this
        one. Returns whether the commit number has grown."""
        if self.is_ended:
            return False
        ranked = sorted(others, reverse=True)
        if len(ranked) < needed:
            return False
        reached = min(self.local_durable, ranked[needed - 1]) if needed else self.local_durable
        if not self._is_own(reached):
            return False
        before = self.committed
        while self._ends and self._ends[0] <= reached:
            self.committed = self._ends.popleft()
        return self.committed > before

    def _is_own(self, number: int) -> bool:
        """Whether that record was written in this epoch."""
        return self.first_own is not None and number >= self.first_own

    @property
    def is_established(self) -> bool:
        """Whether a record of this epoch is committed, and with it all that were before it."""
        return self.committed > 0

    def release(self) -> None:
        """Confirm what can be confirmed now."""
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._waiting and self._may_confirm(self._waiting[0][0]):
                self._waiting.popleft()[1]()
        finally:
            self._is_releasing = False

    def _may_confirm(self, number: int) -> bool:
        if self.is_ended or self.is_suspended or self.is_held or not self._may_answer():
            return False
        if self._mode is SyncMode.LOCAL_DISK and self.is_established:
            return number <= self.local_durable
        return number <= self.committed

    @property
    def waits(self) -> bool:
        """Whether anything is written and not confirmed."""
        return bool(self._waiting)

    def suspend(self) -> None:
        """The grant is in doubt."""
        self.is_suspended = True

    def resume(self) -> None:
        """The grant is in force."""
        self.is_suspended = False
        self.release()

    def hold(self) -> None:
        """Confirm nothing, until `let_go`: producers that wait send nothing more."""
        self.is_held = True

    def let_go(self) -> None:
        """This node stays the master."""
        self.is_held = False
        self.release()

    def end(self) -> None:
        """The grant is over: nothing is confirmed any more. The store is failed by the node."""
        self.is_ended = True
        self._waiting.clear()
        self._ends.clear()
