"""Does a message cost more when there are many queues and connections, or when its queue is deep?

Queues: 1, 10, 100 and 1,000, each with a connection of its own that sends and receives; the number of messages in all
stays the same. Depth: a queue is filled to a thousand, a hundred thousand and a million messages, and at each depth
messages are put in at its end and taken out at its front, in transactions of a hundred. What counts is the broker's CPU
time for each message: for ours, at most 1.3 times as much at the highest as at the lowest.

    .venv/bin/python -m bench.growth [--quick] [--queues 1 10 …] [--depths 1000 100000 …]
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from bench.brokers import Running, activemq_version, scratch_folder
from bench.comparison import ACTIVEMQ, OURS, Row
from bench.contest import (
    SETTLE_SECONDS,
    Contest,
    Round,
    Rounds,
    circumstances,
    contest_options,
    contest_parser,
    cpu_row,
    running,
)
from bench.java_load import Done, LoadGenerator, Work
from bench.measure import Figure, progress, show

ROUNDS: Final = 5
QUEUES: Final = (1, 10, 100, 1_000)
QUICK_QUEUES: Final = (1, 100)
MESSAGES: Final = 60_000
DEPTHS: Final = (1_000, 100_000, 1_000_000)
QUICK_DEPTHS: Final = (1_000, 20_000)
DEPTH_MESSAGES: Final = 20_000
BATCH: Final = 100
QUICK_DIVISOR: Final = 6
GROWTH_MAX: Final = 1.3
DEEP: Final = "bench.deep"
DEEP_TAG: Final = "deep"


def main(arguments: Sequence[str]) -> None:
    parser = contest_parser("How cost grows with queues, connections and depth.", ROUNDS)
    parser.add_argument("--queues", type=int, nargs="*", help=f"default: {QUEUES}")
    parser.add_argument("--depths", type=int, nargs="*", help=f"default: {DEPTHS}")
    options = contest_options(parser, arguments, ROUNDS)
    options.queues = options.queues or (QUICK_QUEUES if options.quick else QUEUES)
    options.depths = options.depths or (QUICK_DEPTHS if options.quick else DEPTHS)
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        rows = [
            *by_queues(Contest(load), options, folder / "queues"),
            *by_depth(Contest(load), options, folder / "depth"),
        ]
    title = f"growth beside ActiveMQ {activemq_version()}: messages of 1 KiB, {circumstances(options)}"
    show(title, [*growth(rows, "queues"), *growth(rows, "depth")], options.json, rows)


def by_queues(contest: Contest, options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    total = MESSAGES // (QUICK_DIVISOR if options.quick else 1)
    with running((OURS, ACTIVEMQ), folder, options.store) as brokers:
        for broker in brokers.values():
            contest.warm_up(broker, Work(messages=1, persistent=False), options.warm_up)
        for queues in options.queues:
            work = Work(
                messages=total // queues,
                sources=queues,
                consumers=queues,
                queues=queues,
                shared=True,
                persistent=False,
                asynchronous=True,
            )
            title = f"{queues:,} queues and connections" if queues > 1 else "1 queue and connection"
            rounds = contest.rounds(title, brokers, work, options.rounds)
            yield cpu_row(f"{title}, non-persistent async", rounds, "queues", queues)


def by_depth(contest: Contest, options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    work = Work(messages=DEPTH_MESSAGES // (QUICK_DIVISOR if options.quick else 1), batch=BATCH)
    with running((OURS, ACTIVEMQ), folder, options.store) as brokers:
        deep = {name: DeepQueue(contest.load, broker) for name, broker in brokers.items()}
        for broker in brokers.values():
            contest.warm_up(broker, work, options.warm_up)
        for depth in options.depths:
            rounds: Rounds = {name: [] for name in deep}
            for name, queue in deep.items():
                progress(f"filling {name} to {depth:,}")
                queue.fill(depth, work)
                queue.pass_through(work)
            for turn in range(options.rounds):
                for name, queue in deep.items():
                    rounds[name].append(queue.pass_through(work))
                told = ", ".join(f"{name} {done[-1].cpu_microseconds:.1f}" for name, done in rounds.items())
                progress(f"depth {depth:,}: round {turn + 1}, µs CPU: {told}")
            yield cpu_row(f"depth {depth:,}, transacted, in and out", rounds, "depth", depth)


class DeepQueue:
    """A queue of one broker whose messages are numbered throughout: put in at the end, taken out at the front."""

    def __init__(self, load: LoadGenerator, broker: Running) -> None:
        self._load = load
        self._broker = broker
        self._taken = 0
        self._sent = 0

    def fill(self, depth: int, work: Work) -> None:
        missing = depth - (self._sent - self._taken)
        if missing > 0:
            self._do(replace(work, messages=missing, first=self._sent, consumers=0))
            self._sent += missing

    def pass_through(self, work: Work) -> Round:
        """Put messages in, then take as many out: the oldest ones, in order."""
        cpu_before = self._broker.cpu_seconds()
        put = self._do(replace(work, first=self._sent, consumers=0))
        self._sent += work.messages
        taken = self._do(replace(work, first=self._taken, send=False, partial=True))
        self._taken += work.messages
        time.sleep(SETTLE_SECONDS)
        cpu = (self._broker.cpu_seconds() - cpu_before) / work.messages * 1e6
        return Round(taken, work.messages / (put.seconds + taken.seconds), cpu, self._broker.rss_bytes())

    def _do(self, work: Work) -> Done:
        return self._load.do(work, self._broker.uri, DEEP, DEEP_TAG)


def growth(rows: Sequence[Row], family: str) -> Iterator[Figure]:
    """The highest of a *family* beside the lowest, for each broker; nothing if there is but one."""
    known = sorted((row for row in rows if row.family == family), key=lambda row: row.x)
    lowest, highest = known[0], known[-1]
    for name in lowest.values if highest is not lowest else ():
        base = median(lowest.values[name])
        values = tuple(value / base for value in highest.values[name])
        bound = GROWTH_MAX if name == OURS else None
        yield Figure(f"{name}: cost at {highest.x:,.0f} / at {lowest.x:,.0f}, {family}", "×", values, at_most=bound)


if __name__ == "__main__":
    main(sys.argv[1:])
