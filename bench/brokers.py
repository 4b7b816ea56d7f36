"""The brokers that are measured, each a process of its own with a data directory of its own."""

import argparse
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from bench.java_load import java_classes
from tests.helpers.java import BROKER_JARS, JARS, classpath
from tests.helpers.processes import ManagedProcess, ProcessFailed, ackwire_program, wait_until_ready

LISTENER: Final = "tcp://127.0.0.1:0"
STOMP_LISTENER: Final = "stomp://127.0.0.1:0"
KAHADB_JARS: Final = (*BROKER_JARS, "activemq-kahadb-store.jar", "activemq-protobuf.jar")
STOMP_JARS: Final = ("activemq-stomp.jar",)
ACTIVEMQ_MEMORY: Final = ("-Xms64M", "-Xmx1G")
"""As ActiveMQ's own start script has it; Debian's says 512 MB."""
MEMORY_BYTES_MAX: Final = 700 * 1024 * 1024
"""Of messages in memory, for every broker that is compared: 70 % of that heap, which is ActiveMQ's own default."""
RABBITMQ_SCRIPT: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Without the wrapper in /usr/sbin, which would run it as the system's service does."""
RABBITMQ_READY: Final = re.compile(r"\bcompleted with \d+ plugins")
START_TIMEOUT_SECONDS: Final = 600.0
STOP_TIMEOUT_SECONDS: Final = 120.0
SAMPLE_SECONDS: Final = 0.1
LOG_TAIL_BYTES: Final = 4000


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that accepts connections."""

    uri: str
    process: psutil.Process
    ports: tuple[int, ...]
    """Of its listeners, in their order."""
    others: tuple[psutil.Process, ...] = ()
    """What works for it besides, in a group of processes."""

    def cpu_seconds(self) -> float:
        """Of the process and all that it has started."""
        times = [process.cpu_times() for process in self._family()]
        return float(sum(it.user + it.system for it in times))

    def rss_bytes(self) -> int:
        return sum(process.memory_info().rss for process in self._family())

    def _family(self) -> list[psutil.Process]:
        return [it for parent in (self.process, *self.others) for it in (parent, *parent.children(recursive=True))]


class Broker:
    """A broker that can be started, stopped and killed, again and again; ends with the `with` block."""

    def __init__(self, argv: Sequence[str], log_path: Path, listeners: int = 1) -> None:
        self._argv = argv
        self._log_path = log_path
        self._listeners = listeners
        self._process: ManagedProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        try:
            self.stop()
        except ProcessFailed as failure:  # it was killed; what was measured before stands
            print(failure, file=sys.stderr)

    def start(self) -> Running:
        """Start it and wait for its ready line."""
        self._process = ManagedProcess(self._argv, log_path=self._log_path)
        ready = wait_until_ready(self._process, self._listeners, START_TIMEOUT_SECONDS)
        return Running(f"tcp://127.0.0.1:{ready.ports[0]}", psutil.Process(self._process.pid), ready.ports)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self._taken().terminate(STOP_TIMEOUT_SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        self._taken().kill()

    def _taken(self) -> ManagedProcess:
        process, self._process = self._process, None
        assert process is not None, "not started"
        return process


class RabbitMq(Broker):
    """RabbitMQ on loopback with its data in a folder, apart from the system's service and its Erlang port mapper.

    Its user is guest, who may come from loopback only. The port mapper is started here, because the one that RabbitMQ
    would start stays behind.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__([str(RABBITMQ_SCRIPT)], folder / "rabbitmq.log")
        self._folder = folder
        self._mapper: ManagedProcess | None = None

    def start(self) -> Running:
        port, distribution_port, mapper_port = free_ports(3)
        environment = rabbitmq_environment(self._folder, self._folder, port, distribution_port, mapper_port)
        mapper_log = self._folder / "port-mapper.log"
        self._mapper = ManagedProcess(with_environment(environment, ["epmd"]), log_path=mapper_log)
        self._process = ManagedProcess(with_environment(environment, self._argv), log_path=self._log_path)
        self._process.wait_for_line(RABBITMQ_READY, START_TIMEOUT_SECONDS)
        return Running(f"amqp://guest:guest@127.0.0.1:{port}", psutil.Process(self._process.pid), (port,))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._mapper is not None:
            self._mapper.stop()


