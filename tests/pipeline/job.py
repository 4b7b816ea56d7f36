"""The pipeline that is killed: a queue, Spark, a queue. A program of its own, as a user would write it.

    python -m tests.pipeline.job --url http://127.0.0.1:8161 --token-file data/http.token --checkpoint DIR

It goes on until a line comes on its standard input, which is the friendly way to end it. Everything it starts (Java,
executors, Python workers) stays in its session, by which whoever kills it finds all of them.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ackwire.spark.session import session
from tests.helpers.quick_java import QUICK_SPARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CURSOR = "pipeline"
WORKING_LINE = "the pipeline works"
QUICK_START = f"{QUICK_SPARK} -XX:+UseSerialGC"
"""For every JVM: it is killed before thorough compilation would pay."""
MARK = "seen "
"""What the transformation puts in front of each text."""


def main() -> int:
    os.setsid()
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_START)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = _options()
    spark = session("pipeline", options.master, **_settings(options))
    query = start(spark.readStream, options)
    print(WORKING_LINE, flush=True)
    sys.stdin.readline()
    if query.exception() is not None:
        print(query.exception(), flush=True)
        return 1
    query.stop()
    spark.stop()
    return 0


def start(read_stream: "object", options: argparse.Namespace) -> "StreamingQuery":
    """Start the query: every message of one queue, marked, to the other."""
    broker = {"url": options.url, "tokenFile": options.token_file, "retryTimeout": "120s"}
    source = {**broker, "destination": options.source, "cursor": CURSOR, "maxMessagesPerTrigger": options.batch}
    sink = {**broker, "destination": options.sink, "checkpointLocation": options.checkpoint}
    if options.producer:
        sink["producer"] = options.producer
    frame = read_stream.format("ackwire").options(**source).load()  # type: ignore[attr-defined]
    writer = marked(frame).writeStream.format("ackwire").options(**sink)
    query: StreamingQuery = writer.trigger(processingTime="100 milliseconds").start()
    return query


def marked(frame: "DataFrame") -> "DataFrame":
    """Each message with a changed text, and its number as it was; both executors get some, in no order."""
    from pyspark.sql import functions

    number = functions.col("properties")["number"].cast("long").alias("property:number")
    text = functions.concat(functions.lit(MARK), "text").alias("text")
    return frame.select(text, number, "correlation_id").repartition(2)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": options.executor_memory,
        "spark.cores.max": "2",
        "spark.sql.streaming.minBatchesToRetain": "10",
    }
    return {**settings, "spark.local.dir": options.scratch} if options.scratch else settings


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True, help="the broker's HTTP address")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--scratch", help="where Spark keeps its own files")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--executor-memory", default="1g")
    parser.add_argument("--source", default="in")
    parser.add_argument("--sink", default="out")
    parser.add_argument("--producer", help="of the batches (default: the query's id)")
    parser.add_argument("--batch", type=int, default=1000, help="messages in a batch of the stream")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
