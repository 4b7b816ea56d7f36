"""HTTP/1.1 for the routes: connections, requests, answers, time limits. `routes.py` handles the requests.

h11 reads and writes the protocol; here are the sockets and the time. One task serves one connection, one request after
the other. Nothing grows with what a client does or leaves undone: the head of a request is small, its body is read only
as far as the route wants it, and an answer in pieces waits for its reader. No bytes that a client sends can
end more than its own connection.

An answer in pieces that cannot be finished is broken off without its last chunk, so that no reader takes half a range
for the whole.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import parse_qsl

import h11

from ackwire import __version__
from ackwire.config import KIB, MIB, HttpSettings
from ackwire.errors import AckwireError

JSON: Final = "application/json"

_HEAD_BYTES_MAX: Final = 16 * KIB
"""The request line and all header fields."""
_READ_BYTES: Final = 64 * KIB
_WRITE_PAUSE_BYTES: Final = MIB
"""Output waiting for a client above which an answer in pieces waits."""
_BODY_STEP_BYTES: Final = MIB
"""How much of a body must come in each `http.request_timeout_seconds`."""
_LINGER_BYTES: Final = 8 * MIB
_LINGER_SECONDS: Final = 2.0
"""How much of a refused body is still read, so that its sender gets to see the refusal."""
_QUERY_FIELDS_MAX: Final = 32
_SINGLE_FIELDS: Final = (b"authorization", b"content-type", b"content-encoding", b"expect")
"""Header fields that a request may have once; h11 looks after Host and the lengths."""

Piece = bytes | memoryview


_log = logging.getLogger(__name__)


class BadRequest(Exception):
    """A request that is malformed or refused: answered by *status* with *code* and the message."""

    def __init__(self, message: str, *, status: int = 400, code: str = "bad-request") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _ClientGone(Exception):
    """The client has closed the connection: there is no one left to answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: a status and a whole body, or its pieces as they become ready."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncIterator[Piece] | None = None


