"""What is durable when: promises and their order, groups, crashes, and a disk that fails."""

from collections.abc import Callable

import pytest

from ackwire.errors import StoreFailed
from ackwire.store.contract import PreparedTransaction, Store
from tests.helpers.journal import JournalFactory
from tests.helpers.reference import Reference
from tests.helpers.store_history import no_failure
from tests.helpers.stored import (
    D,
    Messages,
    Q,
    R,
    Verb,
    difference,
    durable,
    kept,
    local_id,
    xa_id,
)
from tests.helpers.stores import Crash, StoreFactory

CRASHES = list(Crash)


def promise(store: Store, factory: StoreFactory) -> None:
    """Have everything recorded so far promised."""
    promised: list[bool] = []
    store.when_durable(lambda: promised.append(True))
    factory.settle()
    assert promised == [True]


def one_of_each(messages: Messages) -> list[Verb]:
    """Every verb that records, each with an effect."""
    first, second, third = (messages.make(Q) for _ in range(3))
    job, ended = messages.job(), messages.job("ended")
    prepared = PreparedTransaction(xa_id(1), (messages.unstamped(R),), ((Q, second),))
    return [
        lambda it: it.append(first, [Q]),
        lambda it: it.append(second, [Q, R]),
        lambda it: it.append(third, [Q]),
        lambda it: it.remove(Q, first),
        lambda it: it.purge(Q, third.sequence, [second.sequence]),
        lambda it: it.add_durable(durable(D)),
        lambda it: it.add_job(job),
        lambda it: it.add_job(ended),
        lambda it: it.remove_job("ended"),
        lambda it: it.prepare(prepared),
        lambda it: it.prepare(PreparedTransaction(xa_id(2), (), ())),
        lambda it: it.decide(xa_id(2)),
        lambda it: it.committed(local_id(1)),
        lambda it: it.remove_place(R),
    ]


# ---- promises --------------------------------------------------------------------------------------------------


def test_promise_about_nothing_is_kept_at_once(factory: StoreFactory) -> None:
    """K1."""
    told: list[str] = []
    factory.open().when_durable(lambda: told.append("durable"))
    assert told == ["durable"]


