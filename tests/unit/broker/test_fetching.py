"""Requests for messages that arrive later, and the jobs that wait for them (SEMANTICS B6)."""

import gc
from collections.abc import Iterator

import pytest

from ackwire.broker.fetching import Fetch, job_of
from ackwire.broker.slices import Slices
from ackwire.util.clock import ManualClock


def test_B6_a_callback_that_fails_does_not_keep_the_others_from_being_called(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    fetch = Fetch()
    fetch.when_arrived(lambda: called.append(1))
    fetch.when_arrived(fail)
    fetch.when_arrived(lambda: called.append(2))
    fetch.arrive([])
    assert called == [1, 2]
    assert "what waited for messages has failed" in caplog.text


def test_B6_a_job_goes_on_when_its_messages_have_arrived() -> None:
    clock = ManualClock()
    slices = Slices(clock)
    fetch = Fetch()
    done: list[int] = []

    def steps() -> Iterator[Fetch | None]:
        done.append(1)
        yield fetch
        done.append(2)

    slices.start(job_of(steps(), slices, 1))
    clock.advance(0)
    assert (done, len(slices)) == ([1], 0)
    fetch.arrive([])
    clock.advance(0)
    assert done == [1, 2]


def test_B6_a_job_that_is_done_is_freed_without_the_garbage_collector() -> None:
    clock = ManualClock()
    slices = Slices(clock)

    def steps() -> Iterator[Fetch | None]:
        yield None

    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            slices.start(job_of(steps(), slices, 1))
            clock.advance(0)
        assert gc.collect() == 0
    finally:
        gc.enable()
