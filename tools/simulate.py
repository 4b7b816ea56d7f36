"""Runs simulations: a broker, clients, a network and time from one seed, with every step audited.

    python tools/simulate.py --seeds 1-1000
    python tools/simulate.py --seeds 4711 --verbose       # the whole history of one run

Ends with status 1 at the first seed that fails, after printing the command that replays it.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.simulation.world import STEPS, World

_PROGRESS_SECONDS = 5.0


def seeds_in(text: str) -> range:
    """`7` or `1-1000`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def run(seed: int, steps: int, *, verbose: bool) -> Exception | None:
    """Run one seed; the answer is what went wrong."""
    world = World(seed, steps=steps, record=verbose)
    failure: Exception | None = None
    try:
        world.run()
    except Exception as error:
        failure = error
    for line in world.history or ():
        print(line)
    return failure


def run_all(seeds: Iterable[int], steps: int, *, verbose: bool) -> int:
    started = shown = time.monotonic()
    count = 0
    for seed in seeds:
        failure = run(seed, steps, verbose=verbose)
        if failure is not None:
            print(f"seed {seed} FAILS: {failure!r}")
            print(f"replay: make simulate SEEDS={seed} STEPS={steps} VERBOSE=1")
            if verbose:
                raise failure
            return 1
        count += 1
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{count} seeds, {shown - started:.0f} s, no violation", flush=True)
    print(f"{count} seeds of {steps} steps and their ends in {time.monotonic() - started:.1f} s: no violation")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="1-100", help="one seed, or FIRST-LAST")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps before a run comes to its end")
    parser.add_argument("--verbose", action="store_true", help="print the history of each run")
    options = parser.parse_args()
    if not options.verbose:
        logging.disable(logging.CRITICAL)
    return run_all(seeds_in(options.seeds), options.steps, verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
