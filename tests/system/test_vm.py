"""A broker in this process: `vm://name` and `EmbeddedBroker`, with raw OpenWire clients."""

import asyncio
import logging
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Coroutine, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

import ackwire
from ackwire import vm
from ackwire.client import transports
from ackwire.client.transports import PLUGIN_GROUP
from ackwire.client.uri import VmUri, parse_broker_url
from ackwire.config import ConnectionSettings, HandshakeSettings, Settings, StoreSettings
from ackwire.errors import ConfigError
from ackwire.util.clock import AdjustableClock
from ackwire.vm import DeadLetter, EmbeddedBroker, brokers
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from tests.helpers.openwire_client import TIMEOUT_SECONDS, UNWATCHED, OpenWireClient, PeerClosed, queue, text_of

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]

_T = TypeVar("_T")


def in_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await scenario()

    asyncio.run(limited())


def vm_uri(text: str) -> VmUri:
    (uri,) = parse_broker_url(text).uris
    assert isinstance(uri, VmUri)
    return uri


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    left = set(vm._runs)
    vm._stop_all()
    assert left == set()


class Client(asyncio.Protocol):
    """An OpenWire client on the running loop, no more than these tests need."""

    def __init__(self, wants: Preferences = UNWATCHED) -> None:
        self.protocol = OpenWireProtocol(wants)
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.skipped: list[Event] = []
        self.closed: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.name = "a"
        self._command_id = 0

    @classmethod
    async def open(cls, url: str, name: str = "a", wants: Preferences = UNWATCHED) -> Self:
        """Connected and logged in."""
        client = await cls.connect(url, wants)
        client.name = name
        await client.event(Agreement)
        client.protocol.login_finished()
        info = commands.ConnectionInfo(connection_id=commands.ConnectionId(name), client_id=f"client {name}")
        await client.ask(info)
        return client

    @classmethod
    async def connect(cls, url: str, wants: Preferences = UNWATCHED) -> Self:
        client = cls(wants)
        transport, protocol = await vm.open(vm_uri(url), lambda: client)
        assert protocol is client
        assert transport is client.transport
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.writelines(self.protocol.data_to_send())

    def data_received(self, data: bytes) -> None:
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            self.events.put_nowait(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(exc)

    async def event(self, kind: type[_T]) -> _T:
        """The next one of *kind*; others are kept."""
        for index, event in enumerate(self.skipped):
            if isinstance(event, kind):
                del self.skipped[index]
                return event
        while not isinstance(event := await self.events.get(), kind):
            self.skipped.append(event)
        return event

    async def ask(self, command: Any) -> commands.Response:
        self._command_id += 1
        command.command_id, command.response_required = self._command_id, True
        self.protocol.send(command)
        self.transport.writelines(self.protocol.data_to_send())
        response = await self.event(commands.Response)
        assert type(response) is commands.Response, response
        return response

    async def send_text(self, name: str, text: str) -> None:
        producer = commands.ProducerId(self.name, 1, -1)
        message_id = commands.MessageId(producer_id=producer, producer_sequence_id=self._command_id + 1)
        message = commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=queue(name),
            message_id=message_id,
            persistent=True,
            content=encode_text(text),
        )
        await self.ask(message)

    async def receive_text(self, name: str) -> str | None:
        consumer = commands.ConsumerId(self.name, -1, 1)
        await self.ask(commands.ConsumerInfo(consumer_id=consumer, destination=queue(name), prefetch_size=1))
        return text_of(await self.event(commands.MessageDispatch))

    async def close(self) -> None:
        self.transport.close()
        await self.closed


async def ended(name: str) -> None:
    """Wait until the broker has stopped, which its last client's leaving makes it do."""
    run = vm._runs.get(name)
    if run is not None:
        await asyncio.wrap_future(run.ended)


# ---- vm:// -----------------------------------------------------------------------------------------------------


def test_a_client_speaks_openwire_with_a_broker_that_it_has_started() -> None:
    async def scenario() -> None:
        client = await Client.open("vm://one")
        assert list(brokers()) == ["one"]
        await client.send_text("orders", "hello")
        assert await client.receive_text("orders") == "hello"
        await client.close()
        await ended("one")
        assert brokers() == {}

    in_time(scenario)


