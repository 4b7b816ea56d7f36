"""Calls all who have waited for a sync: so many in each turn of the loop.

Behind a slow sync there may be a hundred thousand of them. Those come first who would be told of a failure: clients
that do nothing until they are answered. The others are called at the end of the turn, behind what is written to those.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.util.clock import Clock, Timer

ANSWERS_PER_TURN: Final = 1000
"""They take about 3 ms. No more senders than that are read from in a turn."""

_log = logging.getLogger(__name__)

Waiter = tuple[Callable[[], None], Callable[[StoreFailed], None] | None]
"""What to call when everything is durable, and what if that fails."""

AtTurnEnd = Callable[[Callable[[], None]], Timer]


@final
class Answers:
    """Those whose records are durable, and who have not been called yet."""

    def __init__(self, clock: Clock, at_turn_end: AtTurnEnd, on_given: Callable[[], None]) -> None:
        self._clock = clock
        self._at_turn_end = at_turn_end
        self._on_given = on_given
        """Called when the last one was called, if that was later than the turn in which they came."""
        self.per_turn = ANSWERS_PER_TURN
        """Tests have fewer."""
        self._first: deque[Waiter] = deque()
        self._others: deque[Waiter] = deque()
        self._next: Timer | None = None

    @property
    def is_giving(self) -> bool:
        """Whether some are to be called in a later turn. Then all who come are called behind them."""
        return self._next is not None

    def give(self, waiters: list[Waiter]) -> None:
        """Call *waiters*, now if they are not many."""
        if self._next is None and len(waiters) <= self.per_turn:
            call_all([callback for callback, on_failed in waiters if on_failed is not None])
            others = [callback for callback, on_failed in waiters if on_failed is None]
            if others:
                self._at_turn_end(partial(call_all, others))
            return
        for waiter in waiters:
            (self._others if waiter[1] is None else self._first).append(waiter)
        if self._next is None:
            self._go_on()

    def _go_on(self) -> None:
        """Call so many, and the next ones in the next turn."""
        first, others = self._first, self._others
        self._next = self._clock.call_later(0, self._go_on)
        for _ in range(min(self.per_turn, len(first) + len(others))):
            if first or others:  # one who is called may cancel others
                _call((first or others).popleft()[0])
        if not first and not others:
            self._given()

    def _given(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
            self._on_given()

    def cancel(self, callback: Callable[[], None]) -> bool:
        """Do not call *callback*; False if it is not among those to be called."""
        for waiters in (self._first, self._others):
            for waiter in waiters:
                if waiter[0] is callback:
                    waiters.remove(waiter)
                    return True
        return False

    def finish(self) -> None:
        """Call all who are left."""
        waiters = [*self._first, *self._others]
        self._first.clear()
        self._others.clear()
        call_all([callback for callback, _ in waiters])
        self._given()

    def stop(self) -> None:
        """Call none of them any more."""
        if self._next is not None:
            self._next.cancel()


def call_all(callbacks: list[Callable[[], None]]) -> None:
    """One that fails says so in the log, and keeps no other from being called."""
    for callback in callbacks:
        _call(callback)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("one who waited for the disk could not be told")
