"""The ledger that judges restarts: it sees what went wrong, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.client.restart_ledger import Delivery, Fate, Ledger, Unit

Story = Callable[[Ledger], object]


def kinds(story: Story) -> list[str]:
    ledger = Ledger()
    story(ledger)
    ledger.settle()
    return [kind for kind, _ in ledger.violations]


def sent(ledger: Ledger, *messages: str, fate: Fate = Fate.DONE) -> Unit:
    unit = ledger.begin("unit", messages or ("m",))
    ledger.end(unit, fate)
    return unit


def got(ledger: Ledger, message: str = "m", *, flag: bool = False, sequence: int = 1, by: str = "c") -> Delivery:
    return ledger.received(by, message, sequence=sequence, is_flagged=flag)


def consumed(ledger: Ledger, fate: Fate = Fate.DONE, **details: Any) -> Delivery:
    delivery = got(ledger, **details)
    ledger.conclude(fate, [delivery])
    return delivery


def ended(ledger: Ledger, name: str, fate: Fate, *deliveries: Delivery) -> Unit:
    unit = ledger.begin(name, [name])
    ledger.end(unit, fate, deliveries)
    return unit


def moved(ledger: Ledger, fate: Fate, *, result_is_there: bool, comes_again: bool) -> Unit:
    """A transaction that consumes one message and sends another."""
    sent(ledger)
    unit = ended(ledger, "result", fate, got(ledger))
    if result_is_there:
        consumed(ledger, message="result")
    if comes_again:
        consumed(ledger, flag=True)
    return unit


@pytest.mark.parametrize(
    "story",
    [
        lambda it: (sent(it), consumed(it)),
        lambda it: (sent(it), consumed(it, Fate.VOID), consumed(it, flag=True)),
        lambda it: (sent(it), consumed(it, Fate.ACKNOWLEDGED), consumed(it, flag=True, by="d")),
        lambda it: (sent(it), consumed(it, Fate.VOID, flag=True, by="d"), consumed(it)),
        lambda it: sent(it, fate=Fate.VOID),
        lambda it: sent(it, "a", "b", fate=Fate.UNKNOWN),
        lambda it: moved(it, Fate.DONE, result_is_there=True, comes_again=False),
        lambda it: moved(it, Fate.VOID, result_is_there=False, comes_again=True),
        lambda it: moved(it, Fate.UNKNOWN, result_is_there=True, comes_again=False),
        lambda it: moved(it, Fate.UNKNOWN, result_is_there=False, comes_again=True),
        lambda it: (
            moved(it, Fate.UNKNOWN, result_is_there=False, comes_again=False),
            ended(it, "second", Fate.UNKNOWN, got(it, flag=True)),
            consumed(it, message="second"),
        ),
    ],
)
def test_what_may_happen_is_no_violation(story: Story) -> None:
    assert kinds(story) == []


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        ("lost", sent),
        ("lost", lambda it: (sent(it), consumed(it, Fate.VOID))),
        ("lost", lambda it: moved(it, Fate.DONE, result_is_there=False, comes_again=False)),
        ("lost", lambda it: moved(it, Fate.VOID, result_is_there=False, comes_again=False)),
        ("lost", lambda it: moved(it, Fate.UNKNOWN, result_is_there=False, comes_again=False)),
        ("torn", lambda it: (sent(it, "a", "b", fate=Fate.UNKNOWN), consumed(it, message="a"))),
        ("torn", lambda it: moved(it, Fate.UNKNOWN, result_is_there=True, comes_again=True)),
        ("returned", lambda it: (sent(it), consumed(it), consumed(it, flag=True))),
        ("unflagged", lambda it: (sent(it), consumed(it, Fate.ACKNOWLEDGED), consumed(it, by="d"))),
        ("unflagged", lambda it: (sent(it), consumed(it, Fate.VOID), consumed(it))),
        ("unflagged", lambda it: (sent(it), consumed(it, Fate.VOID, flag=True), consumed(it))),
        ("stored twice", lambda it: (sent(it), consumed(it, Fate.VOID), consumed(it, flag=True, sequence=2))),
        ("uncommitted", lambda it: (sent(it, fate=Fate.VOID), consumed(it))),
        ("uncommitted", lambda it: (it.begin("open", ["m"], is_asked_for=False), consumed(it))),
        ("uncommitted", consumed),
        ("problem", lambda it: it.problem("refused")),
    ],
)
def test_what_must_not_happen_is_a_violation(kind: str, story: Story) -> None:
    assert kinds(story)[0] == kind


def test_duplicates_are_counted() -> None:
    ledger = Ledger()
    sent(ledger)
    consumed(ledger, Fate.ACKNOWLEDGED)
    consumed(ledger, Fate.ACKNOWLEDGED, flag=True)
    consumed(ledger, Fate.ACKNOWLEDGED, flag=True, by="d")
    assert ledger.counts["duplicates with the flag, same consumer"] == 1
    assert ledger.counts["duplicates with the flag, other consumer"] == 1
