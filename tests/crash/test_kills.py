"""`kill -9` under load from the real Java client, on one data directory: what was answered survives.

`make crash KILLS=200` does the same for longer.
"""

import random
from pathlib import Path

import pytest

from tests.crash.rounds import run
from tests.helpers.java import CLIENT_JARS
from tests.helpers.java_cache import java_cache_or_skip

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]


@pytest.fixture
def java_cache(pytestconfig: pytest.Config) -> Path:
    return java_cache_or_skip(pytestconfig, CLIENT_JARS)


@pytest.mark.parametrize(("broker", "kills"), [("journal", 20), ("journal+leveldb", 8), ("journal+postgresql", 8)])
def test_nothing_that_was_promised_is_lost_in_many_kills(
    java_cache: Path, tmp_path: Path, broker: str, kills: int
) -> None:
    report = run(kills=kills, seed=random.randrange(10**6), broker=broker, folder=tmp_path, java_cache=java_cache)
    print(*report.lines(), sep="\n")
    assert report.violations == ()
    assert report.sends_acknowledged > 0
    assert report.transactions_committed > 0


def test_a_broker_that_forgets_is_found_out(java_cache: Path, tmp_path: Path) -> None:
    """The harness can fail."""
    report = run(kills=20, seed=1, broker="memory", folder=tmp_path, java_cache=java_cache)
    assert report.kills < 20
    assert "lost" in {violation.kind for violation in report.violations}
