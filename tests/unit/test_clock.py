"""Clocks: the one that moves when told to, and the machine's."""

import asyncio
import time

from ackwire.clock import ManualClock, SystemClock


def test_manual_time_stands_still() -> None:
    clock = ManualClock(start_ms=1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)


def test_advancing_moves_both_times() -> None:
    clock = ManualClock(start_ms=1000)
    clock.advance(1.25)
    clock.advance(0.001)
    assert clock.now_ms() == 2251
    assert clock.monotonic() == 1.251


def test_timer_runs_once_when_due() -> None:
    clock = ManualClock()
    calls: list[float] = []
    clock.call_later(5, lambda: calls.append(clock.monotonic()))
    clock.advance(4.999)
    assert calls == []
    clock.advance(0.001)
    clock.advance(100)
    assert calls == [5.0]


def test_timers_run_in_order_of_their_due_time_and_see_it() -> None:
    clock = ManualClock()
    calls: list[tuple[str, float]] = []
    for name, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("a2", 1.0)):
        clock.call_later(delay, lambda name=name: calls.append((name, clock.monotonic())))  # type: ignore[misc]
    clock.advance(10)
    assert calls == [("a", 1.0), ("a2", 1.0), ("b", 2.0), ("c", 3.0)]
    assert clock.monotonic() == 10.0


def test_timer_set_by_a_timer_runs_in_the_same_advance() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.monotonic())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)
    assert ticks == [1.0, 2.0, 3.0]


def test_cancelled_timer_does_not_run() -> None:
    clock = ManualClock()
    calls: list[str] = []
    timer = clock.call_later(1, lambda: calls.append("cancelled"))
    clock.call_later(1, lambda: calls.append("kept"))
    timer.cancel()
    clock.advance(2)
    assert calls == ["kept"]
    timer.cancel()


def test_timer_in_the_past_is_due_at_once() -> None:
    clock = ManualClock()
    calls: list[float] = []
    clock.call_later(-5, lambda: calls.append(clock.monotonic()))
    clock.advance(0)
    assert calls == [0.0]


def test_system_clock_tells_the_machines_time() -> None:
    clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= before + 60_000
    assert clock.monotonic() <= clock.monotonic()


def test_system_clock_calls_back_on_the_event_loop() -> None:
    async def wait_for_timer() -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        clock = SystemClock()
        clock.call_later(0, lambda: done.set_result("called"))
        clock.call_later(0, lambda: done.set_result("cancelled")).cancel()
        return await asyncio.wait_for(done, timeout=10)

    assert asyncio.run(wait_for_timer()) == "called"
