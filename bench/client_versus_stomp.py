"""How fast is our Python client beside stomp.py, on the same real ActiveMQ?

One ActiveMQ with KahaDB listens for OpenWire and for STOMP. stomp.py, our blocking and our asyncio client each have a
process of their own (`client_load.py`) and take turns, round by round, because neighbours change what a machine can do
within seconds: a ratio is that of two pieces of work in the same round. Every message is checked, and afterwards every
queue is empty. "No client" is a socket and bytes that were made beforehand: what bounds everybody, the broker.

    .venv/bin/python -m bench.client_versus_stomp [--quick] [--kinds send_each receive_auto …] [--rounds 5]
"""

import argparse
import json
import queue
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import ackwire
from bench.brokers import Running, activemq, activemq_version, scratch_folder
from bench.client_load import CLIENTS
from bench.client_work import PREFETCH, Expectation, Measured, Work, text_of
from bench.measure import Figure, options_parser, progress, show
from tests.helpers.processes import ManagedProcess

ROUNDS: Final = 9  # many short ones: what neighbours do falls on all alike
QUICK_ROUNDS: Final = 3
QUICK_DIVISOR: Final = 2
WARM_UP_ROUNDS: Final = 2
ANSWER_TIMEOUT_SECONDS: Final = 90.0

THEIRS: Final = "stomp.py"
GOAL: Final = "goal 3"


@dataclass(frozen=True, slots=True)
class Contender:
    """A client, and the way in which it is used."""

    title: str
    client: str
    by: str = "listener"
    ack: str = ""
    """If not as the kind of work says."""


