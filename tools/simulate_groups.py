"""Runs simulations of replicated groups: nodes, network, clocks, disks and ZooKeeper from one seed.

    python tools/simulate_groups.py --seeds 1-2000
    python tools/simulate_groups.py --seeds 1-2000 --jobs 2      # two processes share the seeds
    python tools/simulate_groups.py --seeds 4711 --verbose       # what happened in one run
    python tools/simulate_groups.py --log memory                 # on a model of the journal: faster

Ends with status 1 if a seed fails, after printing the command that replays it.
"""

import argparse
import logging
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.simulation.groups.world import STEPS, GroupWorld
from tools.simulate import seeds_in

_PROGRESS_SECONDS = 5.0
LOGS = ("journal", "memory")


def run_quietly(log: str, steps: int, seed: int) -> tuple[int, int, str | None]:
    """Run one seed; returns it, how many masters there were, and the failure as text."""
    logging.disable(logging.CRITICAL)
    world = GroupWorld(seed, steps=steps, is_real=log == "journal")
    try:
        world.run()
    except Exception as error:
        return seed, world.checker.masters, repr(error)
    return seed, world.checker.masters, None


def show(seed: int, log: str, steps: int) -> None:
    """Run one seed and print what happened; what goes wrong is raised."""
    world = GroupWorld(seed, steps=steps, record=True, is_real=log == "journal")
    try:
        world.run()
    finally:
        for line in world.history or ():
            print(line)
        print(dict(world.network.received))


def run_all(seeds: range, log: str, steps: int, jobs: int, *, keep_going: bool) -> int:
    started = shown = time.monotonic()
    count = failures = masters = 0
    one = partial(run_quietly, log, steps)
    with multiprocessing.Pool(jobs) as pool:
        for seed, its_masters, failure in pool.imap_unordered(one, seeds):
            count, masters = count + 1, masters + its_masters
            if failure is not None:
                failures += 1
                print(f"seed {seed} FAILS: {failure}")
                print(f"replay: make simulate-groups SEEDS={seed} LOG={log} STEPS={steps} VERBOSE=1", flush=True)
                if not keep_going:
                    return 1
            if time.monotonic() - shown > _PROGRESS_SECONDS:
                shown = time.monotonic()
                print(f"{count} seeds, {shown - started:.0f} s, {failures or 'no'} violations", flush=True)
    seconds = time.monotonic() - started
    print(f"{count} seeds of {steps} steps, {masters} masters, {seconds:.1f} s: {failures or 'no'} violations")
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="1-100", help="one seed, or FIRST-LAST")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of a run")
    parser.add_argument("--log", choices=LOGS, default="journal", help="what the nodes keep their logs on")
    parser.add_argument("--keep-going", action="store_true", help="run the other seeds too when one fails")
    parser.add_argument("--verbose", action="store_true", help="print what happened in each run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    options = parser.parse_args()
    seeds = seeds_in(options.seeds)
    if options.verbose:
        for seed in seeds:
            show(seed, options.log, options.steps)
        return 0
    return run_all(seeds, options.log, options.steps, options.jobs, keep_going=options.keep_going)


if __name__ == "__main__":
    sys.exit(main())
