"""Common parts of the demo: progress output, child processes that are ended in order, and the broker."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "examples" / "java"
OUTPUT = ROOT / "build" / "demo"  # one folder per run; `make clean` removes them
JARS = Path("/usr/share/java")
CLIENT_JARS = (
    "activemq-client.jar",
    "geronimo-jms_1.1_spec.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "hawtbuf.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
)
ACKWIRE = str(Path(sys.executable).with_name("ackwire"))
JVM_OPTIONS = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a quick start matters more here than top speed
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
COMPILER_OPTIONS = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-Xlint:all", "-Werror")

USUAL_PORT = 61616  # where clients of ActiveMQ look first
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05


class DemoFailed(Exception):
    """The demo cannot go on; the text says why."""


# ---- progress --------------------------------------------------------------------------------------------------


_started = time.monotonic()


def say(text: str) -> None:
    """A line of progress, with the time since the start."""
    print(f"[{time.monotonic() - _started:5.1f} s] {text}", flush=True)


# ---- processes -------------------------------------------------------------------------------------------------


class Child:
    """A process that the demo started; it is only ever signalled by its own pid."""

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as errors:
            # In a group of its own, so that Ctrl-C reaches the demo alone, which then ends everything in order.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0
            )

    def expect(self, beginning: str) -> str:
        """Wait for the next line of output, which must start with *beginning*."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().rstrip()
        if not line.startswith(beginning):
            self.fail(f"said {line!r} instead of {beginning!r}" if line else "ended early")
        return line

    def finish(self) -> None:
        """Close the standard input, which tells our Java programs to stop, and wait for a good end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._expect_exit_code(self._process.wait())

    def kill(self) -> None:
        """SIGKILL, for all that it started, too: no farewell, as in a crash."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def terminate(self) -> None:
        """SIGTERM, and wait for a good end."""
        self._process.terminate()
        self._expect_exit_code(self._process.wait(STOP_SECONDS))

    def wait(self) -> int:
        return self._process.wait()

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """End the process if it still runs, one way or the other."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _expect_exit_code(self, code: int) -> None:
        if code != 0:
            self.fail(f"ended with exit code {code}")

    def fail(self, what: str) -> NoReturn:
        """Raise `DemoFailed` with what the process had to say for itself."""
        tail = self.log.read_text(errors="replace")[-2000:].strip()
        raise DemoFailed(f"{self.name} {what}" + (f"; the end of {self.log}:\n{tail}" if tail else ""))


@dataclass
class Run:
    """One run of the demo: its folder, its broker, and every process it started."""

    folder: Path
    store: str = ""
    """The URI of the broker's store; empty for the journal in its data folder."""
    children: list[Child] = field(default_factory=list)
    url: str = ""
    http: str = ""

    def __enter__(self) -> Self:
        for part in ("events", "classes"):
            (self.folder / part).mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not keep us from tidying up
        for client in self.children[1:]:
            client.ask_to_end()
        for child in reversed(self.children):  # the broker came first and goes last
            child.stop()

    def start(self, name: str, argv: Sequence[str]) -> Child:
        child = Child(name, argv, self.folder / f"{name}.log")
        self.children.append(child)
        return child

    def start_broker(self) -> Child:
        say(f"starting the broker: ackwire serve --data DIRECTORY{f' --store {self.store}' if self.store else ''}")
        port = USUAL_PORT if is_free(USUAL_PORT) else 0
        if port == 0:
            say(f"port {USUAL_PORT} is taken; the broker will listen on a free one")
        return self._start_broker(f"tcp://127.0.0.1:{port}", "127.0.0.1:0")

    def stop_broker(self) -> None:
        """Have it end in order."""
        self.children[0].terminate()

    def replace_broker(self) -> None:
        """Kill the broker as a crash would, and start another one on its data and its port."""
        self.children.pop(0).kill()
        self._start_broker(self.url, self.http.removeprefix("http://"))

    def _start_broker(self, listen: str, http: str) -> Child:
        options = ["--data", str(self.folder / "data"), "--audit", str(self.folder / "audit")]
        if self.store:
            options += ["--store", self.store]
        broker = self.start("broker", [ACKWIRE, "serve", *options, "--listen", listen, "--http", http])
        self.children.insert(0, self.children.pop())  # it goes last
        self.url, self.http = (address.rstrip(",") for address in broker.expect("ackwire").split()[-2:])
        return broker

    @property
    def http_urls(self) -> str:
        """Every address where the broker may answer HTTP requests."""
        return self.http

    @property
    def client_url(self) -> str:
        """What clients connect to."""
        return self.url

    @property
    def token_file(self) -> Path:
        return self.folder / "data" / "http.token"

    def collect_audit(self) -> Path:
        """The directory with all that the audit has written."""
        return self.folder / "audit"

    def example(self, program: str, *arguments: str) -> Child:
        """One of the Python programs beside this one."""
        return self.start(Path(program).stem, [sys.executable, str(ROOT / "examples" / program), *arguments])

    def compile_clients(self) -> None:
        sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
        command = ["javac", *COMPILER_OPTIONS, "-cp", self._classpath, "-d", str(self.folder / "classes"), *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DemoFailed(f"javac failed:\n{done.stderr}")

    def producer(self, name: str, destination: str, count: int) -> Child:
        return self._java("Producer", name, destination, str(count))

    def consumer(self, name: str, destination: str, mode: str, *stall_after: int) -> Child:
        return self._java("Consumer", name, destination, mode, *map(str, stall_after))

    def python_producer(self, name: str, destination: str, count: int) -> Child:
        return self._python("producer", name, destination, str(count))

    def python_consumer(self, name: str, destination: str) -> Child:
        return self._python("consumer", name, destination)

    def _python(self, role: str, name: str, *arguments: str) -> Child:
        events = str(self.folder / "events" / f"{name}.jsonl")
        program = str(ROOT / "examples" / "python_client.py")
        return self.start(name, [sys.executable, program, role, self.url, events, name, *arguments])

    def _java(self, program: str, name: str, *arguments: str) -> Child:
        events = str(self.folder / "events" / f"{name}.jsonl")
        return self.start(
            name, ["java", *JVM_OPTIONS, "-cp", self._classpath, program, self.client_url, events, name, *arguments]
        )

    @property
    def _classpath(self) -> str:
        return ":".join([str(self.folder / "classes"), *(str(JARS / jar) for jar in CLIENT_JARS)])


def is_free(port: int) -> bool:
    """Whether a broker could listen on *port* of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Return when *condition* holds, or after *seconds*: the report will tell."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def check_requirements() -> None:
    missing = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    missing += [jar for jar in CLIENT_JARS if not (JARS / jar).exists()]
    if missing:
        raise DemoFailed(f"{', '.join(missing)} not found; apt-get install default-jdk-headless libactivemq-java")
