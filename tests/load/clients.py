"""Many OpenWire clients in one process: asyncio around the client side of our own `OpenWireProtocol`."""

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure


class AsyncClient(asyncio.Protocol):
    """One connection. Messages go to `on_dispatch`; keep-alives are counted and answered with one."""

    def __init__(self, connection_id: str, wants: Preferences) -> None:
        self.connection_id = connection_id
        self.keep_alives = 0
        self.problems: list[str] = []
        """What a healthy broker would not have said or done."""
        self.on_dispatch: Callable[[commands.MessageDispatch], None] | None = None
        self.is_open = False
        self._protocol = OpenWireProtocol(wants)
        self._loop = asyncio.get_running_loop()
        self._command_ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._agreed: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def logged_in(cls, port: int, connection_id: str, wants: Preferences) -> "AsyncClient":
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(connection_id, wants), "127.0.0.1", port)
        await client._agreed
        await client.request(
            commands.ConnectionInfo(
                connection_id=commands.ConnectionId(connection_id), client_id=f"client of {connection_id}"
            )
        )
        await client.request(commands.SessionInfo(session_id=commands.SessionId(connection_id, 1)))
        return client

    # ---- the socket --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            self._on_event(event)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(f"the broker closed {self.connection_id}: {exc}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, commands.MessageDispatch):
            assert self.on_dispatch is not None
            self.on_dispatch(event)
        elif type(event) is commands.Response:
            self._waiting.pop(event.correlation_id).set_result(None)
        elif isinstance(event, commands.KeepAliveInfo):
            self.keep_alives += 1
            self._protocol.send(commands.KeepAliveInfo())
        elif isinstance(event, Agreement):
            self._protocol.login_finished()
            self._agreed.set_result(None)
        elif not isinstance(event, commands.BrokerInfo):
            self.problems.append(repr(event))

    def _flush(self) -> None:
        pieces = self._protocol.data_to_send()
        if pieces and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(pieces))

    # ---- commands ----------------------------------------------------------------------------------------------

    async def request(self, command: Any) -> None:
        """Send *command* and wait for its plain Response."""
        command.command_id = next(self._command_ids)
        command.response_required = True
        self._waiting[command.command_id] = answered = self._loop.create_future()
        self.tell(command)
        await answered

    def tell(self, command: Structure) -> None:
        """Send *command* as it is."""
        self._protocol.send(command)
        self._flush()

    def queue_up(self, command: Structure) -> None:
        """Send *command* together with what follows; for use inside `on_dispatch`."""
        self._protocol.send(command)

    async def send(self, message: commands.Message, *, wait: bool) -> None:
        if wait:
            await self.request(message)
        else:
            await self._writable.wait()
            self.tell(message)

    async def subscribe(self, destination: commands.ActiveMQDestination, prefetch: int) -> commands.ConsumerId:
        consumer = commands.ConsumerId(self.connection_id, 1, 1)
        await self.request(commands.ConsumerInfo(consumer_id=consumer, destination=destination, prefetch_size=prefetch))
        return consumer

    async def log_out(self) -> None:
        await self.request(commands.RemoveInfo(object_id=commands.ConnectionId(self.connection_id)))
        self.tell(commands.ShutdownInfo())
        await self._closed

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Pace:
    """Holds a loop to *rate* turns per second on average, without ever trying to catch up in a burst."""

    def __init__(self, rate: float) -> None:
        self._interval = 1 / rate
        self._next = time.monotonic()

    async def wait(self) -> None:
        now = time.monotonic()
        self._next = max(self._next + self._interval, now)
        await asyncio.sleep(self._next - now)
