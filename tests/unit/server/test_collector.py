"""The garbage collector of a broker: bounded while it works, thorough while it is idle."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ackwire.server.collector import FROZEN_SECONDS, THRESHOLDS, Collector
from ackwire.util.clock import ManualClock


class _Rig:
    """A collector whose collections take as long as a test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.collection_seconds = 0.0
        self.cpu = 0.0
        self._reads = 0
        self.collector = Collector(self.clock, self._seconds, lambda: self.cpu)

    def _seconds(self) -> float:
        self._reads += 1
        return self._reads * self.collection_seconds


class _Node:
    """One of two objects that refer to each other."""

    def __init__(self, other: "_Node | None" = None) -> None:
        self.other = other


def _cycle() -> tuple[_Node, weakref.ref[_Node]]:
    first = _Node()
    first.other = _Node(first)
    return first, weakref.ref(first)


@pytest.fixture
def rig() -> Iterator[_Rig]:
    thresholds = gc.get_threshold()
    rig = _Rig()
    rig.collector.start()
    assert gc.get_threshold() == THRESHOLDS
    yield rig
    rig.collector.stop()
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_after_a_quick_collection_everything_is_looked_at_again(rig: _Rig) -> None:
    first, alive = _cycle()
    rig.collection_seconds = FROZEN_SECONDS / 2
    gc.collect()
    del first
    gc.collect()
    assert alive() is None


def test_what_is_left_by_a_long_collection_is_not_looked_at_again(rig: _Rig) -> None:
    first, alive = _cycle()
    rig.collection_seconds = 2 * FROZEN_SECONDS
    gc.collect()
    assert gc.get_objects(generation=2) == []
    del first
    gc.collect()
    assert alive() is not None
    young, young_alive = _cycle()
    del young
    gc.collect()
    assert young_alive() is None, "what has come since then is looked at"


def test_frozen_objects_end_with_their_last_reference(rig: _Rig) -> None:
    node = _Node()
    alive = weakref.ref(node)
    rig.collection_seconds = 2 * FROZEN_SECONDS
    gc.collect()
    del node
    assert alive() is None


def test_everything_is_looked_at_while_the_broker_is_idle(rig: _Rig) -> None:
    first, alive = _cycle()
    rig.collection_seconds = 2 * FROZEN_SECONDS
    gc.collect()
    del first
    rig.clock.advance(3500)
    assert alive() is not None, "not before an hour is over"
    rig.clock.advance(200)
    assert alive() is None


def test_a_broker_that_works_is_not_held_up(rig: _Rig) -> None:
    first, alive = _cycle()
    rig.collection_seconds = 2 * FROZEN_SECONDS
    gc.collect()
    del first
    for _ in range(100):
        rig.cpu += 1
        rig.clock.advance(60)
    assert alive() is not None
    rig.clock.advance(120)
    assert alive() is None


def test_stopped_collector_leaves_garbage_collection_alone(rig: _Rig) -> None:
    rig.collector.stop()
    rig.collection_seconds = 2 * FROZEN_SECONDS
    kept = _Node()
    gc.collect()
    assert any(it is kept for it in gc.get_objects(generation=2))


def test_while_clients_wait_nothing_is_collected_and_the_idle_broker_finds_it() -> None:
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    rig = _Rig()
    first, alive = _cycle()
    del first
    try:
        rig.collector.start(clients_wait=True)
        assert alive() is not None
        rig.clock.advance(2 * 3600)
        assert alive() is None
    finally:
        rig.collector.stop()
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
