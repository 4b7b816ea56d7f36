"""From the first byte to the answered ConnectionInfo: every way to do it right, and every way to do it wrong.

A peer that breaks the order is closed, with one line in the log; before the formats are agreed there are no words for
more, after that it gets a ConnectionError first. A bystander works before, during and after each of them.
"""

import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from ackwire.jms.types import Int, Long, Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences, offer
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.structures import Structure
from tests.helpers.openwire_client import (
    TIMEOUT_SECONDS,
    UNWATCHED,
    OpenWireClient,
    PeerClosed,
    Scene,
    frame,
    queue,
    scene,
    text_of,
    topic,
    unique,
)
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

HANDSHAKE_FRAME_BYTES_MAX = 64 * 1024
CACHE_SIZE = 256
EVERYTHING = "wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true&wireFormat.stackTraceEnabled=true"
TCP, TIGHT, AUTO, SSL, AUTO_SSL, UNSIZED, LIMITED = range(7)
LISTENERS = {
    TCP: "tcp://127.0.0.1:0",
    TIGHT: f"nio://127.0.0.1:0?{EVERYTHING}",
    AUTO: "auto://127.0.0.1:0",
    SSL: "ssl://127.0.0.1:0",
    AUTO_SSL: "auto+ssl://127.0.0.1:0",
    UNSIZED: "tcp://127.0.0.1:0?wireFormat.sizePrefixDisabled=true",
    LIMITED: "tcp://127.0.0.1:0?maximumConnections=3",
}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def listeners(folder: Path, authority: trustme.CA) -> list[str]:
    server = authority.issue_cert("127.0.0.1")
    file = folder / "server.pem"
    server.private_key_and_cert_chain_pem.write_to_path(file)
    return [f"{uri}?certFile={file}" if "ssl" in uri else uri for uri in LISTENERS.values()]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(listeners(folder, authority), log_path=folder / "broker.log") as running:
        yield running


