"""What the journal holds and where: the part of the journal store's memory that the index is a copy of.

For each message that waits there is an `Entry`. Entries that came since the last checkpoint are in memory (`Delta`),
all others in the index. So what is consumed before a checkpoint never touches the index, and memory does not grow with
the backlog. While a checkpoint is being written, its delta is frozen, and changes go to a new one.

For each segment the catalog counts what in it is alive, and for each place how much of that is its own: so a purge of
a million messages is a subtraction.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import merge
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple, final

from crc32c import crc32c

from ackwire.recent import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED, Recent
from ackwire.store.contract import DurableRecord, Note, Place, ScheduledJob, WaitingMessage
from ackwire.store.index import DamagedIndex, Index, Table
from ackwire.store.journal.record import ALIGNMENT, HEADER_BYTES, RecordKind, message_overhead, pack_place
from ackwire.store.journal.state import PreparedRecord

_KEY: Final = Struct(">IQ")
_ENTRY: Final = Struct(">IIIHbq")
_SEALED_ENTRY: Final = Struct(">IIIHbq4x")
_CHECKSUM: Final = Struct(">I")
_RECORD_OVERHEAD: Final = HEADER_BYTES + message_overhead(0)
_SEQUENCE_OF_KEY: Final = Struct(">4xQ")
_WAITING_OF_ENTRY: Final = Struct(">8xI2xbq4x")
"""Frame length, priority and expiration."""


class Entry(NamedTuple):
    """Where a message's record is, and what a restart needs to know of it."""

    segment: int
    offset: int
    frame_bytes: int
    place_count: int
    priority: int
    expiration: int

    @property
    def record_bytes(self) -> int:
        # `record_bytes(message_overhead(place_count) + frame_bytes)`, written out: asked for every message that ends.
        return (_RECORD_OVERHEAD + 4 * self[3] + self[2] + ALIGNMENT - 1) & -ALIGNMENT

    @property
    def share_bytes(self) -> int:
        """What one of its places holds alive of the record."""
        return self.record_bytes // self[3]


_new_entry: Final = partial(tuple.__new__, Entry)
_frame_bytes: Final = itemgetter(Entry._fields.index("frame_bytes"))
_UNCHECKED_BYTES_MAX: Final = 1 << 20


def message_key(place_id: int, sequence: int) -> bytes:
    return _KEY.pack(place_id, sequence)


def sealed(key: bytes, value: bytes) -> bytes:
    """*value* as it stands in the index under *key*: with a checksum of both, because LMDB has none."""
    return value + _CHECKSUM.pack(crc32c(value, crc32c(key)))


def unsealed(key: bytes, data: bytes) -> bytes:
    """Raises `DamagedIndex` if the index has changed what it was given."""
    value = data[: -_CHECKSUM.size]
    if len(data) < _CHECKSUM.size or crc32c(value, crc32c(key)) != int.from_bytes(data[-_CHECKSUM.size :]):
        raise DamagedIndex("the checksum of an entry of the index is wrong")
    return value


def pack_entry(key: bytes, entry: Entry) -> bytes:
    return sealed(key, _ENTRY.pack(*entry))


def unpack_entry(key: bytes, data: bytes) -> Entry:
    if len(data) != _ENTRY.size + _CHECKSUM.size:
        raise DamagedIndex(f"an entry of the index has {len(data)} bytes")
    if crc32c(data[:-4], crc32c(key)) != int.from_bytes(data[-4:]):  # `unsealed`, written out: there are millions
        raise DamagedIndex("the checksum of an entry of the index is wrong")
    return Entry._make(_ENTRY.unpack_from(data))


@final
class Delta:
    """What changed in one place since a checkpoint."""

    __slots__ = ("fresh", "gone", "kept", "moved", "purged_to")

    def __init__(self) -> None:
        self.fresh: dict[int, Entry | None] = {}
        """By sequence; None for a message whose record is not written yet."""
        self.gone: set[int] = set()
        self.moved: set[int] = set()
        """Those of `fresh` that were somewhere else before this delta."""
        self.purged_to = 0
        """Older messages up to this sequence are gone as well, but for `kept`."""
        self.kept: frozenset[int] = frozenset()

    @property
    def has_changed(self) -> bool:
        return bool(self.fresh or self.gone or self.purged_to)

    def has_ended(self, sequence: int) -> bool:
        """Whether a message that was there before this delta is gone."""
        return sequence in self.gone or (sequence <= self.purged_to and sequence not in self.kept)

    def purge(self, last_sequence: int, kept: frozenset[int]) -> None:
        # What has ended stays so: compaction may write an older purge again, with what that had kept.
        kept = frozenset(it for it in kept if it in self.fresh or not self.has_ended(it))
        self.fresh = {it: entry for it, entry in self.fresh.items() if it > last_sequence or it in kept}
        self.gone = {it for it in self.gone if it > last_sequence or it in kept}
        if last_sequence >= self.purged_to:
            self.purged_to, self.kept = last_sequence, kept
        else:
            self.kept -= {it for it in self.kept if it <= last_sequence and it not in kept}


