"""`kill -9` of driver, executors and broker of a queue → Spark → queue pipeline: each message comes exactly once.

`make pipeline KILLS=20` does the same for longer.
"""

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'ackwire[spark]'")

from tests.pipeline.outcome import problems_of_numbers
from tests.pipeline.rounds import Moment, Plan, Victim, run

MESSAGES = 20_000
STRIKES = [
    (Victim.DRIVER, Moment.STAGED),
    (Victim.BROKER, Moment.STAGED),
    (Victim.EXECUTOR, Moment.STAGED),
    (Victim.DRIVER, Moment.COMMITTED),
    (Victim.BROKER, Moment.ANY),
    (Victim.EXECUTOR, Moment.ANY),
]


@pytest.mark.spark
@pytest.mark.system
@pytest.mark.timeout(900)  # 90 s on a machine that has nothing else to do: Spark starts three times
def test_each_message_comes_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    report = run(Plan(MESSAGES, STRIKES, batch=1000), seed=seed, folder=tmp_path)
    print(*report.lines(), sep="\n")
    assert report.violations == []
    assert report.strikes.total() == len(STRIKES)


def test_what_is_lost_doubled_or_invented_is_found() -> None:
    """The check can fail."""
    assert problems_of_numbers([2, 0, 1], 3) == []
    assert problems_of_numbers([0, 2], 3) == ["1 of 3 are lost: 1"]
    assert problems_of_numbers([0, 1, 1, 2, 2], 3) == ["2 came more than once: 1, 2"]
    assert problems_of_numbers([0, 1, 2, 3, -1], 3) == ["2 were never sent: -1, 3"]
