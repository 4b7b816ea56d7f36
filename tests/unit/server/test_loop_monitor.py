"""The loop's monitor: how long turns are, and what made one long."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from ackwire.broker.loop_report import RECENT_SECONDS
from ackwire.server.loop import TurnLoop
from ackwire.server.loop_monitor import LoopMonitor
from ackwire.server.turn import Turn


class Time:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 0.0

    def work(self, seconds: float, cpu: float | None = None) -> None:
        self.now += seconds
        self.cpu += seconds if cpu is None else cpu


class Worker:
    """Whose turn it is."""

    def __init__(self, name: str = "worker 7") -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def run(self) -> None:
        """It does nothing by itself."""


class Speaker:
    """Says itself what it does."""

    doing = "peer 1.2.3.4:5: ConsumerInfo"

    def read(self) -> None:
        """It does nothing by itself."""


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def monitor(time: Time) -> Iterator[LoopMonitor]:
    made = LoopMonitor(lambda: time.now, lambda: time.cpu, lambda: round(1000 * time.now))
    made.start()
    made.end()
    time.work(1, 0)
    yield made
    made.stop()


def a_turn(monitor: LoopMonitor, time: Time, *steps: tuple[float, object], cpu: float | None = None) -> None:
    monitor.begin()
    for seconds, done in steps:
        time.work(seconds, cpu)
        monitor.lap(done)
    monitor.end()


def test_short_turns_are_counted_and_not_remembered(monitor: LoopMonitor, time: Time) -> None:
    for _ in range(10):
        a_turn(monitor, time, (0.001, Worker().run))
    report = monitor.report()
    assert report.turns == 11
    assert report.busy_seconds == pytest.approx(0.01)
    assert report.longer == (0, 0, 0)
    assert report.longest is None


def test_a_long_turn_names_its_longest_step(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (0.002, Worker("a").run), (0.03, Worker("b").run), (0.001, Worker("c").run))
    longest = monitor.report().longest
    assert longest is not None
    assert longest.seconds == pytest.approx(0.033)
    assert longest.doing == "Worker.run of b"
    assert longest.doing_seconds == pytest.approx(0.03)
    assert monitor.report().longer == (1, 1, 0)


def test_who_can_tell_what_it_does_is_asked(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (0.06, partial(Speaker().read)))
    longest = monitor.report().longest
    assert longest is not None
    assert longest.doing == "peer 1.2.3.4:5: ConsumerInfo"


def test_processor_time_is_told_apart_from_waiting(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (0.5, Worker("the disk").run), cpu=0.001)
    time.work(1, 0)
    a_turn(monitor, time, (0.1, Worker("the loop").run))
    report = monitor.report()
    assert report.longest is not None
    assert report.longest_cpu is not None
    assert "the disk" in report.longest.doing
    assert report.longest.cpu_seconds == pytest.approx(0.001)
    assert "the loop" in report.longest_cpu.doing


def test_text_of_clients_is_cut_and_printable(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (0.06, Worker("queue://\x1b[2J\n" + "x" * 10_000).run))
    longest = monitor.report().longest
    assert longest is not None
    assert "\\x1b[2J\\x0a" in longest.doing
    assert len(longest.doing) < 250


def test_what_was_long_a_while_ago_is_not_recent(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (0.06, Worker().run))
    assert monitor.report().recent is not None
    time.work(RECENT_SECONDS, 0)
    assert monitor.report().recent is not None, "it was in the window before"
    time.work(RECENT_SECONDS, 0)
    assert monitor.report().recent is None
    assert monitor.report().longest is not None


def test_how_busy_the_loop_was_lately(monitor: LoopMonitor, time: Time) -> None:
    a_turn(monitor, time, (3.0, Worker().run))
    time.work(5, 0)
    assert monitor.report().recent_busy == pytest.approx(3 / 9)


def test_a_collection_is_named(monitor: LoopMonitor, time: Time) -> None:
    monitor.begin()
    monitor._on_collection("start", {})
    time.work(0.04)
    monitor._on_collection("stop", {})
    monitor.lap(Worker().run)
    monitor.end()
    longest = monitor.report().longest
    assert longest is not None
    assert longest.doing == "garbage collection, during Worker.run of worker 7"


def test_a_very_long_turn_is_logged_once_in_a_while(
    monitor: LoopMonitor, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            a_turn(monitor, time, (0.7, Worker().run))
    assert [it.getMessage() for it in caplog.records] == [
        "the event loop was held up for 700 ms (700 ms of processor time) by Worker.run of worker 7: all clients waited"
    ]


def test_it_keeps_nothing_alive_after_a_turn(monitor: LoopMonitor, time: Time) -> None:
    worker = Worker()
    known = weakref.ref(worker)
    a_turn(monitor, time, (0.06, worker.run))
    del worker
    assert known() is None


def test_a_stopped_monitor_leaves_the_collector_alone() -> None:
    before = len(gc.callbacks)
    made = LoopMonitor()
    made.start()
    made.start()
    made.stop()
    made.stop()
    assert len(gc.callbacks) == before


def test_callbacks_timers_and_tasks_of_the_loop_are_named() -> None:
    loop = TurnLoop()
    time = Time()
    turn = Turn(loop)
    assert turn.monitor is not None
    turn.monitor = monitor = LoopMonitor(lambda: time.now, lambda: time.cpu, lambda: 0)
    loop.take_part(turn)
    seen: list[str] = []

    def note() -> None:
        longest = monitor.report().longest
        seen.append("" if longest is None else longest.doing)

    async def slow_task() -> None:
        time.work(0.03)

    def slow_timer() -> None:
        time.work(0.02)

    def slow_end() -> None:
        time.work(0.04)

    async def main() -> None:
        monitor.start()
        loop.call_soon(time.work, 0.01)
        await asyncio.sleep(0.001)
        note()
        loop.call_later(0.001, slow_timer)
        await asyncio.sleep(0.01)
        note()
        await asyncio.create_task(slow_task())
        await asyncio.sleep(0.001)
        note()
        turn.at_end(slow_end)
        await asyncio.sleep(0.001)
        note()
        monitor.stop()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert seen[0].startswith("Time.work")
    assert seen[1].endswith("slow_timer")
    assert seen[2].startswith("task ")
    assert seen[2].endswith("slow_task")
    assert seen[3].endswith("slow_end")
