"""Generated tests take their examples from one profile; tests with a `flavour` run with both clients."""

from collections.abc import Iterator

import pytest

from tests import generated  # noqa: F401 - registers and loads it
from tests.helpers.flavours import Flavour
from tests.unit.client.flavour import FLAVOURS


@pytest.fixture(params=sorted(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    made = FLAVOURS[request.param]()
    yield made
    made.close()
