"""Kills a broker again and again under load, on one data directory, and checks after each start what it still knows.

One round: start the broker, list all that it holds and compare that with the ledger, open the gate for the clients,
kill the broker at a random moment, or just when it makes or removes a file. Now and then it is killed once more while
it starts. A broker that survives a kill has nothing to complain of: an error in its log counts as a violation too.
At the end everything is consumed, and after one more kill nothing may be left.
"""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.crash.brokers import StartBroker, free_port, start_of
from tests.crash.clients import Clients
from tests.crash.ledger import Ledger, Violation
from tests.helpers.processes import ManagedProcess, ProcessFailed, wait_until_ready

LOAD_SECONDS_MAX = 0.9  # the first third goes by while clients connect: that is worth a kill too
LONG_LOAD_SECONDS_MAX = 7.0  # what a broker does every few seconds should be struck too
LONG_LOAD_SHARE = 0.05
FILES_SHARE = 0.5
FILES_WAIT_SECONDS_MAX = 0.5
START_KILL_SECONDS_MAX = 0.6
START_KILL_SHARE = 0.15
SHOWN_PER_KIND = 10
# Where ActiveMQ itself breaks promises, within fifty kills: a scheduled message that was consumed is delivered again,
# and so is, or is not, what a durable subscriber received and took in a transaction before the store had it.
TOO_MUCH_FOR_ACTIVEMQ = ("later", "sub.always", "sub.sometimes")
KINDS = ("lost", "torn", "returned", "duplicate", "uncommitted", "disorder", "early", "problem", "complaint")
_COMPLAINT = re.compile(r"^\S+ \S+ ERROR ")  # as `ackwire serve` logs


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    kills: int
    sends_acknowledged: int
    transactions_committed: int
    seconds: float
    violations: tuple[Violation, ...]

    def lines(self) -> Iterable[str]:
        """For people: the violations, then one line of figures."""
        counts = Counter(violation.kind for violation in self.violations)
        for kind in KINDS:
            shown = [violation for violation in self.violations if violation.kind == kind][:SHOWN_PER_KIND]
            yield from (str(violation) for violation in shown)
            if counts[kind] > len(shown):
                yield f"{kind}: and {counts[kind] - len(shown)} more"
        figures = f"seed {self.seed}: {self.kills} kills, {self.sends_acknowledged} sends acknowledged, "
        figures += f"{self.transactions_committed} transactions committed: "
        figures += ", ".join(f"{kind} {counts[kind]}" for kind in KINDS)
        yield f"{figures}; {self.seconds:.0f} s"


def run(
    *, kills: int, seed: int, broker: str, folder: Path, java_cache: Path, progress: Callable[[str], None] | None = None
) -> Report:
    """Kill the *broker* (see `start_of`) *kills* times; ends with the first round that shows a violation.

    All files are in *folder*: `data`, `broker.log`, `clients.log` and the clients' `journal.txt`.
    """
    rng = random.Random(seed)
    port = free_port(random.Random())  # not from the seed: two runs may go on at once
    started = time.monotonic()
    leave_out = TOO_MUCH_FOR_ACTIVEMQ if broker == "activemq" else ()
    with Clients(port, seed, folder, java_cache, leave_out) as clients:
        crash = Crash(rng, start_of(broker, port, folder, java_cache), clients, folder)
        try:
            crash.run(kills, progress)
        except ProcessFailed as failure:  # a broker that does not start again is what we are here to find
            crash.ledger.feed(f"problem {failure}")
    return crash.report(seed, time.monotonic() - started)


