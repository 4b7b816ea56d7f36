"""Compaction: frees disk space, one segment at a time (SEMANTICS K2).

A segment without live records is deleted. If the closed segments take more than twice the size of their live records,
the one with the fewest is deleted as well, after its live records were written again at the end of the journal: so one
old message does not keep a whole file. Jobs, prepared transactions and producer counts are live records, too: if they
were not counted, they would be rewritten without end. Removals are rewritten as long as the segment of their message
exists.

Order: the rewritten records are durable, then the record that the segment is gone, then its file is deleted. A crash in
between leaves a segment without live records, and the next run deletes it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final, final

from ackwire.store.background import Background
from ackwire.store.catalog import PlaceInfo, SegmentInfo, StateValue
from ackwire.store.checkpoint import GAPS_KEY, job_key, pack_state_payload, prepared_key, state_record_key
from ackwire.store.contract import CursorRecord, ScheduledJob
from ackwire.store.journal.checkpointing import Checkpointing
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.group_commit import GroupCommit
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.pending_records import MovedMessage, PendingCounts, PendingPayload, PendingRemovals
from ackwire.store.journal.record import (
    Damaged,
    Record,
    RecordKind,
    pack_numbers,
    unpack_message,
    unpack_place_gone,
    unpack_purged,
    unpack_removed,
)
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.segment import Damage, SegmentScan
from ackwire.store.journal.state import PreparedRecord, job_id_of, state_record_key_of
from ackwire.store.journal.state_recording import StateRecording
from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

_RECORDS_PER_TURN: Final = 500
"""Records looked at before others get their turn."""

_LIVE_SHARE_MIN: Final = 0.5
_LITTLE_SHARE: Final = 0.01
_LITTLE_BYTES: Final = 1000
"""So much is written again, or so small a share of a segment, to have the oldest segment gone."""
_RETRY_SECONDS: Final = 10.0

_STATE_BYTES: Final = 100
"""What a record takes that is not a message, besides the bytes it carries; about."""

_log = logging.getLogger(__name__)


@final
class Compaction:
    """Chooses segments and makes them go."""

    def __init__(
        self,
        journal: OpenJournal,
        buffer: RecordBuffer,
        states: StateRecording,
        commit: GroupCommit,
        checkpointing: Checkpointing,
        state: FailureState,
        *,
        on_freed: Callable[[], None],
        background: Background,
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._catalog = journal.catalog
        self._writer = journal.writer
        self._buffer = buffer
        self._states = states
        self._commit = commit
        self._checkpointing = checkpointing
        self._state = state
        self._on_freed = on_freed
        """Called when a segment is gone."""
        self._background = background
        self._clock = clock
        self._victim: SegmentInfo | None = None
        self._is_stopped = False
        self._state_bytes: Counter[int] | None = None
        """For each segment what is alive in it besides messages, as of the last checkpoint or compaction."""

    def checkpoint_done(self) -> None:
        """More segments are closed, and more may have died in them."""
        self._state_bytes = None
        self.begin()

    def begin(self) -> None:
        """Make the next segment go, if one should; then the next."""
        if self._victim is not None or self._is_stopped or self._state.failure is not None:
            return
        victim = self._victim = self._choose()
        if victim is None:
            return
        if self._tells_nothing(victim):
            self._move(victim, iter(()))
            return
        found: list[Record] = []
        damages: list[Damage] = []
        with_messages = victim.live_messages > 0

        def read() -> None:
            for item in self._scan(victim.number):
                if isinstance(item, Damage):
                    damages.append(item)
                elif with_messages or item.kind != RecordKind.MESSAGE:
                    found.append(item)

        def done(error: Exception | None) -> None:
            if error is not None:
                _log.error("segment %d cannot be read, and stays for now: %s", victim.number, error)
                self._victim = None  # the next checkpoint tries again
                return
            if damages:
                self._journal.report_damage(
                    f"segment {victim.number} has {len(damages)} damaged places; they go with it"
                )
            self._move(victim, iter(found))

        self._background.submit(read, done)

    def stop(self) -> None:
        self._is_stopped = True

    def _tells_nothing(self, victim: SegmentInfo) -> bool:
        """Whether no record of it is needed, so that it need not be read: as where messages go in their order."""
        is_oldest = victim.number == min(self._catalog.segments)
        return is_oldest and not victim.live_messages and not any(victim.removals.values())

    def _choose(self) -> SegmentInfo | None:
        """The segment that should go next."""
        closed = [
            segment
            for segment in self._catalog.segments.values()
            if segment.number < self._checkpointing.segment and segment.number != self._writer.segment
        ]
        if self._journal.pins:
            used_bytes = sum(segment.size_bytes for segment in self._catalog.segments.values())
            first_pinned = self._journal.pins.first(used_bytes, self._clock.monotonic())
            closed = [segment for segment in closed if segment.number < first_pinned]
        if self._state_bytes is None:
            self._state_bytes = self._count_state()
        alive = {it.number: it.live_bytes + self._state_bytes[it.number] for it in closed}
        dead = [segment for segment in closed if segment.live_messages == 0 and not alive[segment.number]]
        if dead:
            oldest = min(closed, key=lambda segment: segment.number)
            if not oldest.live_messages and alive[oldest.number] <= max(
                oldest.size_bytes * _LITTLE_SHARE, _LITTLE_BYTES
            ):
                return oldest  # behind it, the dead ones need not be read (`_tells_nothing`)
            return min(dead, key=lambda segment: segment.number)
        if sum(segment.size_bytes for segment in closed) * _LIVE_SHARE_MIN <= sum(alive.values()):
            return None
        return min(closed, key=lambda segment: alive[segment.number] / segment.size_bytes)

    def _count_state(self) -> Counter[int]:
        """For each segment the bytes that have to be written again when it goes, messages aside."""
        found: Counter[int] = Counter()
        for number, count in self._catalog.place_records.items():
            found[number] += count * _STATE_BYTES
        for item in self._catalog.state.values():
            for number in item.segments:
                found[number] += _STATE_BYTES + _carried_bytes(item.value)
        for producer, (_, number) in self._catalog.counts.items():
            found[number] += _STATE_BYTES + len(producer)
        for transaction, number in self._catalog.commits.items():
            found[number] += _STATE_BYTES + len(transaction)
        return found

    def _scan(self, number: int) -> Iterator[Record | Damage]:
        file = self._writer.open_to_scan(number)
        try:
            yield from SegmentScan(file, number, self._writer.seed, last_number=0, last_epoch=0)
        finally:
            file.close()

    # ---- what must be written again ----------------------------------------------------------------------------

    def _move(self, victim: SegmentInfo, records: Iterator[Record]) -> None:
        """Look at some of the *records*, then let others have their turn."""
        if self._is_stopped or self._state.failure is not None:
            return
        removals = PendingRemovals(self._catalog)
        looked_at = 0
        for record in records:
            self._move_record(victim, record, removals)
            looked_at += 1
            if looked_at == _RECORDS_PER_TURN:
                break
        if removals.payload_bytes:
            self._buffer.add(removals)
        if looked_at == _RECORDS_PER_TURN:
            self._clock.call_later(0, lambda: self._move(victim, records))
            return
        places = [it for it in self._catalog.place_by_id.values() if it.segment == victim.number]
        self._move_places(victim, iter(places))

    def _move_places(self, victim: SegmentInfo, places: Iterator[PlaceInfo]) -> None:
        """Write places again, some in each turn: there may be as many as queues."""
        if self._is_stopped or self._state.failure is not None:
            return
        looked_at = 0
        for info in islice(places, _RECORDS_PER_TURN):
            looked_at += 1
            if info.segment == victim.number and self._catalog.place_by_id.get(info.place_id) is info:
                self._states.record_place(info)
        if looked_at == _RECORDS_PER_TURN:
            self._clock.call_later(0, lambda: self._move_places(victim, places))
            return
        self._move_state(victim.number)
        self._move_recent(victim.number)
        self._commit.when_synced(lambda: self._survivors_are_safe(victim))

    def _move_record(self, victim: SegmentInfo, record: Record, removals: PendingRemovals) -> None:
        try:
            if record.kind == RecordKind.MESSAGE:
                self._move_message(record)
            elif record.kind == RecordKind.REMOVED:
                for place_id, sequence, segment in unpack_removed(record.payload):
                    if segment != victim.number and segment in self._catalog.segments:
                        removals.add(place_id, sequence, segment)
            elif self._is_still_needed(victim, record):
                self._buffer.add(PendingPayload(RecordKind(record.kind), bytes(record.payload)))
        except Damaged as error:
            self._journal.report_damage(f"segment {victim.number}: the record at {record.offset} is lost: {error}")

    def _move_message(self, record: Record) -> None:
        stored = unpack_message(record.payload)
        places = [
            info
            for info in map(self._catalog.place_by_id.get, stored.place_ids)
            if info is not None and self._is_at(info, stored.sequence, record)
        ]
        if places:
            self._buffer.add_moved(MovedMessage(self._catalog, record.payload, stored, places), stored.sequence)

    def _is_at(self, info: PlaceInfo, sequence: int, record: Record) -> bool:
        entry = self._catalog.find(info, sequence)
        return entry is not None and (entry.segment, entry.offset) == (record.segment, record.offset)

    def _is_still_needed(self, victim: SegmentInfo, record: Record) -> bool:
        """Whether *record* says that something is gone which an older segment may still hold."""
        if not any(number < victim.number for number in self._catalog.segments):
            return False
        match record.kind:
            case RecordKind.PLACE_GONE:
                return unpack_place_gone(record.payload) not in self._catalog.place_by_id
            case RecordKind.PURGED:
                return unpack_purged(record.payload)[0] in self._catalog.place_by_id
            case RecordKind.JOB_GONE:
                return job_key(job_id_of(record.payload)) not in self._catalog.state
            case RecordKind.DECIDED:
                return prepared_key(bytes(record.payload)) not in self._catalog.state
            case RecordKind.STATE_RECORD_GONE:
                return state_record_key(state_record_key_of(record.payload)) not in self._catalog.state
        return False

    def _move_state(self, number: int) -> None:
        for key, item in list(self._catalog.state.items()):
            if number in item.segments:
                kind, payload = key[0], pack_state_payload(self._catalog, item.value)
                self._buffer.add(PendingPayload(kind, payload, item.moved_to))
                self._catalog.changed_state.add(key)

    def _move_recent(self, number: int) -> None:
        counts = PendingCounts(self._catalog)
        counts.counts = {producer: last for producer, (last, it) in self._catalog.counts.items() if it == number}
        if counts.counts:
            self._buffer.add(counts)
        for transaction in [it for it, segment in self._catalog.commits.items() if segment == number]:
            self._states.record_commit(transaction)

    # ---- the end of a segment ----------------------------------------------------------------------------------

    def _survivors_are_safe(self, victim: SegmentInfo) -> None:
        if self._is_stopped:
            return
        if victim.live_messages:
            self._journal.report_damage(
                f"segment {victim.number}: {counted(victim.live_messages, 'message')} in it cannot be read"
            )
        # True before the file is gone and afterwards: a start between the two may have no index.
        there = self._catalog.segments
        gaps = tuple(it for it in range(min(there), max(there)) if it not in there or it == victim.number)
        known = self._catalog.state.get(GAPS_KEY)
        if gaps != (() if known is None else known.value):
            self._states.set(GAPS_KEY, gaps, RecordKind.GAPS, pack_numbers(gaps))
        self._commit.when_synced(lambda: self._delete(victim))

    def _delete(self, victim: SegmentInfo) -> None:
        if self._is_stopped:
            return
        self._catalog.end_segment(victim.number)
        self._writer.forget(victim.number)
        self._remove_file(victim.number)

    def _remove_file(self, number: int) -> None:
        if not self._is_stopped:
            self._background.submit(lambda: self._writer.remove(number), partial(self._deleted, number))

    def _deleted(self, number: int, error: Exception | None) -> None:
        if error is not None:
            # Nothing else goes before it does: removals of what is in it are not carried along any more.
            _log.error("segment %d, which is not needed any more, cannot be deleted yet: %s", number, error)
            self._clock.call_later(_RETRY_SECONDS, lambda: self._remove_file(number))
            return
        self._victim = self._state_bytes = None
        self._on_freed()
        self.begin()


def _carried_bytes(value: StateValue) -> int:
    match value:
        case ScheduledJob():
            return len(value.message.frame)
        case PreparedRecord():
            return sum(map(len, value.frames))
        case CursorRecord():
            return 8 * len(value.held)
    return 0
