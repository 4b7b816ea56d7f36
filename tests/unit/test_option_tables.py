"""The tables of options in the guides are made from the declarations."""

from pathlib import Path

import pytest

from tools.option_tables import pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_page_is_current(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == pages()[page], "run python tools/option_tables.py"
