"""Does the disk come free when nearly everything is consumed, though each journal file still holds a message?

Writes 2 GB as messages of 32 KiB, so that a journal file of 32 MB holds about a thousand, and consumes all but each
thousandth: one survivor to a file, spread so that no file can simply be deleted. Then the data directory is watched for
a minute. It must come to at most twice the live data plus two files. At the end the survivors are consumed and
verified.

    .venv/bin/python -m bench.cleanup [--gigabytes N]
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.brokers import add_broker_options, chosen_broker, disk_bytes, scratch_folder
from bench.comparison import MB
from bench.java_load import KIB, LoadGenerator, Work
from bench.measure import Figure, options_parser, show, told

GIGABYTES: Final = 2.0
QUICK_GIGABYTES: Final = 0.25
BODY_BYTES: Final = 32 * KIB
KEEP_EVERY: Final = 1_000
FILE_BYTES: Final = 32 * KIB * KIB
WATCH_SECONDS: Final = 60.0
SAMPLE_SECONDS: Final = 0.5
QUEUE: Final = "bench.cleanup"
TAG: Final = "cleanup"


@dataclass(frozen=True, slots=True)
class Sample:
    """The data directory's size some seconds after the last acknowledgement."""

    at_seconds: float
    disk_bytes: int


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("Disk use after nearly everything was consumed.")
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK_GIGABYTES} GB")
    parser.add_argument("--gigabytes", type=float, help=f"to write (default: {GIGABYTES})")
    parser.add_argument("--seconds", type=float, default=WATCH_SECONDS, help="to watch (default: %(default)s)")
    add_broker_options(parser)
    options = parser.parse_args(arguments)
    gigabytes = options.gigabytes or (QUICK_GIGABYTES if options.quick else GIGABYTES)
    work = Work(messages=int(gigabytes * 1e9 / BODY_BYTES), asynchronous=True, body_bytes=BODY_BYTES)
    with (
        scratch_folder(options.folder) as folder,
        LoadGenerator(folder) as load,
        chosen_broker(options, folder) as broker,
    ):
        figures = told(measured(broker.start().uri, load, folder / "data", work, options.seconds))
    written = f"{gigabytes} GB in messages of 32 KiB, each {KEEP_EVERY:,}th kept"
    title = f"cleanup, {options.broker}: {written}, {options.seconds:g} s watched"
    show(title, figures, options.json)


def measured(uri: str, load: LoadGenerator, data: Path, work: Work, seconds: float) -> Iterator[Figure]:
    load.do(replace(work, consumers=0), uri, QUEUE, TAG)
    yield Figure("disk, all written", "MB", (disk_bytes(data) / MB,))
    load.do(replace(work, send=False, keep_every=KEEP_EVERY), uri, QUEUE, TAG)
    survivors = len(range(0, work.messages, KEEP_EVERY))
    live_bytes = survivors * BODY_BYTES
    yield Figure("live data after consuming", "MB", (live_bytes / MB,), f"{survivors} messages")
    yield from judged(watched(data, seconds), limit_bytes=2 * live_bytes + 2 * FILE_BYTES)
    survived = load.do(replace(work, send=False, step=KEEP_EVERY), uri, QUEUE, TAG).arrived
    yield Figure("survivors, complete and in order", "messages", (survived,), str(survivors))


def watched(data: Path, seconds: float) -> list[Sample]:
    started = time.monotonic()
    samples = [Sample(0.0, disk_bytes(data))]
    while samples[-1].at_seconds < seconds:
        time.sleep(SAMPLE_SECONDS)
        samples.append(Sample(time.monotonic() - started, disk_bytes(data)))
    return samples


def judged(samples: Sequence[Sample], *, limit_bytes: int) -> list[Figure]:
    limit = f"at most {limit_bytes / MB:,.0f} MB: twice the live data and two files"
    within = next((sample.at_seconds for sample in samples if sample.disk_bytes <= limit_bytes), None)
    reached = [Figure("limit reached after", "s", (within,))] if within is not None else []
    return [
        Figure("disk, right after consuming", "MB", (samples[0].disk_bytes / MB,)),
        Figure("disk, over the time watched", "MB", tuple(sample.disk_bytes / MB for sample in samples)),
        Figure("disk, at the end", "MB", (samples[-1].disk_bytes / MB,), limit),
        *reached,
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
