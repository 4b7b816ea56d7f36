"""Large tables of the journal's catalog are freed a portion in each turn of the loop (SEMANTICS K1)."""

from collections.abc import Callable

from ackwire.store.catalog import Delta
from ackwire.store.journal.gradual_release import PORTION, GradualRelease
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.util.clock import ManualClock, Timer
from tests.helpers.journal import JournalFactory
from tests.helpers.stored import Messages, Q

LARGE = JournalOptions(free_bytes_min=0, checkpoint_seconds=60.0)


class Turns(ManualClock):
    """A clock that runs what is due now a turn at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[Callable[[], None]] = []

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        self.due.append(callback)
        return super().call_later(delay_seconds, callback)

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def _delta(fresh: int, gone: int = 0) -> Delta:
    delta = Delta()
    delta.fresh.update(dict.fromkeys(range(fresh)))
    delta.gone.update(range(gone))
    return delta


def test_a_large_table_is_freed_a_portion_in_each_turn() -> None:
    clock = Turns()
    release = GradualRelease(clock, portion=10)
    release.add(_delta(25, gone=15))
    left = []
    while clock.due:
        left.append(release.count)
        clock.turn()
    assert left == [40, 30, 25, 15, 5]
    assert release.count == 0


def test_a_table_that_comes_meanwhile_is_freed_too() -> None:
    clock = Turns()
    release = GradualRelease(clock, portion=10)
    release.add(_delta(15))
    clock.turn()
    release.add(_delta(12))
    while clock.due:
        assert len(clock.due) == 1
        clock.turn()
    assert release.count == 0


def test_a_small_table_needs_no_turn() -> None:
    clock = Turns()
    GradualRelease(clock, portion=10).add(_delta(10, gone=10))
    assert clock.due == []


def _filled_journal() -> tuple[JournalFactory, JournalStore]:
    factory, messages = JournalFactory(options=LARGE), Messages()
    factory.open()
    store = factory.store
    assert store is not None
    for _ in range(PORTION + 2):
        store.append(messages.make(Q), [Q])
    factory.settle()
    return factory, store


def test_the_end_of_a_place_frees_its_table_later() -> None:
    factory, store = _filled_journal()
    store.remove_place(Q)
    assert store._release.count == PORTION + 2
    factory.settle()
    assert store._release.count == 0


def test_a_checkpoint_frees_its_table_later() -> None:
    factory, store = _filled_journal()
    store.checkpoint()
    while not store._release.count:
        factory.writing.run_all()
        factory.indexing.run_all()
    assert store._release.count == PORTION + 2
    factory.settle()
    assert store._release.count == 0
    assert [it.sequence for it in store.waiting(Q)] == list(range(1, PORTION + 3))
