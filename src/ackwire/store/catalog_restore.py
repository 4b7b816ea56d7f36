"""`Restore` on a catalog: what a start finds, for the running store and for a rehearsed start."""

from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import final

from ackwire.jms.message import Message
from ackwire.store.catalog import CRASH_KEY, Catalog
from ackwire.store.contract import (
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    StoredForm,
    WaitingMessage,
    WaitingMessages,
)
from ackwire.store.journal.state import PreparedRecord, read_message


@final
class CatalogRestore:
    """Implements `Restore`. *load* reads one message of a place."""

    def __init__(
        self,
        catalog: Catalog,
        form: StoredForm,
        now_ms: Callable[[], int],
        load: Callable[[Place, int], Message | None],
    ) -> None:
        self._catalog = catalog
        self._form = form
        self._now_ms = now_ms
        self._load = load

    def has_crashed(self, within_seconds: float) -> bool:
        crash = self._catalog.counts.get(CRASH_KEY)
        return crash is not None and self._now_ms() - crash[0] <= within_seconds * 1000

    def places(self) -> list[Place]:
        return list(self._catalog.places)

    def waiting(self, place: Place) -> Iterator[WaitingMessage]:
        return chain.from_iterable(self.waiting_portions(place))

    def waiting_portions(self, place: Place) -> Iterator[WaitingMessages]:
        info = self._catalog.places.get(place)
        return iter(()) if info is None else self._catalog.waiting_messages(info)

    def durables(self) -> list[DurableRecord]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, DurableRecord)]

    def jobs(self) -> list[ScheduledJob]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, ScheduledJob)]

    def prepared(self) -> list[PreparedTransaction]:
        records = [item.value for item in self._catalog.state.values() if isinstance(item.value, PreparedRecord)]
        return [self._prepared(record) for record in records]

    def _prepared(self, record: PreparedRecord) -> PreparedTransaction:
        acks: list[tuple[Place, Message]] = []
        for place_id, sequence in record.acks:
            place = self._catalog.place_of(place_id)
            message = None if place is None else self._load(place, sequence)
            if place is not None and message is not None:
                acks.append((place, message))
        sends = tuple(read_message(self._form, frame) for frame in record.frames)
        transaction_id = self._form.transaction_from_bytes(record.transaction)
        return PreparedTransaction(transaction_id, sends, tuple(acks), record.user)

    def state_records(self) -> list[StateRecord]:
        return [item.value for item in self._catalog.state.values() if isinstance(item.value, StateRecord)]

    def last_counts(self) -> list[tuple[bytes, int]]:
        return [(it, count) for it, (count, _) in self._catalog.counts.items() if it != CRASH_KEY]

    def commits(self) -> list[Hashable]:
        return [self._form.transaction_from_bytes(transaction) for transaction in self._catalog.commits]

    def dispatched_up_to(self, place: Place) -> int:
        info = self._catalog.places.get(place)
        return 0 if info is None else info.dispatched_before

    def last_sequence(self) -> int:
        return self._catalog.last_sequence
