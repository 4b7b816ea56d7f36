"""Every setting does something: its name occurs in the code that should obey it."""

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import ackwire
from ackwire.config.policy import DestinationPolicy
from ackwire.config.settings import TABLES


@cache
def code() -> str:
    """All of the source that obeys settings, and none that declares, reads or writes them."""
    root = Path(ackwire.__file__).parent
    files = [file for file in root.rglob("*.py") if "config" not in file.relative_to(root).parts[:1]]
    return "\n".join(file.read_text() for file in files if file.name not in ("rules.py",))


def is_used(owner: str, key: str) -> bool:
    return re.search(rf"\b(?:{owner})\.{key}\b", code()) is not None


@pytest.mark.parametrize(
    ("table", "key"), [(table, key.name) for table, section in TABLES.items() for key in fields(section)]
)
def test_setting_is_used(table: str, key: str) -> None:
    # Words like name and kind have many owners; a name with its unit has one meaning.
    assert is_used(rf"_?{table}|_?settings" if "_" not in key else r"\w+", key)


@pytest.mark.parametrize("key", [key.name for key in fields(DestinationPolicy)])
def test_setting_of_a_policy_is_used(key: str) -> None:
    assert is_used("policy", key)
