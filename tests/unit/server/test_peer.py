"""Peer between a transport and a broker: no sockets, and time that only the test moves."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ackwire.broker.broker import Broker
from ackwire.config import ConnectionSettings, HandshakeSettings, Settings, WireSettings
from ackwire.config.listener_uri import parse_listener_uri
from ackwire.errors import RemoteProtocolError
from ackwire.jms.destinations import Kind, destination
from ackwire.server.listener import ConnectionGate
from ackwire.server.peer import Peer
from ackwire.server.protocols import BUILT_IN
from ackwire.server.turn import Turn
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences, offer
from ackwire.wire.openwire.primitives import decode_map
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from tests.helpers.broker_rig import contents
from tests.helpers.compilation import pure_only

SIZE_BYTES = 4


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `stuck` makes it pile up as behind a client that does not read."""

    def __init__(self, protocol: Peer) -> None:
        super().__init__({"peername": ("192.0.2.7", 4711)})
        self.written = bytearray()
        self.stuck = False
        self.aborted = False
        self._reading = True
        self._closed = False
        self._protocol = protocol
        self._waiting = 0
        self._paused = False
        self._high = self._low = 0

    def write(self, data: Any) -> None:
        assert not self._closed
        self.written += data
        if self.stuck:
            self._waiting += len(data)
        if self._waiting > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def pile_up(self, size_bytes: int) -> None:
        """The client reads nothing, and *size_bytes* are waiting for it already."""
        self.stuck = True
        self._waiting = size_bytes

    def client_reads(self) -> None:
        """The client has taken everything."""
        self.stuck = False
        self._waiting = 0
        if self._paused:
            self._paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        assert low < high
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def pause_reading(self) -> None:
        assert self._reading
        self._reading = False

    def resume_reading(self) -> None:
        assert not self._reading
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    def abort(self) -> None:
        self._closed = self.aborted = True


class Stage:
    """One peer, and the client at the other end of its transport."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        uri: str,
        settings: Settings,
        wants: Preferences,
        gate: ConnectionGate,
        broker: Broker | None,
    ) -> None:
        self.loop = loop
        self.clock = ManualClock()
        self.gate = gate
        self.peers: set[Peer] = set()
        self.broker = broker or Broker(
            clock=self.clock,
            store=MemoryStore(),
            editor=OpenWireEditor("ID:test", "test", self.clock),
            settings=settings,
        )
        self.client = OpenWireProtocol(wants)
        self.their_turn = Turn(loop)
        self.peer = loop.run_until_complete(self._make(uri, settings))
        self.transport = FakeTransport(self.peer)
        self.peer.connection_made(self.transport)
        self._read = 0

    async def _make(self, uri: str, settings: Settings) -> Peer:
        return Peer(
            broker=self.broker,
            clock=self.clock,
            settings=settings,
            uri=parse_listener_uri(uri),
            gate=self.gate,
            peers=self.peers,
            turn=self.their_turn,
            protocols=BUILT_IN,
        )

    def turn(self) -> None:
        """Let the loop do what is due."""
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(asyncio.sleep(0))

    def hear(self) -> list[Event]:
        """What the client received since it last looked."""
        self.turn()
        new = bytes(self.transport.written[self._read :])
        self._read += len(new)
        self.client.receive_data(new)
        events = []
        for event in self.client.events():
            if isinstance(event, Agreement):
                self.client.login_finished()
            events.append(event)
        return events

    def say(self, *structures: Structure) -> list[Event]:
        """The client sends *structures*; returns what it hears then."""
        for structure in structures:
            self.client.send(structure)
        self.peer.data_received(b"".join(self.client.data_to_send()))
        return self.hear()

    def log_in(self, name: str = "a") -> None:
        self.say()
        answers = self.say(connection_info(name))
        assert [type(answer) for answer in answers] == [commands.Response]

    def advance(self, seconds: float) -> list[Event]:
        self.clock.advance(seconds)
        return self.hear()


def connection_info(name: str = "a") -> commands.ConnectionInfo:
    return commands.ConnectionInfo(
        command_id=1, response_required=True, connection_id=commands.ConnectionId(name), client_id=f"client {name}"
    )


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Director:
    """Sets stages up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(
        self,
        *,
        uri: str = "tcp://127.0.0.1:0",
        settings: Settings | None = None,
        wants: Preferences | None = None,
        gate: ConnectionGate | None = None,
        broker: Broker | None = None,
    ) -> Stage:
        return Stage(
            self._loop, uri, settings or Settings(), wants or Preferences(), gate or ConnectionGate(100), broker
        )


