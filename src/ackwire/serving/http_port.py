"""The HTTP port: open as long as the process wants it, whoever answers."""

import asyncio
from typing import TYPE_CHECKING, final

from ackwire.config import Settings
from ackwire.config.listener_uri import parse_address
from ackwire.errors import ConfigError
from ackwire.server.listener import Listener

if TYPE_CHECKING:
    from ackwire.admin.http import Handler, HttpServer


def require_h11() -> None:
    """Raise `ConfigError` if HTTP cannot be served."""
    try:
        import h11  # noqa: F401
    except ImportError:
        raise ConfigError('http.listen needs h11, which is not installed: pip install "ackwire[http]"') from None


@final
class HttpPort:
    """One listener, and the server that answers what comes there now."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.http
        self.listener = Listener(parse_address(settings.http.listen), self._connection)
        self._server: HttpServer | None = None
        self._is_open = False

    @property
    def address(self) -> str:
        """With the port in use."""
        return self.listener.address

    async def open(self) -> None:
        """Accept connections, unless it does already. Raises `ConfigError`."""
        if not self._is_open:
            await self.listener.start()
            self._is_open = True

    def answer_with(self, handler: "Handler") -> None:
        """Answer requests on new connections by *handler*."""
        from ackwire.admin.http import HttpServer

        self._server = HttpServer(handler, self._settings)

    async def drain(self, timeout_seconds: float) -> None:
        """Let the requests under way be finished; new connections are refused until another handler is there."""
        if self._server is not None:
            await self._server.drain(timeout_seconds)

    def close(self) -> None:
        """Accept no more."""
        if self._is_open:
            self._is_open = False
            self.listener.close()

    def _connection(self) -> asyncio.Protocol:
        if self._server is None:
            return _Refused()
        return self._server.connection()


class _Refused(asyncio.Protocol):
    """A connection that came too early."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