class Crash:
    """The broker, the clients that work with it, and the ledger."""

    def __init__(self, rng: random.Random, start: StartBroker, clients: Clients, folder: Path) -> None:
        self.ledger = Ledger()
        self.kills = 0
        self.complaints: list[Violation] = []
        """Apart from the ledger's violations, because a run can go on after one."""
        self._data = folder / "data"
        self._log = folder / "broker.log"
        self._log_bytes_read = 0
        self._rng = rng
        self._start = start
        self._clients = clients
        self._round = 0

    def report(self, seed: int, seconds: float) -> Report:
        ledger = self.ledger
        violations = (*ledger.violations, *self.complaints)
        return Report(seed, self.kills, ledger.sends_acknowledged, ledger.transactions_committed, seconds, violations)

    def run(self, kills: int, progress: Callable[[str], None] | None) -> None:
        while self.kills < kills and not self.ledger.violations:
            if self.kills and self._rng.random() < START_KILL_SHARE:
                self._killed_start()
            else:
                self._work_and_be_killed()
            if progress:
                progress(f"{self.kills} kills, {self.ledger.sends_acknowledged} sends acknowledged")
        self.check_and(self.drain)
        self.check_and(lambda: None, all_due=True)

    def _killed_start(self) -> None:
        """A kill while the broker reads its files, or shortly after."""
        with self._start() as process:
            self.kill_after(self._rng.uniform(0, START_KILL_SECONDS_MAX), process, "of its start")

    def _work_and_be_killed(self) -> None:
        with self._start() as process:
            self.check(process)
            if not self.ledger.violations:
                self.begin_round()
            self.kill_after(self._load_seconds(), process, f"of the load of round {self._round}")
            self._clients.tell("park")

    def begin_round(self) -> None:
        """Let the clients work."""
        self._round += 1
        self.ledger.begin_round(self._round)
        self._clients.broker_is_meant_to_live = True
        self._clients.tell(f"go {self._round}")

    def _load_seconds(self) -> float:
        is_long = self._rng.random() < LONG_LOAD_SHARE
        return self._rng.uniform(0, LONG_LOAD_SECONDS_MAX if is_long else LOAD_SECONDS_MAX)

    def check_and(self, act: Callable[[], None], *, all_due: bool = False) -> None:
        """Start, check, *act*, be killed; nothing after the first violation, which would only cause more."""
        if self.ledger.violations:
            return
        with self._start() as process:
            self.check(process, all_due=all_due)
            if not self.ledger.violations:
                act()
            self.kill_after(0, process, "after all work was done")

    def check(self, process: ManagedProcess, *, all_due: bool = False) -> None:
        wait_until_ready(process, 1)
        for line in self._clients.ask("check", "checked"):
            self.ledger.feed(line)
        for line in self._clients.left_early:
            self.ledger.feed(f"problem {line}, before the kill")
        if not self.ledger.violations:  # else the listing may be incomplete
            self.ledger.settle(all_due=all_due)

    def drain(self) -> None:
        self.ledger.begin_round(self._round + 1)
        waiting = self.ledger.waiting_for_their_time()
        for line in self._clients.ask(" ".join(["drain", *waiting]), "drained"):
            self.ledger.feed(line)

    def kill_after(self, seconds: float, process: ManagedProcess, what: str) -> None:
        time.sleep(seconds)  # the one thing here that is about time: when to strike
        if self._rng.random() < FILES_SHARE:
            what += f", and {self._await_change_of_files():.3f} s for a file to come or go"
        self._clients.broker_is_meant_to_live = False
        if not process.is_running:
            raise process.failure("ended by itself")
        process.kill()
        self.kills += 1
        self.ledger.moment = f"after kill {self.kills}, {seconds:.3f} s {what}"
        self._clients.note([self.ledger.moment])
        self._read_complaints()

    def _await_change_of_files(self) -> float:
        """Wait, not for long, until the broker makes or removes a file."""
        started = time.monotonic()
        before = self._files()
        while (waited := time.monotonic() - started) < FILES_WAIT_SECONDS_MAX and self._files() == before:
            time.sleep(0.0005)
        return waited

    def _files(self) -> set[str]:
        return {name for _, _, names in os.walk(self._data) for name in names}

    def _read_complaints(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._log_bytes_read)
            text = log.read()
        self._log_bytes_read += len(text)
        for line in text.decode(errors="replace").splitlines():
            if _COMPLAINT.search(line):
                self.complaints.append(Violation("complaint", f"{line} [before kill {self.kills}]"))
