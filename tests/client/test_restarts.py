"""Ten restarts of the broker under `failover:` clients; `make restarts RESTARTS=100` is the long version."""

from pathlib import Path

import pytest

from tests.client.restart_run import run


@pytest.mark.timeout(240)
def test_J4_nothing_is_lost_or_stored_twice_through_ten_restarts(tmp_path: Path) -> None:
    report = run(restarts=10, seed=1, folder=tmp_path)
    assert report.ledger.violations == [], "\n".join(report.lines())
    assert report.ledger.counts["transactions committed"] > 0