def rabbitmq_environment(
    folder: Path, home: Path, port: int, distribution_port: int, mapper_port: int, config: str = ""
) -> dict[str, str]:
    """For one node with its data in *folder*; nodes of a cluster have one *home*, and with it one cookie."""
    plugins, config_file = folder / "enabled_plugins", folder / "rabbitmq.conf"
    plugins.write_text("[].\n")
    limit = f"vm_memory_high_watermark.absolute = {MEMORY_BYTES_MAX}"
    config_file.write_text(f"{limit}\ndisk_free_limit.absolute = 50MB\nlog.console.level = warning\n{config}")
    return {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(config_file),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_NODENAME": rabbitmq_name(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "data" / "log"),
        "RABBITMQ_LOGS": "-",
    }


def rabbitmq_name(port: int) -> str:
    """Of the node whose clients come to *port*."""
    return f"ackwire-bench-{port}@localhost"


def with_environment(values: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """*argv* with *values* in its environment."""
    return ["env", *(f"{name}={value}" for name, value in values.items()), *argv]


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback interface."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [it.getsockname()[1] for it in sockets]


def ackwire(folder: Path, store: str, config: str = "", listeners: int = 1) -> Broker:
    """`ackwire serve` with its data in *folder*/data; *config*, the text of a TOML file, may have more *listeners*."""
    argv = [str(ackwire_program()), "serve", "--log-level", "warning", "--listen", LISTENER, "--store", store]
    if store != "memory":
        argv += ["--data", str(folder / "data")]
    if config:
        (folder / "ackwire.toml").write_text(config)
        argv += ["--config", str(folder / "ackwire.toml")]
    return Broker(argv, folder / "ackwire.log", listeners)


def activemq(folder: Path, *, concurrent_store_and_dispatch: bool = True, has_stomp: bool = False) -> Broker:
    """ActiveMQ with KahaDB in *folder*/data; OpenWire is its first listener, STOMP its second."""
    jars = (*KAHADB_JARS, *STOMP_JARS) if has_stomp else KAHADB_JARS
    listeners = [LISTENER, STOMP_LISTENER] if has_stomp else [LISTENER]
    classes = java_classes("broker", KAHADB_JARS)
    argv = ["java", *ACTIVEMQ_MEMORY, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    argv += ["-cp", classpath(jars, classes), "KahaDbBroker"]
    argv += [str(folder / "data"), str(concurrent_store_and_dispatch).lower(), str(MEMORY_BYTES_MAX), *listeners]
    return Broker(argv, folder / "activemq.log", len(listeners))


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """Options that `chosen_broker` reads."""
    parser.add_argument("--broker", choices=("ackwire", "activemq"), default="ackwire", help="default: %(default)s")
    parser.add_argument("--store", default="journal", help="Ackwire's; one that writes files (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: as tempfile says)")


def chosen_broker(options: argparse.Namespace, folder: Path) -> Broker:
    return activemq(folder) if options.broker == "activemq" else ackwire(folder, options.store)


def activemq_version() -> str:
    """As the versioned name of Debian's jar gives it."""
    names = [file.stem.removeprefix("activemq-broker-") for file in JARS.glob("activemq-broker-*.jar")]
    return names[0] if names else "of unknown version"


def rabbitmq_version() -> str:
    """As the name of Debian's folder gives it."""
    names = [
        it.name.removeprefix("rabbitmq_server-") for it in RABBITMQ_SCRIPT.parent.parent.glob("lib/rabbitmq_server-*")
    ]
    return names[0] if names else "of unknown version"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder below *parent*, or where temporary files go; removed at the end.

    If something fails, the ends of the logs in it are printed first. SIGTERM is made an exception, so that brokers end
    and data is removed then too.
    """
    signal.signal(signal.SIGTERM, _exit)
    folder = Path(tempfile.mkdtemp(prefix="ackwire-bench-", dir=parent))
    try:
        yield folder
    except Exception:
        logs = [file for file in sorted(folder.rglob("*.log")) if "data" not in file.relative_to(folder).parts]
        for log in logs:
            print(f"the end of {log.name}:\n{log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors='replace')}")
        raise
    finally:
        shutil.rmtree(folder)


def _exit(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def disk_bytes(folder: Path) -> int:
    """What the files below *folder* take on disk; files may vanish meanwhile."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


class MemorySampler:
    """The highest RSS of a process while the `with` block runs."""

    def __init__(self, broker: Running) -> None:
        self._broker = broker
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.max_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        try:
            while not self._done.is_set():
                self.max_bytes = max(self.max_bytes, self._broker.rss_bytes())
                time.sleep(SAMPLE_SECONDS)
        except psutil.NoSuchProcess:
            return
