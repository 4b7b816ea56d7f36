"""Peers on the broker's own loop, with real sockets: they are read from without asyncio, which does the rest."""

import socket
from collections.abc import Iterator

import pytest

from ackwire.broker.broker import Broker
from ackwire.broker.queue import Queue
from ackwire.config import LimitSettings, Settings
from ackwire.config.listener_uri import parse_listener_uri
from ackwire.jms.destinations import parse_destination
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.server.asyncio_protocol import AsyncioEnd
from ackwire.server.listener import ConnectionGate
from ackwire.server.loop import TurnLoop
from ackwire.server.peer import Peer
from ackwire.server.protocols import BUILT_IN
from ackwire.server.turn import RECEIVE_BYTES, Turn
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import Clock, ManualClock, SystemClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from tests.helpers.compilation import pure_only
from tests.helpers.openwire_client import frame
from tests.helpers.turns import run_turns


class Place:
    """A broker on a loop of its own."""

    def __init__(self, settings: Settings | None = None, clock: Clock | None = None) -> None:
        self.settings = settings or Settings()
        self.loop = TurnLoop()
        self.turn = Turn(self.loop)
        self.peers: set[Peer] = set()
        self.clients: list[Client] = []
        self.clock = clock or SystemClock()
        editor = OpenWireEditor("ID:test", "test", self.clock)
        self.broker = Broker(clock=self.clock, store=MemoryStore(), editor=editor, settings=self.settings)

    def run(self) -> None:
        run_turns(self.loop)

    def close(self) -> None:
        for peer in tuple(self.peers):
            peer.abort()
        self.run()
        self.loop.close()
        for client in self.clients:
            client.socket.close()


class Client:
    """A client of that broker, at the other end of a pair of sockets."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        place.clients.append(self)
        self.broker_end, self.socket = socket.socketpair()
        self.socket.setblocking(False)
        self._protocol = OpenWireProtocol(Preferences(inactivity_ms=0))
        place.loop.run_until_complete(self._connect())
        self.say()
        self.hear()
        self.say(commands.ConnectionInfo(connection_id=commands.ConnectionId(name), client_id=name))

    async def _connect(self) -> None:
        place = self._place
        self.peer = Peer(
            broker=place.broker,
            clock=place.clock,
            settings=place.settings,
            uri=parse_listener_uri("tcp://127.0.0.1:0"),
            gate=ConnectionGate(1),
            peers=place.peers,
            turn=place.turn,
            protocols=BUILT_IN,
        )
        end = AsyncioEnd(self.peer)
        await place.loop.connect_accepted_socket(lambda: end, self.broker_end)

    def say(self, *what: Structure) -> None:
        for it in what:
            self._protocol.send(it)
        self.socket.sendall(b"".join(self._protocol.data_to_send()))

    def hear(self) -> list[object]:
        """What the broker has said, a few turns later."""
        self._place.run()
        try:
            self._protocol.receive_data(self.socket.recv(1 << 16))
        except BlockingIOError:
            return []
        heard: list[object] = []
        for event in self._protocol.events():
            if isinstance(event, Agreement):
                self._protocol.login_finished()
            heard.append(event)
        return heard


PING = commands.KeepAliveInfo(command_id=5, response_required=True)
PONG = commands.KeepAliveInfo(command_id=5)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.close()


def test_clients_are_answered(place: Place) -> None:
    clients = [Client(place, name) for name in "ab"]
    for client in clients:
        client.say(PING)
    assert [client.hear()[-1] for client in clients] == [PONG, PONG]


def test_a_peer_that_is_held_by_what_was_read_before_it_waits(place: Place) -> None:
    """Epoll reports both at once, the first one first."""
    client = Client(place, "a")
    client.hear()
    ours, theirs = socket.socketpair()

    def hold() -> bool:
        ours.recv(1)
        client.peer.hold(True)
        return True

    place.loop.add_reader(ours, lambda: None)
    place.turn.read_from(ours.fileno(), hold)
    theirs.send(b"x")
    client.say(PING)
    while_held = client.hear()
    client.peer.hold(False)
    assert (while_held, client.hear()) == ([], [PONG])
    place.loop.remove_reader(ours)
    ours.close()
    theirs.close()


def test_the_end_of_a_connection_is_seen_and_the_next_may_have_its_number(place: Place) -> None:
    first = Client(place, "a")
    first.hear()
    number = first.broker_end.fileno()
    first.socket.close()
    place.run()
    assert not place.peers
    second = Client(place, "b")
    second.say(PING)
    assert second.broker_end.fileno() == number
    assert second.hear()[-1] == PONG


def test_what_was_said_before_the_end_is_heard(place: Place) -> None:
    client = Client(place, "a")
    client.say(PING)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.hear()[-1] == PONG
    assert not place.peers


@pure_only
def test_a_peer_that_cannot_be_closed_in_order_is_closed_all_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its socket would be readable for ever, with nobody to read from it."""
    client = Client(place, "a")
    client.hear()

    def fall_over(_: OpenWireAdapter) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(OpenWireAdapter, "connection_lost", fall_over)
        client.socket.sendall(b"\0\0\0\1\xff")  # no command has this number
        place.run()
    client.socket.shutdown(socket.SHUT_WR)
    place.run()
    assert not place.peers
    assert "a bug" in caplog.text


