"""HTTP itself: what strangers may do, what a connection survives, how it ends."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from ackwire.admin.http import Answer, HttpServer, Request
from ackwire.config import MIB
from ackwire.errors import RangeGone
from tests.helpers.http_rig import TOKEN, BrokenOff, HttpRig


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


# --- requests and answers ------------------------------------------------------------------------------


def test_requests_follow_one_another_on_a_connection() -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            assert [(await client.get("/health")).status for _ in range(3)] == [200, 200, 200]

    run(test())


def test_requests_that_come_at_once_are_answered_in_their_order() -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            client.writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n")
            received = b""
            while received.count(b"HTTP/1.1 ") < 2 or not received.endswith(b"}\n"):
                received += await client.reader.read(65536)
            assert received.index(b"HTTP/1.1 200") < received.index(b"HTTP/1.1 401")

    run(test())


def test_unread_body_does_not_hide_the_refusal() -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            reply = await client.post("/v1/cursors", body=b"x" * 3 * MIB, token=None)
            assert reply.status == 401
            assert reply.headers["connection"] == "close"
            assert await client.is_closed()

    run(test())


def test_body_where_none_is_expected_is_refused_when_it_is_long() -> None:
    async def test() -> None:
        async with HttpRig() as http:
            assert (await (await http.client()).request("GET", "/health", body=b"x" * 1000)).status == 200
            refused = await (await http.client()).request("GET", "/health", body=b"x" * (MIB + 1))
            assert refused.error == (413, "too-large")

    run(test())


def test_client_that_asks_first_is_told_to_go_on() -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            client.writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
            assert (await client.reader.readline()).startswith(b"HTTP/1.1 100")
            client.writer.write(b"{}")
            assert b"HTTP/1.1 200" in await client.reader.readuntil(b"}\n")

    run(test())


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "BREW"])
def test_other_methods_are_refused_with_those_that_are_taken(method: str) -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            client.writer.write(f"{method} /health HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 405")
            assert b"allow: GET\r\n" in head

    run(test())


# --- strangers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x00\x00\x00\x2a\x01ActiveMQ\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", b"501"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 8000, b"431"),
        (b"GET /" + b"a" * 40_000, b"431"),
    ],
)
def test_what_is_no_good_request_is_refused_and_the_connection_closed(sent: bytes, status: bytes) -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            client.writer.write(sent)
            assert (await client.reader.readline()).startswith(b"HTTP/1.1 " + status)
            client.writer.write_eof()
            await client.is_closed()

    run(test())


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_harm_only_their_own_connection(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        chance = random.Random(seed)
        good = b"POST /v1/cursors HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nauthorization: Bearer x\r\n\r\nabcd"
        async with HttpRig() as http:
            other = await http.client()
            for _ in range(20):
                client = await http.client()
                sent = bytearray(chance.choice((good, chance.randbytes(chance.randrange(1, 5000)))))
                for _ in range(chance.randrange(5)):
                    sent[chance.randrange(len(sent))] = chance.randrange(256)
                client.writer.write(sent)
                client.writer.write_eof()
                while await client.reader.read(65536):
                    pass
            assert (await other.get("/health")).status == 200

    run(test())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_more_connections_than_allowed_are_closed() -> None:
    async def test() -> None:
        async with HttpRig(connections_max=2) as http:
            clients = [await http.client() for _ in range(3)]
            assert await clients[2].is_closed()
            assert (await clients[0].get("/health")).status == 200

    run(test())


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"]
)
def test_client_that_does_not_go_on_is_closed(sent: bytes) -> None:
    async def test() -> None:
        async with HttpRig(idle_timeout_seconds=0.1, request_timeout_seconds=0.1) as http:
            client = await http.client()
            client.writer.write(sent)
            assert await client.is_closed()

    run(test())


# --- answers in pieces ---------------------------------------------------------------------------------


class Pieces:
    """A server whose answers come in pieces, and what became of them."""

    def __init__(self, *, fail_after: int | None = None, size_bytes: int = 1000) -> None:
        self.given = 0
        self._fail_after = fail_after
        self._size_bytes = size_bytes
        self.rig = HttpRig()
        self.rig.server = HttpServer(self._answer, self.rig.settings)

    async def _answer(self, _: Request) -> Answer:
        return Answer(200, pieces=self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        while self.given < 1000:
            if self.given == self._fail_after:
                raise RangeGone("messages up to 7 were committed and are gone")
            self.given += 1
            yield b"x" * self._size_bytes


def test_answer_in_pieces_arrives_whole() -> None:
    async def test() -> None:
        pieces = Pieces()
        async with pieces.rig as http:
            client = await http.client()
            assert (await client.get("/")).body == b"x" * 1_000_000
            assert (await client.get("/")).body == b"", "the connection goes on"

    run(test())


def test_answer_that_cannot_be_finished_is_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Pieces(fail_after=3).rig as http:
            client = await http.client()
            with pytest.raises(BrokenOff):
                await client.get("/")

    run(test())
    assert "messages up to 7 were committed and are gone" in caplog.text


def test_answer_waits_for_a_client_that_does_not_read() -> None:
    async def test() -> None:
        pieces = Pieces(size_bytes=MIB)
        async with pieces.rig as http:
            client = await http.client()
            client.send("GET", "/")
            before = -1
            while pieces.given != before:  # until nothing moves any more
                before = pieces.given
                for _ in range(1000):
                    await asyncio.sleep(0)
            assert 0 < pieces.given < 100
            client.writer.transport.abort()

    run(test())


# --- the end -------------------------------------------------------------------------------------------


def test_requests_are_finished_before_the_end_and_idle_connections_closed() -> None:
    async def test() -> None:
        http, go_on = HttpRig(), asyncio.Event()

        async def handle(_: Request) -> Answer:
            await go_on.wait()
            return Answer(200, b"done")

        http.server = HttpServer(handle, http.settings)
        idle, busy = await http.client(), await http.client()
        busy.send("GET", "/")
        for _ in range(10):
            await asyncio.sleep(0)
        draining = asyncio.ensure_future(http.server.drain(60))
        assert await idle.is_closed()
        go_on.set()
        reply = await busy.reply()
        assert (reply.body, reply.headers["connection"]) == (b"done", "close")
        await draining
        for client in (idle, busy):
            client.close()
        await asyncio.sleep(0)

    run(test())


def test_request_that_is_not_finished_in_time_is_told_that_the_broker_stops() -> None:
    async def test() -> None:
        http = HttpRig()

        async def handle(_: Request) -> Answer:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        http.server = HttpServer(handle, http.settings)
        busy = await http.client()
        busy.send("GET", "/")
        for _ in range(10):
            await asyncio.sleep(0)
        await http.server.drain(0)
        reply = await busy.reply()
        assert reply.error == (503, "stopping")
        assert "retry-after" in reply.headers
        busy.close()
        await asyncio.sleep(0)

    run(test())


def test_error_of_ours_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async def handle(_: Request) -> Answer:
            raise ZeroDivisionError

        async with HttpRig() as http:
            http.server = HttpServer(handle, http.settings)
            client = await http.client()
            assert (await client.get("/x")).error == (500, "error")

    run(test())
    assert "GET /x failed" in caplog.text


def test_second_authorization_is_refused_whichever_is_right() -> None:
    """A proxy in front may have looked at the one that we do not look at."""

    async def test() -> None:
        async with HttpRig() as http:
            for first, second in ((TOKEN, "other"), ("other", TOKEN), (TOKEN, TOKEN)):
                client = await http.client()
                fields = f"authorization: Bearer {first}\r\nAuthorization: Bearer {second}\r\n"
                client.writer.write(f"GET /v1/cursors HTTP/1.1\r\nhost: x\r\n{fields}\r\n".encode())
                assert (await client.reader.readline()).startswith(b"HTTP/1.1 400")

    run(test())


@pytest.mark.parametrize(
    "body", [rb'{"name": "\ud800", "destination": "q"}', rb'{"name": "a", "destination": "\udfff"}']
)
def test_half_a_surrogate_pair_in_json_is_refused(body: bytes) -> None:
    async def test() -> None:
        async with HttpRig() as http:
            client = await http.client()
            reply = await client.request("POST", "/v1/cursors", body=body)
            assert (reply.status, b"surrogate" in reply.body) == (400, True)
            assert (await client.get("/v1/queues/%ED%A0%80/ranges")).status == 400
            assert (await client.get("/v1/queues/q/ranges?parts=%ED%A0%80")).status == 400

    run(test())
