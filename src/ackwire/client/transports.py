"""Opening a transport to one broker: TCP, TLS, or what a plugin offers for a scheme (SEMANTICS J1).

A plugin is an entry point of the group `ackwire.transports`: its name is the scheme, its value a coroutine function
like `Plugin`. It is loaded for a scheme that the application wrote in its URL; received data never gets here with
anything but TCP and TLS (see `failover.py`).

Options without an effect of their own:

* `soTimeout`: ActiveMQ wakes up after that time, reads on, and so do we; silence is the inactivity monitor's business.
* `soLinger` above 0: the system would block the whole loop in `close`. Data that was given to the system is sent
  after `close` anyway. 0 works: closing resets the connection.
* `socketBufferSize` of 65536, ActiveMQ's default: the system's own buffers, which grow with the connection, are left
  alone. Any other size is set.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.options import TlsOptions, TransportOptions
from ackwire.client.tls import client_context, tls_problem
from ackwire.client.uri import TcpUri, VmUri
from ackwire.config.listener_uri import OPENWIRE_SCHEMES as TCP_SCHEMES
from ackwire.errors import AckwireError, ConfigError

PLUGIN_GROUP: Final = "ackwire.transports"

_TLS_CLOSE_SECONDS: Final = 5.0
"""How long the other side may take to say goodbye."""
_DEFAULT_BUFFER_BYTES: Final = TransportOptions().socket_buffer_bytes

Factory = Callable[[], asyncio.Protocol]
Opened = tuple[asyncio.Transport, asyncio.Protocol]
AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]


class Plugin(Protocol):
    """What an entry point of `ackwire.transports` is."""

    async def __call__(self, uri: Any, protocol_factory: Factory) -> Opened: ...


class TransportOpener:
    """Opens transports; keeps what they have in common, such as TLS contexts."""

    def __init__(self) -> None:
        self._contexts: dict[TlsOptions, ssl.SSLContext] = {}
        self._plugins: dict[str, Plugin] = {}

    def prepare(self, uri: TcpUri | VmUri) -> None:
        """Find out what can be known before connecting. Raises `ConfigError`."""
        scheme = scheme_of(uri)
        try:
            if scheme not in TCP_SCHEMES:
                self._plugin(scheme)
            elif isinstance(uri, TcpUri) and uri.tls is not None:
                self._context(uri.tls)
        except ConfigError as error:
            raise ConfigError(f"{uri.address}: {error}") from None

    async def open(self, uri: TcpUri | VmUri, factory: Factory) -> Opened:
        """Connect, TLS included, in `connectionTimeout`. Raises `ConnectionFailedError` that names the address."""
        milliseconds = uri.transport.connection_timeout_ms if isinstance(uri, TcpUri) else 0
        seconds = milliseconds / 1000 if milliseconds > 0 else None
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._open(uri, factory, seconds)
        except (OSError, UnicodeError, AckwireError) as error:  # UnicodeError: a name that cannot be a host's
            if limit.expired():
                reason = f"no connection within {seconds:g} s (connectionTimeout)"
            else:
                reason = problem(error, uri.host if isinstance(uri, TcpUri) else uri.name)
            raise ConnectionFailedError(f"{uri.address}: {reason}") from error

    async def _open(self, uri: TcpUri | VmUri, factory: Factory, seconds: float | None) -> Opened:
        scheme = scheme_of(uri)
        if scheme not in TCP_SCHEMES or not isinstance(uri, TcpUri):
            return await self._plugin(scheme)(uri, factory)
        tls: dict[str, Any] = {}
        if uri.tls is not None:
            tls = {"ssl": self._context(uri.tls), "server_hostname": uri.host}
            tls |= {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": _TLS_CLOSE_SECONDS}
        connected = await _connected_socket(uri, seconds)
        opened = await asyncio.get_running_loop().create_connection(factory, sock=connected, **tls)
        if not wants_no_delay(uri):  # only now: asyncio turns it on for all its sockets
            set_no_delay(opened[0], False)
        return opened

    def _context(self, options: TlsOptions) -> ssl.SSLContext:
        context = self._contexts.get(options)
        if context is None:
            context = self._contexts[options] = client_context(options)
        return context

    def _plugin(self, scheme: str) -> Plugin:
        plugin = self._plugins.get(scheme)
        if plugin is None:
            plugin = self._plugins[scheme] = _entry_point(scheme).load()
        return plugin


def scheme_of(uri: TcpUri | VmUri) -> str:
    return uri.scheme if isinstance(uri, TcpUri) else "vm"


def wants_no_delay(uri: TcpUri) -> bool:
    """Whether small packets leave at once: the socket's option, or else the transport's, or else yes."""
    wanted = uri.socket.tcp_no_delay if uri.socket.tcp_no_delay is not None else uri.transport.tcp_no_delay
    return wanted is not False


def set_no_delay(transport: asyncio.BaseTransport, value: bool) -> None:
    connected = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, value)


def problem(error: BaseException, host: str) -> str:
    """The reason in words that an operator can use."""
    if isinstance(error, ssl.SSLError):
        return tls_problem(error, host)
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the host name cannot be resolved: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno).lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionError) and not str(error):  # what asyncio makes of an end during the TLS handshake
        return "the broker ended the connection during the TLS handshake"
    return str(error) or type(error).__name__


def _entry_point(scheme: str) -> EntryPoint:
    found = list(entry_points(group=PLUGIN_GROUP, name=scheme))
    if not found:
        raise ConfigError(f"no transport for {scheme}: is installed (entry point group {PLUGIN_GROUP})")
    if len({point.value for point in found}) > 1:
        raise ConfigError(f"several transports for {scheme}: are installed: {', '.join(p.value for p in found)}")
    return found[0]


# ---- sockets ---------------------------------------------------------------------------------------------------


async def _connected_socket(uri: TcpUri, seconds: float | None) -> socket.socket:
    """A socket that is connected to the first address of the host that answers.

    Each address gets an equal share of the time that is left, so that one that swallows packets does not use it up.
    """
    addresses = await _addresses(_host(uri), uri.port)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds if seconds is not None else None
    problems: dict[str, OSError] = {}
    for index, address in enumerate(addresses):
        share = (end - loop.time()) / (len(addresses) - index) if end is not None else None
        is_last = index == len(addresses) - 1
        try:
            async with asyncio.timeout(None if is_last else share):
                return await _connect(uri, address)
        except OSError as error:
            problems.setdefault(f"{address[4][0]}: {problem(error, uri.host)}", error)
    errors = list(problems.values())
    if len({problem(error, uri.host) for error in errors}) == 1:
        raise errors[0]
    raise OSError("; ".join(problems))


def _host(uri: TcpUri) -> str:
    if uri.transport.use_local_host and uri.host.lower() in (socket.gethostname().lower(), socket.getfqdn().lower()):
        return "localhost"
    return uri.host


async def _addresses(host: str, port: int, family: int = 0) -> Sequence[AddressInfo]:
    try:  # numbers need no lookup, and so no thread
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await _in_thread(lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM))


async def _in_thread(look_up: Callable[[], Sequence[AddressInfo]]) -> Sequence[AddressInfo]:
    """What *look_up* returns, from a thread of its own.

    The loop's executor takes no work once the interpreter has begun to shut down, and a buffered producer may need a
    connection just then.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[AddressInfo]] = loop.create_future()

    def settle(result: Sequence[AddressInfo] | None, error: OSError | None) -> None:
        if found.done():  # the attempt was cancelled
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(result or [])

    def run() -> None:
        outcome: tuple[Sequence[AddressInfo] | None, OSError | None]
        try:
            outcome = look_up(), None
        except OSError as error:
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="ackwire look-up", daemon=True).start()
    return await found


