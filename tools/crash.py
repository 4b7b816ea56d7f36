"""Kills a broker under load from the real Java client, again and again, and checks that nothing it promised is lost.

    python tools/crash.py --kills 200 --seed 1
    python tools/crash.py --store postgresql      # on a temporary server
    python tools/crash.py --broker activemq       # tries the harness on the real ActiveMQ
    python tools/crash.py --store memory          # and on a broker that forgets everything
    python tools/crash.py --store journal+postgresql   # on a journal in front of a temporary PostgreSQL

Ends with status 1 at the first violation; the data directory and the logs are kept then.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.crash.brokers import ACTIVEMQ_JARS, STORES
from tests.crash.command import run_and_report
from tests.crash.rounds import run
from tests.helpers.java import CLIENT_JARS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="decides when to strike, and what the clients do")
    parser.add_argument("--broker", choices=("ackwire", "activemq"), default="ackwire", help="default: %(default)s")
    parser.add_argument(
        "--store",
        default="journal",
        metavar="KIND",
        help=f"of ackwire: {', '.join(STORES)}, or journal+KIND for a journal in front of a database; default: journal",
    )
    options = parser.parse_args()
    jars = ACTIVEMQ_JARS if options.broker == "activemq" else CLIENT_JARS
    broker = "activemq" if options.broker == "activemq" else options.store
    return run_and_report(partial(run, kills=options.kills, seed=options.seed, broker=broker), "ackwire-crash-", jars)


if __name__ == "__main__":
    sys.exit(main())
