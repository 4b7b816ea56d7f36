"""The socket side of one client connection: connect, keep alive, notice the end, connect again (SEMANTICS J2, J3, J4).

Everything here runs on one event loop: the application's with asyncio, a private one with threads. The core
interprets the bytes; `failover.py` decides which broker is next, `writer.py` who writes and when; `link.py` is one
socket, `link_limits.py` its time limits; `relocation.py` looks for better brokers.

How it works. `open` makes attempts until a link is *settled*: connected, and its wire format agreed. From then on the
core speaks. A link is *restored* when the core says that its login was answered; only that ends a series of attempts. A
link that is lost is replaced by a task that makes attempts again, or the end is final.

What the core may rely on:

* every call comes under the guard, from the loop's thread;
* each `transport_connected` is followed by one `transport_lost`, unless `close` or `abort` came first;
* after `transport_lost(final=True)`, which may come without a connection before it, and after `close` or `abort`,
  there are no more calls;
* `on_output`, `on_much_output` and `drop` may be called from any thread, all but `drop` under the guard; the other
  hooks only from inside `receive_data`.

Nothing here waits without a limit but an attempt whose options say so, and nothing outlives `close`.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from ackwire.client.attempt_failures import AttemptFailures, as_failure
from ackwire.client.engine_tasks import EngineTasks
from ackwire.client.errors import ConnectionFailedError, InvalidClientIdError, JMSError, JMSSecurityError
from ackwire.client.failover import Attempt, FailoverPlan, Uri
from ackwire.client.link import Link
from ackwire.client.link_limits import handshake_timers, inactivity_monitor
from ackwire.client.options import FailoverOptions, WireFormatOptions
from ackwire.client.relocation import Relocation
from ackwire.client.spares import Spares
from ackwire.client.transports import TransportOpener, set_no_delay, wants_no_delay
from ackwire.client.uri import BrokerUrl, TcpUri
from ackwire.client.uri_file import read_uris
from ackwire.client.writer import Output, Writer
from ackwire.errors import ConfigError, RemoteProtocolError
from ackwire.util.clock import Clock
from ackwire.wire.inactivity import InactivityMonitor
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement

_LINGER_SECONDS: Final = 5.0
"""How long a link that is left may take to send its last bytes, and what was aborted to end."""

_log = logging.getLogger(__name__)


class Core(Output, Protocol):
    """What the engine needs of the connection's core, and which hooks it sets on it."""

    on_output: Callable[[], None]
    """There is something to send. Under the guard, from any thread."""
    on_much_output: Callable[[], None]
    """The same, and it is worth writing it at once."""
    on_agreed: Callable[[Agreement], None]
    on_restored: Callable[[], None]
    """The login, and the restore after it, are answered: the connection is usable."""
    on_login_refused: Callable[[JMSError], None]
    on_control: Callable[[commands.ConnectionControl], None]

    def transport_connected(self, uri: Uri) -> None:
        """Begin with a fresh wire protocol; its WireFormatInfo, and nothing else, is then in `data_to_send`."""
        ...

    def receive_data(self, data: bytes) -> None: ...

    def receive_eof(self) -> None: ...

    def transport_lost(self, error: JMSError, *, final: bool) -> None: ...

    def send_keep_alive(self, response_required: bool) -> None: ...


