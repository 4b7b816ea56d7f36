"""Batch reads: a queue without consuming it, a cursor's range, dead letters."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import ackwire
from ackwire.spark.functions import map_entry, message_property, with_properties
from tests.spark.broker import HttpBroker
from tests.spark.conftest import Read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_queue_is_read_in_several_partitions_and_stays_as_it_is(broker: HttpBroker, read: Read, queue: str) -> None:
    broker.fill(queue, [f"message {number}" for number in range(2000)])
    frame = read(destination=queue, partitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert [row.text for row in frame.orderBy("sequence").collect()] == [f"message {number}" for number in range(2000)]
    assert frame.count() == 2000, "reading twice consumed something"


def test_an_empty_queue_has_no_rows(broker: HttpBroker, read: Read, queue: str) -> None:
    broker.fill(queue, ["gone"])
    broker.drain(queue)
    assert read(destination=queue).count() == 0


def test_every_header_and_every_kind_of_body_is_a_column(broker: HttpBroker, read: Read, queue: str) -> None:
    headers = {"priority": 7, "correlation_id": "c-1", "type": "order", "reply_to": "answers", "group_id": "g"}
    broker.fill(queue, ["words"], **headers, group_sequence=3, time_to_live_ms=3_600_000)
    broker.fill(queue, [b"\x00\x01", {"n": 5, "name": "x"}, None], properties={"ok": True, "n": 4})
    text, bytes_, map_, none = read(destination=f"queue://{queue}").orderBy("sequence").collect()
    assert (text.text, text.body_kind, text.destination) == ("words", "text", f"queue://{queue}")
    assert (text.priority, text.correlation_id, text.type, text.reply_to) == (7, "c-1", "order", "queue://answers")
    assert (text.group_id, text.group_sequence, text.persistent, text.redelivered) == ("g", 3, True, False)
    assert text.message_id.startswith("ID:")
    assert text.timestamp < text.expiration
    assert (bytes(bytes_.bytes), bytes_.body_kind, bytes_.properties) == (
        b"\x00\x01",
        "bytes",
        {"ok": "true", "n": "4"},
    )
    assert (map_.map, map_.body_kind) == ({"n": "5", "name": "x"}, "map")
    assert (none.text, none.bytes, none.map, none.body_kind) == (None, None, None, "none")


def test_times_are_those_of_the_message(broker: HttpBroker, read: Read, queue: str) -> None:
    before = datetime.now(UTC)
    broker.fill(queue, ["now"])
    (row,) = read(destination=queue).select(F.unix_micros("timestamp").alias("micros")).collect()
    assert int(before.timestamp() * 1000) <= row.micros // 1000 <= int(datetime.now(UTC).timestamp() * 1000)


def test_properties_can_be_asked_for_with_a_type(broker: HttpBroker, read: Read, queue: str) -> None:
    broker.fill(queue, [{"total": 2.5}], properties={"amount": 12, "country": "PT", "paid": True})
    frame = with_properties(read(destination=queue), amount="long", country="string", paid="boolean", absent="int")
    (row,) = frame.select("*", map_entry("total", "double").alias("total")).collect()
    assert (row.amount, row.country, row.paid, row.absent, row.total) == (12, "PT", True, None, 2.5)
    assert read(destination=queue).where(message_property("country", "int").isNull()).count() == 1, "PT is no number"


def test_only_some_columns_are_read_if_a_schema_says_so(spark: "SparkSession", broker: HttpBroker, queue: str) -> None:
    broker.fill(queue, ["a"])
    source = spark.read.format("ackwire").options(**broker.options, destination=queue)
    assert source.schema("text string, sequence bigint").load().drop("sequence").first() == ("a",)
    with pytest.raises(PySparkException, match="messages have no column 'words'; they have sequence"):
        source.schema("words string").load().count()
    with pytest.raises(PySparkException, match="'priority' is read as int, not as string"):
        source.schema("priority string").load().count()


def test_a_range_of_a_cursor_is_read_without_committing_it(broker: HttpBroker, read: Read, queue: str) -> None:
    name = broker.new_name("cursor")
    broker.fill(queue, [str(number) for number in range(1, 101)])
    api = broker.api
    api.open_cursor(name, queue, None)
    assert api.latest(name, 0, 80) == 80
    api.commit_cursor(name, 10)
    whole = read(read="cursor", cursor=name)
    assert [row.text for row in whole.orderBy("sequence").collect()] == [str(number) for number in range(11, 81)]
    part = read(read="cursor", cursor=name, after=20, to=25)
    assert [(row.sequence, row.text) for row in part.collect()] == [(number, str(number)) for number in range(21, 26)]
    assert api.cursor(name).committed == 10
    with pytest.raises(AnalysisException, match=r"holds the messages after 10 to 80; .* after 5 to 90"):
        read(read="cursor", cursor=name, after=5, to=90).count()


def test_dead_letters_are_read_from_all_their_queues_or_of_one_destination(
    broker: HttpBroker, read: Read, queue: str
) -> None:
    for name in (queue, f"{queue}.other"):
        broker.fill(name, [f"dead of {name}"])
        url = f"{broker.url}?jms.redeliveryPolicy.maximumRedeliveries=0"
        with ackwire.connect(url) as connection, connection.session(transacted=True) as session:
            assert session.consumer(name).receive(5.0) is not None
            session.rollback()
    dead = {row.text for row in read(read="dead-letters").collect()}
    assert {f"dead of {queue}", f"dead of {queue}.other"} <= dead
    (row,) = read(read="dead-letters", destination=queue).collect()
    assert (row.text, row.original_destination) == (f"dead of {queue}", f"queue://{queue}")


def test_an_unknown_queue_is_an_error_that_names_it(read: Read, queue: str) -> None:
    with pytest.raises(AnalysisException, match=rf"{queue} does not exist.*\(404"):
        read(destination=queue).count()


def test_bad_options_are_errors_before_anything_starts(read: Read) -> None:
    with pytest.raises(AnalysisException, match=r'destinaton.*; did you mean "destination"\?'):
        read(destinaton="orders").count()
    with pytest.raises(AnalysisException, match="is a topic, which keeps nothing"):
        read(destination="topic://news").count()
