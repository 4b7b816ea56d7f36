"""Where tests find and keep compiled Java programs."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.java import missing_requirements


def java_cache_or_skip(config: pytest.Config, jars: Sequence[str]) -> Path:
    """Where class files are kept from run to run; fails in CI, and skips elsewhere, when there is no Java."""
    problem = missing_requirements(jars)
    if problem and os.environ.get("CI") == "true":
        pytest.fail(problem, pytrace=False)
    if problem:
        pytest.skip(problem)
    return config.cache.mkdir("ackwire-java")
