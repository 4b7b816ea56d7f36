"""Strikes a replicated group with real faults under load from the real Java client: nothing acknowledged is lost.

    python tools/ha.py --faults 100 --seed 1

Three brokers and three ZooKeeper servers run in network namespaces of their own, below one that this program makes for
itself. Needs root. Ends with status 1 at the first violation; data and logs are kept then.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.cluster.faults.rounds import run
from tests.helpers.java import CLIENT_JARS, missing_requirements

_JAVA_CACHE = Path(__file__).parent.parent / ".pytest_cache/d/ackwire-java"  # where tests keep compiled programs too


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="decides which fault comes when, and what the clients do")
    parser.add_argument("--is-inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if problem := missing_requirements(CLIENT_JARS):
        print(problem)
        return 1
    if not options.is_inside:  # in a network of its own, and mounts too: `ip netns` makes some
        inside = ["unshare", "--net", "--mount", sys.executable, *sys.argv, "--is-inside"]
        os.execvp(inside[0], inside)
    _JAVA_CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ackwire-ha-"))
    report = run(
        faults=options.faults,
        seed=options.seed,
        folder=folder,
        java_cache=_JAVA_CACHE,
        progress=_show,
    )
    for line in report.lines():
        print(line)
    if report.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _show(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
