"""A light client beside a greedy one: how much longer does it wait than alone, and does the broker cause that?

The light client sends and receives one message, 200 times a second. The greedy one is a stream of messages to a
consumer, transactions of a thousand sends, a browser of 100,000 messages, or a consumer that comes and goes on a queue
of 20,000. Each client and each broker is a process of its own. In every round three measurements follow each other:

* alone: the light client has broker and machine for itself;
* elsewhere, the control: the greedy client works with another broker on the same machine. What the light client waits
  longer then is the machine's doing: processors and disk are shared;
* beside: both work with the same broker.

With `--idle` the greedy client, and the broker that it has elsewhere, run only when the processors have nothing else to
do, as if on another machine; what a busy machine does beside that still shows in all three.

Printed are medians over the rounds: waits; p99 beside as a multiple of p99 alone and of p99 elsewhere; how much the
greedy client got done; and what the longest turn of the loop was doing. "Without queueing" is the same without what the
machine's scheduler adds: the wait ends when the answer is in the light client's socket, not when that client is given a
processor, and the time that the broker was ready to run and had none is taken off. Linux knows both.

    python -m tools.attack.fairness [--seconds 3] [--rounds 5] [--idle] [--kind NAME]...
"""

import argparse
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import Attacked, attacked

SECONDS = 3.0
ROUNDS = 5
PER_SECOND = 200
BROWSED = 100_000
PASSED = 20_000
_PORTION = 1000
_REMOVE = 1
_SHOWN = 25_000
_LONG_SECONDS = 60.0
_WARM_UP_SECONDS = 1.0
_LATE_NS = 300_000
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python has no name for it
_FILLED = tuple(f"transactions.{number}" for number in range(10))


@dataclass(frozen=True, slots=True)
class Waits:
    """Round trips of a send and its receive, in ms."""

    p50: float
    p99: float
    longest: float
    net_p50: float
    net_p99: float

    @classmethod
    def of(cls, times: list[float], net_times: list[float]) -> "Waits":
        return cls(*_quantiles(times), max(times), *_quantiles(net_times))

    @classmethod
    def middle(cls, several: "list[Waits]") -> "Waits":
        return cls(*(median(getattr(it, field.name) for it in several) for field in fields(cls)))

    def __str__(self) -> str:
        waits = f"p50 {self.p50:6.2f}  p99 {self.p99:6.2f}  longest {self.longest:6.2f} ms"
        return f"{waits}; without queueing p50 {self.net_p50:5.2f}  p99 {self.net_p99:5.2f} ms"

    def beside(self, other: "Waits", name: str) -> str:
        return f"{self.p99 / other.p99:5.2f} x {name} (without queueing {self.net_p99 / other.net_p99:5.2f} x)"


