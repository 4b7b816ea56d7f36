"""Tables per minute, of dead letters and of slow consumers, from one pass over the clean events and from the lives.

Counts are of events, each in the minute in which it happened; latencies are of copies, in the minute in which the
later of the two events happened; the backlog is what a place held at the end of the minute. A minute in which nothing
happened to a place has no row. Percentiles are exact for up to ten thousand messages a minute and place, and beyond
that within a ten-thousandth of the rank. A day with events of few hours has a table of finer slots as well (`slots`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ackwire.spark.audit import counting
from ackwire.spark.audit.counting import COUNTED, SUMMED
from ackwire.spark.audit.lifecycles import subscriber
from ackwire.spark.audit.reduce import Spot
from ackwire.spark.audit.wording import amount

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PERCENTS: Final = (50, 95, 99)
_ACCURACY: Final = 10_000
_MINUTE_SECONDS: Final = 60

BUCKET_BITS: Final = 12
"""A census is compared in two steps: sums of whole buckets of orders, and the few events of its own bucket."""

SLOW_ACK_MS: Final = 1000.0
"""A consumer half of whose messages wait this long for their ack is slow."""


def event_counts(spark: "SparkSession", files: Sequence[str], slot_seconds: int) -> "DataFrame":
    """How many events of each kind, per broker, place, consumer and slot; *files* are of `counting`."""
    counts = spark.read.schema(counting.COLUMNS).parquet(*files)
    sums = counts.groupBy("broker", "place", "consumer", "slot").agg(*(F.sum(it).alias(it) for it in SUMMED))
    return _with_minutes(sums, slot_seconds)


def _with_minutes(rows: "DataFrame", slot_seconds: int) -> "DataFrame":
    return rows.withColumn("minute", F.floor(F.col("slot") * slot_seconds / _MINUTE_SECONDS))


def spots(all_counts: "DataFrame", opened: "DataFrame | None") -> list[Spot]:
    """The places and subscribers that `event_counts` and the copies of the day before know."""
    known = all_counts.select("broker", "place", subscriber().alias("subscriber"))
    if opened is not None:
        known = known.unionByName(opened.select("broker", "place", "subscriber"))
    known = known.where(F.col("place").isNotNull() & F.col("subscriber").isNotNull()).distinct()
    return [(it[0], it[1], it[2]) for it in known.collect()]


def counted(all_counts: "DataFrame") -> "DataFrame":
    """The rows of `event_counts` that count something."""
    return all_counts.where(F.greatest(*COUNTED) > 0)


def _step(time: "Column", seconds: int) -> "Column":
    """The step of so many *seconds* as a number: cheaper to group by than a time."""
    return F.floor(F.unix_seconds(time) / seconds)


def destinations_minute(counts: "DataFrame", lives: "DataFrame", changes: "DataFrame") -> "DataFrame":
    """What happened at each destination in each minute; `destination` is a place, or what was sent to.

    *changes* is `moved`.
    """
    return _destinations(counts, lives, changes, "minute", _MINUTE_SECONDS)


def destinations_fine(counts: "DataFrame", lives: "DataFrame", changes: "DataFrame", slot_seconds: int) -> "DataFrame":
    """The same in slots of *slot_seconds*; the column `slot` is when each began."""
    return _destinations(counts, lives, changes, "slot", slot_seconds)


def _destinations(
    counts: "DataFrame", lives: "DataFrame", changes: "DataFrame", step: str, seconds: int
) -> "DataFrame":
    """A row for each step of so many *seconds*; *step* is the column that numbers them."""
    key = ["broker", "place", step]
    sums = counts.groupBy(*key).agg(*(F.sum(it).alias(it) for it in SUMMED))
    out = _percentiles(
        lives.where(F.col("first_dispatch_time").isNotNull() & ~F.col("dispatched_before")),
        "first_dispatch_time", "dispatch_latency_ms", "store_to_dispatch", key, seconds,
    )  # fmt: skip
    acked = _percentiles(
        lives.where(F.col("end_kind") == "acked"), "end_time", "ack_latency_ms", "dispatch_to_ack", key, seconds
    )
    changes = changes.groupBy(*key).agg(F.sum("change").alias("change"))
    joined = sums.join(out, key, "left").join(acked, key, "left").join(changes, key, "full")
    up_to_now = Window.partitionBy("broker", "place").orderBy(step).rowsBetween(Window.unboundedPreceding, 0)
    backlog = F.sum(F.coalesce("change", F.lit(0))).over(up_to_now)
    rows = joined.withColumn("backlog", backlog).where(F.col(step) >= 0)
    return _with_rates(rows, list(SUMMED), step, seconds).withColumnRenamed("place", "destination")


def held(lives: "DataFrame") -> "DataFrame":
    """When each place got and lost a copy: order, time and change; copies carried over have no time."""
    gained = F.when(F.col("stored_order").isNotNull(), F.col("stored_order")).otherwise(F.col("first_order"))
    time = F.when(F.col("carried"), F.lit(None)).otherwise(
        F.coalesce("stored_time", "restored_time", "first_dispatch_time")
    )
    # A start may count before it tells what it found: what it finds it held from its first moment.
    found_order = F.shiftleft(F.shiftright("restored_order", 40), 40)
    never_stored = F.col("found") & F.col("stored_order").isNull() & ~F.col("carried")
    moves = F.array(
        _move(F.when(never_stored, found_order).otherwise(gained), time, 1, F.lit(True)),
        _move(F.col("end_order"), F.col("end_time"), -1, F.col("end_order").isNotNull()),
        _move(F.col("first_end_order"), F.col("first_end_time"), -1, F.col("undone")),
        _move(found_order, F.col("restored_time"), 1, F.col("undone") & ~never_stored),
    )
    return (
        lives.where(F.col("known"))
        .select("broker", "place", F.explode(moves).alias("move"))
        .where(F.col("move").isNotNull())
        .select("broker", "place", "move.*")
    )


def _move(order: "Column", time: "Column", change: int, condition: "Column") -> "Column":
    move = F.struct(order.alias("order"), time.alias("time"), F.lit(change).alias("change"))
    return F.when(condition, move)


def moved(lives: "DataFrame", slot_seconds: int) -> "DataFrame":
    """By how much each place changed per slot and bucket of orders; what was carried over is in slot and minute -1."""
    slot = F.coalesce(_step(F.col("time"), slot_seconds), F.lit(-1)).alias("slot")
    bucket = F.shiftright("order", BUCKET_BITS).alias("bucket")
    changes = held(lives).groupBy("broker", "place", slot, bucket).agg(F.sum("change").alias("change"))
    return _with_minutes(changes, slot_seconds)


def consumers_minute(counts: "DataFrame", lives: "DataFrame") -> "DataFrame":
    """What each consumer did in each minute."""
    key = ["broker", "place", "consumer", "minute"]
    shown = ("dispatched", "acked", "redelivered", "dead_lettered", "bytes_out")
    sums = counts.where(F.col("consumer").isNotNull()).groupBy(*key).agg(*(F.sum(it).alias(it) for it in shown))
    acked = lives.where((F.col("end_kind") == "acked") & F.col("consumer").isNotNull())
    latency = _percentiles(acked, "end_time", "ack_latency_ms", "dispatch_to_ack", key, _MINUTE_SECONDS)
    rows = sums.where(F.greatest(*shown) > 0).join(latency, key, "left")
    return _with_rates(rows, list(shown), "minute", _MINUTE_SECONDS).withColumnRenamed("place", "destination")


def _percentiles(rows: "DataFrame", time: str, value: str, name: str, key: list[str], seconds: int) -> "DataFrame":
    """p50, p95 and p99 of *value* per key, of which the last is the step of *time*."""
    *where, step = key
    fractions = F.array(*(F.lit(it / 100) for it in _PERCENTS))
    found = rows.groupBy(*where, _step(F.col(time), seconds).alias(step)).agg(
        F.percentile_approx(value, fractions, _ACCURACY).alias("found")
    )
    columns = (F.col("found")[n].alias(f"{name}_p{it}_ms") for n, it in enumerate(_PERCENTS))
    return found.select(*key, *columns)


def _with_rates(rows: "DataFrame", counts: list[str], step: str, seconds: int) -> "DataFrame":
    """Counts without nulls, rates per second, and the step as a time."""
    rows = rows.fillna(0, subset=counts).withColumn(step, F.timestamp_seconds(F.col(step) * seconds))
    rated = [it for it in ("sent", "stored", "dispatched", "acked") if it in counts]
    return rows.withColumns({f"{it}_per_second": F.col(it) / seconds for it in rated}).drop("change")


def dead_letters(lives: "DataFrame") -> "DataFrame":
    """Dead letters by destination and cause, with the newest id of each."""
    return (
        lives.where(F.col("end_kind") == "dead_lettered")
        .groupBy("broker", F.col("place").alias("destination"), F.coalesce("cause", F.lit("")).alias("cause"))
        .agg(
            F.count("*").alias("messages"),
            F.min("end_time").alias("first_time"),
            F.max("end_time").alias("last_time"),
            F.max_by("message_id", "end_order").alias("newest_id"),
        )
    )


def consumer_figures(counts: "DataFrame", lives: "DataFrame", newest_us: int) -> "DataFrame":
    """What is known of each consumer and its destination over the day; slow consumers and advice are read off it."""
    consumers = counts.where(F.col("consumer").isNotNull() & (F.col("dispatched") + F.col("acked") > 0))
    sums = consumers.groupBy("broker", "place", "consumer").agg(
        F.sum("dispatched").alias("dispatched"),
        F.sum("acked").alias("acked"),
        F.sum("redelivered").alias("redelivered"),
        F.countDistinct(F.when(F.col("acked") > 0, F.col("minute"))).alias("busy_minutes"),
    )
    acked = lives.where((F.col("end_kind") == "acked") & F.col("consumer").isNotNull())
    fractions = F.array(F.lit(0.5), F.lit(0.95))
    latency = acked.groupBy("broker", "place", "consumer").agg(
        F.percentile_approx("ack_latency_ms", fractions, _ACCURACY).alias("ack"),
        F.count(F.when(F.col("transaction").isNotNull(), 1)).alias("transacted"),
        F.count(F.when(F.col("ack_type") == "individual", 1)).alias("individual"),
        F.max("client_id").alias("client_id"),
    )
    places = counts.groupBy("broker", "place").agg(
        F.sum("stored").alias("place_stored"),
        F.countDistinct(F.when(F.col("dispatched") > 0, F.col("consumer"))).alias("place_consumers"),
        F.countDistinct(F.when(F.col("stored") > 0, F.col("minute"))).alias("store_minutes"),
    )
    waits = lives.groupBy("broker", "place").agg(
        F.percentile_approx("dispatch_latency_ms", 0.5, _ACCURACY).alias("wait_p50_ms")
    )
    rows = sums.join(latency, ["broker", "place", "consumer"], "left").join(places, ["broker", "place"])
    rows = rows.join(waits, ["broker", "place"], "left").fillna(0, subset=["transacted", "individual"])
    per_second = F.col("acked") / (F.greatest("busy_minutes", F.lit(1)) * _MINUTE_SECONDS)
    return rows.withColumns(
        {
            "ack_p50_ms": F.col("ack")[0],
            "ack_p95_ms": F.col("ack")[1],
            "acked_per_second": per_second,
            "stored_per_second": F.col("place_stored") / (F.greatest("store_minutes", F.lit(1)) * _MINUTE_SECONDS),
            "newest_time": F.timestamp_micros(F.lit(newest_us)),
        }
    ).drop("ack")


def slow_consumers(figures: "DataFrame") -> "DataFrame":
    """Consumers that hold messages long before they acknowledge them, and what says so."""
    is_slow = F.col("ack_p50_ms") >= SLOW_ACK_MS
    is_silent = (F.col("dispatched") > 0) & (F.col("acked") == 0)
    why = F.when(
        is_slow,
        F.format_string("half of its messages waited %.0f ms or more for their ack", F.col("ack_p50_ms")),
    ).otherwise(F.format_string("it was given %s and acknowledged none", amount("dispatched", "message")))
    return figures.where(is_slow | is_silent).select(
        "broker", F.col("place").alias("destination"), "consumer", "client_id", "dispatched", "acked", "redelivered",
        "acked_per_second", "ack_p50_ms", "ack_p95_ms", why.alias("why"),
    )  # fmt: skip
