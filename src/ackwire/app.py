"""The one place that runs a broker: its role, then a term with store, broker and listeners, then the role again."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ackwire.audit.opening import convert_leftovers
from ackwire.cluster.mastership import Grant, MastershipLost
from ackwire.cluster.roles import Roles, Standing
from ackwire.config import Settings
from ackwire.config.listener_uri import parse_address, parse_listener_uri
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import ALONE
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.listener import check_address
from ackwire.server.protocols import installed_protocols
from ackwire.server.tls import server_context
from ackwire.server.turn import Turn
from ackwire.serving.candidacy import Candidacy, candidacy_of
from ackwire.serving.ending_clock import EndingClock
from ackwire.serving.http_port import HttpPort, require_h11
from ackwire.serving.standby import Standby
from ackwire.serving.term import Ends, Process, Serving, serve_term
from ackwire.util.clock import Clock, SystemClock

__all__ = ["Serving", "serve"]

_log = logging.getLogger(__name__)


async def serve(
    settings: Settings,
    *,
    ready: Callable[[Serving], None],
    stop: asyncio.Event | None = None,
    clock: Clock | None = None,
    protocols: Sequence[ProtocolFactory] | None = None,
    changed: Callable[[Standing], None] = lambda _: None,
) -> None:
    """Run a broker until *stop* is set or the task is cancelled, then drain.

    *ready* is called when clients can connect: once, or each time that this broker becomes the master of a group.
    *changed* is called with each role. Raises `ConfigError` if a listener or the store cannot be opened, and
    `StoreFailed` after the store has failed and clients know it (K7). *clock* is the time of messages: expiry, delays,
    schedules. Sockets and disks are real and keep the machine's time, whatever it says.
    *protocols* are those that listeners may speak: unless given, those that are installed.
    """
    clock = clock or SystemClock()
    stop = stop or asyncio.Event()
    await _check(settings)
    turn = Turn(asyncio.get_running_loop())
    candidacy = candidacy_of(replace(settings, store=settings.store.resolved()), turn)
    roles = Roles(SystemClock().now_ms)
    roles.observe(changed)
    process = Process(
        settings=settings,
        turn=turn,
        roles=roles,
        protocols=installed_protocols() if protocols is None else protocols,
        http=HttpPort(settings) if settings.http.listen else None,
        ready=ready,
        group=None if candidacy is None else candidacy.group,
    )
    try:
        if candidacy is None:
            await _serve_alone(process, clock, stop)
        else:
            await asyncio.to_thread(convert_leftovers, settings)
            await _Turns(process, clock, candidacy, stop).run()
    finally:
        if candidacy is not None:
            await candidacy.mastership.close()
        if process.http is not None:
            process.http.close()


async def _check(settings: Settings) -> None:
    """Find mistakes before a store is opened, which may take long and makes files. Raises `ConfigError`."""
    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    for uri in uris:
        if uri.tls_options is not None:
            server_context(uri)
    if settings.http.listen:
        require_h11()
        uris.append(parse_address(settings.http.listen))
    for uri in uris:
        await check_address(uri)


async def _serve_alone(process: Process, clock: Clock, stop: asyncio.Event) -> None:
    process.roles.granted(0, "no other broker shares its store")
    await serve_term(process, clock, ALONE, Ends(stop, asyncio.get_running_loop().create_future()))
    process.roles.stop("it was told to")
    process.roles.released()


class _Turns:
    """The terms of one broker of a group, and the time between them."""

    def __init__(self, process: Process, clock: Clock, candidacy: Candidacy, stop: asyncio.Event) -> None:
        self._process = process
        self._clock = clock
        self._candidacy = candidacy
        self._mastership = candidacy.mastership
        self._roles = process.roles
        self._stop = stop
        self._standby = Standby(process)
        self._roles.observe(_log_standing)
        self._mastership.on_waiting = self._roles.waits
        self._mastership.on_suspended = lambda why: _ignore(self._roles.suspended(why))
        self._mastership.on_resumed = lambda why: _ignore(self._roles.resumed(why))

    async def run(self) -> None:
        """Wait, serve, step down, and so on, until it is to stop."""
        while not self._stop.is_set():
            await self._standby.open()
            try:
                grant = await self._granted()
            finally:
                await self._standby.close()
            if grant is None:
                break
            await self._serve(grant)
            self._roles.released()
        self._roles.stop("it was told to")
        self._roles.released()

    async def _granted(self) -> Grant | None:
        """The next grant; None if it is to stop first."""
        self._roles.waits("it asks for mastership")
        acquiring = asyncio.create_task(self._mastership.acquire())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((acquiring, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not acquiring.done():
                return None
            return acquiring.result()
        finally:
            stopping.cancel()
            if not acquiring.done():
                acquiring.cancel()
                await asyncio.wait((acquiring,))

    async def _serve(self, grant: Grant) -> None:
        """One term. Raises what ends the process."""
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_lost(why: str) -> None:
            if not lost.done():
                self._roles.lost(why)
                lost.set_result(why)

        self._mastership.on_lost = on_lost
        clock = EndingClock(self._clock)
        try:
            self._roles.granted(grant.epoch, grant.why)
            await serve_term(self._process, clock, self._candidacy.tenure(), Ends(self._stop, lost))
            self._roles.stop("it was told to")
        except MastershipLost:
            pass
        except (StoreFailed, ConfigError) as error:
            # A store that was given up says so when it is closed. Another broker may have taken the store over, too,
            # which fails then before anything else is known.
            if not lost.done():
                if self._stop.is_set() or await self._mastership.is_held():
                    raise
                on_lost(str(error))
        finally:
            clock.end()
            await self._mastership.release()


def _log_standing(standing: Standing) -> None:
    suspended = ", suspended" if standing.is_suspended else ""
    _log.info("%s, epoch %d%s: %s", standing.word, standing.epoch, suspended, standing.why)


def _ignore(_: bool) -> None:
    """Whether it made a difference is of no interest here."""
