"""Reduces the events of each copy to one row, in numpy: by far the most work of the audit.

A row has sums (numbers, each with a way to bring two together), and texts of the event that stored the copy last and
of the one that ended it last. An event is such a row, and so is a copy that was open the day before; rows of one copy
reduce to one, in any grouping. So a worker reduces what it reads of its files, and writes the rows to files that have
a part of all copies each (`bucket`); the worker of a bucket reduces once more. Nothing is joined, and texts that repeat
are numbers throughout.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackwire.tabular.audit_schema import AUDIT

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Spot = tuple[str, str, str]
"""Broker, place and subscriber."""

_ROWS_AT_ONCE: Final = 500_000
"""Events that are folded together: they are held in memory."""

ENDS: Final = {"acked": 5, "dead_lettered": 6, "expired": 7, "purged": 8, "discarded": 9}
"""Events that end a copy, and the code of each."""
_STORED, DISPATCHED, REDELIVERED, _RESTORED, _RETURNED, _SENT = 1, 2, 3, 4, 10, 11
CODES: Final = {
    "stored": _STORED, "dispatched": DISPATCHED, "sent": _SENT, **ENDS, "redelivered": REDELIVERED,
    "restored": _RESTORED, "returned": _RETURNED,
}  # fmt: skip
"""The most frequent come first: they are asked for in this order."""
CODE_BITS: Final = 4
_RUN_BITS: Final = 40 + CODE_BITS

_LEAST: Final = (
    "first_order", "first_dispatch_us", "first_end_order", "first_end_us", "first_step",
)  # fmt: skip
_GREATEST: Final = (
    "stored_order", "last_order", "last_dispatch_us", "last_dispatch_order", "back_order", "restored_order",
    "restored_us", "end_packed", "carried", "dispatched_before", "last_step", "doubled",
)  # fmt: skip
ADDED: Final = (
    "dispatch_count", "redelivery_count", "end_count", "ack_count", "store_count", "sent_count",
)  # fmt: skip
SUMS: Final = (*_LEAST, *_GREATEST, *ADDED)
NONE: Final = {
    **dict.fromkeys(_LEAST, np.iinfo(np.int64).max), **dict.fromkeys(_GREATEST, -1), **dict.fromkeys(ADDED, 0),
}  # fmt: skip
"""What stands for null in the numbers; no order and no time is negative."""

_TEXT, _TIME, _CODED = pa.string(), pa.timestamp("us", "UTC"), pa.dictionary(pa.int32(), pa.string())
STORED_TEXTS: Final = {
    "message_id": _TEXT, "destination": _CODED, "sent_time": _TIME, "stored_time": _TIME, "size": pa.int32(),
    "priority": pa.int32(), "persistent": pa.bool_(), "transaction": _CODED,
}  # fmt: skip
END_TEXTS: Final = {
    "end_time": _TIME, "consumer": _CODED, "connection": _CODED, "client_id": _CODED, "ack_type": _CODED,
    "cause": _CODED, "e_message_id": _TEXT, "e_destination": _CODED, "e_size": pa.int32(),
    "e_persistent": pa.bool_(), "e_transaction": _CODED,
}  # fmt: skip
TEXTS: Final = {**STORED_TEXTS, **END_TEXTS}

_REPEATED: Final = (
    "event", "run", "broker", "place", "destination", "consumer", "connection", "client_id", "transaction", "ack_type",
    "cause",
)  # fmt: skip
"""Columns of events that are read as numbers, with the texts beside them."""
_READ: Final = (
    *_REPEATED, "time", "number", "sequence", "message_id", "sent_time", "size", "priority", "persistent",
)  # fmt: skip


@dataclass(slots=True)
class Rows:
    """Rows of copies, of which each has a spot (a number) and a sequence."""

    spot: Numbers
    sequence: Numbers
    sums: dict[str, Numbers]
    texts: dict[str, pa.Array | pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Folder:
    """A worker's tools: what it must know to fold, and where it puts the rows."""

    work: Path
    buckets: int
    spots: dict[Spot, int]
    first_orders: dict[str, int]
    """Of each run."""

    def fold_events(self, files: Sequence[str]) -> list[tuple[int, str]]:
        """Fold the events of these files; says which files the rows of each bucket are in."""
        tables = (self._of_events(it) for it in _gathered(files))
        return [found for rows in tables for found in self._dealt(folded(rows))]

    def fold_opened(self, files: Sequence[str]) -> list[tuple[int, str]]:
        """The same for copies that were open the day before."""
        tables = (pq.ParquetFile(it).read() for it in files)
        return [found for it in tables for found in self._dealt(_of_opened(it, self._spots_of(it, it["subscriber"])))]

    def _dealt(self, rows: Rows) -> Iterator[tuple[int, str]]:
        table = _to_arrow(rows)
        bucket_of = rows.sequence % self.buckets
        for bucket in range(self.buckets):
            path = self.work / f"{bucket}-{uuid.uuid4().hex}.arrow"
            part = table.take(np.flatnonzero(bucket_of == bucket))
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, part.schema) as stream:
                stream.write_table(part)
            yield bucket, str(path)

    def _of_events(self, table: pa.Table) -> Rows:
        table = _copies(table)
        is_topic = pc.starts_with(as_texts(table["place"]), "topic://")
        subscriber = pc.if_else(is_topic, as_texts(table["consumer"]), "")
        number = table["number"].to_numpy()
        order = number + mapped(table["run"], self.first_orders)
        return _of_events(table, self._spots_of(table, subscriber), order)

    def _spots_of(self, table: pa.Table, subscriber: Any) -> Numbers:
        """The spot of each row; few differ, so that only these are looked up."""
        columns = [as_codes(it) for it in (table["broker"], table["place"], subscriber)]
        code = np.zeros(len(table), np.int64)
        for it in columns:
            code = code * len(it.dictionary) + it.indices.to_numpy()
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        texts = (it.take(first).to_pylist() for it in columns)
        return np.array([self.spots[it] for it in zip(*texts, strict=True)], np.int64)[inverse]


