"""Keeps the classes that Spark loads, so that the JVMs of tests need not read them from jars: `SPARK_CLASSES`.

    python -m tests.helpers.spark_classes

It runs a Spark that does a little of what tests do; Java writes down at its end what that has loaded.
"""

import os
import tempfile
from pathlib import Path

from ackwire.spark.session import session
from tests.helpers.quick_java import QUIET, SPARK_CLASSES


def main() -> None:
    SPARK_CLASSES.parent.mkdir(exist_ok=True)
    unfinished = SPARK_CLASSES.with_suffix(".unfinished")
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={unfinished} {QUIET}"
    spark = session("classes", "local[1]")
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(10).selectExpr("id % 2 AS half", "id").groupBy("half").count().orderBy("half")
        rows.write.parquet(str(Path(folder, "rows")))
        stream = spark.readStream.schema("half long, count long").parquet(str(Path(folder, "rows")))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(Path(folder, "checkpoint")))
        writer.trigger(availableNow=True).start(str(Path(folder, "again"))).awaitTermination()
        spark.stop()
    java.stdin.close()  # Spark's JVM ends with its input
    java.wait()
    unfinished.replace(SPARK_CLASSES)


if __name__ == "__main__":
    main()
