"""Writes: a DataFrame becomes messages at once or not at all; a stream's batches become messages once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.spark.broker import HttpBroker
from tests.spark.conftest import Read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = """
    text string, bytes binary, map map<string,string>, correlation_id string, reply_to string, type string,
    priority bigint, time_to_live_ms int, group_id string, group_sequence bigint, properties map<string,string>,
    country string, amount double, count smallint, `property:ok` boolean
"""


def write(frame: "DataFrame", broker: HttpBroker, **options: Any) -> None:
    frame.write.format("ackwire").mode("append").options(**{**broker.options, **options}).save()


def test_columns_become_bodies_headers_and_typed_properties(
    spark: "SparkSession", broker: HttpBroker, queue: str
) -> None:
    rows = [
        ("words", None, None, "c-1", "answers", "order", 7, 60_000, "g", 3, {"a": "b"}, "PT", 1.5, 2, True),
        (None, b"\x00\x01", None, None, None, None, None, None, None, None, None, None, None, None, None),
        (None, None, {"k": "v"}, None, None, None, 0, None, None, None, None, None, None, None, None),
        (None, None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    ]
    frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
    write(frame, broker, destination=queue, propertyColumns="country,amount,count")
    messages = {type(message.body).__name__: message for message in broker.drain(queue)}
    text = messages["str"]
    assert (text.body, text.correlation_id, str(text.reply_to), text.type) == (
        "words",
        "c-1",
        "queue://answers",
        "order",
    )
    assert (text.priority, text.group_id, text.group_sequence) == (7, "g", 3)
    assert text.expiration - text.timestamp == 60_000
    assert dict(text.properties) | {"a": "b"} == dict(text.properties)
    assert (text.properties["country"], text.properties["amount"]) == ("PT", 1.5)
    assert (text.properties["count"], type(text.properties["count"]).__name__) == (2, "Short")
    assert text.properties["ok"] is True
    assert messages["bytes"].body == b"\x00\x01"
    assert [dict(message.body) for message in messages.values() if isinstance(message.body, Mapping)] == [{"k": "v"}]
    assert messages["NoneType"].priority == 4
    assert len(messages) == 4


def test_each_row_may_name_its_destination(spark: "SparkSession", broker: HttpBroker, queue: str) -> None:
    frame = spark.createDataFrame(
        [("a", f"{queue}.a"), ("b", f"queue://{queue}.b"), ("c", None)], "value string, destination string"
    )
    write(frame, broker, destination=f"{queue}.default")
    assert [broker.texts(f"{queue}.{name}") for name in ("a", "b", "default")] == [["a"], ["b"], ["c"]]


def test_many_rows_are_staged_in_several_requests_and_all_arrive(
    spark: "SparkSession", broker: HttpBroker, read: Read, queue: str
) -> None:
    frame = spark.range(30_000, numPartitions=2).select(F.format_string("%01000d", "id").alias("text"))
    write(frame, broker, destination=queue)
    found = read(destination=queue).select(F.col("text").cast("bigint").alias("id"))
    assert found.agg(F.count("id"), F.countDistinct("id"), F.min("id"), F.max("id")).first() == (
        30_000,
        30_000,
        0,
        29_999,
    )


def test_a_job_that_fails_sends_nothing(spark: "SparkSession", broker: HttpBroker, queue: str) -> None:
    broker.fill(queue, ["already here"])
    broken = F.when(F.col("id") == 999, F.raise_error(F.lit("broken row"))).otherwise(F.col("id").cast("string"))
    frame = spark.range(1000, numPartitions=2).select(broken.alias("text"))
    with pytest.raises(PySparkException, match="broken row"):
        write(frame, broker, destination=queue)
    assert broker.texts(queue) == ["already here"]


@pytest.mark.parametrize(
    ("query", "options", "problem"),
    [
        ("select 'a' as text, 1 as colour", {}, r"no column 'colour' that can be written\. There are"),
        ("select 1.5 as priority", {}, r"column 'priority' is decimal\(2,1\), and must be int"),
        ("select 1 as text", {}, "column 'text' is int, and must be string"),
        ("select date'2026-01-01' as `property:day`", {}, "'property:day' is date, and must be boolean, tinyint"),
        ("select map('a', 1) as properties", {}, "'properties' is map<string,int>, and must be map<string,string>"),
        ("select timestamp_ntz'2026-01-01' as expiration", {}, "is timestamp_ntz, and must be timestamp; cast it"),
        ("select 'a' as text", {"propertyColumns": "country"}, "names 'country'; the DataFrame has text"),
        ("select 'a' as text", {"destination": None}, "where to"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_written_are_refused_with_their_name(
    spark: "SparkSession", broker: HttpBroker, queue: str, query: str, options: dict[str, Any], problem: str
) -> None:
    given = {name: value for name, value in {"destination": queue, **options}.items() if value is not None}
    with pytest.raises(PySparkException, match=problem):
        write(spark.sql(query), broker, **given)


def test_a_value_that_does_not_fit_is_an_error(spark: "SparkSession", broker: HttpBroker, queue: str) -> None:
    with pytest.raises(PySparkException, match="column 'priority' has a value that does not fit int32"):
        write(spark.sql("select 3000000000 as priority"), broker, destination=queue)
    with pytest.raises(PySparkException, match="priority"):
        write(spark.sql("select 11 as priority"), broker, destination=queue)


def test_overwriting_is_refused(spark: "SparkSession", broker: HttpBroker, queue: str) -> None:
    frame = spark.sql("select 'a' as text")
    with pytest.raises(PySparkException, match="messages cannot be overwritten"):
        frame.write.format("ackwire").mode("overwrite").options(**broker.options, destination=queue).save()


# ---- streams -------------------------------------------------------------------------------------------------------


def files_of_one_row(folder: Path, first: int, last: int) -> None:
    """Files that a stream reads one a batch."""
    folder.mkdir(exist_ok=True)
    for number in range(first, last + 1):
        (folder / f"{number}.txt").write_text(f"line {number}\n")


def lines(spark: "SparkSession", folder: Path) -> "DataFrame":
    return spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(folder))


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as it is when the driver dies after the sink's commit and before Spark's own."""
    for name in (max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()),):
        (checkpoint / "commits" / str(name)).unlink()
        (checkpoint / "commits" / f".{name}.crc").unlink(missing_ok=True)


