"""Whatever a test does with a broker, what the audit was told must agree with what is there."""

from collections.abc import Iterator

import pytest

from tests.helpers import broker_rig


@pytest.fixture(autouse=True)
def audited() -> Iterator[None]:
    """Hold the audit of every rig against its broker at the end of the test."""
    broker_rig.RIGS.clear()
    yield
    for rig in broker_rig.RIGS:
        if rig.audit is not None:
            rig.audit.check(rig.broker)
    broker_rig.RIGS.clear()
