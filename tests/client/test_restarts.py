"""Five restarts of the broker under `failover:` clients; `make restarts RESTARTS=100` is the long version."""

from pathlib import Path

import pytest

from tests.client.restart_run import run


@pytest.mark.timeout(240)
def test_J4_nothing_is_lost_or_stored_twice_through_five_restarts(tmp_path: Path) -> None:
    report = run(restarts=5, seed=1, folder=tmp_path)
    assert report.ledger.violations == [], "\n".join(report.lines())
    assert report.ledger.counts["transactions committed"] > 0


@pytest.mark.timeout(240)
def test_A2_J4_nor_what_a_quick_consumer_takes_and_what_comes_again_says_so(tmp_path: Path) -> None:
    report = run(restarts=5, seed=1, folder=tmp_path, quick=True)
    assert report.ledger.violations == [], "\n".join(report.lines())
    assert report.ledger.counts["confirmed messages"] > 0
