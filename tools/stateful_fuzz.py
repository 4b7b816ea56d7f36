"""Clients that do anything legal on a journal in real files, with restarts: `tests/model/restart_fuzz.py`, for longer.

    python tools/stateful_fuzz.py --commands 100000 --restarts 500 --seed 1

Ends with status 1, and the seed, at the first message, destination or subscription that is lost or comes back, at a
start that fails, or at a finding of `store check`.
"""

import argparse
import logging
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.model.restart_fuzz import RestartFuzz

_SHARED_MEMORY = Path("/dev/shm")
"""Syncs cost nothing there; a process that ends loses nothing that was written, wherever it is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--restarts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)
    args = parser.parse_args()
    logging.disable(logging.ERROR)
    began = time.monotonic()

    def progress(restarts: int) -> None:
        if restarts % 50 == 0:
            print(f"{restarts} restarts, {time.monotonic() - began:.0f} s", flush=True)

    with TemporaryDirectory(dir=args.folder) as folder:
        fuzz = RestartFuzz(Path(folder), args.seed)
        try:
            fuzz.run(args.commands, args.restarts, on_restart=progress)
        except Exception as error:
            print(f"seed {args.seed}, command {fuzz.commands}, life {fuzz.starts}: {error!r}", file=sys.stderr)
            raise
    print(
        f"{fuzz.commands} commands, {fuzz.starts - 1} restarts, seed {args.seed}: nothing lost, every start succeeded"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
