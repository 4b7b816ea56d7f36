"""The master's journal as its followers read it: by record number, from the files, and as a whole for a refill.

Reads are beside the loop, through files of their own. A follower that reads keeps the segments in front of it for a
while, as a snapshot keeps all of them, until the journal has grown too much meanwhile (`pins.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, final

from ackwire.store.background import Background
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.pins import Pin
from ackwire.store.journal.replica.log_map import LogMap, LogSegment
from ackwire.store.journal.replica.walk import PIECE_BYTES, walk
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, used_end
from ackwire.store.journal.shipping import EMPTY, Chunk, LogEnd, RecordGone, Snapshot, SnapshotSegment
from ackwire.util.clock import Clock

_LEASE_SECONDS: Final = 30.0
"""How long a segment stays that a follower has read from."""
_PLACES_MAX: Final = 64
"""Ends of chunks that are remembered: the next read goes on there."""

OnChunk = Callable[[Chunk | None, Exception | None], None]


class _Read(NamedTuple):
    """What to read, decided on the loop."""

    segment: LogSegment
    start: int
    """Where a record begins, which is the one wanted or comes before it."""
    end: int
    after: int


@final
class LogReader:
    """Implements `LogSource` on a journal that is being written."""

    def __init__(self, journal: OpenJournal, log: LogMap, *, clock: Clock, background: Background) -> None:
        self._journal = journal
        self._writer = journal.writer
        self._log = log
        self._clock = clock
        self._background = background
        self.on_chunk: Callable[[Chunk], None] | None = None
        self._places: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """By number of a record: its segment, and where it ends."""
        self._leases: dict[int, Pin] = {}
        """By segment."""
        journal.writer.on_write = self._wrote

    def _wrote(self, chunk: Chunk) -> None:
        if not chunk.offset:
            there = self._journal.catalog.segments
            self._log.segments = {number: it for number, it in self._log.segments.items() if number in there}
        self._log.took(chunk, chunk.last.epoch)
        self._log.saw(chunk.last.epoch, chunk.first_number)
        if self.on_chunk is not None:
            self.on_chunk(chunk)

    # ---- what there is -----------------------------------------------------------------------------------------

    @property
    def store_id(self) -> bytes:
        return self._journal.store_id

    def end(self) -> LogEnd:
        """See `LogSource`."""
        epochs = self._log.epochs  # the writer has its epoch before it has a record of it
        return LogEnd(epochs[-1][0], self._writer.last_number) if epochs else EMPTY

    def epochs(self) -> list[tuple[int, int]]:
        """See `LogSource`."""
        return self._log.epochs

    def first_number(self) -> int:
        """See `LogSource`."""
        first = self._writer.next_number
        expected = 0
        for segment in reversed(self._segments()):
            if expected and segment.number != expected:
                break
            first, expected = segment.first_number, segment.number - 1
        return first

    def _segments(self) -> list[LogSegment]:
        there = self._journal.catalog.segments
        return [it for it in self._log.segments.values() if it.number in there]

    @property
    def _used_bytes(self) -> int:
        return sum(it.size_bytes for it in self._journal.catalog.segments.values())

    # ---- reading by number -------------------------------------------------------------------------------------

    def read(self, after: int, bytes_max: int, done: OnChunk) -> None:
        """See `LogSource`."""
        if after >= self._writer.last_number:
            done(None, None)
            return
        if after + 1 < self.first_number():
            done(None, RecordGone(f"record {after + 1} is not in the journal any more"))
            return
        wanted = self._where(after)
        if wanted is None:
            done(None, RecordGone(f"record {after + 1} is in no segment of the journal"))
            return
        self._lease(wanted.segment.number)
        found: list[Chunk] = []
        self._background.submit(
            lambda: found.append(self._read(wanted, bytes_max)), partial(self._was_read, found, done)
        )

    def _where(self, after: int) -> _Read | None:
        segment = self._log.holding(after + 1)
        if segment is None:
            return None
        end = segment.end or segment.size_bytes
        place = self._places.get(after)
        if place is not None and place[0] == segment.number:
            return _Read(segment, place[1], end, after)
        return _Read(segment, SEGMENT_HEADER_BYTES, end, after)

    def _read(self, wanted: _Read, bytes_max: int) -> Chunk:
        """The records of one segment behind `wanted.after`. Runs beside the loop."""
        segment = wanted.segment
        try:
            file = self._writer.open_to_scan(segment.number)
        except FileNotFoundError:
            raise RecordGone(f"segment {segment.number} is not there any more") from None
        try:
            first = last = None
            number = wanted.after if wanted.start > SEGMENT_HEADER_BYTES else segment.first_number - 1
            for record in walk(
                file.read, segment.number, self._writer.seed, wanted.start, wanted.end, max(bytes_max, PIECE_BYTES)
            ):
                if record.number != number + 1:
                    break
                number = record.number
                if number <= wanted.after:
                    continue
                if first is not None and record.offset + record.size_bytes - first.offset > bytes_max:
                    break
                first, last = first or record, record
            if first is None or last is None:
                raise OSError(f"segment {segment.number} is damaged: record {wanted.after + 1} cannot be read")
            start = 0 if first.offset == SEGMENT_HEADER_BYTES else first.offset
            data = file.read(start, last.offset + last.size_bytes - start)
        finally:
            file.close()
        return Chunk(segment.number, start, segment.size_bytes, first.number, LogEnd(last.epoch, last.number), data)

    def _was_read(self, found: list[Chunk], done: OnChunk, error: Exception | None) -> None:
        if error is not None:
            done(None, error)
            return
        chunk = found[0]
        self._places[chunk.last.number] = chunk.segment, chunk.offset + len(chunk.data)
        if len(self._places) > _PLACES_MAX:
            self._places.popitem(last=False)
        done(chunk, None)

    def _lease(self, segment: int) -> None:
        until = self._clock.monotonic() + _LEASE_SECONDS
        pin = self._leases.get(segment)
        if pin is not None and pin.holds:
            pin.until = until
            return
        self._leases = {number: it for number, it in self._leases.items() if it.holds}
        self._leases[segment] = self._journal.pins.pin(segment, self._used_bytes, until)

    # ---- reading everything ------------------------------------------------------------------------------------

    def snapshot(self, done: Callable[[Snapshot | None, Exception | None], None]) -> None:
        """See `LogSource`."""
        segments = [(it.number, it.size_bytes, it.end, it.first_number) for it in self._segments()]
        pin = self._journal.pins.pin(0, self._used_bytes)
        end = self.end()
        found: list[SnapshotSegment] = []

        def measure() -> None:
            for number, size_bytes, used_bytes, first_number in segments:
                found.append(SnapshotSegment(number, size_bytes, used_bytes or self._used(number), first_number))

        def measured(error: Exception | None) -> None:
            if error is not None:
                pin.release()
                done(None, error)
            else:
                done(LogSnapshot(self._journal, self._background, pin, end, found), None)

        self._background.submit(measure, measured)

    def _used(self, number: int) -> int:
        file = self._writer.open_to_scan(number)
        try:
            return max(used_end(file, SEGMENT_HEADER_BYTES), SEGMENT_HEADER_BYTES + 1)
        finally:
            file.close()


@final
class LogSnapshot:
    """Implements `Snapshot`."""

    def __init__(
        self,
        journal: OpenJournal,
        background: Background,
        pin: Pin,
        end: LogEnd,
        segments: Sequence[SnapshotSegment],
    ) -> None:
        self.store_id = journal.store_id
        self.end = end
        self.segments = segments
        self._journal = journal
        self._background = background
        self._pin = pin
        self._used = {it.number: it.used_bytes for it in segments}

    def read(
        self, segment: int, offset: int, length: int, done: Callable[[bytes | None, Exception | None], None]
    ) -> None:
        """See `Snapshot`."""
        if not self._pin.holds:
            done(None, RecordGone("the journal has grown too much since the refill began"))
            return
        found: list[bytes] = []

        def read() -> None:
            try:
                file = self._journal.writer.open_to_scan(segment)
            except FileNotFoundError:
                raise RecordGone(f"segment {segment} is not there any more") from None
            try:
                found.append(file.read(offset, min(length, self._used[segment] - offset)))
            finally:
                file.close()

        self._background.submit(read, lambda error: done(None if error is not None else found[0], error))

    def release(self) -> None:
        """See `Snapshot`."""
        self._pin.release()
