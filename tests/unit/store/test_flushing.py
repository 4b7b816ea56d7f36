"""When the journal's buffer is written: once for all that a turn has recorded."""

import pytest

from ackwire.clock import ManualClock
from ackwire.errors import StoreFailed
from ackwire.store.engine import JournalOptions
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA, JournalFactory, make_journal
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stored import Messages, Q


def test_a_sender_and_the_end_of_a_sync_in_one_turn_ask_for_one_flush() -> None:
    """The second would find nothing to write, and have the thread sync it."""
    clock, disk, medium = ManualClock(), SimulatedDisk(0), IndexMedium()
    writing, indexing = ControlledBackground(), ControlledBackground()
    failures: list[StoreFailed] = []
    store = make_journal(
        disk,
        DATA,
        clock=clock,
        open_index=lambda fresh: MemoryIndex(disk, medium, fresh=fresh),
        options=JournalOptions(segment_bytes=1 << 20, free_bytes_min=0, checkpoint_seconds=1e9),
        writing=writing,
        indexing=indexing,
        new_id=lambda: bytes(16),
        on_failed=failures.append,
    )
    messages, answered = Messages(), list[int]()
    store.append(messages.make(), [Q])
    clock.advance(1)  # nobody waits for it: the thread syncs
    assert not writing.is_idle
    for number in range(3):
        store.append(messages.make(), [Q])
        store.when_durable(lambda number=number: answered.append(number))  # type: ignore[misc]
        writing.run_all()
        clock.advance(0)
        assert answered == list(range(number + 1))
        assert writing.is_idle
    store.close()
    assert not failures


# ---- who must be answered by a sync, and who need not --------------------------------------------------------------


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_one_who_can_only_be_answered_by_a_sync_is_enough_for_the_loop_to_do_it(order: tuple[bool, bool]) -> None:
    factory, answered = JournalFactory(), list[bool]()
    store = factory.open()
    factory.settle()
    for may_be_forgone in order:
        store.append(Messages().make(), [Q])
        store.when_durable(lambda: answered.append(True), may_be_forgone=may_be_forgone)
    factory.clock.advance(0)
    assert (answered, factory.writing.is_idle) == ([True, True], True)


def test_who_forgoes_leaves_those_waiting_for_whom_the_thread_syncs() -> None:
    factory, answered = JournalFactory(), list[str]()
    store = factory.open()
    factory.settle()
    messages = Messages()
    store.append(messages.make(), [Q])
    store.when_durable(lambda: answered.append("first"), may_be_forgone=True)
    factory.clock.advance(0)
    assert not factory.writing.is_idle

    def second() -> None:
        answered.append("second")

    store.append(messages.make(), [Q])
    store.when_durable(second, may_be_forgone=True)
    assert store.forgo(second)
    assert store.is_awaited
    factory.settle()
    assert (answered, store.is_awaited) == (["first"], False)


def test_the_sync_of_a_checkpoint_is_one_that_others_wait_for() -> None:
    factory = JournalFactory()
    store = factory.open()
    factory.settle()
    store.append(Messages().make(), [Q])
    seen = []
    for step in (factory.settle, lambda: factory.clock.advance(1), factory.settle):
        step()
        seen.append(store.is_syncing)
    assert seen == [False, True, False]
