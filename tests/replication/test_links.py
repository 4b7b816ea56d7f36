"""Links over real sockets of the loopback: the secret, TLS, and what strangers send."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trustme

from ackwire.errors import ConfigError
from ackwire.replication.identity import Link
from ackwire.replication.links import Links, parse_address
from ackwire.replication.messages import Bye, Challenge, Heartbeat, Message, Reason, encoded

SECRET = b"sixteen bytes and more"


class Recorder:
    """Receives what comes over a link."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.messages: list[Message] = []
        self.is_closed = asyncio.Event()
        self.has_more = asyncio.Event()
        self.turns = 0

    def receive(self, message: Message) -> None:
        self.messages.append(message)
        self.has_more.set()
        if isinstance(message, Bye):
            self.link.close(Reason.NONE, "")
            self.is_closed.set()

    def turn_ended(self) -> None:
        self.turns += 1

    def closed(self) -> None:
        self.is_closed.set()

    async def wait_for(self, count: int) -> None:
        while len(self.messages) < count:
            self.has_more.clear()
            await self.has_more.wait()


class Pair:
    """A node that listens, and one that dials."""

    def __init__(
        self,
        secrets: tuple[bytes, bytes] = (SECRET, SECRET),
        contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None] = (None, None),
    ) -> None:
        self.accepted: list[Recorder] = []
        self.server = Links(secrets[0], self._accept, server_context=contexts[0])
        self.client = Links(secrets[1], self._accept, client_context=contexts[1])
        self.port = 0

    def _accept(self, link: Link) -> Recorder:
        self.accepted.append(Recorder(link))
        return self.accepted[-1]

    async def dial(self) -> Recorder | tuple[Reason, str]:
        made: asyncio.Future[Recorder | tuple[Reason, str]] = asyncio.get_running_loop().create_future()

        def on_link(link: Link) -> Recorder:
            recorder = Recorder(link)
            made.set_result(recorder)
            return recorder

        self.client.dial(f"127.0.0.1:{self.port}", on_link, lambda reason, text: made.set_result((reason, text)))
        return await made


def run(test: Callable[[Pair], Awaitable[None]], pair: Callable[[], Pair] = Pair) -> None:
    async def main() -> None:
        them = pair()
        them.port = await them.server.listen("127.0.0.1", 0)
        try:
            await test(them)
        finally:
            await them.client.close()
            await them.server.close()

    asyncio.run(main())


def test_messages_come_over_a_link_in_order_both_ways() -> None:
    async def test(pair: Pair) -> None:
        near = await pair.dial()
        assert isinstance(near, Recorder)
        for number in range(100):
            near.link.send(Heartbeat(number))
        while not pair.accepted:
            await asyncio.sleep(0)
        far = pair.accepted[0]
        await far.wait_for(100)
        assert far.messages == [Heartbeat(number) for number in range(100)]
        assert far.turns < 100  # they were sent in one write
        far.link.send(Heartbeat(7))
        await near.wait_for(1)
        assert near.messages == [Heartbeat(7)]
        far.link.close(Reason.STOPPING, "enough")
        await near.is_closed.wait()
        assert near.messages[1:] == [Bye(Reason.STOPPING, "enough")]

    run(test)


@pytest.mark.parametrize(
    "secrets", [(SECRET, b"another secret of a node"), (SECRET, b""), (b"", SECRET)], ids=["other", "none", "unasked"]
)
def test_a_node_with_another_secret_is_refused(secrets: tuple[bytes, bytes]) -> None:
    async def test(pair: Pair) -> None:
        refusal = await pair.dial()
        assert isinstance(refusal, tuple)
        assert refusal[0] is Reason.WRONG_SECRET
        assert "secret" in refusal[1]
        assert not pair.accepted

    run(test, lambda: Pair(secrets))


def test_a_link_on_which_nothing_is_said_ends_and_makes_room_for_others() -> None:
    """Who has the secret, or needs none, may still be no node."""

    async def test(pair: Pair) -> None:
        spoken = await pair.dial()
        assert isinstance(spoken, Recorder)
        spoken.link.send(Heartbeat(1))
        while not pair.accepted:
            await asyncio.sleep(0)
        await pair.accepted[0].wait_for(1)
        pair.server.handshake_seconds = 0.2
        silent = await pair.dial()
        assert isinstance(silent, Recorder)
        await silent.is_closed.wait()
        assert pair.accepted[1].is_closed.is_set()
        spoken.link.send(Heartbeat(2))
        await pair.accepted[0].wait_for(2)
        assert not pair.accepted[0].is_closed.is_set()

    run(test)


def test_an_address_that_others_reach_needs_a_secret() -> None:
    async def main() -> None:
        links = Links(b"", lambda link: Recorder(link))
        with pytest.raises(ConfigError, match=r"secret_file"):
            await links.listen("0.0.0.0", 0)
        with pytest.raises(ConfigError, match="must have 16 or more"):
            await Links(b"short", lambda link: Recorder(link)).listen("127.0.0.1", 0)
        await links.listen("127.0.0.1", 0)
        await links.close()

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_whatever_bytes_a_stranger_sends_end_its_connection_only(seed: int) -> None:
    async def test(pair: Pair) -> None:
        random = Random(seed)
        near = await pair.dial()
        assert isinstance(near, Recorder)
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
        good = encoded(Challenge(1, bytes(32), True))
        data = random.choice((b"", good, good[: random.randrange(len(good))])) + random.randbytes(300)
        writer.write(data)
        writer.write_eof()
        await reader.read()  # until the node has ended it
        writer.close()
        near.link.send(Heartbeat(1))
        await pair.accepted[0].wait_for(1)
        assert len(pair.accepted) == 1

    run(test)


def test_links_can_be_encrypted() -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(server_context)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client_context)

    async def test(pair: Pair) -> None:
        near = await pair.dial()
        assert isinstance(near, Recorder)
        near.link.send(Heartbeat(3))
        while not pair.accepted:
            await asyncio.sleep(0)
        await pair.accepted[0].wait_for(1)

    run(test, lambda: Pair(contexts=(server_context, client_context)))


def test_a_node_that_is_not_there_is_reported() -> None:
    async def test(pair: Pair) -> None:
        await pair.server.close()
        refusal = await pair.dial()
        assert isinstance(refusal, tuple)
        assert "cannot be reached" in refusal[1]

    run(test)


@pytest.mark.parametrize("address", ["host", ":61619", "host:0", "host:65536", "host:-1", "host:x"])
def test_an_address_must_have_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(address)


def test_an_address_may_be_an_ipv6_one() -> None:
    assert parse_address("[::1]:61619") == ("::1", 61619)
