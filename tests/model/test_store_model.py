"""Every store with a disk against the store model, and the model against stores that are wrong on purpose."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.helpers.all_stores import SIMULATED_STORES
from tests.helpers.stores import toy_factory
from tests.helpers.toy_store import Mistake
from tests.model.store_model import model_of, run_seed

SEEDS = 60
CHUNK = 20
_SEEDS_OF = {"journal, LevelDB": 20}
"""It is the same journal: what is different is the index, whose files are real."""

_NOT_FOUND_WITHOUT_FAULTS = {Mistake.IGNORES_FAILED_SYNC}


@pytest.mark.parametrize("name", SIMULATED_STORES)
def test_store_agrees_with_the_model_through_crashes(name: str) -> None:
    """K1, G2, G3, I2, J4."""
    run_state_machine_as_test(
        model_of(SIMULATED_STORES[name]), settings=settings(max_examples=20, stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize(
    ("name", "first"),
    [(name, first) for name in SIMULATED_STORES for first in range(1, _SEEDS_OF.get(name, SEEDS) + 1, CHUNK)],
)
def test_seeds_agree_with_the_model_through_crashes(name: str, first: int) -> None:
    """K1, G2, G3, I2, J4."""
    for seed in range(first, first + CHUNK):
        run_seed(SIMULATED_STORES[name], seed)


@pytest.mark.parametrize("mistake", [it for it in Mistake if it not in _NOT_FOUND_WITHOUT_FAULTS])
def test_model_notices_a_store_that_is_wrong(mistake: Mistake) -> None:
    def run_all() -> None:
        for seed in range(1, SEEDS + 1):
            run_seed(lambda seed: toy_factory(mistake, seed=seed), seed)

    with pytest.raises(AssertionError):
        run_all()
