"""What holds for one broker only is written down where users look."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "client-differences.md"


def test_the_reasons_of_only_on_stand_in_the_list_of_differences() -> None:
    page = " ".join(PAGE.read_text().split())
    assert [reason for reason in _reasons() if reason not in page] == []


def _reasons() -> Iterator[str]:
    for source in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "only_on":
                (reason,) = (keyword.value for keyword in node.keywords if keyword.arg == "reason")
                yield ast.literal_eval(reason)
