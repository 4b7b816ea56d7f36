"""Removes what has expired from every queue, from time to time and a slice of the loop at a time (SEMANTICS A6)."""

import logging
from collections.abc import Iterator
from typing import Final, final

from ackwire.broker.fetching import Fetch, job_of
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.registry import Registry
from ackwire.broker.slices import Slices
from ackwire.util.clock import Clock

_SWEEP_UNITS: Final = 8
"""What a step of the sweep costs of a slice: a message that expires may become a dead letter."""
_QUEUES_PER_STEP: Final = 8
"""Queues without anything to expire that are looked at in one step."""

_log = logging.getLogger(__name__)


@final
class ExpirySweep:
    """Looks through the queues for messages whose time is over."""

    def __init__(self, clock: Clock, slices: Slices, registry: Registry, settings: LiveSettings) -> None:
        self._clock = clock
        self._slices = slices
        self._registry = registry
        self._settings = settings
        self._is_sweeping = False

    def start(self) -> None:
        """Sweep every so often from now on."""
        self._clock.call_later(self._settings.current.destinations.expiry_sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        self.start()
        if not self._is_sweeping:
            self._is_sweeping = True
            self._slices.start(job_of(self._expire_all(), self._slices, _SWEEP_UNITS))

    def _expire_all(self) -> Iterator[Fetch | None]:
        """Remove what has expired everywhere, a little with each step."""
        try:
            for number, queue in enumerate(self._registry.queues()):
                try:
                    yield from queue.expiry.expire_due(self._clock.now_ms())
                except Exception:  # whatever it is: other queues and later sweeps go on
                    _log.exception("expired messages of %r stay where they are for now", queue)
                if number % _QUEUES_PER_STEP == 0:
                    yield None
        finally:
            self._is_sweeping = False
