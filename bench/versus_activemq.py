"""How fast is `ackwire serve` beside the real ActiveMQ, with the real Java client as the load?

For each kind of work both brokers run on this machine, with fresh data, and are warmed up. Then they take turns, round
by round, because neighbours change what a machine can do within seconds: the ratio of two rounds that follow each other
means something where the figures alone do not. ActiveMQ has KahaDB with its defaults, which flush to disk always;
"tuned" is `concurrentStoreAndDispatchQueues=false`, its best for many producers. Every round is verified: each message
arrived exactly once, whole, in order where there is one consumer, and none is left.

    .venv/bin/python -m bench.versus_activemq [--quick] [--works sync_1 sync_16 …]
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final

from bench.brokers import MB, Broker, Running, ackwire, activemq, activemq_version, scratch_folder
from bench.java_load import LoadFailed, LoadGenerator, Work
from bench.measure import Figure, options_parser, progress, show

ROUNDS: Final = 5
WARM_UP_MESSAGES: Final = 60_000  # ActiveMQ's JVM needs them
QUICK_ROUNDS: Final = 3
QUICK_WARM_UP_MESSAGES: Final = 15_000
QUICK_DIVISOR: Final = 2
PAUSE_SECONDS: Final = 0.3  # what a broker does after a round should not fall into the other's

OURS: Final = "Ackwire"
THEIRS: Final = "ActiveMQ"
TUNED: Final = "ActiveMQ tuned"
"""With `concurrentStoreAndDispatchQueues=false`, which is its best for many producers."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work, and what DESIGN.md says about it."""

    title: str
    work: Work
    found: str
    """ActiveMQ, messages per second."""
    goals: Mapping[str, str] = field(default_factory=dict)
    """The ratio to reach, by contender; whoever is named here takes part."""


KINDS: Final = {
    "sync_1": Kind(
        "persistent sync, 1 → 1",
        Work(messages=5_000),
        "1.2–1.9k",
        {THEIRS: "goal 1.5, moonshot 2"},
    ),
    "sync_16": Kind(
        "persistent sync, 16 → {consumers}",
        Work(sources=16, messages=1_250),
        "2.4–5.0k; tuned 7.5k",
        {THEIRS: "goal 2, moonshot 3.5", TUNED: "goal 1.2"},
    ),
    "transacted": Kind(
        "transacted, 100 per commit",
        Work(messages=40_000, batch=100),
        "9.6k",
        {THEIRS: "goal 1, moonshot 2"},
    ),
    "async": Kind(
        "persistent async, 1 → 1",
        Work(messages=40_000, asynchronous=True),
        "8.9k",
        {THEIRS: "goal 2.5, moonshot 5"},
    ),
    "nonpersistent": Kind(
        "non-persistent async, 1 → 1",
        Work(messages=150_000, persistent=False, asynchronous=True),
        "45–55k",
        {THEIRS: "goal 1.3, moonshot 1.8"},
    ),
}


@dataclass(frozen=True, slots=True)
class Round:
    """What one broker did in one round."""

    rate: float
    cpu_microseconds: float
    rss_bytes: int


