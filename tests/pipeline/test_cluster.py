"""The same queue → Spark → queue program on a standalone cluster of a master and two workers, started here."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'ackwire[spark]'")

from tests.pipeline.cluster import Cluster
from tests.pipeline.outcome import consume_all, problems_of_numbers, problems_of_what_is_left
from tests.pipeline.rig import Driver, Eyes, Feeder, wait_until
from tests.spark.broker import HttpBroker

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.timeout(600)]

MESSAGES = 30_000
PRODUCER = "pipeline-on-a-cluster"
THROUGH_SECONDS_MAX = 240.0


def test_each_message_comes_exactly_once_through_a_cluster_of_two_workers(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster, HttpBroker(tmp_path) as broker:
        eyes, feeder = Eyes(broker), Feeder(broker)
        options = ["--master", cluster.url, "--executor-memory", "800m", "--batch", "10000"]
        with Driver(broker, tmp_path, options=options, producer=PRODUCER) as driver:
            feeder.begin(MESSAGES)
            driver.wait_until_working()
            wait_until(lambda: has_come_through(eyes, driver), "everything to come through", THROUGH_SECONDS_MAX)
            assert cluster.executors_count() == 2
            driver.stop()
        feeder.join()
        assert problems_of_what_is_left(eyes, PRODUCER, MESSAGES) == []
        arrived = consume_all(broker.url)
        assert arrived.broken == []
        assert problems_of_numbers(arrived.numbers, MESSAGES) == []
        eyes.close()
        feeder.close()


def has_come_through(eyes: Eyes, driver: Driver) -> bool:
    if not driver.process.is_running:
        raise driver.process.failure("ended by itself")
    return "pipeline" in eyes.cursor_names() and eyes.cursor().committed == MESSAGES and eyes.messages_in("in") == 0
