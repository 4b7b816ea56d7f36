"""Classifies the outcome of each copy: reduced rows become rows of the table `messages`.

The rules for unusual events:
- An end counts unless the copy was restored after it: then a crash has undone the end.
- A copy that a run left open is gone with it if the next run has started without restoring it: after a crash always,
  after a clean stop if it was not persistent. `lost` is persistent and must not be; `lost_in_crash` may. Persistent
  copies are `lost_in_crash` only at the very end of a run: an event is recorded before its message is on disk, and the
  disk may not have got it. The broker says how far it has (`durable`), before it promises anything to anybody.
- A copy that a start found in the store, but that has no `stored` event or had ended by its events, is `found`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackwire.spark.audit.reduce import ADDED, CODE_BITS, ENDS, NONE, Numbers, Rows, Spot, rows_of_bucket
from ackwire.spark.audit.runs import NUMBER_BITS, Ends

PENDING: Final = "pending"
LOST_IN_CRASH: Final = "lost_in_crash"
LOST: Final = "lost"
UNKNOWN: Final = "unknown"
"""It was sent or dispatched, and never stored."""
_KINDS: Final = (*ENDS, PENDING, LOST_IN_CRASH, LOST, UNKNOWN)
_KIND_CODES: Final = {kind: code for code, kind in enumerate(_KINDS)}

_NEVER: Final = np.iinfo(np.int64).max
_TIME: Final = pa.timestamp("us", "UTC")

COLUMNS: Final = (
    "broker string, place string, sequence bigint, subscriber string, message_id string, destination string, "
    "sent_time timestamp, stored_time timestamp, first_dispatch_time timestamp, last_dispatch_time timestamp, "
    "end_time timestamp, end_kind string, ack_type string, cause string, dispatch_count bigint, "
    "redelivery_count bigint, consumer string, connection string, client_id string, size int, priority int, "
    "persistent boolean, transaction string, dispatch_latency_ms double, ack_latency_ms double, "
    # What the job itself needs to go on from here; orders count over all runs of a broker.
    "carried boolean, dispatched_before boolean, found boolean, undone boolean, known boolean, doubled boolean, "
    "restored_time timestamp, stored_order bigint, first_order bigint, last_order bigint, last_dispatch_order bigint, "
    "back_order bigint, restored_order bigint, first_end_order bigint, first_end_time timestamp, end_order bigint, "
    "end_count bigint, ack_count bigint, store_count bigint, sent_count bigint"
)
"""The columns of the table `messages`, without its partitions, as Spark says them."""
_NAMES: Final = tuple(it.split()[0] for it in COLUMNS.split(", "))

_REPEATED: Final = [
    "broker", "place", "subscriber", "destination", "end_kind", "ack_type", "cause", "dispatch_count",
    "redelivery_count", "consumer", "connection", "client_id", "size", "priority", "transaction", "back_order",
    "restored_time", "restored_order", "end_count", "ack_count", "store_count", "sent_count",
]  # fmt: skip
"""Columns in which values repeat; to look for repetitions in the others costs time, and finds none."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A worker's tools: what it must know to judge, and where the table goes."""

    work: Path
    spots: list[Spot]
    ends: list[Ends]

    def judge(self, files: Sequence[str]) -> list[tuple[str, str]]:
        """Write the lives of a bucket; says which files are for which state."""
        if not (rows := rows_of_bucket(files)).spot.size:
            return []
        table = self._judged(rows)
        is_pending = pc.equal(table["end_kind"], PENDING)
        parts = {"pending": table.filter(is_pending), "ended": table.filter(pc.invert(is_pending))}
        return [(state, self._write(part)) for state, part in parts.items() if len(part)]

    def _write(self, table: pa.Table) -> str:
        path = self.work / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(table, path, use_dictionary=_REPEATED, store_schema=False)
        return str(path)

    def _judged(self, rows: Rows) -> pa.Table:
        sums, texts = rows.sums, rows.texts
        names = [pa.array(it).dictionary_encode().take(rows.spot) for it in zip(*self.spots, strict=True)]
        is_topic = np.array([bool(it[2]) for it in self.spots])[rows.spot]
        persistent = _plain(pc.fill_null(pc.coalesce(texts["persistent"], texts["e_persistent"]), True))
        gone = self._gone(rows)
        # What a start found was on the disk; a topic's copies for subscribers that are not durable never are.
        is_kept = persistent & ~is_topic
        gone_order = np.where(is_kept, gone["persistent_order"], gone["other_order"])
        gone_us = np.where(is_kept, gone["persistent_us"], gone["other_us"])
        stored, restored = sums["stored_order"], sums["restored_order"]
        end_order = sums["end_packed"] >> CODE_BITS
        is_ended = (end_order >= 0) & (end_order > restored)
        is_known = (stored >= 0) | (restored >= 0) | is_topic
        was_promised = (stored < 0) | (gone["durable"] < 0) | (stored <= gone["durable"])
        was_undone = (restored >= 0) & (sums["first_end_order"] < restored)
        kind = np.select(
            [is_ended, ~is_known, gone_order < 0, is_kept & was_promised],
            [(sums["end_packed"] & 15) - min(ENDS.values()), *(_KIND_CODES[it] for it in (UNKNOWN, PENDING, LOST))],
            _KIND_CODES[LOST_IN_CRASH],
        )
        is_acked = kind == _KIND_CODES["acked"]
        end_us = np.where(is_ended, _us(texts["end_time"]), gone_us)
        columns = {
            **dict(zip(("broker", "place", "subscriber"), names, strict=True)),
            "sequence": rows.sequence,
            "end_kind": pa.DictionaryArray.from_arrays(kind.astype(np.int32), list(_KINDS)),
            "end_order": _nullable(np.where(is_ended, end_order, gone_order)),
            "end_time": _time(end_us),
            "found": (restored >= 0) & ((stored < 0) | was_undone),
            "undone": was_undone,
            "persistent": persistent,
            "known": is_known,
            **{it: sums[it] > 0 for it in ("carried", "dispatched_before", "doubled")},
            "message_id": _first_of(texts, "message_id", "e_message_id"),
            "destination": _first_of(texts, "destination", "e_destination"),
            "size": _first_of(texts, "size", "e_size"),
            "transaction": _first_of(texts, "e_transaction", "transaction"),
            "dispatch_latency_ms": _ms(_us(texts["stored_time"]), sums["first_dispatch_us"]),
            "ack_latency_ms": _ms(np.where(is_acked, sums["last_dispatch_us"], -1), end_us),
            **{it: texts[it] for it in ("sent_time", "stored_time", "priority")},
        }
        # Not of an end that a crash has undone.
        for name in ("consumer", "connection", "client_id", "ack_type", "cause"):
            columns[name] = texts[name] if is_ended.all() else pc.if_else(is_ended, _texts(texts[name]), None)
        for name in (it for it in _NAMES if it not in columns):
            sum_name = name.replace("_time", "_us")
            values = sums[sum_name]
            array = pa.array(values, mask=None if name in ADDED else values == NONE[sum_name])
            columns[name] = array.cast(_TIME) if name.endswith("_time") else array
        return pa.table({name: columns[name] for name in _NAMES})

    def _gone(self, rows: Rows) -> dict[str, Numbers]:
        """When leftovers of the run that has told of a copy last are gone, as order and time; -1 if they are not."""
        brokers = {broker: number for number, broker in enumerate(sorted({it.broker for it in self.ends}))}
        broker = np.array([brokers[it[0]] for it in self.spots])[rows.spot]
        key = (broker << 20) + (rows.sums["last_order"] >> NUMBER_BITS)
        ends = sorted(self.ends, key=lambda it: (brokers[it.broker], it.index))
        known = np.array([(brokers[it.broker] << 20) + it.index for it in ends])
        where = np.searchsorted(known, key)

        def values(found: list[int | None], shift: int = 0) -> Numbers:
            return np.array([-1 if it is None else it << shift for it in found], np.int64)[where]

        return {
            "persistent_order": values([it.persistent_gone_at for it in ends], NUMBER_BITS),
            "persistent_us": values([it.persistent_gone_us for it in ends]),
            "other_order": values([it.other_gone_at for it in ends], NUMBER_BITS),
            "other_us": values([it.other_gone_us for it in ends]),
            "durable": values([it.durable_order for it in ends]),
        }


def _first_of(texts: dict[str, Any], name: str, other: str) -> Any:
    """The first, or the other where it is null."""
    if not texts[name].null_count:
        return texts[name]
    if texts[name].null_count == len(texts[name]):
        return texts[other]
    return pc.coalesce(_texts(texts[name]), _texts(texts[other]))


def _texts(column: Any) -> Any:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _plain(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()


def _us(column: Any) -> Numbers:
    return _plain(column.cast(pa.int64()).fill_null(-1))  # type: ignore[no-any-return]


def _nullable(values: Numbers) -> pa.Array:
    return pa.array(values, mask=values < 0)


def _time(us: Numbers) -> pa.Array:
    return _nullable(us).cast(_TIME)


def _ms(earlier: Numbers, later: Numbers) -> pa.Array:
    """Milliseconds between the two, null if one of them never was."""
    return pa.array((later - earlier) / 1000.0, mask=(earlier < 0) | (later < 0) | (later == _NEVER))