def rows_of_bucket(files: Sequence[str]) -> Rows:
    """One row per copy of a bucket."""
    tables = []
    for it in files:
        with pa.memory_map(it) as file, pa.ipc.open_stream(file) as stream:
            tables.append(stream.read_all())
    return folded(_of_rows(_whole(pa.concat_tables(tables))))


def _gathered(files: Sequence[str]) -> Iterator[pa.Table]:
    """The events of these files, as many at once as may be."""
    held: list[pa.Table] = []
    for path in files:
        for table in batches_of(path, _READ):
            held.append(table)
            if sum(it.num_rows for it in held) >= _ROWS_AT_ONCE:
                yield _whole(pa.concat_tables(held))
                held = []
    if held:
        yield _whole(pa.concat_tables(held))


def batches_of(path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """These columns of a file of events, some rows at a time; a column that the file lacks is null."""
    file = pq.ParquetFile(path, read_dictionary=[it for it in columns if it in _REPEATED])
    have = [it for it in columns if it in file.schema_arrow.names]
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=have):
        found = {}
        for name in columns:
            kind = _CODED if name in _REPEATED else AUDIT.field(name).type
            found[name] = batch[name].cast(kind) if name in have else pa.nulls(batch.num_rows, kind)
        yield pa.table(found)


def _whole(table: pa.Table) -> pa.Table:
    """The table in one piece, so that a number means the same text everywhere."""
    return table.unify_dictionaries().combine_chunks()


def _copies(table: pa.Table) -> pa.Table:
    """The events that tell of one copy each, with `code`; see `lifecycles.copy_events`."""
    code = mapped(table["event"], CODES)
    place = as_texts(table["place"])
    place = pc.if_else(pc.and_(pc.is_null(place), code == _SENT), as_texts(table["destination"]), place)
    table = table.set_column(table.schema.get_field_index("place"), "place", place)
    is_other = pc.invert(pc.fill_null(pc.starts_with(place, "topic://"), False))
    keep = pc.and_(pc.is_valid(place), pc.or_(is_other, pc.is_valid(table["consumer"])))
    keep = pc.and_(pc.and_(keep, pc.is_valid(table["sequence"])), pa.array(code > 0))
    return table.append_column("code", pa.array(code)).filter(keep).combine_chunks()


def as_texts(column: Any) -> Any:
    """A column as plain texts."""
    return column.cast(pa.string())


