"""The contract between the broker and a store: what is recorded, and when it is durable.

The broker records what happens in the order in which it happens and goes on at once; only those who were promised
durability wait, by `when_durable`. So one sync can serve all who wait for it. A store keeps that order: after a
crash it holds everything up to some point and nothing after it, and that point is not before the last promise.

A store that fails to write or to sync is *failed*: from then on it promises nothing, and every verb that records
raises `StoreFailed` (K7). Only a new start, which reads what is really there, makes it good again.

`store.py` has the protocols: `Recorder`, `Durability`, `Restore`, `Reader`; `values.py` what they exchange;
`durability.py` the state of syncs;
`administration.py` what operators may ask; `spill.py` the room beside memory.
"""

from ackwire.store.contract.administration import Administration, DatabaseState, FileInfo
from ackwire.store.contract.durability import DurabilityState, Sync
from ackwire.store.contract.spill import Spill, SpillDamaged
from ackwire.store.contract.store import Durability, OnLoaded, Reader, Recorder, Restore, Store
from ackwire.store.contract.stored_form import StoredForm
from ackwire.store.contract.values import (
    BatchRecord,
    CursorRecord,
    DurableKey,
    DurableRecord,
    Kept,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StagedRecord,
    StateRecord,
    StoredFrame,
    WaitingMessage,
    WaitingMessages,
)

__all__ = [
    "Administration",
    "BatchRecord",
    "CursorRecord",
    "DatabaseState",
    "Durability",
    "DurabilityState",
    "DurableKey",
    "DurableRecord",
    "FileInfo",
    "Kept",
    "OnLoaded",
    "Place",
    "PreparedTransaction",
    "Reader",
    "Recorder",
    "Restore",
    "ScheduledJob",
    "Spill",
    "SpillDamaged",
    "StagedRecord",
    "StateRecord",
    "Store",
    "StoredForm",
    "StoredFrame",
    "Sync",
    "WaitingMessage",
    "WaitingMessages",
]