def test_the_broker_says_its_name() -> None:
    async def scenario() -> None:
        client = await Client.connect("vm://one?broker.brokerName=other")
        info = await client.event(commands.BrokerInfo)
        assert info.broker_name == "other"
        again = await Client.connect("vm://other?create=false")
        assert set(brokers()) == {"one", "other"}
        await client.close()
        await again.close()
        await ended("one")

    in_time(scenario)


def test_two_connections_share_a_broker_and_the_last_one_ends_it() -> None:
    async def scenario() -> None:
        first = await Client.open("vm://one", "a")
        second = await Client.open("vm://one", "b")
        await first.send_text("orders", "hello")
        broker = brokers()["one"]
        await first.close()
        await second.ask(commands.SessionInfo(session_id=commands.SessionId("b", 1)))
        assert brokers() == {"one": broker}
        await second.close()
        await ended("one")
        assert brokers() == {}

    in_time(scenario)


def test_connections_that_come_at_once_start_one_broker() -> None:
    async def scenario() -> None:
        clients = await asyncio.gather(*(Client.open("vm://one", f"client {number}") for number in range(8)))
        assert list(brokers()) == ["one"]
        for client in clients:
            await client.close()
        await ended("one")

    in_time(scenario)


def test_a_connection_that_comes_while_the_broker_stops_gets_a_new_one(tmp_path: Path) -> None:
    url = f"vm://one?broker.persistent=true&broker.dataDirectory={tmp_path}"

    async def scenario() -> None:
        for number in range(5):
            client = await Client.open(url)
            if number:
                assert await client.receive_text("orders") == "0"
            else:
                await client.send_text("orders", "0")
            await client.close()  # the store is in use until the broker has stopped
        await ended("one")

    in_time(scenario)


def test_names_are_brokers_of_their_own() -> None:
    async def scenario() -> None:
        one, other = await Client.open("vm://one"), await Client.open("vm://other")
        await one.send_text("orders", "one")
        await other.send_text("orders", "other")
        assert await one.receive_text("orders") == "one"
        await one.close()
        await ended("one")
        assert list(brokers()) == ["other"]
        await other.close()
        await ended("other")

    in_time(scenario)


def test_clients_on_different_loops_share_a_broker() -> None:
    async def scenario() -> None:
        here = await Client.open("vm://one", "a")
        await here.send_text("orders", "hello")

        async def elsewhere() -> None:
            there = await Client.open("vm://one", "b")
            assert await there.receive_text("orders") == "hello"
            await there.close()

        await asyncio.to_thread(in_time, elsewhere)
        await here.close()
        await ended("one")

    in_time(scenario)


def test_without_create_there_must_be_a_broker() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError, match="broker one does not exist in this process"):
            await Client.connect("vm://one?create=false")

    in_time(scenario)


def test_wait_for_start_waits_for_a_broker_that_others_start() -> None:
    async def scenario() -> None:
        waiting = asyncio.ensure_future(Client.open("vm://one?create=false&waitForStart=20000"))
        while "one" not in vm._arrivals:
            await asyncio.sleep(0)
        with EmbeddedBroker("one", listen=()):
            await (await waiting).close()

    in_time(scenario)


def test_wait_for_start_ends_and_the_broker_is_made_or_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError):
            await Client.connect("vm://one?create=false&waitForStart=1")
        await (await Client.open("vm://one?waitForStart=1")).close()
        await ended("one")

    in_time(scenario)


def test_a_cancelled_wait_disturbs_no_other() -> None:
    async def scenario() -> None:
        waits = [asyncio.ensure_future(Client.open("vm://one?create=false&waitForStart=20000")) for _ in range(2)]
        while "one" not in vm._arrivals:
            await asyncio.sleep(0)
        waits[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits[0]
        with EmbeddedBroker("one", listen=()):
            await (await waits[1]).close()

    in_time(scenario)


def test_a_broker_whose_only_client_gave_up_while_it_started_ends() -> None:
    async def scenario() -> None:
        opening = asyncio.ensure_future(Client.connect("vm://one"))
        while "one" not in vm._runs:
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await ended("one")

    in_time(scenario)


def test_what_a_client_refuses_to_be_leaves_no_broker_behind() -> None:
    def refuse() -> Client:
        raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            await vm.open(vm_uri("vm://one"), refuse)
        await ended("one")

    in_time(scenario)


def test_tcp_no_delay_is_no_matter() -> None:
    async def scenario() -> None:
        wants = Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0, tcp_no_delay=False)
        client = await Client.open("vm://one", wants=wants)
        await client.close()
        await ended("one")

    in_time(scenario)


