"""What does a message cost the broker, from bytes in to bytes out and acknowledged, sockets left out?

One producer, one consumer, a queue, non-persistent messages of 1 KiB. Bytes come in portions as a busy socket hands
them over, cut wherever they happen to be cut; what is to be sent is joined once per portion, as the server does it.
Then the same producer with several consumers: a topic's, and those of a queue with a selector each.

    .venv/bin/python -m bench.hot_path [--profile FILE]
"""

import cProfile
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ackwire.broker.broker import Broker
from ackwire.config import Settings
from ackwire.jms.types import Int
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import SystemClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.negotiation import Preferences, offer
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from bench import samples
from bench.measure import Figure, cpu_microseconds_each, present

if TYPE_CHECKING:
    from ackwire.server.peer import Peer

COUNT = 20_000
PORTION_BYTES = 64 * 1024
RANGE = 65  # messages per ack of a Java consumer with optimizeAcknowledge and a prefetch of 100

SUBSCRIBERS = 10
SELECTORS = 4
SHARED_COUNT = 6_000
SHARED_AT_ONCE = 60

PARSE_EXPECTED = "1.2 (mypyc 0.63)"
STEP_EXPECTED = "3.8–4.8 (mypyc 2.0)"

Step = tuple[bytes, bytes]
"""What the producer sends in one portion, and the acks for the messages that are complete with it."""


class FakePeer:
    """Stands in for `server.peer.Peer`: no socket, always ready."""

    is_ready = True

    def __init__(self) -> None:
        self.protocol = OpenWireProtocol(Preferences())

    def handshake_finished(self, _inactivity_ms: int, _initial_delay_ms: int, _tcp_no_delay: bool) -> None:
        """Without a socket there is nothing to watch for silence."""

    def login_finished(self) -> None:
        self.protocol.login_finished()

    def hold(self, _held: bool) -> None:
        """What is fed is acknowledged at once, so the broker never runs out of space."""

    def output_waits(self) -> None:
        """The caller that feeds the bytes takes the output afterwards."""


