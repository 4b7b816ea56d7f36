"""Advice and slow consumers, from figures made by hand."""

from typing import TYPE_CHECKING, Any

from ackwire.spark.audit.advice import advice
from ackwire.spark.audit.tables import slow_consumers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "broker string, place string, consumer string, client_id string, dispatched bigint, acked bigint, "
    "redelivered bigint, transacted bigint, individual bigint, acked_per_second double, stored_per_second double, "
    "ack_p50_ms double, ack_p95_ms double, wait_p50_ms double, place_consumers bigint"
)
USUAL = {
    "broker": "b", "place": "queue://orders", "client_id": "shop", "dispatched": 100, "acked": 100, "redelivered": 0,
    "transacted": 0, "individual": 0, "acked_per_second": 20.0, "stored_per_second": 20.0, "ack_p50_ms": 60.0,
    "ack_p95_ms": 90.0, "wait_p50_ms": 500.0, "place_consumers": 2,
}  # fmt: skip

CONSUMERS: dict[str, dict[str, Any]] = {
    "usual": {},
    "careful, messages came back": {"individual": 60, "redelivered": 1},
    "in transactions, messages came back": {"transacted": 60, "redelivered": 1},
    "careful, nothing came back": {"individual": 60},
    "slow, not alone": {"ack_p50_ms": 400.0, "ack_p95_ms": 900.0, "acked_per_second": 2.6},
    "very slow, not alone": {"ack_p50_ms": 5000.0, "ack_p95_ms": 9000.0, "acked_per_second": 0.2},
    "slow with many threads, not alone": {"ack_p50_ms": 400.0, "ack_p95_ms": 900.0, "acked_per_second": 300.0},
    "slow, alone": {"ack_p50_ms": 400.0, "ack_p95_ms": 900.0, "place_consumers": 1},
    "fast, the producer is slow": {"ack_p50_ms": 1.0, "ack_p95_ms": 5.0, "wait_p50_ms": 0.5},
    "fast, and messages pile up": {"ack_p50_ms": 1.0, "ack_p95_ms": 5.0},
    "few acks": {"acked": 19, "individual": 19, "redelivered": 3, "ack_p50_ms": 2000.0},
    "silent": {"acked": 0, "ack_p50_ms": None, "ack_p95_ms": None},
    "gone": {"dispatched": 0, "acked": 0, "ack_p50_ms": None, "ack_p95_ms": None},
}


def figures(spark: "SparkSession") -> "DataFrame":
    names = [it.split()[0] for it in SCHEMA.split(", ")]
    rows = [USUAL | {"consumer": consumer} | its for consumer, its in CONSUMERS.items()]
    return spark.createDataFrame([tuple(it[name] for name in names) for it in rows], SCHEMA)


def test_each_rule_gives_its_prefetch_and_optimize_acknowledge(spark: "SparkSession") -> None:
    rows = {it["consumer"]: it for it in advice(figures(spark)).collect()}
    assert {name: (it["rule"], it["prefetch"], it["optimize_acknowledge"]) for name, it in rows.items()} == {
        "usual": ("keep", None, None),
        "careful, messages came back": ("must not repeat", 1, False),
        "in transactions, messages came back": ("must not repeat", 1, False),
        "careful, nothing came back": ("keep", None, None),
        "slow, not alone": ("slow, and others consume there too", 3, False),
        "very slow, not alone": ("slow, and others consume there too", 1, False),
        "slow with many threads, not alone": ("slow, and others consume there too", 10, False),
        "slow, alone": ("keep", None, None),
        "fast, the producer is slow": ("fast, and the producer is slow", 100, True),
        "fast, and messages pile up": ("keep", None, None),
        "few acks": ("keep", None, None),
        "silent": ("keep", None, None),
        "gone": ("keep", None, None),
    }
    assert rows["slow, not alone"]["why"] == (
        "slow, and others consume there too: 100 acks, 2.6 a second, half within 400.0 ms and 95 % within 900.0 ms of "
        "the dispatch; 0 came back; 2 consumers on this destination, 20.0 messages a second stored, half of them "
        "dispatched within 500.0 ms"
    )
    assert rows["few acks"]["why"] == "19 acks: too few to judge by"


def test_consumers_that_hold_messages_long_or_never_acknowledge_are_slow(spark: "SparkSession") -> None:
    rows = {it["consumer"]: it["why"] for it in slow_consumers(figures(spark)).collect()}
    assert rows == {
        "very slow, not alone": "half of its messages waited 5000 ms or more for their ack",
        "few acks": "half of its messages waited 2000 ms or more for their ack",
        "silent": "it was given 100 messages and acknowledged none",
    }
