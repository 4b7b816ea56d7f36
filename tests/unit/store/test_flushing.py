"""When the journal's buffer is written: once for all that a turn has recorded."""

from ackwire.clock import ManualClock
from ackwire.errors import StoreFailed
from ackwire.store.engine import JournalOptions
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA, make_journal
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