def test_the_log_names_a_connection_that_breaks_the_rules(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        client = await Client.connect("vm://one")
        client.transport.write(b"\xff" * 8)
        await client.closed
        await ended("one")

    in_time(scenario)
    assert [message for message in caplog.messages if message.startswith("peer vm://one#1 closed: ")]


def test_connections_over_the_limit_are_closed_and_do_not_count() -> None:
    async def scenario() -> None:
        settings = Settings(store=StoreSettings(kind="memory"), connection=ConnectionSettings(connections_max=1))
        broker = EmbeddedBroker("one", settings, listen=())
        with vm._lock:
            run = vm._register(broker, ("one",), ends_when_unused=True)
        run.launch()
        await asyncio.wrap_future(run.started)
        client = await Client.open("vm://one")
        refused = await Client.connect("vm://one")
        await refused.closed
        await client.ask(commands.SessionInfo(session_id=commands.SessionId("a", 1)))
        await client.close()
        await ended("one")

    in_time(scenario)


# ---- options of a broker that is started -----------------------------------------------------------------------


def test_a_persistent_broker_keeps_messages_where_it_was_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        url = f"vm://one?broker.persistent=true&broker.dataDirectory={tmp_path}"
        client = await Client.open(url)
        assert brokers()["one"].settings.store.kind == "journal"
        await client.send_text("orders", "kept")
        await client.close()
        await ended("one")
        client = await Client.open(url)
        assert await client.receive_text("orders") == "kept"
        await client.close()
        await ended("one")

    in_time(scenario)
    assert (tmp_path / "journal").is_dir()


def test_by_default_nothing_is_kept() -> None:
    async def scenario() -> None:
        client = await Client.open("vm://one")
        assert brokers()["one"].settings.store.kind == "memory"
        assert brokers()["one"].urls == ()
        await client.close()
        await ended("one")

    in_time(scenario)


def test_broker_config_is_a_file_of_settings(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(
        '[listen]\nuris = ["tcp://127.0.0.1:0"]\n[store]\nkind = "memory"\n[connection]\nsessions_max = 7\n'
    )

    async def scenario() -> None:
        client = await Client.open(f"vm://one?brokerConfig={config}")
        broker = brokers()["one"]
        assert (broker.settings.connection.sessions_max, broker.settings.store.kind) == (7, "memory")
        with OpenWireClient.logged_in(broker.port):
            pass
        await client.close()
        await ended("one")

    in_time(scenario)


@pytest.mark.parametrize("name", ["useJmx", "useShutdownHook", "schedulerSupport", "enableStatistics"])
def test_options_without_effect_are_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        client = await Client.open(f"vm://one?broker.{name}=false")
        await client.close()
        await ended("one")

    with caplog.at_level(logging.INFO, "ackwire.vm"):
        in_time(scenario)
    (told,) = [message for message in caplog.messages if "no effect" in message]
    assert told.startswith(f"vm://one: broker.{name} has no effect: ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("broker.persistnt=true", r'unknown option "broker.persistnt"; did you mean "persistent"\?'),
        ("broker.deleteAllMessagesOnStartup=true", 'unknown option "broker.deleteAllMessagesOnStartup"; known: '),
        ("broker.persistent=yes", "broker.persistent must be true or false, and is yes"),
        ("broker.persistent=true", "broker.persistent=true needs broker.dataDirectory"),
        ("broker.dataDirectory=/tmp/x", "broker.dataDirectory needs broker.persistent=true"),
        ("broker.persistent=false&broker.dataDirectory=/tmp/x", "broker.dataDirectory needs broker.persistent=true"),
        ("brokerConfig=xbean:activemq.xml", "ActiveMQ's configuration is not read"),
        ("brokerConfig=/does/not/exist.toml", "/does/not/exist.toml: cannot be read"),
        ("broker.persistent=true&broker.dataDirectory=/dev/null/x", "/dev/null/x cannot be made: not a directory"),
    ],
)
def test_options_that_cannot_be_met_are_refused_by_name(options: str, reason: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match=reason):
            await Client.connect(f"vm://one?{options}")
        await ended("one")

    in_time(scenario)


@pytest.mark.parametrize("package", ["lark", "cronsim", "crc32c", "lmdb"])
def test_a_missing_package_is_named_with_the_remedy(package: str) -> None:
    program = f"""
import asyncio, sys
sys.modules[{package!r}] = None  # as if it were not installed
from ackwire import vm
from ackwire.client.uri import parse_broker_url
from ackwire.errors import ConfigError
try:
    asyncio.run(vm.open(parse_broker_url("vm://one").uris[0], asyncio.Protocol))
except ConfigError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stdout == f'a broker in this process needs the package {package}: pip install "ackwire[broker]"\n', (
        result.stderr
    )


def entry_point() -> EntryPoint:
    """As pyproject.toml has it, whatever is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return EntryPoint("vm", project["entry-points"][PLUGIN_GROUP]["vm"], PLUGIN_GROUP)


def test_the_entry_point_leads_to_open() -> None:
    assert entry_point().load() is vm.open


def test_the_client_finds_the_transport_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "entry_points", lambda **_: [entry_point()])
    with ackwire.connect("vm://one") as connection, ackwire.connect("vm://one?create=false") as other:
        with connection.session() as session, other.session() as their_session:
            session.producer("orders").send("hello")
            message = their_session.consumer("orders").receive(timeout_seconds=TIMEOUT_SECONDS)
            assert message is not None
            assert message.body == "hello"
        run = vm._runs["one"]
    assert run.ended.result(TIMEOUT_SECONDS) is None
    with pytest.raises(ackwire.ConnectionFailedError, match="vm://one: broker one does not exist in this process"):
        ackwire.connect("vm://one?create=false")