@final
class PlaceFacts:
    """One place: what changed in it, and how much of each segment it holds alive."""

    __slots__ = ("active", "frozen", "handed_out", "handed_out_before", "held", "place", "place_id", "segment")

    def __init__(self, place_id: int, place: Place, segment: int) -> None:
        self.place_id = place_id
        self.place = place
        self.handed_out = 0
        """Up to which sequence its messages may have reached consumers."""
        self.handed_out_before = 0
        """The same, when the store was opened."""
        self.segment = segment
        """Which holds the record of the place itself."""
        self.active = Delta()
        self.frozen: Delta | None = None
        self.held: dict[int, list[int]] = {}
        """By segment: messages, and bytes of them."""

    def __repr__(self) -> str:
        return repr(self.place)

    def payload(self) -> bytes:
        """Of its own record."""
        return pack_place(self.place_id, self.place, self.handed_out)

    def moved_to(self, segment: int) -> None:
        """Its own record is in *segment* now."""
        self.segment = segment

    @property
    def message_count(self) -> int:
        return sum(count for count, _ in self.held.values()) + sum(1 for it in self.active.fresh.values() if it is None)


@final
class SegmentFacts:
    """One segment: what in it is alive, and what its removals speak of."""

    __slots__ = ("live_bytes", "live_messages", "number", "removals", "size_bytes")

    def __init__(self, number: int, size_bytes: int) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.live_messages = 0
        """A message counts once for each place where it waits."""
        self.live_bytes = 0
        self.removals: Counter[int] = Counter()
        """For each other segment, how many messages of it this one says are gone."""


StateValue = DurableRecord | ScheduledJob | PreparedRecord | Note | tuple[int, ...]
StateKey = tuple[RecordKind, bytes]


@final
class StateItem:
    """A durable subscription, a job, a prepared transaction, a note, or the list of gaps."""

    __slots__ = ("segments", "value")

    def __init__(self, value: StateValue, segment: int) -> None:
        self.value = value
        self.segments = {segment}
        """That hold what is needed to know it: its record, and for a job also the one that moved it."""

    def moved_to(self, segment: int) -> None:
        """One record in *segment* tells all about it now."""
        self.segments = {segment}


