"""How fast is `ackwire serve` beside the real ActiveMQ, with the real Java client as the load?

For each kind of work both brokers run on this machine, with fresh data, and are warmed up; then they take turns
(`contest.py`). ActiveMQ has KahaDB with its defaults, which flush to disk always; "tuned" is
`concurrentStoreAndDispatchQueues=false`, its best for many producers. By default both brokers answer a producer when
its message is on disk or consumed; with that option, and our `early_dispatch = "off"`, only when it is on disk.
`--quick` lets the same brokers do all kinds.

    .venv/bin/python -m bench.versus_activemq [--quick] [--works sync_1 sync_16 …]
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.brokers import activemq_version, scratch_folder
from bench.comparison import ACTIVEMQ, OURS, TUNED, Goal, Row
from bench.contest import Contest, circumstances, contest_options, contest_parser, rate_row, running
from bench.java_load import KIB, LoadGenerator, Work
from bench.measure import progress, show

QUICK_DIVISOR: Final = 6


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work, and the ratio to reach."""

    title: str
    work: Work
    goals: Sequence[Goal] = ()
    note: str = ""
    stores_first: bool = False
    """Whether both answer only when a message is on disk."""

    @property
    def contenders(self) -> tuple[str, ...]:
        if self.stores_first:
            return (OURS, TUNED)
        return (OURS, ACTIVEMQ, *(goal.against for goal in self.goals if goal.against != ACTIVEMQ))


def at_least(bound: float, aim: float) -> tuple[Goal, ...]:
    return (Goal(ACTIVEMQ, bound, aim),)


KINDS: Final = {
    "nonpersistent": Kind(
        "non-persistent async, 1 → 1",
        Work(messages=150_000, persistent=False, asynchronous=True),
        at_least(1.3, 1.8),
    ),
    "sync_1": Kind("persistent sync, 1 producer", Work(messages=5_000), at_least(1.5, 2.0)),
    "sync_1_stored": Kind(
        "persistent sync, 1 producer, stored first",
        Work(messages=5_000),
        note="early_dispatch off here, concurrentStoreAndDispatchQueues=false there: answered only when on disk",
        stores_first=True,
    ),
    "sync_16": Kind(
        "persistent sync, 16 producers",
        Work(sources=16, messages=1_250),
        (Goal(ACTIVEMQ, 2.0, 3.5), Goal(TUNED, 1.2)),
    ),
    "async": Kind("persistent async, 1 → 1", Work(messages=40_000, asynchronous=True), at_least(2.5, 5.0)),
    "transacted": Kind(
        "transacted, 100 per commit",
        Work(messages=40_000, batch=100),
        at_least(1.0, 2.0),
        "both sides, persistent",
    ),
    "topic": Kind(
        "topic to 10 subscribers",
        Work(messages=20_000, persistent=False, asynchronous=True, topic=True, consumers=10),
        at_least(1.0, 1.5),
        "non-persistent async; messages published, each is delivered 10 times",
    ),
    "durable": Kind(
        "5 durable subscribers",
        Work(messages=3_000, topic=True, durable=True, consumers=5),
        at_least(1.2, 2.0),
        "persistent sync; messages published, each is delivered 5 times",
    ),
    "selectors": Kind(
        "4 selectors",
        Work(messages=100_000, persistent=False, asynchronous=True, consumers=4, selectors=4),
        at_least(1.0, 1.5),
        "one queue, non-persistent async; 4 consumers take a quarter each",
    ),
    "body_1": Kind(
        "body of 1 B, non-persistent async",
        Work(messages=150_000, persistent=False, asynchronous=True, body_bytes=1),
        note="verified by its correlation id",
    ),
    "body_100k": Kind(
        "body of 100 KiB, non-persistent async",
        Work(messages=6_000, persistent=False, asynchronous=True, body_bytes=100 * KIB),
    ),
    "async_1": Kind(
        "body of 1 B, persistent async",
        Work(messages=40_000, asynchronous=True, body_bytes=1),
        note="verified by its correlation id",
    ),
    "async_100k": Kind(
        "body of 100 KiB, persistent async",
        Work(messages=3_000, asynchronous=True, body_bytes=100 * KIB),
    ),
}
NOT_QUICK: Final = {"async_1", "async_100k", "sync_1_stored"}


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    kinds = {name: adapted(KINDS[name], options) for name in options.works}
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        rows = list(compared(kinds, options, folder, Contest(load)))
    title = (
        f"versus ActiveMQ {activemq_version()} (KahaDB): Java client, messages of 1 KiB if not said otherwise, "
        f"{circumstances(options)}"
    )
    show(title, (), options.json, rows)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = contest_parser("Ackwire and ActiveMQ in turn, with the same load.")
    parser.add_argument("--works", nargs="+", choices=KINDS, help="which kinds of work (default: all, if not quick)")
    parser.add_argument("--consumers", type=int, default=1, help="consumers of sync_16 (default: %(default)s)")
    options = contest_options(parser, arguments)
    options.works = options.works or [name for name in KINDS if not (options.quick and name in NOT_QUICK)]
    return options


def adapted(kind: Kind, options: argparse.Namespace) -> Kind:
    """*kind* as the options want it."""
    consumers = options.consumers if kind.work.sources > 1 else kind.work.consumers
    messages = kind.work.messages // (QUICK_DIVISOR if options.quick else 1)
    return replace(kind, work=replace(kind.work, messages=messages, consumers=consumers))


def compared(kinds: Mapping[str, Kind], options: argparse.Namespace, folder: Path, contest: Contest) -> Iterator[Row]:
    """Fresh brokers for each kind, which is warmed up by itself; in quick runs the same ones do all."""
    if options.quick:
        yield from of_the_same(list(kinds.values()), options, folder, contest)
        return
    for name, kind in kinds.items():
        yield from of_the_same([kind], options, folder / name, contest)


def of_the_same(kinds: Sequence[Kind], options: argparse.Namespace, folder: Path, contest: Contest) -> Iterator[Row]:
    names = list(dict.fromkeys(name for kind in kinds for name in kind.contenders))
    with running(names, folder, options.store, stores_first=kinds[0].stores_first) as brokers:
        for name, broker in brokers.items():
            progress(f"{kinds[0].title}: warming up {name}")
            contest.warm_up(broker, kinds[0].work, options.warm_up)
        for kind in kinds:
            taking_part = {name: brokers[name] for name in kind.contenders}
            rounds = contest.rounds(kind.title, taking_part, kind.work, options.rounds)
            yield rate_row(kind.title, rounds, kind.goals, kind.note)


if __name__ == "__main__":
    main(sys.argv[1:])
