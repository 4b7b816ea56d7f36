"""The ids of whatever does not add up, exactly.

Most copies have a plain life, and the sums of `lifecycles` show that. Only the copies whose sums leave room for doubt
(dispatched more than once, ended more than once) are looked at event by event, in order. Kinds that break the sums
have `breaks` set; the others (`never_acked`, `repeated_events`) are worth a look, and the sums add up all the same.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ackwire.spark.audit.classify import LOST, PENDING
from ackwire.spark.audit.lifecycles import KEY, copy_events
from ackwire.spark.audit.local import local_rows
from ackwire.spark.audit.reduce import ENDS
from ackwire.spark.audit.wording import amount

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ackwire.spark.audit.cleaning import Clean

COLUMNS: Final = (
    "kind string, breaks boolean, broker string, place string, sequence bigint, message_id string, consumer string, "
    "run string, number bigint, time timestamp, detail string"
)
_NAMES: Final = tuple(it.split()[0] for it in COLUMNS.split(", "))

_BROADCAST_MAX: Final = 200_000
"""Copies whose keys every worker can hold."""

_BACK: Final = ("redelivered", "returned", "restored")


def all_of(found: Sequence["DataFrame"]) -> "DataFrame":
    """These problems, as one table."""
    return reduce(lambda one, other: one.unionByName(other), found)


def _problem(rows: "DataFrame", kind: "str | Column", detail: "Column", *, breaks: bool = True) -> "DataFrame":
    have = set(rows.columns)
    fixed = {
        "kind": F.lit(kind) if isinstance(kind, str) else kind,
        "breaks": F.lit(breaks),
        "detail": detail,
    }
    types = dict(it.split() for it in COLUMNS.split(", "))
    columns = [
        (fixed[it] if it in fixed else F.col(it) if it in have else F.lit(None)).cast(types[it]).alias(it)
        for it in _NAMES
    ]
    return rows.select(*columns)


def in_events(spark: "SparkSession", clean: "Clean") -> "DataFrame":
    """Numbers of a run that are missing or were there more than once."""
    rows = [
        ("missing_events", True, gap.broker, None, None, None, None, gap.run, gap.first, None,
         f"events {gap.first} to {gap.last} of this run are missing: {gap.last - gap.first + 1}")
        for gap in clean.gaps
    ] + [
        ("repeated_events", False, clean.runs.by_name[run].broker, None, None, None, None, run, None, None,
         f"{count} events of this run were there more than once; each counts once")
        for run, count in clean.repeated.items()
    ]  # fmt: skip
    return local_rows(spark, rows, COLUMNS)


def in_lives(lives: "DataFrame", newest_us: int, pending_after_seconds: int) -> "DataFrame":
    """What the sums of a copy show by themselves."""
    kind = F.col("end_kind")
    lost = _problem(
        lives.where(kind == LOST).withColumn("time", F.col("end_time")),
        "lost",
        F.lit("persistent and stored, the broker stopped uncleanly, and the next start did not restore it"),
    )
    twice = _problem(
        lives.where(F.col("store_count") > 1).withColumn("time", F.col("stored_time")),
        "stored_twice",
        F.format_string("stored %s under the same sequence", amount("store_count", "time")),
    )
    waits = F.lit(newest_us) - F.unix_micros(F.coalesce("stored_time", "restored_time"))
    is_late = (kind == PENDING) & (F.col("subscriber") == "") & (waits > pending_after_seconds * 1_000_000)
    never = _problem(
        lives.where(is_late).withColumn("time", F.col("stored_time")),
        "never_acked",
        F.format_string("has waited for %.0f s, dispatched %s", waits / 1_000_000, amount("dispatch_count", "time")),
        breaks=False,
    )
    return all_of([lost, twice, never])


def in_order(events: "DataFrame", lives: "DataFrame", opened: "DataFrame | None") -> "DataFrame | None":
    """Copies that were dispatched again without having come back, or that ended twice: event by event, in order."""
    after_end = (F.col("end_count") > 0) & (F.col("last_dispatch_order") > F.col("end_order"))
    doubtful = lives.where(F.col("doubled") | after_end | (F.col("end_count") > 1)).select(*KEY)
    count = doubtful.count()
    if count == 0:
        return None
    if count <= _BROADCAST_MAX:  # Spark would sort all events to find these few
        doubtful = F.broadcast(doubtful)
    steps = copy_events(events).where(F.col("event").isin("dispatched", *_BACK, *ENDS))
    steps = steps.join(doubtful, list(KEY), "left_semi").select(
        *KEY, "event", "order", "run", "number", "time", "message_id", "consumer"
    )
    if opened is not None:
        steps = steps.unionByName(_steps_before(opened, doubtful), allowMissingColumns=True)
    earlier = Window.partitionBy(*KEY).orderBy("order")
    previous_end = F.when(F.col("event").isin(*ENDS, "restored"), F.col("event"))
    steps = steps.withColumns(
        {
            "previous": F.lag("event").over(earlier),
            "previous_consumer": F.lag("consumer").over(earlier),
            "previous_run": F.shiftright(F.lag("order").over(earlier), 40),
            "previous_end": F.last(previous_end, ignorenulls=True).over(
                earlier.rowsBetween(Window.unboundedPreceding, -1)
            ),
        }
    ).where(F.col("number").isNotNull())
    same_run = F.col("previous_run") == F.shiftright("order", 40)
    doubled = (F.col("event") == "dispatched") & (
        ((F.col("previous") == "dispatched") & same_run) | F.col("previous_end").isin(*ENDS)
    )
    ended_twice = F.col("event").isin(*ENDS) & F.col("previous_end").isin(*ENDS)
    both_acked = (F.col("event") == "acked") & (F.col("previous_end") == "acked")
    after_end = F.format_string("dispatched after it was %s", "previous_end")
    not_back = F.concat(F.lit("dispatched again, and had not come back from "), _name("previous_consumer"))
    delivered = F.when(F.col("previous_end").isin(*ENDS), after_end).otherwise(not_back)
    ended = F.format_string("%s, and had been %s before", "event", "previous_end")
    return all_of(
        [
            _problem(steps.where(doubled), "delivered_twice", delivered),
            _problem(steps.where(ended_twice), F.when(both_acked, "acked_twice").otherwise("ended_twice"), ended),
        ]
    )


def _name(column: str) -> "Column":
    return F.coalesce(column, F.lit("its consumer"))


def _steps_before(opened: "DataFrame", doubtful: "DataFrame") -> "DataFrame":
    """Where copies that were carried over stood, as a last step before today; it has no number."""
    is_back = F.coalesce(F.col("back_order") > F.col("last_dispatch_order"), F.lit(False))
    before = opened.where(F.col("dispatch_count") > 0).join(doubtful, list(KEY), "left_semi")
    return before.select(
        *KEY,
        F.when(is_back, "redelivered").otherwise("dispatched").alias("event"),
        F.greatest("last_dispatch_order", "back_order").alias("order"),
    )


def never_stored(events: "DataFrame", lives: "DataFrame", earlier: "DataFrame | None") -> "DataFrame":
    """Copies that were never stored and yet something happened to them; *earlier* has the lives of days before."""
    unknown = lives.where(~F.col("known")).withColumn("time", F.coalesce("end_time", "last_dispatch_time"))
    sent = copy_events(events).where(F.col("event") == "sent").select(*KEY, F.col("message_id").alias("sent_id"))
    unknown = unknown.join(sent, list(KEY), "left")
    unknown = unknown.withColumn("message_id", F.coalesce("message_id", "sent_id"))
    if earlier is None:
        unknown = unknown.withColumn("ended_before", F.lit(None).cast("string"))
    else:
        ended = earlier.select(*KEY, F.col("end_kind").alias("ended_before")).dropDuplicates(list(KEY))
        unknown = unknown.join(ended, list(KEY), "left")
    was_there = F.col("ended_before").isNotNull()
    only_sent = (F.col("end_count") == 0) & (F.col("dispatch_count") == 0)
    both_acked = (F.col("ended_before") == "acked") & (F.col("end_kind") == "acked")
    kind = (
        F.when(only_sent, "sent_not_stored")
        .when(~was_there, "never_stored")
        .when(both_acked, "acked_twice")
        .when(F.col("end_count") > 0, "ended_twice")
        .otherwise("delivered_twice")
    )
    now = F.when(F.col("end_count") > 0, F.col("end_kind")).otherwise("dispatched")
    before = F.format_string("%s, and had been %s on a day before", now, "ended_before")
    detail = F.when(only_sent, "sent, and not stored").when(was_there, before)
    return _problem(unknown, kind, detail.otherwise(F.format_string("%s, and was never stored", now)))


def in_census(census: "DataFrame") -> "DataFrame":
    """Censuses that do not agree with the events."""
    wrong = census.where(F.col("count") != F.col("expected"))
    detail = F.format_string(
        "the broker counted %s, and by its events there were %d", amount("count", "message"), "expected"
    )
    return _problem(wrong, "census_mismatch", detail)


def lost_by_census(census: "DataFrame", lives: "DataFrame") -> "DataFrame":
    """Which copies are gone if the newest census of a place has too few: the oldest of those that should be there."""
    newest = Window.partitionBy("broker", "place").orderBy(F.col("order").desc())
    short = (
        census.withColumn("rank", F.row_number().over(newest))
        .where((F.col("rank") == 1) & (F.col("count") < F.col("expected")))
        .select("broker", "place", "run", "number", "time", F.col("order").alias("census_order"), "count", "expected")
    )
    oldest = Window.partitionBy("broker", "place").orderBy("first_order", "sequence")
    rows = lives.where(F.col("end_kind") == PENDING).join(short, ["broker", "place"])
    rows = rows.where(F.col("first_order") < F.col("census_order")).withColumn("rank", F.row_number().over(oldest))
    rows = rows.where(F.col("rank") <= F.col("expected") - F.col("count"))
    detail = F.format_string(
        "never ended, and the census has %s where there must be %d: the oldest are taken to be those gone",
        amount("count", "message"), "expected",
    )  # fmt: skip
    return _problem(rows, "lost", detail)
