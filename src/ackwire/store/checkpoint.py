"""Checkpoints: the index catches up with the journal (`docs/formats/journal.md`, Index).

A `Checkpoint` notes on the loop what has changed and freezes it; `changes` packs it, beside the loop; `end` lets go of
what the index knows now. `load` is the way back, at start.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count, islice
from struct import Struct
from typing import Any, Final, NamedTuple, final

from ackwire.store.blocks import BLOCK_MESSAGES, block_key, sealed, unsealed
from ackwire.store.catalog import (
    Catalog,
    Delta,
    StateItem,
    StateKey,
    StateValue,
)
from ackwire.store.contract import (
    BatchRecord,
    CursorRecord,
    DurableRecord,
    Place,
    ScheduledJob,
    StagedRecord,
    StoredForm,
)
from ackwire.store.index import Changes, DamagedIndex, Edit, Table
from ackwire.store.journal.record import (
    Damaged,
    RecordKind,
    pack_durable,
    pack_numbers,
    pack_place,
    unpack_durable,
    unpack_numbers,
    unpack_place,
)
from ackwire.store.journal.state import (
    PreparedRecord,
    pack_job,
    pack_prepared,
    pack_state_record,
    unpack_job,
    unpack_prepared,
    unpack_state_record,
)
from ackwire.util.lru import Recent

_PLACE_ID: Final = Struct(">I")
_NUMBER: Final = Struct(">Q")
_TRIPLE: Final = Struct(">QQQ")
_PAIR: Final = Struct(">QQ")
_COUNT: Final = Struct(">qQQ")
INDEX_FORMAT: Final = 2
"""The first format, which did not say so, had a row for each message."""
_SEQUENCE_MAX: Final = (1 << 64) - 1
_META_KEY: Final = b"checkpoint"
_KEY_BYTES_MAX: Final = 400
"""LMDB takes keys up to 511 bytes."""


class Position(NamedTuple):
    """Where replay begins: everything before it is in the index."""

    store_id: bytes
    segment: int
    offset: int
    number: int
    """Of the last record before it."""
    epoch: int
    last_sequence: int
    index_format: int = INDEX_FORMAT
    last_offset: int = 0
    """Where the last record before it begins, in that segment; 0 where that is not known."""


@final
class Checkpoint:
    """One checkpoint on its way."""

    def __init__(self, catalog: Catalog, position: Position) -> None:
        """Freeze what has changed; called on the loop, when every record is written."""
        self.position = position
        self._next_place_id = catalog.next_place_id
        self._puts = {
            Table.COUNTERS: list(_counters(catalog)),
            Table.REMOVALS: list(_removals(catalog)),
            Table.COUNTS: list(_counts(catalog)),
            Table.COMMITS: list(_commits(catalog)),
        }
        self._places = list(_places(catalog))
        known = set(_known_removals(catalog))
        self._deletes = {
            Table.PLACES: [_PLACE_ID.pack(it) for it in catalog.ended_places],
            Table.COUNTERS: [_PLACE_ID.pack(it) for it in catalog.ended_places],
            Table.REMOVALS: [key for key, _ in catalog.index.items(Table.REMOVALS) if key not in known],
            Table.COUNTS: [index_key(it) for it in catalog.forgotten_counts - catalog.counts.keys()],
            Table.COMMITS: [index_key(it) for it in catalog.forgotten_commits - catalog.commits.keys()],
        }
        self._deltas: list[tuple[int, Delta]] = []
        for place_id in catalog.changed_counters | catalog.changed_places:
            info = catalog.place_by_id.get(place_id)
            if info is not None:
                info.frozen, info.active = info.active, Delta()
                self._deltas.append((place_id, info.frozen))
        self._state = [(key, catalog.state.get(key)) for key in catalog.changed_state]
        self._state_payloads = {key: pack_state(catalog, item) for key, item in self._state if item is not None}
        self._ended = set(catalog.ended_places)
        catalog.begin_changes()

    def changes(self) -> Changes:
        """The changes to write to the index. Called beside the loop: the checkpoint is frozen."""
        changes = Changes(puts=dict(self._puts), deletes=dict(self._deletes))
        for place_id in self._ended:
            first, last = block_key(place_id, 0), block_key(place_id, _SEQUENCE_MAX)
            changes.ranges.append((Table.MESSAGES, first, last, frozenset()))
        for place_id, delta in self._deltas:
            if delta.purged_to >= BLOCK_MESSAGES:  # the last block may hold later messages
                kept = frozenset(block_key(place_id, it) for it in delta.kept)
                first, last = block_key(place_id, 0), block_key(place_id, delta.purged_to - BLOCK_MESSAGES)
                changes.ranges.append((Table.MESSAGES, first, last, kept))
        changes.edits[Table.MESSAGES] = self._block_edits()
        changes.puts[Table.PLACES] = [
            (_PLACE_ID.pack(place_id), _NUMBER.pack(segment) + pack_place(place_id, place, dispatched_up_to))
            for place_id, segment, place, dispatched_up_to in self._places
        ]
        changes.deletes[Table.STATE] = [_state_key(key) for key, item in self._state if item is None]
        changes.puts[Table.STATE] = [(_state_key(key), data) for key, data in self._state_payloads.items()]
        changes.puts[Table.META] = [(_META_KEY, self._meta())]
        for table, rows in changes.puts.items():
            changes.puts[table] = [(key, sealed(key, value)) for key, value in rows]
        return changes

    def _block_edits(self) -> Iterator[tuple[bytes, Edit]]:
        for place_id, delta in self._deltas:
            assert None not in delta.fresh.values(), "all records were written before"
            yield from delta.block_edits(place_id)

    def _meta(self) -> bytes:
        values = self.position._asdict() | {
            "store_id": self.position.store_id.hex(),
            "next_place_id": self._next_place_id,
        }
        return json.dumps(values).encode()

    def end(self, catalog: Catalog) -> list[Delta]:
        """The index has it: drop what it knows, and return what is not used any more."""
        catalog.index_changed(self.position.last_sequence)
        for place_id, delta in self._deltas:
            info = catalog.place_by_id.get(place_id)
            if info is not None and info.frozen is delta:
                info.frozen = None
        return [delta for _, delta in self._deltas]


def _places(catalog: Catalog) -> Iterator[tuple[int, int, Place, int]]:
    """Id, segment of the record, place, and how far it was handed out; packed beside the loop: there may be many."""
    for place_id in catalog.changed_places:
        info = catalog.place_by_id.get(place_id)
        if info is not None:
            yield place_id, info.segment, info.place, info.dispatched_up_to


def _counters(catalog: Catalog) -> Iterator[tuple[bytes, bytes]]:
    for place_id in catalog.changed_counters:
        info = catalog.place_by_id.get(place_id)
        if info is not None:
            held = (_TRIPLE.pack(number, *values) for number, values in info.held.items())
            yield _PLACE_ID.pack(place_id), b"".join(held)


def _known_removals(catalog: Catalog) -> Iterator[bytes]:
    return (_NUMBER.pack(it.number) for it in catalog.segments.values() if it.removals)


def _removals(catalog: Catalog) -> Iterator[tuple[bytes, bytes]]:
    for segment in catalog.segments.values():
        if segment.removals:
            told = (_PAIR.pack(about, removals) for about, removals in segment.removals.items())
            yield _NUMBER.pack(segment.number), b"".join(told)


def _counts(catalog: Catalog) -> Iterator[tuple[bytes, bytes]]:
    for order, producer in _by_age(catalog.counts, catalog.changed_counts):
        last_count, segment = catalog.counts[producer]
        yield index_key(producer), _COUNT.pack(last_count, segment, order) + producer


def _commits(catalog: Catalog) -> Iterator[tuple[bytes, bytes]]:
    for order, transaction in _by_age(catalog.commits, catalog.changed_commits):
        yield index_key(transaction), _PAIR.pack(catalog.commits[transaction], order) + transaction


def _by_age(recent: Recent[bytes, Any], changed: set[bytes]) -> Iterator[tuple[int, bytes]]:
    """What has changed, newest first, with numbers that are higher for newer ones, over all checkpoints."""
    newest_first = islice(recent.newest_first(), len(changed))  # they are all at the end
    return zip(count(recent.changes, -1), newest_first, strict=False)


def index_key(key: bytes) -> bytes:
    """*key*, or something short in its place: clients invent ids longer than an index takes."""
    return key if len(key) <= _KEY_BYTES_MAX else b"\xff" + blake2b(key, digest_size=32).digest()


# ---- durables, jobs, prepared transactions, notes, gaps --------------------------------------------------------


def _state_key(key: StateKey) -> bytes:
    return bytes((key[0],)) + index_key(key[1])


def state_key(catalog: Catalog, value: object) -> StateKey:
    """The key of a durable subscription, job, prepared transaction, state record or the gaps."""
    match value:
        case DurableRecord():
            return durable_key(catalog.places[value.key].place_id)
        case ScheduledJob():
            return job_key(value.job_id)
        case PreparedRecord():
            return prepared_key(value.transaction)
        case CursorRecord() | StagedRecord() | BatchRecord():
            return state_record_key(value.key)
    return GAPS_KEY


def pack_state_payload(catalog: Catalog, value: object) -> bytes:
    """The payload of a record that tells all about *value*."""
    match value:
        case DurableRecord():
            return pack_durable(catalog.places[value.key].place_id, value)
        case ScheduledJob():
            return pack_job(value, with_message=True)
        case PreparedRecord():
            return pack_prepared(value)
        case CursorRecord() | StagedRecord() | BatchRecord():
            return pack_state_record(value)
        case tuple():
            return pack_numbers(value)
    raise AssertionError(f"{value!r} is no state")


def pack_state(catalog: Catalog, item: StateItem) -> bytes:
    """With the segments that hold it in front."""
    segments = sorted(item.segments)
    head = bytes((len(segments),)) + pack_numbers(segments)
    return head + pack_state_payload(catalog, item.value)


def unpack_state(kind: int, payload: memoryview, form: StoredForm, known: object) -> StateValue:
    match kind:
        case RecordKind.DURABLE:
            return unpack_durable(payload)[1]
        case RecordKind.JOB | RecordKind.JOB_DUE:
            return unpack_job(payload, form, known if isinstance(known, ScheduledJob) else None)
        case RecordKind.PREPARED:
            return unpack_prepared(payload)
        case RecordKind.STATE_RECORD:
            return unpack_state_record(payload)
        case RecordKind.GAPS:
            return tuple(unpack_numbers(payload))
    raise Damaged(f"records of type {kind} tell no state")


# ---- the way back ----------------------------------------------------------------------------------------------


def read_position(catalog: Catalog) -> Position | None:
    """Where the index's checkpoint is; None if it has none."""
    data = catalog.index.get(Table.META, _META_KEY)
    if data is None:
        return None
    try:
        values = {"index_format": 1, "last_offset": 0} | json.loads(unsealed(_META_KEY, data))
        catalog.next_place_id = int(values.pop("next_place_id"))
        return Position(
            bytes.fromhex(values.pop("store_id")), **{name: int(values[name]) for name in Position._fields[1:]}
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedIndex(f"the index's checkpoint cannot be read: {error}") from None


def load(catalog: Catalog, form: StoredForm) -> None:
    """Fill *catalog*, whose segments are known, from its index."""
    try:
        _load_places(catalog)
        _load_state(catalog, form)
        _load_recent(catalog)
    except (Damaged, KeyError, ValueError, IndexError) as error:
        raise DamagedIndex(f"the index cannot be read: {error}") from None
    catalog.begin_changes()


def _load_places(catalog: Catalog) -> None:
    for _, data in catalog.rows(Table.PLACES):
        segment = _NUMBER.unpack_from(data)[0]
        place_id, place, dispatched_up_to = unpack_place(memoryview(data)[_NUMBER.size :])
        catalog.add_place(place_id, place, segment, dispatched_up_to)
    for key, data in catalog.rows(Table.COUNTERS):
        info = catalog.place_by_id[_PLACE_ID.unpack(key)[0]]
        for number, messages, size_bytes in _TRIPLE.iter_unpack(data):
            info.held[number] = [messages, size_bytes]
            segment = catalog.segments.get(number)
            if segment is not None:  # otherwise replay will tell where its survivors are now
                segment.live_messages += messages
                segment.live_bytes += size_bytes
    for key, data in catalog.rows(Table.REMOVALS):
        told_by = catalog.segments.get(_NUMBER.unpack(key)[0])
        for about, removals in _PAIR.iter_unpack(data):
            if told_by is not None and about in catalog.segments:
                told_by.removals[about] = removals


def _load_state(catalog: Catalog, form: StoredForm) -> None:
    for key, data in catalog.rows(Table.STATE):
        view = memoryview(data)
        payload_at = 1 + data[0] * _NUMBER.size
        segments = unpack_numbers(view[1:payload_at])
        value = unpack_state(key[0], view[payload_at:], form, None)
        catalog.state[state_key(catalog, value)] = item = StateItem(value, segments[0])
        item.segments.update(segments)


def _load_recent(catalog: Catalog) -> None:
    counts = [(_COUNT.unpack_from(data), data[_COUNT.size :]) for _, data in catalog.rows(Table.COUNTS)]
    for (last_count, segment, _), producer in sorted(counts, key=lambda it: it[0][2]):
        catalog.counts[producer] = (last_count, segment)
    commits = [(_PAIR.unpack_from(data), data[_PAIR.size :]) for _, data in catalog.rows(Table.COMMITS)]
    for (segment, _), transaction in sorted(commits, key=lambda it: it[0][1]):
        catalog.commits[transaction] = segment
    catalog.counts.changes = max([catalog.counts.changes, *(order for (_, _, order), _ in counts)])
    catalog.commits.changes = max([catalog.commits.changes, *(order for (_, order), _ in commits)])


def durable_key(place_id: int) -> StateKey:
    return RecordKind.DURABLE, _PLACE_ID.pack(place_id)


def job_key(job_id: str) -> StateKey:
    return RecordKind.JOB, job_id.encode("utf-8", "surrogatepass")


def prepared_key(transaction: bytes) -> StateKey:
    return RecordKind.PREPARED, transaction


def state_record_key(key: str) -> StateKey:
    return RecordKind.STATE_RECORD, key.encode("utf-8", "surrogatepass")


GAPS_KEY: Final[StateKey] = (RecordKind.GAPS, b"")