class Client:
    """One client's place in the broker: feed it bytes, take what the broker answers."""

    def __init__(self, broker: Broker, settings: Settings, login: Sequence[Structure]) -> None:
        peer = FakePeer()
        self._protocol = peer.protocol
        self._adapter = OpenWireAdapter(
            peer=cast("Peer", peer),
            protocol=peer.protocol,
            broker=broker,
            clock=broker.clock,
            settings=settings,
            address="bench",
        )
        codec = Codec(samples.LOOSE)
        self.feed(b"".join(map(codec.encode, (offer(Preferences()), *login))))
        self.take_output()

    def feed(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        handle = self._adapter.handle
        for event in self._protocol.events():
            handle(event)

    def take_output(self) -> bytes:
        return b"".join(self._protocol.data_to_send())


def main(arguments: Sequence[str]) -> None:
    options = list(arguments)
    if "--profile" in options:
        profile(options[options.index("--profile") + 1])
        return
    figures = [
        Figure("parse alone", "µs", cpu_microseconds_each(parse_alone(portions()), COUNT), PARSE_EXPECTED),
        Figure("whole step, an ack each", "µs", measured(acks_each=1), STEP_EXPECTED),
        Figure(f"whole step, an ack for {RANGE}", "µs", measured(acks_each=RANGE), STEP_EXPECTED),
        Figure(f"topic to {SUBSCRIBERS}, an ack each", "µs", shared(samples.TOPIC, SUBSCRIBERS)),
        Figure(f"{SELECTORS} selectors, an ack each", "µs", shared(samples.QUEUE, SELECTORS)),
    ]
    present("hot path: CPU per message, feed → parse → route → dispatch → ack, in process", figures, options)


def measured(*, acks_each: int) -> tuple[float, ...]:
    return cpu_microseconds_each(whole_step(steps(acks_each=acks_each)), COUNT)


def portions() -> list[bytes]:
    """All messages as one stream, cut into portions."""
    codec = Codec(samples.LOOSE)
    stream = b"".join(codec.encode(samples.text_message(number)) for number in range(1, COUNT + 1))
    return [stream[start : start + PORTION_BYTES] for start in range(0, len(stream), PORTION_BYTES)]


def steps(*, acks_each: int) -> list[Step]:
    """The portions, each with the acks that it makes possible, *acks_each* messages to an ack."""
    codec = Codec(samples.LOOSE)
    frame_bytes = len(codec.encode(samples.text_message(1)))  # the same for all
    received = itertools.accumulate(map(len, portions()))
    complete = [total // frame_bytes for total in received]
    due = [number // acks_each * acks_each for number in complete[:-1]] + [COUNT]
    return [
        (portion, b"".join(_acks(codec, first, last, acks_each)))
        for portion, (first, last) in zip(portions(), itertools.pairwise([0, *due]), strict=True)
    ]


def _acks(codec: Codec, after: int, until: int, size: int) -> Iterator[bytes]:
    for first in range(after, until, size):
        last = min(first + size, until)
        yield codec.encode(samples.ack(last, last - first))


def parse_alone(data: Sequence[bytes]) -> Callable[[], object]:
    """Work that turns bytes into messages and drops them."""

    def work() -> None:
        protocol = OpenWireProtocol(Preferences())
        protocol.receive_data(Codec(samples.LOOSE).encode(offer(Preferences())))
        parsed = -1  # the agreement does not count
        for portion in data:
            protocol.receive_data(portion)
            for _ in protocol.events():
                parsed += 1
        assert parsed == COUNT

    return work


def new_broker(settings: Settings) -> Broker:
    return Broker(
        clock=SystemClock(),
        store=MemoryStore(),
        editor=OpenWireEditor("ID:bench", "bench", SystemClock()),
        settings=settings,
    )


def shared(where: commands.ActiveMQDestination, consumers: int) -> tuple[float, ...]:
    return cpu_microseconds_each(shared_step(where, consumers), SHARED_COUNT)


def shared_step(where: commands.ActiveMQDestination, consumers: int) -> Callable[[], object]:
    """Work that takes every message to all *consumers*, or on a queue to the one that selects it."""
    codec = Codec(samples.LOOSE)
    is_topic = isinstance(where, commands.ActiveMQTopic)
    ids = [commands.ConsumerId(f"{samples.CONSUMER_CONNECTION}{index}", 1, 1) for index in range(consumers)]
    selectors = [None if is_topic else f"kind = {index}" for index in range(consumers)]

    def message(number: int) -> bytes:
        properties = None if is_topic else encode_map({"kind": Int(number % consumers)})
        plain = samples.text_message(number)
        return codec.encode(replace(plain, destination=where, marshalled_properties=properties))

    def acks(numbers: range, index: int) -> bytes:
        mine = (it for it in numbers if is_topic or it % consumers == index)
        changed = (replace(samples.ack(it), consumer_id=ids[index], destination=where) for it in mine)
        return b"".join(map(codec.encode, changed))

    lots = [range(first, first + SHARED_AT_ONCE) for first in range(1, SHARED_COUNT, SHARED_AT_ONCE)]
    data = [(b"".join(map(message, lot)), [acks(lot, index) for index in range(consumers)]) for lot in lots]

    def work() -> None:
        settings = Settings()
        broker = new_broker(settings)
        producer = Client(broker, settings, samples.producer_login(where))
        clients = [
            Client(broker, settings, samples.consumer_login(consumer_id, where, selector))
            for consumer_id, selector in zip(ids, selectors, strict=True)
        ]
        sent = 0
        for messages, answers in data:
            producer.feed(messages)
            sent += sum(len(client.take_output()) for client in clients)
            for client, answer in zip(clients, answers, strict=True):
                client.feed(answer)
        assert sent > SHARED_COUNT * samples.TEXT_BYTES * (consumers if is_topic else 1)

    return work


def whole_step(data: Sequence[Step]) -> Callable[[], object]:
    """Work that takes every message through a broker of its own."""

    def work() -> None:
        settings = Settings()
        broker = new_broker(settings)
        producer = Client(broker, settings, samples.producer_login())
        consumer = Client(broker, settings, samples.consumer_login())
        sent = 0
        for messages, acks in data:
            producer.feed(messages)
            sent += len(consumer.take_output())
            consumer.feed(acks)
        assert sent > COUNT * samples.TEXT_BYTES
        assert not consumer.take_output()

    return work


def profile(file: str) -> None:
    """Leave a profile of the whole step in *file*, for `python -m pstats`."""
    work = whole_step(steps(acks_each=1))
    work()
    profiler = cProfile.Profile()
    profiler.runcall(work)
    profiler.dump_stats(file)


if __name__ == "__main__":
    main(sys.argv[1:])
