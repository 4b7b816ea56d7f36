"""How many rows a second go between the broker and Spark, broker included, and who works how long for one of them?

Messages of 1 KiB text on a journal, Spark with `local[2]`. A queue is filled over HTTP without Spark, read as a batch,
read as a stream through a cursor, both into nothing, and a stream of Parquet files is written to another queue. Rates
are of a Spark that is warm; those of streams are by batch, without the first. CPU is that of the broker, of Spark's
JVM and of its Python workers, by row: on a machine that does something else, too, look at those.

    .venv/bin/python -m bench.spark_throughput [--messages N] [--master "local[2]"]
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import psutil
import pyarrow as pa

from ackwire.spark.http import BrokerApi
from ackwire.spark.options import Use, read_options
from ackwire.spark.session import session
from bench.brokers import Broker, Running, ackwire, scratch_folder
from bench.measure import Figure, options_parser, show, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES: Final = 500_000
QUICK_MESSAGES: Final = 100_000
MASTER: Final = "local[2]"
TEXT_BYTES: Final = 1024
ROWS_PER_TRIGGER: Final = 100_000
ROWS_PER_REQUEST: Final = 8_000
BATCH_READS: Final = 3
WARM_UP_ROWS: Final = 20_000
SAMPLE_SECONDS: Final = 0.2


def main(arguments: Sequence[str]) -> None:
    parser = options_parser("Rows a second between the broker and Spark.")
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK_MESSAGES:,} messages")
    parser.add_argument("--messages", type=int, help=f"messages of 1 KiB (default: {MESSAGES:,})")
    parser.add_argument("--per-trigger", type=int, help=f"rows in a batch of a stream (default: {ROWS_PER_TRIGGER:,})")
    parser.add_argument("--master", default=MASTER, help="Spark's (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: as tempfile says)")
    options = parser.parse_args(arguments)
    messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    per_trigger = options.per_trigger or min(ROWS_PER_TRIGGER, messages // 5)
    with (
        scratch_folder(options.folder) as folder,
        ackwire(folder, "journal", '[http]\nlisten = "127.0.0.1:0"\n', listeners=2) as broker,
    ):
        spark = session("bench", options.master, **{"spark.driver.memory": "2g"})
        try:
            figures = told(Throughput(spark, broker, folder, messages, per_trigger).figures())
        finally:
            spark.stop()
    show(
        f"spark: {messages:,} messages of 1 KiB, {per_trigger:,} in a batch, {options.master}, journal",
        figures,
        options.json,
    )


# ---- who works how long --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds by who used them."""

    broker: float
    jvm: float
    python: float

    def each_since(self, before: "Cpu", rows: int) -> dict[str, float]:
        """Microseconds by row."""
        names = {"broker": "broker", "jvm": "JVM", "python": "Python workers"}
        return {shown: (getattr(self, name) - getattr(before, name)) / rows * 1e6 for name, shown in names.items()}


@dataclass(frozen=True, slots=True)
class Run:
    """What one measurement has found."""

    rates: Sequence[float]
    cpu_before: Cpu
    rows: int


