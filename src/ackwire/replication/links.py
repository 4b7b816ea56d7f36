"""Links between nodes over TCP, or TLS: what is sans-IO elsewhere meets asyncio here.

    links = Links(secret, clock, node.accepted)
    await links.listen("127.0.0.1", 61619)
    links.dial("10.0.0.2:61619", on_link, on_failed)      # as `node.Host` asks
    await links.close()

A connection proves the secret first (`handshake.py`); until then it may send little, and has little time. Whatever
bytes come, they end their link and nothing else. What is sent in one turn of the loop goes out in one write. A peer
that takes nothing is noticed by its silence; what waits for it until then is bounded by the leader's window.
"""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from typing import Final, final

from ackwire.errors import ConfigError, RemoteProtocolError
from ackwire.replication.handshake import Accepting, Dialing, Refused, require_secret
from ackwire.replication.identity import Link
from ackwire.replication.messages import APPEND_BYTES_MAX, Bye, Decoder, Message, Reason, encode
from ackwire.replication.node import LinkHandler

_HANDSHAKE_SECONDS: Final = 5.0
_DIAL_SECONDS: Final = 5.0
_STRANGERS_MAX: Final = 64
"""Connections that have not proved the secret yet, or have said nothing since; further ones are refused."""
_UNSENT_BYTES_MAX: Final = 64 << 20
"""What may wait to be sent when more is added; a link on which more waits is ended."""
_CLOSE_SECONDS: Final = 2.0
"""How long a link that was closed may take to send the rest."""

_log = logging.getLogger(__name__)