@pytest.fixture(scope="module")
def impatient_broker(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[RunningBroker]:
    """A broker that waits a second and a half where the usual one waits ten or sixty."""
    folder = tmp_path_factory.mktemp("impatient")
    config = folder / "ackwire.toml"
    config.write_text(
        "[handshake]\nwire_format_timeout_seconds = 1.5\nlogin_timeout_seconds = 1.5\ntls_timeout_seconds = 1.5\n"
    )
    options = ("--config", str(config))
    with running_broker(listeners(folder, authority), log_path=folder / "broker.log", options=options) as running:
        yield running


@pytest.fixture
def stage(broker: RunningBroker) -> Iterator[Scene]:
    with scene(broker) as stage:
        yield stage


@pytest.fixture
def impatient(impatient_broker: RunningBroker) -> Iterator[Scene]:
    with scene(impatient_broker) as stage:
        yield stage


def assert_words_before_the_end(client: OpenWireClient, reason: str) -> None:
    """The broker says why, in a ConnectionError, and closes."""
    *_, last = client.read_until_closed()
    assert isinstance(last, commands.ConnectionError), last
    assert last.exception is not None
    assert last.exception.class_name == "java.io.IOException"
    assert reason in (last.exception.message or "")


def assert_closed_without_words(client: OpenWireClient) -> None:
    """The broker closes; whatever it said before was part of its own handshake."""
    events = client.read_until_closed()
    assert not [event for event in events if not isinstance(event, Agreement)], events


def assert_works(client: OpenWireClient) -> None:
    """A whole round on a logged-in connection: a queue and a topic, there and back."""
    client.take_events()  # of the handshake, as far as the test did not look at them
    for destination in (queue(unique("handshake")), topic(unique("handshake"))):
        consumer = client.subscribe(destination)
        client.send_text(destination, "grüße", "\0\N{GRINNING FACE}", persistent=True)
        dispatches = [client.receive(consumer), client.receive(consumer)]
        assert [text_of(dispatch) for dispatch in dispatches] == ["grüße", "\0\N{GRINNING FACE}"]
        client.ack(dispatches[1], first=dispatches[0], count=2)
    client.ping()
    assert client.take_events() == []


# --- done right ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 13))
@pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
@pytest.mark.parametrize("cache", [False, True], ids=["", "cached"])
def test_every_version_encoding_and_cache_works(stage: Scene, version: int, tight: bool, cache: bool) -> None:
    wants = Preferences(version=version, tight=tight, cache=cache, stack_traces=True, inactivity_ms=0)
    with OpenWireClient.connect(stage.broker.ports[TIGHT], wants) as client:
        agreement = client.handshake()
        assert agreement.wire_format == WireFormat(version, tight, CACHE_SIZE if cache else None, stack_traces=True)
        client.login()
        assert_works(client)
        client.log_out()
    assert stage.log_about(client) == []


@pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
def test_default_listener_speaks_loose_with_a_cache_whatever_else_the_client_offers(stage: Scene, tight: bool) -> None:
    wants = Preferences(tight=tight, cache=True, stack_traces=True, inactivity_ms=0)
    with OpenWireClient.connect(stage.port, wants) as client:
        assert client.handshake().wire_format == WireFormat(cache_size=CACHE_SIZE)
        client.login()
        assert_works(client)


def test_connection_without_size_prefix_works(stage: Scene) -> None:
    wants = Preferences(size_prefix_disabled=True, inactivity_ms=0)
    with OpenWireClient.connect(stage.broker.ports[UNSIZED], wants) as client:
        assert client.handshake().wire_format == WireFormat(size_prefix=False)
        client.login()
        assert_works(client)


@pytest.mark.parametrize(
    "uri", [TCP, AUTO, SSL, AUTO_SSL], ids=lambda uri: LISTENERS[uri].partition(":")[0] if uri in LISTENERS else ""
)
def test_every_kind_of_listener_works(stage: Scene, client_tls: ssl.SSLContext, uri: int) -> None:
    tls = client_tls if uri in (SSL, AUTO_SSL) else None
    with OpenWireClient.logged_in(stage.broker.ports[uri], tls=tls) as client:
        assert_works(client)
        client.log_out()
    assert stage.log_about(client) == []


@pytest.mark.parametrize(("offered", "agreed"), [(13, 12), (2**31 - 1, 12), (0, 12), (-1, 12)])
def test_version_out_of_range_is_agreed_as_the_highest(stage: Scene, offered: int, agreed: int) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.protocol.data_to_send()  # instead of which:
        client.send(
            commands.WireFormatInfo(version=offered, marshalled_properties=offer(UNWATCHED).marshalled_properties)
        )
        assert client.wait_for(Agreement).wire_format.version == agreed
        client.login()
        assert_works(client)


@pytest.mark.parametrize("properties", [None, encode_map({})], ids=["null", "empty"])
def test_wire_format_info_without_properties_works(stage: Scene, properties: bytes | None) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.protocol.data_to_send()
        client.send(commands.WireFormatInfo(version=12, marshalled_properties=properties))
        client.wait_for(commands.BrokerInfo)
        client.login()
        assert_works(client)


@pytest.mark.parametrize("uri", [TCP, AUTO])
def test_whole_handshake_may_come_byte_by_byte(stage: Scene, uri: int) -> None:
    with OpenWireClient.connect(stage.broker.ports[uri]) as client:
        info = client.connection_info(command_id=1, response_required=True)
        client.protocol.send(info)
        for byte in b"".join(client.protocol.data_to_send()):
            client.send_bytes(bytes((byte,)))
        assert type(client.answer(1)) is commands.Response
        assert_works(client)


@pytest.mark.parametrize("uri", [TCP, AUTO])
def test_client_need_not_wait_for_the_brokers_wire_format_info(stage: Scene, uri: int) -> None:
    with OpenWireClient.connect(stage.broker.ports[uri]) as client:
        client.protocol.send(client.connection_info(command_id=1, response_required=True))
        client.protocol.send(commands.KeepAliveInfo(command_id=2, response_required=True))
        client.flush()
        assert type(client.answer(1)) is commands.Response
        client.wait_for(commands.KeepAliveInfo, lambda info: info.command_id == 2)


def test_null_commands_are_passed_over(stage: Scene) -> None:
    null = b"\0\0\0\1\0"
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(null)
        client.handshake()
        client.send_bytes(null * 3)
        client.login()
        client.send_bytes(null)
        assert_works(client)


def test_broker_introduces_itself(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.flush()
        client.wait_for(Agreement)
        info = client.wait_for(commands.BrokerInfo)
        assert info.broker_name == "localhost"
        assert info.broker_id is not None
        assert info.broker_id.value
        assert (info.command_id, info.response_required) == (0, False)


def test_manageable_connection_gets_a_connection_control(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.request(client.connection_info(manageable=True))
        control = client.wait_for(commands.ConnectionControl)
        assert (control.connected_brokers, control.reconnect_to) == ("", "")


def test_keep_alive_before_login_is_answered(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.ping()
        client.login()
        assert_works(client)


def test_shutdown_before_login_is_an_ordinary_end(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.send(commands.ShutdownInfo())
        assert client.read_until_closed() == []
    assert stage.log_about(client) == []


def test_client_that_connects_and_leaves_is_not_worth_a_line(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        assert client.read_some()
    with OpenWireClient.connect(stage.port) as shaken:
        shaken.handshake()
    assert stage.log_about(client) + stage.log_about(shaken) == []


# --- the wrong order -----------------------------------------------------------------------------------

MESSAGE_ID = commands.MessageId(producer_id=commands.ProducerId("c", 1, 1), producer_sequence_id=1)
COMMANDS: list[Structure] = [
    commands.ConnectionInfo(connection_id=commands.ConnectionId("c"), client_id="c"),
    commands.KeepAliveInfo(),
    commands.ShutdownInfo(),
    commands.SessionInfo(session_id=commands.SessionId("c", 1)),
    commands.ConsumerInfo(consumer_id=commands.ConsumerId("c", 1, 1), destination=queue("q")),
    commands.ProducerInfo(producer_id=commands.ProducerId("c", 1, 1)),
    commands.DestinationInfo(destination=queue("q")),
    commands.RemoveInfo(object_id=commands.ConnectionId("c")),
    commands.RemoveSubscriptionInfo(client_id="c", subscription_name="s"),
    commands.TransactionInfo(),
    commands.MessagePull(consumer_id=commands.ConsumerId("c", 1, 1)),
    commands.ConsumerControl(consumer_id=commands.ConsumerId("c", 1, 1)),
    commands.ConnectionError(),
    commands.ControlCommand(),
    commands.FlushCommand(),
    commands.BrokerInfo(),
    commands.Response(),
    commands.MessageDispatch(),
    commands.ActiveMQTextMessage(
        producer_id=commands.ProducerId("c", 1, 1), destination=queue("q"), message_id=MESSAGE_ID
    ),
    commands.MessageAck(consumer_id=commands.ConsumerId("c", 1, 1), last_message_id=MESSAGE_ID, message_count=1),
    commands.DiscoveryEvent(),
    commands.ConnectionId("c"),
]


def name_of(command: Structure) -> str:
    return type(command).__name__


@pytest.mark.parametrize("first", COMMANDS, ids=name_of)
def test_first_command_must_be_wire_format_info(stage: Scene, first: Structure) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(frame(first))
        assert_closed_without_words(client)
        stage.expect_line(client, f"the first command is {name_of(first)}, not WireFormatInfo")


BEFORE_LOGIN = ("ConnectionInfo", "KeepAliveInfo", "ShutdownInfo")


STRANGERS_COMMANDS = [command for command in COMMANDS if name_of(command) not in BEFORE_LOGIN]


def assert_too_early(stage: Scene, command: Structure) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.send(command)
        is_command = isinstance(command, commands.BaseCommand)
        reason = "came before ConnectionInfo" if is_command else name_of(command)
        assert_words_before_the_end(client, reason)
        stage.expect_line(client, reason)


@pytest.mark.parametrize("command", STRANGERS_COMMANDS, ids=name_of)
def test_nothing_else_may_come_before_connection_info(stage: Scene, command: Structure) -> None:
    assert_too_early(stage, command)


@pytest.mark.parametrize(
    "command", [command for command in STRANGERS_COMMANDS if isinstance(command, commands.BaseCommand)], ids=name_of
)
def test_asking_for_a_response_before_connection_info_does_not_help(
    stage: Scene, command: commands.BaseCommand
) -> None:
    assert_too_early(stage, replace(command, command_id=1, response_required=True))


def test_second_wire_format_info_has_no_place_before_login(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.send(offer(UNWATCHED))
        assert_words_before_the_end(client, "WireFormatInfo has no place after the handshake")
        stage.expect_line(client, "WireFormatInfo has no place after the handshake")


def test_second_connection_info_ends_the_connection(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port) as client:
        client.post(client.connection_info())
        assert_words_before_the_end(client, "a second ConnectionInfo")
        stage.expect_line(client, "a second ConnectionInfo")


@pytest.mark.parametrize("connection_id", [None, commands.ConnectionId(None), commands.ConnectionId("")])
def test_connection_info_needs_a_connection_id(stage: Scene, connection_id: commands.ConnectionId | None) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.post(client.connection_info(connection_id=connection_id))
        assert_words_before_the_end(client, "ConnectionInfo without a connection id")
        stage.expect_line(client, "ConnectionInfo without a connection id")


# --- a WireFormatInfo that cannot be used --------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"CacheSize": "1024"}, "CacheSize in WireFormatInfo is a str"),
        ({"MaxFrameSize": 1.5}, "MaxFrameSize in WireFormatInfo is a float"),
        ({"MaxInactivityDuration": True}, "MaxInactivityDuration in WireFormatInfo is a bool"),
        ({"TightEncodingEnabled": Int(1)}, "TightEncodingEnabled in WireFormatInfo is a Int"),
        ({"CacheEnabled": "true"}, "CacheEnabled in WireFormatInfo is a str"),
    ],
)
def test_property_of_another_type_ends_the_handshake(stage: Scene, properties: dict[str, Value], reason: str) -> None:
    usual: dict[str, Value] = {
        "TightEncodingEnabled": True,
        "CacheEnabled": True,
        "StackTraceEnabled": True,
        "CacheSize": Int(1024),
        "MaxInactivityDuration": Long(0),
    }
    with OpenWireClient.connect(stage.broker.ports[TIGHT]) as client:
        client.send_bytes(
            frame(commands.WireFormatInfo(version=12, marshalled_properties=encode_map(usual | properties)))
        )
        assert_closed_without_words(client)
        stage.expect_line(client, reason)


def test_wrong_magic_ends_the_handshake(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(frame(offer(UNWATCHED)).replace(b"ActiveMQ", b"PassiveM"))
        assert_closed_without_words(client)
        stage.expect_line(client, "magic")


@pytest.mark.parametrize("cut", [1, 5, 50])
def test_wire_format_info_that_ends_early_ends_the_handshake(stage: Scene, cut: int) -> None:
    whole = frame(offer(UNWATCHED))[4:]
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(len(whole[:-cut]).to_bytes(4, "big") + whole[:-cut])
        assert_closed_without_words(client)
        stage.expect_line(client, "closed: ")


# --- too much ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [HANDSHAKE_FRAME_BYTES_MAX + 1, 2**31 - 1, 2**32 - 1])
def test_frame_over_64_kib_is_refused_before_the_handshake(stage: Scene, size: int) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(size.to_bytes(4, "big"))  # nothing of the frame itself is awaited
        assert_closed_without_words(client)
        stage.expect_line(client, f"a frame of {size} bytes: the limit is {HANDSHAKE_FRAME_BYTES_MAX}")


def test_frame_over_64_kib_is_refused_before_login(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.send_bytes((HANDSHAKE_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        assert_words_before_the_end(client, "the limit is 65536")
        stage.expect_line(client, f"a frame of {HANDSHAKE_FRAME_BYTES_MAX + 1} bytes: the limit is 65536")


def test_frame_of_64_kib_is_taken_before_login_and_a_larger_one_after(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        empty = len(frame(client.connection_info(user_name=""))) - 4
        client.request(client.connection_info(user_name="u" * (HANDSHAKE_FRAME_BYTES_MAX - empty)))
        destination = queue(unique("large"))
        consumer = client.subscribe(destination)
        client.send_text(destination, "x" * 1_000_000)
        assert text_of(client.receive(consumer)) == "x" * 1_000_000


def test_agreed_frame_size_holds_after_login(stage: Scene) -> None:
    wants = Preferences(frame_bytes_max=2000, inactivity_ms=0)
    with OpenWireClient.logged_in(stage.port, wants) as client:
        client.send_text(queue(unique("small")), "x" * 1500)
        client.send_bytes((2001).to_bytes(4, "big"))
        assert_words_before_the_end(client, "a frame of 2001 bytes: the limit is 2000")
        stage.expect_line(client, "a frame of 2001 bytes: the limit is 2000")


@pytest.mark.parametrize("excess", [1, 2])
def test_listener_takes_as_many_connections_as_it_says(stage: Scene, excess: int) -> None:
    port = stage.broker.ports[LIMITED]
    inside = [OpenWireClient.logged_in(port) for _ in range(3)]
    refused = [OpenWireClient.connect(port) for _ in range(excess)]
    try:
        for client in refused:
            assert client.read_until_closed() == []
            stage.expect_line(client, "has 3 connections, its limit")
        for client in inside:
            assert_works(client)
        inside.pop().log_out()
        inside.append(_connect_when_there_is_room(port))
        assert_works(inside[-1])
    finally:
        for client in (*inside, *refused):
            client.close()
    _wait_for_room(port, places=3)


def _connect_when_there_is_room(port: int) -> OpenWireClient:
    """The broker notices the end of a connection a moment after the client does."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return OpenWireClient.logged_in(port)
        except (ConnectionError, PeerClosed):
            assert time.monotonic() < deadline, "no room was made"


def _wait_for_room(port: int, places: int) -> None:
    for client in [_connect_when_there_is_room(port) for _ in range(places)]:
        client.close()


# --- silence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", [TCP, AUTO])
def test_peer_that_says_nothing_is_closed(impatient: Scene, uri: int) -> None:
    with OpenWireClient.connect(impatient.broker.ports[uri]) as client:
        impatient.bystander.work()
        assert_closed_without_words(client)
        impatient.expect_line(client, "it sent no WireFormatInfo in 1.5 s")


@pytest.mark.parametrize("uri", [TCP, AUTO])
def test_peer_that_begins_and_stops_is_closed(impatient: Scene, uri: int) -> None:
    with OpenWireClient.connect(impatient.broker.ports[uri]) as client:
        client.send_bytes(frame(offer(UNWATCHED))[:40])
        impatient.bystander.work()
        assert_closed_without_words(client)
        impatient.expect_line(client, "it sent no WireFormatInfo in 1.5 s")


def test_peer_that_does_not_log_in_is_told_and_closed(impatient: Scene) -> None:
    with OpenWireClient.connect(impatient.port) as client:
        client.handshake()
        client.ping()
        impatient.bystander.work()
        assert_words_before_the_end(client, "it sent no ConnectionInfo in 1.5 s")
        impatient.expect_line(client, "it sent no ConnectionInfo in 1.5 s")


def test_client_that_logged_in_may_be_silent(impatient: Scene) -> None:
    with OpenWireClient.logged_in(impatient.port) as client:
        with OpenWireClient.connect(impatient.port) as later:  # whose time is over after that of the first would be
            later.read_until_closed()
        assert_works(client)


# --- TLS -----------------------------------------------------------------------------------------------


def test_peer_that_does_not_begin_tls_is_closed(impatient: Scene) -> None:
    with OpenWireClient.connect(impatient.broker.ports[SSL]) as client:
        impatient.bystander.work()
        assert_closed_without_words(client)
        impatient.expect_line(client, "TLS handshake failed")


def test_peer_that_says_nothing_inside_tls_is_closed(impatient: Scene, client_tls: ssl.SSLContext) -> None:
    with OpenWireClient.connect(impatient.broker.ports[SSL], tls=client_tls) as client:
        assert_closed_without_words(client)
        impatient.expect_line(client, "it sent no WireFormatInfo in 1.5 s")


@pytest.mark.parametrize("uri", [SSL, AUTO_SSL])
def test_plain_bytes_on_a_tls_listener_are_refused(stage: Scene, uri: int) -> None:
    with OpenWireClient.connect(stage.broker.ports[uri]) as client:
        client.flush()
        with suppress(ConnectionError):
            while client.socket.recv(4096):  # at most a TLS alert
                pass
        stage.expect_line(client, "TLS handshake failed")


@pytest.mark.parametrize(("uri", "reason"), [(TCP, "the limit is 65536"), (AUTO, "the peer speaks TLS")])
def test_tls_on_a_plain_listener_is_refused(stage: Scene, client_tls: ssl.SSLContext, uri: int, reason: str) -> None:
    with socket.create_connection(("127.0.0.1", stage.broker.ports[uri]), timeout=20) as plain:
        client = OpenWireClient(plain)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            client_tls.wrap_socket(plain.dup(), server_hostname="127.0.0.1")
        stage.expect_line(client, reason)


def test_client_that_does_not_trust_the_certificate_is_one_line(stage: Scene) -> None:
    strangers = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", stage.broker.ports[SSL]), timeout=20) as plain:
        client = OpenWireClient(plain)
        with pytest.raises(ssl.SSLCertVerificationError), strangers.wrap_socket(plain, server_hostname="127.0.0.1"):
            pass
        stage.broker.process.wait_for_line(re.compile(re.escape(client.address)), 20)
        stage.expect_line(client, "TLS handshake failed")


# --- other protocols -----------------------------------------------------------------------------------

OTHERS = {
    "AMQP": (b"AMQP\x03\x01\x00\x00", "AMQP"),
    "STOMP": (b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", "STOMP"),
    "STOMP 1.2": (b"STOMP\naccept-version:1.2\nhost:/\n\n\0", "STOMP"),
    "MQTT": (b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test", "MQTT"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("slowly", [False, True], ids=["", "byte by byte"])
def test_other_protocol_on_an_auto_listener_is_refused_by_name(stage: Scene, name: str, slowly: bool) -> None:
    first_bytes, said = OTHERS[name]
    with OpenWireClient.connect(stage.broker.ports[AUTO]) as client:
        try:
            for start in range(0, len(first_bytes), 1 if slowly else len(first_bytes)):
                client.send_bytes(first_bytes[start : start + (1 if slowly else len(first_bytes))])
        except ConnectionError:
            pass  # the broker knew enough before the last byte
        assert client.read_until_closed() == []
        stage.expect_line(client, f"the peer speaks {said}")


@pytest.mark.parametrize("name", OTHERS)
def test_other_protocol_on_an_openwire_listener_is_refused(stage: Scene, name: str) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.send_bytes(OTHERS[name][0])
        assert_closed_without_words(client)
        stage.expect_line(client, "the limit is 65536")


def test_other_protocol_inside_tls_is_refused_by_name(stage: Scene, client_tls: ssl.SSLContext) -> None:
    with OpenWireClient.connect(stage.broker.ports[AUTO_SSL], tls=client_tls) as client:
        client.send_bytes(OTHERS["AMQP"][0])
        assert client.read_until_closed() == []
        stage.expect_line(client, "the peer speaks AMQP")
