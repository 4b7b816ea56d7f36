"""A7: selectors mean what they mean to ActiveMQ 5.17.2.

table.json is chosen by hand, random.json made up; `generate.py` got the answers from ActiveMQ. Where Ackwire departs
on purpose, `ackwire` has its own answer. Where ActiveMQ raises an exception, any answer will do unless one is given.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.selector.answers import answers, is_departure

HERE = Path(__file__).parent
GROUPS: list[dict[str, Any]] = [
    group for name in ("table.json", "random.json") for group in json.loads((HERE / name).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("group", GROUPS, ids=[group["about"] for group in GROUPS])
def test_A7_selectors_answer_as_activemq_does(group: dict[str, Any]) -> None:
    own = group.get("ackwire", {})
    differing = {}
    for text, theirs in group["selectors"].items():
        ours = answers(text, group["messages"])
        if ours != own[text] if text in own else not is_departure(theirs, ours):
            differing[text] = {"expected": own.get(text, theirs), "answered": ours}
    assert not differing


def test_A7_departures_are_departures() -> None:
    """An `ackwire` answer that equals ActiveMQ's would hide nothing and explain nothing."""
    for group in GROUPS:
        for text, ours in group.get("ackwire", {}).items():
            assert group["selectors"][text] != ours