def test_a_process_ends_though_a_connection_is_open(tmp_path: Path) -> None:
    program = f"""
import asyncio, atexit
atexit.register(lambda: print(vm._runs))  # the first one runs last
from ackwire import vm
from ackwire.client.uri import parse_broker_url
async def main():
    url = "vm://one?broker.persistent=true&broker.dataDirectory={tmp_path}"
    await vm.open(parse_broker_url(url).uris[0], asyncio.Protocol)
asyncio.run(main())
assert list(vm.brokers()) == ["one"]
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "{}\n"), result.stderr
    assert "Traceback" not in result.stderr


# ---- EmbeddedBroker --------------------------------------------------------------------------------------------


def test_an_embedded_broker_serves_clients_of_its_url() -> None:
    with EmbeddedBroker("one") as broker:
        assert broker.url == f"tcp://127.0.0.1:{broker.port}"
        assert brokers() == {"one": broker}
        with OpenWireClient.logged_in(broker.port) as client:
            consumer = client.subscribe(queue("orders"))
            client.send_text(queue("orders"), "hello", persistent=True)
            assert text_of(client.receive(consumer)) == "hello"
            client.log_out()
        assert broker.is_running
    assert (broker.is_running, brokers()) == (False, {})


def test_the_vm_url_leads_to_the_same_broker_and_its_clients_do_not_end_it() -> None:
    with EmbeddedBroker("one") as broker:

        async def scenario() -> None:
            client = await Client.open(broker.vm_url)
            await client.send_text("orders", "hello")
            await client.close()

        in_time(scenario)
        with OpenWireClient.logged_in(broker.port) as client:
            assert text_of(client.receive(client.subscribe(queue("orders")))) == "hello"

    async def refused() -> None:
        with pytest.raises(ConnectionRefusedError, match="broker one does not exist"):
            await Client.connect(broker.vm_url)

    in_time(refused)


def test_a_stop_tells_clients_of_both_kinds() -> None:
    broker = EmbeddedBroker("one")
    broker.start()
    with OpenWireClient.logged_in(broker.port) as client:

        async def scenario() -> None:
            other = await Client.open(broker.vm_url)
            await asyncio.to_thread(broker.stop)
            await other.event(commands.ShutdownInfo)
            await other.closed

        in_time(scenario)
        client.wait_for(commands.ShutdownInfo)
        with pytest.raises(PeerClosed):
            client.wait_for(commands.Response)
    broker.stop()


def test_started_again_it_listens_where_it_did_and_has_forgotten_everything() -> None:
    broker = EmbeddedBroker("one", listen=("tcp://127.0.0.1:0?wireFormat.maxInactivityDuration=0", "nio://127.0.0.1:0"))
    with broker:
        urls = broker.urls
        with OpenWireClient.logged_in(broker.port) as client:
            client.send_text(queue("orders"), "hello", persistent=True)
    assert broker.urls == urls
    with broker:
        assert broker.urls == urls
        assert broker.settings.listen.uris[0].endswith("?wireFormat.maxInactivityDuration=0")
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.consumer_info(queue("orders"), browser=True))
            assert client.receive().message is None, "the end of a browser that found nothing"


def test_settings_are_taken_and_the_name_counts() -> None:
    settings = Settings(store=StoreSettings(kind="memory"), handshake=HandshakeSettings(login_timeout_seconds=61))
    with EmbeddedBroker("one", settings) as broker:
        assert broker.settings.handshake.login_timeout_seconds == 61
        with OpenWireClient.connect(broker.port) as client:
            client.flush()
            assert client.wait_for(commands.BrokerInfo).broker_name == "one"


def test_a_name_is_used_once_in_a_process() -> None:
    with EmbeddedBroker("one", listen=()) as broker:
        with pytest.raises(ConfigError, match="this process has a broker named one already"):
            EmbeddedBroker("one").start()
        with pytest.raises(ConfigError, match="broker one was started already"):
            broker.start()
        with pytest.raises(RuntimeError, match="broker one has no listener"):
            _ = broker.url


def test_what_cannot_be_started_says_why_and_can_be_started_later() -> None:
    with EmbeddedBroker("one") as first:
        second = EmbeddedBroker("two", listen=(first.url,))
        with pytest.raises(ConfigError, match="port is taken"):
            second.start()
        assert list(brokers()) == ["one"]
        with pytest.raises(RuntimeError, match="was not started"):
            _ = second.url
    with second:
        assert list(brokers()) == ["two"]


def test_a_stop_without_a_start_is_nothing() -> None:
    EmbeddedBroker("one").stop()


def test_a_broker_that_ends_by_itself_says_why_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from ackwire import app

    serve = app.serve

    async def fall_over(settings: Settings, **options: Any) -> None:
        options["stop"].set()
        await serve(settings, **options)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(app, "serve", fall_over)
    broker = EmbeddedBroker("one")
    broker.start()
    with pytest.raises(ZeroDivisionError):
        broker.stop()
    broker.stop()
    assert "broker one has ended: a bug" in caplog.messages


def test_it_is_not_stopped_from_its_own_thread() -> None:
    clock = AdjustableClock()
    with EmbeddedBroker("one", clock=clock) as broker:

        async def stop() -> None:
            with pytest.raises(RuntimeError, match="from its own thread"):
                broker.stop()

        run = vm._runs["one"]
        run.call(stop())
        assert run.thread is not threading.current_thread()


def test_messages_keep_the_time_of_the_clock_and_connections_the_machines() -> None:
    clock = AdjustableClock()
    settings = Settings(
        store=StoreSettings(kind="memory"),
        connection=ConnectionSettings(max_inactivity_duration_seconds=5, max_inactivity_initial_delay_seconds=1),
    )
    watched = Preferences(inactivity_ms=30_000)
    with (
        EmbeddedBroker("one", settings, clock=clock) as broker,
        OpenWireClient.logged_in(broker.port, watched) as client,
    ):
        message = client.text_message(queue("orders"), "mortal", persistent=True)
        message.expiration = message.timestamp + 3_600_000
        client.request(message)
        clock.advance(3599 - 60)
        assert broker.dead_letters() == []
        clock.advance(120)
        (letter,) = broker.dead_letters()
        assert letter.message_id == str(message.message_id)
        client.ping()


def test_dead_letters_are_listed_with_origin_and_cause() -> None:
    with EmbeddedBroker("one") as broker, OpenWireClient.logged_in(broker.port) as client:
        assert broker.dead_letters() == []
        client.send_text(queue("orders"), "bad", persistent=True)
        dispatch = client.receive(client.subscribe(queue("orders")))
        ack = client.ack_command(dispatch, AckType.POISON)
        client.request(ack)
        assert dispatch.message is not None
        (letter,) = broker.dead_letters()
        assert letter == DeadLetter(str(dispatch.message.message_id), "queue://orders", letter.cause, "ActiveMQ.DLQ")
        assert letter.cause
        assert str(letter) == f"{letter.message_id} from queue://orders: {letter.cause}"
