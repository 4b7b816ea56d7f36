"""The demo's Spark job: readings come from one queue and go to another, each once, whatever is killed meanwhile.

    enrich.py URL TOKEN_FILE CHECKPOINT [--fill COUNT]

With `--fill` it first writes COUNT readings, as a batch that consumers see as a whole. Then it works off all that is in
the queue and ends. Started again with the same checkpoint, it goes on where it was killed.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ackwire.spark.session import session

READINGS = "queue://demo.readings"
ENRICHED = "queue://demo.enriched"
CURSOR = "demo-enrich"
MESSAGES_PER_BATCH = 20_000
PADDING = "x" * 200
SHORT_LIVED_EVERY = 10_000
"""One reading in so many is of no use after a moment, and expires."""


def fill(spark: SparkSession, options: dict[str, str], count: int) -> None:
    """Write *count* readings."""
    number = F.col("id")
    readings = spark.range(count).select(
        F.concat(F.lit("reading "), number, F.lit(" "), F.lit(PADDING)).alias("text"),
        F.concat(F.lit("sensor-"), number % 50).alias("correlation_id"),
        number.alias("number"),
    )
    writer = readings.write.format("ackwire").mode("append").options(**options)
    writer.options(destination=READINGS, propertyColumns="number").save()


def enrich(readings: DataFrame) -> DataFrame:
    """What goes out for each reading that came in."""
    number = F.col("properties")["number"].cast("long")
    return readings.select(
        F.upper(F.substring_index("text", " ", 2)).alias("text"),
        F.col("correlation_id"),
        F.when(number % SHORT_LIVED_EVERY == SHORT_LIVED_EVERY - 1, F.lit(1)).cast("long").alias("time_to_live_ms"),
        number.alias("number"),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("token_file")
    parser.add_argument("checkpoint")
    parser.add_argument("--fill", type=int, default=0)
    arguments = parser.parse_args()
    options = {"url": arguments.url, "tokenFile": arguments.token_file}
    spark = session("demo enrich", **{"spark.driver.memory": "1g"})
    if arguments.fill:
        fill(spark, options, arguments.fill)
    print("streaming", flush=True)
    source = spark.readStream.format("ackwire").options(**options)
    readings = source.options(destination=READINGS, cursor=CURSOR, maxMessagesPerTrigger=str(MESSAGES_PER_BATCH)).load()
    sink = enrich(readings).writeStream.format("ackwire").options(**options)
    sink = sink.options(destination=ENRICHED, propertyColumns="number", checkpointLocation=arguments.checkpoint)
    sink.trigger(availableNow=True).start().awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
