"""Strikes a group with fault after fault under load, and checks after each what it still knows.

One round: let the clients work, strike, let them work on with whoever is master then, undo the fault, and let them
finish. Then all that the master holds is listed and compared with the ledger. The kinds of fault come in an order that
the seed decides, each before one comes again. At the end everything is consumed, and after one more kill of all
brokers nothing may be left.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.cluster.faults.follow_master import FollowMaster
from tests.cluster.faults.group import BROKERS, KEEPERS, SESSION_SECONDS, Group
from tests.cluster.faults.kinds import KINDS, kill_all
from tests.cluster.faults.network import Network
from tests.crash.brokers import free_port
from tests.crash.clients import Clients
from tests.crash.ledger import Ledger, Violation
from tests.crash.rounds import Report
from tests.helpers.processes import ProcessFailed

LOAD_SECONDS_MAX: Final = 1.5
"""Of load before a fault."""
FAULT_SECONDS_MAX: Final = 6.0
"""How long a fault lasts; a session ends after 2."""
WHOLE_SHARE: Final = 0.5
"""Of the rounds that begin when all brokers are there again; the others begin as soon as there is a master."""
_SURVIVORS: Final = 2
"""Clients whose connection outlives the rounds."""
_CALM_SECONDS_MAX: Final = 60.0


def run(
    *, faults: int, seed: int, folder: Path, java_cache: Path, progress: Callable[[str], None] | None = None
) -> Report:
    """Strike *faults* times; ends with the first round that shows a violation. Logs and data are in *folder*."""
    rng = random.Random(seed)
    port = free_port(random.Random())  # not from the seed: two runs may go on at once
    began = time.monotonic()
    with (
        Network((*BROKERS, *KEEPERS)) as network,
        Group(network, folder) as group,
        FollowMaster(port, group.candidates) as proxy,
        Clients(port, seed, folder, java_cache) as clients,
    ):
        rounds = Rounds(rng, group, proxy, clients)
        try:
            rounds.run(faults, progress)
        except ProcessFailed as failure:
            rounds.ledger.feed(f"problem {failure}")
        report = rounds.report(seed, time.monotonic() - began)
        if report.violations:
            group.stop()
            for broker in group.brokers.values():
                broker.keep()
    return report


class Rounds:
    """The group, the clients that work with it, and the ledger."""

    def __init__(self, rng: random.Random, group: Group, proxy: FollowMaster, clients: Clients) -> None:
        self.ledger = Ledger()
        self.struck: Counter[str] = Counter()
        self._rng = rng
        self._group = group
        self._proxy = proxy
        self._clients = clients
        self._kinds = self._in_turn()
        self._round = 0

    def report(self, seed: int, seconds: float) -> Report:
        ledger = self.ledger
        complaints = self._group.complaints()
        violations = (*ledger.violations, *(Violation("complaint", it) for it in complaints))
        return Report(
            seed,
            self.struck.total(),
            ledger.sends_acknowledged,
            ledger.transactions_committed,
            seconds,
            violations,
        )

    def _in_turn(self) -> Iterator[str]:
        while True:
            kinds = list(KINDS)
            self._rng.shuffle(kinds)
            yield from kinds

    def run(self, faults: int, progress: Callable[[str], None] | None) -> None:
        self._check()
        while self.struck.total() < faults and not self.ledger.violations:
            kind = next(self._kinds)
            self._work_and_be_struck(kind)
            self._check()
            if progress:
                progress(f"{self.struck.total()} faults, {self.ledger.sends_acknowledged} sends acknowledged: {kind}")
        if not self.ledger.violations:
            self._drain()
        if not self.ledger.violations:
            kill_all(self._group, self._rng)
            self._check(all_due=True)

    def _work_and_be_struck(self, kind: str) -> None:
        self._round += 1
        self.ledger.begin_round(self._round)
        self._clients.broker_is_meant_to_live = False  # connections may break from now on
        self._clients.tell(f"go {self._round}")
        time.sleep(self._rng.uniform(0.3, LOAD_SECONDS_MAX))  # when to strike
        whom = KINDS[kind](self._group, self._rng)
        self.struck[kind] += 1
        self.ledger.moment = f"after fault {self.struck.total()}: {kind} of {whom}"
        self._clients.note([self.ledger.moment])
        time.sleep(self._rng.uniform(0.2, FAULT_SECONDS_MAX))
        self._proxy.cut_all()  # clients give up on brokers that have gone silent
        self._group.restore()
        self._clients.tell("park")

    def _check(self, *, all_due: bool = False) -> None:
        """List what the master holds while nobody works, and compare it with the ledger."""
        self._group.restore()
        if self._rng.random() < WHOLE_SHARE:
            self._group.wait_until_whole()
        self._await_calm()
        for line in self._clients.ask("check", "checked"):
            self.ledger.feed(line)
        if not self.ledger.violations:  # else the listing may be incomplete
            self.ledger.settle(all_due=all_due)

    def _await_calm(self) -> None:
        """Wait until the master will stay, and has taken all that was on its way: only connections that outlive rounds
        are left. A session that was interrupted may still end."""
        deadline = time.monotonic() + _CALM_SECONDS_MAX
        master, since = self._group.master(), time.monotonic()
        while time.monotonic() < deadline:
            if self._group.master() is not master:
                master, since = self._group.master(), time.monotonic()
            is_lasting = time.monotonic() - since > SESSION_SECONDS * 1.5
            if is_lasting and 0 <= master.connections() <= _SURVIVORS:
                return
            time.sleep(0.1)
        raise self._group.failure("clients that are parked are still connected")

    def _drain(self) -> None:
        self.ledger.begin_round(self._round + 1)
        waiting = self.ledger.waiting_for_their_time()
        for line in self._clients.ask(" ".join(["drain", *waiting]), "drained"):
            self.ledger.feed(line)
