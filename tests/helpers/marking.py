"""Marks for all tests of a folder: a conftest is given the tests of every folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest


def items_below(folder: Path, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Those of *items* whose files are in *folder*."""
    return (it for it in items if str(it.path).startswith(f"{folder}/"))
