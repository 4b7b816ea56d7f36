"""A broker behind its HTTP port, without a port: clients hold the other end of a socket pair.

async with HttpRig() as http:
    client = await http.client()
    reply = await client.get("/health")
    assert reply.status == 200
"""

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

import h11

from ackwire.admin.http import HttpServer
from ackwire.admin.metrics import StoreInfo
from ackwire.admin.routes import Api, ApiOptions
from ackwire.config import HttpSettings
from ackwire.errors import StoreFailed
from ackwire.wire.openwire.limits import DEFAULT_LIMITS
from tests.helpers.broker_rig import BrokerRig

TOKEN: Final = "a-token-for-tests-only"
ARROW: Final = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """Status and word of a refusal."""
        return self.status, self.json["code"]


class BrokenOff(Exception):
    """The connection ended inside of an answer."""


class HttpClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._protocol = h11.Connection(h11.CLIENT)

    async def get(self, target: str, **options: Any) -> Reply:
        return await self.request("GET", target, **options)

    async def delete(self, target: str, **options: Any) -> Reply:
        return await self.request("DELETE", target, **options)

    async def post(self, target: str, value: object = None, **options: Any) -> Reply:
        """*value* goes as JSON, unless there is a *body*."""
        options.setdefault("body", json.dumps(value).encode())
        return await self.request("POST", target, **options)

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        token: str | None = TOKEN,
    ) -> Reply:
        self.send(method, target, body=body, headers=headers, token=token)
        return await self.reply()

    def send(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        token: str | None = TOKEN,
    ) -> None:
        """Send a request without waiting for its answer."""
        fields = {"host": "rig", **(headers or {})}
        if token is not None:
            fields["authorization"] = f"Bearer {token}"
        if "transfer-encoding" not in fields:
            fields["content-length"] = str(len(body))
        head = h11.Request(method=method, target=target, headers=list(fields.items()))
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.writer.write(self._protocol.send(event) or b"")

    async def reply(self) -> Reply:
        """The next answer. Raises `BrokenOff`."""
        status, headers, body = 0, {}, bytearray()
        try:
            while not isinstance(event := await self._event(), h11.EndOfMessage):
                if isinstance(event, h11.Response):
                    status, headers = event.status_code, {n.decode(): v.decode() for n, v in event.headers}
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.ConnectionClosed):
                    raise BrokenOff
        except (h11.RemoteProtocolError, ConnectionError) as error:
            raise BrokenOff from error
        if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        return Reply(status, headers, bytes(body))

    async def _event(self) -> Any:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self.reader.read(65536))
        return event

    async def is_closed(self) -> bool:
        """Waits for the end of the connection."""
        try:
            return await self.reader.read(65536) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


class HttpRig:
    """A broker and its API; *cursors* and *staging* stand in for the broker's own.

    *settings* are those of `[http]` that differ from the defaults.
    """

    def __init__(self, *, cursors: Any = None, staging: Any = None, **settings: Any) -> None:
        self.rig = BrokerRig()
        self.failure: StoreFailed | None = None
        self.settings = replace(HttpSettings(), **settings)
        options = ApiOptions(
            settings=self.settings,
            token=TOKEN.encode(),
            store=StoreInfo("memory", lambda: 0, 0),
            wire_limits=DEFAULT_LIMITS,
            clock=self.rig.clock,
            failure=lambda: self.failure,
        )
        self.api = Api(self.rig.broker, options, cursors=cursors, staging=staging)
        self.server = HttpServer(self.api.answer, self.settings)
        self._clients: list[HttpClient] = []

    async def client(self) -> HttpClient:
        """A connection of its own."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(self.server.connection, theirs)
        client = HttpClient(*await asyncio.open_connection(sock=ours))
        self._clients.append(client)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        await self.server.drain(5)
        await asyncio.sleep(0)
