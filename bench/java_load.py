"""Load from the real ActiveMQ Java client: a JVM running `bench/java/load`, which verifies what arrives.

A round is opened (connections, consumers), then run. What is measured lies between: connecting is not part of it. The
JVM lives through all rounds and serves all brokers in turn, so its client is equally warm for each.
"""

import json
import queue
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.measure import ROOT
from tests.helpers.java import CLIENT_JARS, classpath, compiled
from tests.helpers.processes import ManagedProcess

SOURCES: Final = ROOT / "bench" / "java"
CLASSES: Final = ROOT / "build" / "bench-java"
JVM_OPTIONS: Final = ("-Xms256m", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
ANSWER_TIMEOUT_SECONDS: Final = 60.0
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
    send: bool = True
    persistent: bool = True
    asynchronous: bool = False
    batch: int = 0
    body_bytes: int = KIB
    keep_every: int = 0
    step: int = 1

    @property
    def total(self) -> int:
        return self.sources * self.messages

    def words(self) -> str:
        values = {
            "send": self.send,
            "sources": self.sources,
            "consumers": self.consumers,
            "messages": self.messages,
            "persistent": self.persistent,
            "async": self.asynchronous,
            "batch": self.batch,
            "bodyBytes": self.body_bytes,
            "keepEvery": self.keep_every,
            "step": self.step,
        }
        return " ".join(f"{name}={str(value).lower()}" for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Done:
    """A round whose messages all arrived as they should."""

    seconds: float
    send_seconds: float
    arrived: int
    tenths: tuple[float, ...]
    """When the first producer had sent each tenth of its messages, in seconds after the start."""


class LoadGenerator:
    """The JVM; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Compile if need be, and start; the log goes to *folder*."""
        command = ["java", *JVM_OPTIONS, "-cp", classpath(CLIENT_JARS, java_classes("load", CLIENT_JARS))]
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

    def open(self, work: Work, uri: str, queue_name: str, tag: str) -> None:
        """Connect for a round; *tag* marks its messages."""
        self._ask(f"open uri={uri} queue={queue_name} tag={tag} {work.words()}", ANSWER_TIMEOUT_SECONDS)

    def run(self) -> Done:
        """Do the round that was opened; raises `LoadFailed` unless every message arrived exactly once."""
        answer = self._ask("run", ROUND_TIMEOUT_SECONDS)
        return Done(answer["seconds"], answer["send_seconds"], answer["arrived"], tuple(answer["tenths"]))

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
