"""Ackwire on PostgreSQL beside ActiveMQ's JDBC store on the same server; a journal in front of it beside a plain one.

    .venv/bin/python -m bench.stores [--works sync_1 sync_16 …]

The server syncs, as a real one does. Each broker has a database of its own on it; they take turns, with the Java client
as the load. ActiveMQ has the defaults of its JDBC store, and a pool of connections.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.brokers import (
    ACTIVEMQ_MEMORY,
    KAHADB_JARS,
    LISTENER,
    Broker,
    Running,
    ackwire,
    activemq_version,
    scratch_folder,
)
from bench.comparison import OURS, Goal, Row
from bench.contest import Contest, circumstances, contest_options, contest_parser, rate_row
from bench.java_load import LoadGenerator, Work, java_classes
from bench.measure import progress, show
from bench.versus_activemq import QUICK_DIVISOR, Kind
from tests.helpers.databases import PostgresqlServer
from tests.helpers.java import classpath

JDBC: Final = "ActiveMQ JDBC"
PLAIN: Final = "plain journal"
JDBC_JARS: Final = (*KAHADB_JARS, "activemq-jdbc-store.jar", "jaxb-api.jar", "postgresql.jar")
WARM_UP_MESSAGES: Final = 10_000
BACKLOG_MESSAGES: Final = 200_000
BACKLOG_BATCH: Final = 1_000

KINDS: Final = {
    "sync_1": Kind("persistent sync, 1 producer", Work(messages=2_000), (Goal(JDBC, 1.5),)),
    "sync_16": Kind("persistent sync, 16 producers", Work(sources=16, messages=500), (Goal(JDBC, 3.0),)),
    "transacted": Kind("transacted, 100 per commit", Work(messages=10_000, batch=100), (Goal(JDBC, 3.0),)),
    "drain": Kind(
        "draining a backlog",
        Work(messages=BACKLOG_MESSAGES, batch=BACKLOG_BATCH),
        (Goal(JDBC, 2.0),),
        "sent before, 1,000 per commit; consumed in transactions of the same size",
    ),
    "journal_sync_16": Kind(
        "journal in front, sync, 16 producers", Work(sources=16, messages=1_250), (Goal(PLAIN, 0.8),)
    ),
    "journal_async": Kind(
        "journal in front, async, 1 → 1", Work(messages=40_000, asynchronous=True), (Goal(PLAIN, 0.8),)
    ),
}
BACKLOGS: Final = {"drain"}
DRAIN_ROUNDS: Final = 1
"""Each fills and drains a new backlog."""


def main(arguments: Sequence[str]) -> None:
    parser = contest_parser("Ackwire and ActiveMQ on the same PostgreSQL, in turn, with the same load.")
    parser.add_argument("--works", nargs="+", choices=KINDS, default=list(KINDS), help="which kinds of work")
    options = contest_options(parser, arguments)
    options.warm_up = min(options.warm_up, WARM_UP_MESSAGES)
    server = PostgresqlServer(syncs=True)
    try:
        with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
            rows = [compared(name, options, server, folder / name, Contest(load)) for name in options.works]
    finally:
        server.remove()
    options.store = "postgresql"
    title = f"stores: PostgreSQL, beside ActiveMQ {activemq_version()} (JDBC): Java client, {circumstances(options)}"
    show(title, (), options.json, rows)


def compared(name: str, options: argparse.Namespace, server: PostgresqlServer, folder: Path, contest: Contest) -> Row:
    kind = KINDS[name]
    work = replace(kind.work, messages=kind.work.messages // (QUICK_DIVISOR if options.quick else 1))
    against = kind.goals[0].against
    with running(against, server, folder) as brokers:
        for broker_name, broker in brokers.items():
            progress(f"{kind.title}: warming up {broker_name}")
            contest.warm_up(broker, work, options.warm_up)
        if name in BACKLOGS:
            return drained(kind, work, brokers, contest)
        return rate_row(kind.title, contest.rounds(kind.title, brokers, work, options.rounds), kind.goals, kind.note)


def drained(kind: Kind, work: Work, brokers: Mapping[str, Running], contest: Contest) -> Row:
    rates: dict[str, list[float]] = {name: [] for name in brokers}
    for _ in range(DRAIN_ROUNDS):
        for name, broker in brokers.items():
            tag = contest.tag()
            progress(f"{kind.title}: {work.messages:,} messages into {name}")
            contest.load.do(replace(work, consumers=0), broker.uri, tag, tag)
            done = contest.load.do(replace(work, send=False), broker.uri, tag, tag)
            rates[name].append(work.total / done.seconds)
            progress(f"{kind.title}: {name} {rates[name][-1]:,.0f} msg/s")
    return Row(title=kind.title, unit="msg/s", values=rates, goals=kind.goals, note=kind.note)


@contextmanager
def running(against: str, server: PostgresqlServer, folder: Path) -> Iterator[dict[str, Running]]:
    """Ours and the one that it is compared *against*, started, each with a new database or a new journal."""
    own = ours(server, folder, "journal+" if against == PLAIN else "")
    other = ackwire(made(folder / "plain"), "journal") if against == PLAIN else jdbc(server, folder)
    with own, other:
        yield {OURS: own.start(), against: other.start()}


def ours(server: PostgresqlServer, folder: Path, front: str) -> Broker:
    return ackwire(made(folder / "ours"), front + server.new_database())


def jdbc(server: PostgresqlServer, folder: Path) -> Broker:
    own = made(folder / "activemq")
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/{server.new_database().rpartition('/')[2]}"
    argv = ["java", *ACTIVEMQ_MEMORY, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    argv += ["-cp", classpath(JDBC_JARS, java_classes("jdbc", JDBC_JARS)), "PooledJdbcBroker"]
    return Broker([*argv, url, "ackwire", LISTENER, str(own / "data")], own / "activemq.log")


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
