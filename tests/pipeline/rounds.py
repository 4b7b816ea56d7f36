"""Kills the parts of a pipeline, again and again, and checks that each message came through exactly once.

The pipeline is queue → Spark → queue: a broker on a journal, a Spark driver with two executors, a feeder. Each round
feeds some messages and strikes once: at the driver with all that it has started, at an executor, or at the broker. A
strike comes at a random moment, also while Spark starts, or at one of the two at which an exactly-once sink can go
wrong: when all rows of a batch are staged and not committed, and when the broker has committed a batch and Spark has
not yet written that down. Which of them was really met is found out after the strike, and told. What died is started
again on what it left on disk.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path

from tests.pipeline.outcome import consume_all, problems_of_numbers, problems_of_what_is_left
from tests.pipeline.rig import SINK, Driver, Eyes, Feeder, send_by_client, wait_until
from tests.pipeline.sessions import kill
from tests.spark.broker import HttpBroker

PROGRESS_SECONDS_MAX = 180.0
"""Until something happens that must happen; a start of Spark may be in between."""
RECOVERY_MESSAGES = 500
"""Fed when the pipeline is back: all others may have been done before the strike."""
RANDOM_SECONDS_MAX = 2.5
START_KILL_SECONDS_MAX = 8.0
SENT_BY_CLIENT_MAX = 2000
_COMPLAINT = re.compile(rb"^\S+ \S+ (?:ERROR|CRITICAL) .*$", re.MULTILINE)


class Victim(Enum):
    DRIVER = "driver"
    EXECUTOR = "executor"
    BROKER = "broker"


class Moment(Enum):
    """When to strike."""

    ANY = "at random"
    STAGED = "between the sink's write and its commit"
    COMMITTED = "between the commit and Spark's own note of it"


Strike = tuple[Victim, Moment]

ALL_STRIKES: tuple[Strike, ...] = (
    (Victim.DRIVER, Moment.STAGED),
    (Victim.BROKER, Moment.STAGED),
    (Victim.EXECUTOR, Moment.ANY),
    (Victim.DRIVER, Moment.COMMITTED),
    (Victim.BROKER, Moment.ANY),
    (Victim.EXECUTOR, Moment.STAGED),
    (Victim.DRIVER, Moment.ANY),
    (Victim.BROKER, Moment.COMMITTED),
)


def chosen_strikes(kills: int, rng: random.Random) -> list[Strike]:
    """Every kind about equally often, in a random order; the first ones have all kinds."""
    strikes: list[Strike] = []
    while len(strikes) < kills:
        strikes += rng.sample(ALL_STRIKES, len(ALL_STRIKES))
    return strikes[:kills]


@dataclass(slots=True)
class Report:
    seed: int
    messages: int
    strikes: Counter[Strike] = field(default_factory=Counter)
    met: Counter[Strike] = field(default_factory=Counter)
    """Of the strikes at the driver at a chosen moment, those that were found to have met it."""
    violations: list[str] = field(default_factory=list)
    batches: int = 0
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        return self.strikes.total()

    def lines(self) -> Iterable[str]:
        yield from self.violations
        for victim in Victim:
            for moment in Moment:
                if times := self.strikes[victim, moment]:
                    is_known = victim is Victim.DRIVER and moment is not Moment.ANY
                    met = f", found to be just then {self.met[victim, moment]} times" if is_known else ""
                    yield f"{victim.value} killed {moment.value}: {times}{met}"
        outcome = "NOT exactly once" if self.violations else "exactly once at both ends"
        size = f"{self.kills} kills, {self.messages} messages in {self.batches} batches"
        yield f"seed {self.seed}: {size}: {outcome}; {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made of."""

    messages: int
    strikes: Sequence[Strike]
    batch: int
    """Messages in a batch of the stream, at most."""
    producer: str | None = None