@pytest.fixture
def stage(loop: asyncio.AbstractEventLoop) -> Director:
    return Director(loop)


@contextmanager
def no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield
    assert caplog.messages == []


# --- what a listener offers ----------------------------------------------------------------------------


def offered(play: Stage) -> tuple[int, dict[str, object]]:
    """Version and properties of the WireFormatInfo that the peer sent first."""
    play.turn()
    first = Codec(WireFormat()).decode(bytes(play.transport.written)[SIZE_BYTES:])
    assert isinstance(first, commands.WireFormatInfo)
    assert first.marshalled_properties is not None
    return first.version, dict(decode_map(first.marshalled_properties))


def test_listener_without_options_offers_the_settings_and_the_fast_path(stage: Director) -> None:
    version, properties = offered(stage())
    assert version == 12
    expected = {
        "TightEncodingEnabled": False,
        "CacheEnabled": True,
        "CacheSize": 256,
        "StackTraceEnabled": False,
        "TcpNoDelayEnabled": True,
        "SizePrefixDisabled": False,
        "MaxFrameSize": 100 * 1024 * 1024,
        "MaxInactivityDuration": 30_000,
        "MaxInactivityDurationInitalDelay": 10_000,
        "ProviderName": "Ackwire",
    }
    assert {key: properties[key] for key in expected} == expected


def test_settings_change_what_every_listener_offers(stage: Director) -> None:
    settings = Settings(
        wire=WireSettings(frame_bytes_max=70_000),
        connection=ConnectionSettings(
            max_inactivity_duration_seconds=2.5, max_inactivity_initial_delay_seconds=0.0625
        ),
    )  # fmt: skip
    _, properties = offered(stage(settings=settings))
    assert properties["MaxFrameSize"] == 70_000
    assert properties["MaxInactivityDuration"] == 2500
    assert properties["MaxInactivityDurationInitalDelay"] == 62


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("wireFormat.tightEncodingEnabled=true", "TightEncodingEnabled", True),
        ("wireFormat.cacheEnabled=false", "CacheEnabled", False),
        ("wireFormat.cacheSize=200", "CacheSize", 200),
        ("wireFormat.cacheSize=0", "CacheSize", 0),
        ("wireFormat.stackTraceEnabled=true", "StackTraceEnabled", True),
        ("wireFormat.sizePrefixDisabled=true", "SizePrefixDisabled", True),
        ("wireFormat.tcpNoDelayEnabled=false", "TcpNoDelayEnabled", False),
        ("wireFormat.maxFrameSize=2048", "MaxFrameSize", 2048),
        ("wireFormat.maxInactivityDuration=0", "MaxInactivityDuration", 0),
        ("wireFormat.maxInactivityDuration=500", "MaxInactivityDuration", 500),
        ("wireFormat.maxInactivityDurationInitalDelay=0", "MaxInactivityDurationInitalDelay", 0),
        ("wireFormat.maxInactivityDurationInitialDelay=7", "MaxInactivityDurationInitalDelay", 7),
    ],
)
def test_option_of_the_uri_goes_before_the_settings(stage: Director, option: str, key: str, value: object) -> None:
    default = offered(stage())
    version, properties = offered(stage(uri=f"tcp://127.0.0.1:0?{option}"))
    assert version == default[0]
    assert properties == default[1] | {key: value}


