"""`ackwire serve` as a process, and the parts of it that need real sockets: listeners, TLS, the drain."""

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import ackwire
from ackwire.config import HandshakeSettings, problems
from ackwire.config.listener_uri import parse_listener_uri
from ackwire.errors import ConfigError
from ackwire.server.listener import ConnectionGate, Listener
from ackwire.util.clock import SystemClock
from tests.helpers.processes import ManagedProcess

pytestmark = pytest.mark.system

COMMAND = (sys.executable, "-m", "ackwire")
READY = re.compile(rf"^ackwire {re.escape(ackwire.__version__)} ready: (?P<addresses>.+)$")
TIMEOUT_SECONDS = 20.0


@contextmanager
def serving(tmp_path: Path, *arguments: str) -> Iterator[tuple[ManagedProcess, list[str]]]:
    """A running `ackwire serve` and its addresses."""
    argv = (*COMMAND, "serve", "--store", "memory", *arguments)
    with ManagedProcess(argv, log_path=tmp_path / "serve.log", separate_stderr=True) as process:
        match = process.wait_for_line(READY, TIMEOUT_SECONDS)
        yield process, match["addresses"].split(", ")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def connect(address: str) -> socket.socket:
    host, port = address.partition("://")[2].rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)


def read_to_the_end(sock: socket.socket) -> None:
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass


# --- the process ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signal_closes_connections_and_exits_with_0(signum: signal.Signals) -> None:
    argv = (*COMMAND, "serve", "--store", "memory", "--listen", "tcp://127.0.0.1:0")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = READY.match(process.stdout.readline())
        assert ready is not None
        with connect(ready["addresses"]) as client:
            process.send_signal(signum)
            read_to_the_end(client)
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert out == "", "the ready line is the only one"
    assert f"{signum.name}: stopping" in err
    assert "Traceback" not in err


def test_every_listener_is_open_on_its_real_port_when_ready(tmp_path: Path) -> None:
    listeners = ("--listen", "tcp://127.0.0.1:0", "--listen", "nio://127.0.0.1:0")
    with serving(tmp_path, *listeners) as (process, addresses):
        assert [address.partition(":")[0] for address in addresses] == ["tcp", "nio"]
        for address in addresses:
            assert not address.endswith(":0")
            connect(address).close()
        assert process.terminate() == 0


def test_taken_port_exits_with_2_and_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        # The first listener opens and has to be closed again.
        outcome = run("serve", "--store", "memory", "--listen", "tcp://127.0.0.1:0", "--listen", address)
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert outcome.stderr == (
        f"ackwire: {address}: port is taken by another program (address already in use); choose another with --listen\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--listen", "tcp://127.0.0.1:0?wireFormat.cacheSize=7"),
        ("serve", "--listen", "ssl://127.0.0.1:0?certFile=/nowhere/cert.pem"),
        ("serve", "--frobnicate"),
        ("serve", "--config", "/nowhere/ackwire.toml"),
    ],
)
def test_bad_option_exits_with_2_and_one_line(arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)


def test_settings_of_the_file_are_in_force(tmp_path: Path) -> None:
    file = tmp_path / "ackwire.toml"
    file.write_text('[listen]\nuris = ["auto://127.0.0.1:0"]\n[log]\nformat = "json"\n')
    with serving(tmp_path, "--config", str(file)) as (process, addresses):
        assert addresses[0].startswith("auto://127.0.0.1:")
        assert process.terminate() == 0
        lines = process.output().splitlines()
    entries = [json.loads(line) for line in lines if not READY.match(line)]
    assert "SIGTERM: stopping" in [entry["message"] for entry in entries]


def test_listener_open_to_the_network_is_warned_about(tmp_path: Path) -> None:
    listeners = ("--listen", "tcp://127.0.0.1:0", "--listen", "tcp://0.0.0.0:0")
    with serving(tmp_path, *listeners) as (process, _):
        assert process.terminate() == 0
        warnings = [line for line in process.output().splitlines() if " WARN " in line]
    assert len(warnings) == 1
    assert "tcp://0.0.0.0:0: other machines can connect, and there is no authentication yet" in warnings[0]


def test_shown_configuration_is_one_that_passes() -> None:
    shown = run("config", "show")
    assert shown.returncode == 0
    assert problems(shown.stdout) == []


