"""Runs of brokers: which came after which, which numbers of theirs were seen, and which ended in a crash.

A run's events are numbered from 1 without holes. Its index is its place among the runs of its broker, and
`order = index * 2**40 + number` puts all events of a broker in one order, whatever their clock said. Indexes never
change once given: rows that wait for the next day carry orders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NUMBER_BITS: Final = 40
"""A run has fewer than 2**40 events, a broker fewer than 2**19 runs: an order and four bits more fit in 63."""

Interval = tuple[int, int]
"""The first and the last number, both included."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a broker, as far as its events are known."""

    name: str
    broker: str
    index: int
    started_us: int
    ended_us: int
    """The time of its newest event."""
    stopped: bool = False
    """It said that it stopped: what was in the store then is still there."""
    settled: bool = False
    """It has done more than start and restore: what it has not restored by then is gone."""
    durable: int = 0
    """What it told up to this number was on the medium, and so was everything that anybody was promised."""
    seen: tuple[Interval, ...] = ()

    @property
    def first_order(self) -> int:
        return self.index << NUMBER_BITS

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Run":
        seen = tuple((int(first), int(last)) for first, last in values["seen"])
        return cls(**{**values, "seen": seen})


@dataclass(frozen=True, slots=True)
class Span:
    """What one file holds of one run."""

    file: str
    run: str
    broker: str
    first: int
    last: int
    count: int
    total: int
    started_us: int
    ended_us: int
    stopped: bool
    settled: bool
    durable: int = 0

    @property
    def is_dense(self) -> bool:
        """Each number from the first to the last, once."""
        return self.count == self.last - self.first + 1 and 2 * self.total == self.count * (self.first + self.last)


@dataclass(slots=True)
class Ends:
    """What became of messages that a run left behind: after which run they are gone."""

    broker: str
    index: int
    persistent_gone_at: int | None = None
    persistent_gone_us: int | None = None
    other_gone_at: int | None = None
    other_gone_us: int | None = None
    durable_order: int | None = None
    """If the run crashed: what it stored later than this may not be on disk, and no client was told that it is."""


@dataclass(slots=True)
class Runs:
    """All runs that were ever seen."""

    by_name: dict[str, Run] = field(default_factory=dict)

    def with_spans(self, spans: Sequence[Span], seen: dict[str, list[Interval]]) -> "Runs":
        """These runs and those of *spans*; *seen* are the numbers that the new files hold."""
        runs = dict(self.by_name)
        by_run: dict[str, list[Span]] = {}
        for span in spans:
            by_run.setdefault(span.run, []).append(span)
        new = sorted((name for name in by_run if name not in runs), key=lambda it: (_start(by_run[it]), it))
        for name in new:
            broker = by_run[name][0].broker
            index = 1 + max((it.index for it in runs.values() if it.broker == broker), default=-1)
            runs[name] = Run(name, broker, index, _start(by_run[name]), 0)
        for name, its in by_run.items():
            old = runs[name]
            runs[name] = Run(
                name,
                old.broker,
                old.index,
                min(old.started_us, _start(its)),
                max(old.ended_us, *(it.ended_us for it in its)),
                stopped=old.stopped or any(it.stopped for it in its),
                settled=old.settled or any(it.settled for it in its),
                durable=max(old.durable, *(it.durable for it in its)),
                seen=tuple(merged([*old.seen, *seen[name]])),
            )
        return Runs(runs)

    def ends(self) -> list[Ends]:
        """For every run, when its leftovers are gone."""
        found = []
        for broker in sorted({it.broker for it in self.by_name.values()}):
            its = sorted((it for it in self.by_name.values() if it.broker == broker), key=lambda it: it.index)
            found += _ends_of(broker, its)
        return found


def _ends_of(broker: str, runs: list[Run]) -> list[Ends]:
    found: list[Ends] = []
    later: Ends | None = None
    for run, following in reversed(list(zip(runs, [*runs[1:], None], strict=True))):
        ends = Ends(broker, run.index)
        if following is not None and following.settled:
            ends.other_gone_at, ends.other_gone_us = following.index, following.started_us
            if not run.stopped:
                ends.persistent_gone_at, ends.persistent_gone_us = following.index, following.started_us
                ends.durable_order = run.first_order + run.durable
        if run.stopped and later is not None:  # a clean stop keeps what a later crash may lose
            ends.persistent_gone_at, ends.persistent_gone_us = later.persistent_gone_at, later.persistent_gone_us
        found.append(ends)
        later = ends
    return found


def _start(spans: Iterable[Span]) -> int:
    return min(it.started_us for it in spans)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same numbers in as few intervals as can be."""
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def overlaps(intervals: Iterable[Interval]) -> list[Interval]:
    """Numbers that are in more than one of the intervals."""
    found: list[Interval] = []
    reached = 0
    for first, last in sorted(intervals):
        if first <= reached:
            found.append((first, min(reached, last)))
        reached = max(reached, last)
    return merged(found)


def size(intervals: Iterable[Interval]) -> int:
    """How many numbers there are."""
    return sum(last - first + 1 for first, last in intervals)


def without(intervals: Iterable[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The numbers of the intervals that are not in *others*."""
    left = []
    for first, last in merged(intervals):
        for other_first, other_last in merged(others):
            if other_last < first or other_first > last:
                continue
            if other_first > first:
                left.append((first, other_first - 1))
            first = other_last + 1
        if first <= last:
            left.append((first, last))
    return left


def holes(seen: Sequence[Interval], new: Sequence[Interval]) -> list[Interval]:
    """Numbers that are missing below something *new*."""
    found = []
    expected = 1
    for first, last in merged(seen):
        if first > expected and any(first <= it[1] and it[0] <= last for it in new):
            found.append((expected, first - 1))
        expected = last + 1
    return found
