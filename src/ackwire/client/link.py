"""One socket of the client: bytes in, bytes out, and when it is over.

A link has an owner while it carries the connection. Before that it may wait as a spare: then it keeps what the broker
says first, within limits. After it has lost its owner it receives nothing more and only empties its buffer.
"""

import asyncio
import logging
import os
from typing import Final, Protocol

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.failover import Uri
from ackwire.client.options import TransportOptions
from ackwire.client.transports import problem
from ackwire.client.uri import TcpUri

EARLY_BYTES_MAX: Final = 64 * 1024
"""What a broker says before it is asked anything: a WireFormatInfo, a BrokerInfo, keep-alives."""
HIGH_WATER_BYTES: Final = 1024 * 1024
"""So much may wait to be written before senders are held back: several turns of the loop at full speed."""
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4

_log = logging.getLogger(__name__)


class Owner(Protocol):
    """Gets the events of a link."""

    def link_received(self, link: "Link", data: bytes) -> None: ...

    def link_ended(self, link: "Link") -> None:
        """The broker will send no more."""
        ...

    def link_lost(self, link: "Link", error: ConnectionFailedError) -> None: ...

    def link_congested(self, link: "Link", congested: bool) -> None: ...


class Link(asyncio.Protocol):
    """A transport to one broker."""

    def __init__(self, uri: Uri, loop: asyncio.AbstractEventLoop, open_links: "set[Link]") -> None:
        """*open_links* holds it from the moment it is connected until it is closed."""
        self.uri = uri
        self.options = uri.transport if isinstance(uri, TcpUri) else TransportOptions()
        self.owner: Owner | None = None
        self.settled: asyncio.Future[None] = loop.create_future()
        """Done when the wire format is agreed, or when `error` says why it will not be."""
        self.heard: asyncio.Future[None] = loop.create_future()
        """Done when the first bytes came, or none will."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self.error: ConnectionFailedError | None = None
        self.offer: bytes | None = None
        """The WireFormatInfo that was sent while it was a spare."""
        self.was_adopted = False
        self.is_restored = False
        self.can_write_directly = False
        self._loop = loop
        self._descriptor = -1
        self._open_links = open_links
        self._early: bytearray | None = bytearray()
        self._transport: asyncio.Transport | None = None
        self._written_bytes = 0

    @property
    def address(self) -> str:
        return self.uri.address

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self.closed.done()

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def waiting_bytes(self) -> int:
        """Written here, and not yet taken by the system."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def drained_bytes(self) -> int:
        """What the system has taken so far; with TLS a little less."""
        return self._written_bytes - self.waiting_bytes

    # ---- the owner's side --------------------------------------------------------------------------------------

    def adopt(self, owner: Owner) -> bytes:
        """Report everything to *owner* from now on; returns the bytes that came before."""
        early = bytes(self._early or b"")
        self._early = None
        self.owner = owner
        self.was_adopted = True
        return early

    def disown(self) -> None:
        self.owner = None
        self._early = None

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.options.trace:
            _log.debug("%s: %d bytes out", self.address, len(data))
        self._written_bytes += len(data)
        transport.write(data)

    def write_directly(self, data: bytes) -> int:
        """Give *data* to the system, from any thread; returns how much it took, which is nothing where it failed.

        Only while the transport has nothing waiting, and under the owner's guard: `connection_lost` tells the owner
        before the socket is closed, and a link is taken away from its owner only under the guard.
        """
        try:
            taken = os.write(self._descriptor, data)
        except OSError:  # full, or broken: the loop will find out
            return 0
        if self.options.trace:
            _log.debug("%s: %d bytes out", self.address, taken)
        self._written_bytes += taken
        return taken

    def close(self) -> None:
        """Send what is waiting, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- the transport's side ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_links.add(self)
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        connected = transport.get_extra_info("socket")
        is_plain = isinstance(self.uri, TcpUri) and self.uri.tls is None
        # Other loops may keep data in places that get_write_buffer_size does not know of.
        if is_plain and connected is not None and isinstance(self._loop, asyncio.SelectorEventLoop):
            self._descriptor = connected.fileno()
            self.can_write_directly = True

    def data_received(self, data: bytes) -> None:
        if self.options.trace:
            _log.debug("%s: %d bytes in", self.address, len(data))
        if not self.heard.done():
            self.heard.set_result(None)
        if self.owner is not None:
            self.owner.link_received(self, data)
        elif self._early is not None:
            self._early += data
            if len(self._early) > EARLY_BYTES_MAX:
                self.abort()

    def eof_received(self) -> None:
        # Returning nothing closes the transport, and connection_lost follows.
        if self.owner is not None:
            self.owner.link_ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_links.discard(self)
        error = ConnectionFailedError(f"{self.address}: {self._reason(exc)}")
        for future in (self.closed, self.heard):
            if not future.done():
                future.set_result(None)
        error.__cause__ = exc
        if self.owner is not None:
            self.owner.link_lost(self, error)

    def _reason(self, exc: Exception | None) -> str:
        uri = self.uri
        if exc is not None:
            return problem(exc, uri.host if isinstance(uri, TcpUri) else uri.name)
        if self.heard.done():
            return "the broker closed the connection"
        # With TLS 1.3 the client's side of the handshake is over before the broker looks at certificates.
        asked = isinstance(uri, TcpUri) and uri.tls is not None and uri.tls.cert_file is None
        hint = "; does it ask for a certificate (certFile)?" if asked else ""
        return f"the broker closed the connection before it said anything{hint}"

    def pause_writing(self) -> None:
        if self.owner is not None:
            self.owner.link_congested(self, True)

    def resume_writing(self) -> None:
        if self.owner is not None:
            self.owner.link_congested(self, False)