def _quantiles(times: list[float]) -> tuple[float, float]:
    in_order = sorted(times)
    return in_order[len(times) // 2], in_order[len(times) * 99 // 100]


class LightClient(OpenWireClient):
    """Knows when the bytes that it has read last had arrived, however late it was given a processor to read them."""

    arrived_ns = 0

    def handshake(self) -> Agreement:
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        return super().handshake()

    def read_some(self, timeout_seconds: float = _LONG_SECONDS) -> bool:
        self.socket.settimeout(max(0.001, timeout_seconds))
        data, notes, _, _ = self.socket.recvmsg(65536, 128)
        for level, kind, note in notes:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = struct.unpack("qq", note)
                self.arrived_ns = seconds * 10**9 + nanoseconds
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            if isinstance(event, Agreement):
                self.protocol.login_finished()
            self.events.append(event)
        return bool(data)


def _queued_ns(pid: int) -> int:
    """How long a process was ready to run, and had no processor: see Documentation/scheduler/sched-stats of Linux."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def light(broker: Attacked, seconds: float, *, persistent: bool) -> Waits:
    """How long the light client waits."""
    times: list[float] = []
    net_times: list[float] = []
    with LightClient.logged_in(broker.port) as client:
        where = queue(f"light.{persistent}")
        client.subscribe(where)
        ends = time.perf_counter() + seconds
        while (started := time.perf_counter()) < ends:
            queued_before, sent_ns = _queued_ns(broker.process.pid), time.time_ns()
            client.send_text(where, "x" * 100, persistent=persistent)
            dispatch = client.wait_for(commands.MessageDispatch, timeout_seconds=_LONG_SECONDS)
            late_ns, took = time.time_ns() - client.arrived_ns, time.perf_counter() - started
            if late_ns < _LATE_NS:  # otherwise the broker may have been queueing again since
                queued_ns = _queued_ns(broker.process.pid) - queued_before
                net_times.append((client.arrived_ns - sent_ns - queued_ns) / 1e6)
            client.ack(dispatch)
            times.append(1000 * took)
            time.sleep(max(0.0, 1 / PER_SECOND - took))
    return Waits.of(times, net_times)


# ---- greedy clients: each says how many messages, or consumers, it has done ------------------------------------------


def stream(client: OpenWireClient) -> Iterator[int]:
    """Sends without waiting, and consumes with a large prefetch."""
    client.subscribe(queue("stream"), prefetch_size=1000)
    while True:
        client.send_text(queue("stream"), *["x" * 1000] * 200, wait=False)
        dispatches = [client.wait_for(commands.MessageDispatch, timeout_seconds=_LONG_SECONDS) for _ in range(200)]
        client.ack(dispatches[-1], count=200)
        yield 200


def transactions(client: OpenWireClient) -> Iterator[int]:
    """A thousand sends in each transaction."""
    connection_id = commands.ConnectionId(client.connection_id)
    number = 0
    while True:
        number += 1
        where = queue(_FILLED[number % len(_FILLED)])
        transaction = commands.LocalTransactionId(value=number, connection_id=connection_id)
        begin, commit = (
            commands.TransactionInfo(connection_id=connection_id, transaction_id=transaction, type=kind)
            for kind in (commands.TransactionType.BEGIN, commands.TransactionType.COMMIT_ONE_PHASE)
        )
        client.request(begin)
        for _ in range(_PORTION):
            message = client.text_message(where, "x" * 100)
            message.transaction_id = transaction
            client.protocol.send(message)
        client.request(commit)
        yield _PORTION


def browse(client: OpenWireClient) -> Iterator[int]:
    """Browses a long queue again and again."""
    while True:
        browser = client.subscribe(queue("browsed"), browser=True, prefetch_size=_SHOWN)
        for _ in range(_SHOWN // _PORTION):
            for _ in range(_PORTION):
                client.wait_for(commands.MessageDispatch, timeout_seconds=_LONG_SECONDS)
            yield _PORTION
        client.request(commands.RemoveInfo(object_id=browser))
        client.take_events()


def come_and_go(client: OpenWireClient) -> Iterator[int]:
    """A consumer with a selector that comes and goes, on a queue in which much waits."""
    while True:
        consumer = client.subscribe(queue("passed"), selector="JMSType = 'never'")
        client.request(commands.RemoveInfo(object_id=consumer))
        yield 1


@dataclass(frozen=True, slots=True)
class Greedy:
    """What a greedy client does, how many messages have to wait in which queue for it, and which queues it fills."""

    work: Callable[[OpenWireClient], Iterator[int]]
    where: str = ""
    count: int = 0
    fills: tuple[str, ...] = ()

    def prepare(self, port: int) -> None:
        with OpenWireClient.logged_in(port) as client:
            for _ in range(self.count // _PORTION):
                client.send_text(queue(self.where), *["x" * 100] * _PORTION)

    def tidy(self, port: int) -> None:
        with OpenWireClient.logged_in(port) as client:
            for name in self.fills:
                connection_id = commands.ConnectionId(client.connection_id)
                info = commands.DestinationInfo(
                    connection_id=connection_id, destination=queue(name), operation_type=_REMOVE
                )
                client.request(info)


GREEDY = {
    "stream": Greedy(stream),
    "transactions": Greedy(transactions, fills=_FILLED),
    "browse": Greedy(browse, "browsed", BROWSED),
    "come and go": Greedy(come_and_go, "passed", PASSED),
}


def _be_greedy(name: str, port: int) -> None:
    """Work until killed; print again and again how much was done in a second."""
    with OpenWireClient.logged_in(port) as client, suppress(OSError):
        done, began, said = 0, time.monotonic(), time.monotonic()
        for count in GREEDY[name].work(client):
            done += count
            now = time.monotonic()
            if now - said > 0.1:
                print(done / (now - began), flush=True)
                said = now


def _run_when_idle(pid: int) -> None:
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@contextmanager
def _greedy(name: str, port: int, rates: list[float], *, idle: bool) -> Iterator[None]:
    argv = [sys.executable, "-m", "tools.attack.fairness", "--greedy", name, "--port", str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    if idle:
        _run_when_idle(process.pid)
    assert process.stdout is not None
    try:
        process.stdout.readline()  # it is at work
        time.sleep(_WARM_UP_SECONDS)
        yield
    finally:
        process.kill()
        lines = process.communicate()[0].split()
        if lines:
            rates.append(float(lines[-1]))
        GREEDY[name].tidy(port)


# ---- the measurement -------------------------------------------------------------------------------------------------


class Trial:
    """The rounds with one kind of greedy client and one kind of message."""

    def __init__(self, name: str, *, persistent: bool, idle: bool) -> None:
        self.name = name
        self.persistent = persistent
        self._idle = idle
        self._alone: list[Waits] = []
        self._elsewhere: list[Waits] = []
        self._beside: list[Waits] = []
        self._rates_elsewhere: list[float] = []
        self._rates_beside: list[float] = []

    def round(self, broker: Attacked, other: Attacked, seconds: float) -> None:
        self._alone.append(light(broker, seconds, persistent=self.persistent))
        with _greedy(self.name, other.port, self._rates_elsewhere, idle=self._idle):
            self._elsewhere.append(light(broker, seconds, persistent=self.persistent))
        with _greedy(self.name, broker.port, self._rates_beside, idle=self._idle):
            self._beside.append(light(broker, seconds, persistent=self.persistent))

    def show(self) -> None:
        alone, elsewhere, beside = map(Waits.middle, (self._alone, self._elsewhere, self._beside))
        print(f"{self.name}, {'persistent' if self.persistent else 'non-persistent'}")
        print(f"  alone      {alone}")
        print(f"  elsewhere  {elsewhere}")
        print(f"  beside     {beside}")
        print(f"  p99 elsewhere is {elsewhere.beside(alone, 'alone')}")
        print(f"  p99 beside is {beside.beside(alone, 'alone')}, {beside.beside(elsewhere, 'elsewhere')}")
        rate, there = median(self._rates_beside), median(self._rates_elsewhere)
        print(f"  the greedy client does {rate:,.0f} a second beside and {there:,.0f} elsewhere", flush=True)


def main(kinds: list[str], seconds: float, rounds: int, *, idle: bool) -> None:
    for name in kinds:
        with attacked() as broker, attacked() as other:
            if idle:
                _run_when_idle(other.process.pid)
            for it in (broker, other):
                GREEDY[name].prepare(it.port)
            trials = [Trial(name, persistent=persistent, idle=idle) for persistent in (False, True)]
            for _ in range(rounds):
                for trial in trials:
                    trial.round(broker, other, seconds)
            for trial in trials:
                trial.show()
            print(f"  {broker.loop()}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.attack.fairness")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--kind", action="append", choices=list(GREEDY))
    parser.add_argument("--greedy", choices=list(GREEDY), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    if given.greedy:
        _be_greedy(given.greedy, given.port)
    else:
        main(given.kind or list(GREEDY), given.seconds, given.rounds, idle=given.idle)