def test_promise_about_what_is_durable_already_is_kept_at_once(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    store.append(messages.make(Q), [Q])
    promise(store, factory)
    told: list[str] = []
    store.when_durable(lambda: told.append("durable"))
    assert told == ["durable"]


def test_everybody_is_told_once_and_in_order(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    told: list[int] = []

    def tell(number: int) -> Callable[[], None]:
        return lambda: told.append(number)

    for number in range(20):
        store.append(messages.make(Q), [Q])
        store.when_durable(tell(number), no_failure)
        if number % 5 == 3:
            factory.step()
    factory.settle()
    assert told == list(range(20))


def test_who_is_told_may_record_more_and_ask_again(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    told: list[str] = []

    def on_first() -> None:
        told.append("first")
        store.append(messages.make(R), [R])
        store.when_durable(lambda: told.append("second"))

    store.append(messages.make(Q), [Q])
    store.when_durable(on_first)
    factory.settle()
    assert told == ["first", "second"]
    assert set(kept(factory.reopen()).waiting) == {Q, R}


def test_close_keeps_promises_that_wait(factory: StoreFactory, messages: Messages) -> None:
    """K1: everything recorded is durable when `close` returns."""
    store = factory.open()
    told: list[str] = []
    store.append(messages.make(Q), [Q])
    store.when_durable(lambda: told.append("durable"), no_failure)
    store.append(messages.make(R), [R])
    store = factory.reopen()
    assert told == ["durable"]
    assert set(kept(store).waiting) == {Q, R}


# ---- crashes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", CRASHES)
def test_every_verb_that_was_promised_outlives_a_crash(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    """K1."""
    store, reference = durable_factory.open(), Reference()
    for verb in one_of_each(messages):
        verb(store)
        verb(reference)
        promise(store, durable_factory)
        store = durable_factory.crash(crash)
        assert difference(kept(store), reference.kept()) == ""


@pytest.mark.parametrize("crash", CRASHES)
def test_what_was_not_promised_is_there_up_to_some_point(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    """K1: everything up to it, nothing after it."""
    store, reference = durable_factory.open(), Reference()
    states = [reference.kept()]
    for verb in one_of_each(messages):
        verb(store)
        verb(reference)
        states.append(reference.kept())
    store.when_durable(lambda: None)
    found = kept(durable_factory.crash(crash))
    assert [it for it in states if difference(found, it) == ""]


@pytest.mark.parametrize("crash", CRASHES)
def test_crash_right_after_a_start_changes_nothing(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    """K1."""
    store = durable_factory.open()
    store.append(messages.make(Q), [Q])
    store.committed(local_id(1))
    expected = kept(durable_factory.reopen())
    for _ in range(3):
        assert difference(kept(durable_factory.crash(crash)), expected) == ""


# ---- groups ----------------------------------------------------------------------------------------------------


def test_group_is_recorded(factory: StoreFactory, messages: Messages) -> None:
    """G2: one in another is part of it, and an empty one is nothing."""
    store = factory.open()
    message = messages.make(Q)
    store.append(message, [Q])
    with store.atomically():
        store.remove(Q, message)
        with store.atomically():
            store.append(messages.make(R), [R])
        store.committed(local_id(1))
    with store.atomically():
        pass
    found = kept(factory.reopen())
    assert (list(found.waiting), found.commits) == ([R], [local_id(1)])


def test_what_a_group_recorded_before_an_error_has_happened(factory: StoreFactory, messages: Messages) -> None:
    """G2: the broker has acted on it; a store takes nothing back."""
    store = factory.open()

    def go_wrong() -> None:
        with store.atomically():
            store.append(messages.make(Q), [Q])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    store.append(messages.make(R), [R])
    assert set(kept(factory.reopen()).waiting) == {Q, R}


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("steps", range(3))
def test_group_is_there_as_a_whole_or_not_at_all(
    durable_factory: StoreFactory, messages: Messages, crash: Crash, steps: int
) -> None:
    """G2."""
    store = durable_factory.open()
    for _ in range(20):
        before = messages.make(Q)
        store.append(before, [Q])
        promise(store, durable_factory)
        with store.atomically():
            store.remove(Q, before)
            for _ in range(5):
                store.append(messages.make(R, "x" * 300), [R])
            store.committed(local_id(before.sequence))
        store.when_durable(lambda: None)
        for _ in range(steps):
            durable_factory.step()
        store = durable_factory.crash(crash)
        found = kept(store)
        happened = local_id(before.sequence) in found.commits
        assert len(found.waiting.get(R, [])) == (5 if happened else 0)
        assert len(found.waiting.get(Q, [])) == (0 if happened else 1)
        store.remove_place(Q)
        store.remove_place(R)


@pytest.mark.parametrize("crash", CRASHES)
def test_promise_asked_for_inside_a_group_is_about_the_group(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    """G2, K1: whoever is let in while a transaction commits may ask for one."""
    store = durable_factory.open()
    promised: list[str] = []
    with store.atomically():
        store.append(messages.make(Q), [Q])
        store.when_durable(lambda: promised.append("durable"))
        assert promised == [], "the rest may never come"
        store.append(messages.make(R), [R])
    durable_factory.settle()
    assert promised == ["durable"]
    assert set(kept(durable_factory.crash(crash)).waiting) == {Q, R}


# ---- failures --------------------------------------------------------------------------------------------------


def fail(store: Store, factory: StoreFactory, messages: Messages) -> list[str]:
    """Record something that cannot be written; the answer is what those who waited were told."""
    told: list[str] = []
    factory.break_disk()
    store.append(messages.make(Q), [Q])
    store.when_durable(lambda: told.append("durable"), lambda failure: told.append(type(failure).__name__))
    store.when_durable(lambda: told.append("durable"))
    factory.settle()
    return told


def test_store_that_cannot_write_says_so_and_promises_nothing_more(
    durable_factory: StoreFactory, messages: Messages
) -> None:
    """K7."""
    store = durable_factory.open()
    assert fail(store, durable_factory, messages) == ["StoreFailed"]
    told: list[str] = []
    store.when_durable(lambda: told.append("durable"), lambda failure: told.append(type(failure).__name__))
    durable_factory.settle()
    assert told == ["StoreFailed"]


def test_failed_store_refuses_every_verb(durable_factory: StoreFactory, messages: Messages) -> None:
    """K7."""
    store = durable_factory.open()
    fail(store, durable_factory, messages)
    for verb in one_of_each(messages):
        with pytest.raises(StoreFailed):
            verb(store)
    with pytest.raises(StoreFailed), store.atomically():
        store.append(messages.make(Q), [Q])


@pytest.mark.parametrize("crash", CRASHES)
def test_new_start_after_a_failure_has_what_was_promised(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    """K7."""
    store = durable_factory.open()
    message = messages.make(R)
    store.append(message, [R])
    promise(store, durable_factory)
    fail(store, durable_factory, messages)
    store = durable_factory.crash(crash)
    assert [it.sequence for it in store.waiting(R)] == [message.sequence]
    store.append(messages.make(R), [R])
    promise(store, durable_factory)


def test_failed_store_can_be_closed_and_opened_again(durable_factory: StoreFactory, messages: Messages) -> None:
    """K7: closing lets go of everything, though nothing more can be made durable."""
    store = durable_factory.open()
    store.append(messages.make(R), [R])
    promise(store, durable_factory)
    fail(store, durable_factory, messages)
    durable_factory.close()
    assert durable_factory.disk is not None
    durable_factory.disk.repair()
    assert R in kept(durable_factory.open()).waiting


@pytest.mark.parametrize("seed", range(4))
def test_K1_who_keeps_a_diary_knows_what_is_durable_before_anybody_is_answered(seed: int, messages: Messages) -> None:
    """What was written after the last mark was promised to nobody."""
    factory = JournalFactory(seed)
    store = factory.open()
    diary: list[int] = []
    marks: list[int] = []
    store.observe_writes(lambda: len(diary), marks.append)
    for number in range(20):
        diary.append(number)
        store.append(messages.make(Q), [Q])

        def answered(number: int = number) -> None:
            assert marks[-1] > number

        store.when_durable(answered)
        factory.step()
    factory.settle()
    assert marks[-1] == 20
    assert marks == sorted(marks)
