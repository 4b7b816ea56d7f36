"""Applies the records of a journal to the catalog, one after the other, as a start replays them."""

from typing import final

from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, PlaceInfo, StateKey
from ackwire.store.checkpoint import (
    GAPS_KEY,
    durable_key,
    job_key,
    prepared_key,
    state_record_key,
    unpack_state,
)
from ackwire.store.contract import DurableKey, StoredForm
from ackwire.store.journal.record import (
    Damaged,
    Reader,
    Record,
    RecordKind,
    unpack_counts,
    unpack_durable,
    unpack_message,
    unpack_place,
    unpack_place_gone,
    unpack_purged,
    unpack_removed,
)
from ackwire.store.journal.recovery_report import Quarantine
from ackwire.store.journal.state import job_id_of, read_message, state_record_key_of, unpack_prepared
from ackwire.util.plurals import agree, counted


@final
class RecordApplication:
    """Knows, besides the catalog, what was only half told so far."""

    def __init__(self, catalog: Catalog, form: StoredForm, quarantine: Quarantine) -> None:
        self._catalog = catalog
        self._form = form
        self._quarantine = quarantine
        self._orphans: set[int] = set()
        """Places whose own record was not seen."""
        self._due_only: set[StateKey] = set()
        """Jobs of which only a due time was seen."""
        self._ended: set[int] = set()
        """Places that are gone."""

    def apply(self, record: Record) -> None:
        catalog, payload, segment = self._catalog, record.payload, record.segment
        match record.kind:
            case RecordKind.MESSAGE:
                self._apply_message(record)
            case RecordKind.REMOVED:
                self._apply_removed(record)
            case RecordKind.OPENED:
                reader = Reader(payload)
                reader.u64()
                catalog.last_sequence = max(catalog.last_sequence, reader.u64())
            case RecordKind.CLOSED:
                catalog.last_sequence = max(catalog.last_sequence, Reader(payload).u64())
            case RecordKind.PLACE:
                place_id, place, dispatched_up_to = unpack_place(payload)
                self._orphans.discard(place_id)
                catalog.add_place(place_id, place, segment, dispatched_up_to)
                catalog.last_sequence = max(catalog.last_sequence, dispatched_up_to)
            case RecordKind.PLACE_GONE:
                place_id = unpack_place_gone(payload)
                self._ended.add(place_id)
                catalog.next_place_id = max(catalog.next_place_id, place_id + 1)
                catalog.end_place(place_id)
                catalog.end_state(durable_key(place_id))
            case RecordKind.PURGED:
                place_id, last_sequence, kept = unpack_purged(payload)
                info = self._catalog.place_by_id.get(place_id)
                if info is not None:
                    catalog.purge(info, last_sequence, kept)
            case RecordKind.COUNTS:
                for producer, count in unpack_counts(payload):
                    catalog.set_count(producer, count, segment)
            case RecordKind.COMMITTED:
                catalog.set_commit(bytes(payload), segment)
            case RecordKind.JOB_GONE:
                key = job_key(job_id_of(payload))
                self._due_only.discard(key)
                catalog.end_state(key)
            case RecordKind.DECIDED:
                catalog.end_state(prepared_key(bytes(payload)))
            case RecordKind.STATE_RECORD_GONE:
                catalog.end_state(state_record_key(state_record_key_of(payload)))
            case _:
                self._apply_state(record)

    def _apply_state(self, record: Record) -> None:
        catalog, payload = self._catalog, record.payload
        match record.kind:
            case RecordKind.DURABLE:
                place_id, durable = unpack_durable(payload)
                if place_id not in catalog.place_by_id and place_id not in self._ended:
                    catalog.add_place(place_id, durable.key, record.segment)  # its own record is moved, or damaged
                key = durable_key(place_id)
            case RecordKind.JOB | RecordKind.JOB_DUE:
                key = job_key(job_id_of(payload))
            case RecordKind.PREPARED:
                key = prepared_key(unpack_prepared(payload).transaction)
            case RecordKind.STATE_RECORD:
                key = state_record_key(state_record_key_of(payload))
            case RecordKind.GAPS:
                key = GAPS_KEY
            case _:
                raise Damaged(f"records of type {record.kind} are not known")
        known = catalog.state.get(key)
        if record.kind == RecordKind.JOB_DUE and known is None:
            self._due_only.add(key)  # its own record was moved and comes later, or is lost
            return
        self._due_only.discard(key)
        value = unpack_state(record.kind, payload, self._form, None if known is None else known.value)
        catalog.set_state(key, value, record.segment, is_update=record.kind == RecordKind.JOB_DUE)

    def _apply_message(self, record: Record) -> None:
        message = unpack_message(record.payload)
        catalog = self._catalog
        catalog.last_sequence = max(catalog.last_sequence, message.sequence)
        catalog.set_count(message.producer_key, message.producer_count, record.segment)
        frame_bytes, place_count = len(message.frame), len(message.place_ids)
        where = (record.segment, record.offset, frame_bytes, place_count, message.priority, message.expiration)
        entry = tuple.__new__(Entry, where)
        for place_id in message.place_ids:
            if place_id not in self._ended:
                info = catalog.place_by_id.get(place_id)
                if info is None:
                    info = self._adopt(place_id, bytes(message.frame), record.segment)
                catalog.move(info, message.sequence, entry)

    def _adopt(self, place_id: int, frame: bytes, segment: int) -> PlaceInfo:
        """A place whose record was not seen: it may be gone, as a later record will say, or its record is damaged."""
        self._orphans.add(place_id)
        place = read_message(self._form, frame).destination
        if place.kind.is_queue and place not in self._catalog.places:
            return self._catalog.add_place(place_id, place, segment)
        return self._catalog.add_nameless_place(place_id, place, segment)

    def _apply_removed(self, record: Record) -> None:
        for place_id, sequence, segment in unpack_removed(record.payload):
            info = self._catalog.place_by_id.get(place_id)
            entry = None if info is None else self._catalog.find(info, sequence)
            if info is not None and entry is not None and entry.segment <= segment:
                self._catalog.take(info, sequence)
            self._catalog.note_removals(record.segment, segment)

    # ---- what is still only half told at the end of the journal ------------------------------------------------

    def report_orphans(self) -> None:
        """Places whose own record is lost: a queue is known by its messages, others are not."""
        for place_id in self._orphans:
            info = self._catalog.place_by_id.get(place_id)
            count = 0 if info is None else info.message_count
            if info is None or self._catalog.places.get(info.place) is info:
                if count:
                    self._quarantine.put(
                        f"the record of place {place_id} is lost; {counted(count, 'message')} "
                        f"{agree(count, 'says', 'say')} {info!r}",
                        "",
                    )
                continue
            if count:
                self._quarantine.put(
                    f"the record of place {place_id} is lost, and with it {counted(count, 'message')}", ""
                )
            self._catalog.end_place(place_id)

    def end_bare_places(self) -> None:
        """The place of a durable subscription is nothing without its terms, whose record is lost."""
        for place_id, info in list(self._catalog.place_by_id.items()):
            if isinstance(info.place, DurableKey) and durable_key(place_id) not in self._catalog.state:
                self._quarantine.put(
                    f"the terms of {info!r} are lost, and with them {counted(info.message_count, 'message')}", ""
                )
                self._catalog.end_place(place_id)

    def report_lost_jobs(self) -> None:
        for _, job_id in self._due_only:
            self._quarantine.put(f"job {job_id.decode(errors='replace')} is due, and its message is lost", "")
