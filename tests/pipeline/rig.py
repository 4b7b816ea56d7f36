"""The parts of a pipeline under test: the broker as seen from outside, a feeder, and the Spark program."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

import ackwire
from tests.helpers.processes import ManagedProcess
from tests.pipeline.job import CURSOR, WORKING_LINE
from tests.pipeline.sessions import executors, kill_session, members
from tests.spark.broker import HttpBroker

SOURCE = "in"
SINK = "out"
FEEDER = "feeder"
START_SECONDS_MAX = 180.0
"""Of Spark; ten are usual, on a machine that has nothing else to do."""
FED_AT_ONCE = 5000
RETRY_TIMEOUT = "120s"
TEXT_BYTES = 200


def text_of(number: int) -> str:
    return f"message {number} ".ljust(TEXT_BYTES, ".")


# ---- what the broker tells ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SinkState:
    """What the broker knows of the producer that Spark's sink is."""

    last_batch: int | None
    parts: dict[str, tuple[int, int]]
    """What is staged: by the part's name, its batch and how many messages it has."""

    def staged(self, without: Collection[str] = ()) -> dict[int, int]:
        """Messages by the batch they are staged for, in parts that have other names than those in *without*."""
        messages: dict[int, int] = {}
        for name, (batch, count) in self.parts.items():
            if name not in without:
                messages[batch] = messages.get(batch, 0) + count
        return messages


class Eyes:
    """Looks at the broker from outside."""

    def __init__(self, broker: HttpBroker) -> None:
        self._api = broker.new_api(retryTimeout=RETRY_TIMEOUT)

    def sink(self, producer: str) -> SinkState:
        facts = self._api.json("GET", f"/v1/producers/{producer}")
        parts = {part["part"]: (part["batch"], part["messages"]) for part in facts["parts"]}
        return SinkState(facts["last_batch"], parts)

    def cursor(self) -> Any:
        return self._api.cursor(CURSOR)

    def cursor_names(self) -> list[str]:
        return [facts["name"] for facts in self._api.json("GET", "/v1/cursors")]

    def messages_in(self, queue: str) -> int:
        """All that are on it, also those that a cursor holds."""
        facts = self._api.json("GET", f"/v1/queues/{queue}/ranges")
        return int(facts["messages"])

    def close(self) -> None:
        self._api.close()


def wait_until(condition: Callable[[], bool], what: str, timeout_seconds: float, pause_seconds: float = 0.02) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_seconds:.0f} s")
        time.sleep(pause_seconds)


# ---- who fills the queue ------------------------------------------------------------------------------------------


class Feeder:
    """Puts numbered messages on the source, each once, also while the broker is killed."""

    def __init__(self, broker: HttpBroker, fed: int = 0) -> None:
        """*fed* messages are there already."""
        self._api = broker.new_api(retryTimeout=RETRY_TIMEOUT)
        self._batch = 0
        self.fed = fed
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def begin(self, count: int) -> None:
        """Feed *count* more, in a thread; `join` waits for it."""
        self.join()
        self._thread = threading.Thread(target=self._feed, args=(count,), name="feeder", daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._api.close()

    def _feed(self, count: int) -> None:
        try:
            last = self.fed + count
            while self.fed < last:
                numbers = range(self.fed, min(self.fed + FED_AT_ONCE, last))
                part = self._api.stage(FEEDER, self._batch, _rows(numbers), f"queue://{SOURCE}", self._new_part)
                self._api.commit_batch(FEEDER, self._batch, [part])
                self._batch += 1
                self.fed = numbers.stop
        except Exception as error:  # told to who waits for this thread
            self._failure = error

    def _new_part(self) -> str:
        return f"{self._batch}-{time.monotonic_ns()}"


def _rows(numbers: range) -> Any:
    columns = {
        "text": [text_of(number) for number in numbers],
        "correlation_id": [f"c-{number}" for number in numbers],
        "property:number": pa.array(numbers, pa.int64()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def send_by_client(url: str, numbers: range) -> None:
    """The same messages, as any client sends them."""
    with ackwire.connect(url) as connection, connection.session(transacted=True) as session:
        producer = session.producer(SOURCE)
        for number in numbers:
            properties = {"number": number}
            producer.send(text_of(number), correlation_id=f"c-{number}", properties=properties)
        session.commit()


# ---- the Spark program --------------------------------------------------------------------------------------------


class Driver:
    """`tests.pipeline.job`, with its checkpoint; started, killed with all that belongs to it, and started again."""

    def __init__(
        self, broker: HttpBroker, folder: Path, *, options: Sequence[str] = (), producer: str | None = None
    ) -> None:
        self._broker = broker
        self._folder = folder
        self._options = [*options, *(["--producer", producer] if producer else [])]
        self._named_producer = producer
        self._process: ManagedProcess | None = None
        self._known: list[int] = []
        self.checkpoint = folder / "checkpoint"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "the driver was not started"
        return self._process

    @property
    def producer(self) -> str | None:
        """Under which name the sink writes; None as long as the query has no checkpoint."""
        if self._named_producer is not None:
            return self._named_producer
        try:
            return str(json.loads((self.checkpoint / "metadata").read_text())["id"])
        except (FileNotFoundError, ValueError):
            return None

    @property
    def batches_done(self) -> int | None:
        """The last batch that Spark has written down as done."""
        names = [path.name for path in (self.checkpoint / "commits").glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def start(self) -> None:
        options = self._broker.options
        argv = [sys.executable, "-m", "tests.pipeline.job", "--url", options["url"]]
        argv += ["--token-file", options["tokenFile"], "--checkpoint", str(self.checkpoint)]
        argv += ["--scratch", str(self._folder / "scratch"), "--source", SOURCE, "--sink", SINK, *self._options]
        self._process = ManagedProcess(argv, log_path=self._folder / "driver.log")

    def wait_until_working(self) -> None:
        self.process.wait_for_line(re.compile(re.escape(WORKING_LINE)), START_SECONDS_MAX)

    def executors(self) -> list[int]:
        return executors(self.process.pid)

    def take_aim(self) -> None:
        """Find out whom to kill: that takes too long for a moment that has come."""
        self._known = members(self.process.pid)

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM, its executors and all their workers."""
        kill_session(self.process.pid, self._known)
        self._known = []
        self.process.kill()
        self._process = None

    def stop(self) -> None:
        """As its user would end it."""
        self.process.write_line("stop")
        wait_until(lambda: not self.process.is_running, "the end of the pipeline", START_SECONDS_MAX)
        if self.process.wait() != 0:
            raise self.process.failure("did not end well")
        kill_session(self.process.pid)
        self._process = None
