"""200 idle connections and 50 busy ones at once for 20 seconds: nothing lost, nothing twice, memory flat.

`ACKWIRE_LOAD_SECONDS` sets another time; `ACKWIRE_LOAD_REPORT` names a file for the figures, as JSON. They are printed
in one line in any case.
"""

import asyncio
import json
import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import psutil
import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import decode_text, encode_text
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.negotiation import Preferences
from tests.helpers.processes import RunningBroker, running_broker
from tests.load.clients import AsyncClient, Pace

SECONDS = float(os.environ.get("ACKWIRE_LOAD_SECONDS", "20"))
REPORT = os.environ.get("ACKWIRE_LOAD_REPORT")

IDLE_COUNT = 200
PRODUCER_COUNT = CONSUMER_COUNT = 25
QUEUE_COUNT = 5
RATE_PER_PRODUCER = 40.0
"""1000 messages a second in all: the clients share two cores with the broker, and must not be what is measured."""

BODY_BYTES = 500
PREFETCH = 100
WARM_UP_SHARE = 0.2
SAMPLE_SECONDS = 0.25
DRAIN_SECONDS = 30.0
MIB = 1024 * 1024
GROWTH_SHARE_MAX = 0.05
GROWTH_MIB_MAX = 8.0

IDLE_INACTIVITY_MS = 9000
"""A keep-alive every 3 s, so that each idle connection needs several of them to stay."""
IDLE = Preferences(inactivity_ms=IDLE_INACTIVITY_MS, inactivity_initial_delay_ms=1000)
BUSY = Preferences()


