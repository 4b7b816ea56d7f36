"""Streams through a cursor: each message in exactly one batch, whatever happens in between."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from ackwire.spark.http import BrokerApi
from tests.spark.broker import HttpBroker
from tests.spark.conftest import Read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Seen:
    """What `foreachBatch` was given: numbers of messages by the number of their batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}
        self.partitions: dict[int, int] = {}
        self.fails_in: int | None = None

    def run(self, frame: "DataFrame", checkpoint: Path) -> None:
        """Read what is there now."""
        stream = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint))
        stream.trigger(availableNow=True).start().awaitTermination()

    def _take(self, frame: "DataFrame", batch: int) -> None:
        self.partitions[batch] = frame.rdd.getNumPartitions()
        self.batches[batch] = sorted(row.sequence for row in frame.select("sequence").collect())
        if batch == self.fails_in:
            raise RuntimeError("failed on purpose")

    @property
    def all(self) -> list[int]:
        return [number for batch in sorted(self.batches) for number in self.batches[batch]]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def api(broker: HttpBroker) -> BrokerApi:
    return broker.api


@pytest.fixture
def cursor(broker: HttpBroker) -> str:
    return broker.new_name("cursor")


def numbers(last: int, first: int = 1) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def test_what_is_there_is_read_in_batches_and_a_restart_goes_on(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(250))
    stream = read_stream(destination=queue, cursor=cursor, maxMessagesPerTrigger=100)
    seen.run(stream, tmp_path / "checkpoint")
    assert [len(batch) for batch in seen.batches.values()] == [100, 100, 50]
    assert api.cursor(cursor).committed == 250, "the last batch is held although it is done"
    broker.fill(queue, numbers(260, 251))
    seen.run(stream, tmp_path / "checkpoint")
    assert list(seen.batches) == [0, 1, 2, 3]
    assert seen.all == list(range(1, 261))


def test_a_large_batch_has_several_partitions(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(16_000))
    seen.run(read_stream(destination=queue, cursor=cursor, partitions=3), tmp_path / "checkpoint")
    assert seen.partitions == {0: 3}
    assert seen.all == list(range(1, 16_001))


def test_a_batch_that_failed_is_read_again_as_it_was(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(30))
    stream = read_stream(destination=queue, cursor=cursor, maxMessagesPerTrigger=10)
    seen.fails_in = 1
    with pytest.raises(StreamingQueryException, match="failed on purpose"):
        seen.run(stream, tmp_path / "checkpoint")
    assert api.cursor(cursor).committed == 10
    broker.fill(queue, numbers(35, 31))
    failed, seen.fails_in = seen.batches.pop(1), None
    seen.run(stream, tmp_path / "checkpoint")
    assert seen.batches[1] == failed == list(range(11, 21))
    assert seen.all == list(range(1, 36))


def test_a_selector_and_a_topic_work_as_for_any_consumer(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    api.open_cursor(cursor, f"topic://{queue}", "wanted = TRUE")
    broker.fill(f"topic://{queue}", ["yes", "yes too"], properties={"wanted": True})
    broker.fill(f"topic://{queue}", ["no"], properties={"wanted": False})
    stream = read_stream(destination=f"topic://{queue}", cursor=cursor, selector="wanted = TRUE")
    seen.run(stream, tmp_path / "checkpoint")
    assert seen.all == [1, 2]


def test_queue_to_queue_moves_every_message_once(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, write_available: Callable[..., Any]
) -> None:
    broker.fill(queue, numbers(300))
    stream = read_stream(destination=queue, cursor=cursor, maxMessagesPerTrigger=100).select("text", "priority")
    write_available(stream, destination=f"{queue}.out")
    broker.fill(queue, numbers(400, 301))
    write_available(stream, destination=f"{queue}.out")
    assert sorted(broker.texts(f"{queue}.out"), key=int) == numbers(400)
    assert broker.texts(queue) == []


def test_a_checkpoint_older_than_the_cursor_is_an_error_or_a_gap(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(10))
    options = {"destination": queue, "cursor": cursor}
    seen.run(read_stream(**options), tmp_path / "checkpoint")
    broker.fill(queue, numbers(20, 11))
    assert api.latest(cursor, 10, 5) == 15
    api.commit_cursor(cursor, 15)
    with pytest.raises(StreamingQueryException, match=r"to 10, and messages to 15 were committed.*failOnDataLoss"):
        seen.run(read_stream(**options), tmp_path / "checkpoint")
    seen.run(read_stream(**options, failOnDataLoss=False), tmp_path / "checkpoint")
    assert seen.all == [*range(1, 11), *range(16, 21)]


def test_a_cursor_that_was_made_again_is_noticed(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(10))
    options = {"destination": queue, "cursor": cursor}
    seen.run(read_stream(**options), tmp_path / "checkpoint")
    api.call("DELETE", f"/v1/cursors/{cursor}")
    broker.fill(queue, numbers(13, 11))
    with pytest.raises(StreamingQueryException, match="deleted and made again"):
        seen.run(read_stream(**options), tmp_path / "checkpoint")
    seen.run(read_stream(**options, failOnDataLoss=False), tmp_path / "checkpoint")
    assert seen.batches[1] == [1, 2, 3]


def test_a_checkpoint_is_not_used_with_another_cursor(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, seen: Seen, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(3))
    seen.run(read_stream(destination=queue, cursor=cursor), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match=f"the checkpoint is one of cursor '{cursor}'"):
        seen.run(read_stream(destination=queue, cursor=f"{cursor}.b"), tmp_path / "checkpoint")


def test_other_terms_for_the_same_cursor_are_refused(
    read_stream: Read, queue: str, cursor: str, seen: Seen, api: BrokerApi, tmp_path: Path
) -> None:
    api.open_cursor(cursor, queue, None)
    with pytest.raises(StreamingQueryException, match=r"409"):
        seen.run(read_stream(destination=f"{queue}.b", cursor=cursor), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match=r"no cursor '.*' yet; give option destination"):
        seen.run(read_stream(cursor=f"{cursor}.c"), tmp_path / "another")


def test_a_query_goes_on_when_the_broker_was_killed_and_came_back(
    broker: HttpBroker, read_stream: Read, queue: str, cursor: str, api: BrokerApi, tmp_path: Path
) -> None:
    broker.fill(queue, numbers(200))
    stream = read_stream(destination=queue, cursor=cursor, maxMessagesPerTrigger=100).select("text")
    writer = stream.writeStream.format("ackwire").options(**broker.options, destination=f"{queue}.out")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        broker.kill()
        broker.start()
        broker.fill(queue, numbers(400, 201))
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(broker.texts(f"{queue}.out"), key=int) == numbers(400)
    assert api.cursor(cursor).assigned == 400