def test_reader_that_goes_away_gets_no_traceback() -> None:
    with subprocess.Popen(
        (*COMMAND, "config", "show"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def test_tls_listener_greets_a_client_that_trusts_it(tmp_path: Path, pems: Path) -> None:
    uri = f"ssl://localhost:0?certFile={pems}/server.pem"
    with serving(tmp_path, "--listen", uri) as (process, addresses):
        trusting = ssl.create_default_context(cafile=str(pems / "ca.pem"))
        with (
            connect(addresses[0]) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            assert client.version() in ("TLSv1.2", "TLSv1.3")
        assert process.terminate() == 0


# --- a start that fails -----------------------------------------------------------------------------------


def test_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        free = ("--listen", "tcp://127.0.0.1:0")
        for arguments in (
            ("--listen", f"tcp://{taken}"),
            (*free, "--http", taken),
            (*free, "--audit", "/proc/nowhere"),
        ):
            data = tmp_path / "a" / "b"
            outcome = run("serve", "--data", str(data), *arguments)
            assert outcome.returncode == 2, outcome.stderr
            assert list(tmp_path.iterdir()) == [], arguments


def test_failed_start_leaves_what_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    failing = ("serve", "--data", str(tmp_path), "--listen", "tcp://127.0.0.1:0", "--audit", "/proc/nowhere")
    assert run(*failing).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["lost+found"]
    with serving(tmp_path / "lost+found", "--store", "journal", "--data", str(tmp_path), *failing[3:5]) as (process, _):
        assert process.terminate() == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    assert "journal" in before
    assert run(*failing).returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "a store that was used is never removed"


def test_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    outcome = run("serve", "--data", "/proc/nowhere", "--listen", "tcp://127.0.0.1:0")
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "ackwire: store.data: /proc/nowhere cannot be made: no such file or directory; choose another with --data\n"
    )
    assert list(tmp_path.iterdir()) == []


# --- SIGHUP ----------------------------------------------------------------------------------------------


def hang_up(process: ManagedProcess, said: str, count: int = 1) -> None:
    """Send SIGHUP and wait until the log says *said* for the *count*th time."""
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.log_path.read_text().count(said) < count:
        assert process.is_running, process.output()
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.01)


def test_sighup_takes_over_what_it_can_and_names_what_needs_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "ackwire.toml"
    file.write_text('[listen]\nuris = ["tcp://127.0.0.1:0"]\n')
    with serving(tmp_path, "--config", str(file)) as (process, addresses):
        file.write_text(
            '[listen]\nuris = ["tcp://127.0.0.1:0"]\n[store]\nsync = "never"\n[log]\nlevel = "debug"\n'
            '[limits]\nwhen_full = "fail"\n[[policy]]\nmatch = "a"\nprioritized = true\n'
        )
        hang_up(
            process, f"SIGHUP: {file} and certificates were read again; changed: limits.when_full, log.level, policy"
        )
        hang_up(process, "these settings need a restart: store.sync", 2)
        file.write_text("[limits\n")
        hang_up(process, f"SIGHUP: nothing was changed: {file}:1: not TOML: ")
        connect(addresses[0]).close()
        assert process.terminate() == 0


def test_sighup_without_a_file_changes_nothing_and_ends_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "tcp://127.0.0.1:0") as (process, addresses):
        for count in (1, 2):
            hang_up(process, "SIGHUP: certificates were read again; changed: nothing", count)
        connect(addresses[0]).close()
        assert process.terminate() == 0


