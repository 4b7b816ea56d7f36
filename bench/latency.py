"""How long do messages take, and does one greedy producer make others wait?

Producers send by a schedule, and each message's time counts from when it was due, not from when it was sent: a broker
that holds up its producer cannot hide that. The rates are 500 and 5,000 messages per second, and half of what our
broker can do at its best on this machine, now. For fairness one producer sends as fast as it goes, non-persistent and
without waiting, while another connection makes 50 small requests per second, which a third one answers; a request's
time is that of both ways. Beside the tails stands what the machine alone makes anybody wait (`stalls.py`).

    .venv/bin/python -m bench.latency [--quick] [--seconds 8]
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.brokers import Running, activemq_version, scratch_folder
from bench.comparison import ACTIVEMQ, OURS, Goal, Row
from bench.contest import Contest, Rounds, circumstances, contest_options, contest_parser, running
from bench.java_load import LoadGenerator, Work
from bench.measure import Figure, progress, show
from bench.stalls import stalls

SECONDS: Final = 8.0
QUICK_SECONDS: Final = 1.5
GREEDY_MESSAGES: Final = 300_000
QUICK_DIVISOR: Final = 10
PINGS_PER_SECOND: Final = 50
TAIL_MAX: Final = 5.0
PERCENTILES: Final = ("p50", "p99", "p99.9")
HALF: Final = "half load"


@dataclass(frozen=True, slots=True)
class Kind:
    """Work by a schedule."""

    title: str
    work: Work
    goals: Mapping[str, Goal]
    """By percentile."""


def main(arguments: Sequence[str]) -> None:
    parser = contest_parser("Latency, and fairness.")
    parser.add_argument("--seconds", type=float, help=f"of each round (default: {SECONDS:g})")
    options = contest_options(parser, arguments)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    with (
        scratch_folder(options.folder) as folder,
        LoadGenerator(folder) as load,
        running((OURS, ACTIVEMQ), folder, options.store) as brokers,
    ):
        rows, figures = measured(Contest(load), brokers, options)
    title = (
        f"latency beside ActiveMQ {activemq_version()}: messages of 1 KiB, from the time when each was due, "
        f"{options.seconds:g} s each, {circumstances(options)}"
    )
    show(title, figures, options.json, rows)


def measured(
    contest: Contest, brokers: dict[str, Running], options: argparse.Namespace
) -> tuple[list[Row], list[Figure]]:
    warm_up(contest, brokers, options.warm_up)
    rows: list[Row] = []
    figures: list[Figure] = []
    for kind in kinds(half_load(contest, brokers[OURS], options), options.seconds):
        rounds = contest.rounds(kind.title, brokers, kind.work, options.rounds)
        rows += latency_rows(kind.title, rounds, PERCENTILES, kind.goals)
        if kind.title.startswith(HALF):
            figures += [*tails(kind.title, rounds), stalls()]
    greedy = GREEDY_MESSAGES // (QUICK_DIVISOR if options.quick else 1)
    work = Work(messages=greedy, persistent=False, asynchronous=True, pings=PINGS_PER_SECOND)
    title = f"{PINGS_PER_SECOND} requests per second beside a greedy producer"
    rounds = contest.rounds(title, brokers, work, options.rounds)
    return [*rows, *latency_rows(title, rounds, ("p50", "p99", "max"), {})], figures


def warm_up(contest: Contest, brokers: dict[str, Running], messages: int) -> None:
    for name, broker in brokers.items():
        progress(f"warming up {name}")
        for persistent in (True, False):
            contest.warm_up(broker, Work(messages=1, persistent=persistent), messages)


def half_load(contest: Contest, ours: Running, options: argparse.Namespace) -> int:
    """Half of the messages per second that *ours* passes on at its best."""
    messages = GREEDY_MESSAGES // (QUICK_DIVISOR if options.quick else 2)
    return int(contest.round(ours, Work(messages=messages, persistent=False, asynchronous=True)).rate / 2)


def kinds(half: int, seconds: float) -> Iterator[Kind]:
    asynchronous = Work(messages=0, asynchronous=True)
    for title, rate, work, goals in (
        ("500 msg/s, persistent sync", 500, Work(messages=0), {"p99": Goal(ACTIVEMQ, 1.0, 0.5)}),
        ("5,000 msg/s, persistent async", 5_000, asynchronous, {}),
        ("5,000 msg/s, non-persistent", 5_000, replace(asynchronous, persistent=False), {}),
        (f"{HALF}, {half:,} msg/s, non-persistent", half, replace(asynchronous, persistent=False), {}),
    ):
        yield Kind(title, replace(work, rate=rate, messages=int(rate * seconds)), goals)


def latency_rows(title: str, rounds: Rounds, percentiles: Sequence[str], goals: Mapping[str, Goal]) -> Iterator[Row]:
    for percentile in percentiles:
        yield Row(
            title=f"{title}: {percentile}",
            unit="ms",
            values={name: [it.done.latency[percentile] for it in done] for name, done in rounds.items()},
            less_is_better=True,
            goals=[goals[percentile]] if percentile in goals else [],
            cpu_microseconds={name: [it.cpu_microseconds for it in done] for name, done in rounds.items()},
        )


def tails(title: str, rounds: Rounds) -> Iterator[Figure]:
    for name, done in rounds.items():
        values = tuple(it.done.latency["p99.9"] / it.done.latency["p50"] for it in done)
        bound = TAIL_MAX if name == OURS else None
        yield Figure(f"{title}: {name}, p99.9 / p50", "×", values, at_most=bound)


if __name__ == "__main__":
    main(sys.argv[1:])
