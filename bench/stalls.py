"""How long does this machine keep a process waiting that only reads the clock, on each core, all cores at once?

A virtual machine's cores are taken away for milliseconds now and then, which nothing that runs on them can avoid or
see otherwise. `latency.py` shows it beside its tails: whoever has to run at a random moment waits at least that long.

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

SECONDS: Final = 10.0
GAP_SECONDS_MIN: Final = 0.000_1
"""Less is the interpreter, an interrupt, or a look at a cache."""
SHARE: Final = 0.001
"""Of the moments: what p99.9 leaves out."""


def stalls(seconds: float = SECONDS) -> Figure:
    """For each core, what one moment in a thousand has to wait at least, in ms."""
    argv = [sys.executable, "-m", "bench.stalls", "--core"]
    watchers = [
        subprocess.Popen([*argv, str(core), str(seconds)], stdout=subprocess.PIPE)
        for core in sorted(os.sched_getaffinity(0))
    ]
    gaps = [json.loads(watcher.communicate(timeout=seconds + 30)[0]) for watcher in watchers]
    waits = tuple(1000 * wait_exceeded(it, seconds * SHARE) for it in gaps)
    return Figure("the machine alone: p99.9 of a process that reads the clock, each core", "ms", waits)


def wait_exceeded(gaps: Sequence[float], total: float) -> float:
    """How long whoever comes in *total* seconds of all moments has to wait at least, if they are the worst ones.

    Who comes in a gap waits for its rest: longer than w in all of a gap but its last w seconds.
    """
    low, high = 0.0, max(gaps, default=0.0)
    for _ in range(50):
        middle = (low + high) / 2
        if sum(gap - middle for gap in gaps if gap > middle) > total:
            low = middle
        else:
            high = middle
    return high


def watch(core: int, seconds: float) -> list[float]:
    """The gaps between two looks at the clock."""
    os.sched_setaffinity(0, {core})
    now = time.perf_counter
    gaps: list[float] = []
    last = now()
    end = last + seconds
    while last < end:
        moment = now()
        if moment - last > GAP_SECONDS_MIN:
            gaps.append(moment - last)
        last = moment
    return gaps


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] == "--core":
        print(json.dumps(watch(int(arguments[1]), float(arguments[2]))))
        return
    show("What the machine itself adds", [stalls(*map(float, arguments))], None)


if __name__ == "__main__":
    main(sys.argv[1:])
