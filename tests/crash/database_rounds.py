"""Kills a database server again and again under load on a broker that lives on, and checks what the broker holds.

One round: let the clients work, kill the server at a random moment, start it again after a while, and let them work on.
Then all that the broker holds is listed and compared with the ledger. After every second round the broker is killed,
too, so that the list is what the database has, and not what the broker remembers.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.crash.brokers import DATABASE_SERVERS, ackwire, free_port
from tests.crash.clients import Clients
from tests.crash.rounds import Crash, Report
from tests.helpers.databases import DatabaseServer
from tests.helpers.processes import ManagedProcess, ProcessFailed

LOAD_SECONDS_MAX: Final = 1.5
"""Of load before a kill, and after the server is there again."""

AWAY_SECONDS_MAX: Final = 1.0
"""How long the server stays away, besides the time that its start takes."""


def run(
    *, kills: int, seed: int, store: str, folder: Path, java_cache: Path, progress: Callable[[str], None] | None = None
) -> Report:
    """Kill the server of the *store* ("postgresql", "mariadb") *kills* times; ends with the first violation."""
    rng = random.Random(seed)
    port = free_port(random.Random())  # not from the seed: two runs may go on at once
    started = time.monotonic()
    server = DATABASE_SERVERS[store]()
    killed = 0
    with Clients(port, seed, folder, java_cache) as clients:
        start = ackwire(store, port, folder)
        crash = Crash(rng, start, clients, folder)
        try:
            while killed < kills and not crash.ledger.violations:
                with start() as process:
                    for _ in range(min(2, kills - killed)):
                        killed += _round(crash, process, server, rng)
                        if progress:
                            progress(f"{killed} kills, {crash.ledger.sends_acknowledged} sends acknowledged")
                    crash.check(process)
                    crash.kill_after(0, process, f"of the broker, after kill {killed} of the database")
            crash.check_and(crash.drain)
            crash.check_and(lambda: None, all_due=True)
        except ProcessFailed as failure:
            crash.ledger.feed(f"problem {failure}")
    crash.kills = killed
    return crash.report(seed, time.monotonic() - started)


def _round(crash: Crash, process: ManagedProcess, server: DatabaseServer, rng: random.Random) -> int:
    """The number of kills: none after a violation."""
    crash.check(process)
    if crash.ledger.violations:
        return 0
    crash.begin_round()
    time.sleep(rng.uniform(0, LOAD_SECONDS_MAX))  # when to strike
    server.kill()
    time.sleep(rng.uniform(0, AWAY_SECONDS_MAX))
    server.start()
    time.sleep(rng.uniform(0, LOAD_SECONDS_MAX))
    return 1
