"""What must be equal, per place and day, and whether it is.

    carried + stored + found = acked + dead_lettered + expired + purged + discarded + pending + lost_in_crash

Stored and the five ends are counted in events; carried, found, pending and lost_in_crash in copies. So a copy that
ended twice, was lost or never stored makes a difference, and `problems` has its id. What was sent to a queue must be
stored there under its sequence (`stored_as_sent`); dead letters and copies of virtual topics have other sequences and
are told apart by that. And each census must agree with the lives at its very number.
"""

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ackwire.spark.audit.classify import LOST, LOST_IN_CRASH, PENDING
from ackwire.spark.audit.counting import COUNTED
from ackwire.spark.audit.reduce import ENDS
from ackwire.spark.audit.tables import BUCKET_BITS, held

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FRACTIONS: Final = (0.5, 0.95, 0.99)
_ACCURACY: Final = 10_000

LEFT: Final = ("carried", "stored", "found")
RIGHT: Final = (*ENDS, PENDING, LOST_IN_CRASH)
MUST_BE_ZERO: Final = ("difference", "sent_difference", "unknown", "censuses_wrong")


def reconciliation(counts: "DataFrame", lives: "DataFrame", census: "DataFrame") -> "DataFrame":
    """A row per place: the sums, what they differ by, and how many censuses agree; *census* is `compared`."""
    kind = F.col("end_kind")
    events = counts.groupBy("broker", "place").agg(*(F.sum(it).alias(it) for it in COUNTED))
    copies = lives.groupBy("broker", "place").agg(
        F.count("*").alias("copies"),
        _count(F.col("carried")).alias("carried"),
        _count(F.col("found") & (~F.col("carried") | F.col("undone"))).alias("found"),
        _count((F.col("subscriber") != "") & F.col("stored_order").isNull()).alias("implied"),
        _count((F.col("sent_count") > 0) & (F.col("store_count") > 0)).alias("stored_as_sent"),
        _count(~F.col("known")).alias("unknown"),
        *(_count(kind == it).alias(it) for it in (PENDING, LOST_IN_CRASH, LOST)),
        _percentiles("dispatch_latency_ms", ~F.col("dispatched_before")).alias("store_to_dispatch_ms"),
        _percentiles("ack_latency_ms", kind == "acked").alias("dispatch_to_ack_ms"),
    )
    checked = census.groupBy("broker", "place").agg(
        F.count("*").alias("censuses"), _count(F.col("count") != F.col("expected")).alias("censuses_wrong")
    )
    rows = events.join(copies, ["broker", "place"], "full").join(checked, ["broker", "place"], "full").fillna(0)
    # A copy for a topic's subscriber may begin with its dispatch: nothing is stored for it.
    rows = rows.withColumn("stored", F.col("stored") + F.col("implied")).drop("implied")
    difference = sum((F.col(it) for it in LEFT), F.lit(0)) - sum((F.col(it) for it in RIGHT), F.lit(0))
    is_queue = F.col("place").rlike("^(temp-)?queue://[^,]*$")
    return rows.withColumns(
        {
            "difference": difference,
            "sent_difference": F.when(is_queue, F.col("sent") - F.col("stored_as_sent")),
        }
    ).withColumn("adds_up", reduce(and_, (_is_zero(it) for it in MUST_BE_ZERO)))


def _is_zero(column: str) -> "Column":
    return F.coalesce(column, F.lit(0)) == 0


def _count(condition: "Column") -> "Column":
    return F.count(F.when(condition, 1))


def _percentiles(value: str, condition: "Column") -> "Column":
    """p50, p95 and p99 over the day; null if nothing was measured."""
    return F.percentile_approx(F.when(condition, F.col(value)), F.array(*(F.lit(it) for it in _FRACTIONS)), _ACCURACY)


def compared(events: "DataFrame", lives: "DataFrame", changes: "DataFrame") -> "DataFrame":
    """Every census of a queue or durable subscription, with how many copies the lives say there were at its number.

    *changes* is `moved`.
    """
    bucket = F.shiftright("order", BUCKET_BITS).alias("bucket")
    census = (
        events.where((F.col("event") == "census") & ~F.col("place").startswith("topic://"))
        .select("broker", "place", "run", "number", "time", "count", "order", bucket)
    )  # fmt: skip
    moves = held(lives).select("broker", "place", "order", "change", bucket)
    key = ["broker", "place", "bucket"]
    sums = changes.select(*key, "change").unionByName(census.select(*key, F.lit(0).alias("change")))
    before = Window.partitionBy("broker", "place").orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    sums = sums.groupBy(*key).agg(F.sum("change").alias("change"))
    sums = sums.withColumn("before", F.coalesce(F.sum("change").over(before), F.lit(0))).drop("change")
    beside = moves.select(*key, F.col("order").alias("move_order"), "change")
    inside = beside.join(F.broadcast(census), key).where(F.col("move_order") < F.col("order"))
    inside = inside.groupBy("broker", "place", "order").agg(F.sum("change").alias("inside"))
    return (
        census.join(sums, key)
        .join(inside, ["broker", "place", "order"], "left")
        .withColumn("expected", F.col("before") + F.coalesce("inside", F.lit(0)))
        .drop("before", "inside", "bucket")
    )
