"""How many messages per second does a real `ackwire serve` pass on, and what do they cost it?

One producer, one consumer, non-persistent, asynchronous, 1 KiB, an ack each; the client (`load_client.py`) is another
process on the same machine. The broker's CPU time is what the operating system counts for its process.

    .venv/bin/python -m bench.loopback
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Figure, present

MESSAGES = 100_000
REPETITIONS = 5
CLIENT_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 10.0

RATE_EXPECTED = "ActiveMQ 45–55k, goal 1.3 ×, but with the Java client, which takes more CPU than ours"
CPU_EXPECTED = "budget 20; ActiveMQ 17"


def main(arguments: Sequence[str]) -> None:
    with running_broker() as (broker_pid, port):
        results = load(port, broker_pid)
    rates = tuple(MESSAGES / result["seconds"] for result in results)
    costs = tuple(result["broker_cpu_seconds"] / MESSAGES * 1e6 for result in results)
    figures = [
        Figure("messages through the broker", "msg/s", rates, RATE_EXPECTED),
        Figure("broker CPU per message", "µs", costs, CPU_EXPECTED),
    ]
    present(f"loopback: 1 → 1, non-persistent, asynchronous, {MESSAGES:,} messages of 1 KiB", figures, arguments)


@contextmanager
def running_broker() -> Iterator[tuple[int, int]]:
    """Its pid and its port."""
    program = Path(sys.executable).with_name("ackwire")
    argv = [str(program), "serve", "--store", "memory", "--log-level", "warning", "--listen", "tcp://127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            port = re.search(r":(\d+)\s*$", ready)
            if port is None:
                raise RuntimeError(f"the broker did not start; it said {ready!r}")
            yield broker.pid, int(port[1])
        finally:
            broker.terminate()
            broker.wait(STOP_TIMEOUT_SECONDS)


def load(port: int, broker_pid: int) -> list[dict[str, float]]:
    """One entry per repetition, as the load client reports them."""
    numbers = map(str, (port, broker_pid, MESSAGES, REPETITIONS))
    argv = [sys.executable, "-m", "bench.load_client", *numbers]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=CLIENT_TIMEOUT_SECONDS)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main(sys.argv[1:])
