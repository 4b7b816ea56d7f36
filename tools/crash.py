"""Kills a broker under load from the real Java client, again and again, and checks that nothing it promised is lost.

    python tools/crash.py --kills 200 --seed 1
    python tools/crash.py --broker activemq       # tries the harness on the real ActiveMQ
    python tools/crash.py --broker memory         # and on a broker that forgets everything
    python tools/crash.py --broker journal+postgresql   # on a journal in front of a temporary PostgreSQL

Ends with status 1 at the first violation; the data directory and the logs are kept then.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.crash.brokers import ACTIVEMQ_JARS
from tests.crash.rounds import run
from tests.helpers.java import CLIENT_JARS, missing_requirements

_JAVA_CACHE = Path(__file__).parent.parent / ".pytest_cache/d/ackwire-java"  # where tests keep compiled programs too


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="decides when to strike, and what the clients do")
    parser.add_argument("--broker", default="journal", help="activemq, or a store (see tests/crash/brokers.py)")
    options = parser.parse_args()
    if problem := missing_requirements(ACTIVEMQ_JARS if options.broker == "activemq" else CLIENT_JARS):
        print(problem)
        return 1
    _JAVA_CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ackwire-crash-"))
    report = run(
        kills=options.kills,
        seed=options.seed,
        broker=options.broker,
        folder=folder,
        java_cache=_JAVA_CACHE,
        progress=_show if sys.stdout.isatty() else None,
    )
    for line in report.lines():
        print(line)
    if report.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _show(text: str) -> None:
    print(f"\r{text} ", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
