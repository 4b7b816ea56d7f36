"""How fast is `ackwire serve` beside RabbitMQ, on the closest equivalents, each with its own Java client?

RabbitMQ speaks another protocol and makes other promises, so these are no races on the same track: what differs is said
beside each figure. Both run on loopback with fresh data and the same limit of memory, and take turns (`contest.py`).

    .venv/bin/python -m bench.versus_rabbitmq [--quick]
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.brokers import rabbitmq_version, scratch_folder
from bench.comparison import OURS, RABBITMQ
from bench.contest import Contest, circumstances, contest_options, contest_parser, rate_row, running
from bench.java_load import LoadGenerator, Work
from bench.measure import progress, show

QUICK_DIVISOR: Final = 5
CLASSIC: Final = (
    "RabbitMQ: classic durable queue, publisher confirms, manual acks, window 1,000; it confirms a message when its "
    "consumer has acknowledged it, or else after a flush that serves many, so it may not be on disk"
)
QUORUM: Final = "RabbitMQ: quorum queue of one member, which syncs its log before it confirms, as ours does"


@dataclass(frozen=True, slots=True)
class Kind:
    """Work that both can do."""

    title: str
    work: Work
    note: str


KINDS: Final = (
    Kind(
        "non-persistent async, 1 → 1",
        Work(messages=150_000, persistent=False, asynchronous=True),
        "RabbitMQ: automatic acks, so a message is done with when it is sent; ours are acknowledged one by one",
    ),
    Kind("persistent, 1 producer that waits for each", Work(messages=4_000), CLASSIC),
    Kind("persistent, 16 producers that wait for each", Work(messages=1_250, sources=16), CLASSIC),
    Kind("persistent, 1 producer, quorum queue", Work(messages=4_000, quorum=True), QUORUM),
    Kind("persistent, 16 producers, quorum queue", Work(messages=1_250, sources=16, quorum=True), QUORUM),
    Kind(
        "fan-out to 10, non-persistent async",
        Work(messages=15_000, persistent=False, asynchronous=True, topic=True, consumers=10),
        "RabbitMQ: fanout exchange, a queue for each, automatic acks; ours: a topic, acknowledged in batches",
    ),
)


def main(arguments: Sequence[str]) -> None:
    options = contest_options(contest_parser("Ackwire and RabbitMQ in turn."), arguments)
    rows = []
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        contest = Contest(load)
        with running((OURS, RABBITMQ), folder, options.store) as brokers:
            for name, broker in brokers.items():
                progress(f"warming up {name}")
                contest.warm_up(broker, KINDS[0].work, options.warm_up)
            for kind in KINDS:
                work = replace(kind.work, messages=kind.work.messages // (QUICK_DIVISOR if options.quick else 1))
                rows.append(
                    rate_row(kind.title, contest.rounds(kind.title, brokers, work, options.rounds), (), kind.note)
                )
    title = (
        f"versus RabbitMQ {rabbitmq_version()}: the closest equivalents, messages of 1 KiB, {circumstances(options)}"
    )
    show(title, (), options.json, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
