"""A fault at every call of the disk, one at a time: no promise is broken, and a new start is whole (K7).

A scenario runs once to count its calls, and then once for each call with a fault there. Whatever the store makes of the
fault, it keeps its promises; a write or a sync that failed while it ran makes it fail for good.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeAlias

import pytest

from ackwire.errors import StoreFailed
from ackwire.store.contract import Store
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.sql.errors import UnusableDatabase
from tests.helpers.all_stores import SIMULATED_STORES
from tests.helpers.simulated_disk import EIO, ENOSPC, Call, Effect
from tests.helpers.store_history import KINDS, Happenings, History
from tests.helpers.stored import kept
from tests.helpers.stores import Crash, StoreFactory, toy_factory
from tests.helpers.toy_store import Mistake

Make: TypeAlias = Callable[[int], StoreFactory]

FAULTS = {
    "EIO": (EIO, Effect.NOTHING),
    "ENOSPC": (ENOSPC, Effect.NOTHING),
    "half done": (EIO, Effect.PARTLY),  # a short write; a sync that lost what it should have written
}
VARIATIONS = ("journal, slow disk", "journal, LevelDB", "journal+sqlite, slow disk")
"""Stores that are another one with a slower disk or another index."""
FATAL = ("write", "sync")
STEPS = 20


class _Unreadable(Exception):
    """A message could not be read when the store was opened."""


class Scenario:
    """The same two lives each time, but for the fault; it ends early where the store fails."""

    def __init__(self, factory: StoreFactory) -> None:
        self.factory = factory
        assert factory.disk is not None
        self.disk = factory.disk
        self.history = History()
        self.store: Store | None = None
        self.failure: Exception | None = None
        self.calls_while_it_runs: list[Call] = []
        """Without those of starts and stops."""
        self._random = Random(7)
        self._happenings = Happenings()

    def run(self) -> None:
        for _ in range(2):
            with self._may_fail(OSError, StoreFailed, UnusableStore, UnusableDatabase, _Unreadable):
                self._open()
            if self.failure is None:
                self._live()
            if self.failure is None:
                with self._may_fail(StoreFailed):
                    self.factory.close()
            if self.failure is not None:
                return
            self.history.close()
            self.store = None

    def _open(self) -> None:
        self.store = self.factory.open()
        before = self.disk.failed_calls
        found = kept(self.store)
        if self.disk.failed_calls > before:
            raise _Unreadable  # and None in its place, as the contract says; the next start can read it
        self.history.go_on_from(found)

    def _live(self) -> None:
        before = len(self.disk.calls)
        for _ in range(STEPS):
            with self._may_fail(StoreFailed):
                self._step()
            if self.failure is not None:
                break
        self.calls_while_it_runs += self.disk.calls[before:]

    @contextmanager
    def _may_fail(self, *kinds: type[Exception]) -> Iterator[None]:
        try:
            yield
        except kinds as failure:
            self.failure = failure

    def _step(self) -> None:
        assert self.store is not None
        for kind in self._random.choices(KINDS, k=3):
            self.history.record(self.store, self._happenings.make(kind, self.history.state, self._random))
        self.history.ask(self.store, self._fail)
        for _ in range(self._random.randrange(8)):
            self.factory.step()

    def _fail(self, failure: StoreFailed) -> None:
        self.failure = failure

    def expect_no_more_promises(self) -> None:
        """A failed store refuses everything, and tells nobody that it were durable."""
        assert self.store is not None
        promised = self.history.promised
        for _ in range(3):
            verbs = self._happenings.make("append", self.history.state, self._random)
            with pytest.raises(StoreFailed):
                self.history.record(self.store, verbs)
            self.history.ask(self.store, self._fail)
        self.factory.settle()
        assert self.history.promised == promised, "the store has failed, and still promises"

    def start_again(self, crash: Crash) -> None:
        """The disk is well again, and everything promised is there, and outlives the next power cut."""
        self.factory.stop(crash)
        store = self.factory.open()
        self.history.go_on_from(kept(store))
        for kind in ("append", "append", "commit"):
            self.history.record(store, self._happenings.make(kind, self.history.state, self._random))
        self.history.ask(store)
        self.factory.settle()
        assert self.history.told == self.history.asked
        self.factory.stop(Crash.POWER_CUT)
        self.history.go_on_from(kept(self.factory.open()))


def run_with_fault(make: Make, call: Call, fault: str, crash: Crash, *, is_fatal: bool) -> None:
    """The scenario with a *fault* in *call*, then a *crash* and a new start."""
    scenario = Scenario(make(0))
    error, effect = FAULTS[fault]
    scenario.disk.reseed(call.number)
    scenario.disk.fail("any", call.number, error=error, effect=effect)
    try:
        scenario.run()
        assert scenario.failure is not None or not is_fatal, "the store goes on"
        if isinstance(scenario.failure, StoreFailed) and scenario.store is not None:
            scenario.expect_no_more_promises()
        scenario.start_again(crash)
    except Exception as problem:
        raise AssertionError(f"{fault} in call {call}, then {crash.value}: {problem}") from problem


def run_with_faults_everywhere(make: Make, faults: Sequence[str], crashes: Sequence[Crash]) -> None:
    """One fault in each call, and a crash behind it; *faults* and *crashes* take turns."""
    well = Scenario(make(0))
    well.run()
    assert well.failure is None
    fatal = {
        call.number for call in well.calls_while_it_runs if call.operation in FATAL and well.factory.is_fatal(call)
    }
    for call in well.disk.calls:
        fault, crash = faults[call.number // len(crashes) % len(faults)], crashes[call.number % len(crashes)]
        run_with_fault(make, call, fault, crash, is_fatal=call.number in fatal)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", [it for it in SIMULATED_STORES if it not in VARIATIONS])
def test_fault_at_any_call_breaks_no_promise(name: str, fault: str) -> None:
    """K7: the crashes take turns; many more combinations are a matter of patience."""
    run_with_faults_everywhere(SIMULATED_STORES[name], [fault], list(Crash))


@pytest.mark.parametrize("name", VARIATIONS)
def test_fault_at_any_call_of_a_variation_breaks_no_promise(name: str) -> None:
    """K7: the same code as in the store it varies, so the faults take turns, too."""
    run_with_faults_everywhere(SIMULATED_STORES[name], list(FAULTS), list(Crash))


def test_suite_notices_a_store_that_tries_a_failed_sync_again() -> None:
    """K7: the second sync says nothing about what the first one lost."""
    with pytest.raises(AssertionError):
        run_with_faults_everywhere(
            lambda seed: toy_factory(Mistake.IGNORES_FAILED_SYNC, seed=seed), ["EIO"], [Crash.POWER_CUT]
        )