class CpuSampler:
    """Watches the broker and all that Spark starts. Workers come and go, so what they used is looked at often."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._used: dict[tuple[int, float], tuple[bool, float]] = {}
        """By process: whether it is a JVM, and what it was last seen to have used."""
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def now(self) -> Cpu:
        self._look()
        jvm = sum(seconds for is_jvm, seconds in self._used.values() if is_jvm)
        python = sum(seconds for is_jvm, seconds in self._used.values() if not is_jvm)
        return Cpu(self._running.cpu_seconds(), jvm, python)

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for process in psutil.Process().children(recursive=True):
                if process.pid == self._running.process.pid:
                    continue
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    key = (process.pid, process.create_time())
                    self._used[key] = ("java" in process.name(), times.user + times.system)


# ---- the measurements ----------------------------------------------------------------------------------------------


class Throughput:
    """All measurements, one after the other."""

    def __init__(self, spark: "SparkSession", broker: Broker, folder: Path, messages: int, per_trigger: int) -> None:
        self._spark = spark
        self._folder = folder
        self._messages = messages
        self._per_trigger = per_trigger
        self._running = broker.start()
        self._cpu = CpuSampler(self._running)
        token = folder / "data" / "http.token"
        self._options = {"url": f"http://127.0.0.1:{self._running.ports[1]}", "tokenFile": str(token)}

    def figures(self) -> Iterator[Figure]:
        with self._cpu:
            yield from self._all()

    def _all(self) -> Iterator[Figure]:
        yield from self._measured("staging over HTTP, without Spark", self._fill, "")
        self._warm_up()
        yield from self._measured("batch read", self._read_batches, "> 80,000")
        yield from self._measured("stream read", self._read_stream, "> 50,000")
        self._write_parquet("parquet", self._messages, self._messages // self._per_trigger)
        yield from self._measured("stream write", self._write_stream, "> 30,000")

    def _measured(self, name: str, work: Callable[[], Run], expected: str) -> Iterator[Figure]:
        run = work()
        yield Figure(name, "rows/s", tuple(run.rates), expected)
        for who, microseconds in self._cpu.now().each_since(run.cpu_before, run.rows).items():
            yield Figure(f"{name}: CPU of the {who}", "µs/row", (microseconds,))

    def _fill(self, queue: str = "source", messages: int = 0) -> Run:
        before, rates = self._cpu.now(), []
        producer, body = f"filling {queue}", _arrow_rows(ROWS_PER_REQUEST)
        api = BrokerApi(read_options(self._options, Use.WRITE))
        for batch in range((messages or self._messages) // ROWS_PER_REQUEST):
            started = time.perf_counter()
            part = api.stage(producer, batch, body, f"queue://{queue}", lambda batch=batch: f"part-{batch}")  # type: ignore[misc]
            api.commit_batch(producer, batch, [part])
            rates.append(ROWS_PER_REQUEST / (time.perf_counter() - started))
        api.close()
        return Run(rates, before, len(rates) * ROWS_PER_REQUEST)

    def _warm_up(self) -> None:
        """Starts what Spark starts when it is needed first."""
        self._fill("warm-up", WARM_UP_ROWS)
        for _ in range(2):
            _into_nothing(self._frame("warm-up"))
        self._write_parquet("warm-up.parquet", WARM_UP_ROWS, 2)
        self._stream_to_queue("warm-up.parquet", "warm-up.sink")

    def _frame(self, queue: str) -> "DataFrame":
        return self._spark.read.format("ackwire").options(**self._options).load(queue)

    def _read_batches(self) -> Run:
        before, rates = self._cpu.now(), []
        rows = self._messages // ROWS_PER_REQUEST * ROWS_PER_REQUEST
        for _ in range(BATCH_READS):
            started = time.perf_counter()
            _into_nothing(self._frame("source"))
            rates.append(rows / (time.perf_counter() - started))
        return Run(rates, before, rows * BATCH_READS)

    def _read_stream(self) -> Run:
        source = self._spark.readStream.format("ackwire").options(**self._options).option("destination", "source")
        frame = source.option("cursor", "bench").option("maxMessagesPerTrigger", self._per_trigger).load()
        return self._rates(frame.writeStream.format("noop"), "read")

    def _write_parquet(self, name: str, rows: int, files: int) -> None:
        text = f"rpad(cast(id as string), {TEXT_BYTES}, 'x') AS text"
        self._spark.range(0, rows, 1, files).selectExpr(text).write.parquet(str(self._folder / name))

    def _write_stream(self) -> Run:
        return self._stream_to_queue("parquet", "sink")

    def _stream_to_queue(self, files: str, queue: str) -> Run:
        source = self._spark.readStream.schema("text string").option("maxFilesPerTrigger", 1)
        frame = source.parquet(str(self._folder / files))
        sink = frame.writeStream.format("ackwire").options(**self._options).option("destination", queue)
        return self._rates(sink, queue)

    def _rates(self, sink: Any, name: str) -> Run:
        """Run a stream to its end; what is measured begins behind its first batch."""
        checkpoint = str(self._folder / f"checkpoint-{name}")
        query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        while query.isActive and not any(it["numInputRows"] for it in query.recentProgress):
            time.sleep(SAMPLE_SECONDS / 4)
        before = self._cpu.now()
        query.awaitTermination()
        batches = [(it["numInputRows"], it["durationMs"]["triggerExecution"]) for it in query.recentProgress]
        later = [(rows, milliseconds) for rows, milliseconds in batches if rows][1:]
        rates = [rows / milliseconds * 1000 for rows, milliseconds in later]
        return Run(rates, before, max(1, sum(rows for rows, _ in later)))


def _into_nothing(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _arrow_rows(count: int) -> Any:
    batch = pa.RecordBatch.from_pydict({"text": [str(number).ljust(TEXT_BYTES, "x") for number in range(count)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
