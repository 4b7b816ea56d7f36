"""One row per message copy: its whole life, from clean events and from the copies that were open the day before.

A copy is (broker, place, sequence); on a topic without durable subscription also the consumer, for each has its own.
The events are reduced in one hash aggregation whose values are all numbers and times, which is what Spark does without
sorting; the texts come from the two events that have them, the one that stored the copy and the one that ended it.
Broker, place and subscriber are one number meanwhile (`Spots`): hashing and shuffling texts is most of the work else.

What the life of a copy is, if events are odd:
- An end counts unless the copy was restored after it: then a crash has undone the end.
- A copy that a run left open is gone with it if the next run has started without restoring it: after a crash always,
  after a clean stop if it was not persistent. `lost` is persistent and must not be; `lost_in_crash` may. Persistent
  copies are `lost_in_crash` only at the very end of a run: an event is told before its message is on the disk, and the
  disk may not have got it. The broker says how far it has (`durable`), before it promises anything to anybody.
- A copy that a start found in the store, but that was never stored in our books or had ended in them, is `found`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ackwire.spark.audit.local import local_rows
from ackwire.spark.audit.runs import NUMBER_BITS, Runs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY: Final = ("broker", "place", "sequence", "subscriber")
_SPOT: Final = ("broker", "place", "subscriber")
_SHORT: Final = ("spot", "sequence")
"""The key, while the lives are computed."""
_BROADCAST_MAX: Final = 200_000
"""Spots that every worker can hold."""
_SALTS_MAX: Final = 100

ENDS: Final = {"acked": 5, "dead_lettered": 6, "expired": 7, "purged": 8, "discarded": 9}
"""Events that end a copy, and the code of each in `end_packed`."""
_STORED, _DISPATCHED, _REDELIVERED, _RESTORED, _RETURNED, _SENT = 1, 2, 3, 4, 10, 11
_CODES: Final = {
    "stored": _STORED, "dispatched": _DISPATCHED, "sent": _SENT, **ENDS, "redelivered": _REDELIVERED,
    "restored": _RESTORED, "returned": _RETURNED,
}  # fmt: skip
"""The most frequent come first: they are asked for in this order."""
OF_COPIES: Final = tuple(_CODES)
"""Events that tell of one copy each."""
_END_MIN, _END_MAX = min(ENDS.values()), max(ENDS.values())

PENDING: Final = "pending"
LOST_IN_CRASH: Final = "lost_in_crash"
LOST: Final = "lost"
UNKNOWN: Final = "unknown"
"""It was sent or dispatched, and never stored."""

_SUMS: Final = (
    "stored_order", "first_order", "last_order", "first_dispatch_time", "last_dispatch_time", "last_dispatch_order",
    "dispatch_count", "back_order", "redelivery_count", "restored_order", "restored_time", "end_packed",
    "first_end_order", "first_end_time", "end_count", "ack_count", "store_count", "sent_count", "carried",
    "dispatched_before",
)  # fmt: skip
_STORED_TEXTS: Final = (
    "message_id", "destination", "sent_time", "stored_time", "size", "priority", "persistent", "transaction",
)  # fmt: skip
_END_TEXTS: Final = ("end_time", "consumer", "connection", "client_id", "ack_type", "cause")


def copy_events(events: "DataFrame") -> "DataFrame":
    """The events that tell of one copy each, with `subscriber` for a topic's consumer.

    What was sent to a queue is stored there under the sequence it was sent with. Other copies (dead letters, those of
    virtual topics and of several queues) have sequences of their own, and nobody has sent them.
    """
    is_sent = F.col("event") == "sent"
    events = events.where(F.col("event").isin(*OF_COPIES) & F.col("sequence").isNotNull())
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


@dataclass(frozen=True, slots=True)
class Spots:
    """A number for each broker, place and subscriber: a hash, with a salt that keeps all of them apart."""

    rows: "DataFrame"
    salt: int
    count: int

    @classmethod
    def of(cls, known: "DataFrame") -> "Spots":
        """*known* has each broker, place and subscriber that occurs, once."""
        for salt in range(_SALTS_MAX):
            found = known.agg(F.count("*"), F.countDistinct(_spot(salt))).collect()[0]
            if found[0] == found[1]:
                return cls(known.withColumn("spot", _spot(salt)), salt, found[0])
        raise AssertionError(f"{_SALTS_MAX} hashes, and none tells all places apart")

    def on(self, rows: "DataFrame") -> "DataFrame":
        """*rows* with their spot."""
        return rows.withColumn("spot", _spot(self.salt))

    def names(self) -> "DataFrame":
        """What each spot stands for."""
        return F.broadcast(self.rows) if self.count <= _BROADCAST_MAX else self.rows


def _spot(salt: int) -> "Column":
    return F.xxhash64(F.lit(salt), *_SPOT)


def lifecycles(events: "DataFrame", opened: "DataFrame | None", runs: Runs, spots: Spots) -> "DataFrame":
    """The lives of all copies that *events* or the *opened* of the day before tell of."""
    copies = spots.on(copy_events(events))
    opened = None if opened is None else spots.on(opened)
    sums = _reduced(copies, opened)
    stored = copies.where(F.col("event") == "stored").select(
        *_SHORT,
        F.col("order").alias("s_order"),
        *(F.col("time").alias(it) if it == "stored_time" else F.col(it) for it in _STORED_TEXTS),
    )
    if opened is not None:
        carried = opened.select(*_SHORT, F.col("stored_order").alias("s_order"), *_STORED_TEXTS)
        stored = stored.unionByName(carried.where(F.col("s_order").isNotNull()))
    ended = copies.where(F.col("event").isin(*ENDS)).select(
        *_SHORT,
        F.col("order").alias("e_order"),
        *(F.col("time").alias(it) if it == "end_time" else F.col(it) for it in _END_TEXTS),
        *(F.col(it).alias(f"e_{it}") for it in ("message_id", "destination", "size", "persistent", "transaction")),
    )
    joined = _with(_with(sums, stored, "s_order", "stored_order"), ended, "e_order", "end_order")
    named = joined.join(spots.names(), "spot")
    return _judged(named, _gone(runs, events.sparkSession))


def _reduced(copies: "DataFrame", opened: "DataFrame | None") -> "DataFrame":
    """One row of numbers and times per copy."""
    code: Column = F.lit(None)
    for name, value in reversed(_CODES.items()):
        code = F.when(F.col("event") == name, F.lit(value)).otherwise(code)
    rows = copies.withColumn("code", code).select(*_SHORT, *(value.alias(name) for name, value in _one_event().items()))
    if opened is not None:
        rows = rows.unionByName(_carried(opened))
    sums = rows.groupBy(*_SHORT).agg(*(_total(it).alias(it) for it in _SUMS))
    return sums.withColumn("end_order", F.shiftright("end_packed", 4))


def _one_event() -> "dict[str, Column]":
    """What one event adds to the sums of its copy."""
    code, order, time = F.col("code"), F.col("order"), F.col("time")
    is_end = code.between(_END_MIN, _END_MAX)

    def of(value: "Column", *codes: int) -> "Column":
        return F.when(code.isin(*codes), value)

    def one(kind: "Column") -> "Column":
        return kind.cast("int")

    return {
        "stored_order": of(order, _STORED),
        "first_order": order,
        "last_order": order,
        "first_dispatch_time": of(time, _DISPATCHED),
        "last_dispatch_time": of(time, _DISPATCHED),
        "last_dispatch_order": of(order, _DISPATCHED),
        "dispatch_count": one(code == _DISPATCHED),
        "back_order": of(order, _REDELIVERED, _RETURNED),
        "redelivery_count": one(code == _REDELIVERED),
        "restored_order": of(order, _RESTORED),
        "restored_time": of(time, _RESTORED),
        "end_packed": F.when(is_end, order * 16 + code),
        "first_end_order": F.when(is_end, order),
        "first_end_time": F.when(is_end, time),
        "end_count": one(is_end),
        "ack_count": one(code == ENDS["acked"]),
        "store_count": one(code == _STORED),
        "sent_count": one(code == _SENT),
        "carried": F.lit(0),
        "dispatched_before": F.lit(0),
    }


def _carried(opened: "DataFrame") -> "DataFrame":
    """Copies that were open the day before, as what they add to the sums of today."""
    fresh = {
        "carried": F.lit(1),
        "dispatched_before": (F.col("dispatch_count") > 0).cast("int"),
        "dispatch_count": F.col("dispatch_count").cast("int"),
        "redelivery_count": F.col("redelivery_count").cast("int"),
        "end_packed": F.lit(None).cast("bigint"),
        "first_end_order": F.lit(None).cast("bigint"),
        "first_end_time": F.lit(None).cast("timestamp"),
        "end_count": F.lit(0),
        "ack_count": F.lit(0),
        "store_count": F.lit(0),
        "sent_count": F.lit(0),
    }
    return opened.withColumns(fresh).select(*_SHORT, *_SUMS)


def _total(name: str) -> "Column":
    """How the values of one column come together."""
    if name in ("first_order", "first_dispatch_time", "first_end_order", "first_end_time"):
        return F.min(name)
    return F.sum(name) if name.endswith("_count") else F.max(name)


def _with(sums: "DataFrame", texts: "DataFrame", order: str, wanted: str) -> "DataFrame":
    """*sums* with the texts of the event that has the wanted order, which is the last of its kind."""
    # `>=` rather than `==`, because the order then is no key of the join, and the sums are partitioned as they must be.
    texts = texts.withColumnsRenamed({it: f"{order}_{it}" for it in _SHORT})
    match = [F.col(it) == F.col(f"{order}_{it}") for it in _SHORT] + [F.col(order) >= F.col(wanted)]
    return sums.join(texts.hint("shuffle_hash"), match, "left").drop(order, *(f"{order}_{it}" for it in _SHORT))


def _judged(joined: "DataFrame", gone: "DataFrame") -> "DataFrame":
    """The rows with what became of each copy; *gone* says what each run took with it."""
    last_run = F.shiftright(F.col("last_order"), NUMBER_BITS).cast("int")
    rows = joined.withColumn("last_run", last_run).join(F.broadcast(gone), ["broker", "last_run"], "left")
    is_ended = F.col("end_order").isNotNull() & (F.col("end_order") > F.coalesce("restored_order", F.lit(-1)))
    is_topic = F.col("subscriber") != ""
    # What a start found was on the disk; a topic's copies for subscribers that are not durable never are.
    persistent = ~is_topic & F.coalesce("persistent", "e_persistent", F.lit(True))
    was_promised = F.col("stored_order") <= F.col("durable_order")
    gone_order = F.when(persistent, F.col("persistent_gone")).otherwise(F.col("other_gone"))
    gone_time = F.when(persistent, F.col("persistent_gone_time")).otherwise(F.col("other_gone_time"))
    is_known = F.col("stored_order").isNotNull() | F.col("restored_order").isNotNull() | is_topic
    kind = F.when(is_ended, _kind(F.col("end_packed").bitwiseAND(15))).when(~is_known, UNKNOWN)
    kind = (
        kind.when(gone_order.isNull(), PENDING)
        .when(persistent & F.coalesce(was_promised, F.lit(True)), LOST)
        .otherwise(LOST_IN_CRASH)
    )
    was_undone = F.col("first_end_order") < F.col("restored_order")
    rows = rows.withColumns(
        {
            "end_kind": kind,
            "end_order": F.when(is_ended, F.col("end_order")).otherwise(gone_order),
            "end_time": F.when(is_ended, F.col("end_time")).otherwise(gone_time),
            "found": F.col("restored_order").isNotNull() & (F.col("stored_order").isNull() | was_undone),
            "undone": F.coalesce(was_undone, F.lit(False)),
            "persistent": F.coalesce("persistent", "e_persistent", F.lit(True)),
            "carried": F.col("carried") > 0,
            "dispatched_before": F.col("dispatched_before") > 0,
            "known": is_known,
            "message_id": F.coalesce("message_id", "e_message_id"),
            "destination": F.coalesce("destination", "e_destination"),
            "size": F.coalesce("size", "e_size"),
            "transaction": F.coalesce("e_transaction", "transaction"),
            # Not of an end that a crash has undone.
            **{it: F.when(is_ended, F.col(it)) for it in ("consumer", "connection", "client_id", "ack_type", "cause")},
        }
    )
    return rows.withColumns(_latencies()).select(*COLUMNS, _state())


def _kind(code: "Column") -> "Column":
    name: Column = F.lit(None)
    for kind, value in ENDS.items():
        name = F.when(code == value, F.lit(kind)).otherwise(name)
    return name


def _latencies() -> "dict[str, Column]":
    def ms(earlier: str, later: str) -> "Column":
        return (F.unix_micros(later) - F.unix_micros(earlier)) / 1000.0

    return {
        "dispatch_latency_ms": ms("stored_time", "first_dispatch_time"),
        "ack_latency_ms": F.when(F.col("end_kind") == "acked", ms("last_dispatch_time", "end_time")),
    }


def _state() -> "Column":
    return F.when(F.col("end_kind") == PENDING, "pending").otherwise("ended").alias("state")


def _gone(runs: Runs, spark: "SparkSession") -> "DataFrame":
    """For each run, the order and time at which its leftovers are gone, if they are."""
    rows = [
        (
            it.broker,
            it.index,
            None if it.persistent_gone_at is None else it.persistent_gone_at << NUMBER_BITS,
            it.persistent_gone_us,
            None if it.other_gone_at is None else it.other_gone_at << NUMBER_BITS,
            it.other_gone_us,
            it.durable_order,
        )
        for it in runs.ends()
    ]
    columns = (
        "broker string, last_run int, persistent_gone bigint, persistent_gone_us bigint, other_gone bigint, "
        "other_gone_us bigint, durable_order bigint"
    )
    times = {it: f"{it}_us" for it in ("persistent_gone", "other_gone")}
    found = local_rows(spark, rows, columns)
    return found.withColumns({f"{it}_time": F.timestamp_micros(us) for it, us in times.items()}).drop(*times.values())


COLUMNS: Final = (
    *KEY, "message_id", "destination", "sent_time", "stored_time", "first_dispatch_time", "last_dispatch_time",
    "end_time", "end_kind", "ack_type", "cause", "dispatch_count", "redelivery_count", "consumer", "connection",
    "client_id", "size", "priority", "persistent", "transaction", "dispatch_latency_ms", "ack_latency_ms",
    # What the job itself needs to go on from here; orders count over all runs of a broker.
    "carried", "dispatched_before", "found", "undone", "known", "restored_time", "stored_order", "first_order",
    "last_order", "last_dispatch_order", "back_order", "restored_order", "first_end_order", "first_end_time",
    "end_order", "end_count", "ack_count", "store_count", "sent_count",
)  # fmt: skip
"""The columns of the table `messages`, without its partitions."""
