"""The fallback for a real ActiveMQ: at least once, by the client."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import ackwire
from tests.client.brokers import Brokers
from tests.conformance.tls import make_tls_files
from tests.spark.broker import HttpBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Taken = list[list[str]]


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    """Where a real ActiveMQ is."""
    with ExitStack() as stack:
        tls = make_tls_files(tmp_path_factory.mktemp("tls"))
        yield Brokers(pytestconfig, tls, tmp_path_factory.mktemp, stack, []).get("activemq").url


def send(url: str, queue: str, bodies: list[Any], **headers: Any) -> None:
    with ackwire.connect(url) as connection, connection.session() as session:
        producer = session.producer(queue)
        for body in bodies:
            producer.send(body, **headers)


def receive(url: str, queue: str) -> list[ackwire.Message]:
    with ackwire.connect(url) as connection, connection.session() as session:
        there = len(list(session.browser(queue)))
        consumer = session.consumer(queue)
        return [message for _ in range(there) if (message := consumer.receive(10.0)) is not None]


def take(frame: "DataFrame", checkpoint: Path, taken: Taken, fails_in: int | None = None) -> None:
    """Read what is there, batch by batch."""

    def keep(batch: "DataFrame", number: int) -> None:
        if number == fails_in:
            raise RuntimeError("failed on purpose")
        taken.append([row.text for row in batch.orderBy("sequence").collect()])

    stream = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    stream.trigger(availableNow=True).start().awaitTermination()


def test_a_queue_is_browsed(spark: "SparkSession", url: str, queue: str) -> None:
    send(url, queue, ["a", "b"], correlation_id="c", properties={"n": 5})
    frame = spark.read.format("ackwire").option("url", url).load(queue)
    assert [(row.text, row.correlation_id, row.properties) for row in frame.orderBy("sequence").collect()] == [
        ("a", "c", {"n": "5"}),
        ("b", "c", {"n": "5"}),
    ]
    assert len(receive(url, queue)) == 2, "browsing consumed something"


def test_a_stream_consumes_what_it_has_finished_and_a_restart_goes_on(
    spark: "SparkSession", url: str, queue: str, tmp_path: Path
) -> None:
    send(url, queue, [str(number) for number in range(25)])
    options = {"url": url, "destination": queue, "maxMessagesPerTrigger": "10"}
    frame = spark.readStream.format("ackwire").options(**options).load()
    taken: Taken = []
    take(frame, tmp_path, taken)
    assert [len(batch) for batch in taken] == [10, 10, 5]
    assert [text for batch in taken for text in batch] == [str(number) for number in range(25)]
    send(url, queue, ["more"])
    take(frame, tmp_path, taken)
    assert taken[-1] == ["more"]
    assert receive(url, queue) == []


def test_messages_of_a_failed_batch_come_again(spark: "SparkSession", url: str, queue: str, tmp_path: Path) -> None:
    send(url, queue, ["a", "b", "c"])
    frame = spark.readStream.format("ackwire").options(url=url, destination=queue, maxMessagesPerTrigger=2).load()
    taken: Taken = []
    with pytest.raises(StreamingQueryException, match="failed on purpose"):
        take(frame, tmp_path, taken, fails_in=0)
    take(frame, tmp_path, taken)
    assert {text for batch in taken for text in batch} == {"a", "b", "c"}


def test_rows_are_sent_with_headers_and_typed_properties(spark: "SparkSession", url: str, queue: str) -> None:
    frame = spark.sql(
        "select 'words' as text, 7 as priority, 'c' as correlation_id, 12L as amount, map('a', 'b') as properties"
    )
    frame.write.format("ackwire").mode("append").options(url=url, destination=queue, propertyColumns="amount").save()
    (message,) = receive(url, queue)
    assert (message.body, message.priority, message.correlation_id) == ("words", 7, "c")
    assert (message.properties["amount"], message.properties["a"]) == (12, "b")


def test_a_stream_from_an_ackwire_is_sent_to_an_activemq(
    url: str, queue: str, broker: HttpBroker, read_stream: Callable[..., "DataFrame"], tmp_path: Path
) -> None:
    broker.fill(queue, ["a", "b"])
    frame = read_stream(destination=queue, cursor=broker.new_name("cursor")).select("text")
    writer = frame.writeStream.format("ackwire").options(url=url, destination=queue, checkpointLocation=str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(message.body for message in receive(url, queue)) == ["a", "b"]
