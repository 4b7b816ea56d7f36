"""Brokers side by side: rows of a comparison, with ratios, their spread, and what issue and design ask for.

A row has a value of each broker for each round. A ratio is that of two rounds in succession, because neighbours change
what a machine can do within seconds; shown are the median of them, the smallest and the largest. A compared broker is
named in `values`, ours first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple, Self

OURS: Final = "Ackwire"
ACTIVEMQ: Final = "ActiveMQ"
TUNED: Final = "ActiveMQ tuned"
"""With `concurrentStoreAndDispatchQueues=false`, which is its best for many producers."""
RABBITMQ: Final = "RabbitMQ"

MB: Final = 1e6

Values = Mapping[str, Sequence[float]]
"""By broker; one value for each round."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What the median of the ratios has to reach: at least that, or at most where less is better."""

    against: str
    bound: float
    aim: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that several brokers did."""

    title: str
    unit: str
    values: Values
    less_is_better: bool = False
    goals: Sequence[Goal] = ()
    cpu_microseconds: Values = field(default_factory=dict)
    """Of the broker, for each message."""
    rss_bytes: Values = field(default_factory=dict)
    family: str = ""
    """Rows of a family are points of one line, at their `x`."""
    x: float = 0.0
    note: str = ""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**{**values, "goals": [Goal(**goal) for goal in values["goals"]]})

    @property
    def others(self) -> list[str]:
        return [name for name in self.values if name != OURS]

    def ratios(self, against: str) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.values[OURS], self.values[against], strict=True)]

    def goal(self, against: str) -> Goal | None:
        return next((goal for goal in self.goals if goal.against == against), None)

    def is_reached(self, goal: Goal) -> bool:
        ratio = median(self.ratios(goal.against))
        return ratio <= goal.bound if self.less_is_better else ratio >= goal.bound


class Line(NamedTuple):
    """One row against one broker, as texts."""

    work: str
    unit: str
    ours: str
    against: str
    theirs: str
    ratio: str
    spread: str
    wanted: str
    verdict: str
    cpu: str
    rss: str
    note: str


HEADER: Final = Line(
    "", "unit", OURS, "beside", "theirs", "ratio", "min–max", "wanted", "", "CPU µs each", "RSS MB", "remark"
)
LEFT: Final = {"work", "unit", "against", "wanted", "verdict", "note"}


def lines(row: Row) -> Iterator[Line]:
    """A line for each broker that ours is compared with, or one for ours alone."""
    for name in row.others or [""]:
        ratios = row.ratios(name) if name else []
        goal = row.goal(name)
        yield Line(
            row.title,
            row.unit,
            middle(row.values[OURS]),
            name,
            middle(row.values.get(name, ())),
            middle(ratios),
            f"{number(min(ratios))}–{number(max(ratios))}" if ratios else "",
            wanted(row, goal) if goal else "",
            verdict(is_reached=row.is_reached(goal)) if goal else "",
            pair(row.cpu_microseconds, name),
            pair({key: [it / MB for it in values] for key, values in row.rss_bytes.items()}, name),
            row.note,
        )


def wanted(row: Row, goal: Goal) -> str:
    aim = f" (aim {goal.aim:g})" if goal.aim is not None else ""
    return f"{'≤' if row.less_is_better else '≥'} {goal.bound:.3g}{aim}"


def verdict(*, is_reached: bool) -> str:
    return "ok" if is_reached else "short"


def pair(values: Values, other: str) -> str:
    """Ours / theirs."""
    return " / ".join(middle(values[name]) for name in (OURS, other) if name in values)


def middle(values: Sequence[float]) -> str:
    return number(median(values)) if values else ""


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def text_table(rows: Iterable[Row]) -> Iterator[str]:
    """For a terminal; columns that are empty throughout are left out."""
    table = [HEADER, *(line for row in rows for line in lines(row))]
    columns = [
        (name, column)
        for name, column in zip(Line._fields, zip(*table, strict=True), strict=True)
        if name != "note" and any(column[1:])
    ]
    widths = [max(map(len, column)) for _, column in columns]
    for cells in zip(*(column for _, column in columns), strict=True):
        aligned = (
            cell.ljust(width) if name in LEFT else cell.rjust(width)
            for cell, width, (name, _) in zip(cells, widths, columns, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def markdown_table(rows: Iterable[Row]) -> Iterator[str]:
    yield f"| {' | '.join(HEADER)} |"
    yield "|" + "".join("---|" if name in LEFT else "--:|" for name in Line._fields)
    for row in rows:
        for line in lines(row):
            shown = line._replace(verdict="**short**" if line.verdict == "short" else line.verdict)
            yield f"| {' | '.join(shown)} |"
