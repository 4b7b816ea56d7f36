"""The real Java client, for tests of groups of brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.jms import Jms
from tests.helpers.java import CLIENT_JARS, JavaDriver, compiled
from tests.helpers.java_cache import java_cache_or_skip

_SOURCES = Path(__file__).parents[1] / "conformance" / "java" / "client"


@pytest.fixture
def jms(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Jms]:
    """The real client in a JVM of its own."""
    classes = compiled(_SOURCES, CLIENT_JARS, java_cache_or_skip(pytestconfig, CLIENT_JARS))
    with JavaDriver(classes, log_path=tmp_path / "java.log", options=()) as driver:
        yield Jms(driver)
