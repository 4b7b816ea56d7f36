"""The client's engine with the real broker, over TCP and TLS, and what the options do to the socket (SEMANTICS J1)."""

import asyncio
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import trustme

from ackwire.client import transports
from ackwire.client.engine import Engine
from ackwire.client.errors import ConnectionFailedError
from ackwire.client.transports import Factory, Opened, TransportOpener
from ackwire.client.uri import TcpUri, VmUri, parse_broker_url
from ackwire.errors import ConfigError
from tests.helpers.client_engine import ScriptedBroker, ScriptedCore, engine_for, run
from tests.helpers.processes import RestartableBroker, RunningBroker, running_broker

pytestmark = pytest.mark.system

TCP, AUTO, SSL, AUTO_SSL, NUMBER_ONLY, OTHER_NUMBER, MUTUAL = range(7)


@dataclass(frozen=True, slots=True)
class Certificates:
    folder: Path
    authority: Path
    stranger: Path
    """An authority that has nothing to do with the broker."""
    client: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "stranger.pem")
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "number.pem")
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    return Certificates(folder, folder / "ca.pem", folder / "stranger.pem", folder / "client.pem")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[RunningBroker]:
    folder = certificates.folder
    listeners = [
        "tcp://127.0.0.1:0",
        "auto://127.0.0.1:0",
        f"ssl://127.0.0.1:0?certFile={folder}/server.pem",
        f"auto+ssl://127.0.0.1:0?certFile={folder}/server.pem",
        f"ssl://127.0.0.1:0?certFile={folder}/number.pem",
        f"ssl://127.0.0.2:0?certFile={folder}/number.pem",
        f"ssl://127.0.0.1:0?certFile={folder}/server.pem&caFile={folder}/ca.pem&needClientAuth=true",
    ]
    with running_broker(listeners, log_path=tmp_path_factory.mktemp("broker") / "broker.log") as running:
        yield running


def connect(url: str) -> ScriptedCore:
    """Connect and log in; nothing else happens."""
    core = None

    async def test() -> None:
        nonlocal core
        core = ScriptedCore()
        async with engine_for(url, core) as engine:
            await engine.open()
            await core.until("restored")
            assert core.errors == []

    run(test)
    assert core is not None
    return core


def refusal(url: str) -> str:
    """Why *url* cannot be connected to."""
    text = ""

    async def test() -> None:
        nonlocal text
        core = ScriptedCore()
        async with engine_for(url, core) as engine:
            with pytest.raises(ConnectionFailedError) as caught:
                await engine.open()
            text = str(caught.value)
            assert core.told == ["ended"]

    run(test)
    return text


# ---- schemes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp", "nio", "auto", "auto+nio"])
@pytest.mark.parametrize("listener", [TCP, AUTO])
def test_plain_schemes_reach_plain_listeners(broker: RunningBroker, scheme: str, listener: int) -> None:
    connect(f"{scheme}://localhost:{broker.ports[listener]}")


@pytest.mark.parametrize("scheme", ["ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"])
@pytest.mark.parametrize("listener", [SSL, AUTO_SSL])
def test_tls_schemes_reach_tls_listeners(
    broker: RunningBroker, certificates: Certificates, scheme: str, listener: int
) -> None:
    connect(f"{scheme}://localhost:{broker.ports[listener]}?caFile={certificates.authority}")


@pytest.mark.parametrize("options", ["enabledProtocols=TLSv1.2", "enabledProtocols=TLSv1.3"])
def test_tls_options_are_used(broker: RunningBroker, certificates: Certificates, options: str) -> None:
    connect(f"ssl://127.0.0.1:{broker.ports[SSL]}?caFile={certificates.authority}&{options}")


def test_client_shows_its_certificate(broker: RunningBroker, certificates: Certificates) -> None:
    port = broker.ports[MUTUAL]
    connect(f"ssl://127.0.0.1:{port}?caFile={certificates.authority}&certFile={certificates.client}")


# ---- refusals --------------------------------------------------------------------------------------------------


def test_certificate_of_a_stranger_is_refused(broker: RunningBroker, certificates: Certificates) -> None:
    port = broker.ports[SSL]
    for option in (f"?caFile={certificates.stranger}", ""):
        text = refusal(f"ssl://127.0.0.1:{port}{option}")
        assert text.startswith(f"ssl://127.0.0.1:{port}: the broker's certificate is not trusted: ")
        assert text.endswith("(caFile says whose certificates are)")


