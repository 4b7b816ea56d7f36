"""One Spark for all tests of the audit pipeline: a session takes seconds to start."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.marking import items_below
from tests.helpers.quick_java import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items_below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(900))  # Spark takes its time on a busy machine


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from ackwire.spark.session import session

    with pytest.MonkeyPatch.context() as patched:
        for name, value in QUICK_JAVA.items():
            patched.setenv(name, value)
        running = session("tests", master="local[2]", **{"spark.sql.shuffle.partitions": 2})
    yield running
    running.stop()
