"""The harness of the attacks: a real broker process, a bystander that measures how long it is kept waiting, and memory.

    with attacked("--store", "memory") as broker:
        with broker.bystander() as bystander:
            ...                                  # the attack, through OpenWireClient.logged_in(broker.port)
        print_row("half frames", broker, bystander.result)

Each attack is a module with a `main`, bounded in count and time, on loopback only: `python -m tools.attack.NAME`. The
broker runs from the sources that PYTHONPATH names, so that the same attack can be run against another commit.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import decode_map, encode_map
from tests.helpers.openwire_client import OpenWireClient
from tests.helpers.processes import ManagedProcess, ackwire_program, wait_until_ready

_MEGABYTE = 1_000_000
_BYSTANDER_STOP_SECONDS = 120.0  # it may have to wait until a stalled broker answers


@dataclass(slots=True)
class Waits:
    """What a bystander measured: round trips of a keep-alive through the broker's loop, in milliseconds."""

    count: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    longest_ms: float = 0.0


class Bystander:
    """A client in a process of its own that pings the broker every few milliseconds."""

    def __init__(self, port: int) -> None:
        argv = [sys.executable, "-m", "tools.attack.bystander", str(port)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it is connected
        self.result = Waits()

    def stop(self) -> None:
        """End it and take its figures."""
        try:
            output, _ = self._process.communicate("stop\n", timeout=_BYSTANDER_STOP_SECONDS)
            self.result = Waits(**json.loads(output))
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()


class Attacked:
    """A broker under attack."""

    def __init__(self, process: ManagedProcess, ports: tuple[int, ...], data: Path) -> None:
        self.process = process
        self.ports = ports
        self.port = ports[0]
        self.data = data
        self._ps = psutil.Process(process.pid)
        self.first_rss_mb = self.rss_mb()
        self.peak_rss_mb = self.first_rss_mb

    def rss_mb(self) -> float:
        """Its resident memory now."""
        rss = self._ps.memory_info().rss / _MEGABYTE
        self.peak_rss_mb = max(rss, getattr(self, "peak_rss_mb", 0.0))
        return rss

    def cpu_seconds(self) -> float:
        """Processor time that it has used so far."""
        times = self._ps.cpu_times()
        return float(times.user + times.system)

    def loop(self) -> str:
        """What `why broker` says of its event loop; nothing for a broker that does not measure it."""
        with OpenWireClient.logged_in(self.port) as client:
            reply_to = commands.ActiveMQTempQueue(f"{client.connection_id}:1")
            connection_id = commands.ConnectionId(client.connection_id)
            client.request(commands.DestinationInfo(connection_id=connection_id, destination=reply_to))
            client.subscribe(reply_to)
            message_id = commands.MessageId(producer_id=client.producer, producer_sequence_id=1)
            client.send(
                commands.ActiveMQMessage(
                    producer_id=client.producer,
                    message_id=message_id,
                    destination=commands.ActiveMQQueue("Ackwire.Why"),
                    reply_to=reply_to,
                    marshalled_properties=encode_map({"subject": "broker", "name": ""}),
                )
            )
            answer = client.receive().message
            assert answer is not None
            lines = str(decode_map(answer.marshalled_properties or b"\0\0\0\0").get("answer", "")).split("\n")
        return next((line for line in lines if line.startswith("event loop")), "")

    @contextmanager
    def bystander(self) -> Iterator[Bystander]:
        """A bystander for the time of a `with` block; its figures are in `result` behind it."""
        watcher = Bystander(self.port)
        try:
            yield watcher
        finally:
            watcher.stop()


class Rounds:
    """Memory of a broker while an attack is repeated: in which round it was how much."""

    _SAMPLES = 10

    def __init__(self, broker: Attacked, rounds: int) -> None:
        self._broker = broker
        self._every = max(1, rounds // self._SAMPLES)
        self._count = 0
        self._samples: list[str] = []

    def ended(self) -> None:
        """One more round is over."""
        self._count += 1
        rss_mb = self._broker.rss_mb()
        if self._count % self._every == 0:
            self._samples.append(f"{self._count}: {rss_mb:.0f}")

    def __str__(self) -> str:
        return f"RSS in MB after rounds {', '.join(self._samples)}"


@contextmanager
def attacked(
    *options: str, toml: str = "", listeners: Sequence[str] = ("tcp://127.0.0.1:0",), data: Path | None = None
) -> Iterator[Attacked]:
    """Run `ackwire serve` with *options* and the settings in *toml*, in a temporary folder unless *data* names one.

    The broker is ended with the block, by SIGTERM and, if it does not listen, by SIGKILL.
    """
    with tempfile.TemporaryDirectory(prefix="ackwire-attack-") as name:
        folder = Path(name)
        data = data or folder / "data"
        argv = [str(ackwire_program()), "serve", "--data", str(data), *options]
        if toml:
            config = folder / "ackwire.toml"
            config.write_text(toml)
            argv += ["--config", str(config)]
        for listener in listeners:
            argv += ["--listen", listener]
        with ManagedProcess(argv, log_path=folder / "broker.log") as process:
            running = wait_until_ready(process, len(listeners))
            yield Attacked(process, running.ports, data)


def print_row(name: str, broker: Attacked, waits: Waits, note: str = "") -> None:
    """One line of the table of attacks."""
    print(
        f"{name:32} longest wait {waits.longest_ms:8.1f} ms  p99 {waits.p99_ms:7.1f} ms  "
        f"RSS {broker.first_rss_mb:6.1f} -> {broker.rss_mb():6.1f} MB, peak seen {broker.peak_rss_mb:6.1f}  {note}",
        flush=True,
    )
