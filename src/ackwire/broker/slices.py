"""Long work in slices: whatever grows with messages, destinations or consumers lets others have their turn in between.

A job is a function that works until its `Budget` is spent and says whether there is more to do. `Slices` gives all jobs
together one budget in each turn of the loop, in rotation, so a hundred jobs hold the loop up no longer than one. Work
that begins at once has a budget beside that, which is one for all that begin in the same turn: a hundred clients that
hang up together hold the loop up no longer than one.

A budget is a time and a number of units. The time is what matters on a real machine; in a simulation time stands still
while code runs, so the units end the slice there, and a run can be repeated.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from ackwire.clock import Clock, Turns

SLICE_SECONDS: Final = 0.005
"""How long one slice may hold up the loop."""
SLICE_UNITS: Final = 2000
"""Units of work in a slice, whatever the clock says: a unit takes 2 µs or more."""
_UNITS_PER_LOOK: Final = 16
"""Units between two looks at the clock."""

_log = logging.getLogger(__name__)


@final
class Budget:
    """What is left of one slice."""

    __slots__ = ("_clock", "_ends", "_has_begun", "_look_at", "_units")

    def __init__(self, clock: Clock, seconds: float = SLICE_SECONDS, units: int = SLICE_UNITS) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + seconds
        self._units = units
        self._look_at = max(0, units - _UNITS_PER_LOOK)
        self._has_begun = False

    @property
    def is_spent(self) -> bool:
        """Whether it is time to let others have their turn; looks at the clock.

        Not the first time: a job goes on by one unit at least, or it would never end on a machine that is too slow.
        """
        if not self._has_begun:
            self._has_begun = True
            return False
        if self._units > 0 and self._clock.monotonic() >= self._ends:
            self._units = 0
        return self._units <= 0

    @property
    def left_seconds(self) -> float:
        """What is left of the time."""
        return max(0.0, self._ends - self._clock.monotonic())

    def spend(self, units: int = 1) -> bool:
        """Count *units* of work that were done; whether the budget is spent now.

        The clock is looked at only now and then: for work whose unit may take long by itself, ask `is_spent` instead.
        """
        self._units -= units
        self._has_begun = True
        if self._units > self._look_at:
            return False
        self._look_at = max(0, self._units - _UNITS_PER_LOOK)
        return self.is_spent


Job: TypeAlias = Callable[[Budget], bool]
"""Works until the budget is spent, or all is done; True if there is more. One whose owner has gone returns False."""


@final
class Slices:
    """The long jobs of a broker, each a slice at a time."""

    def __init__(self, clock: Clock, units: int = SLICE_UNITS, turns: Turns | None = None) -> None:
        """*units* of work are one slice at most: tests and simulations have small ones. *turns* are those of the loop,
        if it counts them; otherwise each call of `budget` is taken for a turn of its own."""
        self._clock = clock
        self._units = units
        self._turns = turns
        self._first_budget: Budget | None = None
        """For what begins in the turn `_first_budget_turn`."""
        self._first_budget_turn = -1
        self._jobs: deque[Job] = deque()
        self._is_due = False

    def __len__(self) -> int:
        """Jobs that are not done."""
        return len(self._jobs)

    @property
    def units(self) -> int:
        """Units of work in one slice, at most."""
        return self._units

    def budget(self) -> Budget:
        """For the first part of some work that is done at once, in the turn in which it was asked for.

        All who ask in the same turn share it. It may be spent already: then everything is left to a job.
        """
        turns = self._turns
        if turns is None:
            return self._new_budget()
        first = self._first_budget
        if first is None or self._first_budget_turn != turns.number:
            self._first_budget = first = self._new_budget()
            self._first_budget_turn = turns.number
        return first

    def _new_budget(self) -> Budget:
        return Budget(self._clock, units=self._units)

    def start(self, job: Job) -> None:
        """Do *job*, beginning with the next turn of the loop."""
        self._jobs.append(job)
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._clock.call_later(0, self._work)

    def _work(self) -> None:
        """One slice: jobs in rotation, until the budget is spent or each had its part."""
        self._is_due = False
        budget = self._new_budget()
        for _ in range(len(self._jobs)):
            job = self._jobs.popleft()
            try:
                if job(budget):
                    self._jobs.append(job)
            except Exception:  # a bug of ours: it ends this job, loudly, and no other
                _log.exception("a job in slices has failed: %r", job)
            if budget.is_spent:
                break
        if self._jobs:
            self._call_soon()
