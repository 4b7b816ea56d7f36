"""Every table of a day against what was done, computed in plain Python."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwire.spark.audit.job import JobResult, run_job
from tests.spark_audit.events import Copy, Scribe, write_all
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

ENDS = ("acked", "dead_lettered", "expired", "purged", "discarded")


class Done:
    """A day, and the tables that were made of it."""

    def __init__(self, spark: "SparkSession", scribe: Scribe, result: JobResult, out: Path) -> None:
        self.spark, self.scribe, self.result, self.out = spark, scribe, result, out
        self._read: dict[str, list[dict[str, Any]]] = {}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table, as Spark reads it; each table is read once."""
        if table not in self._read:
            self._read[table] = [it.asDict() for it in self.spark.read.parquet(str(self.out / table)).collect()]
        return self._read[table]


@pytest.fixture(scope="module")
def done(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("day")
    scribe = Scribe()
    busy_day(scribe)
    write_all(folder / "events", scribe.events)
    return Done(spark, scribe, run_job(spark, folder / "events", folder / "out"), folder / "out")


def test_each_copy_has_one_row_with_its_whole_life(done: Done) -> None:
    rows = {(it["place"], it["sequence"]): it for it in done.rows("messages") if not it["subscriber"]}
    assert len(rows) == len(done.scribe.copies)
    for copy in done.scribe.copies:
        row = rows[copy.place, copy.sequence]
        expected = {
            "message_id": copy.message_id, "destination": copy.destination, "persistent": copy.persistent,
            "size": copy.size, "priority": 4,
            "sent_time": naive(copy.sent_time), "stored_time": naive(copy.stored_time),
            "dispatch_count": len(copy.dispatches), "redelivery_count": copy.redeliveries, "end_kind": copy.end_kind,
            "ack_type": copy.ack_type, "cause": copy.cause, "consumer": copy.consumer, "transaction": copy.transaction,
        }  # fmt: skip
        assert {name: row[name] for name in expected} == expected
        assert row["state"] == ("pending" if copy.end_kind == "pending" else "ended")
        if copy.dispatches:
            assert row["first_dispatch_time"] == naive(copy.dispatches[0][0])
            assert row["last_dispatch_time"] == naive(copy.dispatches[-1][0])
            assert row["dispatch_latency_ms"] == pytest.approx(wait_ms(copy))
        if copy.end_kind in ENDS:
            assert row["end_time"] == naive(copy.end_time)
        if copy.end_kind == "acked":
            assert row["ack_latency_ms"] == pytest.approx(ack_ms(copy))


def test_the_story_has_everything_in_it(done: Done) -> None:
    kinds = Counter(it.end_kind for it in done.scribe.copies)
    assert set(kinds) == {*ENDS, "pending", "lost_in_crash"}


def test_a_subscriber_of_a_topic_has_a_copy_of_its_own(done: Done) -> None:
    rows = [it for it in done.rows("messages") if it["place"] == "topic://news"]
    assert rows
    assert all(it["end_kind"] == "acked" and it["dispatch_count"] == 1 for it in rows)
    assert {it["subscriber"] for it in rows} == {"s1", "s2"}


def test_the_books_of_the_day_add_up(done: Done) -> None:
    (day,) = done.result.days
    assert done.result.adds_up
    assert day.problem_counts == {}
    assert day.events == len(done.scribe.events)


def test_sums_per_place_are_those_of_the_events_and_copies(done: Done) -> None:
    rows = {it["place"]: it for it in done.rows("reconciliation")}
    for place in {it.place for it in done.scribe.copies}:
        events = Counter(it["event"] for it in done.scribe.events if it.get("place") == place)
        kinds = Counter(it.end_kind for it in done.scribe.copies if it.place == place)
        row = rows[place]
        for name in ("stored", "dispatched", "redelivered", *ENDS):
            assert row[name] == events[name], (place, name)
        assert (row["pending"], row["lost_in_crash"], row["lost"]) == (kinds["pending"], kinds["lost_in_crash"], 0)
        assert (row["difference"], row["adds_up"]) == (0, True)
        assert row["censuses"] == events["census"]
        assert row["censuses_wrong"] == 0
    sent = Counter(it["destination"] for it in done.scribe.events if it["event"] == "sent")
    assert rows["queue://orders"]["sent"] == rows["queue://orders"]["stored_as_sent"] == sent["queue://orders"]
    assert rows["topic://news"]["sent"] == sent["topic://news"]
    assert rows["queue://ActiveMQ.DLQ"]["stored_as_sent"] == 0


def test_counts_per_destination_and_minute_are_those_of_the_events(done: Done) -> None:
    truth: dict[tuple[str, datetime], Counter[str]] = defaultdict(Counter)
    for it in done.scribe.events:
        truth[str(it.get("place") or it.get("destination")), minute(it["time"])][it["event"]] += 1
    rows = {(it["destination"], it["minute"]): it for it in done.rows("destinations_minute")}
    for key, events in truth.items():
        for name in ("sent", "stored", "dispatched", "redelivered", *ENDS):
            if events[name]:
                assert rows[key][name] == events[name], (key, name)
    for name in ("sent", "stored", "dispatched", "redelivered", *ENDS):
        assert sum(it[name] for it in rows.values()) == sum(it[name] for it in truth.values())
    some = rows["queue://orders", minute(done.scribe.copies[0].stored_time)]
    assert some["stored_per_second"] == pytest.approx(some["stored"] / 60)


def test_bytes_per_minute_are_those_of_what_was_stored_and_acked(done: Done) -> None:
    rows = done.rows("destinations_minute")
    for name, event in (("bytes_in", "stored"), ("bytes_out", "acked")):
        assert sum(it[name] for it in rows) == sum(it["size"] for it in done.scribe.events if it["event"] == event)


def test_the_backlog_of_a_minute_is_what_the_place_held_at_its_end(done: Done) -> None:
    last = {}
    for row in sorted(done.rows("destinations_minute"), key=lambda it: it["minute"]):
        last[row["destination"]] = row["backlog"]
        truth = sum(
            it.place == row["destination"] and minute(it.stored_time) <= row["minute"] and not gone(it, row["minute"])
            for it in done.scribe.copies
        )
        if row["minute"] < minute(crash_time(done.scribe)):  # later the undone ack of the crash is in the way
            assert row["backlog"] == truth, (row["destination"], row["minute"])
    for place in {it.place for it in done.scribe.copies}:
        assert last[place] == sum(it.place == place for it in done.scribe.pending())


def test_latencies_per_minute_are_the_exact_percentiles(done: Done) -> None:
    waits: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    acks: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for it in done.scribe.copies:
        if it.dispatches:
            waits[it.place, minute(it.dispatches[0][0])].append(wait_ms(it))
        if it.end_kind == "acked" and it.end_time:
            acks[it.place, minute(it.end_time)].append(ack_ms(it))
    rows = {(it["destination"], it["minute"]): it for it in done.rows("destinations_minute")}
    for name, truth in (("store_to_dispatch", waits), ("dispatch_to_ack", acks)):
        for key, values in truth.items():
            for percent in (50, 95, 99):
                assert rows[key][f"{name}_p{percent}_ms"] == pytest.approx(percentile(values, percent)), (key, name)


def test_consumers_have_their_counts_and_latencies_per_minute(done: Done) -> None:
    truth: dict[tuple[str, str, datetime], Counter[str]] = defaultdict(Counter)
    for it in done.scribe.events:
        if it.get("consumer"):
            truth[it["place"], it["consumer"], minute(it["time"])][it["event"]] += 1
    rows = {(it["destination"], it["consumer"], it["minute"]): it for it in done.rows("consumers_minute")}
    assert set(rows) == set(truth)
    for key, events in truth.items():
        for name in ("dispatched", "acked", "redelivered"):
            assert rows[key][name] == events[name], (key, name)
    acks: dict[tuple[str, str, datetime], list[float]] = defaultdict(list)
    for copy in done.scribe.copies:
        if copy.end_kind == "acked" and copy.end_time:
            acks[copy.place, str(copy.consumer), minute(copy.end_time)].append(ack_ms(copy))
    for key, values in acks.items():
        assert rows[key]["dispatch_to_ack_p95_ms"] == pytest.approx(percentile(values, 95))


def test_dead_letters_are_counted_by_cause(done: Done) -> None:
    truth = Counter((it.place, it.cause) for it in done.scribe.copies if it.end_kind == "dead_lettered")
    assert {(it["destination"], it["cause"]): it["messages"] for it in done.rows("dead_letters")} == truth


def test_every_consumer_gets_advice_with_its_figures(done: Done) -> None:
    consumers = {(it["place"], it["consumer"]) for it in done.scribe.events if it["event"] == "dispatched"}
    rows = {(it["destination"], it["consumer"]): it for it in done.rows("advice")}
    assert set(rows) == consumers
    assert all("acks" in it["why"] for it in rows.values())


# ---- the truth in plain Python --------------------------------------------------------------------------------------


def naive(time: datetime | None) -> datetime | None:
    """As Spark gives times to Python: in the zone of the machine, without saying so."""
    return None if time is None else time.astimezone().replace(tzinfo=None)


def minute(time: datetime) -> datetime:
    local = naive(time)
    assert local is not None
    return local.replace(second=0, microsecond=0)


def gone(copy: Copy, by: datetime) -> bool:
    return copy.end_time is not None and minute(copy.end_time) <= by


def crash_time(scribe: Scribe) -> datetime:
    restored: list[datetime] = [it["time"] for it in scribe.events if it["event"] == "restored"]
    stops: list[datetime] = [it["time"] for it in scribe.events if it["event"] == "stopped"]
    return min([*restored, *stops])


def wait_ms(copy: Copy) -> float:
    return (copy.dispatches[0][0] - copy.stored_time).total_seconds() * 1000


def ack_ms(copy: Copy) -> float:
    assert copy.end_time is not None
    return (copy.end_time - copy.dispatches[-1][0]).total_seconds() * 1000


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
