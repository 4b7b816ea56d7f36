"""Can a queue hold far more than the broker's memory limit?

Sends two million messages of 1 KiB without a consumer, with `limits.memory_bytes_max` at 256 MiB, and samples the
broker's RSS: sends must go on, and memory must not grow with the backlog. Then the queue is drained and verified: every
message once and in order.

    .venv/bin/python -m bench.backlog [--messages N] [--memory "256 MiB"]
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.brokers import MemorySampler, Running, ackwire, disk_bytes, scratch_folder
from bench.comparison import MB
from bench.java_load import LoadGenerator, Work
from bench.measure import Figure, options_parser, show, told

MESSAGES: Final = 2_000_000
QUICK_MESSAGES: Final = 400_000
MEMORY: Final = "256 MiB"
BATCH: Final = 1_000
QUEUE: Final = "bench.backlog"
TAG: Final = "backlog"


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("A backlog beyond the memory limit.")
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK_MESSAGES:,} messages")
    parser.add_argument("--messages", type=int, help=f"messages of 1 KiB (default: {MESSAGES:,})")
    parser.add_argument("--memory", default=MEMORY, help="limits.memory_bytes_max (default: %(default)s)")
    parser.add_argument("--store", default="journal", help="a store that writes files (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    config = f'[limits]\nmemory_bytes_max = "{options.memory}"\n'
    with (
        scratch_folder(options.folder) as folder,
        LoadGenerator(folder) as load,
        ackwire(folder, options.store, config) as broker,
    ):
        figures = told(measured(broker.start(), load, folder / "data", Work(messages=messages, batch=BATCH)))
    title = (
        f"backlog: {messages:,} persistent messages of 1 KiB, memory_bytes_max {options.memory}, {BATCH:,} per commit"
    )
    show(title, figures, options.json)


def measured(running: Running, load: LoadGenerator, data: Path, work: Work) -> Iterator[Figure]:
    yield Figure("RSS, fresh", "MB", (running.rss_bytes() / MB,))
    with MemorySampler(running) as sending:
        sent = load.do(replace(work, consumers=0), running.uri, QUEUE, TAG)
    rates = tuple(work.messages / 10 / (end - start) for start, end in pairwise((0.0, *sent.tenths)))
    yield Figure(
        "sending, by tenths of the messages", "msg/s", rates, "sends go on, as fast at the end as at the start"
    )
    yield Figure("sending, last tenth", "msg/s", rates[-1:])
    yield Figure("RSS, highest while sending", "MB", (sending.max_bytes / MB,), "bounded, whatever the backlog")
    yield Figure("disk, all written", "MB", (disk_bytes(data) / MB,))
    with MemorySampler(running) as draining:
        drained = load.do(replace(work, send=False), running.uri, QUEUE, TAG)
    yield Figure("draining, complete and in order", "msg/s", (work.total / drained.seconds,))
    yield Figure("RSS, highest while draining", "MB", (draining.max_bytes / MB,))
    yield Figure("RSS, at the end", "MB", (running.rss_bytes() / MB,))


if __name__ == "__main__":
    main(sys.argv[1:])
