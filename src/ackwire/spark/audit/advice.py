"""Advice per consumer: prefetch and optimizeAcknowledge, from what was measured over the day.

The rules, the first that fits:
1. Must not repeat: it acknowledges most messages one by one or in transactions, and messages have come back to it or
   from it. A repetition costs it, and a large prefetch makes more of them: prefetch 1, optimizeAcknowledge off.
2. Slow, and not alone: half of its messages wait `SLOW_MS` or more for their ack, and others consume there too. What
   sits in its prefetch the others could do: prefetch of about a second's work, 10 at most; optimizeAcknowledge off.
3. Fast, and the producer is slow: acks come within `FAST_MS` (95 %) and messages go out within `FAST_MS` of being
   stored (half), so nothing piles up. optimizeAcknowledge saves acks; prefetch 100 is enough for what comes.
4. Otherwise keep what it has.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ackwire.spark.audit.wording import amount

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLOW_MS: Final = 100.0
FAST_MS: Final = 50.0
SMALL_PREFETCH_MAX: Final = 10
MODEST_PREFETCH: Final = 100
ACKED_MIN: Final = 20
"""Fewer acks say nothing."""


def advice(figures: "DataFrame") -> "DataFrame":
    """A row per consumer: what to set, by which rule, and the figures behind it in a sentence."""
    enough = F.col("acked") >= ACKED_MIN
    careful = 2 * (F.col("transacted") + F.col("individual")) > F.col("acked")
    must_not_repeat = enough & careful & (F.col("redelivered") > 0)
    slow = enough & (F.col("ack_p50_ms") >= SLOW_MS) & (F.col("place_consumers") > 1)
    fast = enough & (F.col("ack_p95_ms") < FAST_MS) & (F.col("wait_p50_ms") < FAST_MS)
    rule = (
        F.when(must_not_repeat, "must not repeat")
        .when(slow, "slow, and others consume there too")
        .when(fast, "fast, and the producer is slow")
        .otherwise("keep")
    )
    small = F.least(F.lit(SMALL_PREFETCH_MAX), F.greatest(F.lit(1), F.round("acked_per_second").cast("int")))
    prefetch = F.when(must_not_repeat, 1).when(slow, small).when(fast, MODEST_PREFETCH)
    optimize = F.when(must_not_repeat | slow, F.lit(False)).when(fast, F.lit(True))
    return figures.select(
        "broker", F.col("place").alias("destination"), "consumer", "client_id", rule.alias("rule"),
        prefetch.cast("int").alias("prefetch"), optimize.alias("optimize_acknowledge"), _why(rule).alias("why"),
        "dispatched", "acked", "redelivered", "transacted", "individual", "acked_per_second", "stored_per_second",
        "ack_p50_ms", "ack_p95_ms", "wait_p50_ms", F.col("place_consumers").alias("consumers"),
    )  # fmt: skip


def _why(rule: "Column") -> "Column":
    zero = F.lit(0.0)
    measured = F.format_string(
        "%s, %.1f a second, half within %.1f ms and 95 %% within %.1f ms of the dispatch; %d came back; "
        "%s on this destination, %.1f messages a second stored, half of them dispatched within %.1f ms",
        amount("acked", "ack"), "acked_per_second", F.coalesce("ack_p50_ms", zero), F.coalesce("ack_p95_ms", zero),
        "redelivered",
        amount("place_consumers", "consumer"), "stored_per_second", F.coalesce("wait_p50_ms", zero),
    )  # fmt: skip
    few = F.format_string("%s: too few to judge by", amount("acked", "ack"))
    return F.when(F.col("acked") < ACKED_MIN, few).otherwise(F.concat(rule, F.lit(": "), measured))
