"""When the journal's buffer is written: once for all that a turn has recorded."""

import pytest

from ackwire.errors import StoreFailed
from ackwire.store.contract import Sync
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.util.clock import ManualClock
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
    for is_cancellable in order:
        store.append(Messages().make(), [Q])
        store.when_durable(lambda: answered.append(True), sync=Sync.BESIDE if is_cancellable else Sync.NOW)
    factory.clock.advance(0)
    assert (answered, factory.writing.is_idle) == ([True, True], True)


def test_who_forgoes_leaves_those_waiting_for_whom_the_thread_syncs() -> None:
    factory, answered = JournalFactory(), list[str]()
    store = factory.open()
    factory.settle()
    messages = Messages()
    store.append(messages.make(), [Q])
    store.when_durable(lambda: answered.append("first"), sync=Sync.BESIDE)
    factory.clock.advance(0)
    assert not factory.writing.is_idle

    def second() -> None:
        answered.append("second")

    store.append(messages.make(), [Q])
    store.when_durable(second, sync=Sync.BESIDE)
    assert store.cancel(second)
    assert store.durability.has_waiters
    factory.settle()
    assert (answered, store.durability.has_waiters) == (["first"], False)


class Patient:
    """One for whom nothing is to be done for a moment."""

    def __init__(self, store: JournalStore) -> None:
        self.is_answered = False
        self._store = store
        self.message = Messages().make()
        store.append(self.message, [Q])
        self._callback = self._answer  # one object for both calls
        store.when_durable(self._callback, sync=Sync.DELAYED)

    def _answer(self) -> None:
        self.is_answered = True

    def cancel(self) -> None:
        self._store.remove(Q, self.message)
        assert self._store.cancel(self._callback)


@pytest.fixture
def factory() -> JournalFactory:
    factory = JournalFactory()
    factory.open()
    factory.settle()
    return factory


def test_nothing_is_done_for_a_moment_and_then_the_thread_syncs(factory: JournalFactory) -> None:
    store = open_store(factory)
    patient, before = Patient(store), store._writer.last_number
    seen = []
    for seconds in (0, 0.0009, 0.0001):
        factory.clock.advance(seconds)
        seen.append((store._writer.last_number > before, factory.writing.is_idle))
    assert seen == [(False, True), (False, True), (True, False)]
    assert not patient.is_answered
    factory.settle()
    assert patient.is_answered


def test_the_moment_of_one_who_forgoes_says_nothing_of_the_next(factory: JournalFactory) -> None:
    store = open_store(factory)
    before = store._writer.last_number
    Patient(store).cancel()
    factory.clock.advance(0.0006)
    second = Patient(store)
    factory.clock.advance(0.0006)
    assert store._writer.last_number == before
    second.cancel()
    factory.clock.advance(0.001)
    assert (store._writer.last_number, store.durability.has_waiters) == (before, False)
    third = Patient(store)
    factory.clock.advance(0.001)
    factory.settle()
    assert (third.is_answered, second.is_answered) == (True, False)


def test_who_cannot_wait_does_not_wait_for_one_who_can(factory: JournalFactory) -> None:
    store = open_store(factory)
    patient, answered = Patient(store), list[bool]()
    store.append(Messages().make(), [Q])
    store.when_durable(lambda: answered.append(True))
    factory.clock.advance(0)
    assert (patient.is_answered, answered, factory.writing.is_idle) == (True, [True], True)


def test_a_store_that_is_closed_within_the_moment_has_written_everything(factory: JournalFactory) -> None:
    patient, clock = Patient(open_store(factory)), factory.clock
    factory.close()
    assert patient.is_answered
    clock.advance(0.01)
    assert [it.sequence for it in factory.open().waiting(Q)] == [patient.message.sequence]


def test_a_store_that_fails_within_the_moment_says_so(factory: JournalFactory) -> None:
    store, failed = open_store(factory), list[StoreFailed]()
    store.append(Messages().make(), [Q])
    store.when_durable(lambda: None, failed.append, Sync.DELAYED)
    factory.break_disk()
    factory.clock.advance(0.001)
    factory.settle()
    assert failed == [store.failure]


def test_a_store_that_is_abandoned_within_the_moment_does_nothing_more(factory: JournalFactory) -> None:
    store = open_store(factory)
    Patient(store)
    before = store._writer.last_number
    store.abandon()
    for _ in range(3):
        factory.clock.advance(0.01)
    assert (store._writer.last_number, store.failure) == (before, None)


def open_store(factory: JournalFactory) -> JournalStore:
    assert factory.store is not None
    return factory.store


def test_the_sync_of_a_checkpoint_is_one_that_others_wait_for() -> None:
    factory = JournalFactory()
    store = factory.open()
    factory.settle()
    store.append(Messages().make(), [Q])
    seen = []
    for step in (factory.settle, lambda: factory.clock.advance(1), factory.settle):
        step()
        seen.append(store.durability.is_syncing)
    assert seen == [False, True, False]