def run(plan: Plan, *, seed: int, folder: Path, progress: Callable[[str], None] = lambda _: None) -> Report:
    """One pipeline under all strikes of the *plan*. All files are in *folder*: `data`, `checkpoint` and logs."""
    report = Report(seed, plan.messages)
    started = time.monotonic()
    with HttpBroker(folder) as broker:
        send_by_client(broker.url, range(min(SENT_BY_CLIENT_MAX, plan.messages)))
        driver = Driver(broker, folder, options=["--batch", str(plan.batch)], producer=plan.producer)
        with driver:
            _Run(plan, random.Random(seed), broker, driver, report, progress).all_strikes()
    report.violations += _complaints(folder / "broker.log")
    report.seconds = time.monotonic() - started
    return report


class _Run:
    def __init__(
        self,
        plan: Plan,
        rng: random.Random,
        broker: HttpBroker,
        driver: Driver,
        report: Report,
        progress: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._rng = rng
        self._broker = broker
        self._driver = driver
        self._report = report
        self._progress = progress
        self._eyes = Eyes(broker)
        self._driver_starts = True
        self._done_before: int | None = None
        """The last batch that was done at the time of the last strike."""
        self._feeder = Feeder(broker, fed=min(SENT_BY_CLIENT_MAX, plan.messages))

    def all_strikes(self) -> None:
        try:
            for index, strike in enumerate(self._plan.strikes):
                self._round(strike, self._share(index))
            self._feeder.begin(self._plan.messages - self._feeder.fed)
            self._feeder.join()
            self._settle()
        finally:
            self._eyes.close()
            self._feeder.close()

    def _share(self, index: int) -> int:
        """How many messages are fed with a strike: about the same for each, and some for the end."""
        left = self._plan.messages - self._feeder.fed
        return left // (len(self._plan.strikes) - index + 1)

    # ---- one strike --------------------------------------------------------------------------------------------

    def _round(self, strike: Strike, messages: int) -> None:
        victim, moment = strike
        is_at_start = self._driver_starts and victim is Victim.DRIVER and moment is Moment.ANY
        if not is_at_start:
            self._await_recovery()
        watch = self._watch(moment, is_at_start=is_at_start)
        self._driver.take_aim()
        self._feeder.begin(messages)
        batch = self._await_moment(watch, moment)
        self._kill(victim)
        self._report.strikes[strike] += 1
        self._driver_starts = victim is Victim.DRIVER
        self._done_before = self._driver.batches_done
        if victim is Victim.DRIVER:
            self._report.met[strike] += self._is_met(moment, batch)
        self._start_again(victim)
        self._feeder.join()
        self._progress(f"{self._report.kills}: {victim.value} killed {moment.value}, {self._feeder.fed} messages fed")

    def _await_recovery(self) -> None:
        """Wait until the pipeline has got over the last strike, and has done a batch since."""
        self._driver.wait_until_working()
        self._feeder.begin(min(RECOVERY_MESSAGES, self._plan.messages - self._feeder.fed))
        self._feeder.join()
        wait_until(self._has_done_more, "a batch that is done", PROGRESS_SECONDS_MAX)
        wait_until(lambda: len(self._driver.executors()) == 2, "two executors", PROGRESS_SECONDS_MAX)

    def _has_done_more(self) -> bool:
        self._check_driver()
        return self._driver.producer is not None and self._driver.batches_done != self._done_before

    def _watch(self, moment: Moment, *, is_at_start: bool) -> Callable[[], int | None]:
        """A look at whether it is time; it tells the batch it is time in."""
        if is_at_start:
            return self._after(self._rng.uniform(0, START_KILL_SECONDS_MAX))
        producer = self._driver.producer
        assert producer is not None
        match moment:
            case Moment.STAGED:
                # What the last kill left behind is staged still.
                return partial(self._staged_batch, producer, frozenset(self._eyes.sink(producer).parts))
            case Moment.COMMITTED:
                return partial(self._committed_batch, producer)
            case _:
                return self._after(self._rng.uniform(0, RANDOM_SECONDS_MAX), self._driver.batches_done)

    def _after(self, seconds: float, done: int | None = -1) -> Callable[[], int | None]:
        """Time is *seconds* after Spark has *done* one batch more, or after now."""
        began = [time.monotonic()] if done == -1 else []

        def look() -> int | None:
            if not began and self._driver.batches_done != done:
                began.append(time.monotonic())
            return 0 if began and time.monotonic() - began[0] >= seconds else None

        return look

    def _await_moment(self, look: Callable[[], int | None], moment: Moment) -> int:
        found: list[int] = []

        def is_there() -> bool:
            self._check_driver()
            batch = look()
            found.extend([] if batch is None else [batch])
            return bool(found)

        wait_until(is_there, f"the moment {moment.value}", PROGRESS_SECONDS_MAX, pause_seconds=0.001)
        return found[0]

    def _staged_batch(self, producer: str, old_parts: frozenset[str]) -> int | None:
        """The batch of which all rows are staged, and which is not committed."""
        staged = self._eyes.sink(producer).staged(without=old_parts)
        if not staged:
            return None
        cursor = self._eyes.cursor()
        batch, rows = max(staged.items())
        return batch if rows >= cursor.assigned - cursor.committed else None

    def _committed_batch(self, producer: str) -> int | None:
        """The batch that the broker has committed, and of which Spark has not written down that it is done."""
        last = self._eyes.sink(producer).last_batch
        done = self._driver.batches_done
        return last if last is not None and (done is None or last > done) else None

    @property
    def _producer(self) -> str:
        producer = self._driver.producer
        assert producer is not None
        return producer

    def _is_met(self, moment: Moment, batch: int) -> bool:
        """Whether the driver was really struck at that *moment*: it is dead, so what it has done does not change."""
        producer, done = self._driver.producer, self._driver.batches_done
        if moment is Moment.ANY or producer is None or (done is not None and done >= batch):
            return False
        last = self._eyes.sink(producer).last_batch
        is_committed = last is not None and last >= batch
        return is_committed == (moment is Moment.COMMITTED)

    def _kill(self, victim: Victim) -> None:
        match victim:
            case Victim.DRIVER:
                self._driver.kill()
            case Victim.EXECUTOR:
                kill(self._rng.choice(self._driver.executors()))
            case Victim.BROKER:
                self._broker.kill()

    def _start_again(self, victim: Victim) -> None:
        """What Spark does not start by itself."""
        if victim is Victim.DRIVER:
            self._driver.start()
        elif victim is Victim.BROKER:
            self._broker.start()

    def _check_driver(self) -> None:
        if not self._driver.process.is_running:
            raise self._driver.process.failure("ended by itself")

    # ---- the end -----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Let everything come through, and count."""
        self._driver.wait_until_working()

        def is_through() -> bool:
            self._check_driver()
            return self._eyes.cursor().committed >= self._plan.messages and self._eyes.messages_in("in") == 0

        wait_until(is_through, "everything to come through", PROGRESS_SECONDS_MAX, pause_seconds=0.2)
        producer = self._producer
        self._report.batches = (self._eyes.sink(producer).last_batch or 0) + 1
        self._driver.stop()
        violations = self._report.violations
        violations += problems_of_what_is_left(self._eyes, producer, self._plan.messages)
        arrived = consume_all(self._broker.url)
        violations += problems_of_numbers(arrived.numbers, self._plan.messages)
        violations += [f"a message is not as it was made: {text}" for text in arrived.broken[:10]]
        if left := self._eyes.messages_in(SINK):
            violations.append(f"{left} messages are left on queue {SINK!r}, which was emptied")


def _complaints(log: Path) -> list[str]:
    return [line.decode(errors="replace") for line in _COMPLAINT.findall(log.read_bytes())]
