"""Where the syncs of a copy are done: beside the loop, or on it where they are quick."""

from ackwire.util.clock import ManualClock
from tests.helpers.replica import ReplicaNode, chunks
from tests.helpers.stored import Messages, Q

SYNCS = 40


class TickingClock(ManualClock):
    """Some time passes between two looks at it."""

    def __init__(self, tick_seconds: float) -> None:
        super().__init__()
        self.tick_seconds = tick_seconds

    def monotonic(self) -> float:
        self.advance(self.tick_seconds)
        return super().monotonic()


def syncs_on_the_loop(tick_seconds: float, *, fails_at_last: bool = False) -> tuple[list[bool], ReplicaNode]:
    """For each of the syncs of a follower, whether it was over when the call returned."""
    master, follower = ReplicaNode(0), ReplicaNode(1, is_open=False)
    follower.clock = TickingClock(tick_seconds)
    follower.open()
    store = master.lead(2)
    follower.promise(2)
    made, found = Messages(), []
    for number in range(SYNCS):
        store.append(made.make(Q, "x"), [Q])
        master.settle()
        for chunk in chunks(master, follower.copy.end().number):
            follower.copy.append(chunk)
        if fails_at_last and number == SYNCS - 1:
            follower.disk.fail("sync")
        outcomes: list[Exception | None] = []
        follower.copy.sync(outcomes.append)
        found.append(bool(outcomes))
        follower.settle()
        assert len(outcomes) == 1
        if follower.copy.state.failure is None:
            assert follower.copy.durable() == follower.copy.end()
    return found, follower


def test_syncs_that_turn_out_to_be_quick_are_done_on_the_loop() -> None:
    found, _ = syncs_on_the_loop(0.0001)
    assert not found[0], "it is not known yet what one takes"
    assert found[-1]


def test_slow_syncs_are_done_beside_the_loop() -> None:
    found, _ = syncs_on_the_loop(0.001)
    assert not any(found)


def test_a_sync_on_the_loop_that_fails_ends_the_service_of_the_copy() -> None:
    found, follower = syncs_on_the_loop(0.0001, fails_at_last=True)
    assert found[-1]
    assert follower.failures
    assert follower.copy.durable() < follower.copy.end()
