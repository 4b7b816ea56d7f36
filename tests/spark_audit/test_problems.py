"""What does not add up is found, with its id; nothing else is."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwire.spark.audit.job import JobResult, run_job
from tests.spark_audit.events import Scribe, write, write_all
from tests.spark_audit.reading import rows_of
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


def run(spark: "SparkSession", folder: Path, scribe: Scribe, **options: Any) -> tuple[JobResult, dict[str, list[str]]]:
    """The result, and the ids (of events: the numbers) of each kind of problem."""
    write_all(folder / "events", scribe.events)
    return again(spark, folder, **options)


def again(spark: "SparkSession", folder: Path, **options: Any) -> tuple[JobResult, dict[str, list[str]]]:
    result = run_job(spark, folder / "events", folder / "out", **options)
    found: dict[str, list[str]] = {}
    for it in rows_of(folder / "out", "problems"):
        found.setdefault(it["kind"], []).append(it["message_id"] or f"{it['place']} {it['number']}")
    return result, {kind: sorted(its) for kind, its in found.items()}


def test_planted_in_a_busy_day_each_violation_is_found_with_its_id_and_nothing_else(
    spark: "SparkSession", tmp_path: Path
) -> None:
    scribe = Scribe()
    lost = scribe.send("queue://lost")
    busy_day(scribe, seed=2, rounds=2)
    doubled = scribe.send("queue://mail")
    scribe.dispatch(doubled, "c1")
    scribe.consume(doubled, "c2")
    twice = scribe.send("queue://orders")
    scribe.consume(twice)
    scribe._about(twice, "acked", consumer="c1", ack_type="standard")
    both = scribe.send("queue://orders")
    scribe.dispatch(both)
    scribe.end(both, "expired")
    scribe._about(both, "acked", consumer="c1", ack_type="standard")
    forever = scribe.send("queue://forgotten")
    stranger = {"place": "queue://mail", "destination": "queue://mail", "sequence": 9999, "message_id": "ID:stranger"}
    scribe.event("acked", consumer="c1", persistent=True, **stranger)
    scribe.event("sent", destination="queue://mail", message_id="ID:unstored", sequence=9998)
    scribe.wait(hours=2)
    young = scribe.send("queue://orders")
    scribe.sync()
    unanswered = scribe.send("queue://orders")
    scribe.crash(losing=[lost, unanswered])
    scribe.consume(young)

    result, found = run(spark, tmp_path, scribe)

    waiting = {it.message_id for it in scribe.pending() if scribe.now - it.stored_time > timedelta(hours=1)}
    assert forever.message_id in waiting
    assert set(found.pop("never_acked")) == waiting
    assert found == {
        "lost": [lost.message_id],
        "delivered_twice": [doubled.message_id],
        "acked_twice": [twice.message_id],
        "ended_twice": [both.message_id],
        "never_stored": ["ID:stranger"],
        "sent_not_stored": ["ID:unstored"],
    }
    assert not result.adds_up
    places = {it["place"]: it for it in result.days[0].places}
    assert places["queue://lost"]["difference"] == 1
    assert places["queue://orders"]["difference"] == -2
    assert places["queue://mail"]["difference"] == -1
    assert places["queue://forgotten"]["adds_up"]


def test_a_census_that_counts_less_than_the_events_names_what_is_gone(spark: "SparkSession", tmp_path: Path) -> None:
    scribe = Scribe()
    gone = scribe.send("queue://orders")
    kept = scribe.send("queue://orders")
    scribe.census()
    gone.end_kind = "lost"
    scribe.census()
    last = scribe.events[-1]["number"]
    result, found = run(spark, tmp_path, scribe)
    assert kept.end_kind == "pending"
    assert found == {"census_mismatch": [f"queue://orders {last}"], "lost": [gone.message_id]}
    assert not result.adds_up


def test_missing_events_are_a_problem_until_their_file_comes_and_then_all_is_well(
    spark: "SparkSession", tmp_path: Path
) -> None:
    scribe = Scribe()
    busy_day(scribe, rounds=1)
    events = scribe.events
    write(tmp_path / "events", events[:20])
    write(tmp_path / "events", events[30:])
    result, found = again(spark, tmp_path)
    assert not result.adds_up
    assert found["missing_events"] == ["None 21"]
    write(tmp_path / "events", events[20:30], name="late.parquet")
    result, found = again(spark, tmp_path)
    assert result.adds_up
    assert found == {}


def test_events_that_are_there_twice_count_once_and_a_message_that_waits_is_told(
    spark: "SparkSession", tmp_path: Path
) -> None:
    scribe = Scribe()
    old = scribe.send()
    scribe.wait(minutes=11)
    busy_day(scribe, rounds=1)
    events = scribe.events
    write(tmp_path / "events", events[:60])
    write(tmp_path / "events", events[40:], name="overlaps.parquet")
    write(tmp_path / "events", events[:60], name="again.parquet")
    write(tmp_path / "events", [*events[70:75], events[72]], name="doubled-inside.parquet")
    result, found = again(spark, tmp_path, pending_after=timedelta(minutes=10))
    assert result.adds_up
    assert result.days[0].events == len(events)
    assert set(found) == {"repeated_events", "never_acked"}
    assert found["never_acked"] == [old.message_id]
    problem = next(it for it in result.days[0].problems if it["kind"] == "repeated_events")
    assert problem["detail"].startswith("86 events")
    stored = sum(it["event"] == "stored" for it in events)
    assert sum(it["stored"] for it in result.days[0].places) == stored + implied(scribe)


def implied(scribe: Scribe) -> int:
    return sum(it["event"] == "dispatched" and it["place"] == "topic://news" for it in scribe.events)
