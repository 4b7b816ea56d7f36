"""The batch job behind `ackwire audit run`: days of events that have new files become tables, one day after the other.

Events are read from `EVENTS/date=…/hour=…`; a day is the folder its events are in. A day is computed from its own
events and from the copies that were open at the end of the day before (`OUT/open`), so a day that is done is not
computed again; a late file for it, and it is, and so are the days after it, whose beginning has changed. Two runs over
the same files give the same tables.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from ackwire.errors import ConfigError
from ackwire.spark.audit import advice, problems, reconciliation, tables
from ackwire.spark.audit.classify import COLUMNS
from ackwire.spark.audit.cleaning import Clean, clean, read_events
from ackwire.spark.audit.counting import Counting
from ackwire.spark.audit.lifecycles import write_lives
from ackwire.spark.audit.local import SHARES_MAX, in_workers, shares
from ackwire.spark.audit.partitions import Day, Partitions
from ackwire.spark.audit.reduce import Spot
from ackwire.spark.audit.runs import Span
from ackwire.spark.audit.slots import FINE_SLOT_SECONDS, slot_seconds_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PENDING_AFTER: Final = timedelta(hours=1)
_EVENTS_PER_PARTITION: Final = 1_000_000
_SETTINGS: Final = {
    # Percentiles of many groups: what is held in memory is the values of one task, which is little.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # What Spark would derive from conditions here it does not use, and that takes a tenth of its planning.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""While a day is computed."""

_SMALL_MAX: Final = 100_000
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""With so few events, to plan and to make code takes far longer than to go without."""

_AT_ONCE: Final = 2
"""Tables that are written beside the reconciliation."""

_SHOWN_MAX: Final = 100
"""Problems of a day that come with the result; the table has all."""


@dataclass(frozen=True, slots=True)
class DayResult:
    """The result of one day."""

    date: str
    events: int
    adds_up: bool
    places: list[dict[str, Any]]
    """The rows of the table `reconciliation`."""
    problem_counts: dict[str, int]
    problems: list[dict[str, Any]]
    """The first of them; those that break the partitions come first."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a run of the job did."""

    days: list[DayResult]
    """The days that were computed; none if there was nothing new."""
    adds_up: bool
    """Of the days computed, or, if there were none, of all that are known."""


def run_job(
    spark: "SparkSession",
    events: Path,
    out: Path,
    *,
    date: str | None = None,
    pending_after: timedelta = PENDING_AFTER,
    progress: Callable[[str], None] = lambda _: None,
) -> JobResult:
    """Compute what is new in *events* into the tables below *out*; *date* alone if given, new or not."""
    return compute_new(lambda: spark, events, out, date=date, pending_after=pending_after, progress=progress)


def compute_new(
    start_spark: "Callable[[], SparkSession]",
    events: Path,
    out: Path,
    *,
    date: str | None = None,
    pending_after: timedelta = PENDING_AFTER,
    progress: Callable[[str], None] = lambda _: None,
) -> JobResult:
    """Do the same as `run_job`, and start Spark only if there is something to compute: a start takes seconds."""
    partitions = Partitions(out)
    with partitions.locked():
        found = files_by_day(events)
        todo = _todo(found, partitions, date)
        spark = start_spark() if todo else None
        results = []
        for day in todo:
            assert spark is not None
            job = _DayJob(spark, partitions, day, found[day], pending_after, progress)
            results.append(job.run(is_newest=day == max(found)))
        known = [it.adds_up for it in results] or [it.adds_up for it in partitions.days.values()]
        return JobResult(results, all(known))


def files_by_day(events: Path) -> dict[str, dict[str, int]]:
    """The files of events and their sizes, by day."""
    if not events.is_dir():
        raise ConfigError(f"{events} is no directory: it must be the one that the broker's audit writes to")
    root = events / "events" if (events / "events").is_dir() else events
    days: dict[str, dict[str, int]] = {}
    for path in sorted(root.glob("date=*/hour=*/*.parquet")):
        if not path.name.startswith((".", "_")):
            days.setdefault(path.parts[-3].removeprefix("date="), {})[str(path.absolute())] = path.stat().st_size
    if not days:
        raise ConfigError(f"{root} has no events (date=…/hour=…/*.parquet): is the broker's audit on?")
    return days


