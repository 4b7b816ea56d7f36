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
from tests.spark_audit.reading import Row, rows_of
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def tables(out: Path) -> dict[str, Counter[Any]]:
    """The rows of each table; they may come in any order."""
    return {name: Counter(_hashable(it) for it in rows_of(out, name)) for name in TABLES}


def _hashable(row: Row) -> tuple[Any, ...]:
    return tuple((name, tuple(it) if isinstance(it, list) else it) for name, it in sorted(row.items()))


def test_day_by_day_or_with_a_late_file_gives_the_same_tables_as_all_at_once_and_yesterday_is_left_alone(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """A late file computes its day and those after it again, and not the day before."""
    scribe = three_days()
    write_all(tmp_path / "events", scribe.events)
    assert run_job(spark, tmp_path / "events", tmp_path / "at-once").adds_up

    first, second, third = by_day(scribe.events)
    growing, out = tmp_path / "growing", tmp_path / "out"
    late = slice(len(second) // 3, 2 * len(second) // 3)
    for part, day, adds_up in (
        ([first], first, True),
        ([second[: late.start], second[late.stop :]], second, False),
        ([third], third, None),
    ):
        for events in part:
            write_all(growing, events)
        result = run_job(spark, growing, out)
        assert [it.date for it in result.days] == [f"{day[0]['time']:%F}"]
        assert adds_up is None or result.adds_up == adds_up
    assert tables(out) != tables(tmp_path / "at-once")
    write(growing, second[late], name="late.parquet")
    result = run_job(spark, growing, out)
    assert [it.date for it in result.days] == [f"{it[0]['time']:%F}" for it in (second, third)]
    assert result.adds_up
    assert {kind for it in result.days for kind in it.problem_counts} == {"never_acked"}  # for a day

    assert tables(out) == tables(tmp_path / "at-once")
    assert run_job(spark, growing, out).days == []
    copies = Counter((it["place"], it["sequence"]) for it in rows_of(out, "messages"))
    undone = {key for key, count in copies.items() if count > 1 and not key[0].startswith("topic://")}
    assert len(undone) == 1  # acked on one day, found by a start on the next, and acked again


def test_a_killed_job_leaves_whole_tables_the_next_one_finishes_and_a_day_done_again_is_the_same(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = Scribe()
    busy_day(scribe, seed=6, rounds=1)
    half = len(scribe.events) // 2
    events, out = tmp_path / "events", tmp_path / "out"
    write(events, scribe.events[:half])
    run_job(spark, events, out)
    before = tables(out)
    write(events, scribe.events[half:])

    with monkeypatch.context() as patched:
        patched.setattr(Partitions, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            run_job(spark, events, out)
    assert tables(out) == before

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
            run_job(spark, events, out)

    assert run_job(spark, events, out).days == []  # it was decided, and only had to be done
    finished = tables(out)
    assert finished != before

    # One day can be asked for, new or not; it is computed from nothing that the killed jobs have left.
    again = run_job(spark, events, out, date="2026-03-01")
    assert [(it.date, it.events, it.adds_up) for it in again.days] == [("2026-03-01", len(scribe.events), True)]
    assert tables(out) == finished
    with pytest.raises(ConfigError, match="there are no events of 2026-04-01; there are some of 2026-03-01"):
        run_job(spark, events, out, date="2026-04-01")


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
