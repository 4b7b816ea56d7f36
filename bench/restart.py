"""How long does `ackwire serve` take to come back with a million messages in a queue?

From the start of the process to its ready line: after a crash (SIGKILL) right behind the last message, after a crash at
rest, after a clean stop, and after a clean stop with the index deleted, which the journal must make good. At the end
the queue is drained: every message must be there, once and in order.

    .venv/bin/python -m bench.restart [--messages N] [--repetitions N]
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.brokers import MB, Broker, Running, add_broker_options, chosen_broker, disk_bytes, scratch_folder
from bench.java_load import LoadGenerator, Work
from bench.measure import Figure, options_parser, progress, show, told

MESSAGES: Final = 1_000_000
QUICK_MESSAGES: Final = 100_000
REPETITIONS: Final = 3
BATCH: Final = 1_000
QUEUE: Final = "bench.restart"
TAG: Final = "restart"


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("Restart with many messages pending.")
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK_MESSAGES:,} messages")
    parser.add_argument("--messages", type=int, help=f"messages of 1 KiB (default: {MESSAGES:,})")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="default: %(default)s")
    add_broker_options(parser)
    options = parser.parse_args(arguments)
    messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    with (
        scratch_folder(options.folder) as folder,
        LoadGenerator(folder) as load,
        chosen_broker(options, folder) as broker,
    ):
        figures = told(
            measured(broker, load, folder / "data", Work(messages=messages, batch=BATCH), options.repetitions)
        )
    show(
        f"restart, {options.broker}: {messages:,} persistent messages of 1 KiB pending in one queue",
        figures,
        options.json,
    )


def measured(broker: Broker, load: LoadGenerator, data: Path, work: Work, repetitions: int) -> Iterator[Figure]:
    yield Figure("start, empty", "s", (seconds_of(broker.start),))
    broker.stop()
    running = broker.start()
    load.open(replace(work, consumers=0), running.uri, QUEUE, TAG)
    yield Figure("filling", "msg/s", (work.total / load.run().seconds,))
    broker.kill()
    yield Figure("restart after kill -9 right behind the last message", "s", (seconds_of(broker.start),))
    yield Figure("disk used", "MB", (disk_bytes(data) / MB,))
    yield restarts("kill -9 at rest", broker, broker.kill, repetitions)
    yield Figure("clean stop", "s", (seconds_of(broker.stop),))
    broker.start()
    yield restarts("a clean stop", broker, broker.stop, repetitions)
    if (data / "index").is_dir():
        yield restarts("a clean stop, index deleted", broker, partial(stop_and_forget, broker, data), repetitions)
    else:
        progress("there is no folder named index in the data: deleting it is not measured")
    broker.stop()
    yield from drained(broker.start(), load, work)


def restarts(after: str, broker: Broker, end: Callable[[], object], repetitions: int) -> Figure:
    """Restart the running *broker* some times, each time ended by *end*; it runs afterwards."""
    seconds = []
    for _ in range(repetitions):
        end()
        seconds.append(seconds_of(broker.start))
    return Figure(f"restart after {after}", "s", tuple(seconds))


def stop_and_forget(broker: Broker, data: Path) -> None:
    broker.stop()
    shutil.rmtree(data / "index")


def drained(running: Running, load: LoadGenerator, work: Work) -> list[Figure]:
    rss = Figure("RSS after restart", "MB", (running.rss_bytes() / MB,))
    load.open(replace(work, send=False), running.uri, QUEUE, TAG)
    return [rss, Figure("draining, complete and in order", "msg/s", (work.total / load.run().seconds,))]


def seconds_of(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


if __name__ == "__main__":
    main(sys.argv[1:])
