"""Every test of the suite runs on every store; those about crashes and failures on every store that has a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.all_stores import DURABLE_STORES, STORES
from tests.helpers.stored import Messages
from tests.helpers.stores import Crash, StoreFactory


@pytest.fixture(params=list(STORES))
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    made = STORES[request.param](tmp_path)
    yield made
    made.dispose()


@pytest.fixture(params=DURABLE_STORES)
def durable_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    made = STORES[request.param](tmp_path)
    yield made
    made.dispose()


@pytest.fixture
def messages() -> Messages:
    return Messages()


_ON_SERVERS = ("postgresql", "mariadb", "journal+postgresql", "journal+mariadb")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A server does not know how its client ended: on servers one kind of crash is enough."""
    other = [f"-{it}" for it in Crash if it is not Crash.PROCESS_KILL]
    needless = [
        it
        for it in items
        if any(f"[{name}" in it.name for name in _ON_SERVERS) and any(kind in it.name for kind in other)
    ]
    config.hook.pytest_deselected(items=needless)
    items[:] = [it for it in items if it not in needless]
