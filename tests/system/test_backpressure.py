"""Clients that do not read: they cost a bounded amount of memory, and nobody else anything."""

import select
import threading
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import TIMEOUT_SECONDS, OpenWireClient, Scene, queue, scene, text_of, topic, unique
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

KIB = 1024
MIB = 1024 * KIB

TOPIC_PENDING_BYTES_MAX = MIB
CONFIG = f"""
[connection]
write_pause_bytes = "256 KiB"
read_pause_bytes = "1 MiB"
[destinations]
topic_pending_bytes_max = {TOPIC_PENDING_BYTES_MAX}
[log]
level = "warning"
"""
RECEIVE_BUFFER_BYTES = 64 * KIB
ALLOWANCE_BYTES = 16 * MIB
"""What a stuck client may cost: its output up to the limit, several times over for copies and the allocator."""

SETTLING_ROUNDS = 150
"""Rounds of the bystander, each several turns of the broker's loop: enough for an unlimited broker to write it all."""

BODY_BYTES = 20_000
BATCH_COUNT = 20  # less than may wait for a topic subscriber, so that one that reads misses nothing
BACKLOG_COUNT = 3000
"""60 MB: far above the allowance, so that a broker that buffers for a stuck client is found out."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    config = folder / "ackwire.toml"
    config.write_text(CONFIG)
    options = ("--config", str(config))
    with running_broker(["tcp://127.0.0.1:0"], log_path=folder / "broker.log", options=options) as running:
        yield running


@pytest.fixture
def stage(broker: RunningBroker) -> Iterator[Scene]:
    with scene(broker) as stage:
        yield stage


def memory_bytes(broker: RunningBroker) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def body(number: int) -> str:
    return f"{number} ".ljust(BODY_BYTES, "x")


def number_in(dispatch: commands.MessageDispatch) -> int:
    return int((text_of(dispatch) or "").partition(" ")[0])


def send_numbered(client: OpenWireClient, destination: commands.ActiveMQDestination, count: int) -> None:
    """Messages 0 to *count*; the broker has taken them all when this returns."""
    for start in range(0, count, 100):
        client.send_text(destination, *map(body, range(start, min(start + 100, count))))


def stuck_consumer(port: int, destination: commands.ActiveMQDestination) -> tuple[OpenWireClient, commands.ConsumerId]:
    """A consumer that would take everything, and reads nothing until it is asked to."""
    client = OpenWireClient.logged_in(port, receive_buffer_bytes=RECEIVE_BUFFER_BYTES)
    info = client.consumer_info(destination, prefetch_size=1_000_000)
    client.tell(info)
    assert info.consumer_id is not None
    return client, info.consumer_id


def wait_until_known(stage: Scene) -> None:
    """The broker has handled all that was sent so far, by whomever: it has answered somebody who asked later."""
    stage.bystander.work(2)


# --- a consumer that does not read ---------------------------------------------------------------------


def test_stuck_queue_consumer_costs_little_and_gets_everything_in_order_later(stage: Scene) -> None:
    destination = queue(unique("backlog"))
    with OpenWireClient.logged_in(stage.port) as producer:
        send_numbered(producer, destination, BACKLOG_COUNT)
        before = memory_bytes(stage.broker)
        client, consumer = stuck_consumer(stage.port, destination)
        with client:
            wait_until_known(stage)
            stage.bystander.work(SETTLING_ROUNDS)
            assert memory_bytes(stage.broker) - before < ALLOWANCE_BYTES
            dispatches = [client.receive(consumer) for _ in range(BACKLOG_COUNT)]
            assert [number_in(dispatch) for dispatch in dispatches] == list(range(BACKLOG_COUNT))
            client.ack(dispatches[-1], count=BACKLOG_COUNT)
            client.ping()
            assert client.take_events() == []


def test_messages_of_a_stuck_queue_consumer_pass_to_another_when_it_leaves(stage: Scene) -> None:
    destination = queue(unique("passed-on"))
    with OpenWireClient.logged_in(stage.port) as heir:
        send_numbered(heir, destination, 500)
        client, _ = stuck_consumer(stage.port, destination)
        wait_until_known(stage)
        client.close()
        consumer = heir.subscribe(destination)
        numbers = [number_in(heir.receive(consumer)) for _ in range(500)]
        assert sorted(numbers) == list(range(500)), "all of them, whenever the broker notices that the other has gone"


def test_stuck_queue_consumer_does_not_starve_another_of_the_same_queue(stage: Scene) -> None:
    destination = queue(unique("shared"))
    client, _ = stuck_consumer(stage.port, destination)
    with client, OpenWireClient.logged_in(stage.port) as other:
        wait_until_known(stage)
        consumer = other.subscribe(destination, prefetch_size=1_000_000)
        with OpenWireClient.logged_in(stage.port) as producer:
            reading = _Reader(other, consumer, BACKLOG_COUNT * 9 // 10)  # the stuck one has a few, and no more
            send_numbered(producer, destination, BACKLOG_COUNT)
            reading.join()
        assert reading.numbers == sorted(reading.numbers)


def test_stuck_topic_subscriber_stops_nobody_and_loses_its_oldest_messages(stage: Scene) -> None:
    destination = topic(unique("feed"))
    stuck, stuck_id = stuck_consumer(stage.port, destination)
    with stuck, OpenWireClient.logged_in(stage.port) as producer, OpenWireClient.logged_in(stage.port) as fast:
        wait_until_known(stage)
        fast_id = fast.subscribe(destination, prefetch_size=1_000_000)
        before = memory_bytes(stage.broker)
        for start in range(0, BACKLOG_COUNT, BATCH_COUNT):
            batch = range(start, start + BATCH_COUNT)
            producer.send_text(destination, *map(body, batch))  # is answered: nobody holds the producer up
            assert [number_in(fast.receive(fast_id)) for _ in batch] == list(batch)
        stage.bystander.work(SETTLING_ROUNDS)
        assert memory_bytes(stage.broker) - before < ALLOWANCE_BYTES

        numbers = [number_in(stuck.receive(stuck_id))]
        while numbers[-1] != BACKLOG_COUNT - 1:  # the newest is never dropped
            numbers.append(number_in(stuck.receive(stuck_id)))
        assert numbers[0] == 0, "what was on its way before the limit arrives"
        assert all(earlier < later for earlier, later in pairwise(numbers)), "in order, each at most once"
        gaps = [later - earlier - 1 for earlier, later in pairwise(numbers) if later != earlier + 1]
        assert len(gaps) == 1, "the oldest that wait are dropped, so there is one gap"
        stuck.ping()
        stuck.log_out()
    missed = BACKLOG_COUNT - len(numbers)
    assert missed == gaps[0] > 0
    first, last = (line for line in stage.log() if f"{stuck_id}" in line)
    assert "is too slow: its oldest waiting messages are dropped" in first
    assert f"missed {missed} messages" in last


class _Reader:
    """Reads *count* messages in a thread."""

    def __init__(self, client: OpenWireClient, consumer: commands.ConsumerId, count: int) -> None:
        self.numbers: list[int] = []
        self._client = client
        self._consumer = consumer
        self._count = count
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    def _run(self) -> None:
        while len(self.numbers) < self._count:
            self.numbers.append(number_in(self._client.receive(self._consumer)))

    def join(self) -> None:
        self._thread.join(TIMEOUT_SECONDS * 3)
        assert not self._thread.is_alive(), f"{len(self.numbers)} of {self._count} messages arrived"


def test_topic_messages_wait_up_to_the_limit(stage: Scene) -> None:
    """A subscriber with a full window, but a socket that works, gets all that fits below the limit."""
    destination = topic(unique("window"))
    with OpenWireClient.logged_in(stage.port) as client:
        consumer = client.subscribe(destination, prefetch_size=1)
        count = TOPIC_PENDING_BYTES_MAX // (BODY_BYTES + 1000)
        send_numbered(client, destination, count)
        for number in range(count):
            dispatch = client.receive(consumer)
            assert number_in(dispatch) == number
            client.ack(dispatch)
        client.log_out()
    assert not [line for line in stage.log() if f"{consumer}" in line]


# --- a client that does not read its answers -----------------------------------------------------------

PAUSE_SECONDS = 2.0
"""A broker that reads takes the next bytes in milliseconds; after this long it has stopped."""

SENT_BYTES_MAX = 64 * MIB
"""What the buffers of both kernels and of the broker can hold at most, many times over."""


def test_client_that_never_reads_answers_is_not_read_from_and_costs_little(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.port, receive_buffer_bytes=RECEIVE_BUFFER_BYTES) as client:
        before = memory_bytes(stage.broker)
        # Refused, and the refusal quotes the id: the answers are about as large as the questions.
        session = commands.SessionId("x" * 800, 1)
        sent = requests = 0
        pending = b""
        client.socket.setblocking(False)
        while sent < SENT_BYTES_MAX:
            if not pending:
                requests += 1
                client.protocol.send(
                    commands.SessionInfo(command_id=requests + 1000, response_required=True, session_id=session)
                )
                pending = b"".join(client.protocol.data_to_send())
            if not select.select([], [client.socket], [], PAUSE_SECONDS)[1]:
                break
            count = client.socket.send(pending)
            sent += count
            pending = pending[count:]
        assert sent < SENT_BYTES_MAX, "the broker reads on and on"
        stage.bystander.work(SETTLING_ROUNDS)
        assert memory_bytes(stage.broker) - before < ALLOWANCE_BYTES

        sending = threading.Thread(target=client.socket.sendall, args=(pending,), name="rest")
        client.socket.settimeout(TIMEOUT_SECONDS)
        sending.start()
        answered: list[int] = []
        while len(answered) < requests:
            answered.append(client.wait_for(commands.ExceptionResponse).correlation_id)
        sending.join()
        assert answered == list(range(1001, requests + 1001)), "each once, in order"
        client.ping()
        assert client.take_events() == []


def test_ten_clients_that_never_read_cost_ten_times_little(stage: Scene) -> None:
    destination = topic(unique("crowd"))
    crowd = [stuck_consumer(stage.port, destination)[0] for _ in range(10)]
    try:
        wait_until_known(stage)
        before = memory_bytes(stage.broker)
        with OpenWireClient.logged_in(stage.port) as producer:
            send_numbered(producer, destination, BACKLOG_COUNT)
        stage.bystander.work(SETTLING_ROUNDS)
        # One byte string serves all: what waits is the same for everyone. Output that was being written is not.
        assert memory_bytes(stage.broker) - before < 3 * ALLOWANCE_BYTES
    finally:
        for client in crowd:
            client.close()
