"""A follower on one link to the master, without I/O.

    GREETING     hello is sent; the promise of the epoch was durable before
    ACCEPTED     welcome: the master will say where the logs part
    ALIGNING     the copy is being truncated
    FOLLOWING    records are appended, synced and acknowledged
    REFILLING    a whole log comes, beside the one that is there
    SWAPPING     it takes the old one's place
    ENDED

What is told to be committed is applied only while FOLLOWING: before the copy is aligned it may have other records under
those numbers. The copy outlives the link (`copy_log.py`).
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from crc32c import crc32c

from ackwire.errors import StoreFailed
from ackwire.replication.copy_log import CopyLog
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import Refill, RefusedChunk
from ackwire.replication.messages import (
    VERSION,
    Ack,
    Append,
    Bye,
    Commit,
    Heartbeat,
    Hello,
    Message,
    Reason,
    RefillAck,
    RefillBegin,
    RefillEnd,
    RefillPiece,
    Truncate,
    Vote,
    Welcome,
)
from ackwire.replication.quorum import SyncMode
from ackwire.util.clock import Clock


class FollowerState(Enum):
    """See the module."""

    GREETING = "greeting"
    ACCEPTED = "accepted"
    ALIGNING = "aligning"
    FOLLOWING = "following"
    REFILLING = "refilling"
    SWAPPING = "swapping"
    ENDED = "ended"


class FollowerEvents(Protocol):
    """What a follower tells its node."""

    def on_accepted(self) -> None:
        """The master has said welcome."""
        ...

    def on_refused(self, reason: Reason, text: str) -> None:
        """The master has refused this node, or ended the link."""
        ...

    def on_link_over(self, text: str) -> None:
        """This side has ended the link."""
        ...

    def grant_vote(self, done: Callable[[], None]) -> None:
        """The group counts on this copy from now on: remember it durably, then call *done*."""
        ...


class Follower:
    """Follows the master of *epoch* over *link*."""

    def __init__(
        self,
        identity: Identity,
        epoch: int,
        link: Link,
        copy: CopyLog,
        *,
        group_id: str,
        disk_id: str,
        may_vote: bool,
        clock: Clock,
        timing: Timing,
        events: FollowerEvents,
    ) -> None:
        self.epoch = epoch
        self.state = FollowerState.GREETING
        self.master = ""
        """The node that is followed, once it has said welcome."""
        self._identity = identity
        self._link = link
        self._copy = copy
        self._group_id = group_id
        self._disk_id = disk_id
        self._may_vote = may_vote
        self._clock = clock
        self._timing = timing
        self._events = events
        self._heard_at = self._ticked_at = clock.monotonic()
        self._refill: Refill | None = None
        self._refill_begin: RefillBegin | None = None
        self._refill_bytes = 0
        self._refill_checksum = 0
        self._must_ack = False

    def begin(self) -> None:
        """Say hello. The copy is idle, and the promise of the epoch is durable."""
        assert self._copy.is_idle
        identity, log = self._identity, self._copy.log
        self._copy.on_durable = self._durable
        self._link.send(
            Hello(
                version=VERSION,
                replicas=identity.replicas,
                store_format=identity.store_format,
                epoch=self.epoch,
                end=log.end(),
                committed=log.committed(),
                may_vote=self._may_vote,
                wants_refill=self._copy.wants_refill,
                incarnation=identity.incarnation,
                group_id=self._group_id,
                store_id=log.store_id,
                node_id=identity.node_id,
                disk_id=self._disk_id,
                address=identity.address,
                epochs=tuple(log.epochs()),
            )
        )

    # ---- what the master sends ---------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """The master has sent *message*. `turn_ended` follows when all that came with it was received, too."""
        if self.state is FollowerState.ENDED:
            return
        self._heard_at = self._clock.monotonic()
        match message:
            case Welcome() if self.state is FollowerState.GREETING:
                self._welcome(message)
            case Truncate() if self.state is FollowerState.ACCEPTED:
                self._align(message.number)
            case Append() if self.state is FollowerState.FOLLOWING:
                self._append(message)
            case Commit() | Heartbeat():
                self._committed(message.number if isinstance(message, Commit) else message.committed)
            case RefillBegin() if self.state in (FollowerState.ACCEPTED, FollowerState.FOLLOWING):
                self._begin_refill(message)
            case RefillPiece() if self.state is FollowerState.REFILLING:
                self._write_piece(message)
            case RefillEnd() if self.state is FollowerState.REFILLING:
                self._finish_refill(message)
            case Vote() if self.state is FollowerState.FOLLOWING:
                self._events.grant_vote(self._has_vote)
            case Bye():
                self._over()
                self._link.close(Reason.NONE, "")
                self._events.on_refused(message.reason, message.text)
            case _:
                text = f"a {type(message).__name__} while {self.state.value}"
                self._break_off(Reason.BROKEN_PROTOCOL, text)

    def _welcome(self, welcome: Welcome) -> None:
        if not welcome.is_accepted:
            self._over()
            self._link.close(Reason.NONE, "")
            self._events.on_refused(welcome.reason, welcome.text)
            return
        self.master = welcome.node_id
        self.state = FollowerState.ACCEPTED
        self._events.on_accepted()

    def _align(self, number: int) -> None:
        if not self._may_truncate(number):
            text = (
                f"record {self._copy.log.committed()} is committed here, and the master has other records from {number}"
            )
            self._break_off(Reason.BROKEN_LOG, text)
            return
        self.state = FollowerState.ALIGNING
        if number < self._copy.end.number:
            self._copy.truncate_after(number, self._aligned)
        else:
            self._aligned()

    def _may_truncate(self, number: int) -> bool:
        return self._copy.log.committed() <= number <= self._copy.end.number

    def _aligned(self) -> None:
        if self.state is FollowerState.ALIGNING:
            self.state = FollowerState.FOLLOWING
            self._ack()
            self._copy.sync()

    # ---- records -----------------------------------------------------------------------------------------------

    def _append(self, message: Append) -> None:
        chunk, end = message.chunk, self._copy.end
        if chunk.previous != end.number or not end.epoch <= chunk.last.epoch <= self.epoch:
            text = f"records {chunk.first_number} to {chunk.last} behind {end}"
            self._break_off(Reason.BROKEN_PROTOCOL, text)
            return
        try:
            self._copy.append(chunk)
        except RefusedChunk as error:
            self._break_off(Reason.BROKEN_LOG, f"records from {chunk.first_number} on are refused: {error}")
            return
        except (OSError, StoreFailed) as error:
            self._copy.fail(error)
            return
        self._must_ack = True
        self._committed(message.committed)

    def _committed(self, number: int) -> None:
        """Apply records up to *number*; those that have not come yet, when they come."""
        if self._may_apply():
            self._copy.commit(number)

    def _may_apply(self) -> bool:
        """Whether the records here are the master's."""
        return self.state is FollowerState.FOLLOWING

    def turn_ended(self) -> None:
        """All that came was received: sync it, and acknowledge what may be now."""
        if self.state is FollowerState.FOLLOWING and self._must_ack:
            self._must_ack = False
            if self._identity.mode is SyncMode.QUORUM_MEM:
                self._ack()
            self._copy.sync()

    def _durable(self) -> None:
        if self.state is FollowerState.FOLLOWING:
            self._ack()

    def _ack(self) -> None:
        if self._copy.failure is None:
            end = self._copy.end
            self._link.send(Ack(end, min(self._copy.durable, end.number), self._may_vote))

    def _has_vote(self) -> None:
        if self.state is not FollowerState.ENDED:
            self._may_vote = True
            self._durable()

    # ---- refill ------------------------------------------------------------------------------------------------

    def _begin_refill(self, begin: RefillBegin) -> None:
        self.state = FollowerState.REFILLING
        self._refill_begin = begin
        self._refill_bytes = self._refill_checksum = 0
        try:
            self._refill = self._copy.begin_refill(begin.store_id, begin.end, begin.segments)
        except RefusedChunk as error:
            self._refill_refused(error)

    def _write_piece(self, piece: RefillPiece) -> None:
        assert self._refill is not None
        refill = self._refill
        self._refill_bytes += len(piece.data)
        self._refill_checksum = crc32c(piece.data, self._refill_checksum)
        received = self._refill_bytes

        def written(error: Exception | None) -> None:
            if self._refill is not refill:
                return
            if error is not None:
                self._refill_refused(error)
            else:
                self._link.send(RefillAck(received))

        refill.write(piece.segment, piece.offset, piece.data, written)

    def _finish_refill(self, end: RefillEnd) -> None:
        refill = self._refill
        assert refill is not None
        if end.checksum != self._refill_checksum:
            self._break_off(Reason.BROKEN_PROTOCOL, "the checksum of a refill is wrong")
            return
        self._refill = None  # it ends by itself now, whatever becomes of the link
        self.state = FollowerState.SWAPPING
        self._copy.finish_refill(refill, self._refilled, self._refill_refused)

    def _refilled(self) -> None:
        if self.state is FollowerState.SWAPPING:
            self.state = FollowerState.FOLLOWING
            assert self._refill_begin is not None
            self._committed(self._refill_begin.committed)
            self._ack()

    def _refill_refused(self, error: Exception) -> None:
        self._break_off(Reason.BROKEN_LOG, f"the refill is refused: {error}")

    # ---- time, and the end -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Call it each `heartbeat_seconds`."""
        now = self._clock.monotonic()
        was_paused = now - self._ticked_at > self._timing.dead_seconds / 2
        self._ticked_at = now
        if self.state is FollowerState.ENDED:
            return
        if was_paused:
            self._heard_at = now  # what the master has sent meanwhile is still to be read
        if now - self._heard_at > self._timing.dead_seconds:
            self._break_off(Reason.SILENT, f"nothing was heard of the master for {self._timing.dead_seconds} s")
        else:
            self._link.send(Heartbeat(self._copy.log.committed()))

    def stop(self, reason: Reason, text: str) -> None:
        """Follow no more; nothing is acknowledged after this."""
        if self.state is not FollowerState.ENDED:
            self._over()
            self._link.close(reason, text)

    def closed(self) -> None:
        """The link has ended."""
        if self.state is not FollowerState.ENDED:
            self._over()
            self._events.on_link_over("the link to the master has ended")

    def _break_off(self, reason: Reason, text: str) -> None:
        if self.state is not FollowerState.ENDED:
            self._over()
            self._link.close(reason, text)
            self._events.on_link_over(text)

    def _over(self) -> None:
        self.state = FollowerState.ENDED
        self._copy.on_durable = None
        refill, self._refill = self._refill, None
        if refill is not None:
            self._copy.abandon_refill(refill)
