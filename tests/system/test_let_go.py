"""What belongs to a connection is let go when it ends, at once and without the garbage collector."""

import asyncio
import gc
import logging
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trustme

from ackwire import app
from ackwire.broker.session import Connection
from ackwire.broker.subscription import QueueSubscription
from ackwire.config import LimitSettings, ListenSettings, Settings, StoreSettings
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.server.asyncio_protocol import AsyncioEnd
from ackwire.server.loop import TurnLoop
from ackwire.server.peer import Peer
from ackwire.wire.buffer import FrameBuffer
from ackwire.wire.openwire.protocol import OpenWireProtocol
from tests.helpers.openwire_client import OpenWireClient, queue

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="the broker's own loop needs epoll"),
]

WATCHED = (Peer, AsyncioEnd, OpenWireAdapter, OpenWireProtocol, FrameBuffer, Connection, QueueSubscription)
TRANSPORT = "_SelectorSocketTransport"
"""asyncio's. That of a connection with TLS waits for a collection: it belongs to asyncio's own protocol for TLS."""
LARGE_BYTES = 3 * 1024 * 1024


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Records that pytest keeps refer to the peers that they name."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def census(*, has_tls: bool = False) -> Counter[str]:
    """How many objects there are of the kinds that a connection has."""
    kinds = Counter(type(it).__name__ for it in gc.get_objects() if type(it) in WATCHED)
    if not has_tls:
        kinds[TRANSPORT] = sum(type(it).__name__ == TRANSPORT for it in gc.get_objects())
    return kinds


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@asynccontextmanager
async def serving(uri: str, limits: LimitSettings | None = None) -> AsyncIterator[app.Serving]:
    """A broker on the loop of the test."""
    settings = Settings(
        listen=ListenSettings(uris=(uri,)),
        store=StoreSettings(kind="memory"),
        limits=limits or LimitSettings(),
    )
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(app.serve(settings, ready=ready.set_result, stop=stop))
    yield await ready
    stop.set()
    await task


async def has_left() -> None:
    """Wait until hang-ups are noticed: in one of the next turns, and within a second for a peer that is not read."""
    for _ in range(100):
        await asyncio.sleep(0.1)
        if not census()["Peer"]:
            return


def half_frame(client: OpenWireClient) -> None:
    client.send_bytes((90 * 1024 * 1024).to_bytes(4) + bytes(LARGE_BYTES))


def no_login(client: OpenWireClient) -> None:
    client.send_bytes((60_000).to_bytes(4) + bytes(10_000))


def consume(client: OpenWireClient) -> None:
    consumer = client.subscribe(queue("q"))
    client.send_text(queue("q"), "one", "two")
    dispatch = client.receive(consumer)
    client.ack(dispatch)


def broken(client: OpenWireClient) -> None:
    client.send_bytes(b"\xff" * 8)
    client.read_until_closed()


def log_out(client: OpenWireClient) -> None:
    client.log_out()


def run(main: Callable[[int], None], uri: str, limits: LimitSettings | None = None) -> None:
    """Have *main* talk to a broker from another thread, and hold what is left against what was there before."""
    has_tls = uri.startswith("ssl:")

    async def compare() -> None:
        async with serving(uri, limits) as running:
            port = int(running.addresses[0].rpartition(":")[2])
            await asyncio.to_thread(main, port)  # what is made once is made
            await has_left()
            with no_collection():
                before = census(has_tls=has_tls)
                for _ in range(3):
                    await asyncio.to_thread(main, port)
                await has_left()
                assert census(has_tls=has_tls) == before

    with asyncio.Runner(loop_factory=TurnLoop) as runner:
        runner.run(compare())


def logged_in(does: Callable[[OpenWireClient], None], tls: ssl.SSLContext | None = None) -> Callable[[int], None]:
    def main(port: int) -> None:
        with OpenWireClient.logged_in(port, tls=tls) as client:
            does(client)

    return main


@pytest.mark.parametrize("does", [half_frame, consume, broken, log_out])
def test_a_client_that_leaves_is_let_go_at_once(does: Callable[[OpenWireClient], None]) -> None:
    run(logged_in(does), "tcp://127.0.0.1:0")


def test_a_stranger_with_half_a_frame_is_let_go_at_once() -> None:
    def main(port: int) -> None:
        with OpenWireClient.connect(port) as client:
            client.handshake()
            no_login(client)

    run(main, "tcp://127.0.0.1:0")


def test_who_says_nothing_is_let_go_at_once() -> None:
    run(lambda port: socket.create_connection(("127.0.0.1", port)).close(), "auto://127.0.0.1:0")


def test_a_producer_whose_sends_wait_is_let_go_at_once() -> None:
    def main(port: int) -> None:
        with OpenWireClient.logged_in(port) as client:
            client.send_text(queue("full"), *["x" * 10_000] * 8, wait=False)

    run(main, "tcp://127.0.0.1:0", LimitSettings(memory_bytes_max=16 * 1024, blocked_bytes_max=16 * 1024))


@pytest.mark.parametrize("does", [half_frame, consume, broken, log_out])
def test_a_client_with_tls_is_let_go_at_once(does: Callable[[OpenWireClient], None], tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    run(logged_in(does, context), f"ssl://127.0.0.1:0?certFile={file}")


def test_half_a_tls_handshake_is_let_go_at_once(tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)

    def main(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")

    run(main, f"ssl://127.0.0.1:0?certFile={file}")
