"""What `ackwire audit report` tells of one day: the tables of `ackwire audit run`, read and made small enough to show.

All the work was done by the job; this reads finished tables with pyarrow and needs no Spark. Slots (minutes, or a few
seconds on a day with events of few hours) are put together into steps so that a plot has a few hundred points at most:
flow is an average, a latency the highest of its slots, a backlog the one at the end of the step.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ackwire.errors import ConfigError
from ackwire.spark.audit.slots import FINE_SLOT_SECONDS, SLOT_SECONDS

POINTS_MAX: Final = 240
"""Points of a plot: six minutes each for a day."""
STEPS_MIN: Final = 5
"""A plot of fewer slots than this would be a dot."""
PROBLEMS_MAX: Final = 200
ROWS_MAX: Final = 1000
"""Rows of any other table that are shown."""
_DAY_SECONDS: Final = 86_400
_STEP_SECONDS: Final = (5, 10, 15, 20, 30, 60, 120, 180, 300, 360, 600, 900, 1200, 1800, 3600)

ADDED: Final = ("carried", "stored", "found")
ENDED: Final = ("acked", "dead_lettered", "expired", "purged", "discarded", "pending", "lost_in_crash")
"""The two sides of the sum that every place must show; `difference` is what one has more than the other."""

LATENCIES: Final = ("store_to_dispatch", "dispatch_to_ack")
PERCENTS: Final = (50, 95, 99)

Row = dict[str, Any]
Key = tuple[str, str]
"""Broker and place."""


@dataclass(slots=True)
class Series:
    """What happened at one place, step by step; None where nothing was measured."""

    stored: list[float]
    """Messages a second."""
    acked: list[float]
    backlog: list[float]
    latency_ms: dict[str, list[float | None]]
    """`dispatch_to_ack_p95` and so on."""

    @property
    def is_measured(self) -> bool:
        return any(it is not None for its in self.latency_ms.values() for it in its)


@dataclass(frozen=True, slots=True)
class Times:
    """The steps of all plots."""

    begin: datetime
    step_seconds: int
    count: int

    @property
    def end(self) -> datetime:
        return datetime.fromtimestamp(self.begin.timestamp() + self.count * self.step_seconds, UTC)

    def index(self, when: datetime) -> int:
        return int((when.timestamp() - self.begin.timestamp()) // self.step_seconds)


@dataclass(slots=True)
class Report:
    """One day."""

    date: str
    adds_up: bool
    events: int
    days: dict[str, bool]
    """All days there are, and whether each adds up."""
    places: list[Row]
    problem_counts: dict[str, int]
    problems: list[Row]
    """The first of them; those that break the books come first."""
    dead_letters: list[Row]
    slow_consumers: list[Row]
    advice: list[Row]
    times: Times | None = None
    series: dict[Key, Series] = field(default_factory=dict)

    @property
    def wrong_places(self) -> int:
        return sum(not it["adds_up"] for it in self.places)

    @property
    def sums(self) -> Counter[str]:
        """Over all places."""
        names = (*ADDED, *ENDED, "difference", "redelivered")
        return Counter({name: sum(it[name] or 0 for it in self.places) for name in names})


def read_report(out: Path, date: str | None = None) -> Report:
    """Read the tables below *out*, of *date* or of the newest day."""
    days = _days(out)
    date = date or max(days)
    if date not in days:
        raise ConfigError(f"{out} has no tables of {date}; there are some of {', '.join(sorted(days)[-10:])}")
    places = _rows(out, "reconciliation", date, key=lambda it: (it["adds_up"], -(it["stored"] or 0), it["place"] or ""))
    counts, problems = _problems(out, date)
    report = Report(
        date=date,
        adds_up=days[date]["adds_up"],
        events=days[date]["events"],
        days={name: it["adds_up"] for name, it in days.items()},
        places=places,
        problem_counts=counts,
        problems=problems,
        dead_letters=_rows(out, "dead_letters", date, key=lambda it: (-it["messages"], it["destination"], it["cause"])),
        slow_consumers=_rows(out, "slow_consumers", date, key=lambda it: -(it["ack_p50_ms"] or float("inf"))),
        advice=_rows(out, "advice", date, key=lambda it: (it["prefetch"] is None, it["destination"], it["consumer"])),
    )
    slots, slot_seconds = _slots(out, date)
    held = {_key(it["broker"], it["place"]): float(it["carried"]) for it in places if it["carried"]}
    if slots:
        report.times = _times([it["slot"] for it in slots], slot_seconds)
    elif held:  # nothing happened all day to what has waited since before
        report.times = Times(datetime.fromisoformat(date).replace(tzinfo=UTC), _DAY_SECONDS // STEPS_MIN, STEPS_MIN)
    if report.times is not None:
        report.series = _series(slots, report.times, held)
    return report


def _slots(out: Path, date: str) -> tuple[list[Row], int]:
    """What happened at each place in each slot, and how long that is: the finest table there is."""
    fine = _read(out, "destinations_fine", date)
    if fine:
        return fine, FINE_SLOT_SECONDS
    return [{**it, "slot": it["minute"]} for it in _read(out, "destinations_minute", date)], SLOT_SECONDS


def _days(out: Path) -> dict[str, Row]:
    path = out / "manifest.json"
    try:
        days: dict[str, Row] = json.loads(path.read_text())["days"]
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{out} has no tables: make some with ackwire audit run EVENTS_DIR --out {out}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): run ackwire audit run again") from None
    if not days:
        raise ConfigError(f"{out} has no tables yet: run ackwire audit run first")
    return days


# ---- tables ----------------------------------------------------------------------------------------------------


def _table(out: Path, name: str, date: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise ConfigError("tables are Parquet, and that needs pyarrow: pip install 'ackwire[spark]'") from None
    files = sorted((out / name / f"date={date}").glob("*.parquet"))
    try:
        tables = [pq.ParquetFile(it).read() for it in files]
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{out / name} cannot be read: {str(error).splitlines()[0]}") from None
    return pa.concat_tables(tables) if tables else None


def _read(out: Path, name: str, date: str) -> list[Row]:
    table = _table(out, name, date)
    return [] if table is None else [_utc(it) for it in table.to_pylist()]


def _rows(out: Path, name: str, date: str, *, key: Callable[[Row], Any]) -> list[Row]:
    return sorted(_read(out, name, date), key=key)


def _utc(row: Row) -> Row:
    """Times as Spark writes them have a zone or none; either way they are UTC."""
    return {name: it.replace(tzinfo=it.tzinfo or UTC) if isinstance(it, datetime) else it for name, it in row.items()}


def _problems(out: Path, date: str) -> tuple[dict[str, int], list[Row]]:
    """How many of each kind, and the first of them: there may be as many as messages."""
    table = _table(out, "problems", date)
    if table is None:
        return {}, []
    counts = {str(it["values"]): int(it["counts"]) for it in table["kind"].value_counts().to_pylist()}
    first = table.sort_by([("breaks", "descending"), ("kind", "ascending"), ("place", "ascending")]).slice(
        0, PROBLEMS_MAX
    )
    return dict(sorted(counts.items())), [_utc(it) for it in first.to_pylist()]


# ---- slots become steps ------------------------------------------------------------------------------------------


def _times(slots: Iterable[datetime], slot_seconds: int) -> Times:
    seconds = [int(it.timestamp()) for it in slots]
    begin, end = min(seconds), max(seconds) + slot_seconds
    fitting = (it for it in _STEP_SECONDS if it >= slot_seconds and end - begin <= it * POINTS_MAX)
    step = next(fitting, _STEP_SECONDS[-1])
    begin -= begin % step
    count = max(-(-(end - begin) // step), STEPS_MIN)
    return Times(datetime.fromtimestamp(begin, UTC), step, count)


def _key(broker: str | None, place: str | None) -> Key:
    return broker or "", place or ""


def _series(slots: Sequence[Row], times: Times, held: dict[Key, float]) -> dict[Key, Series]:
    """A series for each place to which something happened, or which *held* messages when the day began."""
    by_place: dict[Key, list[Row]] = {key: [] for key in held}
    for row in slots:
        by_place.setdefault(_key(row["broker"], row["destination"]), []).append(row)
    return {
        key: _one_series(sorted(rows, key=lambda it: it["slot"]), times, held.get(key, 0.0))
        for key, rows in sorted(by_place.items())
    }


def _one_series(rows: Sequence[Row], times: Times, held: float) -> Series:
    names = [f"{it}_p{percent}" for it in LATENCIES for percent in PERCENTS]
    found = Series(
        stored=[0.0] * times.count,
        acked=[0.0] * times.count,
        backlog=[0.0] * times.count,
        latency_ms={it: [None] * times.count for it in names},
    )
    reached, backlog = 0, held
    for row in rows:
        step = times.index(row["slot"])
        found.stored[step] += (row["stored"] or 0) / times.step_seconds
        found.acked[step] += (row["acked"] or 0) / times.step_seconds
        for name in names:
            found.latency_ms[name][step] = _higher(found.latency_ms[name][step], row.get(f"{name}_ms"))
        # A slot without a row changes nothing.
        found.backlog[reached:step] = [backlog] * (step - reached)
        reached, backlog = step, float(row["backlog"] or 0)
    found.backlog[reached:] = [backlog] * (times.count - reached)
    return found


def _higher(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)
