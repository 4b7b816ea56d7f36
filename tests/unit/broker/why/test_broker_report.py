"""`why broker`: how the broker stands, and what is wrong now."""

import pytest

from ackwire.broker.loop_report import LongTurn, LoopReport
from ackwire.broker.why.broker_report import why_broker
from tests.helpers.broker_rig import BrokerRig


def a_turn(rig: BrokerRig, seconds: float, cpu_seconds: float) -> LongTurn:
    return LongTurn(seconds, cpu_seconds, "peer 1.2.3.4:5: ConsumerInfo", seconds, rig.clock.now_ms())


def report(*, longest: LongTurn | None = None, recent: LongTurn | None = None, busy: float = 0.1) -> LoopReport:
    return LoopReport(1000, 3.0, (4, 2, 1), longest, longest, recent, busy)


def test_a_broker_in_order_says_so() -> None:
    rig = BrokerRig()
    rig.connect()
    figures, verdict = why_broker(rig.broker.view)
    assert "1 connections" in figures
    assert verdict.startswith("nothing is wrong")


def test_the_longest_turn_is_told_with_what_it_was_doing() -> None:
    rig = BrokerRig()
    longest = a_turn(rig, 0.02, 0.019)
    rig.broker.view.loop_report = lambda: report(longest=longest, recent=longest)
    [_, loop, verdict] = why_broker(rig.broker.view)
    assert loop == (
        "event loop: busy 10 % lately; 1000 turns, 4 over 5 ms, 2 over 20 ms, 1 over 50 ms; the longest took 20.0 ms, "
        "19.0 ms of it processor time, 20.0 ms for peer 1.2.3.4:5: ConsumerInfo"
    )
    assert verdict.startswith("nothing is wrong")


@pytest.mark.parametrize(("cpu_seconds", "is_waiting"), [(0.09, False), (0.01, True)])
def test_a_long_turn_of_late_is_wrong(cpu_seconds: float, is_waiting: bool) -> None:
    rig = BrokerRig()
    recent = a_turn(rig, 0.1, cpu_seconds)
    rig.broker.view.loop_report = lambda: report(longest=recent, recent=recent)
    rig.clock.advance(7)
    [*_, verdict] = why_broker(rig.broker.view)
    assert verdict.startswith("wrong: 7 s ago all clients waited: a turn of the loop took 100.0 ms")
    assert ("waited for the disk or the machine" in verdict) == is_waiting


def test_a_loop_without_time_left_is_wrong() -> None:
    rig = BrokerRig()
    rig.broker.view.loop_report = lambda: report(busy=0.97)
    assert "wrong: the event loop has no time left (97 % busy): clients wait for each other" in why_broker(
        rig.broker.view
    )


def test_what_is_full_and_who_is_blocked_is_wrong() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 2000}})
    producer = rig.connect("producer")
    for _ in range(4):
        producer.send("queue://orders", "x" * 1000)
    wrong = [line for line in why_broker(rig.broker.view) if line.startswith("wrong: ")]
    assert "wrong: memory is full" in wrong[0]
    assert "is blocked for" in wrong[1]
    assert len(wrong) == 2
