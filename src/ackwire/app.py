"""The one place that builds a store, a broker and its listeners, and takes them down again."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ackwire.broker.broker import Broker
from ackwire.clock import Clock, SystemClock
from ackwire.config import Settings, StoreSettings
from ackwire.listener_uri import ClientAuth, ListenerUri, parse_listener_uri
from ackwire.policy import Policies
from ackwire.server.listener import ConnectionGate, Listener
from ackwire.server.peer import Peer, wire_limits
from ackwire.store.contract import Store
from ackwire.store.memory import MemoryStore
from ackwire.wire.openwire.editor import OpenWireEditor

_DRAIN_POLL_SECONDS: Final = 0.01

_log = logging.getLogger(__name__)


async def serve(settings: Settings, *, ready: Callable[[list[str]], None], stop: asyncio.Event | None = None) -> None:
    """Run a broker until *stop* is set or the task is cancelled, then drain.

    *ready* is called once, with the address of every listener, when clients can connect. Raises `ConfigError`
    if a listener cannot be opened; nothing has been logged by then.
    """
    clock = SystemClock()
    editor = OpenWireEditor(
        f"ID:{settings.broker.name}-{clock.now_ms()}", settings.broker.name, clock, wire_limits(settings)
    )
    broker = Broker(
        clock=clock,
        store=_store(settings.store),
        editor=editor,
        settings=settings,
        policies=Policies(settings.policies),
    )
    broker.start()
    broker.answer_questions()
    peers: set[Peer] = set()
    uris = [parse_listener_uri(text) for text in settings.listen.uris]
    listeners = [_listener(uri, broker=broker, clock=clock, settings=settings, peers=peers) for uri in uris]
    try:
        for listener in listeners:
            await listener.start()
        _warn(settings, uris)
        ready([listener.address for listener in listeners])
        await (stop or asyncio.Event()).wait()
    finally:
        for listener in listeners:
            listener.close()
        await drain(peers, clock=clock, timeout_seconds=settings.shutdown.drain_timeout_seconds)


def _store(settings: StoreSettings) -> Store:
    assert settings.kind == "memory", f"there is no store of kind {settings.kind}"
    return MemoryStore()


def _listener(uri: ListenerUri, *, broker: Broker, clock: Clock, settings: Settings, peers: set[Peer]) -> Listener:
    gate = ConnectionGate(uri.connections_max or settings.connection.connections_max)

    def make_peer() -> Peer:
        return Peer(broker=broker, clock=clock, settings=settings, uri=uri, gate=gate, peers=peers)

    return Listener(uri, make_peer, settings.handshake)


def _warn(settings: Settings, uris: list[ListenerUri]) -> None:
    """Say what works and is probably not meant."""
    for uri in uris:
        authenticated = uri.tls_options is not None and uri.tls_options.client_auth is ClientAuth.NEED
        if not uri.is_loopback and not authenticated:
            _log.warning("%s: other machines can connect, and there is no authentication yet", uri)
    if settings.store.data is not None:
        _log.warning("%s is not used: the memory store writes no files", settings.store.data)


async def drain(peers: set[Peer], *, clock: Clock, timeout_seconds: float) -> None:
    """Shut all *peers* down; those that have not gone after *timeout_seconds* are cut off."""
    for peer in tuple(peers):
        peer.shut_down()
    deadline = clock.monotonic() + timeout_seconds
    while peers and clock.monotonic() < deadline:
        await asyncio.sleep(_DRAIN_POLL_SECONDS)
    if peers:
        _log.warning("%d peers did not take their last messages in %g s", len(peers), timeout_seconds)
    for peer in tuple(peers):
        peer.abort()
    await asyncio.sleep(0)  # lets the aborted sockets close before the loop does
