"""Removes destinations that are empty and unused, where a policy asks for it (ActiveMQ's gcInactiveDestinations).

A destination is durable: it is there until a client or an operator removes it. Where clients invent a name for every
run, that would fill the broker; so a policy may say how long an empty, unused destination lives. The sweep looks at
some destinations in each turn of the loop.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import final

from ackwire.broker.clients import Clients
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.topic import Topic
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


@final
class InactiveDestinations:
    """Looks for destinations that are empty and unused, and removes those that have been for long enough."""

    def __init__(
        self, clock: Clock, slices: Slices, registry: Registry, clients: Clients, period_seconds: float
    ) -> None:
        self._clock = clock
        self._slices = slices
        self._registry = registry
        self._clients = clients
        self._period_seconds = period_seconds
        self._idle_since_ms: dict[Destination, int] = {}
        """When a sweep first found it empty and unused; as many entries as destinations at most."""

    def start(self) -> None:
        """Sweep from now on, if that is wanted."""
        if self._period_seconds > 0:
            self._clock.call_later(self._period_seconds, self._sweep)

    def _sweep(self) -> None:
        producers = {it.destination for c in self._clients.all() for it in c.producers.values()}
        names = iter(self._registry.router.names())
        self._slices.start(partial(self._look_on, names, producers))

    def _look_on(self, names: Iterator[Destination], producers: set[Destination | None], budget: Budget) -> bool:
        for where in names:
            self._look_at(where, has_producer=where in producers)
            if budget.spend():
                return True
        self._clock.call_later(self._period_seconds, self._sweep)
        return False

    def _look_at(self, where: Destination, *, has_producer: bool) -> None:
        target = self._registry.router.get(where)
        if target is None or where.kind.is_temporary or not target.policy.remove_inactive:
            return
        if has_producer or _is_in_use(target):
            self._idle_since_ms.pop(where, None)
            return
        now_ms = self._clock.now_ms()
        idle_ms = now_ms - self._idle_since_ms.setdefault(where, now_ms)
        if idle_ms and idle_ms >= target.policy.inactive_seconds_min * 1000:
            del self._idle_since_ms[where]
            self._remove(where)

    def _remove(self, where: Destination) -> None:
        if self._clients.producer_count(where):  # it has come since the sweep began
            return
        try:
            self._registry.remove(where, None)
        except BrokerError as error:
            _log.debug("%r stays: %s", where, error)
        else:
            _log.info("%r was empty and unused for long enough, and is removed", where)


def _is_in_use(target: Queue | Topic) -> bool:
    if target.consumer_count:
        return True
    if isinstance(target, Queue):
        return target.size_bytes > 0 or bool(target.reservations.holders)
    return bool(target.durables)
