"""What the journal holds and where: the state in memory of which the index is a copy on disk.

For each message that waits there is an `Entry`. Entries that came since the last checkpoint are in memory (`Delta`),
all others in the index. So what is consumed before a checkpoint never touches the index, and memory does not grow with
the backlog. While a checkpoint is being written, its delta is frozen, and changes go to a new one.

For each segment the catalog counts what in it is alive, and for each place how much of that is its own: so a purge of
a million messages is a subtraction.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final, final

from ackwire.store.blocks import (
    BLOCK_BITS,
    Block,
    Entry,
    block_key,
    entry_of,
    pack_block,
    segment_counts,
    share_bytes,
    unpack_block,
    unsealed,
    waiting_of,
)
from ackwire.store.contract import DurableRecord, Place, ScheduledJob, StateRecord, WaitingMessages
from ackwire.store.index import Edit, Index, Table
from ackwire.store.journal.record import RecordKind, pack_place
from ackwire.store.journal.state import PreparedRecord
from ackwire.util.lru import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED, Recent

_SEQUENCE_MAX: Final = (1 << 64) - 1
_BLOCKS_PER_PORTION: Final = 512
"""Of what waits: a long queue need not be in memory twice."""

BlockRow = tuple[bytes, bytes]
"""The key of a block and what stands there."""

CRASH_KEY: Final = b"crash"
"""Among the counts of producers, whose keys are longer: when the journal was opened after a crash, the last time."""

_BLOCKS_REMEMBERED: Final = 16
"""Blocks of the index that are kept unpacked: who asks for a message soon asks for its neighbours."""


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

    def has_later(self, sequence: int) -> bool:
        """Whether a message with a higher sequence has come since the checkpoint; 12 ms for a million messages."""
        return max(self.fresh, default=0) > sequence

    def purge(self, last_sequence: int, kept: frozenset[int], *, has_later: bool) -> dict[int, "Entry | None"]:
        """Forget all messages up to *last_sequence* but for *kept*; return the former table of `fresh`, which the
        caller frees. Where `has_later` is false, the table is not looked through."""
        # What has ended stays so: compaction may write an older purge again, with what that had kept. What is in `gone`
        # stays there: it has ended in either way.
        former = self.fresh
        kept = frozenset(it for it in kept if it in former or not self.has_ended(it))
        if has_later:
            self.fresh = {it: entry for it, entry in former.items() if it > last_sequence or it in kept}
        else:
            self.fresh = {it: former[it] for it in sorted(kept) if it in former}
        if last_sequence >= self.purged_to:
            self.purged_to, self.kept = last_sequence, kept
        else:
            self.kept -= {it for it in self.kept if it <= last_sequence and it not in kept}
        return former

    def block_edits(self, place_id: int) -> Iterator[tuple[bytes, Edit]]:
        """For each block of the index in which this changes single messages: what becomes of it."""
        touched = sorted({*self.fresh, *self.gone, *self.kept, *((self.purged_to,) if self.purged_to else ())})
        start = 0
        while start < len(touched):
            end = bisect_left(touched, ((touched[start] >> BLOCK_BITS) + 1) << BLOCK_BITS, start)
            key = block_key(place_id, touched[start])
            yield key, partial(self._edited, key, touched[start:end])
            start = end

    def _edited(self, key: bytes, touched: list[int], data: bytes | None) -> bytes | None:
        """The block under *key*, of which *data* was in the index, after this; None if nothing is left of it."""
        block: Block = {} if data is None else unpack_block(key, data)
        if self.purged_to:
            block = {it: entry for it, entry in block.items() if not self.has_ended(it)}
        for sequence in touched:
            entry = self.fresh.get(sequence)
            if entry is not None:
                block[sequence] = entry
            elif sequence in self.gone or sequence in self.fresh:
                block.pop(sequence, None)
        return pack_block(key, block) if block else None

    def applied_to(self, blocks: Iterator[BlockRow], place_id: int) -> Iterator[BlockRow]:
        """All *blocks* of a place, in order, as they are after this."""
        edits = deque(self.block_edits(place_id))
        first_left = block_key(place_id, self.purged_to)
        for key, data in blocks:
            while edits and edits[0][0] < key:
                yield from _edited(edits.popleft())
            if edits and edits[0][0] == key:
                yield from _edited(edits.popleft(), data)
            elif key >= first_left:
                yield key, data
        for edit in edits:
            yield from _edited(edit)


@final
class PlaceInfo:
    """One place: what changed in it, and how much of each segment it holds alive."""

    __slots__ = ("active", "dispatched_before", "dispatched_up_to", "frozen", "held", "place", "place_id", "segment")

    def __init__(self, place_id: int, place: Place, segment: int) -> None:
        self.place_id = place_id
        self.place = place
        self.dispatched_up_to = 0
        """Up to which sequence its messages may have reached consumers."""
        self.dispatched_before = 0
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
        return pack_place(self.place_id, self.place, self.dispatched_up_to)

    @property
    def message_count(self) -> int:
        return sum(count for count, _ in self.held.values()) + sum(1 for it in self.active.fresh.values() if it is None)


@final
class SegmentInfo:
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


StateValue = DurableRecord | ScheduledJob | PreparedRecord | StateRecord | tuple[int, ...]
StateKey = tuple[RecordKind, bytes]


@final
class StateItem:
    """A durable subscription, a job, a prepared transaction, a state record, or the list of gaps."""

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
        self.places: dict[Place, PlaceInfo] = {}
        self.place_by_id: dict[int, PlaceInfo] = {}
        self.place_records: Counter[int] = Counter()
        """For each segment how many places have their own record in it."""
        self.segments: dict[int, SegmentInfo] = {}
        self.state: dict[StateKey, StateItem] = {}
        self.forgotten_counts: set[bytes] = set()
        self.forgotten_commits: set[bytes] = set()
        self.counts: Recent[bytes, tuple[int, int]] = Recent(PRODUCERS_REMEMBERED, self.forgotten_counts.add)
        """By producer: its last count, and the segment that shows it."""
        self.commits: Recent[bytes, int] = Recent(COMMITS_REMEMBERED, self.forgotten_commits.add)
        """By transaction: the segment that shows that it has committed."""
        self.last_sequence = 0
        self.next_place_id = 1
        self.indexed_to = _SEQUENCE_MAX
        """The index has no message with a higher sequence."""
        self._blocks: dict[bytes, Block] = {}
        """Blocks of the index that were used a moment ago."""
        self._asked_for = b""
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

    def add_place(self, place_id: int, place: Place, segment: int, dispatched_up_to: int = 0) -> PlaceInfo:
        """A place is known from now on, or more of it; *segment* holds its record."""
        info = self.place_by_id.get(place_id)
        if info is None:
            info = PlaceInfo(place_id, place, segment)
        else:
            self.place_records[info.segment] -= 1
            if self.places.get(info.place) is info:  # perhaps known under a name that was only guessed
                del self.places[info.place]
        self.place_records[segment] += 1
        info.place, info.segment, info.dispatched_up_to = place, segment, dispatched_up_to
        self.places[place] = self.place_by_id[place_id] = info
        self.next_place_id = max(self.next_place_id, place_id + 1)
        self.changed_places.add(place_id)
        return info

    def add_nameless_place(self, place_id: int, place: Place, segment: int) -> PlaceInfo:
        """A place whose own record was not seen; *place* is only what its messages say."""
        info = self.place_by_id[place_id] = PlaceInfo(place_id, place, segment)
        self.place_records[segment] += 1
        return info

    def place_moved(self, info: PlaceInfo, segment: int) -> None:
        """The record of a place is in *segment* now; the place may have ended meanwhile."""
        if self.place_by_id.get(info.place_id) is info:
            self.place_records[info.segment] -= 1
            self.place_records[segment] += 1
        info.segment = segment

    def place_of(self, place_id: int) -> Place | None:
        info = self.place_by_id.get(place_id)
        return None if info is None else info.place

    def end_place(self, place_id: int) -> None:
        """A place is gone with all that is in it."""
        info = self.place_by_id.pop(place_id, None)
        if info is None:
            return
        self._release_all(info)
        self.place_records[info.segment] -= 1
        if self.places.get(info.place) is info:
            del self.places[info.place]
        self.ended_places.add(place_id)

    def _release_all(self, info: PlaceInfo) -> None:
        for number, (count, size_bytes) in info.held.items():
            self._release(number, count, size_bytes)
        info.held.clear()

    def _release(self, number: int, count: int, size_bytes: int) -> None:
        segment = self.segments.get(number)
        if segment is not None:
            segment.live_messages -= count
            segment.live_bytes -= size_bytes

    # ---- messages ----------------------------------------------------------------------------------------------

    def find(self, info: PlaceInfo, sequence: int) -> Entry | None:
        """Where a message is; None if it is not there, or not written yet."""
        delta = info.active
        if sequence in delta.fresh:
            return delta.fresh[sequence]
        if delta.has_ended(sequence):
            return None
        frozen = info.frozen
        if frozen is not None:
            if sequence in frozen.fresh:
                return frozen.fresh[sequence]
            if frozen.has_ended(sequence):
                return None
        return self._indexed_entry(info.place_id, sequence)

    def _indexed_entry(self, place_id: int, sequence: int) -> Entry | None:
        if sequence > self.indexed_to:
            return None
        key = block_key(place_id, sequence)
        if key in self._blocks or key == self._asked_for:  # the second time within a block: others will follow
            return self._block(key).get(sequence)
        self._asked_for = key
        data = self.index.get(Table.MESSAGES, key)
        return None if data is None else entry_of(key, data, sequence)

    def _block(self, key: bytes) -> Block:
        """What the index has of a block."""
        block = self._blocks.get(key)
        if block is None:
            data = self.index.get(Table.MESSAGES, key)
            block = {} if data is None else unpack_block(key, data)
            if len(self._blocks) == _BLOCKS_REMEMBERED:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[key] = block
        return block

    def index_changed(self, last_sequence: int) -> None:
        """The index has what a checkpoint wrote, up to *last_sequence*."""
        self.index.refresh()
        self.indexed_to = last_sequence
        self._blocks.clear()
        self._asked_for = b""

    def find_many(self, info: PlaceInfo, sequences: Iterable[int]) -> list[tuple[int, Entry]]:
        """`find` for many, best asked for in order: those that are there, and written."""
        active, frozen = info.active, info.frozen
        fresh, frozen_fresh = active.fresh, {} if frozen is None else frozen.fresh
        found: list[tuple[int, Entry]] = []
        number = -1
        block: Block = {}
        for sequence in sequences:
            entry: Entry | None
            if sequence in fresh:
                entry = fresh[sequence]
            elif active.has_ended(sequence):
                continue
            elif sequence in frozen_fresh:
                entry = frozen_fresh[sequence]
            elif frozen is not None and frozen.has_ended(sequence):
                continue
            else:
                if sequence >> BLOCK_BITS != number:
                    number = sequence >> BLOCK_BITS
                    block = self._block(block_key(info.place_id, sequence))
                entry = block.get(sequence)
            if entry is not None:
                found.append((sequence, entry))
        return found

    def put(self, info: PlaceInfo, sequence: int, entry: Entry) -> None:
        """A message's record is at *entry*; no other is known of it here."""
        info.active.fresh[sequence] = entry
        share = share_bytes(entry)
        held = info.held.get(entry.segment)
        if held is None:
            info.held[entry.segment] = [1, share]
        else:
            held[0] += 1
            held[1] += share
        segment = self.segments[entry.segment]
        segment.live_messages += 1
        segment.live_bytes += share
        self.changed_counters.add(info.place_id)

    def take(self, info: PlaceInfo, sequence: int) -> Entry | None:
        """Forget a written message and return where it was; None if it is not known."""
        entry = self.find(info, sequence)
        if entry is None:
            return None
        delta = info.active
        if delta.fresh.pop(sequence, None) is None or sequence in delta.moved:
            delta.gone.add(sequence)
        self._let_go(info, entry)
        return entry

    def take_many(self, info: PlaceInfo, sequences: Iterable[int]) -> list[tuple[int, Entry]]:
        """`take` for many: return where those were that are known."""
        taken = self.find_many(info, sequences)
        delta = info.active
        fresh, moved, gone = delta.fresh, delta.moved, delta.gone
        sums: dict[int, list[int]] = {}
        for sequence, entry in taken:
            if fresh.pop(sequence, None) is None or sequence in moved:
                gone.add(sequence)
            total = sums.setdefault(entry[0], [0, 0])
            total[0] += 1
            total[1] += share_bytes(entry)
        for segment, (count, size_bytes) in sums.items():
            held = info.held.get(segment)
            if held is not None:
                held[0] -= count
                held[1] -= size_bytes
                if not held[0]:
                    del info.held[segment]
            self._release(segment, count, size_bytes)
        self.changed_counters.add(info.place_id)
        return taken

    def _let_go(self, info: PlaceInfo, entry: Entry) -> None:
        held = info.held.get(entry.segment)
        share = share_bytes(entry)
        if held is not None:
            held[0] -= 1
            held[1] -= share
            if not held[0]:
                del info.held[entry.segment]
        self._release(entry.segment, 1, share)
        self.changed_counters.add(info.place_id)

    def move(self, info: PlaceInfo, sequence: int, entry: Entry) -> None:
        """A message's record is at *entry* now, and not where it was, if it was anywhere."""
        old = self.find(info, sequence)
        if old is not None:
            self._let_go(info, old)
            if sequence not in info.active.fresh:
                info.active.moved.add(sequence)
        self.put(info, sequence, entry)

    def purge(self, info: PlaceInfo, last_sequence: int, kept: frozenset[int]) -> dict[int, Entry | None]:
        """All up to *last_sequence* are gone but for *kept*, and those that came later. Returns the former table of the
        place, which the caller frees."""
        deltas = [it for it in (info.frozen, info.active) if it is not None and it.has_later(last_sequence)]
        stay = {it: entry for it in kept if (entry := self.find(info, it)) is not None}
        later = {
            it: entry
            for delta in deltas
            for it, entry in delta.fresh.items()
            if it > last_sequence
            and entry is not None
            and (delta is info.active or not info.active.has_ended(it))  # one that was replaced has ended, and is there
        }
        self._release_all(info)
        former = info.active.purge(last_sequence, kept, has_later=info.active in deltas)
        unindexed = {**later, **stay}
        indexed = {it: entry for it, entry in self._indexed_after(info, last_sequence) if it not in unindexed}
        for entry in (*unindexed.values(), *indexed.values()):
            self._hold(info, entry)
        self.changed_counters.add(info.place_id)
        return former

    def _indexed_after(self, info: PlaceInfo, sequence: int) -> Iterator[tuple[int, Entry]]:
        """Live messages of the index above *sequence*: none, unless a purge is replayed late."""
        for it, entry in self.indexed(info.place_id, sequence + 1):
            if not info.active.has_ended(it) and not (info.frozen is not None and info.frozen.has_ended(it)):
                yield it, entry

    def _hold(self, info: PlaceInfo, entry: Entry) -> None:
        held = info.held.setdefault(entry.segment, [0, 0])
        share = share_bytes(entry)
        held[0] += 1
        held[1] += share
        segment = self.segments.get(entry.segment)
        if segment is not None:
            segment.live_messages += 1
            segment.live_bytes += share

    def _indexed_blocks(self, place_id: int, first_sequence: int = 0) -> Iterator[BlockRow]:
        first, last = block_key(place_id, first_sequence), block_key(place_id, _SEQUENCE_MAX)
        return self.index.items(Table.MESSAGES, first, last)

    def indexed(self, place_id: int, first_sequence: int = 0) -> Iterator[tuple[int, Entry]]:
        """What the index has of a place, in order of sequence."""
        for key, data in self._indexed_blocks(place_id, first_sequence):
            for sequence, entry in unpack_block(key, data).items():
                if sequence >= first_sequence:
                    yield sequence, entry

    def rows(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """A whole table of the index, every row checked against its checksum."""
        for key, data in self.index.items(table):
            yield key, unsealed(key, data)

    def verified_counts(self, place_id: int) -> dict[int, int]:
        """How many messages the index has of a place in each segment; every block is checked against its checksum."""
        counts: Counter[int] = Counter()
        for key, data in self._indexed_blocks(place_id):
            for segment, count in segment_counts(key, data):
                counts[segment] += count
        return dict(counts)

    def waiting(self, info: PlaceInfo) -> Iterator[tuple[int, Entry]]:
        """All that waits in a place, in order of sequence. Asked while nothing changes: at the start, and by tools."""
        return chain.from_iterable(map(_located, self._blocks_of(info)))

    def waiting_messages(self, info: PlaceInfo) -> Iterator[WaitingMessages]:
        """The same without the places of the records, for a restart, which has millions."""
        blocks = self._blocks_of(info)
        while portion := list(islice(blocks, _BLOCKS_PER_PORTION)):
            yield waiting_of(portion)

    def _blocks_of(self, info: PlaceInfo) -> Iterator[BlockRow]:
        """The blocks of a place as they were if the index knew everything."""
        blocks = self._indexed_blocks(info.place_id)
        for delta in (info.frozen, info.active):
            if delta is not None and delta.has_changed:
                blocks = delta.applied_to(blocks, info.place_id)
        return blocks

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
        self.segments.setdefault(number, SegmentInfo(number, size_bytes))

    def end_segment(self, number: int) -> None:
        """Its file is deleted: records about messages in it are not needed any more."""
        del self.segments[number]
        for segment in self.segments.values():
            segment.removals.pop(number, None)

    def note_removals(self, told_by: int, about: int, count: int = 1) -> None:
        """Segment *told_by* says that *count* messages are gone whose records are in *about*."""
        if about != told_by and about in self.segments:
            self.segments[told_by].removals[about] += count

    def kept_alive(self) -> Counter[int]:
        """For each segment, how many things other than messages need it."""
        needed: Counter[int] = Counter()
        for item in self.state.values():
            needed.update(item.segments)
        needed.update(info.segment for info in self.place_by_id.values())
        return needed

    @property
    def fresh_count(self) -> int:
        """Entries that the index does not have."""
        return sum(len(self.place_by_id[it].active.fresh) for it in self.changed_counters if it in self.place_by_id)

    @property
    def live_bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.segments.values())


def _edited(edit: tuple[bytes, Edit], data: bytes | None = None) -> Iterator[BlockRow]:
    key, change = edit
    new = change(data)
    if new is not None:
        yield key, new


def _located(row: BlockRow) -> Iterable[tuple[int, Entry]]:
    return unpack_block(*row).items()
