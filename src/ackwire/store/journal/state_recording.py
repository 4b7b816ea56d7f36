"""Records of what is not a message: places, durable subscriptions, jobs, prepared transactions, state records.

Each changes the catalog at once and puts a record into the buffer; once that is written, the catalog knows its segment.
"""

from functools import partial
from typing import final

from ackwire.store.catalog import Catalog, PlaceInfo, StateKey, StateValue
from ackwire.store.contract import Place
from ackwire.store.journal.pending_records import PendingPayload
from ackwire.store.journal.record import RecordKind
from ackwire.store.journal.record_buffer import RecordBuffer


@final
class StateRecording:
    """Used by the verbs, and by compaction, which writes again what a segment that goes has told."""

    def __init__(self, catalog: Catalog, buffer: RecordBuffer) -> None:
        self._catalog = catalog
        self._buffer = buffer

    def place(self, place: Place) -> PlaceInfo:
        """The catalog's entry of *place*, which is recorded if it is new."""
        info = self._catalog.places.get(place)
        if info is None:
            info = self._catalog.add_place(self._catalog.next_place_id, place, 0)
            self.record_place(info)
        return info

    def record_place(self, info: PlaceInfo) -> None:
        """Record a place, or what is new about it."""
        written = partial(self._catalog.place_moved, info)
        self._buffer.add(PendingPayload(RecordKind.PLACE, info.payload(), written))
        self._catalog.changed_places.add(info.place_id)

    def set(
        self, key: StateKey, value: StateValue, kind: RecordKind, payload: bytes, *, is_update: bool = False
    ) -> None:
        """Record *value* under *key*; an update adds to what an earlier record says."""
        self._catalog.set_state(key, value, 0, is_update=is_update)

        def written(segment: int) -> None:
            item = self._catalog.state.get(key)
            if item is not None:  # it may have ended before it was written
                item.segments.discard(0)
                item.segments.add(segment)
                self._catalog.changed_state.add(key)

        self._buffer.add(PendingPayload(kind, payload, written))

    def end(self, key: StateKey, kind: RecordKind, payload: bytes) -> None:
        """Record that what *key* stands for has ended; what is not known changes nothing."""
        if key in self._catalog.state:
            self._catalog.end_state(key)
            self._buffer.add(PendingPayload(kind, payload))

    def record_commit(self, transaction: bytes) -> None:
        """Record that a local transaction has committed."""
        written = partial(self._catalog.set_commit, transaction)
        self._buffer.add(PendingPayload(RecordKind.COMMITTED, transaction, written))