def test_version_option_goes_before_the_settings(stage: Director) -> None:
    assert offered(stage(uri="tcp://127.0.0.1:0?wireFormat.version=9"))[0] == 9


def test_auto_listener_waits_for_the_client_to_speak_first(stage: Director) -> None:
    play = stage(uri="auto://127.0.0.1:0")
    assert play.hear() == []
    first = b"".join(play.client.data_to_send())
    for position in range(len(first)):
        play.peer.data_received(first[position : position + 1])
    assert [type(event) for event in play.hear()] == [Agreement, commands.BrokerInfo]


# --- deadlines -----------------------------------------------------------------------------------------

SHORT = Settings(handshake=HandshakeSettings(wire_format_timeout_seconds=3, login_timeout_seconds=5))


@pytest.mark.parametrize("uri", ["tcp://127.0.0.1:0", "auto://127.0.0.1:0"])
def test_peer_without_wire_format_info_is_closed_in_time(
    stage: Director, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    play = stage(uri=uri, settings=SHORT)
    play.advance(2.9)
    play.peer.data_received(b"\0")  # a byte now and then does not help
    assert not play.transport.is_closing()
    play.advance(0.2)
    assert play.transport.is_closing()
    assert caplog.messages == ["peer 192.0.2.7:4711 closed: it sent no WireFormatInfo in 3 s"]


def test_peer_without_connection_info_is_told_and_closed_in_time(
    stage: Director, caplog: pytest.LogCaptureFixture
) -> None:
    play = stage(settings=SHORT)
    play.advance(2)
    play.say()
    play.advance(4.9)
    play.say(commands.KeepAliveInfo())  # nor does a keep-alive
    assert not play.transport.is_closing()
    (last,) = play.advance(0.2)
    assert isinstance(last, commands.ConnectionError)
    assert last.exception is not None
    assert last.exception.class_name == "java.io.IOException"
    assert play.transport.is_closing()
    assert caplog.messages == ["peer 192.0.2.7:4711 closed: it sent no ConnectionInfo in 5 s"]


def test_login_in_time_ends_all_deadlines(stage: Director, caplog: pytest.LogCaptureFixture) -> None:
    play = stage(settings=SHORT, wants=Preferences(inactivity_ms=0))
    with no_log(caplog):
        play.log_in()
        play.advance(10_000)
        assert not play.transport.is_closing()


def test_closing_peer_that_takes_nothing_is_cut_off(stage: Director) -> None:
    play = stage()
    play.log_in()
    play.peer.close("a test")
    assert play.transport.is_closing()
    assert not play.transport.aborted
    play.advance(60)
    assert play.transport.aborted


def test_refused_client_may_stay_two_seconds_however_often_it_asks(
    stage: Director, caplog: pytest.LogCaptureFixture
) -> None:
    play = stage(settings=SHORT)
    play.say()
    nameless = replace(connection_info(), client_id=None)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            (answer,) = play.say(nameless)
            assert isinstance(answer, commands.ExceptionResponse)
            play.advance(0.6)
        assert not play.transport.is_closing()
        assert play.advance(0.3) == []
        assert play.transport.is_closing()
    assert len(caplog.messages) == 3, "each refusal is said once, and the end is not news"


# --- inactivity ----------------------------------------------------------------------------------------

WATCHFUL = Preferences(inactivity_ms=3000, inactivity_initial_delay_ms=1000)


def test_idle_peer_gets_a_keep_alive_at_every_write_check(stage: Director) -> None:
    play = stage(wants=WATCHFUL)
    play.log_in()
    heard = []
    for tenth in range(1, 65):
        for event in play.advance(0.1):
            assert isinstance(event, commands.KeepAliveInfo)
            assert (event.command_id, event.response_required) == (0, False)
            heard.append(tenth / 10)
    assert [round(time) for time in heard] == [2, 3, 4, 5, 6]


def test_silent_peer_is_told_and_closed_two_periods_after_the_first_check(
    stage: Director, caplog: pytest.LogCaptureFixture
) -> None:
    play = stage(wants=WATCHFUL)
    play.log_in()
    play.advance(6.9)
    assert not play.transport.is_closing()
    *_, last = play.advance(0.2)
    assert isinstance(last, commands.ConnectionError)
    assert play.transport.is_closing()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("peer 192.0.2.7:4711 closed: nothing was heard from it for ")


def test_single_bytes_are_signs_of_life(stage: Director) -> None:
    play = stage(wants=WATCHFUL)
    play.log_in()
    for byte in as_bytes(commands.KeepAliveInfo()):
        play.peer.data_received(bytes((byte,)))
        play.advance(5)
    assert not play.transport.is_closing()


def as_bytes(command: Structure) -> bytes:
    return Codec(WireFormat()).encode(command)


@pytest.mark.parametrize("wants", [Preferences(inactivity_ms=0), replace(WATCHFUL, inactivity_ms=0)])
def test_no_monitor_where_one_side_says_0(stage: Director, wants: Preferences) -> None:
    play = stage(wants=wants)
    play.log_in()
    assert play.advance(10_000) == []
    assert not play.transport.is_closing()


def test_keep_alive_that_asks_for_an_answer_gets_itself_back(stage: Director) -> None:
    play = stage()
    play.log_in()
    answers = play.say(commands.KeepAliveInfo(command_id=77, response_required=True))
    assert answers == [commands.KeepAliveInfo(command_id=77, response_required=False)]


# --- back-pressure -------------------------------------------------------------------------------------

SMALL = Settings(connection=ConnectionSettings(write_pause_bytes=4096, read_pause_bytes=8192))


def ping(command_id: int) -> commands.KeepAliveInfo:
    return commands.KeepAliveInfo(command_id=command_id, response_required=True)


def test_peer_that_does_not_read_is_not_read_from_beyond_the_limit(stage: Director) -> None:
    play = stage(settings=SMALL, wants=Preferences(inactivity_ms=0))
    play.log_in()
    play.transport.stuck = True
    sent = 0
    while play.transport.is_reading():
        sent += 1
        play.say(ping(sent))
    assert play.transport.get_write_buffer_size() > 8192
    assert sent < 1000
    play.transport.client_reads()
    assert play.transport.is_reading()
    assert play.say(ping(9999)) == [commands.KeepAliveInfo(command_id=9999)]


def test_read_pause_equal_to_write_pause_ends_too(stage: Director) -> None:
    # At exactly the limit the transport has not paused, so it would never say that it has resumed.
    settings = Settings(connection=ConnectionSettings(write_pause_bytes=4096, read_pause_bytes=4096))
    play = stage(settings=settings, wants=Preferences(inactivity_ms=0))
    play.log_in()
    play.transport.pile_up(4096 - len(as_bytes(ping(1))))
    play.say(ping(1))
    assert play.transport.get_write_buffer_size() == 4096
    play.transport.client_reads()
    assert play.transport.is_reading()


def test_paused_peer_is_not_taken_for_dead(stage: Director) -> None:
    play = stage(settings=SMALL, wants=WATCHFUL)
    play.log_in()
    play.transport.stuck = True
    sent = 0
    while play.transport.is_reading():
        sent += 1
        play.say(ping(sent))
    play.advance(1000)
    assert not play.transport.is_closing()
    play.transport.client_reads()
    play.advance(10)
    assert play.transport.is_closing(), "from then on silence counts again"


def test_messages_wait_in_the_broker_while_the_peer_does_not_read(stage: Director) -> None:
    play = stage(settings=SMALL, wants=Preferences(inactivity_ms=0))
    play.log_in()
    destination = commands.ActiveMQQueue("q")
    consumer = commands.ConsumerId("a", -1, 1)
    play.say(commands.ConsumerInfo(consumer_id=consumer, destination=destination, prefetch_size=100_000))
    play.transport.stuck = True
    before = len(play.transport.written)
    producer = commands.ProducerId("a", 1, -1)
    for sequence in range(1, 201):
        message_id = commands.MessageId(producer_id=producer, producer_sequence_id=sequence)
        message = commands.ActiveMQBytesMessage(
            producer_id=producer, destination=destination, message_id=message_id, content=bytes(1000)
        )  # fmt: skip
        play.client.send(message)
    play.peer.data_received(b"".join(play.client.data_to_send()))
    play.turn()
    assert len(play.transport.written) - before < 4096 + 2 * 1300
    play.transport.client_reads()
    received = [event for event in play.hear() if isinstance(event, commands.MessageDispatch)]
    while len(received) < 200 and (more := play.hear()):
        received += [event for event in more if isinstance(event, commands.MessageDispatch)]
    sequences = [dispatch.message.message_id.producer_sequence_id for dispatch in received if _complete(dispatch)]  # type: ignore[union-attr]
    assert sequences == list(range(1, 201))


def _complete(dispatch: commands.MessageDispatch) -> bool:
    return dispatch.message is not None and dispatch.message.message_id is not None


# --- the end -------------------------------------------------------------------------------------------


def test_end_in_the_middle_of_a_frame_is_one_line_in_the_log(stage: Director, caplog: pytest.LogCaptureFixture) -> None:
    play = stage()
    play.log_in()
    play.peer.data_received(b"\0\0\0\x10\x0a")
    play.peer.eof_received()
    assert play.transport.is_closing()
    assert caplog.messages == ["peer 192.0.2.7:4711 closed: it left 5 bytes into a frame"]


def test_end_between_frames_is_not_worth_a_line(stage: Director, caplog: pytest.LogCaptureFixture) -> None:
    play = stage()
    with no_log(caplog):
        play.log_in()
        play.peer.eof_received()
        play.peer.connection_lost(None)
    assert play.peers == set()
    assert play.gate.count == 0


def test_end_before_an_auto_listener_knows_the_protocol_is_one_line(
    stage: Director, caplog: pytest.LogCaptureFixture
) -> None:
    play = stage(uri="auto://127.0.0.1:0")
    play.peer.data_received(b"\0\0")
    play.peer.eof_received()
    assert caplog.messages == ["peer 192.0.2.7:4711 closed: it left after 2 bytes that name no protocol"]


def test_protocol_is_finished_by_an_end_in_the_middle_of_a_frame() -> None:
    protocol = OpenWireProtocol(Preferences())
    protocol.receive_data(b"\0\0")
    assert list(protocol.events()) == []
    with pytest.raises(RemoteProtocolError):
        protocol.receive_eof()
    protocol.receive_data(b"\0\x01\0")
    assert list(protocol.events()) == []
    protocol.receive_eof()


def test_nothing_is_taken_from_a_closed_peer(stage: Director, caplog: pytest.LogCaptureFixture) -> None:
    play = stage()
    play.log_in()
    play.say(commands.ConnectionInfo(connection_id=commands.ConnectionId("a"), client_id="again"))
    assert play.transport.is_closing()
    before = bytes(play.transport.written)
    play.peer.data_received(b"\xff" * 100)
    play.turn()
    assert bytes(play.transport.written) == before
    assert len(caplog.messages) == 1


def test_connection_over_the_limit_is_aborted_and_does_not_count(
    stage: Director, caplog: pytest.LogCaptureFixture
) -> None:
    gate = ConnectionGate(1)
    stage(gate=gate)
    refused = stage(gate=gate)
    assert refused.transport.aborted
    refused.peer.connection_lost(None)
    assert gate.count == 1
    assert caplog.messages == ["peer 192.0.2.7:4711 refused: tcp://127.0.0.1:0 has 1 connections, its limit"]


@pure_only
def test_error_of_our_own_ends_this_connection_only_and_is_loud(
    stage: Director, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stage(wants=Preferences(inactivity_ms=0))
    one.log_in("one")
    other = stage(wants=Preferences(inactivity_ms=0), broker=one.broker)
    other.log_in("other")

    def fall_over(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Broker, "add_destination", fall_over)
        one.say(commands.DestinationInfo(destination=commands.ActiveMQQueue("q")))
    assert one.transport.is_closing()
    (record,) = caplog.records
    assert record.exc_info is not None
    assert other.say(ping(5)) == [commands.KeepAliveInfo(command_id=5)]


def test_wire_format_info_a_second_time_is_refused(stage: Director) -> None:
    play = stage()
    play.log_in()
    (answer,) = play.say(offer(Preferences()))
    assert isinstance(answer, commands.ConnectionError)
    assert play.transport.is_closing()


# --- commands that take long ---------------------------------------------------------------------------


class TickingClock(ManualClock):
    """Each look at it takes a millisecond, as if work had been done since the last."""

    def __init__(self) -> None:
        super().__init__()
        self._ticks = 0

    def monotonic(self) -> float:
        self._ticks += 1
        return super().monotonic() + self._ticks / 1000


def busy_stage(stage: Director) -> tuple[Stage, TickingClock]:
    """A peer whose commands take long, and the clock that its broker has."""
    clock = TickingClock()
    editor = OpenWireEditor("ID:test", "test", clock)
    play = stage(broker=Broker(clock=clock, store=MemoryStore(), editor=editor, settings=Settings()))
    play.log_in()
    return play, clock


def sessions(count: int) -> list[Structure]:
    return [
        commands.SessionInfo(
            command_id=100 + number, response_required=True, session_id=commands.SessionId("a", number + 1)
        )
        for number in range(count)
    ]


def answered(events: list[Event]) -> list[int]:
    return [it.correlation_id for it in events if isinstance(it, commands.Response)]


def test_commands_that_take_long_are_carried_out_in_turns_and_in_order(stage: Director) -> None:
    play, clock = busy_stage(stage)
    first = answered(play.say(*sessions(100)))
    assert 0 < len(first) < 50, "others have their turn"
    assert not play.transport.is_reading(), "what it sends meanwhile waits"
    heard = first
    while not play.transport.is_reading():
        clock.advance(0)
        heard += answered(play.hear())
    assert heard == list(range(100, 200))
    assert answered(play.say(*sessions(1))) == [100]


def test_commands_that_take_long_give_way_sooner_when_others_wait(stage: Director) -> None:
    def carried_out_at_once(events: list[tuple[int, int]]) -> int:
        play, _ = busy_stage(stage)
        play.their_turn.peek = lambda: events
        return len(answered(play.say(*sessions(100))))

    alone = carried_out_at_once([])
    assert carried_out_at_once([(-1, 1)]) == alone, "its own socket"
    assert 0 < carried_out_at_once([(-1, 1), (7, 1)]) < alone


def test_what_comes_while_commands_wait_comes_behind_them(stage: Director) -> None:
    play, clock = busy_stage(stage)
    heard = answered(play.say(*sessions(100)))
    late = commands.SessionInfo(command_id=7, response_required=True, session_id=commands.SessionId("a", 1000))
    heard += answered(play.say(late))  # as TLS may hand it over though it was asked to pause
    while not play.transport.is_reading():
        clock.advance(0)
        heard += answered(play.hear())
    assert heard == [*range(100, 200), 7]


@pytest.mark.parametrize("says_goodbye", [False, True])
def test_what_a_client_sent_before_it_left_is_carried_out(stage: Director, says_goodbye: bool) -> None:
    play, _ = busy_stage(stage)
    play.say(*sessions(100))
    [connection] = play.broker.connections()
    if says_goodbye:
        play.peer.eof_received()
    else:
        play.peer.connection_lost(None)
    assert len(connection.sessions) >= 100


def test_a_mistake_among_commands_that_wait_ends_the_connection(stage: Director) -> None:
    play, clock = busy_stage(stage)
    play.say(*sessions(100), connection_info())
    for _ in range(100):
        clock.advance(0)
        play.turn()
    assert play.transport.is_closing()


# --- the same connection id again ----------------------------------------------------------------------


def come_back(play: Stage, old: Stage) -> None:
    """The client of *old* logs in again on *play*, and goes on at once."""
    play.say()
    session = commands.SessionInfo(command_id=2, response_required=True, session_id=commands.SessionId("a", 1))
    assert play.say(connection_info(), session) == []
    assert not play.transport.is_reading()
    assert [type(it) for it in old.hear()] == [commands.KeepAliveInfo]


def test_J4_login_waits_for_an_old_connection_that_does_not_answer_and_goes_on_behind_it(stage: Director) -> None:
    old = stage()
    old.log_in()
    play = stage(broker=old.broker)
    come_back(play, old)
    old.advance(1.9)
    assert (old.transport.is_closing(), play.hear()) == (False, [])
    old.advance(0.2)
    assert old.transport.is_closing()
    assert [answer.correlation_id for answer in play.advance(0) if isinstance(answer, commands.Response)] == [1, 2]
    assert play.transport.is_reading()


def test_login_is_refused_when_the_old_connection_says_something(stage: Director) -> None:
    old = stage()
    old.log_in()
    play = stage(broker=old.broker)
    come_back(play, old)
    old.say(commands.KeepAliveInfo())
    old.advance(1)
    assert not old.transport.is_closing()
    (refused,) = play.hear()
    assert isinstance(refused, commands.ExceptionResponse)


def test_J4_login_goes_on_when_the_old_connection_ends(stage: Director) -> None:
    old = stage()
    old.log_in()
    play = stage(broker=old.broker)
    come_back(play, old)
    old.peer.connection_lost(None)
    old.advance(0)
    assert play.peer in play.peers
    play.advance(0)
    assert play.transport.is_reading()


def test_client_that_leaves_while_its_login_waits_leaves_the_old_connection_alone(stage: Director) -> None:
    old = stage()
    old.log_in()
    play = stage(broker=old.broker)
    come_back(play, old)
    play.peer.connection_lost(None)
    old.advance(5)
    assert not old.transport.is_closing()


# --- a large commit takes several turns -----------------------------------------------------------------


LARGE = 5


def small_slices(play: Stage) -> Broker:
    """A broker for which a transaction of three sends is a large one."""
    return Broker(
        clock=play.clock,
        store=MemoryStore(),
        editor=OpenWireEditor("ID:test", "test", play.clock),
        settings=Settings(),
        slice_units=2,
    )


def large_commit_and_a_send() -> list[Structure]:
    """A transaction with many sends, its commit, and a send behind it that belongs to no transaction."""
    transaction = commands.LocalTransactionId(1, commands.ConnectionId("a"))
    begin, commit = (
        commands.TransactionInfo(
            command_id=number, response_required=True, connection_id=commands.ConnectionId("a"),
            transaction_id=transaction, type=kind,
        )
        for number, kind in ((10, commands.TransactionType.BEGIN), (11, commands.TransactionType.COMMIT_ONE_PHASE))
    )  # fmt: skip
    sends = [_send(number, transaction) for number in range(1, LARGE + 1)]
    behind = _send(LARGE + 1, None, command_id=12, response_required=True)
    session = commands.SessionInfo(session_id=commands.SessionId("a", 1))
    return [session, commands.ProducerInfo(producer_id=_PRODUCER), begin, *sends, commit, behind]


_PRODUCER = commands.ProducerId("a", 1, 1)


def _send(number: int, transaction: commands.TransactionId | None, **fields: Any) -> commands.Message:
    return commands.ActiveMQMessage(
        producer_id=_PRODUCER,
        message_id=commands.MessageId(producer_id=_PRODUCER, producer_sequence_id=number),
        destination=commands.ActiveMQQueue("q"),
        transaction_id=transaction,
        persistent=True,
        **fields,
    )


def _counts(broker: Broker) -> list[int]:
    """The counts of the messages that wait in the queue, in their order."""
    queue = broker.registry.needed_queue(destination(Kind.QUEUE, "q"))
    return [it.producer_count for it in contents(queue)]


def _answered(events: list[Event]) -> list[int]:
    assert all(type(it) is commands.Response for it in events), events
    return [it.correlation_id for it in events if isinstance(it, commands.Response)]


@pytest.fixture
def sliced(stage: Director) -> Stage:
    play = stage(broker=small_slices(stage()))
    play.log_in()
    return play


def test_H1_send_behind_a_large_commit_waits_for_it(sliced: Stage) -> None:
    clock = sliced.broker.clock
    assert isinstance(clock, ManualClock)
    assert _answered(sliced.say(*large_commit_and_a_send())) == [10]
    assert (_counts(sliced.broker), sliced.transport.is_reading()) == ([], False)
    clock.advance(0)
    sliced.clock.advance(0)
    assert _answered(sliced.hear()) == [11, 12]
    assert _counts(sliced.broker) == list(range(1, LARGE + 2))
    assert sliced.transport.is_reading()


def test_N2_client_that_goes_in_the_middle_of_a_large_commit_has_committed_and_sent_all_the_same(sliced: Stage) -> None:
    clock = sliced.broker.clock
    assert isinstance(clock, ManualClock)
    sliced.say(*large_commit_and_a_send())
    sliced.peer.connection_lost(None)
    assert sliced.peer in sliced.peers
    clock.advance(0)
    sliced.clock.advance(0)
    assert _counts(sliced.broker) == list(range(1, LARGE + 2))
    assert (sliced.peers, sliced.broker.connections()) == (set(), [])


def test_peer_that_is_closed_in_the_middle_of_a_large_commit_is_let_go(sliced: Stage) -> None:
    clock = sliced.broker.clock
    assert isinstance(clock, ManualClock)
    sliced.say(*large_commit_and_a_send())
    sliced.peer.connection_lost(None)
    sliced.peer.shut_down()
    clock.advance(0)
    sliced.clock.advance(0)
    assert (_counts(sliced.broker), sliced.peers, sliced.broker.connections()) == ([], set(), [])


@pytest.mark.parametrize("last", ["a = 1", "a ="])
def test_consumer_with_a_long_selector_is_added_in_later_turns_and_what_is_behind_it_waits(
    sliced: Stage, last: str
) -> None:
    clock = sliced.broker.clock
    assert isinstance(clock, ManualClock)
    consumer = commands.ConsumerInfo(
        command_id=10,
        response_required=True,
        consumer_id=commands.ConsumerId("a", 1, 1),
        destination=commands.ActiveMQQueue("q"),
        selector=" OR ".join(["a = 1"] * 500 + [last]),
        prefetch_size=1,
    )
    session = commands.SessionInfo(session_id=commands.SessionId("a", 1))
    behind = commands.ProducerInfo(command_id=11, response_required=True, producer_id=_PRODUCER)
    assert sliced.say(session, consumer, behind) == []
    clock.advance(0)
    sliced.clock.advance(0)
    answers = [(type(it), it.correlation_id) for it in sliced.hear() if isinstance(it, commands.Response)]
    is_valid = last == "a = 1"
    assert answers == [(commands.Response if is_valid else commands.ExceptionResponse, 10), (commands.Response, 11)]
    assert sliced.broker.consumer_count(destination(Kind.QUEUE, "q")) == is_valid
