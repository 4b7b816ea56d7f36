"""Brokers that take turns at the same work, with the same load generator.

All run at once, and one is loaded: ours, theirs, ours, theirs. Each is warmed up first. Every round is verified: each
message arrived exactly once, whole, in the order of its sender, and none is left.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from bench.brokers import MEMORY_BYTES_MAX, Broker, RabbitMq, Running, ackwire, activemq
from bench.comparison import OURS, RABBITMQ, TUNED, Goal, Row
from bench.java_load import KIB, Done, LoadFailed, LoadGenerator, Work
from bench.measure import options_parser, progress

ROUNDS: Final = 5
WARM_UP_MESSAGES: Final = 60_000  # ActiveMQ's JVM needs them
QUICK_ROUNDS: Final = 2
QUICK_WARM_UP_MESSAGES: Final = 10_000
SETTLE_SECONDS: Final = 0.3  # what a broker does after a round counts, and should not fall into the other's
PRACTICE_DIVISOR: Final = 3
DESTINATION: Final = "bench"
SMALL_BYTES: Final = KIB


@dataclass(frozen=True, slots=True)
class Round:
    """What one broker did in one round."""

    done: Done
    rate: float
    cpu_microseconds: float
    """Of the broker, for each message sent."""
    rss_bytes: int


Rounds = dict[str, list[Round]]
"""By contender, in order."""


def contest_parser(description: str, rounds: int = ROUNDS) -> argparse.ArgumentParser:
    """A parser with the options that all contests have; see `contest_options`."""
    parser = options_parser(description)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds, less warm-up")
    parser.add_argument("--rounds", type=int, help=f"rounds of each broker (default: {rounds})")
    parser.add_argument("--warm-up", type=int, metavar="MESSAGES", help=f"for each broker ({WARM_UP_MESSAGES})")
    parser.add_argument("--store", default="journal", help="Ackwire's store (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the brokers' data goes (default: as tempfile says)")
    return parser


def contest_options(
    parser: argparse.ArgumentParser, arguments: Sequence[str], rounds: int = ROUNDS
) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else rounds)
    options.warm_up = options.warm_up or (QUICK_WARM_UP_MESSAGES if options.quick else WARM_UP_MESSAGES)
    return options


def circumstances(options: argparse.Namespace) -> str:
    """For the title: how it was measured."""
    store = f"store {options.store}" + (", which writes nothing," if options.store == "memory" else "")
    quick = "QUICK, for a first look only: " if options.quick else ""
    return f"{quick}{store}, {options.rounds} rounds in turn after {options.warm_up:,} messages of warm-up"


def contender(name: str, folder: Path, store: str, *, stores_first: bool = False) -> Broker:
    """A broker, not started yet, with its data below *folder*; ours with `early_dispatch` off if it *stores_first*."""
    own = folder / name.lower().replace(" ", "-")
    own.mkdir(parents=True)
    if name == OURS:
        config = f"[limits]\nmemory_bytes_max = {MEMORY_BYTES_MAX}\n"
        if stores_first:
            config += "[store]\nstore_first = true\n"  # the old name, which earlier commits know, too
        return ackwire(own, store, config)
    if name == RABBITMQ:
        return RabbitMq(own)
    return activemq(own, concurrent_store_and_dispatch=name != TUNED)


@contextmanager
def running(
    names: Sequence[str], folder: Path, store: str, *, stores_first: bool = False
) -> Iterator[dict[str, Running]]:
    """Brokers with fresh data, started."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(contender(name, folder, store, stores_first=stores_first)).start()
            for name in names
        }


class Contest:
    """Rounds of load against one broker or another, each with messages of its own."""

    def __init__(self, load: LoadGenerator) -> None:
        self.load = load
        self._tags = (f"round{number}" for number in count())

    def tag(self) -> str:
        """Marks messages; no two are alike."""
        return next(self._tags)

    def warm_up(self, broker: Running, work: Work, messages: int) -> None:
        """*messages* like those of *work*, sent without waiting where it waits for each, and small where it has big."""
        each = max(1, messages // work.sources)
        size = min(work.body_bytes, SMALL_BYTES)
        self.round(broker, replace(work, messages=each, asynchronous=True, rate=0, pings=0, body_bytes=size))

    def round(self, broker: Running, work: Work) -> Round:
        self.load.open(work, broker.uri, DESTINATION, self.tag())
        cpu_before = broker.cpu_seconds()
        done = self.load.run()
        time.sleep(SETTLE_SECONDS)
        cpu = broker.cpu_seconds() - cpu_before
        rss = broker.rss_bytes()
        self.load.close()
        if broker.uri.startswith("tcp:") and not work.topic and self.load.has_left(broker.uri, DESTINATION):
            raise LoadFailed(f"{broker.uri}: messages are left in the queue, though all were acknowledged")
        return Round(done, work.total / done.seconds, cpu / work.total * 1e6, rss)

    def rounds(self, title: str, brokers: dict[str, Running], work: Work, rounds: int) -> Rounds:
        """Let *brokers* take turns, after a smaller round that does not count."""
        for broker in brokers.values():
            self.round(broker, replace(work, messages=max(1, work.messages // PRACTICE_DIVISOR)))
        results: Rounds = {name: [] for name in brokers}
        for turn in range(rounds):
            for name, broker in brokers.items():
                results[name].append(self.round(broker, work))
            rates = ", ".join(f"{name} {done[-1].rate:,.0f}" for name, done in results.items())
            progress(f"{title}: round {turn + 1}, msg/s: {rates}")
        return results


def rate_row(title: str, rounds: Rounds, goals: Sequence[Goal] = (), note: str = "") -> Row:
    """Messages per second, with what they cost."""
    return Row(
        title=title,
        unit="msg/s",
        values={name: [it.rate for it in done] for name, done in rounds.items()},
        cpu_microseconds={name: [it.cpu_microseconds for it in done] for name, done in rounds.items()},
        rss_bytes={name: [it.rss_bytes for it in done] for name, done in rounds.items()},
        goals=goals,
        note=note,
    )


def cpu_row(title: str, rounds: Rounds, family: str, x: float) -> Row:
    """CPU for each message, as a point of a line."""
    values = {name: [it.cpu_microseconds for it in done] for name, done in rounds.items()}
    return Row(title=title, unit="µs CPU", values=values, less_is_better=True, family=family, x=x)
