"""Only what is new is computed; the tables are as if all had been computed at once; a killed job harms nothing."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwire.errors import ConfigError
from ackwire.spark.audit.job import run_job
from ackwire.spark.audit.partitions import Partitions
from tests.spark_audit.events import Event, Scribe, write, write_all
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.timeout(900)

TABLES = (
    "messages", "destinations_minute", "consumers_minute", "reconciliation", "problems", "dead_letters",
    "slow_consumers", "advice",
)  # fmt: skip


def three_days() -> Scribe:
    """Messages that wait or are in flight over midnight, and a crash that undoes an ack of the day before."""
    scribe = Scribe()
    busy_day(scribe, seed=3, rounds=2)
    waiting, flying, undone = scribe.send(), scribe.send(), scribe.send()
    scribe.dispatch(flying)
    scribe.consume(undone)
    _tomorrow(scribe)
    scribe.crash(undoing=[undone])
    scribe.consume(undone)
    scribe.consume(waiting)
    scribe.consume(flying)
    scribe.send("queue://waits")
    scribe.census()
    _tomorrow(scribe)
    busy_day(scribe, seed=4, rounds=1)
    return scribe


def _tomorrow(scribe: Scribe) -> None:
    scribe.now = scribe.now.replace(hour=9) + timedelta(days=1)


def by_day(events: list[Event]) -> list[list[Event]]:
    days = sorted({it["time"].date() for it in events})
    return [[it for it in events if it["time"].date() == day] for day in days]


def tables(spark: "SparkSession", out: Path) -> dict[str, Counter[Any]]:
    """The rows of each table; they may come in any order."""
    return {name: Counter(_hashable(it) for it in spark.read.parquet(str(out / name)).collect()) for name in TABLES}


def _hashable(row: "Row") -> tuple[Any, ...]:
    return tuple(tuple(it) if isinstance(it, list) else it for it in row)


def test_day_by_day_gives_the_same_tables_as_all_at_once_and_yesterday_is_left_alone(
    spark: "SparkSession", tmp_path: Path
) -> None:
    scribe = three_days()
    write_all(tmp_path / "events", scribe.events)
    assert run_job(spark, tmp_path / "events", tmp_path / "at-once").adds_up

    for day in by_day(scribe.events):
        write_all(tmp_path / "growing", day)
        result = run_job(spark, tmp_path / "growing", tmp_path / "out")
        assert [it.date for it in result.days] == [f"{day[0]['time']:%F}"]
        assert result.adds_up

    same = tables(spark, tmp_path / "out")
    assert same == tables(spark, tmp_path / "at-once")
    assert run_job(spark, tmp_path / "growing", tmp_path / "out").days == []
    copies = Counter(
        (it["place"], it["sequence"]) for it in spark.read.parquet(str(tmp_path / "out/messages")).collect()
    )
    undone = {key for key, count in copies.items() if count > 1 and not key[0].startswith("topic://")}
    assert len(undone) == 1  # acked on one day, found by a start on the next, and acked again


def test_a_late_file_computes_its_day_and_those_after_it_again(spark: "SparkSession", tmp_path: Path) -> None:
    scribe = Scribe()
    busy_day(scribe, seed=5, rounds=1)
    late = len(scribe.events)
    scribe.consume(scribe.send())
    scribe.send()
    scribe.wait(minutes=1)
    after = len(scribe.events)
    scribe.census()
    _tomorrow(scribe)
    today = len(scribe.events)
    scribe.consume(scribe.pending()[-1])
    scribe.census()
    write_all(tmp_path / "events", scribe.events[:late])
    write_all(tmp_path / "events", scribe.events[after:today])
    write_all(tmp_path / "events", scribe.events[today:])
    result = run_job(spark, tmp_path / "events", tmp_path / "out")
    assert not result.adds_up
    write(tmp_path / "events", scribe.events[late:after], name="late.parquet")

    result = run_job(spark, tmp_path / "events", tmp_path / "out")

    assert len(result.days) == 2
    assert result.adds_up
    assert [it.problem_counts for it in result.days] == [{}, {"never_acked": len(scribe.pending())}]  # for a day
    run_job(spark, tmp_path / "events", tmp_path / "at-once")
    assert tables(spark, tmp_path / "out") == tables(spark, tmp_path / "at-once")


def test_a_killed_job_leaves_whole_tables_the_next_one_finishes_and_a_day_done_again_is_the_same(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = Scribe()
    busy_day(scribe, seed=6, rounds=1)
    half = len(scribe.events) // 2
    write(tmp_path / "events", scribe.events[:half])
    run_job(spark, tmp_path / "events", tmp_path / "out")
    before = tables(spark, tmp_path / "out")
    write(tmp_path / "events", scribe.events[half:])

    with monkeypatch.context() as patched:
        patched.setattr(Partitions, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            run_job(spark, tmp_path / "events", tmp_path / "out")
    assert tables(spark, tmp_path / "out") == before

    moves = 0

    def some_moves(partitions: Partitions, source: Path, target: Path, old: Path) -> None:
        nonlocal moves
        moves += 1
        if moves == 4:
            raise KeyboardInterrupt
        move(partitions, source, target, old)

    move = Partitions._move
    with monkeypatch.context() as patched:
        patched.setattr(Partitions, "_move", some_moves)
        with pytest.raises(KeyboardInterrupt):
            run_job(spark, tmp_path / "events", tmp_path / "out")

    assert run_job(spark, tmp_path / "events", tmp_path / "out").days == []  # it was decided, and only had to be done
    first = run_job(spark, tmp_path / "events", tmp_path / "at-once")
    at_once = tables(spark, tmp_path / "at-once")
    assert tables(spark, tmp_path / "out") == at_once

    # One day can be asked for, new or not.
    assert run_job(spark, tmp_path / "events", tmp_path / "at-once", date="2026-03-01") == first
    assert tables(spark, tmp_path / "at-once") == at_once
    with pytest.raises(ConfigError, match="there are no events of 2026-04-01; there are some of 2026-03-01"):
        run_job(spark, tmp_path / "events", tmp_path / "at-once", date="2026-04-01")


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_folder_without_events_says_so(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        run_job(spark, tmp_path / "nothing", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no events"):
        run_job(spark, tmp_path / "empty", tmp_path / "out")


def test_two_jobs_do_not_write_the_same_tables_at_once(tmp_path: Path) -> None:
    with (
        Partitions(tmp_path / "out").locked(),
        pytest.raises(ConfigError, match="another job writes"),
        Partitions(tmp_path / "out").locked(),
    ):
        pass
