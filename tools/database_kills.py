"""Kills a database server under load from the real Java client, again and again: nothing is lost, nothing comes twice.

    python tools/database_kills.py --store postgresql --kills 20 --seed 1
    python tools/database_kills.py --store mariadb

Ends with status 1 at the first violation; the logs are kept then.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.crash.brokers import DATABASE_SERVERS
from tests.crash.command import run_and_report
from tests.crash.database_rounds import run
from tests.helpers.java import CLIENT_JARS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=tuple(DATABASE_SERVERS), default="postgresql")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="decides when to strike, and what the clients do")
    options = parser.parse_args()
    return run_and_report(
        partial(run, kills=options.kills, seed=options.seed, store=options.store),
        "ackwire-database-kills-",
        CLIENT_JARS,
    )


if __name__ == "__main__":
    sys.exit(main())