def test_sighup_reads_certificates_again_unless_they_are_bad(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"

    def issue() -> ssl.SSLContext:
        authority = trustme.CA()
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    def greet(trusting: ssl.SSLContext) -> None:
        with connect(addresses[0]) as plain, trusting.wrap_socket(plain, server_hostname="localhost"):
            pass

    first = issue()
    with serving(tmp_path, "--listen", f"ssl://localhost:0?certFile={pem}") as (process, addresses):
        greet(first)
        second = issue()
        hang_up(process, "SIGHUP: certificates were read again")
        greet(second)
        with pytest.raises(ssl.SSLCertVerificationError):
            greet(first)
        pem.write_text("nonsense")
        hang_up(process, "SIGHUP: nothing was changed: ssl://localhost:0: ")
        greet(second)
        assert process.terminate() == 0


# --- listeners -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem, server.pem (key and certificate) and client.pem (the same)."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    client = authority.issue_cert("client@example.org")
    client.private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    return folder


class Echo(asyncio.Protocol):
    """Sends back what it gets; *ended* is set when its connection is lost."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        assert not self.ended.is_set()
        self.ended.set()


class EchoServer:
    """A listener whose peers are kept, on any free port of *uri*."""

    def __init__(self, uri: str, handshake: HandshakeSettings | None = None) -> None:
        self.peers: list[Echo] = []
        self.listener = Listener(parse_listener_uri(uri), self._make_peer, handshake)

    def _make_peer(self) -> Echo:
        self.peers.append(Echo())
        return self.peers[-1]

    @property
    def port(self) -> int:
        return int(self.listener.address.rsplit(":", 1)[1])

    async def connect(
        self, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = "localhost" if context is not None else None
        return await asyncio.open_connection(host, self.port, ssl=context, server_hostname=name)

    async def __aenter__(self) -> "EchoServer":
        await self.listener.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()


async def exchange(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes = b"ping") -> bytes:
    reader, writer = streams
    writer.write(data)
    answer = await reader.readexactly(len(data))
    writer.close()
    await writer.wait_closed()
    return answer


async def end_of(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Wait until the server has closed the connection, then close this side."""
    reader, writer = streams
    try:
        while await reader.read(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    writer.transport.abort()


def in_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await scenario()

    asyncio.run(limited())


def test_listener_on_port_0_tells_its_real_port_and_serves_until_closed() -> None:
    async def scenario() -> None:
        async with EchoServer("nio://127.0.0.1:0") as server:
            assert server.listener.address == f"nio://127.0.0.1:{server.port}"
            assert await exchange(await server.connect()) == b"ping"
            established = await server.connect()
            server.listener.close()
            with pytest.raises(ConnectionRefusedError):
                await server.connect()
            assert await exchange(established) == b"ping"
            await asyncio.gather(*(peer.ended.wait() for peer in server.peers))

    in_time(scenario)


def test_small_packets_are_not_held_back() -> None:
    """Otherwise the first message to a client waits 40 ms for a confirmation of what was sent before it."""

    async def scenario() -> None:
        async with EchoServer("tcp://127.0.0.1:0") as server:
            reader, writer = await server.connect()
            writer.write(b"ping")
            await reader.readexactly(4)
            transport = server.peers[0].transport
            assert transport is not None
            found: socket.socket = transport.get_extra_info("socket")
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert await exchange((reader, writer)) == b"ping"

    in_time(scenario)


def test_all_addresses_of_a_host_share_one_port() -> None:
    async def scenario() -> None:
        async with EchoServer("tcp://localhost:0") as server:
            found = await asyncio.get_running_loop().getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
            for host in {str(entry[4][0]) for entry in found}:
                try:
                    streams = await server.connect(host)
                except OSError:
                    assert ":" in host, "only IPv6 may be missing"
                else:
                    assert await exchange(streams) == b"ping"

    in_time(scenario)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("tcp://127.0.0.1:{taken}", "port is taken by another program"),
        ("tcp://192.0.2.1:0", '"192.0.2.1" is not an address of this machine'),
    ],
)
def test_address_that_cannot_be_bound_is_explained(uri: str, said: str) -> None:
    async def scenario() -> None:
        async with EchoServer("tcp://127.0.0.1:0") as first:
            with pytest.raises(ConfigError, match=said):
                await EchoServer(uri.format(taken=first.port)).listener.start()

    in_time(scenario)


def test_host_that_cannot_be_resolved_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", unresolved)
        with pytest.raises(ConfigError) as caught:
            await EchoServer("tcp://brokr.example.org:61616").listener.start()
        assert str(caught.value) == (
            'tcp://brokr.example.org:61616: host "brokr.example.org" cannot be resolved: name or service not known'
        )

    in_time(scenario)


def test_gate_admits_up_to_its_limit_and_again_after_a_leave() -> None:
    gate = ConnectionGate(2)
    assert [gate.try_enter(), gate.try_enter(), gate.try_enter()] == [True, True, False]
    gate.leave()
    assert gate.count == 1
    assert gate.try_enter()


# --- TLS -----------------------------------------------------------------------------------------------


def tls_server(pems: Path, options: str = "", **handshake: float) -> EchoServer:
    uri = f"ssl://127.0.0.1:0?certFile={pems}/server.pem{options}"
    return EchoServer(uri, HandshakeSettings(**handshake))  # type: ignore[arg-type]


def client_context(pems: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pems / "ca.pem"))


def test_tls_peer_gets_its_data_and_its_end(pems: Path) -> None:
    async def scenario() -> None:
        async with tls_server(pems) as server:
            big = bytes(1_000_000)
            assert await exchange(await server.connect(context=client_context(pems)), big) == big
            await server.peers[0].ended.wait()

    in_time(scenario)