@final
class Catalog:
    """Everything that is alive."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.places: dict[Place, PlaceFacts] = {}
        self.place_by_id: dict[int, PlaceFacts] = {}
        self.segments: dict[int, SegmentFacts] = {}
        self.state: dict[StateKey, StateItem] = {}
        self.forgotten_counts: set[bytes] = set()
        self.forgotten_commits: set[bytes] = set()
        self.counts: Recent[bytes, tuple[int, int]] = Recent(PRODUCERS_REMEMBERED, self.forgotten_counts.add)
        """By producer: its last count, and the segment that shows it."""
        self.commits: Recent[bytes, int] = Recent(COMMITS_REMEMBERED, self.forgotten_commits.add)
        """By transaction: the segment that shows that it has committed."""
        self.last_sequence = 0
        self.next_place_id = 1
        # What the next checkpoint has to write:
        self.changed_places: set[int] = set()
        self.changed_counters: set[int] = set()
        self.ended_places: set[int] = set()
        self.changed_state: set[StateKey] = set()
        self.changed_counts: set[bytes] = set()
        self.changed_commits: set[bytes] = set()

    def begin_changes(self) -> None:
        """A checkpoint has noted what has changed."""
        for changes in (
            self.changed_places,
            self.changed_counters,
            self.ended_places,
            self.changed_state,
            self.changed_counts,
            self.changed_commits,
            self.forgotten_counts,
            self.forgotten_commits,
        ):
            changes.clear()

    # ---- places ------------------------------------------------------------------------------------------------

    def add_place(self, place_id: int, place: Place, segment: int, handed_out: int = 0) -> PlaceFacts:
        """A place is known from now on, or more of it; *segment* holds its record."""
        facts = self.place_by_id.get(place_id)
        if facts is None:
            facts = PlaceFacts(place_id, place, segment)
        elif self.places.get(facts.place) is facts:  # perhaps known under a name that was only guessed
            del self.places[facts.place]
        facts.place, facts.segment, facts.handed_out = place, segment, handed_out
        self.places[place] = self.place_by_id[place_id] = facts
        self.next_place_id = max(self.next_place_id, place_id + 1)
        self.changed_places.add(place_id)
        return facts

    def place_of(self, place_id: int) -> Place | None:
        facts = self.place_by_id.get(place_id)
        return None if facts is None else facts.place

    def end_place(self, place_id: int) -> None:
        """A place is gone with all that is in it."""
        facts = self.place_by_id.pop(place_id, None)
        if facts is None:
            return
        self._release_all(facts)
        if self.places.get(facts.place) is facts:
            del self.places[facts.place]
        self.ended_places.add(place_id)

    def _release_all(self, facts: PlaceFacts) -> None:
        for number, (count, size_bytes) in facts.held.items():
            self._release(number, count, size_bytes)
        facts.held.clear()

    def _release(self, number: int, count: int, size_bytes: int) -> None:
        segment = self.segments.get(number)
        if segment is not None:
            segment.live_messages -= count
            segment.live_bytes -= size_bytes

    # ---- messages ----------------------------------------------------------------------------------------------

    def find(self, facts: PlaceFacts, sequence: int) -> Entry | None:
        """Where a message is; None if it is not there, or not written yet."""
        delta = facts.active
        if sequence in delta.fresh:
            return delta.fresh[sequence]
        if delta.has_ended(sequence):
            return None
        frozen = facts.frozen
        if frozen is not None:
            if sequence in frozen.fresh:
                return frozen.fresh[sequence]
            if frozen.has_ended(sequence):
                return None
        key = message_key(facts.place_id, sequence)
        value = self.index.get(Table.MESSAGES, key)
        return None if value is None else unpack_entry(key, value)

    def find_many(
        self, facts: PlaceFacts, sequences: Iterable[int], *, checked: bool = True
    ) -> list[tuple[int, Entry]]:
        """`find` for many, with one look at the index: those that are there, and written.

        Who holds what is found against the journal itself need not have the index *checked*.
        """
        active, frozen = facts.active, facts.frozen
        found: list[tuple[int, Entry]] = []
        indexed: list[int] = []
        for sequence in sequences:
            if sequence in active.fresh:
                entry = active.fresh[sequence]
            elif active.has_ended(sequence):
                continue
            elif frozen is not None and sequence in frozen.fresh:
                entry = frozen.fresh[sequence]
            elif frozen is not None and frozen.has_ended(sequence):
                continue
            else:
                indexed.append(sequence)
                continue
            if entry is not None:
                found.append((sequence, entry))
        if indexed:
            place_id = facts.place_id
            keys = [_KEY.pack(place_id, sequence) for sequence in indexed]
            values = self.index.get_many(Table.MESSAGES, keys)
            there = [(it, key) for it, key in zip(indexed, keys, strict=True) if key in values]
            if checked:
                found += [(it, unpack_entry(key, values[key])) for it, key in there]
            elif len(values) == len(keys) and {*map(len, values.values())} == {_SEALED_ENTRY.size}:
                packed = b"".join(map(values.__getitem__, keys))
                entries = list(map(_new_entry, _SEALED_ENTRY.iter_unpack(packed)))
                if max(map(_frame_bytes, entries)) > _UNCHECKED_BYTES_MAX:  # nobody takes memory on its word alone
                    entries = [unpack_entry(key, values[key]) for key in keys]
                found += zip(indexed, entries, strict=True)
            else:  # something is missing, or odd: look closer
                found += [(it, unpack_entry(key, values[key])) for it, key in there]
        return found

    def put(self, facts: PlaceFacts, sequence: int, entry: Entry) -> None:
        """A message's record is at *entry*; no other is known of it here."""
        facts.active.fresh[sequence] = entry
        share = entry.share_bytes
        held = facts.held.get(entry.segment)
        if held is None:
            facts.held[entry.segment] = [1, share]
        else:
            held[0] += 1
            held[1] += share
        segment = self.segments[entry.segment]
        segment.live_messages += 1
        segment.live_bytes += share
        self.changed_counters.add(facts.place_id)

    def take(self, facts: PlaceFacts, sequence: int) -> Entry | None:
        """Forget a written message; the answer is where it was, None if it was not there."""
        entry = self.find(facts, sequence)
        if entry is None:
            return None
        delta = facts.active
        if delta.fresh.pop(sequence, None) is None or sequence in delta.moved:
            delta.gone.add(sequence)
        self._let_go(facts, entry)
        return entry

    def take_many(self, facts: PlaceFacts, sequences: Iterable[int]) -> list[tuple[int, Entry]]:
        """`take` for many; the answer is where those were that were there."""
        taken = self.find_many(facts, sequences)
        delta = facts.active
        fresh, moved, gone = delta.fresh, delta.moved, delta.gone
        sums: dict[int, list[int]] = {}
        for sequence, entry in taken:
            if fresh.pop(sequence, None) is None or sequence in moved:
                gone.add(sequence)
            total = sums.setdefault(entry[0], [0, 0])
            total[0] += 1
            total[1] += entry.share_bytes
        for segment, (count, size_bytes) in sums.items():
            held = facts.held.get(segment)
            if held is not None:
                held[0] -= count
                held[1] -= size_bytes
                if not held[0]:
                    del facts.held[segment]
            self._release(segment, count, size_bytes)
        self.changed_counters.add(facts.place_id)
        return taken

    def _let_go(self, facts: PlaceFacts, entry: Entry) -> None:
        held = facts.held.get(entry.segment)
        share = entry.share_bytes
        if held is not None:
            held[0] -= 1
            held[1] -= share
            if not held[0]:
                del facts.held[entry.segment]
        self._release(entry.segment, 1, share)
        self.changed_counters.add(facts.place_id)

    def move(self, facts: PlaceFacts, sequence: int, entry: Entry) -> None:
        """A message's record is at *entry* now, and not where it was, if it was anywhere."""
        old = self.find(facts, sequence)
        if old is not None:
            self._let_go(facts, old)
            if sequence not in facts.active.fresh:
                facts.active.moved.add(sequence)
        self.put(facts, sequence, entry)

    def purge(self, facts: PlaceFacts, last_sequence: int, kept: frozenset[int]) -> None:
        """All up to *last_sequence* are gone but for *kept*, and those that came later."""
        stay = {it: entry for it in kept if (entry := self.find(facts, it)) is not None}
        later = {
            it: entry
            for delta in (facts.frozen, facts.active)
            if delta is not None
            for it, entry in delta.fresh.items()
            if it > last_sequence
            and entry is not None
            and (
                delta is facts.active or not facts.active.has_ended(it)
            )  # one that was replaced has ended, and is there
        }
        self._release_all(facts)
        facts.active.purge(last_sequence, kept)
        unindexed = {**later, **stay}
        indexed = {it: entry for it, entry in self._indexed_after(facts, last_sequence) if it not in unindexed}
        for entry in (*unindexed.values(), *indexed.values()):
            self._hold(facts, entry)
        self.changed_counters.add(facts.place_id)

    def _indexed_after(self, facts: PlaceFacts, sequence: int) -> Iterator[tuple[int, Entry]]:
        """What the index has behind *sequence* and is still there: nothing, unless a purge is replayed late."""
        for it, entry in self.indexed(facts.place_id, sequence + 1):
            if not facts.active.has_ended(it) and not (facts.frozen is not None and facts.frozen.has_ended(it)):
                yield it, entry

    def _hold(self, facts: PlaceFacts, entry: Entry) -> None:
        held = facts.held.setdefault(entry.segment, [0, 0])
        share = entry.share_bytes
        held[0] += 1
        held[1] += share
        segment = self.segments.get(entry.segment)
        if segment is not None:
            segment.live_messages += 1
            segment.live_bytes += share

    def indexed(self, place_id: int, first_sequence: int = 0) -> Iterator[tuple[int, Entry]]:
        """What the index has of a place, in order of sequence."""
        first, last = message_key(place_id, first_sequence), message_key(place_id, (1 << 64) - 1)
        for key, value in self.index.items(Table.MESSAGES, first, last):
            yield _KEY.unpack(key)[1], unpack_entry(key, value)

    def rows(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """A whole table of the index, every row held against its checksum."""
        for key, data in self.index.items(table):
            yield key, unsealed(key, data)

    def verified_counts(self, place_id: int) -> dict[int, int]:
        """How many entries the index has of a place in each segment; every one is held against its checksum."""
        counts: Counter[bytes] = Counter()
        first, last = message_key(place_id, 0), message_key(place_id, (1 << 64) - 1)
        for key, value in self.index.items(Table.MESSAGES, first, last):
            if crc32c(value[:-4], crc32c(key)) != int.from_bytes(value[-4:]):  # `unsealed`, written out
                raise DamagedIndex("the checksum of an entry of the index is wrong")
            counts[value[:4]] += 1
        return {int.from_bytes(segment): count for segment, count in counts.items()}

    def waiting(self, facts: PlaceFacts) -> Iterator[tuple[int, Entry]]:
        """All that waits in a place, in order of sequence. Asked while nothing changes: at the start, and by tools."""
        changed: dict[int, Entry | None] = {}
        deltas = [it for it in (facts.frozen, facts.active) if it is not None]
        for delta in deltas:
            changed = {it: entry for it, entry in changed.items() if not delta.has_ended(it)}
            changed.update(delta.fresh)
        fresh = sorted((it, entry) for it, entry in changed.items() if entry is not None)

        def indexed() -> Iterator[tuple[int, Entry]]:
            for it, entry in self.indexed(facts.place_id):
                if it not in changed and not any(delta.has_ended(it) for delta in deltas):
                    yield it, entry

        return merge(indexed(), fresh)

    def waiting_messages(self, facts: PlaceFacts) -> Iterator[WaitingMessage]:
        """The same without the places of the records, for a restart, which has millions: every step counts."""
        if any(it is not None and it.has_changed for it in (facts.frozen, facts.active)):
            for sequence, entry in self.waiting(facts):
                yield WaitingMessage(sequence, entry.expiration, entry.priority, entry.frame_bytes)
            return
        first, last = message_key(facts.place_id, 0), message_key(facts.place_id, (1 << 64) - 1)
        for key, value in self.index.items(Table.MESSAGES, first, last):
            (sequence,) = _SEQUENCE_OF_KEY.unpack(key)
            size_bytes, priority, expiration = _WAITING_OF_ENTRY.unpack(value)  # recovery has seen its checksum
            yield WaitingMessage(sequence, expiration, priority, size_bytes)

    # ---- everything else ---------------------------------------------------------------------------------------

    def set_state(self, key: StateKey, value: StateValue, segment: int, *, is_update: bool = False) -> None:
        """Something that is not a message is so from now on; an update adds to what an earlier record says."""
        item = self.state.get(key)
        if item is None or not is_update:
            self.state[key] = StateItem(value, segment)
        else:
            item.value = value
            item.segments.add(segment)
        self.changed_state.add(key)

    def end_state(self, key: StateKey) -> None:
        if self.state.pop(key, None) is not None:
            self.changed_state.add(key)

    def set_count(self, producer: bytes, count: int, segment: int) -> None:
        """A producer has counted as far as *count*; a message that was moved may say less than is known."""
        known = self.counts.get(producer)
        if known is None or known[0] <= count:
            self.counts[producer] = (count, segment)
            self.changed_counts.add(producer)

    def set_commit(self, transaction: bytes, segment: int) -> None:
        self.commits[transaction] = segment
        self.changed_commits.add(transaction)

    def add_segment(self, number: int, size_bytes: int) -> None:
        self.segments.setdefault(number, SegmentFacts(number, size_bytes))

    def end_segment(self, number: int) -> None:
        """Its file goes: nobody needs to be told any more that something in it is gone."""
        del self.segments[number]
        for segment in self.segments.values():
            segment.removals.pop(number, None)

    def note_removal(self, told_by: int, about: int) -> None:
        """Segment *told_by* says that a message is gone whose record is in *about*."""
        if about != told_by:
            self.segments[told_by].removals[about] += 1

    def kept_alive(self) -> Counter[int]:
        """For each segment, how many things other than messages need it."""
        needed: Counter[int] = Counter()
        for item in self.state.values():
            needed.update(item.segments)
        needed.update(facts.segment for facts in self.place_by_id.values())
        return needed

    @property
    def fresh_count(self) -> int:
        """Entries that the index does not have."""
        return sum(len(self.place_by_id[it].active.fresh) for it in self.changed_counters if it in self.place_by_id)

    @property
    def live_bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.segments.values())