NO_CLIENT: Final = Contender("no client", "bare")
SENDERS: Final = (
    Contender(THEIRS, "stomp"),
    Contender("blocking", "blocking"),
    Contender("asyncio", "asyncio"),
    NO_CLIENT,
)
RECEIVERS: Final = (
    Contender(THEIRS, "stomp"),
    Contender("blocking listener", "blocking"),
    Contender("blocking receive()", "blocking", "receive"),
    Contender("asyncio listener", "asyncio"),
    Contender("asyncio receive()", "asyncio", "receive"),
    NO_CLIENT,
)
IN_RANGES: Final = (
    Contender("blocking receive(), optimizeAcknowledge", "blocking", "receive", "ranges"),
    Contender("asyncio receive(), optimizeAcknowledge", "asyncio", "receive", "ranges"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work that all contenders can do."""

    title: str
    work: Work
    """Its queue is named later."""

    @property
    def contenders(self) -> tuple[Contender, ...]:
        if self.work.do == "send":
            return SENDERS
        return (*RECEIVERS, *IN_RANGES) if self.work.ack == "auto" else RECEIVERS


def sending(title: str, count: int, *, persistent: bool, confirm: str) -> Kind:
    return Kind(title, Work(do="send", queue="", count=count, persistent=persistent, confirm=confirm))


def receiving(title: str, count: int, *, persistent: bool, ack: str) -> Kind:
    return Kind(title, Work(do="receive", queue="", count=count, persistent=persistent, ack=ack))


KINDS: Final = {
    "send_volatile": sending("send, non-persistent", 5_000, persistent=False, confirm="last"),
    "send_each": sending("send, persistent, each confirmed", 150, persistent=True, confirm="each"),
    "send_async": sending("send, persistent, unconfirmed", 1_000, persistent=True, confirm="last"),
    "send_submit": sending("send, persistent, confirmed later", 200, persistent=True, confirm="all"),
    "receive_auto": receiving("receive, non-persistent, auto", 4_000, persistent=False, ack="auto"),
    "receive_individual": receiving("receive, non-persistent, individual", 4_000, persistent=False, ack="individual"),
    "receive_auto_stored": receiving("receive, persistent, auto", 1_000, persistent=True, ack="auto"),
    "receive_individual_stored": receiving("receive, persistent, individual", 1_000, persistent=True, ack="individual"),
}


class LoadFailed(Exception):
    """A client raised, or a message is missing, repeated, damaged or out of order."""


class ClientProcess:
    """A process that works for one of the clients; a context manager."""

    def __init__(self, client: str, broker: Running, folder: Path) -> None:
        self._name = client
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        argv = [sys.executable, "-m", "bench.client_load", client, *map(str, broker.ports)]
        self._process = ManagedProcess(
            argv, log_path=folder / f"{client}.log", on_line=self._answers.put, separate_stderr=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def do(self, work: Work) -> Measured:
        self._process.write_line(json.dumps(asdict(work)))
        try:
            line = self._answers.get(timeout=ANSWER_TIMEOUT_SECONDS)
        except queue.Empty:
            raise self._process.failure(f"did not answer in {ANSWER_TIMEOUT_SECONDS} s") from None
        if line is None:
            raise self._process.failure("ended")
        answer = json.loads(line)
        if "error" in answer:
            raise LoadFailed(f"{self._name}, {work}: {answer['error']}")
        return Measured(**answer)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one contender did in one round; times of one message in microseconds."""

    rate: float
    client_cpu: float
    broker_cpu: float


Turns = dict[str, list[Turn]]
"""By contender, in order."""


class Contest:
    """The broker, the clients' processes, and a connection of our own that fills and empties queues."""

    def __init__(self, broker: Running, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._resources = ExitStack()
        self._numbers = count(1)

    def __enter__(self) -> Self:
        with self._resources as resources:
            self._clients = {
                name: resources.enter_context(ClientProcess(name, self._broker, self._folder)) for name in CLIENTS
            }
            self._connection = resources.enter_context(ackwire.connect(self._broker.uri))
            self._connection.use_async_send = True
            self._session = self._connection.session()
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def round(self, kind: Kind) -> dict[str, Turn]:
        """Each contender's turn."""
        works = {
            it: replace(kind.work, queue=f"bench.{next(self._numbers)}", by=it.by, ack=it.ack or kind.work.ack)
            for it in kind.contenders
        }
        if kind.work.do == "receive":
            self._fill([work.queue for work in works.values()], kind.work)
        return {contender.title: self._turn(contender, work) for contender, work in works.items()}

    def _turn(self, contender: Contender, work: Work) -> Turn:
        cpu_before = self._broker.cpu_seconds()
        measured = self._clients[contender.client].do(work)
        broker_seconds = self._broker.cpu_seconds() - cpu_before
        self._empty(work)
        each = 1e6 / work.count
        return Turn(work.count / measured.seconds, measured.cpu_seconds * each, broker_seconds * each)

    def _fill(self, queues: list[str], work: Work) -> None:
        """The same messages into all *queues*."""
        producer = self._session.producer(",".join(queues))
        producer.delivery_mode = (
            ackwire.DeliveryMode.PERSISTENT if work.persistent else ackwire.DeliveryMode.NON_PERSISTENT
        )
        for number in range(1, work.count):
            producer.send(text_of(number))
        producer.submit(text_of(work.count)).result(ANSWER_TIMEOUT_SECONDS)
        producer.close()

    def _empty(self, work: Work) -> None:
        """Take what was sent, and see that it is as it should be; after receiving, that nothing is left."""
        if work.do == "send":
            expectation = Expectation(work.count)
            with self._session.consumer(work.queue) as consumer:
                for _ in range(work.count):
                    message = consumer.receive()
                    assert isinstance(message, ackwire.TextMessage)
                    expectation.take(message.text)
            expectation.check()
        with self._session.consumer(f"{work.queue}?consumer.prefetchSize=0") as consumer:
            if consumer.receive_no_wait() is not None:
                raise LoadFailed(f"messages are left in the queue: {work}")
        self._connection.destroy_destination(work.queue)


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    kinds = [adapted(KINDS[name], options) for name in options.kinds]
    with (
        scratch_folder(options.folder) as folder,
        activemq(folder, has_stomp=True) as broker,
        Contest(broker.start(), folder) as contest,
    ):
        results = compared(kinds, options.rounds, contest)
    aspects = (ratios, rates, client_cpu, broker_cpu)
    figures = [figure for aspect in aspects for kind, turns in results for figure in aspect(kind, turns)]
    title = (
        f"Python client versus stomp.py {version('stomp.py')}: messages of 1 KiB, ActiveMQ {activemq_version()}, "
        f"prefetch {PREFETCH}, {options.rounds} rounds in turn after {WARM_UP_ROUNDS} of warm-up"
    )
    show(title, figures, options.json)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = options_parser("Our Python client and stomp.py in turn, with the same ActiveMQ.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="which kinds of work")
    parser.add_argument("--rounds", type=int, help=f"of each kind (default: {ROUNDS})")
    parser.add_argument("--folder", type=Path, help="where the broker's data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    return options


def adapted(kind: Kind, options: argparse.Namespace) -> Kind:
    count = kind.work.count // (QUICK_DIVISOR if options.quick else 1)
    return replace(kind, work=replace(kind.work, count=count))


def compared(kinds: Sequence[Kind], rounds: int, contest: Contest) -> list[tuple[Kind, Turns]]:
    """All kinds in each round, so that a busy minute does not fall on one kind alone."""
    results: list[tuple[Kind, Turns]] = [(kind, {c.title: [] for c in kind.contenders}) for kind in kinds]
    for number in range(-WARM_UP_ROUNDS, rounds):
        for kind, turns in results:
            done = contest.round(kind)
            told = ", ".join(f"{name} {turn.rate:,.0f}" for name, turn in done.items())
            progress(f"{kind.title}: {'warm-up' if number < 0 else f'round {number + 1}'}, msg/s: {told}")
            if number >= 0:
                for name, turn in done.items():
                    turns[name].append(turn)
    return results


def ratios(kind: Kind, turns: Turns) -> Iterator[Figure]:
    """Of each turn of ours to that of stomp.py in the same round."""
    theirs = turns[THEIRS]
    for name, ours in turns.items():
        if name != THEIRS:
            values = tuple(our.rate / their.rate for our, their in zip(ours, theirs, strict=True))
            yield Figure(f"{kind.title}: {name} / {THEIRS}", "×", values, "" if name == NO_CLIENT.title else GOAL)


def rates(kind: Kind, turns: Turns) -> Iterator[Figure]:
    for name, done in turns.items():
        yield Figure(f"{kind.title}: {name}", "msg/s", tuple(turn.rate for turn in done))


def client_cpu(kind: Kind, turns: Turns) -> Iterator[Figure]:
    for name, done in turns.items():
        yield Figure(f"{kind.title}: {name}, CPU each", "µs", tuple(turn.client_cpu for turn in done))


def broker_cpu(kind: Kind, turns: Turns) -> Iterator[Figure]:
    for name, done in turns.items():
        yield Figure(f"{kind.title}: {name}, broker's CPU each", "µs", tuple(turn.broker_cpu for turn in done))


if __name__ == "__main__":
    main(sys.argv[1:])
