"""Load from the real Java clients: a JVM running `bench/java/load`, which verifies what arrives.

A round is opened (connections, consumers), run, and closed. Connecting and closing are not part of what is measured.
The JVM lives through all rounds and serves all brokers in turn, so its client is equally warm for each. Brokers with an
`amqp:` address are driven with RabbitMQ's client, all others with ActiveMQ's.
"""

import json
import queue
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.measure import ROOT
from tests.helpers.java import CLIENT_JARS, classpath, compiled
from tests.helpers.processes import ManagedProcess

SOURCES: Final = ROOT / "bench" / "java"
CLASSES: Final = ROOT / "build" / "bench-java"
LOAD_JARS: Final = (*CLIENT_JARS, "amqp-client.jar")
JVM_OPTIONS: Final = ("-Xms256m", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
ANSWER_TIMEOUT_SECONDS: Final = 60.0
OPEN_TIMEOUT_SECONDS: Final = 180.0  # a thousand connections
ROUND_TIMEOUT_SECONDS: Final = 1800.0  # long fills; a round in which nothing moves gives up after a minute

KIB: Final = 1024


class LoadFailed(Exception):
    """The client raised, or a message is missing, repeated, damaged or out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a round does; `bench/java/load/Work.java` explains each part."""

    messages: int
    """By each of the sources."""
    sources: int = 1
    consumers: int = 1
    first: int = 0
    send: bool = True
    persistent: bool = True
    asynchronous: bool = False
    batch: int = 0
    body_bytes: int = KIB
    keep_every: int = 0
    step: int = 1
    partial: bool = False
    topic: bool = False
    durable: bool = False
    selectors: int = 0
    queues: int = 1
    shared: bool = False
    rate: int = 0
    pings: int = 0
    quorum: bool = False

    @property
    def total(self) -> int:
        return self.sources * self.messages

    def words(self) -> str:
        return " ".join(f"{_java_name(name)}={str(value).lower()}" for name, value in asdict(self).items())


def _java_name(name: str) -> str:
    """`body_bytes` is `bodyBytes` there."""
    head, *tail = name.split("_")
    return head + "".join(map(str.capitalize, tail))


@dataclass(frozen=True, slots=True)
class Done:
    """A round whose messages all arrived as they should."""

    seconds: float
    send_seconds: float
    arrived: int
    tenths: tuple[float, ...]
    """When the first producer had sent each tenth of its messages, in seconds after the start."""
    latency: Mapping[str, float]
    """In milliseconds after the planned time, if the work has a rate, or of its small requests: `p50` to `max`."""


class LoadGenerator:
    """The JVM; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Compile if need be, and start; the log goes to *folder*."""
        command = ["java", *JVM_OPTIONS, "-cp", classpath(LOAD_JARS, java_classes("load", LOAD_JARS))]
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = ManagedProcess(
            [*command, "LoadGenerator"],
            log_path=folder / "load.log",
            on_line=self._answers.put,
            separate_stderr=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def open(self, work: Work, uri: str, destination: str, tag: str) -> None:
        """Connect for a round; *tag* marks its messages."""
        self._ask(f"open uri={uri} destination={destination} tag={tag} {work.words()}", OPEN_TIMEOUT_SECONDS)

    def run(self) -> Done:
        """Do the round that was opened."""
        answer = self._ask("run", ROUND_TIMEOUT_SECONDS)
        figures = answer["seconds"], answer["send_seconds"], answer["arrived"], tuple(answer["tenths"])
        return Done(*figures, answer["latency"])

    def close(self) -> None:
        """Disconnect; raises `LoadFailed` unless every message arrived exactly once."""
        self._ask("close", OPEN_TIMEOUT_SECONDS)

    def do(self, work: Work, uri: str, destination: str, tag: str) -> Done:
        """A whole round."""
        self.open(work, uri, destination, tag)
        done = self.run()
        self.close()
        return done

    def has_left(self, uri: str, queue_name: str) -> bool:
        """Whether the queue still holds a message."""
        return bool(self._ask(f"left {uri} {queue_name}", ANSWER_TIMEOUT_SECONDS)["left"])

    def _ask(self, request: str, timeout_seconds: float) -> dict[str, Any]:
        self._process.write_line(request)
        try:
            line = self._answers.get(timeout=timeout_seconds)
        except queue.Empty:
            raise self._process.failure(f"did not answer {request!r} in {timeout_seconds} s") from None
        if line is None:
            raise self._process.failure(f"ended during {request!r}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LoadFailed(f"{request}: {answer['error']}")
        return answer


def java_classes(name: str, jars: tuple[str, ...]) -> Path:
    """The folder with the classes of `bench/java/<name>`."""
    CLASSES.mkdir(parents=True, exist_ok=True)
    return compiled(SOURCES / name, jars, CLASSES)
