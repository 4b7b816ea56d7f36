"""Restarts a broker again and again under clients that use `failover:`, and lets the ledger judge.

Four producers (two that wait for each message, one transacted, one that submits) and four consumers (two transacted,
which send what they consumed on, two in CLIENT mode), each with a connection of its own, share two queues. The broker
is killed (SIGKILL) or stopped (SIGTERM) at moments that the seed chooses, and started again on the same data and port;
the clients are not told. At the end everything is consumed, and the store is checked.

In a *quick* run one producer, which waits for each message, and a consumer for each queue are alone on a slow disk:
what is sent is consumed before it could be stored, and most of it never is.
"""

import random
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import ackwire
from ackwire import AckMode, Message, Session, TransactionRolledBackError
from tests.client.restart_ledger import Delivery, Fate, Ledger, Unit
from tests.helpers.processes import ProcessFailed, RestartableBroker, ackwire_program
from tests.helpers.slow_disk import slow_disk_program

QUEUES = ("restarts.a", "restarts.b")
RESULTS = "restarts.results"
DEAD_LETTERS = "ActiveMQ.DLQ"
KILL_SHARE = 0.7
EARLY_SHARE = 0.15
EARLY_SECONDS_MAX = 0.1  # while clients come back
WORK_SECONDS = (0.3, 1.6)
BACKLOG_MAX = 4000  # producers wait beyond
SLOW_SYNC_SECONDS = 0.02
QUICK_SECONDS_MAX = 0.003
WAIT_SECONDS = 60.0  # for anything that a client waits for; a restart takes one or two
DRAIN_SECONDS = 60.0
# Often small files, so that restarts meet their ends; redelivery without delay, and without an end.
SETTINGS = """
[store]
segment_bytes = "512 KiB"
"""
URL = (
    "failover:(tcp://127.0.0.1:{port})?initialReconnectDelay=10&maxReconnectDelay=100"
    "&jms.prefetchPolicy.queuePrefetch=100"
    "&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.redeliveryPolicy.initialRedeliveryDelay=0"
    "&jms.redeliveryPolicy.redeliveryDelay=0"
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    seed: int
    kills: int
    stops: int
    seconds: float
    ledger: Ledger

    def lines(self) -> Iterable[str]:
        yield from self.ledger.lines()
        how = f"{self.kills} kill -9, {self.stops} SIGTERM"
        yield f"seed {self.seed}: {self.kills + self.stops} restarts ({how}) in {self.seconds:.0f} s"


class _Client(threading.Thread):
    """A client with a connection of its own, which works until it is told to stop."""

    def __init__(self, name: str, url: str, ledger: Ledger, rng: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.rng = rng
        self.ledger = ledger
        self.is_stopped = threading.Event()
        self.backlog: Callable[[], int] = lambda: 0
        self._url = url

    def run(self) -> None:
        try:
            with ackwire.connect(self._url) as connection:
                connection.on_error = lambda error: self.ledger.problem(f"{self.name} was told: {error!r}")
                self.work(connection)
        except Exception as error:
            self.ledger.problem(f"{self.name} failed: {error!r}")

    def work(self, connection: ackwire.Connection) -> None:
        raise NotImplementedError

    def pace(self) -> None:
        """Wait while consumers have enough to do."""
        while self.backlog() > BACKLOG_MAX and not self.is_stopped.is_set():
            self.is_stopped.wait(0.05)


class _SyncProducer(_Client):
    def work(self, connection: ackwire.Connection) -> None:
        with connection.session() as session, session.producer() as producer:
            number = 0
            while not self.is_stopped.is_set():
                number += 1
                message = f"{self.name}-{number}"
                unit = self.ledger.begin(message, [message])
                producer.send(message, destination=self.rng.choice(QUEUES))
                self.ledger.end(unit, Fate.DONE)
                self.pace()


class _SubmittingProducer(_Client):
    def work(self, connection: ackwire.Connection) -> None:
        waiting: deque[tuple[Unit, Future[Message]]] = deque()
        with connection.session() as session, session.producer() as producer:
            number = 0
            while not self.is_stopped.is_set():
                number += 1
                message = f"{self.name}-{number}"
                unit = self.ledger.begin(message, [message])
                waiting.append((unit, producer.submit(message, destination=self.rng.choice(QUEUES))))
                while len(waiting) > self.rng.randint(0, 200):
                    self._await_one(waiting)
                self.pace()
            while waiting:
                self._await_one(waiting)

    def _await_one(self, waiting: "deque[tuple[Unit, Future[Message]]]") -> None:
        unit, receipt = waiting.popleft()
        receipt.result(WAIT_SECONDS)
        self.ledger.end(unit, Fate.DONE)


class _TransactedProducer(_Client):
    def work(self, connection: ackwire.Connection) -> None:
        with connection.session(transacted=True) as session, session.producer() as producer:
            number = 0
            while not self.is_stopped.is_set():
                number += 1
                sends = [f"{self.name}-{number}.{part}" for part in range(self.rng.randint(1, 6))]
                unit = self.ledger.begin(f"{self.name}#{number}", sends, is_asked_for=False)
                for message in sends:
                    producer.send(message, destination=self.rng.choice(QUEUES))
                if self.rng.random() < 0.1:
                    session.rollback()
                    self.ledger.end(unit, Fate.VOID)
                else:
                    self._commit(session, unit)
                self.pace()

    def _commit(self, session: Session, unit: Unit) -> None:
        unit.is_asked_for = True
        session.commit()  # sends alone are repeated until they are committed
        self.ledger.end(unit, Fate.DONE)
        self.ledger.count("transactions committed")


class _Consumer(_Client):
    """Receives from one queue, a few messages at a time."""

    queue = ""

    def receive(self, consumer: ackwire.Consumer, count: int) -> list[tuple[Message, Delivery]]:
        batch: list[tuple[Message, Delivery]] = []
        while len(batch) < count and not self.is_stopped.is_set():
            message = consumer.receive(0.2)
            if message is None:
                break
            batch.append((message, self._note(message)))
        return batch

    def _note(self, message: Message) -> Delivery:
        assert isinstance(message, ackwire.TextMessage)
        assert message.wire_id is not None
        return self.ledger.received(
            self.name,
            message.text or "",
            sequence=message.wire_id.broker_sequence_id,
            is_flagged=message.redelivered,
        )


class _TransactedConsumer(_Consumer):
    def work(self, connection: ackwire.Connection) -> None:
        with (
            connection.session(transacted=True) as session,
            session.consumer(self.queue) as consumer,
            session.producer(RESULTS) as producer,
        ):
            number = 0
            while not self.is_stopped.is_set():
                batch = self.receive(consumer, self.rng.randint(1, 12))
                if not batch:
                    continue
                number += 1
                result = f"{self.name}-{number}"
                unit = self.ledger.begin(f"{self.name}#{number}", [result], is_asked_for=False)
                producer.send(result)
                self._decide(session, unit, [delivery for _, delivery in batch])

    def _decide(self, session: Session, unit: Unit, deliveries: list[Delivery]) -> None:
        if self.rng.random() < 0.05:
            session.rollback()
            self.ledger.end(unit, Fate.VOID, deliveries)
            return
        unit.is_asked_for = True
        try:
            session.commit()
        except TransactionRolledBackError:
            self.ledger.end(unit, Fate.VOID, deliveries)
            self.ledger.count("transactions rolled back for a lost connection")
        else:
            self.ledger.end(unit, Fate.DONE, deliveries)
            self.ledger.count("transactions committed")


class _ClientAckConsumer(_Consumer):
    def work(self, connection: ackwire.Connection) -> None:
        with connection.session(AckMode.CLIENT) as session, session.consumer(self.queue) as consumer:
            while not self.is_stopped.is_set():
                batch = self.receive(consumer, self.rng.randint(1, 12))
                deliveries = [delivery for _, delivery in batch]
                if batch and self.rng.random() < 0.02:
                    session.recover()
                    self.ledger.conclude(Fate.VOID, deliveries)
                elif batch:
                    batch[-1][0].acknowledge()
                    self.ledger.conclude(Fate.ACKNOWLEDGED, deliveries)


class _QuickConsumer(_Consumer):
    """Has done with a message before a slow disk has it, but not at once: kills are to come in between."""

    def work(self, connection: ackwire.Connection) -> None:
        with connection.session(AckMode.CLIENT) as session, session.consumer(self.queue) as consumer:
            while not self.is_stopped.is_set():
                for message, delivery in self.receive(consumer, 1):
                    time.sleep(self.rng.uniform(0, QUICK_SECONDS_MAX))
                    message.acknowledge()
                    self.ledger.conclude(Fate.ACKNOWLEDGED, [delivery])


def run(
    *, restarts: int, seed: int, folder: Path, quick: bool = False, progress: Callable[[str], None] | None = None
) -> Report:
    """Restart a broker *restarts* times; its data and its log are below *folder*."""
    started = time.monotonic()
    rng = random.Random(seed)
    ledger = Ledger(may_leave_ahead=quick)
    config = folder / "ackwire.toml"
    config.write_text(SETTINGS)
    kills = 0
    program = slow_disk_program(SLOW_SYNC_SECONDS) if quick else ()
    broker = RestartableBroker(folder, ("--config", str(config)), program)
    with broker:
        url = URL.format(port=broker.port) + ("&jms.checkForDuplicates=false" if quick else "")
        producers, consumers = _clients(url, ledger, rng, quick=quick)
        try:
            for number in range(1, restarts + 1):
                _wait_for_the_moment(rng)
                kill = rng.random() < KILL_SHARE
                kills += kill
                ledger.round = number
                broker.restart(kill=kill)
                if progress is not None:
                    progress(f"{number} restarts, {ledger.counts['confirmed messages']} messages confirmed")
            _finish(producers, consumers, ledger)
            _drain(broker.url, ledger)
        except ProcessFailed as failure:
            ledger.problem(str(failure))
        for client in (*producers, *consumers):
            client.is_stopped.set()
        broker.stop()
    ledger.settle()
    _check_store(broker.data, ledger)
    return Report(seed, kills, restarts - kills, time.monotonic() - started, ledger)


def _clients(url: str, ledger: Ledger, rng: random.Random, *, quick: bool) -> tuple[list[_Client], list[_Consumer]]:
    def own() -> random.Random:
        return random.Random(rng.random())

    producers: list[_Client] = [_SyncProducer("sync1", url, ledger, own())]
    kinds: list[tuple[type[_Consumer], str]] = [(_QuickConsumer, "quick")]
    if not quick:
        producers += [
            _SyncProducer("sync2", url, ledger, own()),
            _TransactedProducer("transacted", url, ledger, own()),
            _SubmittingProducer("submit", url, ledger, own()),
        ]
        kinds = [(_TransactedConsumer, "worker"), (_ClientAckConsumer, "reader")]
    consumers: list[_Consumer] = []
    for number, queue in enumerate(QUEUES, start=1):
        for kind, name in kinds:
            consumer: _Consumer = kind(f"{name}{number}", url, ledger, own())
            consumer.queue = queue
            consumers.append(consumer)
    backlog = _Backlog(ledger)
    for client in (*producers, *consumers):
        client.backlog = backlog
        client.start()
    return producers, consumers


class _Backlog:
    """How much is not consumed, roughly and cheaply."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __call__(self) -> int:
        counts = self._ledger.counts
        return counts["confirmed messages"] - counts["deliveries"]


def _wait_for_the_moment(rng: random.Random) -> None:
    is_early = rng.random() < EARLY_SHARE
    time.sleep(rng.uniform(0, EARLY_SECONDS_MAX) if is_early else rng.uniform(*WORK_SECONDS))


def _finish(producers: list[_Client], consumers: list[_Consumer], ledger: Ledger) -> None:
    """Producers end; consumers go on until nothing is left for them."""
    _stop(producers, ledger)
    deadline = time.monotonic() + DRAIN_SECONDS
    last = -1
    while ledger.counts["deliveries"] != last and time.monotonic() < deadline:
        last = ledger.counts["deliveries"]
        time.sleep(1)
    _stop(consumers, ledger)


def _stop(clients: Iterable[_Client], ledger: Ledger) -> None:
    clients = list(clients)
    for client in clients:
        client.is_stopped.set()
    for client in clients:
        client.join(WAIT_SECONDS)
        if client.is_alive():
            ledger.problem(f"{client.name} does not end")


def _drain(url: str, ledger: Ledger) -> None:
    """Consume what is left, and what the transactions sent on; there are no dead letters."""
    for queue in (*QUEUES, RESULTS, DEAD_LETTERS):
        drain = _ClientAckConsumer("drain", url, ledger, random.Random(1))
        with (
            ackwire.connect(url) as connection,
            connection.session(AckMode.CLIENT) as session,
            session.consumer(queue) as consumer,
        ):
            while batch := drain.receive(consumer, 500):
                ledger.conclude(Fate.ACKNOWLEDGED, [delivery for _, delivery in batch])
                session.acknowledge()
                if queue == DEAD_LETTERS:
                    ledger.problem(f"dead letters: {[delivery.message for _, delivery in batch]}")


def _check_store(data: Path, ledger: Ledger) -> None:
    """After a clean stop nothing is damaged."""
    checked = subprocess.run(
        [str(ackwire_program()), "store", "check", str(data)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    if checked.returncode != 0:
        ledger.problem(f"store check: {checked.stdout}{checked.stderr}")
