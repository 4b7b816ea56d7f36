"""A store that is only looked at, behind the contract: for a start that is rehearsed and changes nothing.

What was kept comes from the catalog that a start would find. What is recorded goes to memory, and is forgotten.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import final

from ackwire.message import Message
from ackwire.store.contract import (
    DurableRecord,
    Note,
    Place,
    PreparedTransaction,
    ScheduledJob,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.journal.record import Damaged
from ackwire.store.journal.state import PreparedRecord, read_message
from ackwire.store.look import StoreLook
from ackwire.store.memory import MemoryStore


@final
class RehearsalStore(MemoryStore):
    """What a start would find in the store of *look*."""

    pages = True

    def __init__(self, look: StoreLook) -> None:
        super().__init__()
        self._look = look
        self._catalog = look.started().catalog
        self._values = [item.value for item in self._catalog.state.values()]

    def places(self) -> list[Place]:
        return list(self._catalog.places)

    def waiting(self, place: Place) -> list[WaitingMessage]:
        return [it for portion in self.waiting_portions(place) for it in portion]

    def waiting_portions(self, place: Place) -> list[WaitingMessages]:
        facts = self._catalog.places.get(place)
        return [] if facts is None else list(self._catalog.waiting_messages(facts))

    def durables(self) -> list[DurableRecord]:
        return [it for it in self._values if isinstance(it, DurableRecord)]

    def jobs(self) -> list[ScheduledJob]:
        return [it for it in self._values if isinstance(it, ScheduledJob)]

    def notes(self) -> list[Note]:
        return [it for it in self._values if isinstance(it, Note)]

    def prepared(self) -> list[PreparedTransaction]:
        return [self._prepared_of(it) for it in self._values if isinstance(it, PreparedRecord)]

    def _prepared_of(self, record: PreparedRecord) -> PreparedTransaction:
        form = self._look.form
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
        facts = self._catalog.places.get(place)
        entry = None if facts is None else self._catalog.find(facts, sequence)
        try:
            return None if entry is None else self._look.reader.read(entry, sequence)
        except Damaged:
            return None  # the checker says so itself

    def commits(self) -> list[Hashable]:
        return [self._look.form.transaction_from_bytes(it) for it in self._catalog.commits]

    def last_sequence(self) -> int:
        return self._catalog.last_sequence