Rounds = dict[str, list[Round]]
"""By contender, in order."""


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    kinds = {name: adapted(KINDS[name], options) for name in options.works}
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        results = [(kind, compared(kind, options, folder / name, load)) for name, kind in kinds.items()]
    figures = [figure for aspect in (ratios, rates, cpu, memory) for result in results for figure in aspect(*result)]
    store = f"store {options.store}" + (", which writes nothing," if options.store == "memory" else "")
    title = (
        f"versus ActiveMQ {activemq_version()}: messages of 1 KiB, Java client, {store} against KahaDB, "
        f"{options.rounds} rounds in turn after {options.warm_up:,} messages of warm-up"
    )
    show(title, figures, options.json)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = options_parser("Ackwire and ActiveMQ in turn, with the same load.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds, less warm-up")
    parser.add_argument("--works", nargs="+", choices=KINDS, default=list(KINDS), help="which kinds of work")
    parser.add_argument("--rounds", type=int, help=f"rounds of each broker (default: {ROUNDS})")
    parser.add_argument("--warm-up", type=int, metavar="MESSAGES", help=f"for each broker ({WARM_UP_MESSAGES})")
    parser.add_argument("--consumers", type=int, default=1, help="consumers of sync_16 (default: %(default)s)")
    parser.add_argument("--store", default="journal", help="Ackwire's store (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the brokers' data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.warm_up = options.warm_up or (QUICK_WARM_UP_MESSAGES if options.quick else WARM_UP_MESSAGES)
    return options


def adapted(kind: Kind, options: argparse.Namespace) -> Kind:
    """*kind* as the options want it."""
    consumers = options.consumers if kind.work.sources > 1 else 1
    messages = kind.work.messages // (QUICK_DIVISOR if options.quick else 1)
    work = replace(kind.work, messages=messages, consumers=consumers)
    return replace(kind, title=kind.title.format(consumers=consumers), work=work)


def compared(kind: Kind, options: argparse.Namespace, folder: Path, load: LoadGenerator) -> Rounds:
    """Let the brokers take turns at *kind*."""
    rounds: Rounds = {name: [] for name in (OURS, *kind.goals)}
    with ExitStack() as running:
        brokers = {name: running.enter_context(contender(name, folder, options.store)).start() for name in rounds}
        contest = Contest(load)
        for name, broker in brokers.items():
            progress(f"{kind.title}: warming up {name}")
            contest.warm_up(broker, kind.work, options.warm_up)
        for number in range(options.rounds):
            for name, broker in brokers.items():
                rounds[name].append(contest.round(broker, kind.work))
            rates = ", ".join(f"{name} {done[-1].rate:,.0f}" for name, done in rounds.items())
            progress(f"{kind.title}: round {number + 1}, msg/s: {rates}")
    return rounds


def contender(name: str, folder: Path, store: str) -> Broker:
    own = folder / str(len(list(folder.iterdir())) if folder.exists() else 0)
    own.mkdir(parents=True)
    if name == OURS:
        return ackwire(own, store)
    return activemq(own, concurrent_store_and_dispatch=name != TUNED)


class Contest:
    """Rounds of load against one broker or another, each with messages of its own."""

    def __init__(self, load: LoadGenerator) -> None:
        self._load = load
        self._tags = (f"round{number}" for number in count())

    def warm_up(self, broker: Running, work: Work, messages: int) -> None:
        """*messages* in all, sent without waiting where *work* waits for each; then a round of *work* itself."""
        each = max(1, messages // work.sources)
        self.round(broker, replace(work, messages=each, asynchronous=True))
        self.round(broker, work)

    def round(self, broker: Running, work: Work) -> Round:
        queue = "bench.versus"
        self._load.open(work, broker.uri, queue, next(self._tags))
        cpu_before = broker.cpu_seconds()
        done = self._load.run()
        cpu = broker.cpu_seconds() - cpu_before
        if self._load.has_left(broker.uri, queue):
            raise LoadFailed(f"{broker.uri}: messages are left in the queue, though all were acknowledged")
        time.sleep(PAUSE_SECONDS)
        return Round(work.total / done.seconds, cpu / work.total * 1e6, broker.rss_bytes())


def ratios(kind: Kind, rounds: Rounds) -> Iterator[Figure]:
    """Of each round of ours to the round of theirs that followed it."""
    for name, goal in kind.goals.items():
        pairs = zip(rounds[OURS], rounds[name], strict=True)
        values = tuple(ours.rate / theirs.rate for ours, theirs in pairs)
        yield Figure(f"{kind.title}: {OURS} / {name}", "×", values, goal)


def rates(kind: Kind, rounds: Rounds) -> Iterator[Figure]:
    for name, done in rounds.items():
        expected = kind.found if name == THEIRS else ""
        yield Figure(f"{kind.title}: {name}", "msg/s", tuple(r.rate for r in done), expected)


def cpu(kind: Kind, rounds: Rounds) -> Iterator[Figure]:
    for name, done in rounds.items():
        yield Figure(f"{kind.title}: {name}, CPU each", "µs", tuple(r.cpu_microseconds for r in done))


def memory(kind: Kind, rounds: Rounds) -> Iterator[Figure]:
    for name, done in rounds.items():
        yield Figure(f"{kind.title}: {name}, RSS", "MB", tuple(r.rss_bytes / MB for r in done))


if __name__ == "__main__":
    main(sys.argv[1:])
