"""One row per message copy: its whole life, from clean events and from the copies that were open the day before.

A copy is (broker, place, sequence); on a topic without durable subscription also the consumer, for each has its own.
Spark's workers reduce events to rows of copies (`reduce`) and classify the outcome of each (`classify`), with files
between the two steps; broker, place and subscriber are one number meanwhile, a spot. Only files that a worker has
named at its end count: leftovers of a task that was tried twice are ignored.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ackwire.spark.audit.classify import Judge
from ackwire.spark.audit.local import in_workers, shares
from ackwire.spark.audit.reduce import CODES, Folder, Spot
from ackwire.spark.audit.runs import Runs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY: Final = ("broker", "place", "sequence", "subscriber")
_EVENTS_PER_TASK: Final = 2_000_000
"""A worker holds the rows of so many events in memory."""


def copy_events(events: "DataFrame") -> "DataFrame":
    """The events that tell of one copy each, with `subscriber` for a topic's consumer.

    What was sent to a queue is stored there under the sequence it was sent with. Other copies (dead letters, those of
    virtual topics and of several queues) have sequences of their own, and no send event.
    """
    is_sent = F.col("event") == "sent"
    events = events.where(F.col("event").isin(*CODES) & F.col("sequence").isNotNull())
    return (
        events.withColumn("place", F.coalesce("place", F.when(is_sent, F.col("destination"))))
        .where(F.col("place").isNotNull())
        .where(~_is_topic() | F.col("consumer").isNotNull())
        .withColumn("subscriber", subscriber())
    )


def subscriber() -> "Column":
    """Whose copy it is, at a place where each consumer has its own."""
    return F.when(_is_topic(), F.col("consumer")).otherwise(F.lit(""))


def _is_topic() -> "Column":
    return F.col("place").startswith("topic://")


def write_lives(
    spark: "SparkSession", folder: Path, work: Path, *, files: Sequence[str], opened: Sequence[str], events: int,
    runs: Runs, spots: list[Spot],
) -> None:  # fmt: skip
    """Write the lives of all copies that *files* of clean events or the *opened* of the day before tell of.

    *spots* are all that occur in them, *events* is how many events there are.
    """
    at_once = spark.sparkContext.defaultParallelism
    tasks = at_once * -(-events // (at_once * _EVENTS_PER_TASK))
    first_orders = {it.name: it.first_order for it in runs.by_name.values()}
    folder_of = Folder(work, tasks, {it: number for number, it in enumerate(spots)}, first_orders)
    # Files that follow each other tell of the same copies: a worker gets neighbours.
    ordered = sorted(files, key=lambda it: (str(Path(it).parent), len(it), it))
    found = in_workers(spark, folder_of.fold_events, shares(ordered, tasks))
    found += in_workers(spark, folder_of.fold_opened, shares(opened, tasks))
    buckets: dict[int, list[str]] = {}
    for bucket, path in found:
        buckets.setdefault(bucket, []).append(path)
    judge = Judge(work, spots, runs.ends())
    folder.mkdir()
    for number, (state, path) in enumerate(in_workers(spark, judge.judge, list(buckets.values()))):
        target = folder / f"state={state}"
        target.mkdir(exist_ok=True)
        shutil.move(path, target / f"part-{number:05}.parquet")