OnLink = Callable[[Link], LinkHandler | None]
OnFailed = Callable[[Reason, str], None]


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`. Raises `ConfigError`."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"{address!r} is no address of a node: HOST:PORT is expected")
    return host.strip("[]"), int(port)


class Links:
    """All links of a node."""

    def __init__(
        self,
        secret: bytes,
        accept: Callable[[Link], LinkHandler],
        *,
        server_context: ssl.SSLContext | None = None,
        client_context: ssl.SSLContext | None = None,
        append_bytes_max: int = APPEND_BYTES_MAX,
        handshake_seconds: float = _HANDSHAKE_SECONDS,
    ) -> None:
        """*accept* returns who receives what comes over a link that another node has made."""
        self.handshake_seconds = handshake_seconds
        self._secret = secret
        self._accept = accept
        self._server_context = server_context
        self._client_context = client_context
        self._append_bytes_max = append_bytes_max
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._dials: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def listen(self, host: str, port: int) -> int:
        """Take connections; returns the port, which may be given as 0. Raises `ConfigError` without a secret on an
        address that others can reach, and `OSError`."""
        require_secret(self._secret, host)
        loop = asyncio.get_running_loop()
        patience = None if self._server_context is None else self.handshake_seconds
        self._server = await loop.create_server(
            self._accepting, host, port, ssl=self._server_context, ssl_handshake_timeout=patience
        )
        return int(self._server.sockets[0].getsockname()[1])

    def _accepting(self) -> asyncio.Protocol:
        return _Connection(self, Accepting(self._secret, secrets.token_bytes), self._accept, _ignore)

    def dial(self, address: str, on_link: OnLink, on_failed: OnFailed) -> None:
        """See `node.Host`."""
        task = asyncio.get_running_loop().create_task(self._dial(address, on_link, on_failed))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _dial(self, address: str, on_link: OnLink, on_failed: OnFailed) -> None:
        try:
            host, port = parse_address(address)
            connection = _Connection(self, Dialing(self._secret, secrets.token_bytes), on_link, on_failed)
            async with asyncio.timeout(_DIAL_SECONDS):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: connection, host, port, ssl=self._client_context)
        except (OSError, ConfigError) as error:  # a timeout, too, and what TLS refuses
            if not self._is_closed:
                on_failed(Reason.NONE, f"{address} cannot be reached: {str(error) or 'it takes too long'}")

    async def close(self) -> None:
        """End all links, and take no more."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for task in list(self._dials):
            task.cancel()
        connections = list(self._connections)
        for connection in connections:
            connection.close(Reason.STOPPING, "the node stops")
        if connections:
            await asyncio.wait([it.ended for it in connections], timeout=_CLOSE_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    # ---- for the connections -----------------------------------------------------------------------------------

    @property
    def append_bytes_max(self) -> int:
        return self._append_bytes_max

    def opened(self, connection: "_Connection") -> bool:
        """A connection has begun; False if there are too many that have proved nothing."""
        strangers = sum(not it.is_known for it in self._connections)
        self._connections.add(connection)
        return strangers < _STRANGERS_MAX and not self._is_closed

    def ended(self, connection: "_Connection") -> None:
        self._connections.discard(connection)


def _ignore(_: Reason, text: str) -> None:
    _log.warning("a connection of another node is refused: %s", text)


@final
class _Connection(asyncio.Protocol):
    """One connection; implements `Link` once the secret is proved."""

    def __init__(
        self,
        links: Links,
        handshake: Dialing | Accepting,
        on_link: OnLink,
        on_failed: OnFailed,
    ) -> None:
        self._links = links
        self._handshake = handshake
        self._on_link = on_link
        self._on_failed: OnFailed | None = on_failed
        self._decoder = Decoder(append_bytes_max=links.append_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._handler: LinkHandler | None = None
        self.is_known = False
        """Whether the peer has proved the secret and, if it has dialed, said more than that."""
        self._is_closed = False
        """From this side: nothing more is received."""
        self._pieces: list[bytes] = []
        self._will_flush = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # ---- asyncio -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._links.opened(self):
            transport.abort()
            return
        self._timer = self._loop.call_later(self._links.handshake_seconds, self._too_slow)
        if isinstance(self._handshake, Dialing):
            self.send(self._handshake.begin())

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.receive(data):
                self._received(message)
                if self._is_closed:
                    return
            if self._handler is not None:
                self._handler.turn_ended()
        except RemoteProtocolError as error:
            self._failed(Reason.BROKEN_PROTOCOL, str(error))
        except Refused as error:
            self._failed(error.reason, str(error))
        except Exception:
            _log.exception("a message of another node could not be handled")
            self._failed(Reason.BROKEN_PROTOCOL, "a message could not be handled")

    def connection_lost(self, error: Exception | None) -> None:
        self._links.ended(self)
        if not self.ended.done():
            self.ended.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._is_closed = True
            self._tell_end(Reason.NONE, f"the connection was lost: {error or 'the other node has ended it'}")

    # ---- receiving ---------------------------------------------------------------------------------------------

    def _received(self, message: Message) -> None:
        if self._handler is not None:
            self._is_now_known()
            self._handler.receive(message)
        elif isinstance(message, Bye):
            self._failed(message.reason, message.text, is_theirs=True)
        else:
            self._shake_hands(message)

    def _shake_hands(self, message: Message) -> None:
        reply = self._handshake.receive(message)
        if reply is not None:
            self.send(reply)
        if self._handshake.is_done:
            self._decoder.is_proved = True
            if isinstance(self._handshake, Dialing):
                self._is_now_known()
            self._on_failed = None
            self._handler = self._on_link(self)
            if self._handler is None:
                self.close(Reason.NONE, "the link is of no use any more")

    def _is_now_known(self) -> None:
        if not self.is_known:
            self.is_known = True
            if self._timer is not None:
                self._timer.cancel()

    def _too_slow(self) -> None:
        self._failed(Reason.SILENT, f"the handshake takes more than {self._links.handshake_seconds:g} s")

    def _failed(self, reason: Reason, text: str, *, is_theirs: bool = False) -> None:
        """The link ends here, and who uses it is told."""
        if self._is_closed:
            return
        if is_theirs:
            self.close(Reason.NONE, "")
        else:
            self.close(reason, text)
        self._tell_end(reason, text)

    def _tell_end(self, reason: Reason, text: str) -> None:
        if self._handler is not None:
            _log.info("a link between nodes has ended: %s", text)
            self._handler.closed()
        elif self._on_failed is not None:
            on_failed, self._on_failed = self._on_failed, None
            on_failed(reason, text)

    # ---- Link --------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """See `Link`."""
        transport = self._transport
        if self._is_closed or transport is None:
            return
        if transport.get_write_buffer_size() > _UNSENT_BYTES_MAX:
            self._loop.call_soon(self._failed, Reason.SILENT, "the other node takes nothing")
            return
        self._pieces += encode(message)
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """See `Link`; at the end of the turn by itself: everything in one write."""
        self._will_flush = False
        pieces, self._pieces = self._pieces, []
        if pieces and self._transport is not None:
            self._transport.write(b"".join(pieces))

    def close(self, reason: Reason, text: str) -> None:
        """See `Link`."""
        if self._is_closed:
            return
        self.send(Bye(reason, text))
        self._is_closed = True
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
            self._timer = self._loop.call_later(_CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """End it without waiting for the other side."""
        if self._transport is not None:
            self._transport.abort()
