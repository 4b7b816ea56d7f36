"""Twenty thousand scheduled messages: that took ActiveMQ three hours in place of 33 minutes."""

from random import Random
from typing import Final

import pytest

from tests.helpers.broker_rig import BrokerRig, command_of

JOBS: Final = 20_000
SPACING_MS: Final = 100


@pytest.mark.load
def test_I1_many_jobs_100_ms_apart_are_all_on_time() -> None:
    rig = BrokerRig()
    producer = rig.connect("producer")
    consumer = rig.consumer("queue://later", prefetch=JOBS)
    start_ms = rig.clock.now_ms()
    expected = [number * SPACING_MS for number in range(1, JOBS + 1)]
    for delay in Random(1).sample(expected, JOBS):
        producer.send("queue://later", "x", properties={"AMQ_SCHEDULED_DELAY": delay})
    rig.clock.advance((JOBS + 10) * SPACING_MS / 1000)
    assert [command_of(message).broker_in_time - start_ms for message in consumer.delivered] == expected
