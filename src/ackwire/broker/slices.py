"""Long work in slices: whatever grows with messages, destinations or consumers lets others have their turn in between.

A job is a function that works until its `Budget` is spent and says whether there is more to do. `Slices` gives all jobs
together one budget in each turn of the loop, in rotation, so a hundred jobs hold the loop up no longer than one. Work
that begins at once has a budget beside that, which is one for all that begin in the same turn: a hundred clients that
hang up together hold the loop up no longer than one.

A budget is a time and a number of units. The time is what matters on a real machine; in a simulation time stands still
while code runs, so the units end the slice there, and a run can be repeated.

While clients wait to be read, a slice gives way to them long before its time is over. So a light client hardly notices
the long work of another one; and that one, as long as it is alone, works in long slices, which cost less.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from ackwire.util.clock import Clock, Turns

SLICE_SECONDS: Final = 0.005
"""How long one slice may hold up the loop."""
GIVE_WAY_SECONDS: Final = 0.0005
"""How long it may hold up clients that wait to be read; they are looked for as often, a system call of 1 µs."""
GIVE_WAY_SECONDS_MAX: Final = 0.002
"""On a busy loop it may hold them up as long as everything else has taken since the slice before, and no longer than
this: so long work goes on however much others have to do."""
SLICE_UNITS: Final = 2000
"""Units of work in a slice, whatever the clock says: a unit takes 2 µs or more."""
_UNITS_PER_LOOK: Final = 16
"""Units between two looks at the clock."""

_log = logging.getLogger(__name__)


def _nobody_waits() -> bool:
    return False


@final
class Budget:
    """What is left of one slice."""

    __slots__ = ("_clock", "_ends", "_gives_way_at", "_has_begun", "_look_at", "_others_wait", "_units")

    def __init__(
        self,
        clock: Clock,
        seconds: float = SLICE_SECONDS,
        units: int = SLICE_UNITS,
        *,
        sure_seconds: float = GIVE_WAY_SECONDS,
        others_wait: Callable[[], bool] = _nobody_waits,
    ) -> None:
        """It ends after *sure_seconds* if *others_wait* then, and after *seconds* in any case."""
        now = clock.monotonic()
        self._clock = clock
        self._ends = now + seconds
        self._gives_way_at = now + sure_seconds
        self._others_wait = others_wait
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
        if self._units > 0:
            now = self._clock.monotonic()
            if now >= self._ends or (now >= self._gives_way_at and self._has_to_give_way(now)):
                self._units = 0
        return self._units <= 0

    def _has_to_give_way(self, now: float) -> bool:
        self._gives_way_at = now + GIVE_WAY_SECONDS
        return self._others_wait()

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
        self._asked_at = 0.0
        """When the next slice was asked for: what has passed since is what everything else had."""
        self.others_wait: Callable[[], bool] = _nobody_waits
        """Whether clients wait to be read; the server knows."""
        self.before_slice: Callable[[], object] = _nobody_waits
        """Called before each slice: output that is held back for a few microseconds must not wait for the slice."""

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
            return self.new_budget()
        first = self._first_budget
        if first is None or self._first_budget_turn != turns.number:
            self._first_budget = first = self.new_budget()
            self._first_budget_turn = turns.number
        return first

    def new_budget(self, sure_seconds: float = GIVE_WAY_SECONDS) -> Budget:
        """One that is not shared with others."""
        return Budget(self._clock, units=self._units, sure_seconds=sure_seconds, others_wait=self.others_wait)

    def start(self, job: Job) -> None:
        """Do *job*, beginning with the next turn of the loop."""
        self._jobs.append(job)
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._asked_at = self._clock.monotonic()
            self._clock.call_later(0, self._work)

    def _work(self) -> None:
        """One slice: jobs in rotation, until the budget is spent or each had its part."""
        self._is_due = False
        self.before_slice()
        others_seconds = self._clock.monotonic() - self._asked_at
        budget = self.new_budget(min(GIVE_WAY_SECONDS_MAX, max(GIVE_WAY_SECONDS, others_seconds)))
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
