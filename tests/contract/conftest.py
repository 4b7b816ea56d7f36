"""Every test of the suite runs on every store; those about crashes and failures on every store that has a disk."""

from pathlib import Path

import pytest

from tests.helpers.all_stores import DURABLE_STORES, STORES
from tests.helpers.stored import Messages
from tests.helpers.stores import StoreFactory


@pytest.fixture(params=list(STORES))
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StoreFactory:
    return STORES[request.param](tmp_path)


@pytest.fixture(params=DURABLE_STORES)
def durable_factory(request: pytest.FixtureRequest, tmp_path: Path) -> StoreFactory:
    return STORES[request.param](tmp_path)


@pytest.fixture
def messages() -> Messages:
    return Messages()
