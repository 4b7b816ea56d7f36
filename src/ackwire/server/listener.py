"""One listening address: its sockets, its TLS handshakes, and the gate that counts its connections.

A host name may stand for several addresses; all of them listen on one port. The protocol of a connection is
the peer's part: `make_peer` is called once for each connection that is ready to speak, after TLS.

TLS is started here rather than by `create_server(ssl=…)`, which neither limits the handshakes in progress
(asyncio gives each a buffer of 256 KiB) nor reports when one fails.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ackwire.config import HandshakeSettings
from ackwire.config.listener_uri import ListenerUri
from ackwire.errors import ConfigError
from ackwire.server.tls import load_files, server_context

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: a whole fleet reconnects at once after a restart."""

_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

_SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""As getaddrinfo gives it; the last form is that of a Python without IPv6."""

_log = logging.getLogger(__name__)


class ConnectionGate:
    """Counts what is inside and lets no more than *limit* in."""

    __slots__ = ("count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0

    def try_enter(self) -> bool:
        """Count one more, unless the limit is reached; who got True calls `leave` once."""
        if self.count >= self.limit:
            return False
        self.count += 1
        return True

    def leave(self) -> None:
        assert self.count > 0, "more left than entered"
        self.count -= 1


class BufferedPeer(asyncio.BufferedProtocol):
    """An end of a connection that says where bytes go; those that came before it was there are handed to it."""

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError


class Listener:
    """Accepts connections for one URI from `start` to `close`."""

    def __init__(
        self,
        uri: ListenerUri,
        make_peer: Callable[[], "asyncio.Protocol | BufferedPeer"],
        handshake: HandshakeSettings | None = None,
    ) -> None:
        self.uri = uri
        self._make_peer = make_peer
        self._handshake = handshake or HandshakeSettings()
        self._port = uri.port
        self._servers: list[asyncio.Server] = []
        self._tls_starts: set[_TlsStart] = set()
        self._context: ssl.SSLContext | None = None

    @property
    def address(self) -> str:
        """`scheme://host:port`, with the port in use once `start` has returned."""
        return self.uri.address(self._port)

    async def start(self) -> None:
        """Bind and accept. Raises `ConfigError`, one line, if that cannot be done; nothing is open then."""
        factory = self._peer_factory()
        missing: OSError | None = None
        try:
            for family, address in await _resolve(self.uri):
                try:
                    await self._bind(family, address, factory)
                except OSError as error:
                    if error.errno not in _NO_SUCH_ADDRESS:
                        raise
                    missing = error  # "localhost" may name ::1 where IPv6 is off; one address is enough
            if missing is not None and not self._servers:
                raise missing
        except OSError as error:
            self.close()
            raise ConfigError(f"{self.uri}: {_reason(self.uri, error)}") from None

    def close(self) -> None:
        """Stop accepting, and drop TLS handshakes in progress. Established connections go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for start in tuple(self._tls_starts):
            start.abort()

    def reload_certificate(self) -> None:
        """Use what certificate, key and authorities are in the files now, for handshakes from now on.

        The caller has checked them (`server_context`): otherwise half of a bad pair would stay.
        """
        if self._context is not None:
            load_files(self._context, self.uri)

    async def _bind(self, family: int, address: "_SocketAddress", factory: Callable[[], asyncio.BaseProtocol]) -> None:
        host, _, *scope = address
        # Bound here and not by asyncio, which from 3.13 on logs some errors and hides their number.
        # SO_REUSEADDR is set, so a restart need not wait for old connections to time out.
        sock = socket.create_server((host, self._port, *scope), family=family, backlog=BACKLOG)
        # Its connections inherit it. asyncio sets it only where a socket names its protocol, and these do not: then the
        # first message to a client would wait 40 ms for the client to confirm the answer before it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            server = await asyncio.get_running_loop().create_server(factory, sock=sock, backlog=BACKLOG)
        except BaseException:
            sock.close()
            raise
        self._servers.append(server)
        # Port 0 becomes a real one with the first address, and the other addresses follow it.
        self._port = sock.getsockname()[1]

    def _peer_factory(self) -> Callable[[], asyncio.BaseProtocol]:
        if not self.uri.tls:
            return self._make_peer
        context = self._context = server_context(self.uri)
        gate = ConnectionGate(self._handshake.tls_handshakes_max)

        def start_tls() -> _TlsStart:
            return _TlsStart(
                context=context,
                gate=gate,
                timeout_seconds=self._handshake.tls_timeout_seconds,
                make_peer=self._make_peer,
                started=self._tls_starts,
            )

        return start_tls