async def _connect(uri: TcpUri, address: AddressInfo) -> socket.socket:
    family, kind, number, _, target = address
    with _closed_on_error(socket.socket(family, kind, number)) as connecting:
        connecting.setblocking(False)
        _set_options(connecting, uri, family)
        if uri.local is not None:
            local = await _addresses(uri.local[0], uri.local[1], family)
            connecting.bind(local[0][4])
        await asyncio.get_running_loop().sock_connect(connecting, target)
        return connecting


@contextlib.contextmanager
def _closed_on_error(opened: socket.socket) -> Iterator[socket.socket]:
    try:
        yield opened
    except BaseException:
        opened.close()
        raise


def _set_options(connecting: socket.socket, uri: TcpUri, family: int) -> None:
    """Before connecting: buffers and priority count from the first packet on."""
    transport, own = uri.transport, uri.socket
    keep_alive = own.keep_alive if own.keep_alive is not None else transport.keep_alive
    if keep_alive is not None:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, keep_alive)
    if own.reuse_address is not None:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, own.reuse_address)
    if transport.so_linger_seconds == 0:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _set_buffer(connecting, socket.SO_RCVBUF, own.receive_buffer_bytes, transport.socket_buffer_bytes)
    _set_buffer(connecting, socket.SO_SNDBUF, own.send_buffer_bytes, transport.socket_buffer_bytes)
    traffic_class = own.traffic_class or transport.diff_serv << 2 or transport.type_of_service
    if traffic_class and family == socket.AF_INET:
        connecting.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, traffic_class)
    elif traffic_class and family == socket.AF_INET6:
        connecting.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class)


def _set_buffer(connecting: socket.socket, option: int, own: int | None, common: int) -> None:
    size = own if own is not None else common if common != _DEFAULT_BUFFER_BYTES else None
    if size is not None:
        connecting.setsockopt(socket.SOL_SOCKET, option, size)
