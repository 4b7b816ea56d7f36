"""Passes the calls of an asyncio transport on to a peer.

It is a class of its own because `Peer` is compiled, and compiled classes cannot inherit from asyncio's. On the broker's
own loop plain sockets do not need it (`turn.py`); TLS, and brokers on other loops, do.
"""

import asyncio
from typing import Any, final

from ackwire.server.listener import BufferedPeer
from ackwire.server.peer import Peer


@final
class AsyncioEnd(BufferedPeer):
    """Implements asyncio's `BufferedProtocol` for a peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._transport: asyncio.Transport | None = None

    @property
    def doing(self) -> str:
        return self._peer.doing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  it is what it is
        return self._peer.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._peer.received(nbytes)

    def data_received(self, data: bytes) -> None:
        self._peer.data_received(data)

    def eof_received(self) -> None:
        self._peer.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        transport: Any = self._transport
        self._transport = None
        if hasattr(transport, "_read_ready_cb"):
            # asyncio's transport refers to a method of its own: without this it stays until a garbage collection
            transport._read_ready_cb = None
        self._peer.connection_lost(exc)

    def pause_writing(self) -> None:
        self._peer.pause_writing()

    def resume_writing(self) -> None:
        self._peer.resume_writing()
