"""Runs simulations: a broker, clients, a network and time from one seed, with every step audited.

    python tools/simulate.py --seeds 1-1000
    python tools/simulate.py --seeds 1-3000 --jobs 2      # two processes share the seeds
    python tools/simulate.py --seeds 4711 --verbose       # the whole history of one run
    python tools/simulate.py --store journal              # only brokers on a journal, which crash

What store the broker of a seed has is the seed's choice, unless `--store` says it.

Ends with status 1 at the first seed that fails, after printing the command that replays it; or at the end, if it is to
keep going.
"""

import argparse
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.simulation.power import STORES, world_for
from tests.simulation.world import STEPS

_PROGRESS_SECONDS = 5.0
_SEEDS_PER_TURN = 5


def seeds_in(text: str) -> range:
    """`7` or `1-1000`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def run(seed: int, store: str, steps: int, *, verbose: bool) -> Exception | None:
    """Run one seed, and return the failure, if any."""
    world = world_for(seed, store=store, steps=steps, record=verbose)
    failure: Exception | None = None
    try:
        world.run()
    except Exception as error:
        failure = error
    for line in world.history or ():
        print(line)
    return failure


def run_quietly(store: str, steps: int, seed: int) -> tuple[int, str | None]:
    """Run one seed, and return the seed and the failure as text, which can be sent to another process."""
    logging.disable(logging.CRITICAL)
    failure = run(seed, store, steps, verbose=False)
    return seed, None if failure is None else repr(failure)


@contextmanager
def outcomes(seeds: range, store: str, steps: int, jobs: int) -> Iterator[Iterator[tuple[int, str | None]]]:
    """What comes of each seed, as they end."""
    one = partial(run_quietly, store, steps)
    if jobs == 1:
        yield map(one, seeds)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield pool.imap_unordered(one, seeds, chunksize=_SEEDS_PER_TURN)


def show_all(seeds: range, store: str, steps: int) -> int:
    """Run seeds with their history; what goes wrong is raised."""
    for seed in seeds:
        failure = run(seed, store, steps, verbose=True)
        if failure is not None:
            raise failure
    return 0


def run_all(found: Iterator[tuple[int, str | None]], store: str, steps: int, *, keep_going: bool) -> int:
    started = shown = time.monotonic()
    count = failures = 0
    for seed, failure in found:
        count += 1
        if failure is not None:
            failures += 1
            print(f"seed {seed} FAILS: {failure}")
            print(f"replay: make simulate SEEDS={seed} STORE={store} STEPS={steps} VERBOSE=1", flush=True)
            if not keep_going:
                return 1
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{count} seeds, {shown - started:.0f} s, {failures or 'no'} violations", flush=True)
    seconds = time.monotonic() - started
    print(f"{count} seeds of {steps} steps and their ends in {seconds:.1f} s: {failures or 'no'} violations")
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="1-100", help="one seed, or FIRST-LAST")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of a run")
    parser.add_argument("--store", choices=("any", *STORES), default="any", help="what store the brokers have")
    parser.add_argument("--keep-going", action="store_true", help="run the other seeds too when one fails")
    parser.add_argument("--verbose", action="store_true", help="print the history of each run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    options = parser.parse_args()
    seeds = seeds_in(options.seeds)
    if options.verbose:
        return show_all(seeds, options.store, options.steps)
    with outcomes(seeds, options.store, options.steps, options.jobs) as found:
        return run_all(found, options.store, options.steps, keep_going=options.keep_going)


if __name__ == "__main__":
    sys.exit(main())
