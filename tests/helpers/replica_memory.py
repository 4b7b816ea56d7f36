"""A replicated journal in memory: implements `ReplicaLog`, `LogSource` and `NodeState`, with a disk that loses what was
not synced.

    medium = MemoryMedium(disk_id="d1", random=Random(7))
    log = MemoryReplica(medium, OnTheSpot())
    store = MemoryMaster(log, epoch=3, quorum=quorum)     # takes the log over
    medium.crash()                                        # a prefix of what was not synced stays

A record is its epoch, its number, whether the next one belongs to the same group, and a payload. Segments have a fixed
number of records. A payload that begins with "m" is a message, with "r" its removal; "o" opens an epoch, and "g" says
that a segment is gone.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from struct import Struct
from typing import NamedTuple

from ackwire.replication.log import (
    EMPTY,
    Chunk,
    Done,
    LogEnd,
    RecordGone,
    RefusedChunk,
    Snapshot,
    SnapshotSegment,
)
from ackwire.store.background import Background
from ackwire.store.journal.group_commit import JournalEnd, Quorum

SEGMENT_RECORDS = 16
SEGMENT_BYTES = 1 << 20
_HEAD = Struct(">QQ?H")


class Rec(NamedTuple):
    """A record."""

    epoch: int
    number: int
    goes_on: bool
    payload: bytes

    def pack(self) -> bytes:
        return _HEAD.pack(self.epoch, self.number, self.goes_on, len(self.payload)) + self.payload


class Damaged(RefusedChunk):
    """A refill whose records do not follow each other."""


def unpack(data: bytes) -> list[Rec]:
    records: list[Rec] = []
    position = 0
    while position < len(data):
        epoch, number, goes_on, length = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if position + length > len(data):
            raise Damaged("a record is cut off")
        records.append(Rec(epoch, number, goes_on, data[position : position + length]))
        position += length
    return records


def segment_of(number: int) -> int:
    return (number - 1) // SEGMENT_RECORDS + 1


def first_of(segment: int) -> int:
    return (segment - 1) * SEGMENT_RECORDS + 1


class Records:
    """Consecutive records, the first of which may be gone."""

    def __init__(self, records: Sequence[Rec] = ()) -> None:
        self.items = list(records)

    @property
    def first(self) -> int:
        return self.items[0].number if self.items else 1

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.items[-1].epoch, self.items[-1].number) if self.items else EMPTY

    def behind(self, number: int) -> list[Rec]:
        return self.items[max(0, number + 1 - self.first) :]

    def up_to(self, number: int) -> list[Rec]:
        return self.items[: max(0, number + 1 - self.first)]

    def epochs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for record in self.items:
            if not found or found[-1][0] != record.epoch:
                found.append((record.epoch, record.number))
        return found

    def drop_segments(self, up_to: int) -> None:
        """Drop the first segments, the last of them *up_to*."""
        first = first_of(up_to + 1)
        self.items = [it for it in self.items if it.number >= first]


class MemoryMedium:
    """What is on a node's disk."""

    def __init__(self, disk_id: str, random: Random) -> None:
        self.disk_id = disk_id
        self.random = random
        self.records: list[Rec] = []
        self.cache: list[Rec] = []
        """What a process reads: with what is not synced."""
        self.store_id = b""
        self.group_id = ""
        self.promised_epoch = 0
        self.may_vote = True
        self.log_damage = ""
        """Why the log must be replaced."""
        self.committed = 0
        """Up to here the index has it."""
        self.saves = 0
        """How often the node's state was written."""

    def crash(self, *, power: bool = True) -> None:
        """The process has ended; a power cut keeps a prefix of what was not synced."""
        if not power:
            return
        unsynced = Records(self.cache).behind(self.records[-1].number if self.records else 0)
        self.records = [*self.records, *unsynced[: self.random.randrange(len(unsynced) + 1)]]
        self.cache = list(self.records)

    def set_log(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Begin with a log of these epochs and payloads, all durable, and promised."""
        self.records = [Rec(epoch, number, False, payload) for number, (epoch, payload) in enumerate(records, 1)]
        self.cache = list(self.records)
        self.promised_epoch = records[-1][0]
        self.store_id, self.group_id = b"store", "the-group"

    def lose_end(self, count: int) -> None:
        """Synced records are lost, and the node knows it when it starts."""
        self.records = self.records[: max(0, len(self.records) - count)]
        self.cache = list(self.records)
        self.committed = min(self.committed, self.records[-1].number if self.records else 0)
        self.may_vote = False


class MemoryState:
    """Implements `NodeState`."""

    def __init__(self, medium: MemoryMedium, background: Background) -> None:
        self._medium = medium
        self._background = background
        self.promised_epoch = medium.promised_epoch
        self.group_id = medium.group_id
        self.disk_id = medium.disk_id
        self._may_vote = medium.may_vote

    @property
    def may_vote(self) -> bool:
        return self._may_vote

    def promise(self, epoch: int, done: Done) -> None:
        if epoch < self.promised_epoch:
            done(ValueError(f"epoch {epoch} after {self.promised_epoch}"))
            return
        self.promised_epoch = epoch

        def work() -> None:
            self._medium.promised_epoch = max(epoch, self._medium.promised_epoch)
            self._medium.saves += 1

        self._background.submit(work, done)

    def grant_vote(self, done: Done) -> None:
        def work() -> None:
            self._medium.may_vote = True

        def worked(error: Exception | None) -> None:
            self._may_vote = True
            done(error)

        self._background.submit(work, worked)

    def lose_vote(self, done: Done) -> None:
        self._may_vote = False

        def work() -> None:
            self._medium.may_vote = False

        self._background.submit(work, done)

    def lose_log(self, why: str, done: Done) -> None:
        self._medium.log_damage = why
        self.lose_vote(done)

    def join(self, group_id: str, done: Done) -> None:
        self.group_id = group_id

        def work() -> None:
            self._medium.group_id = group_id

        self._background.submit(work, done)


class MemoryReplica:
    """Implements `ReplicaLog`."""

    def __init__(self, medium: MemoryMedium, background: Background) -> None:
        self.medium = medium
        self.background = background
        self._cache = Records(medium.cache)
        medium.cache = self._cache.items
        self._durable = medium.records[-1].number if medium.records else 0
        self._committed = min(medium.committed, self._cache.end.number)

    @property
    def store_id(self) -> bytes:
        return self.medium.store_id

    @property
    def records(self) -> Records:
        return self._cache

    @property
    def needs_refill(self) -> str | None:
        return self.medium.log_damage or None

    def end(self) -> LogEnd:
        return self._cache.end

    def durable(self) -> LogEnd:
        records = self._cache.up_to(self._durable)
        return Records(records).end

    def committed(self) -> int:
        return self._committed

    def epochs(self) -> list[tuple[int, int]]:
        return self._cache.epochs()

    def append(self, chunk: Chunk) -> None:
        records = unpack(chunk.data)
        if not self.end().number and not self.store_id:
            self.medium.store_id = b"store"
        last = self.end()
        for record in records:
            if record.number != last.number + 1 and (last.number or record.number != 1):
                raise RefusedChunk(f"record {record.number} behind {last.number}")
            if record.epoch < last.epoch:
                raise RefusedChunk(f"epoch {record.epoch} behind {last.epoch}")
            last = LogEnd(record.epoch, record.number)
        if last != chunk.last or records[0].number != chunk.first_number:
            raise RefusedChunk("the chunk is not what it says")
        self._cache.items += records

    def sync(self, done: Done) -> None:
        number = self.end().number

        def work() -> None:
            on_medium = self.medium.records
            behind = self._cache.behind(on_medium[-1].number if on_medium else 0)
            on_medium += [it for it in behind if it.number <= number]

        def worked(error: Exception | None) -> None:
            self._durable = max(self._durable, min(number, self.end().number))
            done(error)

        self.background.submit(work, worked)

    def truncate_after(self, number: int, done: Done) -> None:
        if number < self._committed:
            done(RefusedChunk(f"record {self._committed} is committed, {number} is not the end"))
            return

        def work() -> None:
            del self._cache.items[len(self._cache.up_to(number)) :]
            self.medium.records = [it for it in self.medium.records if it.number <= number]
            self._durable = min(self._durable, number)

        self.background.submit(work, done)

    def commit(self, number: int) -> None:
        before, self._committed = self._committed, max(self._committed, min(number, self.end().number))
        for record in self._cache.behind(before):
            if record.number <= self._committed and record.payload.startswith(b"g"):
                self._remove(int(record.payload[1:]))
        if self.medium.random.random() < 0.1:
            self.medium.committed = max(self.medium.committed, min(self._committed, self._durable))

    def _remove(self, segment: int) -> None:
        self._cache.drop_segments(segment)
        first = self._cache.first
        self.medium.records = [it for it in self.medium.records if it.number >= first]
        self.medium.cache = self._cache.items

    def begin_refill(self, store_id: bytes, end: LogEnd, segments: Sequence[SnapshotSegment]) -> "MemoryRefill":
        return MemoryRefill(self, store_id, end, segments)

    def replaced(self, records: list[Rec], store_id: bytes) -> None:
        """A refill has taken the place of the log."""
        self.medium.records = list(records)
        self._cache = Records(records)
        self.medium.cache = self._cache.items
        self.medium.store_id = store_id
        self.medium.committed = 0

    def swapped(self) -> None:
        self._durable = self.end().number
        self._committed = 0
        self.medium.log_damage = ""


class MemoryRefill:
    """Implements `Refill`."""

    def __init__(self, log: MemoryReplica, store_id: bytes, end: LogEnd, segments: Sequence[SnapshotSegment]) -> None:
        self._log = log
        self._store_id = store_id
        self._end = end
        self._used = {it.number: it.used_bytes for it in segments}
        self._data: dict[int, bytearray] = {it.number: bytearray() for it in segments}
        self.is_abandoned = False

    def write(self, segment: int, offset: int, data: bytes, done: Done) -> None:
        def work() -> None:
            assert len(self._data[segment]) == offset
            self._data[segment] += data

        self._log.background.submit(work, done)

    def finish(self, done: Done) -> None:
        def work() -> None:
            records: list[Rec] = []
            for segment in sorted(self._data):
                if len(self._data[segment]) != self._used[segment]:
                    raise Damaged(f"segment {segment} is not complete")
                records += unpack(bytes(self._data[segment]))
            for before, record in pairwise(records):
                if record.number != before.number + 1 or record.epoch < before.epoch:
                    raise Damaged(f"record {record.number} behind {before.number}")
            if Records(records).end != self._end:
                raise Damaged(f"the refill ends at {Records(records).end}")
            self._log.replaced(records, self._store_id)

        def worked(error: Exception | None) -> None:
            if error is None:
                self._log.swapped()
            done(error)

        self._log.background.submit(work, worked)

    def abandon(self, done: Done) -> None:
        self.is_abandoned = True
        self._log.background.submit(lambda: None, done)


class MemorySnapshot:
    """Implements `Snapshot`."""

    segments: Sequence[SnapshotSegment]

    def __init__(self, records: Records, store_id: bytes, background: Background) -> None:
        self.store_id = store_id
        self.end = records.end
        self._background = background
        self._data: dict[int, bytes] = {}
        for record in records.items:
            segment = segment_of(record.number)
            self._data[segment] = self._data.get(segment, b"") + record.pack()
        self.segments = [
            SnapshotSegment(number, SEGMENT_BYTES, len(data), first_of(number)) for number, data in self._data.items()
        ]
        self.is_released = False

    def read(
        self, segment: int, offset: int, length: int, done: Callable[[bytes | None, Exception | None], None]
    ) -> None:
        data = self._data[segment][offset : offset + length]
        self._background.submit(lambda: None, lambda error: done(data, error))

    def release(self) -> None:
        self.is_released = True


class MemoryMaster:
    """Implements `LogSource`: a store with a group commit of its own, on a log that it has taken over."""

    def __init__(self, log: MemoryReplica, epoch: int, quorum: Quorum) -> None:
        assert epoch > log.end().epoch, f"epoch {epoch} on a log that ends at {log.end()}"
        self.on_chunk: Callable[[Chunk], None] | None = None
        self.epoch = epoch
        self._log = log
        self._quorum = quorum
        self._records = log.records
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._is_syncing = False
        self._is_dirty = False
        self.is_closed = False
        if not log.store_id:
            log.medium.store_id = b"store"

    def begin(self) -> None:
        """Write the first record of the epoch."""
        self.write([b"o"], lambda: None)

    # ---- the store ---------------------------------------------------------------------------------------------

    def write(self, payloads: Sequence[bytes], answered: Callable[[], None]) -> None:
        """Write a group of records; *answered* when it is durable."""
        assert not self.is_closed
        first = self.end().number + 1
        for number, payload in enumerate(payloads, first):
            self._records.items.append(Rec(self.epoch, number, number < first + len(payloads) - 1, payload))
        self._waiting.append((self.end().number, answered))
        for chunk in self._chunks(first - 1):
            if self.on_chunk is not None:
                self.on_chunk(chunk)
        self._sync()

    def _sync(self) -> None:
        if self._is_syncing or self.is_closed:
            self._is_dirty = True
            return
        self._is_syncing, self._is_dirty = True, False
        number = self.end().number
        self._log.sync(lambda error: self._synced(number, error))

    def _synced(self, number: int, error: Exception | None) -> None:
        assert error is None
        self._is_syncing = False
        if self.is_closed:
            return
        end = JournalEnd(self.epoch, number, segment_of(number), 0)
        self._quorum.confirm(end, lambda: self._confirmed(number))
        if self._is_dirty:
            self._sync()

    def _confirmed(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number and not self.is_closed:
            self._waiting.pop(0)[1]()

    def contents(self) -> set[bytes]:
        """The messages in it."""
        return contents_of(self._records.items)

    def compact(self) -> None:
        """Write again what the first segment has and is needed, then drop it."""
        segment = segment_of(self._records.first)
        if first_of(segment + 2) > self.end().number:
            return
        alive = self.contents()
        old = [it for it in self._records.items if segment_of(it.number) == segment]
        moved = [it.payload for it in old if it.payload in alive]

        def safe() -> None:
            self.write([b"g%d" % segment], lambda: self._log._remove(segment))

        self.write(moved, safe) if moved else safe()

    def close(self) -> MemoryReplica:
        """Serve no more; the log is a copy again."""
        self.is_closed = True
        self._waiting.clear()
        return MemoryReplica(self._log.medium, self._log.background)

    # ---- the source --------------------------------------------------------------------------------------------

    @property
    def store_id(self) -> bytes:
        return self._log.store_id

    def end(self) -> LogEnd:
        return self._records.end

    def epochs(self) -> list[tuple[int, int]]:
        return self._records.epochs()

    def first_number(self) -> int:
        return self._records.first

    def _chunks(self, after: int) -> list[Chunk]:
        chunks = []
        records = self._records.behind(after)
        while records:
            segment = segment_of(records[0].number)
            part = [it for it in records if segment_of(it.number) == segment]
            chunks.append(_chunk(part))
            records = records[len(part) :]
        return chunks

    def read(self, after: int, bytes_max: int, done: Callable[[Chunk | None, Exception | None], None]) -> None:
        def worked(error: Exception | None) -> None:
            if after + 1 < self.first_number():
                done(None, RecordGone(f"record {after + 1} is gone"))
                return
            chunks = self._chunks(after)
            done(_first_part(chunks[0], bytes_max) if chunks else None, error)

        self._log.background.submit(lambda: None, worked)

    def snapshot(self, done: Callable[[Snapshot | None, Exception | None], None]) -> None:
        snapshot = MemorySnapshot(self._records, self.store_id, self._log.background)
        self._log.background.submit(lambda: None, lambda error: done(snapshot, error))


def _chunk(records: list[Rec]) -> Chunk:
    first, last = records[0], records[-1]
    segment = segment_of(first.number)
    offset = 0 if first.number == first_of(segment) else 64 + 1000 * (first.number - first_of(segment))
    data = b"".join(it.pack() for it in records)
    return Chunk(segment, offset, SEGMENT_BYTES, first.number, LogEnd(last.epoch, last.number), data)


def _first_part(chunk: Chunk, bytes_max: int) -> Chunk:
    """So many of its records as fit, and one at least."""
    records = unpack(chunk.data)
    size = count = 0
    while count < len(records) and (not count or size + len(records[count].pack()) <= bytes_max):
        size += len(records[count].pack())
        count += 1
    return _chunk(records[:count])


def contents_of(records: Sequence[Rec]) -> set[bytes]:
    """The messages that *records* leave; a group that is not complete is as if it were not there."""
    found: set[bytes] = set()
    group: list[bytes] = []
    for record in records:
        if record.payload == b"o":
            group.clear()
        group.append(record.payload)
        if not record.goes_on:
            for payload in group:
                if payload.startswith(b"m"):
                    found.add(payload)
                elif payload.startswith(b"r"):
                    found.discard(b"m" + payload[1:])
            group.clear()
    return found
