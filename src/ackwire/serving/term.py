"""One term: the store is opened, a broker restored from it, and clients are served until something ends that."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ackwire.audit.opening import opened_audit
from ackwire.broker.broker import Broker
from ackwire.cluster.mastership import MastershipLost
from ackwire.cluster.roles import Roles
from ackwire.cluster.status import Group
from ackwire.config import Reload, Settings, plan_reload
from ackwire.config.listener_uri import ClientAuth, ListenerUri, parse_listener_uri
from ackwire.config.policy import Policies
from ackwire.config.store_uri import store_name
from ackwire.errors import StoreFailed
from ackwire.opening.common import ALONE, Opened, Progress, Tenure
from ackwire.opening.stores import opened_store, opened_temp_store, with_largest_message
from ackwire.selector import prepare as prepare_selectors
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.asyncio_protocol import AsyncioEnd
from ackwire.server.listener import ConnectionGate, Listener
from ackwire.server.peer import Peer
from ackwire.server.protocols import served_by
from ackwire.server.tls import server_context
from ackwire.server.turn import Turn
from ackwire.serving.draining import cut_off, drain
from ackwire.serving.http_port import HttpPort
from ackwire.util.clock import Clock, SystemClock
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.id_text import producer_text, transaction_text

if TYPE_CHECKING:
    from ackwire.admin.routes import Api

_FLUSH_SECONDS: Final = 5.0
"""How long a stop waits for the quorum."""

_FAILED_DRAIN_SECONDS: Final = 0.5
"""How long peers may take to read that the store has failed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker at work, as the one who started it sees it; only for the thread of its loop."""

    broker: Broker
    addresses: tuple[str, ...]
    """Of every listener, with the port that is really used."""
    http_address: str | None
    """Where HTTP requests are answered, if anywhere."""
    make_peer: Callable[[ListenerUri, ConnectionGate], AsyncioEnd]
    """Makes the broker's end of a connection that came in another way than through a listener."""
    reload: Callable[[Settings], Reload]
    """Takes over what can be taken over from other settings, and certificates. Raises `ConfigError`, and then nothing
    has changed."""


