"""Moving a working connection to a better broker: a preferred one, or one that the broker names (SEMANTICS J4).

`Relocation` decides where to look and when; `Spares` opens the links, and the engine moves.
"""

import logging
from collections.abc import Callable
from typing import Final

from ackwire.client.engine_tasks import EngineTasks
from ackwire.client.failover import FailoverPlan, Uri
from ackwire.client.link import Link
from ackwire.client.options import FailoverOptions
from ackwire.client.spares import Spares
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands

_HINT_INTERVAL_SECONDS: Final = 5.0
"""How often a broker may send a client elsewhere: two brokers that name each other must not keep it busy."""

_log = logging.getLogger(__name__)


class Relocation:
    """Looks for better brokers in the background, and hands a link to one to the engine's *move*."""

    def __init__(
        self,
        plan: FailoverPlan,
        options: FailoverOptions,
        spares: Spares,
        tasks: EngineTasks,
        clock: Clock,
        move: Callable[[Link, Link], None],
    ) -> None:
        self._plan = plan
        self._options = options
        self._spares = spares
        self._tasks = tasks
        self._clock = clock
        self._move = move
        self._next_hint_at = 0.0

    def begin(self, link: Link) -> None:
        """*link* is usable: keep spares ready, and try to return to a preferred broker."""
        preferred = self._plan.preferred_to(link.uri)
        if preferred:
            self._tasks.spawn_background(lambda: self._spares.seek(preferred, lambda found: self._move(link, found)))
        if self._options.backup and self._plan.is_failover:
            self._tasks.spawn_background(lambda: self._spares.keep_for(link.uri))

    def obey(self, link: Link, control: commands.ConnectionControl) -> None:
        """Do what the broker of *link* asks: learn of other brokers, or move to one."""
        if not self._plan.is_failover:
            return
        candidates: list[Uri] = []
        if self._options.reconnect_supported:
            candidates += self._plan.received(control.reconnect_to or "")[:1]
        uris = self._plan.received(control.connected_brokers or "") if self._options.update_uris_supported else []
        if uris and self._plan.update(uris):
            _log.info("%s: the broker names others: %s", link.address, ", ".join(uri.address for uri in uris))
            if control.rebalance_connection and self._options.rebalance_update_uris:
                candidates += self._plan.ahead_of(link.uri)
        if candidates and self._clock.monotonic() >= self._next_hint_at:
            self._next_hint_at = self._clock.monotonic() + _HINT_INTERVAL_SECONDS
            self._tasks.spawn_background(
                lambda: self._spares.try_once(candidates, lambda found: self._move(link, found))
            )