def _todo(found: dict[str, dict[str, int]], partitions: Partitions, date: str | None) -> list[str]:
    if date is not None:
        return [_one_day(found, partitions, date)]
    new = [
        day for day, files in found.items() if day not in partitions.days or _has_new(files, partitions.days[day].files)
    ]
    return sorted(day for day in found if new and day >= min(new))


def _has_new(files: dict[str, int], known: dict[str, int]) -> bool:
    """Whether there are files that were not there; files that were deleted since need no new tables."""
    return any(known.get(name) != size for name, size in files.items())


def _one_day(found: dict[str, dict[str, int]], partitions: Partitions, date: str) -> str:
    if date not in found:
        raise ConfigError(f"there are no events of {date}; there are some of {', '.join(sorted(found)[-10:])}")
    if missing := [day for day in found if day < date and day not in partitions.days]:
        raise ConfigError(f"{min(missing)} comes before {date} and is not computed yet: run without --date first")
    return date


def _settings_for(events: int, at_once: int) -> dict[str, str]:
    if events <= _SMALL_MAX:
        return {**_SETTINGS, **_SMALL}
    return {**_SETTINGS, "spark.sql.shuffle.partitions": str(max(at_once, events // _EVENTS_PER_PARTITION))}


@contextmanager
def _settings(spark: "SparkSession", chosen: dict[str, str]) -> Iterator[None]:
    usual = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in usual.items():
            if before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, before)


class _DayJob:
    """One day, from its files to its tables."""

    def __init__(
        self,
        spark: "SparkSession",
        partitions: Partitions,
        date: str,
        files: dict[str, int],
        pending_after: timedelta,
        progress: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._partitions = partitions
        self._date = date
        self._files = files
        self._pending_after = int(pending_after.total_seconds())
        self._progress = progress
        self._slot_seconds = slot_seconds_for(list(files))
        self._computed = partitions.fresh(date)
        self._scratch = partitions.scratch(date)

    def _tell(self, text: str) -> None:
        self._progress(f"{self._date}: {text}")

    def run(self, *, is_newest: bool) -> DayResult:
        self._tell(f"looking at {len(self._files)} files")
        raw = read_events(self._spark, list(self._files))
        counts, spans = self._count(list(self._files))
        cleaned = clean(raw, spans, self._partitions.runs_before(self._date))
        with _settings(self._spark, _settings_for(cleaned.count, self._spark.sparkContext.defaultParallelism)):
            result = self._compute(cleaned, counts)
        shutil.rmtree(self._scratch)
        self._partitions.write_runs(self._computed, cleaned.runs)
        self._keep_open()
        self._partitions.publish(
            self._date, self._computed, Day(self._files, result.adds_up, result.events), is_newest=is_newest
        )
        return result

    def _count(self, files: list[str]) -> tuple[list[str], list[Span]]:
        """Files of counts, and the spans."""
        found = in_workers(self._spark, Counting(self._scratch, self._slot_seconds).count, shares(files, SHARES_MAX))
        return [it for it, _ in found], [span for _, spans in found for span in spans]

    def _compute(self, cleaned: Clean, count_files: list[str]) -> DayResult:
        self._tell(f"{cleaned.count:,} events: following each message")
        opened = self._opened()
        files = list(self._files)
        if not cleaned.is_raw:
            cleaned.events.write.parquet(str(self._scratch / "clean"))
            files = [str(it) for it in (self._scratch / "clean").glob("*.parquet")]
            count_files, _ = self._count(files)
        all_counts = tables.event_counts(self._spark, count_files, self._slot_seconds).persist()
        spots = tables.spots(all_counts, opened)
        counts = tables.counted(all_counts)
        lives = self._lives(cleaned, files, spots)
        self._tell("writing the tables")
        changes = tables.moved(lives, self._slot_seconds).persist()
        figures = tables.consumer_figures(counts, lives, cleaned.newest_us).persist()
        # Small tables are mostly planning, which keeps one core busy: several at once use all of them.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            writing = [
                pool.submit(self._write_tables, its)
                for its in (
                    self._destinations(counts, lives, changes),
                    {"slow_consumers": tables.slow_consumers(figures), "advice": advice.advice(figures)},
                    {
                        "consumers_minute": tables.consumers_minute(counts, lives),
                        "dead_letters": tables.dead_letters(lives),
                    },
                )
            ]
            census = reconciliation.compared(cleaned.events, lives, changes).persist()
            sums = reconciliation.reconciliation(counts, lives, census)
            places = self._write("reconciliation", sums).collect()
            self._tell("looking for what does not add up")
            found = self._write("problems", self._problems(cleaned, lives, opened, census, places))
            result = self._result(cleaned, [it.asDict() for it in places], found)
            for it in writing:
                it.result()
        for kept in (all_counts, changes, figures, census):
            kept.unpersist()
        return result

    def _destinations(self, counts: "DataFrame", lives: "DataFrame", changes: "DataFrame") -> "dict[str, DataFrame]":
        found = {"destinations_minute": tables.destinations_minute(counts, lives, changes)}
        if self._slot_seconds == FINE_SLOT_SECONDS:
            found["destinations_fine"] = tables.destinations_fine(counts, lives, changes, self._slot_seconds)
        return found

    def _opened(self) -> "DataFrame | None":
        folder = self._partitions.open_before(self._date)
        return None if folder is None else self._spark.read.parquet(str(folder)).where(F.col("subscriber") == "")

    def _lives(self, cleaned: Clean, files: list[str], spots: list[Spot]) -> "DataFrame":
        before = self._partitions.open_before(self._date)
        opened = [] if before is None else [str(it) for it in sorted(before.glob("*.parquet"))]
        folder = self._computed / "messages"
        write_lives(
            self._spark, folder, self._scratch,
            files=files, opened=opened, events=cleaned.count, runs=cleaned.runs, spots=spots,
        )  # fmt: skip
        return self._spark.read.schema(f"{COLUMNS}, state string").parquet(str(folder))

    def _write_tables(self, its: "dict[str, DataFrame]") -> None:
        for name, rows in its.items():
            self._write(name, rows)

    def _write(self, name: str, rows: "DataFrame") -> "DataFrame":
        path = str(self._computed / name)
        rows.coalesce(1).write.parquet(path)
        return self._spark.read.schema(rows.schema).parquet(path)

    def _problems(
        self, cleaned: Clean, lives: "DataFrame", opened: "DataFrame | None", census: "DataFrame", places: list[Any]
    ) -> "DataFrame":
        found = [
            problems.in_events(self._spark, cleaned),
            problems.in_lives(lives, cleaned.newest_us, self._pending_after),
            problems.in_census(census),
        ]
        if (in_order := problems.in_order(cleaned.events, lives, opened)) is not None:
            found.append(in_order)
        if any(it["censuses_wrong"] for it in places):
            found.append(problems.lost_by_census(census, lives))
        if any(it["unknown"] for it in places):
            found.append(problems.never_stored(cleaned.events, lives, self._earlier()))
        return problems.all_of(found)

    def _earlier(self) -> "DataFrame | None":
        folders = self._partitions.messages_before(self._date)
        return self._spark.read.parquet(*folders) if folders else None

    def _result(self, cleaned: Clean, places: list[dict[str, Any]], found: "DataFrame") -> DayResult:
        counts = {it["kind"]: it["count"] for it in found.groupBy("kind").count().collect()}
        order = (F.col("breaks").desc(), "kind", "broker", "place", "sequence")
        first = found.orderBy(*order).limit(_SHOWN_MAX).collect() if counts else []
        adds_up = not any(it["breaks"] for it in first) and not any(it["difference"] for it in places)
        shown = sorted(places, key=lambda it: (it["broker"] or "", it["place"] or ""))
        return DayResult(self._date, cleaned.count, adds_up, shown, counts, [it.asDict() for it in first])

    def _keep_open(self) -> None:
        """Keep the pending copies for the next day, independently of the tables."""
        pending = self._computed / "messages" / "state=pending"
        if pending.is_dir():
            shutil.copytree(pending, self._computed / "open")