def json_answer(status: int, value: object, headers: Mapping[str, str] | None = None) -> Answer:
    """*value* as JSON."""
    return Answer(status, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n", JSON, headers or {})


def error_answer(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A refusal, in a sentence for people and a word for programs."""
    return json_answer(status, {"error": message, "code": code}, headers)


@final
class Request:
    """One request; its body is read when the route asks for it."""

    def __init__(self, head: h11.Request, read_body: "Callable[[int], Awaitable[bytearray]]") -> None:
        self.method = head.method.decode("ascii")
        path, _, query = head.target.decode("ascii").partition("?")
        self.path = path
        """As it came, percent signs and all: a name in it may hold an encoded slash."""
        self._query = query
        self._headers = {bytes(name): bytes(value) for name, value in head.headers}
        self._repeated = [name.decode() for name in _SINGLE_FIELDS if sum(it == name for it, _ in head.headers) > 1]
        self._read_body = read_body

    def header(self, name: str) -> bytes:
        """The value of a header field, by its name in lower case; empty if there is none."""
        return self._headers.get(name.encode("ascii"), b"")

    def refuse_repeated_fields(self) -> None:
        """Raise `BadRequest` for a field that stands there twice: a proxy may have looked at the other one."""
        if self._repeated:
            raise BadRequest(f"the header field {self._repeated[0]} is given more than once")

    @property
    def body_bytes(self) -> int | None:
        """How long the body is, if the request says so."""
        length = self.header("content-length")
        if length:
            return int(length)
        return None if self.header("transfer-encoding") else 0

    def query(self) -> dict[str, str]:
        """The parameters behind the question mark. Raises `BadRequest`."""
        try:
            pairs = (
                parse_qsl(
                    self._query,
                    keep_blank_values=True,
                    strict_parsing=True,
                    errors="strict",
                    max_num_fields=_QUERY_FIELDS_MAX,
                )
                if self._query
                else []
            )
        except ValueError as error:
            raise BadRequest(f"the parameters behind the question mark cannot be read: {error}") from None
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BadRequest("a parameter behind the question mark is given twice")
        return found

    async def body(self, bytes_max: int) -> bytearray:
        """All of the body. Raises `BadRequest` with status 413 if it is longer than *bytes_max*."""
        return await self._read_body(bytes_max)


Handler = Callable[[Request], Awaitable[Answer]]


@final
class HttpServer:
    """The connections of one HTTP port; a listener makes each by `connection`."""

    def __init__(self, handle: Handler, settings: HttpSettings) -> None:
        self._handle = handle
        self._settings = settings
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._is_draining = False

    def connection(self) -> asyncio.Protocol:
        """The protocol for a connection that is about to be accepted."""
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        return asyncio.StreamReaderProtocol(reader, self._accept)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_draining or len(self._connections) >= self._settings.connections_max:
            if not self._is_draining:
                _log.warning(
                    "an HTTP client was closed: there are %d connections, the limit (http.connections_max)",
                    len(self._connections),
                )
            writer.transport.abort()
            return
        connection = _Connection(reader, writer, self._handle, self._settings)
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._connections[connection] = task
        task.add_done_callback(lambda _: self._connections.pop(connection, None))

    async def drain(self, timeout_seconds: float) -> None:
        """Close what is idle, let requests be finished, and break off those that take longer."""
        self._is_draining = True
        tasks = set(self._connections.values())
        for connection in tuple(self._connections):
            connection.finish()
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        if late:
            _log.warning("%d HTTP requests were not finished in %g s", len(late), timeout_seconds)
            await asyncio.wait(late, timeout=_LINGER_SECONDS)


@final
class _Connection:
    """One client, from its first byte to its last."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handler, settings: HttpSettings
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._settings = settings
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        self._is_idle = True
        self._is_finishing = False
        self._has_answered = False
        self._method = ""
        writer.transport.set_write_buffer_limits(high=_WRITE_PAUSE_BYTES)

    def finish(self) -> None:
        """Close after the request that is being answered; at once if there is none."""
        self._is_finishing = True
        if self._is_idle:
            self._writer.close()

    # ---- one request after the other ---------------------------------------------------------------------------

    async def serve(self) -> None:
        try:
            while await self._serve_one():
                pass
        except (_ClientGone, OSError, TimeoutError):
            pass  # it has left, or does not move any more
        except asyncio.CancelledError:
            await self._say_stopping()
        except Exception:
            # A bug of ours: it ends this connection, loudly, and no other.
            _log.exception("an HTTP connection was closed: an error in the broker")
            self._writer.transport.abort()
        finally:
            self._writer.close()

    async def _serve_one(self) -> bool:
        """Answer one request; whether another may follow."""
        self._has_answered = False
        self._method = ""
        try:
            head = await self._next_request()
            if head is None:
                return False
            self._is_idle = False
            request = Request(head, self._read_body)
            self._method = request.method
            if request.header("transfer-encoding") and request.header("content-length"):
                # RFC 9112 §6.3: somebody on the way may see another end of this request than we do.
                raise h11.RemoteProtocolError("a request has one length, not Content-Length and Transfer-Encoding both")
            answer = await self._answer_to(request)
        except h11.RemoteProtocolError as error:
            self._is_finishing = True
            message = f"this is no HTTP that is understood: {error}"
            answer = error_answer(error.error_status_hint, "bad-request", message)
        await self._send(answer)
        if self._protocol.their_state is not h11.DONE and self._protocol.their_state is not h11.MUST_CLOSE:
            await self._linger()
            return False
        if self._is_finishing or self._protocol.our_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        self._is_idle = True
        return True

    async def _next_request(self) -> h11.Request | None:
        """The head of the next request; None if no more come."""
        if self._is_finishing:
            return None
        event = self._protocol.next_event()
        if event is h11.NEED_DATA:
            await self._receive(self._settings.idle_timeout_seconds)
            async with asyncio.timeout(self._settings.request_timeout_seconds):
                while (event := self._protocol.next_event()) is h11.NEED_DATA:
                    await self._receive(None)
        return event if isinstance(event, h11.Request) else None

    async def _answer_to(self, request: Request) -> Answer:
        try:
            request.refuse_repeated_fields()
            return await self._handle(request)
        except BadRequest as error:
            return error_answer(error.status, error.code, str(error))
        except (_ClientGone, OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("%s %s failed: an error in the broker", request.method, request.path)
            return error_answer(500, "error", "an error in the broker; its log says more")

    async def _say_stopping(self) -> None:
        """The broker does not wait any longer: say so, if nothing else was said."""
        if self._has_answered or self._is_idle:
            self._writer.transport.abort()
            return
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._send(stopping_answer())
        except (_ClientGone, OSError, TimeoutError, h11.ProtocolError):
            self._writer.transport.abort()

    # ---- reading -----------------------------------------------------------------------------------------------

    async def _receive(self, timeout_seconds: float | None) -> None:
        """Give the protocol what comes next."""
        async with asyncio.timeout(timeout_seconds):
            data = await self._reader.read(_READ_BYTES if self._is_reading_body else _HEAD_BYTES_MAX)
        self._protocol.receive_data(data)

    @property
    def _is_reading_body(self) -> bool:
        return self._protocol.their_state is h11.SEND_BODY

    async def _read_body(self, bytes_max: int) -> bytearray:
        body = bytearray()
        due = _BODY_STEP_BYTES
        deadline = asyncio.get_running_loop().time() + self._settings.request_timeout_seconds
        if self._protocol.they_are_waiting_for_100_continue:
            self._writer.write(self._protocol.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        while not isinstance(event := self._protocol.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                async with asyncio.timeout_at(deadline):
                    await self._receive(None)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > bytes_max:
                    raise BadRequest(
                        f"the body is longer than {bytes_max} bytes, the limit", status=413, code="too-large"
                    )
                if len(body) >= due:
                    due = len(body) + _BODY_STEP_BYTES
                    deadline = asyncio.get_running_loop().time() + self._settings.request_timeout_seconds
            else:
                raise _ClientGone
        return body

    async def _linger(self) -> None:
        """Read on for a moment: a connection closed on unread bytes is reset, and the answer may be lost with it."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = _LINGER_BYTES
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (data := await self._reader.read(_READ_BYTES)):
                left -= len(data)

    # ---- writing -----------------------------------------------------------------------------------------------

    async def _send(self, answer: Answer) -> None:
        self._finish_reading()
        headers = [
            ("content-type", answer.content_type),
            ("server", f"ackwire/{__version__}"),
            ("cache-control", "no-store"),
            *answer.headers.items(),
        ]
        if answer.pieces is None:
            headers.append(("content-length", str(len(answer.body))))
        if self._is_finishing or self._protocol.their_state is not h11.DONE:
            headers.append(("connection", "close"))
        self._has_answered = True
        head = self._protocol.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        has_body = self._method != "HEAD"
        if answer.pieces is None:
            body = self._protocol.send(h11.Data(data=answer.body)) if has_body else None
            self._writer.write(head + (body or b""))
        else:
            self._writer.write(head)
            if has_body:
                await self._send_pieces(answer.pieces)
        self._writer.write(self._protocol.send(h11.EndOfMessage()) or b"")
        await self._drain()

    async def _send_pieces(self, pieces: AsyncIterator[Piece]) -> None:
        try:
            async for piece in pieces:
                self._write_piece(piece)
                await self._drain()
        except (_ClientGone, OSError, TimeoutError, asyncio.CancelledError):
            self._writer.transport.abort()
            raise
        except Exception as error:
            is_bug = not isinstance(error, AckwireError)
            _log.error("an answer over HTTP was broken off: %s", error, exc_info=is_bug)
            self._writer.transport.abort()
            raise _ClientGone from None

    def _finish_reading(self) -> None:
        """Take what is there already of a request that was answered unread; most have no body."""
        if self._protocol.they_are_waiting_for_100_continue:
            return
        with suppress(h11.RemoteProtocolError):  # the connection ends with this answer
            while self._is_reading_body and isinstance(self._protocol.next_event(), h11.Data):
                pass

    def _write_piece(self, piece: Piece) -> None:
        """Write a piece as it is: it may be large, and joining would copy it."""
        if len(piece):
            for data in self._protocol.send_with_data_passthrough(h11.Data(data=piece)) or ():  # type: ignore[arg-type]
                self._writer.write(data)

    async def _drain(self) -> None:
        async with asyncio.timeout(self._settings.answer_timeout_seconds):
            await self._writer.drain()


def stopping_answer() -> Answer:
    return error_answer(503, "stopping", "the broker is stopping; try again when it is back", {"retry-after": "5"})