def test_certificate_of_another_host_is_refused(broker: RunningBroker, certificates: Certificates) -> None:
    port = broker.ports[NUMBER_ONLY]
    url = f"ssl://localhost:{port}?caFile={certificates.authority}"
    assert f"ssl://localhost:{port}: the broker's certificate is not for localhost: " in refusal(url)
    connect(f"{url}&verifyHostName=false")
    connect(url.replace("localhost", "127.0.0.1"))
    other = f"ssl://127.0.0.2:{broker.ports[OTHER_NUMBER]}?caFile={certificates.authority}"
    assert "the broker's certificate is not for 127.0.0.2: " in refusal(other)


def test_plain_listener_does_not_pass_for_tls(broker: RunningBroker, certificates: Certificates) -> None:
    assert "does not seem to speak TLS" in refusal(
        f"ssl://127.0.0.1:{broker.ports[TCP]}?caFile={certificates.authority}"
    )


def test_client_without_certificate_is_refused_where_one_is_needed(
    broker: RunningBroker, certificates: Certificates
) -> None:
    async def test() -> None:
        core = ScriptedCore()
        url = f"ssl://127.0.0.1:{broker.ports[MUTUAL]}?caFile={certificates.authority}"
        async with engine_for(url, core) as engine:
            with pytest.raises(ConnectionFailedError, match="certificate"):
                await engine.open()
            assert core.told[-1] == "ended"

    run(test)


def test_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = refusal("tcp://no-such-host.invalid:61616")
    expected = "the host name cannot be resolved: name or service not known"
    assert text == f"tcp://no-such-host.invalid:61616: {expected}"


def test_host_that_cannot_exist_is_named() -> None:
    host = "x" * 64 + ".invalid"  # a label has 63 characters at most
    assert refusal(f"tcp://{host}").startswith(f"tcp://{host}:61616: the host name cannot be resolved: ")


def test_missing_file_is_no_reason_to_try_again(certificates: Certificates) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with engine_for(f"failover:(ssl://127.0.0.1:1?caFile={certificates.folder}/none.pem)", core) as engine:
            with pytest.raises(ConfigError, match=r"ssl://127\.0\.0\.1:1: .*none\.pem cannot be read"):
                await engine.open()
            assert core.told == ["ended"]

    run(test)


def test_cancelled_tls_handshake_leaves_nothing_behind(certificates: Certificates) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as silent:  # plain: no handshake will ever come
            silent.script.says_nothing = True
            url = f"ssl://127.0.0.1:{silent.port}?caFile={certificates.authority}"
            async with engine_for(url, core) as engine:
                opening = asyncio.ensure_future(engine.open())
                await silent.until(lambda it: it.received_bytes > 0, "the begin of a handshake")
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening
            await silent.until(lambda it: not it.sessions, "the end")

    run(test)


def test_tls_handshake_takes_no_longer_than_connection_timeout(certificates: Certificates) -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as silent:
            silent.script.says_nothing = True
            url = f"ssl://127.0.0.1:{silent.port}?caFile={certificates.authority}&connectionTimeout=200"
            async with engine_for(url, core) as engine:
                with pytest.raises(ConnectionFailedError, match=re.escape("within 0.2 s (connectionTimeout)")):
                    await engine.open()

    run(test)


# ---- a broker that dies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_client_finds_a_broker_that_was_started_again(tmp_path: Path, kill: bool) -> None:
    async def test(running: RestartableBroker) -> None:
        core = ScriptedCore()
        async with engine_for(f"failover:({running.url})?maxReconnectDelay=100", core) as engine:
            await engine.open()
            await core.until("restored")
            await asyncio.to_thread(running.restart, kill=kill)
            await core.until("restored", 2)
            assert core.told[3] == "lost"
            assert core.count("ended") == 0

    with RestartableBroker(tmp_path) as running:
        run(lambda: test(running))


# ---- the socket ------------------------------------------------------------------------------------------------


def socket_of(engine: Engine) -> socket.socket:
    link = engine._link
    assert link is not None
    found: socket.socket = link.transport.get_extra_info("socket")
    return found


def with_socket(options: str, check: Any, path: str = "") -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"{broker.address}{path}?{options}", core) as engine:
            await engine.open()
            check(socket_of(engine))

    run(test)


