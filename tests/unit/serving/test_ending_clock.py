"""Timers of a term end with it."""

from ackwire.serving.ending_clock import EndingClock
from ackwire.util.clock import ManualClock


def test_L1_no_timer_runs_after_the_end_of_a_term() -> None:
    manual = ManualClock()
    clock = EndingClock(manual)
    ran: list[str] = []
    clock.call_later(1, lambda: ran.append("before"))
    clock.call_later(3, lambda: ran.append("after"))
    manual.advance(2)
    clock.end()
    manual.advance(2)
    clock.call_later(1, lambda: ran.append("set after"))
    manual.advance(2)
    assert ran == ["before"]
    assert clock.monotonic() == manual.monotonic()
    assert clock.now_ms() == manual.now_ms()
