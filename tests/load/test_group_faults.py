"""Real faults on a replicated group under load from the Java client (L2): `make ha` in short."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.java import CLIENT_JARS, missing_requirements
from tests.helpers.zookeeper import missing_package

FAULTS: Final = 10
ROOT: Final = Path(__file__).parents[2]


def _cannot_make_hosts() -> str | None:
    """Why there can be no hosts of their own for the nodes, or None."""
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        return "network namespaces are not permitted here"
    if subprocess.run(["nft", "--version"], check=False, capture_output=True).returncode != 0:
        return "nft not found; apt-get install nftables"
    return None


@pytest.mark.timeout(600)
def test_L2_nothing_acknowledged_is_lost_in_ten_real_faults() -> None:
    problem = missing_requirements(CLIENT_JARS) or missing_package() or _cannot_make_hosts()
    if problem is not None:
        assert not os.environ.get("CI"), problem
        pytest.skip(problem)

    argv = [sys.executable, str(ROOT / "tools" / "ha.py"), "--faults", str(FAULTS), "--seed", "1"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
