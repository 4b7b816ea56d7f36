"""The journal with each of its indexes: a million messages in, a restart, the same after a kill, and all of them out.

    .venv/bin/python -m bench.indexes [--index lmdb|leveldb] [--messages N]

Without `--index` each index has its turn, on the same machine one after the other. A restart ends when clients can
connect: after a clean stop the index is compared with its seal, after a kill, before which nothing is sent, every
entry is checked, and without an index the whole journal is read.
"""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.brokers import Broker, MemorySampler, Running, ackwire, disk_bytes, scratch_folder
from bench.comparison import MB
from bench.java_load import LoadGenerator, Work
from bench.measure import Figure, options_parser, show, told

MESSAGES: Final = 1_000_000
QUICK_MESSAGES: Final = 100_000
INDEXES: Final = ("lmdb", "leveldb")
BATCH: Final = 1_000
"""Messages in a transaction: the disk is to be busy with the index as well as with syncs."""
QUEUE: Final = "bench.indexes"
TAG: Final = "indexes"


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("The journal with each of its indexes.")
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK_MESSAGES:,} messages")
    parser.add_argument("--messages", type=int, help=f"messages of 1 KiB (default: {MESSAGES:,})")
    parser.add_argument("--index", choices=INDEXES, help="store.index (default: each)")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    work = Work(messages=options.messages or (QUICK_MESSAGES if options.quick else MESSAGES), batch=BATCH)
    figures: list[Figure] = []
    for index in (options.index,) if options.index else INDEXES:
        config = f'[store]\nindex = "{index}"\n'
        with (
            scratch_folder(options.folder) as folder,
            LoadGenerator(folder) as load,
            ackwire(folder, "journal", config) as broker,
        ):
            figures += told(measured(index, broker, load, folder / "data", work))
    show(f"indexes: {work.messages:,} persistent messages of 1 KiB, {BATCH:,} per commit", figures, options.json)


def measured(index: str, broker: Broker, load: LoadGenerator, data: Path, work: Work) -> Iterator[Figure]:
    running = broker.start()
    with MemorySampler(running) as sending:
        sent = load.do(replace(work, consumers=0), running.uri, QUEUE, TAG)
    yield Figure(f"{index}: in", "msg/s", (work.messages / sent.seconds,))
    yield Figure(f"{index}: RSS, highest", "MB", (sending.max_bytes / MB,))
    broker.stop()
    yield Figure(f"{index}: disk, journal", "MB", (disk_bytes(data / "journal") / MB,))
    yield Figure(f"{index}: disk, index", "MB", (disk_bytes(data / "index") / MB,))
    seconds, _ = timed_start(broker)
    yield Figure(f"{index}: restart after a clean stop", "s", (seconds,))
    broker.kill()
    seconds, _ = timed_start(broker)
    yield Figure(f"{index}: restart after a kill", "s", (seconds,))
    broker.stop()
    shutil.rmtree(data / "index")
    (data / "index.sum").unlink()
    seconds, running = timed_start(broker)
    yield Figure(f"{index}: restart without an index", "s", (seconds,))
    drained = load.do(replace(work, send=False), running.uri, QUEUE, TAG)
    yield Figure(f"{index}: out, complete and in order", "msg/s", (work.total / drained.seconds,))
    broker.stop()
    yield Figure(f"{index}: disk, all consumed", "MB", (disk_bytes(data) / MB,))


def timed_start(broker: Broker) -> tuple[float, Running]:
    """How many seconds pass until clients can connect."""
    started = time.monotonic()
    running = broker.start()
    return time.monotonic() - started, running


if __name__ == "__main__":
    main(sys.argv[1:])
