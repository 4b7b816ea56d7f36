"""The one place that builds a store, a broker and its listeners, and takes them down again."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ackwire.audit.opening import opened_audit
from ackwire.broker.broker import Broker
from ackwire.config import Reload, Settings, plan_reload
from ackwire.config.listener_uri import ClientAuth, ListenerUri, parse_address, parse_listener_uri
from ackwire.config.policy import Policies
from ackwire.config.store_uri import (
    store_name,
)
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import Progress
from ackwire.opening.stores import opened_store, opened_temp_store, with_largest_message
from ackwire.selector import prepare as prepare_selectors
from ackwire.server.adapters.contract import ProtocolFactory
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.asyncio_protocol import AsyncioEnd
from ackwire.server.listener import ConnectionGate, Listener, check_address
from ackwire.server.peer import Peer
from ackwire.server.protocols import installed_protocols, served_by
from ackwire.server.tls import server_context
from ackwire.server.turn import Turn
from ackwire.store.contract import Store
from ackwire.util.clock import Clock, SystemClock
from ackwire.util.plurals import counted
from ackwire.wire.openwire.editor import OpenWireEditor, producer_text, transaction_text

if TYPE_CHECKING:
    from ackwire.admin.http import HttpServer

_DRAIN_POLL_SECONDS: Final = 0.01

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


async def serve(
    settings: Settings,
    *,
    ready: Callable[[Serving], None],
    stop: asyncio.Event | None = None,
    clock: Clock | None = None,
    protocols: Sequence[ProtocolFactory] | None = None,
) -> None:
    """Run a broker until *stop* is set or the task is cancelled, then drain.

    *ready* is called once, when clients can connect. Raises `ConfigError` if a listener or the store cannot be opened,
    and `StoreFailed` after the store has failed and clients know it (K7). *clock* is the time of messages: expiry,
    delays, schedules. Sockets and disks are real and keep the machine's time, whatever it says.
    *protocols* are those that listeners may speak: unless given, those that are installed.
    """
    clock = clock or SystemClock()
    await _check(settings)
    protocols = installed_protocols() if protocols is None else protocols
    turn = Turn(asyncio.get_running_loop())
    progress = Progress()
    resolved = replace(settings, store=settings.store.resolved())
    with opened_store(resolved, SystemClock(), turn, progress) as (store, failure):
        settings = with_largest_message(settings, store)
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
                store=store,
                editor=editor,
                settings=settings,
                policies=Policies(settings.policies),
                temp=temp,
                audit=audit,
                turns=turn.turns,
                loop_report=None if turn.monitor is None else turn.monitor.report,
            )
            broker.slices.others_wait = turn.others_wait
            broker.slices.before_slice = turn.catch_up
            if audit is not None:
                audit.join(broker.flow.on_audit_full)
                store.observe_writes(audit.flush, audit.durable)
            broker.start()
            broker.answer_questions()
            http = _http(broker, settings, store, failure) if settings.http.listen else None

            def on_ready(serving: Serving) -> None:
                progress.is_ready = True
                ready(serving)

            await _serve(broker, settings, turn, failure, http, protocols, ready=on_ready, stop=stop or asyncio.Event())
            broker.stop()


async def _check(settings: Settings) -> None:
    """Find mistakes before a store is opened, which may take long and makes files. Raises `ConfigError`."""
    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    for uri in uris:
        if uri.tls_options is not None:
            server_context(uri)
    if settings.http.listen:
        _require_h11()
        uris.append(parse_address(settings.http.listen))
    for uri in uris:
        await check_address(uri)


async def _serve(
    broker: Broker,
    settings: Settings,
    turn: Turn,
    failure: asyncio.Future[StoreFailed],
    http: "_Http | None",
    protocols: Sequence[ProtocolFactory],
    *,
    ready: Callable[[Serving], None],
    stop: asyncio.Event,
) -> None:
    peers: set[Peer] = set()
    clock = SystemClock()

    def make_peer(uri: ListenerUri, gate: ConnectionGate) -> AsyncioEnd:
        peer = Peer(
            broker=broker,
            clock=clock,
            settings=broker.settings,
            uri=uri,
            gate=gate,
            peers=peers,
            turn=turn,
            protocols=served_by(uri, protocols),
        )
        return AsyncioEnd(peer)

    def reload(new: Settings) -> Reload:
        for uri in uris:
            if uri.tls:
                server_context(uri)  # a bad file is found before anything is changed
        plan = plan_reload(broker.settings, new)
        broker.reload(plan.settings, Policies(plan.settings.policies))
        for listener in listeners:
            listener.reload_certificate()
        return plan

    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    listeners = [_listener(uri, settings, make_peer) for uri in uris]
    if http is not None:
        listeners.append(http.listener)
    drain_seconds: float | None = None
    _prepare(with_http=http is not None)
    try:
        for listener in listeners:
            await listener.start()
        _warn(uris, http)
        addresses = tuple(listener.address for listener in listeners)
        http_address = None if http is None else http.listener.address
        ready(Serving(broker, addresses[: len(uris)], http_address, make_peer, reload))
        if turn.monitor is not None:
            turn.monitor.start()
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((stopping, failure), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if failure.done():
            drain_seconds = min(broker.settings.shutdown.drain_timeout_seconds, _FAILED_DRAIN_SECONDS)
            for peer in tuple(peers):
                peer.fail_for(failure.result())
            raise failure.result()
    finally:
        if turn.monitor is not None:
            turn.monitor.stop()
        for listener in listeners:
            listener.close()
        if drain_seconds is None:
            drain_seconds = broker.settings.shutdown.drain_timeout_seconds
        await asyncio.gather(
            drain(peers, clock=clock, timeout_seconds=drain_seconds),
            *(() if http is None else (http.server.drain(drain_seconds),)),
        )


def _prepare(*, with_http: bool) -> None:
    """Load and build now what is large and used later: afterwards all clients would wait for it."""
    prepare_selectors()
    if with_http:
        from ackwire.admin import arrow

        arrow.prepare()


def _listener(
    uri: ListenerUri, settings: Settings, make_peer: Callable[[ListenerUri, ConnectionGate], AsyncioEnd]
) -> Listener:
    gate = ConnectionGate(uri.connections_max or settings.connection.connections_max)
    return Listener(uri, partial(make_peer, uri, gate), settings.handshake)


@dataclass(frozen=True, slots=True)
class _Http:
    """What answers HTTP requests."""

    listener: Listener
    server: "HttpServer"


def _require_h11() -> None:
    try:
        import h11  # noqa: F401
    except ImportError:
        raise ConfigError('http.listen needs h11, which is not installed: pip install "ackwire[http]"') from None


def _http(broker: Broker, settings: Settings, store: Store, failure: asyncio.Future[StoreFailed]) -> _Http:
    """The HTTP port. Raises `ConfigError` if there is no token."""
    from ackwire.admin.http import HttpServer
    from ackwire.admin.metrics import StoreInfo
    from ackwire.admin.routes import Api, ApiOptions
    from ackwire.admin.tokens import load_token, token_path

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
    )
    server = HttpServer(Api(broker, options).answer, settings.http)
    return _Http(Listener(parse_address(settings.http.listen), server.connection), server)


def _warn(uris: list[ListenerUri], http: _Http | None) -> None:
    """Say what works and is probably not meant."""
    for uri in uris:
        authenticated = uri.tls_options is not None and uri.tls_options.client_auth is ClientAuth.NEED
        if not uri.is_loopback and not authenticated:
            _log.warning("%s: other machines can connect, and there is no authentication yet", uri)
    if http is not None and not http.listener.uri.is_loopback:
        _log.warning("%s: other machines can connect, and the token can be read on its way: no TLS", http.listener.uri)


async def drain(peers: set[Peer], *, clock: Clock, timeout_seconds: float) -> None:
    """Shut all *peers* down; those that have not gone after *timeout_seconds* are cut off."""
    told: set[Peer] = set()
    deadline = clock.monotonic() + timeout_seconds
    while True:
        for peer in peers - told:  # one may still come that was accepted before
            peer.shut_down()
            told.add(peer)
        if not peers or clock.monotonic() >= deadline:
            break
        await asyncio.sleep(_DRAIN_POLL_SECONDS)
    if peers:
        _log.warning("%s did not take the last messages in %g s", counted(len(peers), "peer"), timeout_seconds)
    for peer in tuple(peers):
        peer.abort()
    await asyncio.sleep(0)  # lets the aborted sockets close before the loop does
