"""For tests of the client's engine: a small core that writes down what happens, and a broker that follows a script.

Both have our own `OpenWireProtocol` inside and run on the test's event loop.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ackwire.client.engine import Engine
from ackwire.client.errors import JMSError, error_from_wire
from ackwire.client.failover import Uri
from ackwire.client.uri import BrokerUrl, parse_broker_url
from ackwire.util.clock import Clock, SystemClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure, Throwable

WAIT_SECONDS = 20.0
"""For what should take milliseconds."""


def _nothing(*_: Any) -> None:
    return None


class ScriptedCore:
    """Logs in when the wire format is agreed, and keeps a list of what it was told."""

    def __init__(self, wants: Preferences | None = None, *, logs_in: bool = True) -> None:
        self.on_output: Callable[[], None] = _nothing
        self.on_much_output: Callable[[], None] = _nothing
        self.on_agreed: Callable[[Agreement], None] = _nothing
        self.on_restored: Callable[[], None] = _nothing
        self.on_login_refused: Callable[[JMSError], None] = _nothing
        self.on_control: Callable[[commands.ConnectionControl], None] = _nothing
        self.wants = wants or Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0)
        self.logs_in = logs_in
        self.told: list[str] = []
        """`connected ADDRESS`, `connected again ADDRESS`, `agreed`, `restored`, `refused`, `lost`, `ended`."""
        self.errors: list[JMSError] = []
        self.commands: list[Structure] = []
        self.protocol: OpenWireProtocol | None = None
        self._changed: asyncio.Event = asyncio.Event()

    # ---- as the engine sees it ---------------------------------------------------------------------------------

    def transport_connected(self, uri: Uri) -> None:
        self.protocol = OpenWireProtocol(self.wants)
        self._tell(f"connected again {uri.address}" if "agreed" in self.told else f"connected {uri.address}")

    def receive_data(self, data: bytes) -> None:
        assert self.protocol is not None
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            self._handle(event)

    def receive_eof(self) -> None:
        assert self.protocol is not None
        self.protocol.receive_eof()

    def data_to_send(self) -> list[bytes]:
        return self.protocol.data_to_send() if self.protocol is not None else []

    @property
    def waiting_bytes(self) -> int:
        return self.protocol.waiting_bytes if self.protocol is not None else 0

    def transport_lost(self, error: JMSError, *, final: bool) -> None:
        self.protocol = None
        self.errors.append(error)
        self._tell("ended" if final else "lost")

    def send_keep_alive(self, response_required: bool) -> None:
        self.send(commands.KeepAliveInfo(response_required=response_required))

    # ---- as the test sees it -----------------------------------------------------------------------------------

    def send(self, command: Structure) -> None:
        self.put(command)
        self.on_output()

    def put(self, command: Structure) -> None:
        """Have something to send, and tell nobody."""
        assert self.protocol is not None
        self.protocol.send(command)

    def count(self, word: str) -> int:
        return sum(1 for line in self.told if line.startswith(word))

    async def until(self, word: str, times: int = 1) -> None:
        """Wait until *word* was told so many times."""
        await self.until_true(lambda: self.count(word) >= times, f"{word} x {times}")

    async def until_command(self, kind: type[Structure], times: int = 1) -> None:
        await self.until_true(lambda: sum(isinstance(c, kind) for c in self.commands) >= times, kind.__name__)

    async def until_true(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited for {what}; told: {self.told}, errors: {self.errors}") from None

    def _handle(self, event: Any) -> None:
        if isinstance(event, Agreement):
            self._tell("agreed")
            self.on_agreed(event)
            if self.logs_in:
                info = commands.ConnectionInfo(connection_id=commands.ConnectionId("ID:engine"), client_id="engine")
                self.send(replace(info, command_id=1, response_required=True))
        elif isinstance(event, commands.ExceptionResponse):
            self._tell("refused")
            self.on_login_refused(error_from_wire(event.exception))
        elif isinstance(event, commands.Response) and event.correlation_id == 1:
            self._tell("restored")
            self.on_restored()
        elif isinstance(event, commands.ConnectionControl):
            self.on_control(event)
        else:
            self.commands.append(event)
            self._changed.set()

    def _tell(self, line: str) -> None:
        self.told.append(line)
        self._changed.set()


@dataclass
class Script:
    """What a `ScriptedBroker` does. It may be changed while it runs."""

    says_nothing: bool = False
    """Takes connections and is silent."""
    reads: bool = True
    wants: Preferences = field(default_factory=lambda: Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0))
    refusal: Throwable | None = None
    """The answer to logins."""
    after_login: list[Structure] = field(default_factory=list)


class ScriptedBroker:
    """A listener on loopback that speaks as much OpenWire as a login needs."""

    def __init__(self, script: Script | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script or Script()
        self.port = 0
        self.commands: list[Any] = []
        self.received_bytes = 0
        self.sessions: list[_Session] = []
        """Those that are open."""
        self.connections = 0
        """All that were ever made."""
        self.chunks = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{'ssl' if self._tls else 'tcp'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Session(self), "127.0.0.1", self.port, ssl=self._tls, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            self._server.close()
            self.drop()
            await self._server.wait_closed()
            self._server = None

    def drop(self) -> None:
        for session in list(self.sessions):
            session.transport.abort()

    async def until(self, condition: Callable[[Self], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited for {what}; received: {self.commands[-20:]}") from None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await asyncio.sleep(0)  # aborted transports close their sockets in the next turn
        await asyncio.sleep(0)

    def changed(self) -> None:
        self._changed.set()


class _Session(asyncio.Protocol):
    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.protocol = OpenWireProtocol(broker.script.wants)
        self.transport: asyncio.Transport
        self.logged_in = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.broker.sessions.append(self)
        self.broker.connections += 1
        if not self.broker.script.reads:
            transport.pause_reading()
        self._flush()
        self.broker.changed()

    def data_received(self, data: bytes) -> None:
        self.broker.received_bytes += len(data)
        self.broker.chunks += 1
        self.broker.changed()
        if self.broker.script.says_nothing:
            return
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            self.broker.commands.append(event)
            if isinstance(event, commands.ConnectionInfo):
                self._answer(event)
        self._flush()

    def connection_lost(self, _: Exception | None) -> None:
        self.broker.sessions.remove(self)
        self.broker.changed()

    def send(self, command: Structure) -> None:
        self.protocol.send(command)
        self._flush()

    def _answer(self, login: commands.ConnectionInfo) -> None:
        script = self.broker.script
        if script.refusal is not None:
            self.protocol.send(commands.ExceptionResponse(correlation_id=login.command_id, exception=script.refusal))
            return
        self.logged_in = True
        self.protocol.login_finished()
        self.protocol.send_response(login.command_id)
        for command in script.after_login:
            self.protocol.send(command)

    def _flush(self) -> None:
        if not self.broker.script.says_nothing:
            self.transport.write(b"".join(self.protocol.data_to_send()))


@contextlib.asynccontextmanager
async def engine_for(
    url: str | BrokerUrl,
    core: ScriptedCore,
    *,
    seed: int = 1,
    clock: Clock | None = None,
    guard: contextlib.AbstractContextManager[Any] | None = None,
) -> AsyncIterator[Engine]:
    """An engine that is not open yet; closed at the end, and nothing of it is left then."""
    engine = Engine(
        core,
        parse_broker_url(url) if isinstance(url, str) else url,
        loop=asyncio.get_running_loop(),
        guard=guard or contextlib.nullcontext(),
        random=random.Random(seed),
        clock=clock or SystemClock(),
    )
    before = asyncio.all_tasks()
    try:
        yield engine
    finally:
        await engine.close(5.0)
        assert asyncio.all_tasks() <= before | {asyncio.current_task()}
        assert not engine._links
        assert not engine._tasks.running


def run(test: Callable[[], Any]) -> None:
    """Run an async test in asyncio's debug mode."""
    asyncio.run(test(), debug=True)
