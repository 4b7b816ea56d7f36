"""When Python's cyclic garbage collector runs in a broker, so that it never holds the loop up for long.

A collection looks at every object of its generation while the loop stands still: about 0.1 µs each, so all objects of a
broker with 100,000 queues take most of a second. But a broker makes hardly any cycles: messages, queues, connections
and buffers end when the last reference to them goes. So:

* Young objects are scanned twice, a few thousand at a time.
* The oldest generation is scanned when some ten thousand have come to it. If that took long, what is left is frozen: it
  is not scanned again, so the next time takes no longer. It still ends with its last reference.
* Everything, frozen objects included, is looked at while the broker does next to nothing: at most once an hour, and
  less often if nothing is found.

What this gives up: a cycle of objects that have been frozen stays until the broker is idle.
"""

import gc
import logging
import time
from collections.abc import Callable
from typing import Any, Final, final

from ackwire.util.clock import Clock
from ackwire.util.plurals import counted

THRESHOLDS: Final = (5_000, 2, 1)
"""Objects made and not freed before the youngest are scanned, about 1 ms for so many messages, and how often older ones
are: every third time 15,000, at most 11 ms, and after two times of that, 30,000, the oldest. Each object that stays is
scanned three times whatever the numbers are; they only say how many at once. With 100,000 queues and a million messages
an object takes up to 0.5 µs, because it is not in the processor's cache: 165,000 of the oldest took 112 ms, 30,000 take
14 ms. Python's own rule, every 700 objects, takes a sixth of the time that a message takes."""

FROZEN_SECONDS: Final = 0.002
"""After a collection that took longer, what is left is frozen: 30,000 objects take about so long in the best case."""

_LOOK_SECONDS: Final = 60.0
"""How often it is looked whether the broker is idle."""
_IDLE_SHARE: Final = 0.01
"""The processor time, of all time, below which it is."""
_SWEEP_SECONDS: Final = 3600.0
_SWEEP_SECONDS_MAX: Final = 24 * 3600.0
_MANY: Final = 10_000
"""Objects in cycles that are worth a line in the log."""

_log = logging.getLogger(__name__)


@final
class Collector:
    """Runs the garbage collector for one process; there is one at most."""

    def __init__(
        self,
        clock: Clock,
        seconds: Callable[[], float] = time.perf_counter,
        cpu_seconds: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._cpu_seconds = cpu_seconds
        self._began = 0.0
        self._has_frozen = False
        """Whether objects of this run are frozen, besides those of the start."""
        self._looked_at = 0.0
        self._cpu_at_look = 0.0
        self._swept_at = 0.0
        self._sweep_seconds = _SWEEP_SECONDS
        self._is_on = False

    def start(self, *, clients_wait: bool = False) -> None:
        """The broker is ready: what is there stays, and is not looked at again. If *clients_wait*, as after a take-over
        from another one, not even once: what is garbage by then is found when the broker is idle."""
        if clients_wait:
            self._has_frozen = True
        else:
            gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)
        self._is_on = True
        self._swept_at = self._clock.monotonic()
        self._look_later()

    def stop(self) -> None:
        """Leave the collector to others."""
        if self._is_on:
            self._is_on = False
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._seconds()
        elif self._seconds() - self._began > FROZEN_SECONDS:
            self._has_frozen = True
            gc.freeze()

    # ---- everything, while the broker is idle ------------------------------------------------------------------

    def _look_later(self) -> None:
        self._looked_at = self._clock.monotonic()
        self._cpu_at_look = self._cpu_seconds()
        self._clock.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if not self._is_on:
            return
        now = self._clock.monotonic()
        is_idle = self._cpu_seconds() - self._cpu_at_look < _IDLE_SHARE * (now - self._looked_at)
        if is_idle and self._has_frozen and now - self._swept_at >= self._sweep_seconds:
            self._sweep(now)
        self._look_later()

    def _sweep(self, now: float) -> None:
        self._has_frozen = False
        gc.unfreeze()
        found = gc.collect()
        self._swept_at = now
        self._sweep_seconds = _SWEEP_SECONDS if found else min(_SWEEP_SECONDS_MAX, 2 * self._sweep_seconds)
        if found > _MANY:
            _log.warning("%s of the broker were in cycles, and are gone only now", counted(found, "object"))
