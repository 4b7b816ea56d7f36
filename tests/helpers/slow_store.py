"""A store that is as slow as a test wants it."""

from collections.abc import Callable
from typing import Any

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import Place, Sync
from ackwire.store.memory import MemoryStore


class SlowStore(MemoryStore):
    """Nothing is durable until `sync`."""

    def __init__(self) -> None:
        super().__init__()
        self.durability.durable_sequence = 0
        self._waiters: list[Callable[[], None]] = []
        self._has_more = False
        self._appended = 0
        self.marks: list[int] = []
        self.failure: StoreFailed | None = None
        self.syncs: list[Sync] = []
        """What those who wait asked for."""

    def append(self, message: Message, places: Any) -> None:
        super().append(message, places)
        self._appended = max(self._appended, message.sequence)
        self._has_more = True

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        if self.failure is not None:
            raise self.failure
        super().mark_dispatched(place, sequence)
        self.marks.append(sequence)
        self._has_more = True

    def cancel(self, callback: Callable[[], None]) -> bool:
        if callback not in self._waiters:
            return False
        self._waiters.remove(callback)
        self.durability.has_waiters = bool(self._waiters)
        return True

    def when_durable(self, callback: Callable[[], None], on_failed: Any = None, sync: Sync = Sync.NOW) -> None:
        del on_failed
        if self.failure is not None:
            return
        if not self._has_more:
            callback()
            return
        self._waiters.append(callback)
        self.syncs.append(sync)
        self.durability.has_waiters = True

    def sync(self) -> None:
        waiters, self._waiters = self._waiters, []
        self._has_more = self.durability.has_waiters = False
        self.durability.durable_sequence = self._appended
        for callback in waiters:
            callback()
