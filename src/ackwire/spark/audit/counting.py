"""The first look at files of events: which numbers of which run each holds, and how often what happened where.

Counts are per broker, place (or destination sent to), consumer and slot of time (`slots`). Like `reduce` this is numpy
over columns, in Spark's workers: counts are left in files, because there may be many; the spans come back with them.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackwire.spark.audit.reduce import ENDS, Numbers, as_codes, as_texts, batches_of, mapped
from ackwire.spark.audit.runs import Span

COUNTED: Final = ("sent", "stored", "dispatched", "redelivered", *ENDS)
"""Events that are counted; each has a column of its name."""
SUMMED: Final = (*COUNTED, "bytes_in", "bytes_out")
COLUMNS: Final = "broker string, place string, consumer string, slot bigint, " + ", ".join(
    f"{it} bigint" for it in SUMMED
)
"""A row of counts, as Spark says it. Some count nothing: they name a place at which other things happened to copies."""

_OTHER: Final = len(COUNTED)
_RESTORING: Final = ("started", "restored", "durable")
_SPANNED: Final = ("event", "run", "broker", "time", "number", "count")
_READ: Final = (*_SPANNED, "place", "destination", "consumer", "size")


@dataclass(frozen=True, slots=True)
class Counting:
    """A worker's tools: where the counts go, and how long a slot is."""

    work: Path
    slot_seconds: int

    def count(self, files: Sequence[str]) -> list[tuple[str, list[Span]]]:
        """Count what is in these files; says where the counts are, and what spans the files have."""
        return [it for file in files for it in self._count(file)]

    def _count(self, file: str) -> list[tuple[str, list[Span]]]:
        spans: dict[str, Span] = {}
        paths = []
        for table in batches_of(file, _READ):
            _add(spans, file, table)
            path = self.work / f"{uuid.uuid4().hex}.parquet"
            pq.write_table(_counts(table, self.slot_seconds), path, store_schema=False)
            paths.append(str(path))
        return [(path, list(spans.values()) if path == paths[-1] else []) for path in paths]


def spans_of(files: Sequence[str]) -> list[Span]:
    """What each of these files holds of each run."""
    found: list[Span] = []
    for file in files:
        spans: dict[str, Span] = {}
        for table in batches_of(file, _SPANNED):
            _add(spans, file, table)
        found += spans.values()
    return found


def _add(spans: dict[str, Span], file: str, table: pa.Table) -> None:
    """Add more rows of a file to what is known of it, by run."""
    for span in _spans(file, table):
        spans[span.run] = _merged(spans[span.run], span) if span.run in spans else span


def _spans(file: str, table: pa.Table) -> list[Span]:
    runs = as_codes(table["run"])
    run_of = runs.indices.to_numpy()
    event = {"stopped": 1, "durable": 2}
    kind = mapped(table["event"], event)
    is_settled = mapped(table["event"], dict.fromkeys(_RESTORING, 1)) == 0
    number, us = table["number"].to_numpy(), table["time"].cast(pa.int64()).to_numpy()
    counted = table["count"].fill_null(0).to_numpy()
    found = []
    for run, name in enumerate(runs.dictionary.to_pylist()):
        its = np.flatnonzero(run_of == run)
        if not its.size:
            continue
        durable = counted[its][kind[its] == event["durable"]]
        found.append(
            Span(
                file, name, table["broker"][int(its[0])].as_py(), int(number[its].min()), int(number[its].max()),
                its.size, int(number[its].sum()), int(us[its].min()), int(us[its].max()),
                stopped=bool((kind[its] == event["stopped"]).any()), settled=bool(is_settled[its].any()),
                durable=int(durable.max()) if durable.size else 0,
            )
        )  # fmt: skip
    return found


def _merged(one: Span, other: Span) -> Span:
    return replace(
        one, first=min(one.first, other.first), last=max(one.last, other.last), count=one.count + other.count,
        total=one.total + other.total, started_us=min(one.started_us, other.started_us),
        ended_us=max(one.ended_us, other.ended_us), stopped=one.stopped or other.stopped,
        settled=one.settled or other.settled, durable=max(one.durable, other.durable),
    )  # fmt: skip


def _counts(table: pa.Table, slot_seconds: int) -> pa.Table:
    place = pc.coalesce(as_texts(table["place"]), as_texts(table["destination"]))
    slot = table["time"].cast(pa.int64()).to_numpy() // (slot_seconds * 1_000_000)
    first, group = _groups(table["broker"], place, table["consumer"], slot)
    kind = mapped(table["event"], {it: n + 1 for n, it in enumerate(COUNTED)}) - 1
    kind = np.where(kind < 0, _OTHER, kind)
    cells = np.bincount(group * (_OTHER + 1) + kind, minlength=len(first) * (_OTHER + 1))
    counts = cells.reshape(len(first), _OTHER + 1)
    size = table["size"].fill_null(0).to_numpy().astype(np.int64)

    def bytes_of(event: str) -> Numbers:
        weights = np.where(kind == COUNTED.index(event), size, 0)
        return np.bincount(group, weights, minlength=len(first)).astype(np.int64)

    at = pa.array(first)
    columns: dict[str, Any] = {
        "broker": table["broker"].take(at), "place": place.take(at), "consumer": table["consumer"].take(at),
        "slot": slot[first], **{it: counts[:, n] for n, it in enumerate(COUNTED)},
        "bytes_in": bytes_of("stored"), "bytes_out": bytes_of("acked"),
    }  # fmt: skip
    return pa.table(columns)


def _groups(broker: Any, place: Any, consumer: Any, slot: Numbers) -> tuple[Numbers, Numbers]:
    """The first row of each group of equal values, and the group of each row."""
    code = slot - slot.min()
    for it in (broker, place, consumer):
        column = as_codes(it)
        code = code * (len(column.dictionary) + 1) + column.indices.fill_null(len(column.dictionary)).to_numpy()
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group