def test_a_peer_knows_what_its_client_has_got(place: Place) -> None:
    client, known = Client(place, "a"), list[tuple[str, bool]]()

    def note(when: str) -> None:
        known.append((when, client.peer.has_received_all))

    client.hear()
    note("all is read")
    client.peer.flush_soon()
    note("something is about to be written")
    client.say(PING)
    place.run()
    note("it is on its way")
    assert client.hear() == [PONG]
    note("it is read")
    assert [it for it, has_heard in known if has_heard] == ["all is read", "it is read"]


_LEAVING = 6
_CROWD = 100
"""More than may wait for room before it is crowded."""
_MIB = 1024 * 1024
_FRAME_BYTES = 200 * 1024
_SMALL_LANE_BYTES = _MIB // 4
"""One frame of that size has room."""


class Room:
    """Clients that send a large frame each and hang up, at a broker with room for one such frame, which another has."""

    def __init__(self, *, declared_bytes: int) -> None:
        self.clock = ManualClock()
        self.place = Place(Settings(limits=LimitSettings(receive_bytes_max=_MIB)), self.clock)
        holder = Client(self.place, "holder")
        holder.hear()
        holder.socket.sendall(_message("holder", _SMALL_LANE_BYTES)[:RECEIVE_BYTES])
        self.clients = [Client(self.place, f"c{number}") for number in range(_LEAVING)]
        for client in self.clients:
            client.hear()
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _FRAME_BYTES)
        self.most_bytes = 0
        for number, client in enumerate(self.clients):
            client.socket.sendall(_message(f"c{number}", declared_bytes)[: _FRAME_BYTES + 4])
            client.socket.close()

    def run(self) -> None:
        """Until all have gone, or a few minutes have passed."""
        for _ in range(300):
            for _ in range(40):
                run_turns(self.place.loop, 1)
                self.most_bytes = max(self.most_bytes, sum(map(_waiting_bytes, self.place.peers)))
            if self.all_have_left:
                break
            self.clock.advance(1)
        assert self.all_have_left
        self.place.close()

    @property
    def all_have_left(self) -> bool:
        return self.place.peers.isdisjoint(client.peer for client in self.clients)


def _message(connection_id: str, size_bytes: int) -> bytes:
    producer = commands.ProducerId(connection_id, 1, -1)
    message = commands.ActiveMQBytesMessage(
        producer_id=producer,
        message_id=commands.MessageId(producer_id=producer, producer_sequence_id=1),
        destination=commands.ActiveMQQueue("q"),
        content=b"",
    )
    rest = size_bytes - (len(frame(message)) - 4)
    message.content = bytes(rest)
    made = frame(message)
    assert len(made) == size_bytes + 4
    return made


def _waiting_bytes(peer: Peer) -> int:
    protocol = peer._protocol
    return protocol._buffer.waiting_bytes if isinstance(protocol, OpenWireProtocol) else 0


@pure_only
def test_clients_that_hang_up_together_in_the_middle_of_a_frame_pass_no_bound() -> None:
    room = Room(declared_bytes=_MIB // 2)
    room.run()
    assert room.most_bytes <= _FRAME_BYTES + (_LEAVING + 1) * RECEIVE_BYTES


@pure_only
def test_N2_whole_frames_of_clients_that_have_hung_up_are_taken_when_there_is_room() -> None:
    room = Room(declared_bytes=_FRAME_BYTES)
    room.run()
    where = parse_destination("queue://q")
    queue = room.place.broker.registry.router.get(where)
    assert isinstance(queue, Queue)
    assert queue.view.pending_count == _LEAVING


@pure_only
def test_little_is_read_of_a_large_frame_while_very_many_wait_for_room() -> None:
    place = Place(Settings(limits=LimitSettings(receive_bytes_max=_MIB)))
    crowd = [Client(place, f"c{number}") for number in range(_CROWD)]
    for number, client in enumerate(crowd):
        client.hear()
        client.socket.sendall(_message(f"c{number}", _MIB)[:RECEIVE_BYTES])
        client.hear()
    kept = [_waiting_bytes(client.peer) for client in crowd]
    assert sum(it > 4096 for it in kept) < _CROWD * 3 // 4, "the last ones are read a little of"
    assert kept[-1] == 4096
    other = Client(place, "other")
    other.hear()
    other.say(PING)
    assert other.hear()[-1] == PONG
    crowd[0].socket.close()  # it had the room
    place.run()
    assert _waiting_bytes(crowd[1].peer) >= RECEIVE_BYTES
    place.close()
