"""The query behind `ackwire audit follow`: a structured stream over the events, with a checkpoint.

The stream brings the names of new files, and each micro-batch reads these files with the very code of the batch job
(`cleaning`): one narrow pass finds which numbers of which run a file holds, and only what overlaps with other files or
with numbers seen before is made distinct. What was seen is kept as a few intervals per run, so repeated events are
dropped exactly, however late; Spark's own dropDuplicatesWithinWatermark has to keep and shuffle every event, is three
times slower and forgets. A second pass counts.

What is known (`alerts.Watch`) is written beside Spark's checkpoint when a micro-batch is done. A micro-batch that is
done again after a crash has the same number and the same files: it starts from the same state, and counts nothing
twice. Alerts may come twice then, never less than once. The hourly batch (`ackwire audit run`) is the truth.
"""

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import functions as F

from ackwire.errors import ConfigError
from ackwire.spark.audit.alerts import (
    COUNTED,
    HANDLED,
    MINUTE_US,
    Alert,
    BatchCounts,
    EventCount,
    Thresholds,
    Watch,
    present_runs,
)
from ackwire.spark.audit.cleaning import EVENT_COLUMNS, clean, read_events
from ackwire.spark.audit.counting import spans_of
from ackwire.spark.audit.hourly import Count, HourlyCounts
from ackwire.spark.audit.local import SHARES_MAX, in_workers, shares

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILES_PER_BATCH: Final = 32
"""Files of one micro-batch: with the broker's usual settings up to some million events."""
_GROUPS_MAX: Final = 200_000
"""Counts of one micro-batch; if there are more, consumers and causes are not told apart in it."""
_CAUSE_LENGTH_MAX: Final = 200
_STATE: Final = "ackwire.json"
_VERSION: Final = 1
_LIVE_US: Final = 2 * MINUTE_US
"""Events that are newer than this are those of a broker that runs: time goes on even if it is quiet."""
_DELAY_US: Final = 15_000_000
"""How long an event may take until it is in a file."""

_CUTS: Final = "broker string, place string, cut bigint"


def events_root(events: Path) -> Path:
    """The folder with the days; *events* may be it, or the one that the broker's audit was given."""
    if not events.is_dir():
        raise ConfigError(f"{events} is no directory: it must be the one that the broker's audit writes to")
    return events if events.name == "events" or any(events.glob("date=*")) else events / "events"


