"""A light client beside a greedy one: how much longer does it wait than alone?

The light client sends and receives one message, 200 times a second. The greedy one is, one after the other: a stream of
messages to a consumer, transactions of a thousand sends, browsers of 100,000 messages, and a consumer that comes and
goes. Each runs in a process of its own.

    python -m tools.attack.fairness [SECONDS]
"""

import subprocess
import sys
import time
from contextlib import suppress

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import Attacked, attacked

SECONDS = 5.0
PER_SECOND = 200
BROWSED = 100_000
_PORTION = 1000
_LONG_SECONDS = 60.0


def light(port: int, seconds: float, *, persistent: bool) -> tuple[float, float, float]:
    """p50, p99 and the longest round trip of a send and its receive, in ms."""
    times: list[float] = []
    with OpenWireClient.logged_in(port) as client:
        where = queue(f"light.{persistent}")
        client.subscribe(where)
        ends = time.perf_counter() + seconds
        while (started := time.perf_counter()) < ends:
            client.send_text(where, "x" * 100, persistent=persistent)
            dispatch = client.wait_for(commands.MessageDispatch, timeout_seconds=_LONG_SECONDS)
            took = time.perf_counter() - started
            client.ack(dispatch)
            times.append(1000 * took)
            time.sleep(max(0.0, 1 / PER_SECOND - took))
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100], times[-1]


def stream(port: int) -> None:
    """Sends without waiting, and consumes with a large prefetch."""
    with OpenWireClient.logged_in(port) as client:
        client.subscribe(queue("stream"), prefetch_size=1000)
        while True:
            client.send_text(queue("stream"), *["x" * 1000] * 200, wait=False)
            dispatches = [client.wait_for(commands.MessageDispatch, timeout_seconds=60) for _ in range(200)]
            client.ack(dispatches[-1], count=200)


def transactions(port: int) -> None:
    """A thousand sends in each transaction."""
    with OpenWireClient.logged_in(port) as client:
        number = 0
        while True:
            number += 1
            connection_id = commands.ConnectionId(client.connection_id)
            transaction = commands.LocalTransactionId(value=number, connection_id=connection_id)
            begin, commit = (
                commands.TransactionInfo(connection_id=connection_id, transaction_id=transaction, type=kind)
                for kind in (commands.TransactionType.BEGIN, commands.TransactionType.COMMIT_ONE_PHASE)
            )
            client.request(begin)
            for _ in range(_PORTION):
                message = client.text_message(queue(f"transactions.{number % 10}"), "x" * 100)
                message.transaction_id = transaction
                client.protocol.send(message)
            client.request(commit)


def browse(port: int) -> None:
    """Browses a long queue again and again."""
    with OpenWireClient.logged_in(port) as client:
        for _ in range(BROWSED // _PORTION):
            client.send_text(queue("browsed"), *["x" * 100] * _PORTION)
        while True:
            browser = client.subscribe(queue("browsed"), browser=True, prefetch_size=30_000)
            seen = 0
            while client.wait_for(commands.MessageDispatch, timeout_seconds=60).message is not None and seen < 25_000:
                seen += 1
            client.request(commands.RemoveInfo(object_id=browser))


def come_and_go(port: int) -> None:
    """A consumer with a selector that comes and goes, on a queue in which much waits."""
    with OpenWireClient.logged_in(port) as client:
        for _ in range(20):
            client.send_text(queue("passed"), *["x"] * _PORTION)
        while True:
            consumer = client.subscribe(queue("passed"), selector="JMSType = 'never'")
            client.request(commands.RemoveInfo(object_id=consumer))


GREEDY = {"stream": stream, "transactions": transactions, "browse": browse, "come and go": come_and_go}


def main(seconds: float = SECONDS) -> None:
    with attacked() as broker:
        for persistent in (False, True):
            kind = "persistent" if persistent else "non-persistent"
            alone = light(broker.port, seconds, persistent=persistent)
            _print(f"{kind}, alone", alone, alone[1])
            for name in GREEDY:
                _print(f"{kind}, beside {name}", _beside(broker, name, seconds, persistent=persistent), alone[1])
        print(broker.loop())


def _beside(broker: Attacked, name: str, seconds: float, *, persistent: bool) -> tuple[float, float, float]:
    process = subprocess.Popen([sys.executable, "-m", "tools.attack.fairness", "--greedy", name, str(broker.port)])
    try:
        time.sleep(2.0)
        return light(broker.port, seconds, persistent=persistent)
    finally:
        process.kill()
        process.wait()


def _print(name: str, figures: tuple[float, float, float], alone_p99: float) -> None:
    p50, p99, longest = figures
    times = f"{p99 / alone_p99:5.1f} x"
    print(f"{name:40} p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  longest {longest:7.2f} ms  p99 {times} alone", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--greedy"]:
        with suppress(KeyboardInterrupt, OSError):
            GREEDY[sys.argv[2]](int(sys.argv[3]))
    else:
        main(*map(float, sys.argv[1:]))
