"""Some hundreds of seeds; `make simulate SEEDS=…` runs as many as you like."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.power import STORES, run_seed, world_for

CHUNK = 10
SEEDS = 200
"""About 25 s of work; in chunks, so that workers can share them. Every kind of store has its share."""
QUICK_SEEDS = 60
"""And where messages are consumed before the disk has them."""
SQLITE_SEEDS = 20
"""And with a database in place of the journal: the broker knows stores only by their contract."""
JOURNAL_SQLITE_SEEDS = 20
"""And with a journal in front of a database."""
CLIENT_SEEDS = 40
"""The same with the Python client's core, whose worlds are busier."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Brokers that crash have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_seeds_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed)


@pytest.mark.parametrize("first", range(1, CLIENT_SEEDS + 1, CHUNK))
def test_J4_seeds_with_the_python_client_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed, "client")


@pytest.mark.parametrize("first", range(1, QUICK_SEEDS + 1, CHUNK))
def test_J4_seeds_with_quick_consumers_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed, "quick")


@pytest.mark.parametrize("first", range(1, SQLITE_SEEDS + 1, CHUNK))
def test_K1_seeds_on_a_database_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed, "sqlite")


@pytest.mark.parametrize("first", range(1, JOURNAL_SQLITE_SEEDS + 1, CHUNK))
def test_K4_seeds_with_a_journal_in_front_of_a_database_show_no_violation(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed, "journal+sqlite")


@pytest.mark.parametrize("store", STORES)
def test_the_same_seed_is_the_same_run(store: str) -> None:
    histories = []
    for _ in range(2):
        world = world_for(7, store=store, record=True)
        world.run()
        histories.append(world.history)
    assert histories[0] == histories[1]