class Follower:
    """Follows one folder of events. Spark calls from a thread of its own; `lock` guards what is known."""

    def __init__(
        self,
        spark: "SparkSession",
        root: Path,
        checkpoint: Path,
        *,
        out: Path | None = None,
        thresholds: Thresholds | None = None,
        on_batch: "Callable[[Follower, BatchCounts, list[Alert]], None]" = lambda *_: None,
        files_per_batch: int = FILES_PER_BATCH,
    ) -> None:
        self.lock = threading.Lock()
        self.watch = Watch()
        self._spark = spark
        self._root = root
        self._checkpoint = checkpoint
        self._thresholds = thresholds or Thresholds()
        self._on_batch = on_batch
        self._files_per_batch = files_per_batch
        self.error: BaseException | None = None
        """What has ended the query; Spark only tells it as a text."""
        query = self._load()
        self._counts = HourlyCounts(out or checkpoint / "counts", query)
        self._query = query

    # ---- the query

    def start(self, *, every_seconds: float | None) -> "StreamingQuery":
        """Start; without *every_seconds* it ends when it has taken what is there."""
        names = (
            self._spark.readStream.schema(EVENT_COLUMNS)
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", self._files_per_batch)
            .option("latestFirst", "false")
            .parquet(str(self._root))
            .select(F.col("_metadata.file_path").alias("file"))
        )
        writer = names.writeStream.foreachBatch(self._run).option("checkpointLocation", str(self._checkpoint / "spark"))
        if every_seconds is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(every_seconds * 1000)} milliseconds").start()

    def stop(self, query: "StreamingQuery") -> None:
        """End the query; a micro-batch under way is done again by the next one."""
        self._spark.sparkContext.setLogLevel("ERROR")  # it would warn that there is no job to cancel
        query.stop()

    def look(self) -> list[Alert]:
        """Alerts that come because nothing has happened for a while, at brokers that run."""
        now = time.time_ns() // 1000
        with self.lock:
            alive = {it: now - _DELAY_US for it, newest in self.watch.newest_us.items() if now - newest < _LIVE_US}
            now_us = {it: max(at, self.watch.newest_us[it]) for it, at in alive.items()}
            return self.watch.look(now_us, self._thresholds) if now_us else []

    def _run(self, names: "DataFrame", batch: int) -> None:
        try:
            self._take(names, batch)
        except BaseException as error:
            self.error = error
            raise

    def _take(self, names: "DataFrame", batch: int) -> None:
        if batch <= self.watch.batch:  # it was done, and Spark was killed before it could note that
            return
        if batch != self.watch.batch + 1:
            raise ConfigError(
                f"{self._checkpoint} is not whole: Spark is at micro-batch {batch}, {_STATE} at {self.watch.batch}: "
                "delete it, and everything is counted anew"
            )
        files = [_path(it["file"]) for it in names.distinct().collect()]
        counts = self._counted(batch, sorted(files))
        self._counts.add(batch, _minutes(counts.events))
        with self.lock:
            # Work on a copy: if the rest fails, the micro-batch starts again from what is known now.
            watch = Watch.from_json(json.loads(json.dumps(self.watch.to_json())))
            alerts = watch.take(counts, self._thresholds)
            self.watch = watch
        self._on_batch(self, counts, alerts)
        self._save()

    def _counted(self, batch: int, files: Sequence[str]) -> BatchCounts:
        known = self.watch.runs
        spans = in_workers(self._spark, spans_of, shares(files, SHARES_MAX))
        cleaned = clean(read_events(self._spark, files), spans, known)
        newest = {it.broker: 0 for it in cleaned.runs.by_name.values()}
        for name in cleaned.new:
            run = cleaned.runs.by_name[name]
            newest[run.broker] = max(newest[run.broker], run.ended_us)
        present = sorted(present_runs(cleaned.runs).values())
        events = cleaned.events.withColumns({"place": _place(), "is_present": F.col("run").isin(*present)})
        census = events.where((F.col("event") == "census") & F.col("is_present")).groupBy("broker", "place")
        counted = census.agg(F.max("number").alias("cut"), F.max_by("count", "number").alias("n")).collect()
        return BatchCounts(
            batch=batch,
            events=self._count(events, [(it["broker"], it["place"], it["cut"]) for it in counted]),
            census={(it["broker"], it["place"]): it["n"] for it in counted},
            runs=cleaned.runs,
            repeated=sum(cleaned.repeated.values()),
            newest_us={broker: at for broker, at in newest.items() if at},
        )

    def _count(self, events: "DataFrame", cuts: list[tuple[str, str, int]]) -> list[EventCount]:
        events = events.where(F.col("event").isin(*COUNTED, *HANDLED))
        if cuts:
            events = events.join(F.broadcast(self._spark.createDataFrame(cuts, _CUTS)), ["broker", "place"], "left")
        else:
            events = events.withColumn("cut", F.lit(None).cast("bigint"))
        rows = _grouped(events, in_detail=True).limit(_GROUPS_MAX + 1).toArrow()
        if rows.num_rows > _GROUPS_MAX:
            rows = _grouped(events, in_detail=False).toArrow()
        return [EventCount(**it) for it in rows.to_pylist()]

    # ---- what is known, as a file

    def _load(self) -> str:
        """Read the state; give the name of the query, which stays the same as long as the checkpoint does."""
        path = self._checkpoint / _STATE
        try:
            values = json.loads(path.read_text())
            if values["version"] != _VERSION:
                raise ConfigError(f"{path} is of version {values['version']}, and this is {_VERSION}: use a new folder")
            if values["events"] != str(self._root.absolute()):
                raise ConfigError(f"{self._checkpoint} follows {values['events']}: use another --checkpoint")
            self.watch = Watch.from_json(values["watch"])
            return str(values["query"])
        except FileNotFoundError:
            if (self._checkpoint / "spark").exists():
                raise ConfigError(
                    f"{path} is missing: delete {self._checkpoint}, and everything is counted anew"
                ) from None
            return str(uuid.uuid4())
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): delete {self._checkpoint}") from None

    def save_first(self) -> None:
        """Make the checkpoint, so that it is whole whenever Spark is killed."""
        self._checkpoint.mkdir(parents=True, exist_ok=True)
        if not (self._checkpoint / _STATE).exists():
            self._save()

    def _save(self) -> None:
        values = {
            "version": _VERSION,
            "query": self._query,
            "events": str(self._root.absolute()),
            "watch": self.watch.to_json(),
        }
        path = self._checkpoint / _STATE
        temporary = path.with_name(f".{_STATE}.tmp")
        with temporary.open("w") as file:
            json.dump(values, file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)


def _path(name: str) -> str:
    """A file's name as Spark's reader wants it; `_metadata` has it as a URL."""
    parts = urlsplit(name)
    return unquote(parts.path) if parts.scheme == "file" else name


def _place() -> "Column":
    """Where it happened; of temporary destinations there may be any number, and they are counted together."""
    place = F.coalesce("place", "destination", F.lit(""))
    return F.when(place.startswith("temp-queue://"), "temp-queue://*").when(
        place.startswith("temp-topic://"), "temp-topic://*"
    ).otherwise(place)  # fmt: skip


def _grouped(events: "DataFrame", *, in_detail: bool) -> "DataFrame":
    event, time_us = F.col("event"), F.unix_micros("time")
    nothing = F.lit(None).cast("string")
    handles = F.col("is_present") & event.isin("dispatched", *HANDLED)
    consumer = F.when(handles, F.col("consumer")) if in_detail else nothing
    cause = F.when(event.isin("dead_lettered", "expired"), F.substring("cause", 1, _CAUSE_LENGTH_MAX))
    rows = events.select(
        "broker", "place", "event", F.floor(time_us / MINUTE_US).alias("minute"), consumer.alias("consumer"),
        (cause if in_detail else nothing).alias("cause"), time_us.alias("time_us"),
        (F.col("is_present") & (F.col("number") > F.coalesce("cut", F.lit(0)))).alias("is_moving"),
    )  # fmt: skip
    return rows.groupBy("broker", "place", "event", "minute", "consumer", "cause").agg(
        F.count("*").alias("events"),
        F.count(F.when(F.col("is_moving"), 1)).alias("moving"),
        F.min("time_us").alias("first_us"),
        F.max("time_us").alias("last_us"),
    )


def _minutes(counts: Sequence[EventCount]) -> list[Count]:
    sums: Counter[tuple[int, str, str, str]] = Counter()
    for it in counts:
        if it.event in COUNTED:
            sums[it.minute, it.broker, it.place, it.event] += it.events
    return [Count(*key, count) for key, count in sums.items()]
