"""Links beside the one in use: spares that are held ready, and the way back to a preferred broker (SEMANTICS J4).

A spare has exchanged WireFormatInfos and waits for its login. Brokers do not wait for ever for that, so spares are
replaced in time. The engine takes one out when it needs it; a spare that ended is noticed and replaced.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.failover import BackOff, FailoverPlan, Uri
from ackwire.client.link import Link
from ackwire.client.options import FailoverOptions

SPARE_AGE_SECONDS: Final = 20.0
"""Brokers give a connection 30 or 60 seconds to log in, and log those that do not."""

Prepare = Callable[[Uri], Awaitable[Link]]
Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


class Spares:
    """What `backup` and `priorityBackup` ask for."""

    def __init__(self, plan: FailoverPlan, options: FailoverOptions, prepare: Prepare, sleep: Sleep) -> None:
        self._plan = plan
        self._options = options
        self._prepare = prepare
        self._sleep = sleep
        self._ready: list[Link] = []

    @property
    def ready(self) -> list[Link]:
        """Those that could take over now."""
        self._ready = [link for link in self._ready if link.is_open]
        return self._ready

    def take(self) -> Link | None:
        return self.ready.pop(0) if self.ready else None

    def drop_all(self) -> None:
        for link in self._ready:
            link.abort()
        self._ready.clear()

    # ---- backup ------------------------------------------------------------------------------------------------

    async def keep_for(self, current: Uri) -> None:
        """Hold spares for the connection to *current* until cancelled."""
        back_off = BackOff(self._options)
        while True:
            self._drop_those_to(current)
            failed = await self._fill(current)
            if failed:
                await self._sleep(back_off.next_seconds())
            else:
                back_off.reset()
                await self._until_one_is_due()

    def _drop_those_to(self, current: Uri) -> None:
        for link in [link for link in self.ready if link.address == current.address]:
            self._ready.remove(link)
            link.abort()

    async def _fill(self, current: Uri) -> bool:
        """Make what is missing; whether some could not be made."""
        failed = False
        for uri in self._plan.spares_for(current):
            if len(self.ready) >= self._options.backup_pool_size:
                return False
            if any(link.address == uri.address for link in self._ready):
                continue
            try:
                self._ready.append(await self._prepare(uri))
            except ConnectionFailedError as error:
                failed = True
                _log.debug("no spare connection: %s", error)
        return failed

    async def _until_one_is_due(self) -> None:
        """Wait until a spare ended, or all are so old that they are made anew."""
        ends = [link.closed for link in self.ready]
        if not ends:  # nowhere to hold one, until the broker names others
            await self._sleep(SPARE_AGE_SECONDS)
            return
        ended, _ = await asyncio.wait(ends, timeout=SPARE_AGE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ended:
            self.drop_all()

    # ---- better places -----------------------------------------------------------------------------------------

    async def seek(self, preferred: Sequence[Uri], found: Callable[[Link], None]) -> None:
        """Try *preferred* again and again, and hand the first that answers to *found*."""
        back_off = BackOff(self._options)
        while True:
            await self._sleep(back_off.next_seconds())
            if await self._first_that_answers(preferred, found):
                return

    async def try_once(self, candidates: Sequence[Uri], found: Callable[[Link], None]) -> None:
        if not await self._first_that_answers(candidates, found):
            _log.warning("the connection stays: none of %s answers", ", ".join(uri.address for uri in candidates))

    async def _first_that_answers(self, candidates: Sequence[Uri], found: Callable[[Link], None]) -> bool:
        for uri in candidates:
            try:
                link = await self._prepare(uri)
            except ConnectionFailedError as error:
                _log.debug("no way to a better broker: %s", error)
            else:
                found(link)
                return True
        return False
