"""The journal as replication sees it; `store.journal.shipping` says what each means."""

from ackwire.store.journal.shipping import (
    EMPTY,
    Chunk,
    Done,
    LogEnd,
    LogSource,
    NodeState,
    RecordGone,
    Refill,
    RefusedChunk,
    ReplicaLog,
    Snapshot,
    SnapshotSegment,
)

__all__ = [
    "EMPTY",
    "Chunk",
    "Done",
    "LogEnd",
    "LogSource",
    "NodeState",
    "RecordGone",
    "Refill",
    "RefusedChunk",
    "ReplicaLog",
    "Snapshot",
    "SnapshotSegment",
]