def as_codes(column: Any) -> pa.DictionaryArray:
    """A column without nulls as numbers of its texts."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return coded.unify_dictionaries().combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded


def mapped(column: Any, values: dict[str, int]) -> Numbers:
    """A number for each text, 0 for those that have none."""
    coded = as_codes(column)
    found: Numbers = np.array([*(values.get(it, 0) for it in coded.dictionary.to_pylist()), 0], np.int64)
    where: Numbers = coded.indices.fill_null(len(found) - 1).to_numpy()
    return found[where]


def _of_events(table: pa.Table, spot: Numbers, order: Numbers) -> Rows:
    code, us = table["code"].to_numpy(), _us(table["time"])
    is_stored, is_dispatched, is_end = code == _STORED, code == DISPATCHED, (code >= 5) & (code <= 9)
    packed = (order << CODE_BITS) + code
    is_step = ~(is_stored | (code == _SENT))

    def where(condition: Any, values: Numbers, name: str) -> Numbers:
        return np.where(condition, values, NONE[name])

    zero = np.zeros(len(code), np.int64)
    found = {
        "stored_order": (is_stored, order),
        "first_dispatch_us": (is_dispatched, us),
        "last_dispatch_us": (is_dispatched, us),
        "last_dispatch_order": (is_dispatched, order),
        "back_order": ((code == REDELIVERED) | (code == _RETURNED), order),
        "restored_order": (code == _RESTORED, order),
        "restored_us": (code == _RESTORED, us),
        "end_packed": (is_end, packed),
        "first_end_order": (is_end, order),
        "first_end_us": (is_end, us),
        "first_step": (is_step, packed),
        "last_step": (is_step, packed),
    }
    counted = {
        "dispatch_count": is_dispatched, "redelivery_count": code == REDELIVERED, "end_count": is_end,
        "ack_count": code == ENDS["acked"], "store_count": is_stored, "sent_count": code == _SENT,
    }  # fmt: skip
    sums = {name: where(condition, values, name) for name, (condition, values) in found.items()}
    sums |= {name: condition.astype(np.int64) for name, condition in counted.items()}
    sums |= {"first_order": order, "last_order": order, "carried": zero, "dispatched_before": zero, "doubled": zero}
    columns = {"stored_time": "time", "end_time": "time"}
    texts = {it: table[columns.get(it, it.removeprefix("e_"))] for it in TEXTS}
    return Rows(spot, table["sequence"].to_numpy(), sums, texts)


def _us(column: pa.ChunkedArray) -> Numbers:
    return column.cast(pa.int64()).fill_null(-1).to_numpy()  # type: ignore[no-any-return]


def _of_opened(table: pa.Table, spot: Numbers) -> Rows:
    """Copies as they stood at the end of the day before."""
    zero = np.zeros(len(table), np.int64)
    own = {it: zero + NONE[it] for it in ("end_packed", "first_end_order", "first_end_us")}
    own |= dict.fromkeys(("end_count", "ack_count", "store_count", "sent_count", "doubled"), zero)
    sums = {}
    for name in SUMS:
        column = name.replace("_us", "_time")
        if name in own or column not in table.schema.names:
            continue
        values = table[column].cast(pa.int64()).fill_null(NONE[name])
        sums[name] = values.to_numpy()
    dispatched, back = sums["last_dispatch_order"], sums["back_order"]
    step = np.where(back > dispatched, (back << CODE_BITS) + REDELIVERED, (dispatched << CODE_BITS) + DISPATCHED)
    own["first_step"] = np.where(dispatched >= 0, step, NONE["first_step"])
    own["last_step"] = np.where(dispatched >= 0, step, NONE["last_step"])
    own |= {"carried": zero + 1, "dispatched_before": (sums["dispatch_count"] > 0).astype(np.int64)}
    texts = {it: _repeated(table[it], it) for it in STORED_TEXTS}
    texts |= {it: pa.nulls(len(table), kind) for it, kind in END_TEXTS.items()}
    return Rows(spot, table["sequence"].to_numpy(), sums | own, texts)


def _repeated(column: Any, name: str) -> Any:
    return column.cast(TEXTS[name]) if column.type != TEXTS[name] else column


def _of_rows(table: pa.Table) -> Rows:
    sums = {it: table[it].to_numpy() for it in SUMS}
    return Rows(table["spot"].to_numpy(), table["sequence"].to_numpy(), sums, {it: table[it] for it in TEXTS})


def folded(rows: Rows) -> Rows:
    """One row for those of the same copy."""
    order = np.lexsort((rows.sums["first_order"], rows.sequence, rows.spot))
    spot, sequence = rows.spot[order], rows.sequence[order]
    sums = {name: values[order] for name, values in rows.sums.items()}
    is_first = np.ones(len(order), bool)
    is_first[1:] = (spot[1:] != spot[:-1]) | (sequence[1:] != sequence[:-1])
    starts = np.flatnonzero(is_first)
    copy = np.cumsum(is_first) - 1
    sums["doubled"] = np.maximum(sums["doubled"], _doubled(copy, sums))
    total = {it: np.minimum.reduceat(sums[it], starts) for it in _LEAST}
    total |= {it: np.maximum.reduceat(sums[it], starts) for it in _GREATEST}
    total |= {it: np.add.reduceat(sums[it], starts) for it in ADDED}

    def of_last(name: str) -> pa.Array:
        """Where the row is that has the greatest value."""
        is_last = (sums[name] == total[name][copy]) & (sums[name] >= 0)
        where = np.maximum.reduceat(np.where(is_last, np.arange(len(order)), -1), starts)
        return pa.array(order[where], mask=where < 0)

    stored, ended = of_last("stored_order"), of_last("end_packed")
    texts = {it: values.take(stored if it in STORED_TEXTS else ended) for it, values in rows.texts.items()}
    return Rows(spot[starts], sequence[starts], total, texts)


def _doubled(copy: Numbers, sums: dict[str, Numbers]) -> Numbers:
    """1 where a copy may have been dispatched again without having come back, as far as two rows show it.

    Where the steps of two rows overlap, it may always.
    """
    at = np.flatnonzero(sums["last_step"] >= 0)
    first, last = sums["first_step"][at][1:], sums["last_step"][at][:-1]
    both = (first & 15 == DISPATCHED) & (last & 15 == DISPATCHED) & (first >> _RUN_BITS == last >> _RUN_BITS)
    found = np.zeros(len(copy), np.int64)
    found[at[1:]] = (copy[at][1:] == copy[at][:-1]) & (both | (first < last))
    return found


def _to_arrow(rows: Rows) -> pa.Table:
    numbers = {"spot": rows.spot, "sequence": rows.sequence, **{it: rows.sums[it] for it in SUMS}}
    return pa.table({name: pa.array(values) for name, values in numbers.items()} | {it: rows.texts[it] for it in TEXTS})
