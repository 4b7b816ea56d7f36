"""Spark tests: one Spark and one broker for all tests of a worker; tests keep apart by names of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.marking import items_below
from tests.helpers.quick_java import QUICK_JAVA
from tests.spark.broker import HttpBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'ackwire[spark]'")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items_below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(900))  # Spark takes its time on a busy machine


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from ackwire.spark.session import session

    with pytest.MonkeyPatch.context() as patched:
        # The tests of the audit get this Java, too, if they run in the same process.
        for name, value in QUICK_JAVA.items():
            patched.setenv(name, value)
        running = session("tests", "local[2]", **{"spark.sql.streaming.stopTimeout": "30s"})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def queue(broker: HttpBroker) -> str:
    """A queue that no other test uses."""
    return broker.new_name()


Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: "SparkSession", broker: HttpBroker) -> Read:
    """Reads a batch."""

    def read(**options: Any) -> "DataFrame":
        return spark.read.format("ackwire").options(**{**broker.options, **options}).load()

    return read


@pytest.fixture
def read_stream(spark: "SparkSession", broker: HttpBroker) -> Read:
    """Reads a stream."""

    def read_stream(**options: Any) -> "DataFrame":
        return spark.readStream.format("ackwire").options(**{**broker.options, **options}).load()

    return read_stream


@pytest.fixture
def write_available(broker: HttpBroker, tmp_path: Path) -> Callable[..., Any]:
    """Writes what a stream has now to a queue, and returns the query when it has ended."""

    def write_available(frame: "DataFrame", checkpoint: str = "checkpoint", **options: Any) -> Any:
        given = {**broker.options, "checkpointLocation": str(tmp_path / checkpoint), **options}
        query = frame.writeStream.format("ackwire").options(**given).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return write_available
