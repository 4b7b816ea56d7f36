"""Keep-alives and dead peers in real time (SEMANTICS J3, openwire.md §5).

The times here are the protocol's own, and short; `tests/unit/wire/test_inactivity.py` has the exact ones. Upper limits
are never tighter than the agreed time, so a slow machine does not fail them; lower limits hold on any machine.
"""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import KeepAliveInfo
from ackwire.wire.openwire.negotiation import Preferences
from tests.helpers.openwire_client import OpenWireClient, Scene, frame, queue, scene, topic, unique
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

PERIOD_SECONDS = 2.0
INITIAL_DELAY_SECONDS = 0.5
WATCHED = Preferences(inactivity_ms=30_000, inactivity_initial_delay_ms=10_000)  # the broker's smaller values count


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    times = "wireFormat.maxInactivityDuration=2000&wireFormat.maxInactivityDurationInitalDelay=500"
    log_path = tmp_path_factory.mktemp("broker") / "broker.log"
    with running_broker([f"tcp://127.0.0.1:0?{times}"], log_path=log_path) as running:
        yield running


@pytest.fixture
def stage(broker: RunningBroker) -> Iterator[Scene]:
    with scene(broker) as stage:
        yield stage


def keep_alive_times(client: OpenWireClient, count: int) -> list[float]:
    """When each of the next *count* keep-alives came; each is answered with one, which is all that the client says."""
    times = []
    for _ in range(count):
        info = client.wait_for(KeepAliveInfo)
        times.append(time.monotonic())
        assert (info.command_id, info.response_required) == (0, False)
        client.send(KeepAliveInfo())
    return times


def longest_gap(times: list[float]) -> float:
    return max(later - earlier for earlier, later in pairwise(times))


def test_keep_alives_alone_keep_an_idle_connection(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port, WATCHED) as client:
        start = time.monotonic()
        times = [start]
        while times[-1] - start < 3.5 * PERIOD_SECONDS:  # longer than any silence is forgiven
            times += keep_alive_times(client, 1)
        assert longest_gap(times) <= PERIOD_SECONDS + INITIAL_DELAY_SECONDS
        client.ping()
        assert not [event for event in client.take_events() if not isinstance(event, KeepAliveInfo)]
        client.log_out()
    assert stage.log_about(client) == []


def test_silent_client_is_told_and_dropped_after_two_to_three_times_the_agreed_time(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port, WATCHED) as client:
        client.ping()
        last_byte = time.monotonic()
        *_, last = client.read_until_closed()
        assert time.monotonic() - last_byte >= 2 * PERIOD_SECONDS
        assert isinstance(last, commands.ConnectionError)
        stage.expect_line(client, "nothing was heard from it for ")


def test_silent_stranger_is_dropped_too(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port, WATCHED) as client:
        client.handshake()
        *_, last = client.read_until_closed()
        assert isinstance(last, commands.ConnectionError)
        stage.expect_line(client, "nothing was heard from it for ")


def test_messages_of_a_dropped_client_go_to_another(stage: Scene) -> None:
    destination = queue(unique("inherited"))
    with OpenWireClient.logged_in(stage.port, WATCHED) as dead, OpenWireClient.logged_in(stage.port) as heir:
        dead.subscribe(destination)
        dead.send_text(destination, "still to do")
        dead.receive()
        heir.subscribe(destination)
        dispatch = heir.receive()
        assert dispatch.redelivery_counter == 1
        stage.expect_line(dead, "nothing was heard from it for ")


def test_any_command_is_a_sign_of_life(stage: Scene) -> None:
    destination = queue(unique("alive"))
    with OpenWireClient.logged_in(stage.port, WATCHED) as client:
        start = time.monotonic()
        while time.monotonic() - start < 3.5 * PERIOD_SECONDS:
            client.wait_for(KeepAliveInfo)  # only to pass the time
            client.send_text(destination, "alive", wait=False)
        client.ping()


def test_client_that_wants_no_monitor_has_none(stage: Scene) -> None:
    with (
        OpenWireClient.logged_in(stage.port) as unwatched,
        OpenWireClient.logged_in(stage.port, WATCHED) as watched,
    ):
        watched.read_until_closed()  # as long as it takes to drop somebody
        unwatched.ping()
        assert unwatched.take_events() == []


def test_keep_alive_that_asks_for_an_answer_is_echoed(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port, WATCHED) as client:
        client.send(KeepAliveInfo(command_id=4711, response_required=True))
        echo = client.wait_for(KeepAliveInfo, lambda info: info.command_id != 0)
        assert echo == KeepAliveInfo(command_id=4711, response_required=False)
        client.ping()
        assert not [event for event in client.take_events() if isinstance(event, commands.Response)]


class Flood:
    """Messages from a connection of its own, as fast as the broker takes them, for as long as the block lasts."""

    def __init__(self, port: int) -> None:
        self.batches = 0
        self._client = OpenWireClient.logged_in(port)
        destination = topic(unique("flood"))
        texts = (self._client.text_message(destination, "x" * 200) for _ in range(500))
        self._batch = b"".join(map(frame, texts))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flood")

    def _run(self) -> None:
        while not self._over.is_set():
            self._client.send_bytes(self._batch)
            self.batches += 1

    def __enter__(self) -> "Flood":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.ping()
        self._client.close()


def test_flood_from_others_delays_no_keep_alive(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port, WATCHED) as client, Flood(stage.port) as flood:
        start = time.monotonic()
        times = [start]
        while times[-1] - start < 3.5 * PERIOD_SECONDS:
            times += keep_alive_times(client, 1)
            stage.bystander.work(1)
        assert flood.batches > 10
        assert longest_gap(times) <= PERIOD_SECONDS + INITIAL_DELAY_SECONDS
        client.ping()
    assert stage.log_about(client) == []


def test_flood_from_others_saves_no_dead_peer_and_kills_no_living_one(stage: Scene) -> None:
    with (
        OpenWireClient.logged_in(stage.port, WATCHED) as dead,
        OpenWireClient.logged_in(stage.port, WATCHED) as living,
        Flood(stage.port),
    ):
        answering = threading.Thread(target=keep_alive_times, args=(living, 6), name="living")
        answering.start()
        *_, last = dead.read_until_closed()
        answering.join()
        assert isinstance(last, commands.ConnectionError)
        living.ping()
    stage.expect_line(dead, "nothing was heard from it for ")
