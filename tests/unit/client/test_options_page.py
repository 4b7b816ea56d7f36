"""docs/guide/client-uris.md is made from the declarations."""

from tools.client_options_table import PAGE, page


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/client_options_table.py"
