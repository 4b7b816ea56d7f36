"""Events as the broker wrote them become clean events: each once, and with an `order` over all runs of its broker.

A file may be written twice when the broker is killed while it turns its spool into Parquet; the copies need not have
the same borders. It is known per file which numbers of which run it holds (`counting`). Where no two files overlap and
each is dense, there is nothing to remove, and nothing is shuffled; only the numbers in doubt are made distinct.
Files may come late: order is by run and number, never by arrival.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ackwire.spark.audit.local import local_rows
from ackwire.spark.audit.runs import Interval, Run, Runs, Span, holes, merged, overlaps, size, without

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT_COLUMNS: Final = (
    "time timestamp, event string, run string, number bigint, broker string, place string, destination string, "
    "sequence bigint, message_id string, consumer string, connection string, client_id string, sent_time timestamp, "
    "size int, priority int, persistent boolean, redelivery_count int, transaction string, "
    "ack_type string, cause string, count bigint"
)
"""The broker's audit schema, as Spark says it; a column that a file lacks is null."""

_INTERVALS_MAX: Final = 100
"""More doubtful stretches of a run than this are taken as one: a condition in Spark must not grow without bound."""
_ISLANDS_MAX: Final = 100_000
"""Stretches of numbers that a file with holes may have; more is no audit any more."""

_CASES_MAX: Final = 16
"""Runs of one day that a case expression tells apart; more, and a join does."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers of a run that no file has."""

    run: str
    broker: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Clean:
    """Clean events, and what was found on the way."""

    events: "DataFrame"
    runs: Runs
    gaps: tuple[Gap, ...]
    repeated: dict[str, int]
    """How many events of each run were there more than once."""
    new: dict[str, list[Interval]]
    """The numbers of each run that these events are."""
    newest_us: int
    is_raw: bool
    """Nothing had to be removed: the clean events are the raw ones."""

    @property
    def count(self) -> int:
        return sum(size(its) for its in self.new.values())


def read_events(spark: "SparkSession", files: Sequence[str]) -> "DataFrame":
    """The raw events of these files."""
    return spark.read.schema(EVENT_COLUMNS).parquet(*files)


def clean(raw: "DataFrame", spans: Sequence[Span], runs_before: Runs) -> Clean:
    """Clean the events of one day, whose files have these *spans*; *runs_before* knows what earlier days held."""
    new: dict[str, list[Interval]] = {}
    doubtful: dict[str, list[Interval]] = {}
    for run in sorted({it.run for it in spans}):
        known = runs_before.by_name.get(run)
        before = list(known.seen) if known else []
        its = [it for it in spans if it.run == run]
        dense = [(it.first, it.last) for it in its if it.is_dense]
        ragged = [(it.first, it.last) for it in its if not it.is_dense]
        if ragged:
            dense += _islands(raw, run, merged(ragged))
        doubtful[run] = merged([*overlaps([(it.first, it.last) for it in its]), *ragged, *_common(dense, before)])
        new[run] = without(dense, before)
    runs = runs_before.with_spans(spans, new)
    counts = {run: sum(it.count for it in spans if it.run == run) for run in new}
    return Clean(
        events=_with_order(_distinct(raw, doubtful, runs_before), [runs.by_name[it] for it in new]),
        runs=runs,
        gaps=tuple(
            Gap(run, runs.by_name[run].broker, first, last)
            for run, its in new.items()
            for first, last in holes(runs.by_name[run].seen, its)
        ),
        repeated={run: counts[run] - size(its) for run, its in new.items() if counts[run] > size(its)},
        new=new,
        newest_us=max(it.ended_us for it in spans),
        is_raw=not any(doubtful.values()),
    )


def _common(intervals: Sequence[Interval], before: Sequence[Interval]) -> list[Interval]:
    """Numbers of the intervals that were seen on earlier days."""
    return without(intervals, without(intervals, before)) if before else []


def _islands(raw: "DataFrame", run: str, within: Sequence[Interval]) -> list[Interval]:
    """The numbers that are there, of files in which some are missing or repeated."""
    ordered = Window.partitionBy("run").orderBy("number")
    numbers = raw.where((F.col("run") == run) & _in(within)).select("run", "number").distinct()
    islands = (
        numbers.withColumn("island", F.col("number") - F.row_number().over(ordered))
        .groupBy("island")
        .agg(F.min("number").alias("first"), F.max("number").alias("last"))
        .limit(_ISLANDS_MAX)
        .collect()
    )
    return [(it["first"], it["last"]) for it in islands]


def _distinct(raw: "DataFrame", doubtful: dict[str, list[Interval]], before: Runs) -> "DataFrame":
    """Each event once, and none that an earlier day had; only what is doubtful is shuffled."""
    conditions = [(F.col("run") == run) & _in(its) for run, its in doubtful.items() if its]
    if not conditions:
        return raw
    in_doubt = reduce(or_, conditions)
    known = [
        (F.col("run") == run) & _in(before.by_name[run].seen, exact=True)
        for run, its in doubtful.items()
        if its and run in before.by_name and before.by_name[run].seen
    ]
    again = raw.where(in_doubt)
    if known:
        again = again.where(~reduce(or_, known))
    return raw.where(~in_doubt).unionByName(again.dropDuplicates(["run", "number"]))


def _in(intervals: Sequence[Interval], *, exact: bool = False) -> "Column":
    if len(intervals) > _INTERVALS_MAX and not exact:
        intervals = [(intervals[0][0], max(last for _, last in intervals))]
    return reduce(or_, (F.col("number").between(first, last) for first, last in intervals))


def _with_order(events: "DataFrame", runs: Sequence[Run]) -> "DataFrame":
    """Events with `order`; *runs* are all that these events are of."""
    if len(runs) > _CASES_MAX:
        rows = [(it.name, it.first_order) for it in runs]
        firsts = local_rows(events.sparkSession, rows, "run string, first_order bigint")
        joined = events.join(F.broadcast(firsts), "run")
        return joined.withColumn("order", F.col("first_order") + F.col("number")).drop("first_order")
    if len(runs) == 1:
        return events.withColumn("order", F.lit(runs[0].first_order) + F.col("number"))
    first: Column = F.lit(None)
    for run in runs:
        first = F.when(F.col("run") == run.name, F.lit(run.first_order)).otherwise(first)
    return events.withColumn("order", first + F.col("number"))
