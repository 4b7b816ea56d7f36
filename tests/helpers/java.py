"""The Java side of the conformance suite: finding Debian's tools and jars, compiling, and the driver process.

`compiled` turns a folder of sources into a folder of class files, once per version of the sources: the folder
is named by their hash, and a lock keeps parallel test workers from compiling the same thing twice.
`JavaDriver` is one long-lived JVM running `tests/conformance/java/client`, which does what lines of JSON tell
it: a JVM takes half a second to start, a request a millisecond.
"""

import fcntl
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.helpers.processes import ManagedProcess

JARS = Path("/usr/share/java")
CLIENT_JARS = (
    "activemq-client.jar",
    "activemq-openwire-legacy.jar",  # OpenWire versions 2 to 8
    "geronimo-jms_1.1_spec.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "hawtbuf.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
)
BROKER_JARS = (*CLIENT_JARS, "activemq-broker.jar")
KAHADB_JARS = (*BROKER_JARS, "activemq-kahadb-store.jar", "activemq-protobuf.jar")
DEBIAN_PACKAGES = "openjdk-17-jdk-headless libactivemq-java"
JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # quick start matters more here than top speed
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
ANSWER_TIMEOUT_SECONDS = 40.0  # the longest operation waits 20 s inside Java


class JavaError(Exception):
    """An exception that the Java client raised."""

    def __init__(self, class_name: str, message: str, code: int | None = None) -> None:
        super().__init__(f"{class_name}: {message}" + ("" if code is None else f" (code {code})"))
        self.class_name = class_name
        self.message = message
        self.code = code  # of an XAException


def answer_of(answer: dict[str, Any]) -> Any:
    """The result in a driver's answer; raises `JavaError` if it holds an exception instead."""
    if "error" in answer:
        error = answer["error"]
        raise JavaError(error["class"], error["message"], error["code"])
    return answer["result"]


def missing_requirements(jars: Sequence[str] = CLIENT_JARS) -> str | None:
    """What is missing to compile and run Java programs against the *jars*, or None."""
    missing = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    missing += [jar for jar in jars if not (JARS / jar).exists()]
    return f"{', '.join(missing)} not found; apt-get install {DEBIAN_PACKAGES}" if missing else None


def classpath(jars: Sequence[str], *folders: Path) -> str:
    return os.pathsep.join([*map(str, folders), *(str(JARS / jar) for jar in jars)])


def compiled(sources: Path, jars: Sequence[str], cache: Path) -> Path:
    """A folder below *cache* with the classes of all Java files in *sources*."""
    target = cache / f"{sources.name}-{_fingerprint(sources, jars)}"
    with _locked(cache / f"{sources.name}.lock"):
        if not target.exists():
            _compile(sources, jars, target)
    return target


def _fingerprint(sources: Path, jars: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.java")):
        digest.update(f"{source.name}\0{source.stat().st_size}\0".encode() + source.read_bytes())
    for jar in jars:
        digest.update(f"{(JARS / jar).resolve()}\0".encode())  # the real name carries the version
    return digest.hexdigest()[:16]


def _compile(sources: Path, jars: Sequence[str], target: Path) -> None:
    """Compile into a folder beside *target* and rename it: *target* exists only when complete."""
    files = [str(source) for source in sorted(sources.glob("*.java"))]
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        classes = Path(unfinished) / "classes"
        command = ["javac", "--release", "17", "-cp", classpath(jars), "-d", str(classes), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"javac failed:\n{done.stderr}")
        classes.rename(target)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def trust_store_options(store: Path, password: str) -> list[str]:
    prefix = "-Djavax.net.ssl.trustStore"
    return [f"{prefix}={store}", f"{prefix}Type=PKCS12", f"{prefix}Password={password}"]


class JavaDriver:
    """A JVM in which the real ActiveMQ client does what `call` says."""

    def __init__(self, classes: Path, *, log_path: Path, options: Sequence[str] = ()) -> None:
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        trusted = "-Dorg.apache.activemq.SERIALIZABLE_PACKAGES=*"  # our own object messages
        command = ["java", *JVM_OPTIONS, trusted, *options]
        command += ["-cp", classpath(BROKER_JARS, classes), "Driver"]  # the client finds XPath in the broker's jar
        self._process = ManagedProcess(command, log_path=log_path, on_line=self._answers.put, separate_stderr=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    @property
    def log_path(self) -> Path:
        return self._process.log_path

    def kill(self) -> None:
        """SIGKILL: the JVM goes without closing a thing, as in a crash."""
        self._process.kill()

    def call(self, operation: str, **arguments: object) -> Any:
        """Do *operation* and return its result; raises `JavaError` if the client raised."""
        self._process.write_line(json.dumps({"op": operation, **arguments}))
        return answer_of(self._next_answer(operation))

    def _next_answer(self, operation: str) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=ANSWER_TIMEOUT_SECONDS)
        except queue.Empty:
            threads = self._threads()
            failure = self._process.failure(f"did not answer {operation!r}; its threads:\n{threads}\n")
            self._process.kill()
            raise failure from None
        if line is None:
            raise self._process.failure(f"ended during {operation!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _threads(self) -> str:
        """What every thread of the JVM is doing: it prints that on SIGQUIT."""
        self._process.send_signal(signal.SIGQUIT)
        lines: list[str] = []
        try:
            while (line := self._answers.get(timeout=2)) is not None:
                lines.append(line)
        except queue.Empty:
            pass
        return "\n".join(lines)
