"""One follower, as the master sees it: where its copy ends, what is on its way to it, and what it is sent next.

    WAITING     the master has no log to compare with yet
    ALIGNING    it was told where the logs part, and has not said yet that its copy ends there
    FOLLOWING   it is sent records: as they are written, or from the files while it is behind
    REFILLING   it is sent the whole log, because the records that it needs are gone
    ENDED

What is sent and not acknowledged is bounded by a window; beyond it the copy is behind, and is sent what is in the files
as its acknowledgements come. An acknowledgement counts only when the copy is aligned: before that it may be of records
that the master does not have.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from crc32c import crc32c

from ackwire.replication.identity import Link, Timing, last_common
from ackwire.replication.log import Chunk, LogSource, RecordGone, Snapshot, SnapshotSegment
from ackwire.replication.messages import (
    PIECE_BYTES_MAX,
    Ack,
    Append,
    Hello,
    Reason,
    RefillAck,
    RefillBegin,
    RefillEnd,
    RefillPiece,
    Truncate,
    Vote,
)


class CopyState(Enum):
    """See the module."""

    WAITING = "waiting"
    ALIGNING = "aligning"
    FOLLOWING = "following"
    REFILLING = "refilling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """A follower as the master sees it."""

    node_id: str
    address: str
    state: str
    durable: int
    lag_records: int
    flight_bytes: int
    counts: bool
    """Whether the quorum counts on it."""
    is_linked: bool = True
    """Whether its link lasts."""


class Copy:
    """A follower's copy, over one link. *on_ack* is called when it has told more of itself, *on_unreadable* when the
    master's own log cannot be read for it. Where not *is_strict*, what was committed may be lost by choice."""

    def __init__(
        self,
        hello: Hello,
        link: Link,
        *,
        timing: Timing,
        committed: Callable[[], int],
        on_ack: Callable[["Copy"], None],
        on_unreadable: Callable[[str], None],
        is_strict: bool,
        heard_at: float,
    ) -> None:
        self.hello = hello
        self.link = link
        self.heard_at = heard_at
        self.state = CopyState.WAITING
        self.durable = 0
        """Up to this record it has the master's log on its disk."""
        self.received = 0
        """Up to this record it has the master's log."""
        self.may_vote = hello.may_vote
        self.is_asked_to_vote = False
        self._timing = timing
        self._committed = committed
        self._on_ack = on_ack
        self._on_unreadable = on_unreadable
        self._is_strict = is_strict
        self._source: LogSource | None = None
        self._parts_at = 0
        self._next = 0
        """The record that is sent next."""
        self._flight: deque[tuple[int, int]] = deque()
        """Last record and size of each chunk that is on its way."""
        self._flight_bytes = 0
        self._is_reading = False
        self._refill: _Refilling | None = None

    @property
    def node_id(self) -> str:
        return self.hello.node_id

    @property
    def next_number(self) -> int:
        """The record that is sent next; 0 before it is known."""
        return self._next

    # ---- alignment ---------------------------------------------------------------------------------------------

    def align(self, source: LogSource) -> None:
        """Find where the logs part, and have the follower drop what is behind that."""
        self._source = source
        hello = self.hello
        if hello.store_id and hello.store_id != source.store_id:
            self.break_off(Reason.OTHER_STORE, f"the journal of {self.node_id} is not a copy of this one")
            return
        if hello.wants_refill:
            self._begin_refill()
            return
        number = last_common(source.epochs(), source.end(), hello.epochs, hello.end)
        parts = number < hello.committed and source.first_number() <= hello.committed
        if parts and number and self._is_strict:
            self.break_off(
                Reason.OTHER_RECORDS,
                f"{self.node_id} has the committed record {hello.committed}, and shares {number} records with the "
                f"master. Keep its store.data: it may have what the others lost. With an empty one it is filled anew",
            )
        elif parts or number + 1 < source.first_number():  # no epoch is known to both, or the mode of syncing allows it
            self._begin_refill()
        else:
            self.state = CopyState.ALIGNING
            self._parts_at = number
            self.link.send(Truncate(number))

    def acked(self, ack: Ack) -> None:
        """The follower tells of its copy."""
        match self.state:
            case CopyState.ALIGNING if ack.end.number == self._parts_at:
                self._follow_from(self._parts_at)
            case CopyState.REFILLING if self._refill is not None and self._refill.is_complete_at(ack):
                self._end_refill()
                self._follow_from(ack.end.number)
            case CopyState.FOLLOWING:
                pass
            case _:
                return  # it is of a copy that was not aligned yet
        if ack.end.number >= self._next or ack.durable > ack.end.number:
            text = f"{self.node_id} acknowledges record {ack.end.number}, and {self._next - 1} were sent"
            self.break_off(Reason.BROKEN_PROTOCOL, text)
            return
        self.received = max(self.received, ack.end.number)
        self.durable = max(self.durable, ack.durable)
        self.may_vote = ack.may_vote
        while self._flight and self._flight[0][0] <= self.received:
            self._flight_bytes -= self._flight.popleft()[1]
        self._on_ack(self)
        self.push()

    def _follow_from(self, number: int) -> None:
        self.state = CopyState.FOLLOWING
        self._next = number + 1

    # ---- records -----------------------------------------------------------------------------------------------

    def written(self, chunk: Chunk) -> None:
        """The master has written *chunk*: the usual way of a record."""
        if self.state is CopyState.FOLLOWING and chunk.first_number == self._next and self._has_room:
            self._send(chunk)
            self.link.flush()  # the disks of all copies work at the same time: the store may sync on the loop

    @property
    def _has_room(self) -> bool:
        return self._flight_bytes < self._timing.window_bytes

    def _send(self, chunk: Chunk) -> None:
        self._next = chunk.last.number + 1
        self._flight.append((chunk.last.number, len(chunk.data)))
        self._flight_bytes += len(chunk.data)
        self.link.send(Append(self._committed(), chunk))

    def push(self) -> None:
        """Read what it needs from the files, if it is behind and has room."""
        source = self._source
        if source is None or self.state is not CopyState.FOLLOWING or self._is_reading or not self._has_room:
            return
        if self._next <= source.end().number:
            self._is_reading = True
            source.read(self._next - 1, self._timing.read_bytes, self._was_read)

    def _was_read(self, chunk: Chunk | None, error: Exception | None) -> None:
        self._is_reading = False
        if self.state is not CopyState.FOLLOWING:
            return
        if isinstance(error, RecordGone):
            self._begin_refill()
        elif error is not None:
            self._unreadable(f"records from {self._next} on cannot be read here: {error}")
        elif chunk is not None and chunk.first_number == self._next:
            self._send(chunk)
            self.push()
        elif chunk is not None:  # what was written meanwhile came by itself
            self.push()

    # ---- refill ------------------------------------------------------------------------------------------------

    def _begin_refill(self) -> None:
        assert self._source is not None
        self.state = CopyState.REFILLING
        refill = self._refill = _Refilling(self, self._timing.window_bytes, self._committed)
        self._source.snapshot(refill.begin)

    def refill_acked(self, ack: RefillAck) -> None:
        if self._refill is not None:
            self._refill.acked(ack.received_bytes)

    def refill_failed(self, error: Exception) -> None:
        """The segments cannot be read any more, or never could: begin anew with those that are there."""
        self._end_refill()
        if isinstance(error, RecordGone):
            self.break_off(Reason.SILENT, f"the refill of {self.node_id} begins anew: {error}")
        else:
            self._unreadable(f"the journal cannot be read for {self.node_id}: {error}")

    def _unreadable(self, text: str) -> None:
        self.break_off(Reason.BROKEN_LOG, text)
        self._on_unreadable(text)

    def _end_refill(self) -> None:
        if self._refill is not None:
            self._refill.release()
            self._refill = None

    # ---- the vote, and the end ---------------------------------------------------------------------------------

    def ask_to_vote(self, number: int) -> None:
        """The elector counts on this copy: it is to remember that."""
        self.link.send(Vote(number))

    def break_off(self, reason: Reason, text: str) -> None:
        """End the link from here."""
        if self.state is not CopyState.ENDED:
            self.closed()
            self.link.close(reason, text)

    def closed(self) -> None:
        """The link has ended."""
        self.state = CopyState.ENDED
        self._end_refill()

    @property
    def flight_bytes(self) -> int:
        """Sent, and not acknowledged."""
        return self._flight_bytes