@pytest.mark.parametrize(
    ("options", "level", "name", "value"),
    [
        ("trace=true", socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        ("tcpNoDelay=false", socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
        ("tcpNoDelay=false&socket.tcpNoDelay=true", socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        ("trace=true", socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),
        ("keepAlive=true", socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        ("keepAlive=true&socket.keepAlive=false", socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),
        ("socket.reuseAddress=true", socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        ("diffServ=EF", socket.IPPROTO_IP, socket.IP_TOS, 46 << 2),
        ("typeOfService=16", socket.IPPROTO_IP, socket.IP_TOS, 16),
        ("diffServ=EF&socket.trafficClass=8", socket.IPPROTO_IP, socket.IP_TOS, 8),
    ],
)
def test_options_reach_the_socket(options: str, level: int, name: int, value: int) -> None:
    with_socket(options, lambda sock: check_option(sock, level, name, value))


def check_option(sock: socket.socket, level: int, name: int, value: int) -> None:
    assert int(bool(sock.getsockopt(level, name))) == value if value < 2 else sock.getsockopt(level, name) == value


@pytest.mark.parametrize(
    "options", ["socketBufferSize=20000", "socket.sendBufferSize=20000&socket.receiveBufferSize=20000"]
)
def test_buffer_sizes_reach_the_socket(options: str) -> None:
    def check(sock: socket.socket) -> None:
        for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            assert sock.getsockopt(socket.SOL_SOCKET, name) in (20_000, 40_000)  # Linux doubles it

    with_socket(options, check)


def test_linger_of_zero_resets_the_connection_and_others_do_not_block_the_loop() -> None:
    with_socket("soLinger=0", lambda sock: check_linger(sock, (1, 0)))
    with_socket("soLinger=30", lambda sock: check_linger(sock, (0, 0)))


def check_linger(sock: socket.socket, expected: tuple[int, int]) -> None:
    assert struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == expected


def test_local_address_is_bound() -> None:
    def check(sock: socket.socket) -> None:
        assert sock.getsockname()[0] == "127.0.0.2"

    with_socket("trace=true", check, path="/127.0.0.2:0")


def test_name_of_this_machine_becomes_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "My-Machine.invalid")

    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker:
            url = f"tcp://my-machine.invalid:{broker.port}?useLocalHost=true"
            async with engine_for(url, core) as engine:
                await engine.open()
                await core.until("restored")

    run(test)


def test_trace_logs_the_size_of_every_chunk(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="ackwire.client.link"):
        with_socket("trace=true", lambda _: None)
    assert re.search(r"tcp://127\.0\.0\.1:\d+: \d+ bytes out", caplog.text)
    assert re.search(r"tcp://127\.0\.0\.1:\d+: \d+ bytes in", caplog.text)


# ---- plugins ---------------------------------------------------------------------------------------------------

target: tuple[str, int] = ("127.0.0.1", 0)


async def open_by_plugin(uri: Any, protocol_factory: Factory) -> Opened:
    assert isinstance(uri, VmUri)
    return await asyncio.get_running_loop().create_connection(protocol_factory, *target)


def install(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    def found(group: str, name: str) -> EntryPoints:
        return EntryPoints(points).select(group=group, name=name)

    monkeypatch.setattr(transports, "entry_points", found)


VM_PLUGIN = EntryPoint("vm", f"{__name__}:open_by_plugin", transports.PLUGIN_GROUP)


def test_scheme_is_opened_by_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda _: open_by_plugin)
    install(monkeypatch, VM_PLUGIN)

    async def test() -> None:
        global target
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for("vm://here", core) as engine:
            target = ("127.0.0.1", broker.port)
            await engine.open()
            await core.until("restored")
            assert core.told[0] == "connected vm://here"

    run(test)


def test_missing_and_ambiguous_plugins_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = parse_broker_url("vm://here").uris[0]
    install(monkeypatch)
    with pytest.raises(ConfigError, match="no transport for vm: is installed"):
        TransportOpener().prepare(uri)
    install(monkeypatch, VM_PLUGIN, EntryPoint("vm", "other:open", transports.PLUGIN_GROUP))
    with pytest.raises(ConfigError, match="several transports for vm: are installed"):
        TransportOpener().prepare(uri)


def test_no_plugin_takes_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EntryPoint("tcp", "evil:open", transports.PLUGIN_GROUP))

    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(broker.address, core) as engine:
            await engine.open()

    run(test)


def test_address_of_another_family_than_the_local_one_is_an_error() -> None:
    async def test() -> None:
        core = ScriptedCore()
        async with ScriptedBroker() as broker, engine_for(f"{broker.address}/[::1]:0", core) as engine:
            with pytest.raises(ConnectionFailedError):
                await engine.open()

    run(test)
    assert isinstance(parse_broker_url("tcp://a/[::1]:0").uris[0], TcpUri)
