"""A store that is only inspected, behind the contract: for a start that is rehearsed and changes nothing.

What was kept comes from the catalog that a start would find. What is recorded goes to memory, and is forgotten.
"""

from collections.abc import Hashable, Sequence
from typing import final

from ackwire.jms.message import Message
from ackwire.store.catalog_restore import CatalogRestore
from ackwire.store.contract import (
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.inspect import StoreInspection
from ackwire.store.journal.record import Damaged
from ackwire.store.memory import MemoryStore


@final
class RehearsalStore(MemoryStore):
    """What a start would find in the store of *inspection*."""

    pages = True

    def __init__(self, inspection: StoreInspection) -> None:
        super().__init__()
        self._inspection = inspection
        self._catalog = inspection.started().catalog
        self._restore = CatalogRestore(self._catalog, inspection.form, inspection.now_ms, self._loaded)

    def places(self) -> list[Place]:
        return self._restore.places()

    def waiting(self, place: Place) -> list[WaitingMessage]:
        return list(self._restore.waiting(place))

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        return list(self._restore.waiting_portions(place))

    def durables(self) -> list[DurableRecord]:
        return self._restore.durables()

    def jobs(self) -> list[ScheduledJob]:
        return self._restore.jobs()

    def state_records(self) -> list[StateRecord]:
        return self._restore.state_records()

    def prepared(self) -> list[PreparedTransaction]:
        return self._restore.prepared()

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        return [self._loaded(place, sequence) for sequence in sequences]

    def _loaded(self, place: Place, sequence: int) -> Message | None:
        info = self._catalog.places.get(place)
        entry = None if info is None else self._catalog.find(info, sequence)
        try:
            return None if entry is None else self._inspection.reader.read(entry, sequence)
        except Damaged:
            return None  # the checker says so itself

    def commits(self) -> list[Hashable]:
        return self._restore.commits()

    def last_sequence(self) -> int:
        return self._restore.last_sequence()
