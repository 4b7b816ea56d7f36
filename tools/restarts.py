"""Restarts a broker under the Python client with `failover:`, and checks that nothing is lost or stored twice.

    python tools/restarts.py --restarts 100 --seed 1
    python tools/restarts.py --quick                    # most messages are consumed before they are stored

Ends with status 1 after a violation; the data directory and the broker's log are kept then.
"""

import argparse
import logging
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.client.restart_run import run

_LINES_EVERY = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="decides when and how the broker ends, and what clients do")
    parser.add_argument("--quick", action="store_true", help="a slow disk, and consumers that are quicker")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ackwire-restarts-"))
    logging.basicConfig(filename=folder / "clients.log", format="%(asctime)s %(levelname)s %(message)s")
    report = run(restarts=options.restarts, seed=options.seed, folder=folder, quick=options.quick, progress=_show)
    for line in report.lines():
        print(line)
    if report.ledger.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _show(text: str) -> None:
    if sys.stdout.isatty():
        print(f"\r{text} ", end="", flush=True)
    elif int(text.partition(" ")[0]) % _LINES_EVERY == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
