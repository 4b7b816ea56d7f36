"""How fast is a group of three `ackwire serve` beside a RabbitMQ cluster with a quorum queue, and beside one alone?

    .venv/bin/python -m bench.replicated [--quick] [--against RabbitMQ]

All nodes are on one machine, so a message costs three times: what counts is the ratio, and the CPU of all processes of
a group (without ZooKeeper, which is asked a few times a second whatever the load). Java clients connect to the master,
and those of RabbitMQ to the node that leads the queue. They take turns (`contest.py`).

A consumer is at work all the time, and a message that it has acknowledged before a disk has it is answered for without
being written (`store.early_dispatch`). With `--stores-first` each message is written and replicated first, as RabbitMQ
does with each.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.brokers import Running, rabbitmq_version, scratch_folder
from bench.comparison import OURS, RABBITMQ, Goal
from bench.contest import Contest, circumstances, contender, contest_options, contest_parser, rate_row
from bench.groups import Group, RabbitMqCluster
from bench.java_load import LoadGenerator, Work
from bench.measure import progress, show
from bench.versus_activemq import Kind

SINGLE: Final = "one Ackwire"
AGAINST: Final = (RABBITMQ, SINGLE)
QUICK_DIVISOR: Final = 5
QUORUM: Final = "RabbitMQ: publisher confirms, quorum queue with three members, leader where the client is"

KINDS: Final = {
    "sync_1": Kind("persistent, 1 producer that waits for each", Work(messages=3_000, quorum=True), (), QUORUM),
    "sync_16": Kind(
        "persistent, 16 producers that wait for each",
        Work(messages=1_000, sources=16, quorum=True),
        (Goal(RABBITMQ, 1.5),),
        QUORUM,
    ),
    "transacted": Kind(
        "transactions of 100",
        Work(messages=10_000, batch=100, quorum=True),
        (),
        "RabbitMQ: 100 messages confirmed together, and acknowledged with one ack; not a unit",
    ),
}


def main(arguments: Sequence[str]) -> None:
    parser = contest_parser("Three nodes of Ackwire and of RabbitMQ in turn.")
    parser.add_argument("--works", nargs="+", choices=KINDS, default=list(KINDS), help="which kinds of work")
    parser.add_argument("--against", nargs="*", choices=AGAINST, default=list(AGAINST), help="besides the group")
    parser.add_argument("--stores-first", action="store_true", help="ours with store.early_dispatch off")
    options = contest_options(parser, arguments)
    options.store = "replicated"
    rows = []
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        contest = Contest(load)
        with running(options.against, folder, stores_first=options.stores_first) as brokers:
            warm_up(contest, brokers, options)
            for name in options.works:
                kind = KINDS[name]
                work = replace(kind.work, messages=kind.work.messages // (QUICK_DIVISOR if options.quick else 1))
                goals = [it for it in kind.goals if it.against in brokers]
                done = contest.rounds(kind.title, brokers, work, options.rounds)
                rows.append(rate_row(kind.title, done, goals, kind.note))
    first = ", early_dispatch off" if options.stores_first else ""
    title = f"three nodes{first}, beside RabbitMQ {rabbitmq_version()}: messages of 1 KiB, {circumstances(options)}"
    show(title, (), options.json, rows)


def warm_up(contest: Contest, brokers: dict[str, Running], options: argparse.Namespace) -> None:
    for name, broker in brokers.items():
        progress(f"warming up {name}")
        contest.warm_up(broker, KINDS["transacted"].work, options.warm_up)


@contextmanager
def running(against: Sequence[str], folder: Path, *, stores_first: bool) -> Iterator[dict[str, Running]]:
    """The group, and what it is compared with, started."""
    with ExitStack() as stack:
        brokers = {OURS: stack.enter_context(Group(folder / "group", stores_first=stores_first)).start()}
        if RABBITMQ in against:
            brokers[RABBITMQ] = stack.enter_context(RabbitMqCluster(folder / "rabbitmq")).start()
        if SINGLE in against:
            brokers[SINGLE] = stack.enter_context(
                contender(OURS, folder / "single", "journal", stores_first=stores_first)
            ).start()
        yield brokers


if __name__ == "__main__":
    main(sys.argv[1:])
