"""Counting messages: the line on a terminal, the summary, and the pace."""

import io

from ackwire.cli.tally import Pace, Tally


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Times:
    """A clock for those who only read it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_sees_a_bar_where_the_end_is_known() -> None:
    times, out = Times(), Terminal()
    tally = Tally("sent", 100, stream=out, monotonic=times)
    times.now += 5
    tally.add(25)
    assert out.getvalue() == "\r\x1b[K[######                  ] 25 of 100, 5/s, 15 s left"
    tally.clear()
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_terminal_sees_the_count_where_it_is_not() -> None:
    times, out = Times(), Terminal()
    tally = Tally("received", stream=out, monotonic=times)
    times.now += 2
    tally.add(50)
    assert out.getvalue() == "\r\x1b[Kreceived 50 messages, 25/s"


def test_short_work_and_other_outputs_see_nothing() -> None:
    times = Times()
    for out, seconds in ((Terminal(), 0.1), (io.StringIO(), 60)):
        tally = Tally("sent", 2, stream=out, monotonic=times)
        times.now += seconds
        tally.add()
        tally.clear()
        assert out.getvalue() == ""


def test_the_summary_says_how_many_how_long_and_how_fast() -> None:
    times = Times()
    tally = Tally("sent", 1, stream=io.StringIO(), monotonic=times)
    assert tally.summary("to x") == "sent 0 messages to x"
    times.now += 4
    tally.add()
    assert tally.summary("to x") == "sent 1 message to x in 4 s, 0.25/s"


def test_a_pace_waits_between_messages_and_not_before_the_first() -> None:
    times, slept = Times(), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        times.now += seconds

    pace = Pace(4.0, sleep, times)
    for _ in range(3):
        pace.wait()
    assert slept == [0.25, 0.25]
    times.now += 0.3  # slower than it should be: the next one comes at once, and the one behind it sooner
    pace.wait()
    pace.wait()
    assert slept == [0.25, 0.25, 0.2]


def test_a_pace_does_not_make_up_for_a_long_stop_with_a_burst() -> None:
    times, slept = Times(), list[float]()
    pace = Pace(10.0, slept.append, times)
    pace.wait()
    times.now += 3600
    for _ in range(11):
        pace.wait()
    assert not slept
    pace.wait()
    assert len(slept) == 1


def test_without_a_rate_there_is_no_waiting() -> None:
    pace = Pace(None, lambda _: None)
    assert not pace.is_limited
    pace.wait()
