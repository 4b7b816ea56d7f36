"""Clocks: the one that moves when told to, and the machine's."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from ackwire.util.clock import AdjustableClock, ManualClock, SystemClock


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


# --- the machine's time, moved on --------------------------------------------------------------------


def on_a_loop(scenario: Callable[[AdjustableClock], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await scenario(AdjustableClock())

    asyncio.run(limited())


def test_adjustable_time_is_the_machines_until_it_is_advanced() -> None:
    clock = AdjustableClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= before + 60_000
    clock.advance(3600)
    assert before + 3_600_000 <= clock.now_ms() <= before + 3_660_000
    assert clock.monotonic() >= time.monotonic() + 3600 - 1


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_adjustable_time_does_not_go_back(seconds: float) -> None:
    with pytest.raises(ValueError, match="not back"):
        AdjustableClock().advance(seconds)


def test_adjustable_timer_runs_by_itself_when_due() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        calls: list[str] = []
        done = asyncio.Event()
        clock.call_later(3600, lambda: calls.append("late"))
        clock.call_later(0.01, done.set)
        clock.call_later(0, lambda: calls.append("early"))
        clock.call_later(0, lambda: calls.append("cancelled")).cancel()
        await done.wait()
        assert calls == ["early"]

    on_a_loop(scenario)


def test_adjustable_timer_that_was_hurried_runs_once_in_order_and_sees_its_time() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        start = clock.monotonic()
        calls: list[tuple[str, int]] = []

        def note(name: str) -> Callable[[], None]:
            return lambda: calls.append((name, round((clock.monotonic() - start) / 100)))

        for name, delay in (("c", 300.0), ("a", 100.0), ("b", 200.0), ("never", 400.0)):
            clock.call_later(delay, note(name))
        clock.call_later(150, lambda: note("cancelled")()).cancel()
        clock.advance(350)
        assert calls == [("a", 1), ("b", 2), ("c", 3)]
        done = asyncio.Event()
        clock.call_later(0, done.set)
        await done.wait()
        assert len(calls) == 3, "none a second time"
        assert round((clock.monotonic() - start) / 50) == 7

    on_a_loop(scenario)


def test_adjustable_timer_that_is_left_comes_the_sooner() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        done = asyncio.Event()
        clock.call_later(3600, done.set)
        clock.advance(3599.99)
        await done.wait()

    on_a_loop(scenario)


def test_adjustable_timer_set_by_a_timer_runs_in_the_same_advance() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        ticks: list[int] = []

        def tick() -> None:
            ticks.append(len(ticks))
            clock.call_later(100, tick)

        clock.call_later(100, tick)
        clock.advance(350)
        assert ticks == [0, 1, 2]

    on_a_loop(scenario)


def test_another_thread_advances_on_the_loop_and_returns_when_timers_have_run() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        threads: list[threading.Thread] = []
        clock.call_later(3600, lambda: threads.append(threading.current_thread()))

        def advance() -> list[threading.Thread]:
            clock.advance(3600)
            return list(threads)

        assert await asyncio.to_thread(advance) == [threading.current_thread()]

    on_a_loop(scenario)


def test_another_thread_is_told_what_a_timer_raised_and_how_long_it_waited() -> None:
    async def scenario(clock: AdjustableClock) -> None:
        clock.call_later(1, lambda: 1 / 0)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(clock.advance, 1)
        advancing = threading.Event()

        def give_up() -> None:
            with pytest.raises(TimeoutError, match="within 5 s was not done in 0 s"):
                clock.advance(5, timeout_seconds=0)
            advancing.set()

        thread = threading.Thread(target=give_up)
        thread.start()
        assert advancing.wait(10), "this thread, the loop's, is busy meanwhile"
        thread.join()

    on_a_loop(scenario)


def test_adjustable_clock_of_another_loop_forgets_the_timers_of_the_last() -> None:
    clock = AdjustableClock()
    calls: list[str] = []

    async def plan(name: str) -> None:
        clock.call_later(10, lambda: calls.append(name))
        if name == "second":
            clock.advance(20)

    asyncio.run(plan("first"))
    clock.advance(1)
    asyncio.run(plan("second"))
    assert calls == ["second"]
