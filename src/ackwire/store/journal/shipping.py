"""What replication needs of a journal: as the master's, which is read, and as a copy, which is written.

A copy is byte for byte like the master's journal, record by record: the same segments, the same offsets. Records are
known by (epoch, number). `docs/formats/journal.md` says what is in them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

Done: TypeAlias = Callable[[Exception | None], None]
"""Called on the loop when something is over, with what went wrong; perhaps before the call it belongs to returns."""


class LogEnd(NamedTuple):
    """The last good record; (0, 0) of an empty log. Ends of different nodes compare as pairs."""

    epoch: int
    number: int


EMPTY = LogEnd(0, 0)


class Chunk(NamedTuple):
    """Bytes of consecutive whole records within one segment, as they are in its file."""

    segment: int
    offset: int
    """0: the segment begins here, and its header is in front of the records."""
    segment_bytes: int
    """The size of the segment's file."""
    first_number: int
    last: LogEnd
    data: bytes

    @property
    def previous(self) -> int:
        """The record that a copy must end with before it takes this."""
        return self.first_number - 1


class RefusedChunk(Exception):
    """A chunk does not fit the end of a copy, or is damaged; nothing of it was written."""


class RecordGone(Exception):
    """The master does not have the record any more: the follower must be refilled."""


class SnapshotSegment(NamedTuple):
    """A segment of a journal, as a refill copies it."""

    number: int
    size_bytes: int
    """Of the file."""
    used_bytes: int
    """From the start of the file; all behind is zero."""
    first_number: int


class Snapshot(Protocol):
    """A journal as it was at one moment, up to `end`. Its segments stay until `release`, or until they withhold too
    much disk space: then reads fail with `RecordGone`, and the refill begins anew."""

    store_id: bytes
    end: LogEnd
    segments: Sequence[SnapshotSegment]

    def read(
        self, segment: int, offset: int, length: int, done: Callable[[bytes | None, Exception | None], None]
    ) -> None:
        """Read beside the loop: *length* bytes, or fewer up to `used_bytes`."""
        ...

    def release(self) -> None: ...


class LogSource(Protocol):
    """The master's journal, read by record number."""

    on_chunk: Callable[[Chunk], None] | None
    """Called with each chunk when the master has written it, before its sync; as long as it is set, there is one."""

    @property
    def store_id(self) -> bytes: ...

    def end(self) -> LogEnd:
        """The last record that is written, whether synced or not."""
        ...

    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, its first record), ascending. The first pair is the oldest that is known, and may have begun
        earlier."""
        ...

    def first_number(self) -> int:
        """The first record from which on all can be shipped."""
        ...

    def read(self, after: int, bytes_max: int, done: Callable[[Chunk | None, Exception | None], None]) -> None:
        """Read the records behind *after*, beside the loop: one at least, and no more than *bytes_max* if there are
        more. None: there are none. `RecordGone`: not here any more."""
        ...

    def snapshot(self, done: Callable[["Snapshot | None", Exception | None], None]) -> None:
        """Pin all segments, for a refill."""
        ...


class Refill(Protocol):
    """A journal on its way into a copy: into a directory beside the old one, which it replaces when it is complete."""

    def write(self, segment: int, offset: int, data: bytes, done: Done) -> None:
        """The next bytes of a segment, beside the loop. Segments and their pieces come in order."""
        ...

    def finish(self, done: Done) -> None:
        """Sync and check all of it, then put it in the place of the old one; the log then ends where the snapshot did,
        and is durable."""
        ...

    def abandon(self, done: Done) -> None:
        """It will never be complete; the old journal stays, and can be used again when *done*."""
        ...


class ReplicaLog(Protocol):
    """A copy, on a node that is not master. One of truncation, refill and take-over at a time, and no append while it
    is under way."""

    @property
    def store_id(self) -> bytes:
        """Empty for an empty log, which takes that of the first chunk or refill."""
        ...

    @property
    def needs_refill(self) -> str | None:
        """Why nothing can be added to what is here; None if all is well."""
        ...

    def end(self) -> LogEnd:
        """Appended, and not necessarily durable."""
        ...

    def durable(self) -> LogEnd: ...

    def committed(self) -> int:
        """The last record that `commit` has named and that is here; nothing up to it is ever truncated."""
        ...

    def epochs(self) -> list[tuple[int, int]]:
        """As in `LogSource`. The first pair is that of a committed record, or the list is empty."""
        ...

    def append(self, chunk: Chunk) -> None:
        """Write *chunk* behind the end. Raises `RefusedChunk`; an `OSError` is the end of this copy's service."""
        ...

    def sync(self, done: Done) -> None:
        """Bring all that was appended to the medium; calls while one is under way share the next one."""
        ...

    def truncate_after(self, number: int, done: Done) -> None:
        """Drop the records behind *number*, durably. Refused below what is committed."""
        ...

    def commit(self, number: int) -> None:
        """Records up to *number* are committed: one of those ends that `Quorum.confirm` was asked for, or beyond the
        end. They are applied by and by, those of a group together."""
        ...

    def begin_refill(self, store_id: bytes, end: LogEnd, segments: Sequence[SnapshotSegment]) -> Refill:
        """Segments that were removed on the master need no message: the log itself says so."""
        ...


class NodeState(Protocol):
    """What a node must remember besides its journal, in a small file beside it."""

    promised_epoch: int
    group_id: str
    """Empty until the node has joined a group."""
    disk_id: str
    """Made by chance with the file: a disk that was replaced has another."""

    @property
    def may_vote(self) -> bool:
        """False once the file was damaged, or the log lacked what was known to be durable in it, until a refill or
        `grant_vote`: more may be missing than is known, so records up to there are not enough."""
        ...

    def promise(self, epoch: int, done: Done) -> None:
        """Refuse lower epochs from now on; durable before *done*. A lower one than promised before is an error."""
        ...

    def grant_vote(self, done: Done) -> None:
        """The log has all that the group ever committed: `may_vote` from now on; durable before *done*."""
        ...

    def lose_vote(self, done: Done) -> None:
        """The log lacks what this node has confirmed, as the master says: no `may_vote` from now on; durable before
        *done*."""
        ...

    def lose_log(self, why: str, done: Done) -> None:
        """The log is damaged: no `may_vote`, and the copy `needs_refill`, until it was refilled; durable before
        *done*."""
        ...

    def join(self, group_id: str, done: Done) -> None:
        """Belong to that group from now on."""
        ...