class _Refilling:
    """Sends a snapshot, segment by segment."""

    def __init__(self, copy: Copy, window_bytes: int, committed: Callable[[], int]) -> None:
        self._copy = copy
        self._window_bytes = max(window_bytes, PIECE_BYTES_MAX)
        self._committed = committed
        self._snapshot: Snapshot | None = None
        self._left: deque[SnapshotSegment] = deque()
        self._offset = 0
        self._sent_bytes = 0
        self._acked_bytes = 0
        self._checksum = 0
        self._is_reading = False
        self._is_released = False
        self._is_sent = False

    def begin(self, snapshot: Snapshot | None, error: Exception | None) -> None:
        if self._is_released:
            if snapshot is not None:
                snapshot.release()
            return
        if snapshot is None:
            self._copy.refill_failed(error or RecordGone("there is no snapshot"))
            return
        self._snapshot = snapshot
        self._left.extend(snapshot.segments)
        committed = min(self._committed(), snapshot.end.number)
        begin = RefillBegin(snapshot.end, committed, snapshot.store_id, tuple(snapshot.segments))
        self._copy.link.send(begin)
        self._go_on()

    def acked(self, received_bytes: int) -> None:
        self._acked_bytes = min(max(self._acked_bytes, received_bytes), self._sent_bytes)
        self._go_on()

    def _go_on(self) -> None:
        if self._is_released or self._is_reading or self._is_sent or self._snapshot is None:
            return
        if self._sent_bytes - self._acked_bytes >= self._window_bytes:
            return
        while self._left and self._offset >= self._left[0].used_bytes:
            self._left.popleft()
            self._offset = 0
        if not self._left:
            self._is_sent = True
            self._copy.link.send(RefillEnd(self._checksum))
            return
        segment = self._left[0]
        length = min(PIECE_BYTES_MAX, segment.used_bytes - self._offset)
        self._is_reading = True
        self._snapshot.read(segment.number, self._offset, length, self._was_read)

    def _was_read(self, data: bytes | None, error: Exception | None) -> None:
        self._is_reading = False
        if self._is_released:
            return
        if not data:
            self._copy.refill_failed(error or RecordGone("a segment is shorter than it was"))
            return
        self._copy.link.send(RefillPiece(self._left[0].number, self._offset, data))
        self._offset += len(data)
        self._sent_bytes += len(data)
        self._checksum = crc32c(data, self._checksum)
        self._go_on()

    def is_complete_at(self, ack: Ack) -> bool:
        """Whether *ack* says that the copy is what the snapshot was."""
        return self._is_sent and self._snapshot is not None and ack.end == self._snapshot.end

    def release(self) -> None:
        self._is_released = True
        if self._snapshot is not None:
            self._snapshot.release()
