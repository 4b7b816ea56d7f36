"""The inactivity monitor on a clock that only the test moves (SEMANTICS J3, openwire.md §5)."""

import pytest

from ackwire.util.clock import ManualClock
from ackwire.wire.inactivity import InactivityMonitor

# The experiment in openwire.md §5: agreed time 3 s, first checks after 1 s.
PERIOD_MS = 3000
DELAY_MS = 1000


class Watched:
    """A monitor and, by the clock's time, what it did."""

    def __init__(self, *, period_ms: int = PERIOD_MS, delay_ms: int = DELAY_MS) -> None:
        self.clock = ManualClock()
        self.keep_alives: list[float] = []
        self.silences: list[float] = []
        self.reported: list[float] = []
        self.monitor = InactivityMonitor(
            self.clock,
            period_ms=period_ms,
            initial_delay_ms=delay_ms,
            send_keep_alive=lambda: self.keep_alives.append(self._now()),
            on_silence=self._on_silence,
        )

    def advance_to(self, seconds: float) -> None:
        self.clock.advance(seconds - self.clock.monotonic())

    def _on_silence(self, seconds: float) -> None:
        self.silences.append(self._now())
        self.reported.append(round(seconds, 6))

    def _now(self) -> float:
        return round(self.clock.monotonic(), 6)


def test_silent_peer_is_dropped_at_7_s_and_keep_alives_leave_every_second_from_2_s() -> None:
    watched = Watched()
    watched.advance_to(60)
    assert watched.silences == [7.0]
    assert [time for time in watched.keep_alives if time < 7] == [2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("last_byte_at", [1.01, 2.0, 3.0, 3.99, 4.01, 6.5, 9.99, 10.01])
def test_drop_comes_two_to_three_times_the_agreed_time_after_the_last_byte(last_byte_at: float) -> None:
    watched = Watched()
    time = 0.0
    while time + 0.5 < last_byte_at:  # alive until then
        time += 0.5
        watched.advance_to(time)
        watched.monitor.heard()
    watched.advance_to(last_byte_at)
    watched.monitor.heard()
    watched.advance_to(last_byte_at + 60)
    (dropped_at,) = watched.silences
    assert 2 * PERIOD_MS / 1000 <= dropped_at - last_byte_at <= 3 * PERIOD_MS / 1000


def test_one_byte_in_each_second_interval_keeps_the_connection() -> None:
    watched = Watched()
    for seconds in range(2, 300, 6):
        watched.advance_to(seconds)
        watched.monitor.heard()
    assert watched.silences == []


def test_report_of_silence_never_claims_more_than_there_was() -> None:
    watched = Watched()
    watched.advance_to(60)
    assert watched.reported == [6.0]


def test_nothing_happens_before_the_initial_delay() -> None:
    watched = Watched(period_ms=30, delay_ms=10_000)
    watched.advance_to(9.999)
    assert watched.keep_alives == []
    assert watched.silences == []


def test_keep_alive_leaves_only_where_nothing_else_was_sent() -> None:
    watched = Watched()
    for seconds in (1.5, 2.5, 4.5):
        watched.advance_to(seconds)
        watched.monitor.sent()
        watched.monitor.heard()
    watched.advance_to(5.5)
    assert watched.keep_alives == [4.0]


def test_keep_alive_is_no_activity_even_if_its_sending_is_reported_at_once() -> None:
    clock = ManualClock()
    sent_at: list[float] = []

    def send() -> None:
        sent_at.append(round(clock.monotonic(), 6))
        monitor.sent()

    monitor = InactivityMonitor(
        clock, period_ms=PERIOD_MS, initial_delay_ms=DELAY_MS, send_keep_alive=send, on_silence=lambda _: None
    )
    clock.advance(4.5)
    assert sent_at == [2.0, 3.0, 4.0]


def test_silence_says_nothing_while_we_do_not_read() -> None:
    watched = Watched()
    watched.monitor.is_deaf = True
    watched.advance_to(100)
    assert watched.silences == []
    watched.monitor.is_deaf = False  # from here on the peer could be heard, and is not
    watched.advance_to(160)
    (dropped_at,) = watched.silences
    assert 6 <= dropped_at - 100 <= 9


def test_keep_alives_go_on_while_we_do_not_read() -> None:
    watched = Watched()
    watched.monitor.is_deaf = True
    watched.advance_to(10.5)
    assert watched.keep_alives == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]


def test_periods_of_3_ms_or_less_are_not_divided() -> None:
    watched = Watched(period_ms=3, delay_ms=3)
    watched.advance_to(0.0065)
    assert watched.keep_alives == [0.006]
    divided = Watched(period_ms=6, delay_ms=2)
    divided.advance_to(0.0065)
    assert divided.keep_alives == [0.004, 0.006]


def test_nothing_follows_the_drop() -> None:
    watched = Watched()
    watched.advance_to(7.0)
    before = list(watched.keep_alives)
    watched.advance_to(100)
    assert watched.keep_alives == before
    assert watched.silences == [7.0]


def test_stopped_monitor_does_nothing() -> None:
    watched = Watched()
    watched.advance_to(2.5)
    watched.monitor.stop()
    watched.advance_to(100)
    assert watched.keep_alives == [2.0]
    assert watched.silences == []
