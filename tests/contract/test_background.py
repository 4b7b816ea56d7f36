"""The background under control keeps to the contract of `Background`: in order, one at a time, told on the loop."""

from collections.abc import Callable
from random import Random

import pytest

from ackwire.store.background import Background, OnTheSpot
from tests.helpers.background import ControlledBackground


def told(notes: list[str], name: str) -> Callable[[Exception | None], None]:
    return lambda error: notes.append(f"{name} done" if error is None else f"{name} failed: {error}")


def noted(notes: list[str], name: str) -> Callable[[], None]:
    return lambda: notes.append(name)


def fail() -> None:
    raise OSError("broken")


@pytest.mark.parametrize("background", [OnTheSpot(), ControlledBackground()], ids=["spot", "controlled"])
def test_work_is_done_in_order_and_errors_are_told(background: Background) -> None:
    notes: list[str] = []
    background.submit(noted(notes, "a"), told(notes, "a"))
    background.submit(fail, told(notes, "b"))
    background.submit(noted(notes, "c"), told(notes, "c"))
    background.finish()
    assert notes == ["a", "a done", "b failed: broken", "c", "c done"]


def test_nothing_happens_before_its_time() -> None:
    background, notes = ControlledBackground(), list[str]()
    background.submit(noted(notes, "a"), told(notes, "a"))
    assert notes == []
    assert background.step()
    assert notes == ["a"]
    assert background.step()
    assert notes == ["a", "a done"]
    assert not background.step()
    assert background.is_idle


def test_seed_decides_whether_later_work_comes_before_the_news_of_earlier_work() -> None:
    orders = set()
    for seed in range(20):
        background, notes = ControlledBackground(Random(seed)), list[str]()
        for name in "ab":
            background.submit(noted(notes, name), told(notes, name))
        background.run_all()
        orders.add(tuple(notes))
    assert orders == {("a", "a done", "b", "b done"), ("a", "b", "a done", "b done")}


def test_work_that_brings_work_is_finished_too_and_what_is_dropped_never_happens() -> None:
    background, notes = ControlledBackground(), list[str]()
    background.submit(lambda: None, lambda _: background.submit(noted(notes, "b"), told(notes, "b")))
    background.finish()
    assert notes == ["b", "b done"]
    background.submit(noted(notes, "c"), told(notes, "c"))
    background.drop()
    background.finish()
    assert notes == ["b", "b done"]