def test_tls_data_in_the_packet_that_ends_the_handshake_is_not_lost(pems: Path) -> None:
    async def scenario() -> None:
        async with tls_server(pems) as server:
            reader, writer = await server.connect()
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = client_context(pems).wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            client.write(b"early")
            writer.write(outgoing.read())  # the end of the handshake and the data, at once
            answer = b""
            while not answer:
                incoming.write(await reader.read(65536))
                try:
                    answer = client.read(100)
                except ssl.SSLWantReadError:
                    continue
            assert answer == b"early"
            writer.close()
            await server.peers[0].ended.wait()

    in_time(scenario)


def test_client_certificate_is_asked_for_when_needed(pems: Path) -> None:
    async def scenario() -> None:
        async with tls_server(pems, f"&caFile={pems}/ca.pem&needClientAuth=true") as server:
            context = client_context(pems)
            # With TLS 1.3 the client learns of the refusal only when it reads.
            await end_of(await server.connect(context=context))
            assert server.peers == []
            context.load_cert_chain(pems / "client.pem")
            assert await exchange(await server.connect(context=context)) == b"ping"

    in_time(scenario)


def test_failed_tls_handshake_is_logged_with_address_and_reason(pems: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with tls_server(pems) as server:
            streams = await server.connect()
            streams[1].write(b"this is no TLS at all\n" * 10)
            await end_of(streams)
            assert await exchange(await server.connect(context=client_context(pems))) == b"ping"
            assert len(server.peers) == 1

    in_time(scenario)
    (record,) = caplog.records
    assert re.fullmatch(r"peer 127\.0\.0\.1:\d+ closed: TLS handshake failed: .+", record.getMessage())


def test_tls_handshake_that_takes_too_long_is_closed(pems: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with tls_server(pems, tls_timeout_seconds=0.05) as server:
            await end_of(await server.connect())

    in_time(scenario)
    assert "TLS handshake failed" in caplog.text


def test_tls_handshakes_beyond_the_limit_are_closed_and_free_their_place(
    pems: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with tls_server(pems, tls_handshakes_max=1) as server:
            waiting = await server.connect()
            await end_of(await server.connect())
            assert "1 TLS handshakes are in progress, the limit" in caplog.text
            waiting[1].write(b"nonsense, to end this handshake")
            await end_of(waiting)
            assert await exchange(await server.connect(context=client_context(pems))) == b"ping"

    in_time(scenario)


def test_closing_the_listener_drops_tls_handshakes_in_progress(pems: Path) -> None:
    async def scenario() -> None:
        async with tls_server(pems, tls_handshakes_max=1) as server:
            waiting = await server.connect()
            await end_of(await server.connect())  # refused, so the first one is being served
            server.listener.close()
            await end_of(waiting)

    in_time(scenario)


# --- the drain -----------------------------------------------------------------------------------------


class StubPeer:
    """A peer that leaves when asked to, unless it is stubborn."""

    def __init__(self, peers: "set[StubPeer]", *, stubborn: bool) -> None:
        self.calls: list[str] = []
        self._peers = peers
        self._stubborn = stubborn
        peers.add(self)

    def shut_down(self) -> None:
        self.calls.append("shut_down")
        if not self._stubborn:
            asyncio.get_running_loop().call_soon(self._peers.discard, self)

    def abort(self) -> None:
        self.calls.append("abort")
        self._peers.discard(self)


def test_drain_waits_for_peers_and_aborts_those_that_stay() -> None:
    from ackwire.serving.draining import drain

    peers: set[StubPeer] = set()
    polite = StubPeer(peers, stubborn=False)
    stubborn = StubPeer(peers, stubborn=True)

    async def scenario() -> None:
        await drain(peers, clock=SystemClock(), timeout_seconds=0.05)  # type: ignore[arg-type]

    in_time(scenario)
    assert polite.calls == ["shut_down"]
    assert stubborn.calls == ["shut_down", "abort"]
    assert peers == set()


def test_drain_ends_as_soon_as_all_peers_are_gone() -> None:
    from ackwire.serving.draining import drain

    peers: set[StubPeer] = set()
    StubPeer(peers, stubborn=False)

    async def scenario() -> None:
        await drain(peers, clock=SystemClock(), timeout_seconds=3600)  # type: ignore[arg-type]

    in_time(scenario)
    assert peers == set()