@dataclass(slots=True)
class Ledger:
    """What was sent and what arrived, by producer; each consumer has its own view of the order."""

    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    received: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    last_seen: dict[tuple[int, int], int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    total: int = 0

    def receive(self, consumer: int, producer: int, number: int) -> None:
        self.total += 1
        if number in self.received[producer]:
            self.problems.append(f"message {number} of producer {producer} came twice")
        self.received[producer].add(number)
        if number <= self.last_seen.get((consumer, producer), 0):
            self.problems.append(f"consumer {consumer} got message {number} of producer {producer} out of order")
        self.last_seen[consumer, producer] = number

    @property
    def sent_total(self) -> int:
        return sum(self.sent.values())

    def missing(self) -> list[str]:
        return [
            f"producer {producer}: {count - len(self.received[producer])} of {count} messages"
            for producer, count in self.sent.items()
            if self.received[producer] != set(range(1, count + 1))
        ]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the closing note wants."""

    seconds: float
    messages: int
    messages_per_second: float
    rss_mib_at_start: float
    rss_mib_after_warm_up: float
    rss_mib_at_end: float
    rss_mib_highest: float
    broker_cpu_share: float
    client_cpu_share: float
    keep_alives_least: int
    connections: int


async def produce(client: AsyncClient, number: int, ledger: Ledger, until: float) -> None:
    """Send at the rate until *until*; every other producer sends persistent messages and waits for each answer."""
    producer = commands.ProducerId(client.connection_id, 1, 1)
    destination = commands.ActiveMQQueue(f"load.{number % QUEUE_COUNT}")
    await client.request(commands.ProducerInfo(producer_id=producer, destination=destination))
    persistent = number % 2 == 0
    pace = Pace(RATE_PER_PRODUCER)
    while time.monotonic() < until:
        sequence = ledger.sent[number] + 1
        message = commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=destination,
            message_id=commands.MessageId(producer_id=producer, producer_sequence_id=sequence),
            persistent=persistent,
            priority=4,
            timestamp=time.time_ns() // 1_000_000,
            content=encode_text(f"{number} {sequence} ".ljust(BODY_BYTES, "x")),
        )
        ledger.sent[number] = sequence
        await client.send(message, wait=persistent)
        await pace.wait()


async def consume(client: AsyncClient, number: int, ledger: Ledger) -> None:
    """Acknowledge each message; half of the consumers one by one, half as ranges of one."""

    def on_dispatch(dispatch: commands.MessageDispatch) -> None:
        assert dispatch.message is not None
        text = decode_text(dispatch.message.content) or ""
        producer, sequence = map(int, text.split(maxsplit=2)[:2])
        ledger.receive(number, producer, sequence)
        client.queue_up(
            commands.MessageAck(
                destination=dispatch.destination,
                consumer_id=dispatch.consumer_id,
                ack_type=AckType.INDIVIDUAL if number % 2 else AckType.STANDARD,
                last_message_id=dispatch.message.message_id,
                message_count=1,
            )
        )

    client.on_dispatch = on_dispatch
    await client.subscribe(commands.ActiveMQQueue(f"load.{number % QUEUE_COUNT}"), PREFETCH)


async def sample(broker: psutil.Process, until: float, samples: list[tuple[float, int]]) -> None:
    while time.monotonic() < until:
        samples.append((time.monotonic(), int(broker.memory_info().rss)))
        await asyncio.sleep(SAMPLE_SECONDS)


async def wait_for_the_rest(ledger: Ledger) -> None:
    deadline = time.monotonic() + DRAIN_SECONDS
    while ledger.total < ledger.sent_total and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


async def open_clients(port: int, name: str, count: int, wants: Preferences, opened: list[AsyncClient]) -> None:
    for number in range(count):
        opened.append(await AsyncClient.logged_in(port, f"ID:{name}-{number}", wants))


async def load(running: RunningBroker) -> Figures:
    (port,) = running.ports
    broker, ourselves = psutil.Process(running.process.pid), psutil.Process()
    rss_at_start = int(broker.memory_info().rss)
    ledger = Ledger()
    samples: list[tuple[float, int]] = []
    idle: list[AsyncClient] = []
    consumers: list[AsyncClient] = []
    producers: list[AsyncClient] = []
    await open_clients(port, "idle", IDLE_COUNT, IDLE, idle)
    await open_clients(port, "consumer", CONSUMER_COUNT, BUSY, consumers)
    await open_clients(port, "producer", PRODUCER_COUNT, BUSY, producers)
    everyone = [*idle, *consumers, *producers]
    for number, client in enumerate(consumers):
        await consume(client, number, ledger)

    start = time.monotonic()
    cpu_before, own_cpu_before = _cpu_seconds(broker), _cpu_seconds(ourselves)
    until = start + SECONDS
    await asyncio.gather(
        sample(broker, until, samples),
        *(produce(client, number, ledger, until) for number, client in enumerate(producers)),
    )
    seconds = time.monotonic() - start
    cpu, own_cpu = _cpu_seconds(broker) - cpu_before, _cpu_seconds(ourselves) - own_cpu_before
    await wait_for_the_rest(ledger)

    assert ledger.missing() == []
    assert ledger.problems[:10] == []
    assert [problem for client in everyone for problem in client.problems][:10] == []
    assert [client.connection_id for client in everyone if not client.is_open] == []
    # A third of the agreed time lies between two keep-alives; half of what fits is safe to ask for.
    expected = int((seconds - 1) / (IDLE_INACTIVITY_MS / 1000 / 3) / 2)
    assert min(client.keep_alives for client in idle) >= expected
    await asyncio.gather(*(client.log_out() for client in everyone))

    measured = [rss for at, rss in samples if at >= start + SECONDS * WARM_UP_SHARE]
    third = len(measured) // 3
    first, last = median(measured[:third]), median(measured[-third:])
    return Figures(
        seconds=round(seconds, 1),
        messages=ledger.total,
        messages_per_second=round(ledger.total / seconds, 1),
        rss_mib_at_start=round(rss_at_start / MIB, 1),
        rss_mib_after_warm_up=round(first / MIB, 1),
        rss_mib_at_end=round(last / MIB, 1),
        rss_mib_highest=round(max(rss for _, rss in samples) / MIB, 1),
        broker_cpu_share=round(cpu / seconds, 3),
        client_cpu_share=round(own_cpu / seconds, 3),
        keep_alives_least=min(client.keep_alives for client in idle),
        connections=len(everyone),
    )


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def publish(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures are wanted when the test passes, too."""
    values = asdict(figures)
    with capsys.disabled():
        print("\nload: " + ", ".join(f"{key} {value}" for key, value in values.items()))
    if REPORT:
        Path(REPORT).write_text(json.dumps(values, indent=2) + "\n")


@pytest.mark.load
@pytest.mark.timeout(SECONDS + 120)
def test_200_idle_and_50_busy_connections_lose_nothing_and_leave_memory_flat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log") as running:
        figures = asyncio.run(load(running))
        log = running.process.output()
    publish(figures, capsys)
    growth_mib_max = figures.rss_mib_after_warm_up * GROWTH_SHARE_MAX + GROWTH_MIB_MAX
    assert figures.rss_mib_at_end - figures.rss_mib_after_warm_up < growth_mib_max
    assert figures.connections == IDLE_COUNT + PRODUCER_COUNT + CONSUMER_COUNT
    assert "Traceback" not in log
    assert " WARN " not in log
