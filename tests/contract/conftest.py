"""Every test of the suite runs on every store; those about crashes and failures on every store that has a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.all_stores import DURABLE_STORES, STORES
from tests.helpers.compilation import IS_COMPILED
from tests.helpers.stored import Messages
from tests.helpers.stores import Crash, StoreFactory

_ON_SERVERS = ("postgresql", "mariadb", "journal+postgresql", "journal+mariadb")


def _runs(name: str) -> bool:
    """Whether the suite runs on this store: on the compiled package if the store has compiled modules, and no server,
    which would show the same as in the pass on plain sources."""
    return not IS_COMPILED or (name.startswith("journal") and name not in _ON_SERVERS)


@pytest.fixture(params=[it for it in STORES if _runs(it)])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    made = STORES[request.param](tmp_path)
    yield made
    made.dispose()


@pytest.fixture(params=[it for it in DURABLE_STORES if _runs(it)])
def durable_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    made = STORES[request.param](tmp_path)
    yield made
    made.dispose()


@pytest.fixture
def messages() -> Messages:
    return Messages()


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
