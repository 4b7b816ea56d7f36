"""What do 200,000 messages that wait in a queue cost: time in and out, memory, disk, and the next start?

Ackwire and ActiveMQ in turn, with their data on the same disk. Starting is timed from the start of the process to its
ready line, and with messages pending also until a client has read the first one. Restarts come after `kill -9` (the
first of them right behind the last message) and after a clean stop; ours also with its index deleted, which the journal
must make good. At the end all messages are taken: every one must be there, once and in order.

    .venv/bin/python -m bench.pending [--quick] [--messages N]
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from bench.brokers import Broker, MemorySampler, Running, activemq_version, disk_bytes, scratch_folder
from bench.comparison import ACTIVEMQ, MB, OURS, Goal, Row
from bench.contest import Contest, Rounds, circumstances, contender, contest_options, contest_parser, rate_row
from bench.contest import Round as ContestRound
from bench.java_load import LoadFailed, LoadGenerator, Work
from bench.measure import progress, show

MESSAGES: Final = 200_000
QUICK_MESSAGES: Final = 20_000
LOAD_MESSAGES: Final = 150_000
BATCH: Final = 100
QUICK_DIVISOR: Final = 10
REST_SECONDS: Final = 0.5
QUEUE: Final = "bench.pending"

NOT_ABOVE: Final = (Goal(ACTIVEMQ, 1.0),)
NOT_ABOVE_OR_HALF: Final = (Goal(ACTIVEMQ, 1.0, 0.5),)
HALF: Final = (Goal(ACTIVEMQ, 0.5),)
THIRD: Final = (Goal(ACTIVEMQ, 1 / 3),)
IN_AND_OUT: Final = (Goal(ACTIVEMQ, 1.0, 1.5),)


@dataclass(slots=True)
class Contender:
    """A broker that is started repeatedly, and its measurements by name."""

    name: str
    broker: Broker
    data: Path
    running: Running | None = None
    measured: dict[str, list[float]] = field(default_factory=dict)
    rounds: dict[str, list[ContestRound]] = field(default_factory=dict)

    def note(self, what: str, value: float) -> None:
        self.measured.setdefault(what, []).append(value)

    def start(self) -> float:
        """Start it; the seconds until it is ready."""
        began = time.monotonic()
        self.running = self.broker.start()
        return time.monotonic() - began

    @property
    def now(self) -> Running:
        assert self.running is not None, "not started"
        return self.running


def main(arguments: Sequence[str]) -> None:
    parser = contest_parser("Messages that wait.")
    parser.add_argument("--messages", type=int, help=f"that wait (default: {MESSAGES:,})")
    options = contest_options(parser, arguments)
    options.messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load, ExitStack() as stack:
        contenders = [
            Contender(name, stack.enter_context(contender(name, folder, options.store)), data_folder(folder, name))
            for name in (OURS, ACTIVEMQ)
        ]
        measure(contenders, Contest(load), options)
    title = (
        f"{options.messages:,} persistent messages of 1 KiB pending, beside ActiveMQ {activemq_version()}: "
        f"{BATCH} per commit, {circumstances(options)}"
    )
    show(title, (), options.json, list(rows(contenders, options.messages)))


def data_folder(folder: Path, name: str) -> Path:
    return folder / name.lower() / "data"


def measure(contenders: Sequence[Contender], contest: Contest, options: argparse.Namespace) -> None:
    starts(contenders, options.rounds)
    for it in contenders:
        it.start()
    under_load(contenders, contest, options)
    work = Work(messages=options.messages, batch=BATCH)
    for turn in range(options.rounds):
        in_and_out(contenders, contest, work)
        progress(f"in and out: round {turn + 1}")
    tag = contest.tag()
    for it in contenders:
        progress(f"filling {it.name}")
        contest.load.do(replace(work, consumers=0), it.now.uri, QUEUE, tag)
        it.broker.kill()
        restarted(it, "kill -9", contest.load)  # each goes down while its last messages are fresh
    restarts(contenders, contest.load, options.rounds)
    without_index(contenders[0], contest.load)
    for it in contenders:
        contest.load.do(replace(work, send=False), it.now.uri, QUEUE, tag)


def starts(contenders: Sequence[Contender], rounds: int) -> None:
    for _ in range(rounds):
        for it in contenders:
            it.note("start", it.start())
            time.sleep(REST_SECONDS)
            it.note("rss fresh", it.now.rss_bytes())
            it.broker.stop()
    progress("started, empty")


def under_load(contenders: Sequence[Contender], contest: Contest, options: argparse.Namespace) -> None:
    """The highest RSS while messages pass through; persistent ones warm the brokers up."""
    passing = Work(messages=LOAD_MESSAGES // (QUICK_DIVISOR if options.quick else 1), persistent=False)
    for it in contenders:
        progress(f"warming up {it.name}")
        contest.warm_up(it.now, Work(messages=1, batch=BATCH), options.warm_up)
    for _ in range(options.rounds):
        for it in contenders:
            with MemorySampler(it.now) as sampler:
                contest.round(it.now, replace(passing, asynchronous=True))
            it.note("rss load", sampler.max_bytes)


def in_and_out(contenders: Sequence[Contender], contest: Contest, work: Work) -> None:
    tag = contest.tag()
    for it in contenders:
        taking_in = counted(it, replace(work, consumers=0), contest.load, tag)
        it.rounds.setdefault("in", []).append(taking_in)
        it.note("rss pending", taking_in.rss_bytes)
        it.note("disk", disk_bytes(it.data))
    for it in contenders:
        it.rounds.setdefault("out", []).append(counted(it, replace(work, send=False), contest.load, tag))


def counted(it: Contender, work: Work, load: LoadGenerator, tag: str) -> ContestRound:
    cpu_before = it.now.cpu_seconds()
    done = load.do(work, it.now.uri, QUEUE, tag)
    time.sleep(REST_SECONDS)
    cpu = (it.now.cpu_seconds() - cpu_before) / work.total * 1e6
    return ContestRound(done, work.total / done.seconds, cpu, it.now.rss_bytes())


def restarts(contenders: Sequence[Contender], load: LoadGenerator, rounds: int) -> None:
    for turn in range(rounds):
        for it in contenders:
            if turn > 0:
                it.broker.kill()
                restarted(it, "kill -9", load)
        for it in contenders:
            it.broker.stop()
            restarted(it, "a clean stop", load)
            it.note("rss restarted", it.now.rss_bytes())
        progress(f"restarts: round {turn + 1}")


def without_index(ours: Contender, load: LoadGenerator) -> None:
    ours.broker.stop()
    shutil.rmtree(ours.data / "index", ignore_errors=True)
    restarted(ours, "a clean stop, index deleted", load)


def restarted(it: Contender, after: str, load: LoadGenerator) -> None:
    began = time.monotonic()
    it.note(f"ready after {after}", it.start())
    if not load.has_left(it.now.uri, QUEUE):
        raise LoadFailed(f"{it.name}: the queue is empty after {after}")
    it.note(f"first after {after}", time.monotonic() - began)


# ---- what is shown ---------------------------------------------------------------------------------------------


def rows(contenders: Sequence[Contender], messages: int) -> Iterator[Row]:
    many = f"{messages // 1000}k"
    for way in ("in", "out"):
        rounds: Rounds = {it.name: it.rounds[way] for it in contenders}
        yield rate_row(f"{many} backlog {way}", rounds, IN_AND_OUT)
    for what, title, goals in (
        ("rss fresh", "RSS, fresh", NOT_ABOVE),
        ("rss load", "RSS, highest under load (non-persistent async)", HALF),
        ("rss pending", f"RSS, with {many} pending", THIRD),
        ("rss restarted", f"RSS, restarted with {many} pending", ()),
    ):
        yield row(contenders, what, title, "MB", goals, lambda value: value / MB)
    yield row(contenders, "disk", f"disk for each of {many} pending", "B", (), lambda value: value / messages)
    yield memory_each(contenders, messages, many)
    yield row(contenders, "start", "start, empty", "s", NOT_ABOVE_OR_HALF)
    for after in ("a clean stop", "kill -9"):
        for until, title in (("ready", "until ready"), ("first", "until a message is read")):
            what = f"{until} after {after}"
            yield row(contenders, what, f"restart after {after} with {many}, {title}", "s", NOT_ABOVE_OR_HALF)
    deleted = "ready after a clean stop, index deleted"
    yield row(contenders[:1], deleted, f"restart with {many}, index deleted, until ready", "s", ())


def row(
    contenders: Sequence[Contender],
    what: str,
    title: str,
    unit: str,
    goals: Sequence[Goal],
    scaled: Callable[[float], float] = lambda value: value,
) -> Row:
    values = {it.name: [scaled(value) for value in it.measured[what]] for it in contenders}
    return Row(title=title, unit=unit, values=values, less_is_better=True, goals=goals)


def memory_each(contenders: Sequence[Contender], messages: int, many: str) -> Row:
    """What a process has grown by since it was fresh; a JVM keeps what an earlier load made it take."""
    grown = {
        it.name: [(rss - median(it.measured["rss fresh"])) / messages for rss in it.measured["rss pending"]]
        for it in contenders
    }
    note = "RSS beyond that of a fresh process; a JVM keeps what earlier load made it take"
    title = f"memory for each of {many} pending"
    return Row(title=title, unit="B", values=grown, less_is_better=True, note=note)


if __name__ == "__main__":
    main(sys.argv[1:])
