"""The socket side of one client connection: connect, keep alive, notice the end, connect again (SEMANTICS J2, J3, J4).

Everything here runs on one event loop: the application's with asyncio, a private one with threads. What the bytes mean
is the core's business; which broker is next is decided in `failover.py`, who writes and when in `writer.py`; `link.py`
is one socket.

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
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from ackwire.client.errors import ConnectionFailedError, InvalidClientIdError, JMSError, JMSSecurityError
from ackwire.client.failover import Attempt, FailoverPlan, Uri
from ackwire.client.link import Link
from ackwire.client.options import FailoverOptions, WireFormatOptions
from ackwire.client.spares import Spares
from ackwire.client.transports import TransportOpener, set_no_delay, wants_no_delay
from ackwire.client.uri import BrokerUrl, TcpUri
from ackwire.client.uri_file import read_uris
from ackwire.client.writer import Output, Writer
from ackwire.errors import ConfigError, RemoteProtocolError
from ackwire.util.clock import Clock, Timer
from ackwire.wire.inactivity import InactivityMonitor
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement

_HINT_INTERVAL_SECONDS: Final = 5.0
"""So often a broker may send us elsewhere: two that point at each other must not keep us busy."""
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
        self._spares = Spares(self._plan, self._options, self._prepare, self._sleep)
        self._thread: int | None = None
        """The loop's, known once it runs us."""
        self._link: Link | None = None
        """The one that carries the connection, settled or on its way there."""
        self._links: set[Link] = set()
        """All that are open: the one above, spares, and those that send their last bytes."""
        self._offers: dict[WireFormatOptions, bytes] = {}
        """What the core's protocol begins with; spares begin with the same."""
        self._monitor: InactivityMonitor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        """Those that end with the link: they look for better places."""
        self._closer: asyncio.Task[None] | None = None
        self._next_hint_at = 0.0
        self._is_over = False
        self._failures: dict[str, JMSError] = {}
        """By address: why the last attempt failed, since the connection was last usable."""
        self._told: dict[str, str] = {}
        """By address: what the log says already."""
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
        assert self._thread is None, "an engine is opened once"
        self._thread = self.writer.thread = threading.get_ident()
        task = self._spawn(self._open())
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
        reasons = self._reasons()
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
        if not self._is_on_loop():
            self._call_on_loop(self.abort)
            return
        self._end()
        for link in list(self._links):
            link.disown()
            link.abort()

    def drop(self, error: JMSError) -> None:
        """Treat the transport as lost because of *error*, soon, from any thread."""
        link = self._link
        if link is not None:
            self._call_on_loop(self._lose, link, error)

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
        waiting: list[asyncio.Future[None]] = [*self._tasks, *(open_link.closed for open_link in self._links)]
        if waiting:
            await asyncio.wait(waiting, timeout=_LINGER_SECONDS)

    def _end(self) -> None:
        """No more attempts, no more calls of the core."""
        self._is_over = True
        self._spares.drop_all()
        if self._link is not None:
            self._detach(self._link)
        for task in list(self._tasks):
            task.cancel()

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
        self._start_monitor(link, agreement)
        link.settled.set_result(None)

    def _restored(self) -> None:
        link = self._link
        if link is None:
            return
        if self._plan.was_restored:
            _log.info("%s: connected again", link.address)
        link.is_restored = True
        self._plan.restored()
        self._failures.clear()
        self._told.clear()
        self._call_on_loop(self._look_around, link)

    def _login_refused(self, error: JMSError) -> None:
        if self._link is not None:
            self._call_on_loop(self._refused, self._link, error)

    def _control_received(self, control: commands.ConnectionControl) -> None:
        if self._link is not None:
            self._call_on_loop(self._obey, self._link, control)

    # ---- attempts ----------------------------------------------------------------------------------------------

    async def _connect(self, attempt: Attempt | None, link: Link | None = None) -> None:
        """Make attempts until one settles, with *link* first if it is given. Raises when it is time to give up."""
        if link is not None and await self._try(link.uri, link):
            return
        while attempt is not None:
            await self._sleep(attempt.delay_seconds)
            if await self._try(attempt.uri):
                return
            attempt = self._plan.next_attempt()
        failure = self._all_failures()
        self._finish(failure)
        raise failure

    async def _try(self, uri: Uri, link: Link | None = None) -> bool:
        """One attempt; whether it settled."""
        try:
            link = link or await self._open_link(uri)
            await self._settle(link)
        except ConnectionFailedError as error:
            self._note(uri, error)
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
        timers = self._handshake_timers(link)
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

    def _handshake_timers(self, link: Link) -> list[Timer]:
        """Limits for the first bytes (connectAttemptTimeout) and for the agreement (negotiateTimeout)."""

        def too_late(reason: str) -> None:
            self._lose(link, ConnectionFailedError(f"{link.address}: {reason}"))

        def not_heard() -> None:
            if not link.heard.done():
                too_late(f"the broker said nothing for {first_ms / 1000:g} s (connectAttemptTimeout)")

        def not_agreed() -> None:
            what = "settle the wire format" if link.heard.done() else "say anything"
            too_late(f"the broker did not {what} within {all_ms / 1000:g} s (negotiateTimeout)")

        first_ms, all_ms = link.options.connect_attempt_timeout_ms, link.options.negotiate_timeout_ms
        limits = ((first_ms, not_heard), (all_ms, not_agreed))
        return [self._clock.call_later(limit_ms / 1000, late) for limit_ms, late in limits if limit_ms > 0]

    # ---- the end of a link -------------------------------------------------------------------------------------

    def _lose(self, link: Link, error: JMSError) -> None:
        """*link* is of no use any more; what is lost with it is found again, or the end is final."""
        if link is not self._link:
            return
        self._detach(link)
        link.abort()
        if not link.settled.done():
            link.error = _as_failure(error)
            link.settled.set_result(None)  # whoever makes the attempt goes on
            return
        if self.is_leaving:
            self._finish(error)
            return
        if link.is_restored:
            self._plan.begin_anew()
        else:
            self._note(link.uri, error)
        self._plan.ended(link.uri)
        attempt = self._plan.next_attempt()
        if attempt is None:
            self._finish(error if link.is_restored or not self._plan.is_failover else self._all_failures())
            return
        _log.warning("the connection was lost: %s; connecting again", error)
        self._tell_loss(error, final=False)
        self._spawn(self._connect_again(attempt, self._spares.take()))

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
        for task in list(self._background):
            task.cancel()

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
        """The connection is usable: hold spares ready, and find the way back to a preferred broker."""
        if link is not self._link or self._is_over:
            return
        preferred = self._plan.preferred_to(link.uri)
        if preferred:
            self._spawn_background(lambda: self._spares.seek(preferred, lambda found: self._move(link, found)))
        if self._options.backup and self._plan.is_failover:
            self._spawn_background(lambda: self._spares.keep_for(link.uri))

    def _obey(self, link: Link, control: commands.ConnectionControl) -> None:
        if link is not self._link or not self._plan.is_failover:
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
            self._spawn_background(lambda: self._spares.try_once(candidates, lambda found: self._move(link, found)))

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
        self._spawn(self._connect_again(self._plan.next_attempt(), new))

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

    # ---- watching ----------------------------------------------------------------------------------------------

    def _start_monitor(self, link: Link, agreement: Agreement) -> None:
        options = link.options
        if agreement.inactivity_ms <= 0 or not options.use_inactivity_monitor:
            return

        def send_keep_alive() -> None:
            if options.use_keep_alive:
                with self._guard:
                    self._core.send_keep_alive(options.keep_alive_response_required)

        def on_silence(seconds: float) -> None:
            reason = f"nothing was heard from the broker for {seconds:g} s (maxInactivityDuration)"
            self._lose(link, ConnectionFailedError(f"{link.address}: {reason}"))

        self._monitor = InactivityMonitor(
            self._clock,
            period_ms=agreement.inactivity_ms,
            initial_delay_ms=agreement.inactivity_initial_delay_ms,
            send_keep_alive=send_keep_alive,
            on_silence=on_silence,
        )
        self.writer.on_write = self._monitor.sent

    # ---- failures ----------------------------------------------------------------------------------------------

    def _note(self, uri: Uri, error: JMSError) -> None:
        """Remember why an attempt failed; the log hears the same of an address once."""
        self._failures[uri.address] = error
        if self._told.get(uri.address) != str(error):
            self._told[uri.address] = str(error)
            _log.info("an attempt failed: %s", error)
        if self._plan.is_worth_a_warning():
            _log.warning("no connection after %d attempts, trying on: %s", self._plan.rounds, self._reasons())

    def _reasons(self) -> str:
        return "; ".join(str(error) for error in self._failures.values())

    def _all_failures(self) -> ConnectionFailedError:
        if len(self._failures) == 1 and not self._plan.is_failover:
            (error,) = self._failures.values()
            return _as_failure(error)
        rounds = self._plan.rounds
        attempts = "" if rounds <= 1 else f" after {rounds} attempts"
        failure = ConnectionFailedError(f"no broker can be reached{attempts}: {self._reasons() or 'no URI is known'}")
        failure.__cause__ = next(iter(self._failures.values()), None)
        return failure

    # ---- the loop ----------------------------------------------------------------------------------------------

    def _is_on_loop(self) -> bool:
        return self._thread is None or threading.get_ident() == self._thread

    def _call_on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if threading.get_ident() == self._thread:
            self._loop.call_soon(call, *arguments)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _spawn_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._spawn(_loud(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        woken: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not woken.done():  # as it is when this task was cancelled in the same turn
                woken.set_result(None)

        timer = self._clock.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()


async def _loud(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A task in the background that nobody waits for: its bugs are logged."""
    try:
        await work()
    except Exception:
        _log.exception("an error in the client while looking for another broker")


def _as_failure(error: JMSError) -> ConnectionFailedError:
    if isinstance(error, ConnectionFailedError):
        return error
    failure = ConnectionFailedError(str(error))
    failure.__cause__ = error
    return failure
