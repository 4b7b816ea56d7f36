"""How the loop waits for its sockets: awake, asleep, or letting a stream gather (ADR 9 and 10)."""

from collections.abc import Callable

import pytest

from ackwire.server.turn import Events, Wait

EVENT: Events = [(7, 1)]
MICROSECOND = 1e-6
STREAMING = 16
"""Turns in a row that hardly waited."""


class Sockets:
    """Time, and events that come so many microseconds after they were asked for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due = 0.0
        self.naps: list[float] = []
        self.sleeps = 0
        """Times that the loop slept until something came."""
        self.wait = Wait(self.poll, lambda: self.now, self.nap)

    def poll(self, timeout: float, _events_max: int) -> Events:
        self.pass_by(1)
        if timeout and self.now < self.due:
            self.sleeps += 1
            self.now = self.due if timeout < 0 else min(self.due, self.now + timeout)
        return EVENT if self.now >= self.due else []

    def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += 2 * seconds

    def pass_by(self, microseconds: float) -> None:
        self.now += microseconds * MICROSECOND

    def writes_before_sleep(self, takes: float) -> None:
        """Something has waited to be done, and takes some microseconds."""

        def before_sleep() -> bool:
            self.pass_by(takes)
            return True

        self.wait.before_sleep = before_sleep

    def turn(self, comes_after: float, takes: float = 10, timeout: float = -1) -> Events:
        """Wait for an event that comes after some microseconds, and deal with it, which takes some."""
        self.due = self.now + comes_after * MICROSECOND
        events = self.wait.events(timeout)
        self.pass_by(takes)
        return events


def streaming() -> Sockets:
    sockets = Sockets()
    for _ in range(STREAMING):
        assert sockets.turn(0) == EVENT
    assert not sockets.naps
    return sockets


def after_one_more(sockets: Sockets, turn: Callable[[Sockets], object]) -> int:
    """How often the loop naps in the turn that follows *turn*."""
    turn(sockets)
    sockets.naps.clear()
    sockets.turn(0)
    return len(sockets.naps)


def test_stream_gathers_between_short_turns() -> None:
    sockets = streaming()
    for _ in range(5):
        assert sockets.turn(0) == EVENT
    assert len(sockets.naps) == 5


def test_turn_with_much_to_do_needs_nothing_to_gather() -> None:
    sockets = streaming()
    assert after_one_more(sockets, lambda it: it.turn(0, takes=150)) == 0
    assert after_one_more(sockets, lambda it: it.turn(0, takes=10)) == 1


def test_client_that_waits_for_answers_is_not_held_up_for_long_after_a_stream() -> None:
    """It speaks again within the sleep, as one that streams would."""
    sockets = streaming()
    for _ in range(1000):
        sockets.turn(40)
    assert len(sockets.naps) == 64


@pytest.mark.parametrize("comes_after", [130, 1_000_000])
def test_who_takes_his_time_is_not_streaming(comes_after: float) -> None:
    """A client that waits for its answer before it goes on, or a quiet hour."""
    sockets = streaming()
    assert after_one_more(sockets, lambda it: it.turn(comes_after)) == 0
    assert sockets.turn(0) == EVENT
    assert not sockets.naps, "it takes as many turns as before until it counts as one again"


def test_question_whether_something_is_there_already_is_answered_at_once() -> None:
    sockets = streaming()
    assert sockets.turn(0, timeout=0) == EVENT
    assert sockets.turn(50, timeout=0) == []
    assert not sockets.naps
    assert not sockets.sleeps


def test_loop_stays_awake_for_what_comes_soon_again() -> None:
    sockets = Sockets()
    sockets.turn(40)
    assert sockets.sleeps == 1, "nothing is known yet"
    sockets.turn(40)
    assert sockets.sleeps == 1
    sockets.turn(500)
    assert sockets.sleeps == 2
    sockets.turn(40)
    assert sockets.sleeps == 3, "the last time it took long"


def test_what_has_waited_is_done_before_a_sleep_and_what_it_asks_for_too() -> None:
    sockets, done = Sockets(), list[bool]()

    def before_sleep() -> bool:
        done.append(not done)
        return done[-1]

    sockets.wait.before_sleep = before_sleep
    assert sockets.turn(500) == []
    assert (done, sockets.sleeps) == ([True], 0)
    assert sockets.turn(500) == EVENT
    assert (done, sockets.sleeps) == ([True, False], 1)
    assert sockets.turn(0, timeout=0) == EVENT
    assert len(done) == 2, "somebody speaks"
    assert sockets.turn(50, timeout=0) == []
    assert len(done) == 3


# ---- pauses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("microseconds", "is_pause"), [(0, False), (400, False), (600, True)])
def test_a_pause_is_a_wait_after_which_nobody_is_in_a_hurry(microseconds: float, is_pause: bool) -> None:
    sockets = Sockets()
    sockets.turn(microseconds)
    assert sockets.wait.was_pause is is_pause


def test_timers_do_not_end_a_pause() -> None:
    sockets = Sockets()
    sockets.turn(600)
    assert sockets.turn(300, timeout=0.0002) == []
    assert sockets.turn(150, timeout=0) == []
    sockets.turn(300)
    assert sockets.wait.was_pause
    sockets.turn(300)
    assert not sockets.wait.was_pause, "somebody spoke"


def test_who_speaks_while_the_loop_only_looks_ends_a_pause() -> None:
    sockets = Sockets()
    sockets.turn(600)
    assert sockets.turn(300, timeout=0.0002) == []
    assert sockets.turn(0, timeout=0) == EVENT
    sockets.turn(300)
    assert not sockets.wait.was_pause


def test_looking_without_waiting_is_no_pause() -> None:
    sockets = Sockets()
    sockets.turn(600)
    sockets.turn(0, timeout=0)
    assert not sockets.wait.was_pause


def test_the_time_that_this_takes_is_no_pause_and_who_spoke_meanwhile_was_not_late() -> None:
    sockets = Sockets()
    sockets.writes_before_sleep(600)
    assert sockets.turn(60) == EVENT
    assert not sockets.wait.was_pause
    sockets.wait.before_sleep = lambda: False
    sockets.turn(40)
    assert (sockets.wait.was_pause, sockets.sleeps) == (False, 0), "it stays awake"


def test_a_pause_begins_behind_it() -> None:
    sockets = Sockets()
    sockets.writes_before_sleep(600)
    assert sockets.turn(900) == []
    sockets.wait.before_sleep = lambda: False
    sockets.turn(300)
    assert not sockets.wait.was_pause


def test_who_was_written_to_before_a_sleep_has_the_processor() -> None:
    sockets = Sockets()
    sockets.turn(40)
    sockets.wait.before_sleep = lambda: True
    assert sockets.turn(500) == []
    sockets.wait.before_sleep = lambda: False
    sockets.turn(40)
    assert sockets.sleeps == 2, "it does not stay awake"
