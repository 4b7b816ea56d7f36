"""How long does this machine keep a process waiting that only reads the clock, on each core, all cores at once?

A hypervisor takes cores away for milliseconds now and then, and programs on the virtual machine cannot avoid it.
`latency.py` shows this beside its tails, measured while its brokers and clients are idle: a process that becomes
runnable at a random moment waits at least that long.

    .venv/bin/python -m bench.stalls [SECONDS]
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench.measure import Figure, show

SECONDS: Final = 8.0
START_SECONDS: Final = 0.5
"""Until all of them watch."""
GAP_SECONDS_MIN: Final = 0.000_1
"""Less is the interpreter, an interrupt, or a look at a cache."""
SHARE: Final = 0.001
"""Of the moments: what p99.9 leaves out."""


def stalls(seconds: float = SECONDS) -> Figure:
    """For each core, what one moment in a thousand has to wait at least, in ms."""
    start = time.monotonic() + START_SECONDS
    argv = [sys.executable, "-m", "bench.stalls", "--watch", str(start), str(seconds)]
    cores = sorted(os.sched_getaffinity(0))
    watchers = [subprocess.Popen([*argv, str(core)], stdout=subprocess.PIPE) for core in cores]
    gaps = [json.loads(watcher.communicate(timeout=seconds + 30)[0]) for watcher in watchers]
    waits = tuple(1000 * wait_exceeded(it, seconds * SHARE) for it in gaps)
    return Figure("the machine alone: p99.9 of a process that reads the clock, each core", "ms", waits)


def wait_exceeded(gaps: Sequence[float], total: float) -> float:
    """The least wait of a process that becomes runnable within the worst *total* seconds.

    A process that becomes runnable in a gap waits for the rest of it: longer than w, except in the last w seconds.
    """
    low, high = 0.0, max(gaps, default=0.0)
    for _ in range(50):
        middle = (low + high) / 2
        if sum(gap - middle for gap in gaps if gap > middle) > total:
            low = middle
        else:
            high = middle
    return high


def watch(start: float, seconds: float, core: int) -> list[float]:
    """The gaps between two looks at the clock."""
    os.sched_setaffinity(0, {core})
    now = time.monotonic  # the same in all processes
    gaps: list[float] = []
    time.sleep(max(0.0, start - now()))
    last = now()
    while last < start + seconds:
        moment = now()
        if moment - last > GAP_SECONDS_MIN:
            gaps.append(moment - last)
        last = moment
    return gaps


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] == "--watch":
        start, seconds, core = arguments[1:]
        print(json.dumps(watch(float(start), float(seconds), int(core))))
        return
    show("What the machine itself adds", [stalls(*map(float, arguments))], None)


if __name__ == "__main__":
    main(sys.argv[1:])