class Engine:
    """Carries the bytes of one `Core` over the brokers of one URL."""

    def __init__(
        self,
        core: Core,
        url: BrokerUrl,
        *,
        loop: asyncio.AbstractEventLoop,
        guard: AbstractContextManager[Any],
        random: random.Random,
        clock: Clock,
    ) -> None:
        self._core = core
        self._options = url.failover or FailoverOptions()
        self._loop = loop
        self._guard = guard
        self._clock = clock
        self._plan = FailoverPlan(url, random)
        self._opener = TransportOpener()
        self.writer = Writer(core, loop=loop, guard=guard, clock=clock, on_stuck=self._lose)
        self._tasks = EngineTasks(loop, clock)
        self._failures = AttemptFailures(self._plan)
        self._spares = Spares(self._plan, self._options, self._prepare, self._tasks.sleep)
        self._relocation = Relocation(self._plan, self._options, self._spares, self._tasks, clock, self._move)
        self._link: Link | None = None
        """The one that carries the connection, settled or on its way there."""
        self._links: set[Link] = set()
        """All that are open: the one above, spares, and those that send their last bytes."""
        self._offers: dict[WireFormatOptions, bytes] = {}
        """What the core's protocol begins with; spares begin with the same."""
        self._monitor: InactivityMonitor | None = None
        self._closer: asyncio.Task[None] | None = None
        self._is_over = False
        self.is_leaving = False
        """The client has taken leave: a link that ends now is not looked for again. May be set from any thread."""
        core.on_output = self.writer.output_waits
        core.on_much_output = self.writer.much_output_waits
        core.on_agreed = self._agreed
        core.on_restored = self._restored
        core.on_login_refused = self._login_refused
        core.on_control = self._control_received

    # ---- life --------------------------------------------------------------------------------------------------

    async def open(self, timeout_seconds: float | None = None) -> None:
        """Connect for the first time, within *timeout_seconds*; the wire format is settled when this returns.

        Raises `ConnectionFailedError` that names every address tried, with the reason, and `ConfigError` for what
        trying again cannot mend. After either, or when it was cancelled, the engine is at its end.
        """
        assert self._tasks.thread is None, "an engine is opened once"
        self._tasks.thread = self.writer.thread = threading.get_ident()
        task = self._tasks.spawn(self._open())
        try:
            done, _ = await asyncio.wait((task,), timeout=timeout_seconds)
            if not done:
                raise self._too_late(timeout_seconds or 0.0)
            await task
        except asyncio.CancelledError:
            self.abort()
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise ConnectionFailedError("the connection was closed before it was made") from None
            raise

    def _too_late(self, seconds: float) -> ConnectionFailedError:
        reasons = self._failures.reasons()
        self.abort()
        return ConnectionFailedError(
            f"no broker could be reached within {seconds:g} s{f' ({reasons})' if reasons else ''}; failover's timeout, "
            "maxReconnectAttempts and startupMaxReconnectAttempts set how long to try"
        )

    async def close(self, timeout_seconds: float) -> None:
        """Send what is waiting, for at most *timeout_seconds*, and close. Never raises; more calls are harmless."""
        if self._closer is None:
            self._closer = self._loop.create_task(self._close(timeout_seconds))
        await asyncio.shield(self._closer)

    def abort(self) -> None:
        """End everything at once, from any thread."""
        if not self._tasks.is_on_loop:
            self._tasks.call(self.abort)
            return
        self._end()
        for link in list(self._links):
            link.disown()
            link.abort()

    def drop(self, error: JMSError) -> None:
        """Treat the transport as lost because of *error*, soon, from any thread."""
        link = self._link
        if link is not None:
            self._tasks.call(self._lose, link, error)

    async def _open(self) -> None:
        try:
            if self._options.update_uris_url is not None:
                self._plan.add_listed(read_uris(self._options.update_uris_url, needed=not self._plan.uris))
            for uri in self._plan.uris:
                self._opener.prepare(uri)
        except ConfigError as error:
            self._finish(ConnectionFailedError(str(error)))
            raise
        await self._connect(self._plan.next_attempt())

    async def _close(self, timeout_seconds: float) -> None:
        link = self._link
        if link is not None:
            self.writer.flush()
        self._end()
        if link is not None:
            link.close()
            await asyncio.wait([link.closed], timeout=max(0.0, timeout_seconds))
        for open_link in list(self._links):
            open_link.abort()
        waiting: list[asyncio.Future[None]] = [*self._tasks.running, *(open_link.closed for open_link in self._links)]
        if waiting:
            await asyncio.wait(waiting, timeout=_LINGER_SECONDS)

    def _end(self) -> None:
        """No more attempts, no more calls of the core."""
        self._is_over = True
        self._spares.drop_all()
        if self._link is not None:
            self._detach(self._link)
        self._tasks.cancel_all()

    # ---- what links tell ---------------------------------------------------------------------------------------

    def link_received(self, link: Link, data: bytes) -> None:
        if self._monitor is not None:
            self._monitor.heard()
        self._tell_core(link, lambda: self._core.receive_data(data))

    def link_ended(self, link: Link) -> None:
        self._tell_core(link, self._core.receive_eof)

    def link_lost(self, link: Link, error: ConnectionFailedError) -> None:
        self._lose(link, error)

    def link_congested(self, link: Link, congested: bool) -> None:
        self.writer.link_congested(link, congested)

    def _tell_core(self, link: Link, tell: Callable[[], None]) -> None:
        try:
            with self._guard:
                tell()
        except RemoteProtocolError as error:
            failure = ConnectionFailedError(f"{link.address}: the broker broke the protocol: {error}")
            failure.__cause__ = error
            self._lose(link, failure)
        except Exception as error:
            # A bug of ours: it ends this link, loudly.
            _log.exception("%s: an error in the client while handling what the broker sent", link.address)
            failure = ConnectionFailedError(f"{link.address}: an error in the client: {error!r}")
            failure.__cause__ = error
            self._lose(link, failure)

    # ---- what the core tells -----------------------------------------------------------------------------------

    def _agreed(self, agreement: Agreement) -> None:
        link = self._link
        if link is None or link.settled.done():
            return
        version, lowest = agreement.wire_format.version, link.options.wire_version_min
        if version < lowest:
            reason = f"OpenWire {version} is what it speaks, and minmumWireFormatVersion is {lowest}"
            self._lose(link, ConnectionFailedError(f"{link.address}: {reason}"))
            return
        if isinstance(link.uri, TcpUri) and wants_no_delay(link.uri) and not agreement.tcp_no_delay:
            set_no_delay(link.transport, False)
        self._monitor = inactivity_monitor(link, agreement, self._clock, self._send_keep_alive, self._lose)
        if self._monitor is not None:
            self.writer.on_write = self._monitor.sent
        link.settled.set_result(None)

    def _send_keep_alive(self, response_required: bool) -> None:
        with self._guard:
            self._core.send_keep_alive(response_required)

    def _restored(self) -> None:
        link = self._link
        if link is None:
            return
        if self._plan.was_restored:
            _log.info("%s: connected again", link.address)
        link.is_restored = True
        self._plan.restored()
        self._failures.clear()
        self._tasks.call(self._look_around, link)

    def _login_refused(self, error: JMSError) -> None:
        if self._link is not None:
            self._tasks.call(self._refused, self._link, error)

    def _control_received(self, control: commands.ConnectionControl) -> None:
        if self._link is not None:
            self._tasks.call(self._obey, self._link, control)

    # ---- attempts ----------------------------------------------------------------------------------------------

    async def _connect(self, attempt: Attempt | None, link: Link | None = None) -> None:
        """Make attempts until one settles, with *link* first if it is given. Raises when it is time to give up."""
        if link is not None and await self._try(link.uri, link):
            return
        while attempt is not None:
            await self._tasks.sleep(attempt.delay_seconds)
            if await self._try(attempt.uri):
                return
            attempt = self._plan.next_attempt()
        failure = self._failures.summary()
        self._finish(failure)
        raise failure

    async def _try(self, uri: Uri, link: Link | None = None) -> bool:
        """One attempt; whether it settled."""
        try:
            link = link or await self._open_link(uri)
            await self._settle(link)
        except ConnectionFailedError as error:
            self._failures.note(uri, error)
            if link is not None and link.was_adopted and self._plan.is_failover:  # otherwise the end follows at once
                self._tell_loss(error, final=False)
            return False
        return True

    async def _connect_again(self, attempt: Attempt | None, link: Link | None) -> None:
        try:
            await self._connect(attempt, link)
        except ConnectionFailedError as error:
            _log.warning("gave up: %s", error)
        except Exception as error:
            _log.exception("an error in the client while connecting again")
            self._finish(ConnectionFailedError(f"an error in the client while connecting again: {error!r}"))

    async def _open_link(self, uri: Uri) -> Link:
        _, link = await self._opener.open(uri, lambda: Link(uri, self._loop, self._links))
        assert isinstance(link, Link)
        return link

    async def _settle(self, link: Link) -> None:
        """Make *link* the one that carries the connection, and wait until its wire format is agreed."""
        timers = handshake_timers(link, self._clock, self._lose)
        try:
            self._adopt(link)
            await link.settled
        except BaseException:
            self._detach(link)
            link.abort()
            raise
        finally:
            for timer in timers:
                timer.cancel()
        if link.error is not None:
            raise link.error

    def _adopt(self, link: Link) -> None:
        if not link.is_open:
            raise ConnectionFailedError(f"{link.address}: the broker closed the connection")
        self._link = link
        early = link.adopt(self)
        with self._guard:
            self._core.transport_connected(link.uri)
            offer = b"".join(self._core.data_to_send())
            self.writer.attach(link)
        self._offers[link.uri.wire_format] = offer
        if link.offer is None:
            link.write(offer)
        elif link.offer != offer:
            raise ConnectionFailedError(f"{link.address}: the spare connection began in another wire format")
        if early:
            self.link_received(link, early)

    # ---- the end of a link -------------------------------------------------------------------------------------

    def _lose(self, link: Link, error: JMSError) -> None:
        """*link* is of no use any more; what is lost with it is found again, or the end is final."""
        if link is not self._link:
            return
        self._detach(link)
        link.abort()
        if not link.settled.done():
            link.error = as_failure(error)
            link.settled.set_result(None)  # the attempt that waits for it goes on
            return
        if self.is_leaving:
            self._finish(error)
            return
        if link.is_restored:
            self._plan.begin_anew()
        else:
            self._failures.note(link.uri, error)
        self._plan.ended(link.uri)
        attempt = self._plan.next_attempt()
        if attempt is None:
            self._finish(error if link.is_restored or not self._plan.is_failover else self._failures.summary())
            return
        _log.warning("the connection was lost: %s; connecting again", error)
        self._tell_loss(error, final=False)
        self._tasks.spawn(self._connect_again(attempt, self._spares.take()))

    def _refused(self, link: Link, error: JMSError) -> None:
        """The broker answered the login with *error*.

        On the first connection a wrong password should be reported, not tried for ever. Later it is one more failed
        attempt: the broker may not have noticed yet that the connection before is gone, and its client id is in use.
        """
        if link is not self._link:
            return
        is_lasting = isinstance(error, JMSSecurityError | InvalidClientIdError)
        if self._plan.is_failover and (self._plan.was_restored or not is_lasting):
            self._lose(link, error)
            return
        self._detach(link)
        link.close()
        self._abort_later(link)
        self._finish(error)

    def _detach(self, link: Link) -> None:
        """*link* carries the connection no more. The core is not told."""
        if link is not self._link:
            return
        self._link = None
        self.writer.detach()
        link.disown()
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None
        self._tasks.cancel_background()

    def _tell_loss(self, error: JMSError, *, final: bool) -> None:
        with self._guard:
            self._core.transport_lost(error, final=final)

    def _finish(self, error: JMSError) -> None:
        """Give up."""
        if self._is_over:
            return
        self._is_over = True
        self._spares.drop_all()
        self._tell_loss(error, final=True)

    # ---- better places -----------------------------------------------------------------------------------------

    def _look_around(self, link: Link) -> None:
        if link is self._link and not self._is_over:
            self._relocation.begin(link)

    def _obey(self, link: Link, control: commands.ConnectionControl) -> None:
        if link is self._link:
            self._relocation.obey(link, control)

    def _move(self, old: Link, new: Link) -> None:
        """Leave *old*, which works, for *new*, which has answered."""
        if old is not self._link or new.address == old.address:
            new.abort()
            return
        self.writer.flush()
        self._detach(old)
        old.close()
        self._abort_later(old)
        _log.info("%s: left for %s", old.address, new.address)
        self._tell_loss(ConnectionFailedError(f"{old.address}: left for {new.address}"), final=False)
        self._plan.begin_anew()
        self._tasks.spawn(self._connect_again(self._plan.next_attempt(), new))

    async def _prepare(self, uri: Uri) -> Link:
        """A link that could take over: connected, and if possible the broker has answered our WireFormatInfo."""
        link = await self._open_link(uri)
        try:
            link.offer = self._offers.get(uri.wire_format)
            if link.offer is not None:
                link.write(link.offer)
                limit_ms = link.options.negotiate_timeout_ms
                await asyncio.wait([link.heard], timeout=limit_ms / 1000 if limit_ms > 0 else None)
                if not link.heard.done():
                    raise ConnectionFailedError(f"{uri.address}: the broker did not answer")
            if not link.is_open:
                raise ConnectionFailedError(f"{uri.address}: the broker closed the connection")
        except BaseException:
            link.abort()
            raise
        return link

    def _abort_later(self, link: Link) -> None:
        timer = self._clock.call_later(_LINGER_SECONDS, link.abort)
        link.closed.add_done_callback(lambda _: timer.cancel())
