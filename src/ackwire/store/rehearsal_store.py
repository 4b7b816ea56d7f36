"""A store that is only looked at, behind the contract: for a start that is rehearsed and changes nothing.

What was kept comes from the catalog that a start would find. What is recorded goes to memory, and is forgotten.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import final

from ackwire.message import Message
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
from ackwire.store.journal.state import PreparedRecord, read_message
from ackwire.store.memory import MemoryStore


@final
class RehearsalStore(MemoryStore):
    """What a start would find in the store of *inspection*."""

    pages = True

    def __init__(self, inspection: StoreInspection) -> None:
        super().__init__()
        self._inspection = inspection
        self._catalog = inspection.started().catalog
        self._values = [item.value for item in self._catalog.state.values()]

    def places(self) -> list[Place]:
        return list(self._catalog.places)

    def waiting(self, place: Place) -> list[WaitingMessage]:
        return [it for portion in self.waiting_portions(place) for it in portion]

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        info = self._catalog.places.get(place)
        return [] if info is None else list(self._catalog.waiting_messages(info))

    def durables(self) -> list[DurableRecord]:
        return [it for it in self._values if isinstance(it, DurableRecord)]

    def jobs(self) -> list[ScheduledJob]:
        return [it for it in self._values if isinstance(it, ScheduledJob)]

    def state_records(self) -> list[StateRecord]:
        return [it for it in self._values if isinstance(it, StateRecord)]

    def prepared(self) -> list[PreparedTransaction]:
        return [self._prepared_of(it) for it in self._values if isinstance(it, PreparedRecord)]

    def _prepared_of(self, record: PreparedRecord) -> PreparedTransaction:
        form = self._inspection.form
        sends = tuple(read_message(form, frame) for frame in record.frames)
        return PreparedTransaction(form.transaction_from_bytes(record.transaction), sends, tuple(self._acks(record)))

    def _acks(self, record: PreparedRecord) -> Iterator[tuple[Place, Message]]:
        for place_id, sequence in record.acks:
            place = self._catalog.place_of(place_id)
            message = None if place is None else self.load(place, [sequence])[0]
            if place is not None and message is not None:
                yield place, message

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
        return [self._inspection.form.transaction_from_bytes(it) for it in self._catalog.commits]

    def last_sequence(self) -> int:
        return self._catalog.last_sequence
