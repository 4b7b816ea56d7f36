"""A slave's end of a connection: it says who the master is, and closes.

A client with `failover:` gets the brokers of the group in a ConnectionControl and the end of the connection, so it goes
on to the next one at once and its application notices nothing. Any other client gets an error as the answer to its
login. Only OpenWire is understood; what else comes is cut off.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from ackwire import __version__
from ackwire.errors import BrokerError, RemoteProtocolError
from ackwire.server.adapters.openwire_errors import throwable
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol

_SECONDS_MAX: Final = 10.0
"""How long a connection may last."""
_CONNECTIONS_MAX: Final = 1000
"""More are cut off without a word."""

_log = logging.getLogger(__name__)


@final
class Refusals:
    """Makes the ends of connections that are refused, and counts them."""

    def __init__(self, reason: Callable[[], str], members: Sequence[str], limits: WireLimits) -> None:
        """*reason* is a sentence that names the master, *members* are the URIs of all brokers of the group."""
        self.reason = reason
        self.members = tuple(members)
        self.limits = limits
        self.open: set[Refusal] = set()

    def connection(self) -> "Refusal":
        """For a connection that is about to be accepted."""
        return Refusal(self)

    def close(self) -> None:
        """Cut off all that are open."""
        for it in tuple(self.open):
            it.abort()


@final
class Refusal(asyncio.Protocol):
    """One connection."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._transport: asyncio.Transport | None = None
        self._protocol = OpenWireProtocol(Preferences(provider_version=__version__), refusals.limits)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._refusals.open) >= _CONNECTIONS_MAX:
            transport.abort()
            return
        self._refusals.open.add(self)
        self._deadline = asyncio.get_running_loop().call_later(_SECONDS_MAX, self.abort)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        try:
            for event in self._protocol.events():
                if isinstance(event, commands.ConnectionInfo):
                    self._refuse(event)
                    return
        except RemoteProtocolError as error:
            _log.debug("a client was cut off: %s", error)
            self.abort()
        else:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._refusals.open.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        """Cut it off."""
        if self._transport is not None:
            self._transport.abort()

    def _refuse(self, info: commands.ConnectionInfo) -> None:
        if info.fault_tolerant:
            self._protocol.send(commands.ConnectionControl(connected_brokers=",".join(self._refusals.members)))
        elif info.response_required:
            error = throwable(BrokerError(self._refusals.reason()))
            self._protocol.send(commands.ExceptionResponse(correlation_id=info.command_id, exception=error))
        self._flush()
        self._protocol.drop_received()
        assert self._transport is not None
        self._transport.close()

    def _flush(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._protocol.data_to_send()))