def test_a_stream_is_written_and_a_repeated_batch_is_not_written_twice(
    spark: "SparkSession", broker: HttpBroker, queue: str, tmp_path: Path, write_available: Callable[..., Any]
) -> None:
    files_of_one_row(tmp_path / "in", 0, 1)
    write_available(lines(spark, tmp_path / "in"), destination=queue)
    forget_last_commit(tmp_path / "checkpoint")
    files_of_one_row(tmp_path / "in", 2, 2)
    query = write_available(lines(spark, tmp_path / "in"), destination=queue)
    assert sorted(broker.texts(queue)) == ["line 0", "line 1", "line 2"]
    assert broker.api.last_batch(query.id) == 2


def test_a_named_producer_belongs_to_one_checkpoint(
    spark: "SparkSession", broker: HttpBroker, queue: str, tmp_path: Path, write_available: Callable[..., Any]
) -> None:
    files_of_one_row(tmp_path / "in", 0, 0)
    options = {"destination": queue, "producer": f"etl of {queue}"}
    write_available(lines(spark, tmp_path / "in"), **options)
    forget_last_commit(tmp_path / "checkpoint")
    write_available(lines(spark, tmp_path / "in"), **options)
    with pytest.raises(PySparkException, match="belongs to another query, which has written batches to 0"):
        write_available(lines(spark, tmp_path / "in"), checkpoint="another", **options)
    assert broker.texts(queue) == ["line 0"]
