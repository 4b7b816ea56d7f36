"""A client for one short visit to a running broker, for the commands that ask it something."""

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ackwire.errors import AckwireError, ConfigError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
_TIMEOUT_SECONDS: Final = 10.0

T = TypeVar("T")


def visit(url: str, do: Callable[["Visit"], T]) -> T:
    """Connect to the broker at *url*, *do* what is to be done, and leave. Raises `ConfigError`, in one line."""
    parts = urlsplit(url)
    if parts.scheme not in ("tcp", "nio") or not parts.hostname:
        raise ConfigError(f"{url}: give the broker as tcp://host:port")
    try:
        address = (parts.hostname, parts.port or 61616)
        with socket.create_connection(address, timeout=_TIMEOUT_SECONDS) as connected:
            return do(Visit(connected))
    except OSError as error:
        raise ConfigError(f"{url}: {error.strerror or error}; is a broker running there?") from None
    except AckwireError as error:
        raise ConfigError(f"{url}: {error}") from None


class Visit:
    """One connection, logged in."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._protocol = OpenWireProtocol(Preferences(inactivity_ms=0))
        self._command_ids = itertools.count(1)
        self._events = self._receive()
        self.connection_id = f"ID:ackwire-cli-{os.getpid()}-{time.time_ns()}"
        self._flush()
        self.wait_for(Agreement)
        self._protocol.login_finished()
        self.request(
            commands.ConnectionInfo(
                connection_id=commands.ConnectionId(self.connection_id), client_id=self.connection_id
            )
        )

    def request(self, command: commands.BaseCommand) -> commands.Response:
        """Send *command* and wait for its answer; a refusal is a `ConfigError` in the broker's words."""
        command.command_id = next(self._command_ids)
        command.response_required = True
        self._protocol.send(command)
        self._flush()
        response = self.wait_for(commands.Response)
        if isinstance(response, commands.ExceptionResponse):
            reason = response.exception.message if response.exception is not None else None
            raise ConfigError(reason or "the broker refused")
        return response

    def wait_for(self, kind: type[T]) -> T:
        return next(event for event in self._events if isinstance(event, kind))

    def _flush(self) -> None:
        self._socket.sendall(b"".join(self._protocol.data_to_send()))

    def _receive(self) -> Iterator[Event]:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConfigError("the broker closed the connection")
            self._protocol.receive_data(data)
            yield from self._protocol.events()
