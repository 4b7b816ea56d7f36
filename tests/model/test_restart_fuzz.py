"""Whatever clients may legally do, the next start succeeds, and has what was answered for (K1, K2)."""

from pathlib import Path

import pytest

from tests.model.restart_fuzz import RestartFuzz


@pytest.mark.parametrize(("seed", "commands", "restarts"), [(1, 300, 10), (2, 300, 10), (3, 300, 30), (7, 800, 4)])
def test_K1_starts_succeed_and_have_what_was_answered_for_whatever_clients_do(
    tmp_path: Path, seed: int, commands: int, restarts: int
) -> None:
    fuzz = RestartFuzz(tmp_path, seed)
    fuzz.run(commands, restarts)
    assert fuzz.starts == restarts + 2
