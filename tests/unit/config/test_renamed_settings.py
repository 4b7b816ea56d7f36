"""Settings that had other names are still read, and the log says what to write instead."""

from pathlib import Path

import pytest

from ackwire.config import Settings
from ackwire.config.reading import load, problems


def read(folder: Path, text: str) -> Settings:
    path = folder / "ackwire.toml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize(("old", "new"), [("true", "off"), ("false", "adaptive")])
def test_store_first_is_early_dispatch(tmp_path: Path, caplog: pytest.LogCaptureFixture, old: str, new: str) -> None:
    assert read(tmp_path, f"[store]\nstore_first = {old}\n").store.early_dispatch == new
    assert caplog.messages == [f'[store] store_first = {old} is deprecated: write early_dispatch = "{new}"']


@pytest.mark.parametrize("text", ['early_dispatch = "off"\nstore_first = true', "store_first = 1"])
def test_an_old_name_beside_the_new_one_or_with_a_wrong_value_is_a_problem(text: str) -> None:
    (problem,) = problems(f"[store]\n{text}\n")
    assert "store_first" in str(problem)