async def check_address(uri: ListenerUri) -> None:
    """Raise `ConfigError`, as `Listener.start` would, if *uri* cannot be bound now. Leaves nothing open."""
    missing: OSError | None = None
    is_bound = False
    try:
        for family, address in await _resolve(uri):
            host, _, *scope = address
            try:
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((host, uri.port, *scope))  # and does not listen: no client can connect to it
                is_bound = True
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                missing = error
        if missing is not None and not is_bound:
            raise missing
    except OSError as error:
        raise ConfigError(f"{uri}: {_reason(uri, error)}") from None


async def _resolve(uri: ListenerUri) -> "list[tuple[int, _SocketAddress]]":
    """Address family and address, for each address of the host."""
    found = await asyncio.get_running_loop().getaddrinfo(
        uri.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _reason(uri: ListenerUri, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f'host "{uri.host}" cannot be resolved: {(error.strerror or str(error)).lower()}'
    match error.errno:
        case errno.EADDRINUSE:
            option = "--http" if uri.scheme == "http" else "--listen"
            return f"port is taken by another program (address already in use); choose another with {option}"
        case errno.EACCES | errno.EPERM:
            return f"no permission to listen on port {uri.port}; ports below 1024 are for privileged users"
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            return f'"{uri.host}" is not an address of this machine'
        case _:
            return f"cannot listen: {(error.strerror or str(error)).lower()}"


class _TlsStart(asyncio.Protocol):
    """Stands in for the peer of a new connection until the TLS handshake is over.

    Data and the end of the connection may come in the very loop turn that ends the handshake, before the
    awaiting task runs: they are kept, and handed on to the peer.
    """

    def __init__(
        self,
        *,
        context: ssl.SSLContext,
        gate: ConnectionGate,
        timeout_seconds: float,
        make_peer: Callable[[], asyncio.Protocol | BufferedPeer],
        started: "set[_TlsStart]",
    ) -> None:
        self._context = context
        self._gate = gate
        self._timeout_seconds = timeout_seconds
        self._make_peer = make_peer
        self._started = started
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._peer: asyncio.Protocol | BufferedPeer | None = None
        self._early_data = bytearray()
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._gate.try_enter():
            _log.warning("peer %s closed: %d TLS handshakes are in progress, the limit", self._name(), self._gate.limit)
            transport.abort()
            return
        self._started.add(self)
        self._task = asyncio.get_running_loop().create_task(self._run(transport))

    def data_received(self, data: bytes) -> None:
        if self._peer is not None:
            self._peer.data_received(data)
        else:
            self._early_data += data

    def eof_received(self) -> None:
        # Returning nothing closes the transport, and connection_lost follows.
        if self._peer is not None:
            self._peer.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._peer is not None:
            self._peer.connection_lost(exc)

    def abort(self) -> None:
        """Drop the connection; only for one whose handshake is in progress."""
        if self._transport is not None:
            self._transport.abort()

    async def _run(self, transport: asyncio.Transport) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._timeout_seconds,
            )
        except OSError as error:  # ssl.SSLError and a timeout are of this kind
            _log.warning("peer %s closed: TLS handshake failed: %s", self._name(), _tls_reason(error))
            transport.abort()
            return
        finally:
            self._started.discard(self)
            self._gate.leave()
        if secured is not None and not self._ended:
            self._hand_over(secured)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        self._peer = self._make_peer()
        transport.set_protocol(self._peer)
        self._peer.connection_made(transport)
        if self._early_data:
            self._peer.data_received(bytes(self._early_data))
            self._early_data.clear()

    def _name(self) -> str:
        peername = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{peername[0]}:{peername[1]}" if peername else "unknown"


def _tls_reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error) or type(error).__name__
