"""Long work in slices: a budget of time and units, one for all jobs of a turn."""

import logging
from collections.abc import Callable

import pytest

from ackwire.broker.slices import (
    GIVE_WAY_SECONDS,
    GIVE_WAY_SECONDS_MAX,
    SLICE_SECONDS,
    SLICE_UNITS,
    Budget,
    Slices,
)
from ackwire.util.clock import ManualClock, Timer, Turns
from ackwire.why.protocol import ANSWER, NAME, QUESTIONS, SUBJECT
from tests.helpers.broker_rig import BrokerRig
from tests.helpers.compilation import pure_only


class WorkingClock(ManualClock):
    """Each look takes a while, as if work had been done in between."""

    def __init__(self, step_seconds: float) -> None:
        super().__init__()
        self._step = step_seconds
        self._looks = 0
        self.calls = 0
        """How often something was left for a later turn."""

    def monotonic(self) -> float:
        self._looks += 1
        return super().monotonic() + self._looks * self._step

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        self.calls += 1
        return super().call_later(delay_seconds, callback)


class TurnClock(ManualClock):
    """Time that passes without a callback being run for it: the next turn of the loop does that."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[Callable[[], None]] = []

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        self._due.append(callback)
        return super().call_later(delay_seconds + 3600, lambda: None)

    def turn(self) -> None:
        due, self._due = self._due, []
        for callback in due:
            callback()


def test_a_budget_ends_with_its_time() -> None:
    budget = Budget(WorkingClock(SLICE_SECONDS / 4))
    looks = 0
    while not budget.is_spent:
        looks += 1
    assert looks == 4, "the first look is free: a job goes on by one unit at least"
    assert budget.spend()


def test_a_budget_ends_with_its_units_where_time_stands_still() -> None:
    budget = Budget(ManualClock())
    units = 1
    while not budget.spend():
        units += 1
    assert units == SLICE_UNITS


def test_a_budget_looks_at_the_clock_only_now_and_then() -> None:
    clock = WorkingClock(0)
    budget = Budget(clock)
    for _ in range(100):
        budget.spend()
    assert clock._looks < 10


class Others:
    """Clients that wait from a moment on, and how often they were looked for."""

    def __init__(self, clock: ManualClock, since_seconds: float) -> None:
        self._clock = clock
        self._since = clock.monotonic() + since_seconds
        self.looks = 0

    def wait(self) -> bool:
        self.looks += 1
        return self._clock.monotonic() >= self._since


def worked_seconds(budget: Budget, clock: ManualClock, step_seconds: float) -> float:
    """How long somebody works who asks after every *step_seconds*."""
    began = clock.monotonic()
    while not budget.is_spent:
        clock.advance(step_seconds)
    return clock.monotonic() - began


@pytest.mark.parametrize(
    ("since_seconds", "worked"),
    [(0, GIVE_WAY_SECONDS), (2.2 * GIVE_WAY_SECONDS, 3 * GIVE_WAY_SECONDS), (1, SLICE_SECONDS)],
    ids=["from the start", "later", "never"],
)
def test_a_budget_ends_soon_when_others_wait(since_seconds: float, worked: float) -> None:
    clock = ManualClock()
    others = Others(clock, since_seconds)
    budget = Budget(clock, others_wait=others.wait)
    step_seconds = GIVE_WAY_SECONDS / 10
    assert worked_seconds(budget, clock, step_seconds) == pytest.approx(worked, abs=step_seconds)
    assert budget.spend(), "it stays spent"
    assert others.looks <= SLICE_SECONDS / GIVE_WAY_SECONDS, "a look is a system call"


def test_a_scan_of_a_queue_gives_way_when_others_wait() -> None:
    def slices_of_a_scan(*, others_wait: bool) -> int:
        clock = WorkingClock(GIVE_WAY_SECONDS / 3)
        rig = BrokerRig(clock=clock)
        client = rig.connect()
        for number in range(500):
            client.send("queue://orders", properties={"n": number})
        rig.broker.slices.others_wait = lambda: others_wait
        clock.calls = 0
        consumer = rig.consumer("queue://orders", selector="n = 499")
        rig.clock.advance(0)
        assert len(consumer.texts) == 1
        return clock.calls

    assert slices_of_a_scan(others_wait=True) > 3 * slices_of_a_scan(others_wait=False)


@pytest.mark.parametrize(
    ("others_seconds", "worked"),
    [(0, GIVE_WAY_SECONDS), (3 * GIVE_WAY_SECONDS, 3 * GIVE_WAY_SECONDS), (1, GIVE_WAY_SECONDS_MAX)],
    ids=["idle", "busy", "overloaded"],
)
def test_slices_may_take_as_long_as_everything_else_in_between(others_seconds: float, worked: float) -> None:
    clock, step_seconds = TurnClock(), GIVE_WAY_SECONDS / 10
    slices = Slices(clock)
    slices.others_wait = lambda: True
    took: list[float] = []

    def work(budget: Budget) -> bool:
        took.append(0)
        while not budget.is_spent:
            clock.advance(step_seconds)
            took[-1] += step_seconds
        return len(took) < 3

    slices.start(work)
    while len(slices):
        clock.advance(others_seconds)
        clock.turn()
    assert took == pytest.approx([worked] * 3, abs=1.5 * step_seconds)


def test_jobs_take_turns_and_share_one_budget() -> None:
    clock = ManualClock()
    slices = Slices(clock, units=10)
    done: list[str] = []

    def job(name: str, left: int) -> None:
        def work(budget: Budget) -> bool:
            nonlocal left
            while left:
                left -= 1
                done.append(name)
                if budget.spend():
                    break
            return left > 0

        slices.start(work)

    job("a", 25)
    job("b", 5)
    assert done == [], "nothing happens in the turn in which it was asked for"
    turns: list[str] = []
    while len(slices):
        before = len(done)
        clock.advance(0.001)
        turns.append("".join(done[before:]))
    assert "".join(done).count("a") == 25
    assert "".join(done).count("b") == 5
    assert "b" in "".join(done[:15]), "the second waits for one slice of the first, not for all of it"


def test_work_that_begins_in_one_turn_shares_one_budget() -> None:
    turns = Turns()
    slices = Slices(ManualClock(), units=10, turns=turns)
    assert slices.budget().spend(10)
    assert slices.budget().is_spent, "somebody else has used it up"
    turns.number += 1
    assert not slices.budget().spend(5)
    assert slices.budget().spend(5)


def test_a_slice_of_jobs_does_not_use_up_the_budget_of_what_begins() -> None:
    clock = ManualClock()
    slices = Slices(clock, units=10, turns=Turns())
    slices.start(lambda budget: budget.spend(10) and False)
    clock.advance(0.001)
    assert not slices.budget().spend(9)


def test_a_scan_for_a_costly_selector_ends_with_its_time() -> None:
    rig = BrokerRig(clock=WorkingClock(SLICE_SECONDS / 10))
    client = rig.connect()
    for number in range(500):
        client.send("queue://orders", properties={"n": number})
    consumer = rig.consumer("queue://orders", selector="n = 499")
    assert consumer.texts == [], "it is deep, and others have their turn first"
    assert len(rig.broker.slices) == 1
    turns = 0
    while len(rig.broker.slices):
        rig.clock.advance(0)
        turns += 1
    assert len(consumer.texts) == 1


@pure_only
def test_a_search_for_a_message_gives_way_to_others() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect()
    messages = [client.send("queue://orders") for _ in range(1000)]
    reply_to = client.temporary_queue()
    consumer = client.consumer(reply_to)
    rig.broker.slices._units = 200
    wanted = {SUBJECT: "message", NAME: rig.editor.message_id(messages[-1])}
    client.send(QUESTIONS, properties=wanted, reply_to=reply_to, persistent=False)
    slices = 0
    work = rig.broker.slices._work

    def counted() -> None:
        nonlocal slices
        slices += 1
        work()

    rig.broker.slices._work = counted  # type: ignore[method-assign]
    rig.clock.advance(0.1)
    assert "message 1000 of queue://orders waits" in str(consumer.properties()[ANSWER])
    assert slices >= 4


def test_a_job_that_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    slices = Slices(clock)
    done: list[int] = []

    def fails(_budget: Budget) -> bool:
        raise ValueError("a bug")

    def works(_budget: Budget) -> bool:
        done.append(1)
        return len(done) < 3

    slices.start(fails)
    slices.start(works)
    with caplog.at_level(logging.ERROR):
        clock.advance(0.001)
    assert done == [1, 1, 1]
    assert len(slices) == 0
    assert "a job in slices has failed" in caplog.text


def test_output_that_is_held_back_leaves_before_a_slice() -> None:
    clock, done = TurnClock(), list[str]()
    slices = Slices(clock)
    slices.before_slice = lambda: done.append("output")

    def work(_budget: Budget) -> bool:
        done.append("slice")
        return len(done) < 4

    slices.start(work)
    clock.turn()
    clock.turn()
    assert done == ["output", "slice", "output", "slice"]