@dataclass(frozen=True, slots=True)
class Process:
    """What outlives a term: one of each for a process that serves."""

    settings: Settings
    turn: Turn
    roles: Roles
    protocols: Sequence[ProtocolFactory]
    http: HttpPort | None
    ready: Callable[[Serving], None]
    """Called when clients can connect."""
    group: Group | None = None
    """The group of nodes that this one belongs to, if it does."""

    @property
    def group_report(self) -> Callable[[], list[str]] | None:
        """How the group stands, in sentences."""
        group = self.group
        return None if group is None else lambda: group.standing().report()


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a term, besides a store that fails."""

    stop: asyncio.Event
    lost: asyncio.Future[str]
    """Why this broker is the master no more."""


async def serve_term(process: Process, clock: Clock, tenure: Tenure, ends: Ends) -> None:
    """Serve until it is to stop, then drain. Raises `ConfigError` if the store or a listener cannot be opened,
    `StoreFailed` after the store has failed and clients know it, and `MastershipLost`. *clock* is the time of messages.
    """
    settings, turn = process.settings, process.turn
    progress = Progress()
    resolved = replace(settings, store=settings.store.resolved())
    with opened_store(resolved, SystemClock(), turn, progress, tenure) as opened:
        if not process.roles.recovered(opened.epoch):
            raise _given_up(opened, ends)
        settings = with_largest_message(settings, opened.store)
        editor = OpenWireEditor(
            f"ID:{settings.broker.name}-{clock.now_ms()}", settings.broker.name, clock, wire_limits(settings)
        )
        with (
            opened_audit(
                settings, clock, turn.turns, producer_text=producer_text, transaction_text=transaction_text
            ) as audit,
            opened_temp_store(resolved) as temp,
        ):
            broker = Broker(
                clock=clock,
                store=opened.store,
                editor=editor,
                settings=settings,
                policies=Policies(settings.policies),
                temp=temp,
                audit=audit,
                turns=turn.turns,
                loop_report=None if turn.monitor is None else turn.monitor.report,
                group_report=process.group_report,
            )
            broker.slices.others_wait = turn.others_wait
            broker.slices.before_slice = turn.catch_up
            if audit is not None:
                audit.join(broker.flow.on_audit_full)
                opened.store.observe_writes(audit.flush, audit.durable)
            broker.start()
            broker.answer_questions()

            def on_ready(serving: Serving) -> None:
                progress.is_ready = True
                process.ready(serving)

            await _Front(process, broker, opened, ends, has_others=tenure is not ALONE).serve(on_ready)
            broker.stop()
            if tenure.opened is not None:
                await _flushed(opened)


async def _flushed(opened: Opened) -> None:
    """Have what no caller waits for recorded, too: a store that becomes a copy does not do that itself."""
    flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    opened.store.when_durable(lambda: flushed.set_result(None), flushed.set_exception)
    await asyncio.wait((flushed,), timeout=_FLUSH_SECONDS)
    if flushed.done():
        flushed.exception()


def _given_up(opened: Opened, ends: Ends) -> MastershipLost:
    """Have the store write nothing more, because another broker may be the master by now."""
    why = ends.lost.result() if ends.lost.done() else "it was told to stop"
    opened.give_up(StoreFailed(f"this broker is the master no more: {why}"))
    return MastershipLost(why)


class _Front:
    """The listeners of a term, and the peers behind them."""

    def __init__(self, process: Process, broker: Broker, opened: Opened, ends: Ends, *, has_others: bool) -> None:
        """*has_others*: other brokers may go on with what this one has, and clients may know them."""
        self._has_others = has_others
        if has_others:
            opened.failure.at_once = self._hang_up
        self._process = process
        self._broker = broker
        self._opened = opened
        self._ends = ends
        self._peers: set[Peer] = set()
        self._uris = [parse_listener_uri(text) for text in process.settings.listen.uris]
        self._listeners = [self._listener(uri) for uri in self._uris]
        self._drain_seconds: float | None = None

    async def serve(self, ready: Callable[[Serving], None]) -> None:
        """Serve until something ends the term."""
        process, turn = self._process, self._process.turn
        prepare(with_http=process.http is not None)
        try:
            await self._open()
            addresses = tuple(listener.address for listener in self._listeners)
            http_address = None if process.http is None else process.http.address
            ready(Serving(self._broker, addresses, http_address, self._make_peer, self._reload))
            if turn.monitor is not None:
                turn.monitor.start()
            await self._until_it_ends()
        finally:
            if turn.monitor is not None:
                turn.monitor.stop()
            await self._close()

    async def _open(self) -> None:
        for listener in self._listeners:
            await listener.start()
        http = self._process.http
        if http is not None:
            http.answer_with(self._api().answer)
            await http.open()
        _warn(self._uris, http)

    async def _until_it_ends(self) -> None:
        failure, lost = self._opened.failure.known, self._ends.lost
        stopping = asyncio.ensure_future(self._ends.stop.wait())
        await asyncio.wait((stopping, failure, lost), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if lost.done():
            self._drain_seconds = 0
            self._hang_up()  # before the store fails
            error = _given_up(self._opened, self._ends)
            await cut_off(self._peers)
            raise error
        if failure.done() and self._has_others:
            self._drain_seconds = 0
            raise failure.result()
        if failure.done():
            self._drain_seconds = min(self._broker.settings.shutdown.drain_timeout_seconds, _FAILED_DRAIN_SECONDS)
            for peer in tuple(self._peers):
                peer.fail_for(failure.result())
            raise failure.result()

    def _hang_up(self) -> None:
        """Close all sockets without a word: no client gets an error where another broker may do what it has asked
        for."""
        for listener in self._listeners:
            listener.close()
        for peer in tuple(self._peers):
            peer.abort()

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        seconds = self._drain_seconds
        if seconds is None:
            seconds = self._broker.settings.shutdown.drain_timeout_seconds
        http = self._process.http
        await asyncio.gather(
            drain(self._peers, clock=SystemClock(), timeout_seconds=seconds),
            *(() if http is None else (http.drain(seconds),)),
        )

    def _listener(self, uri: ListenerUri) -> Listener:
        settings = self._process.settings
        gate = ConnectionGate(uri.connections_max or settings.connection.connections_max)
        return Listener(uri, partial(self._make_peer, uri, gate), settings.handshake)

    def _make_peer(self, uri: ListenerUri, gate: ConnectionGate) -> AsyncioEnd:
        peer = Peer(
            broker=self._broker,
            clock=SystemClock(),
            settings=self._broker.settings,
            uri=uri,
            gate=gate,
            peers=self._peers,
            turn=self._process.turn,
            protocols=served_by(uri, self._process.protocols),
        )
        return AsyncioEnd(peer)

    def _reload(self, new: Settings) -> Reload:
        for uri in self._uris:
            if uri.tls:
                server_context(uri)  # a bad file is found before anything is changed
        plan = plan_reload(self._broker.settings, new)
        self._broker.reload(plan.settings, Policies(plan.settings.policies))
        for listener in self._listeners:
            listener.reload_certificate()
        return plan

    def _api(self) -> "Api":
        """What answers HTTP requests. Raises `ConfigError` if there is no token."""
        from ackwire.admin.metrics import StoreInfo
        from ackwire.admin.routes import Api, ApiOptions
        from ackwire.admin.tokens import load_token, token_path

        settings, store, failure = self._broker.settings, self._opened.store, self._opened.failure.known
        options = ApiOptions(
            settings=settings.http,
            token=load_token(token_path(settings)),
            store=StoreInfo(
                kind=store_name(settings.store.kind),
                used_bytes=lambda: store.used_bytes,
                bytes_max=store.bytes_max,
                database=store.database,
            ),
            wire_limits=wire_limits(settings),
            clock=SystemClock(),
            failure=lambda: failure.result() if failure.done() else None,
            standing=lambda: self._process.roles.standing,
            group=self._process.group,
        )
        return Api(self._broker, options)


def prepare(*, with_http: bool) -> None:
    """Load and build now what is large and used later: afterwards all clients would wait for it. Done before, it takes
    no time."""
    prepare_selectors()
    if with_http:
        from ackwire.admin import arrow

        arrow.prepare()


def _warn(uris: list[ListenerUri], http: HttpPort | None) -> None:
    """Say what works and is probably not meant."""
    for uri in uris:
        authenticated = uri.tls_options is not None and uri.tls_options.client_auth is ClientAuth.NEED
        if not uri.is_loopback and not authenticated:
            _log.warning("%s: other machines can connect, and there is no authentication yet", uri)
    if http is not None and not http.listener.uri.is_loopback:
        _log.warning("%s: other machines can connect, and the token can be read on its way: no TLS", http.listener.uri)
