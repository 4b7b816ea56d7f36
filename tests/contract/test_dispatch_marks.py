"""How far messages may have reached consumers: known after every end, so that a second delivery says so (A2)."""

from collections.abc import Callable

import pytest

from ackwire.store.contract import Store, Sync
from tests.helpers.stored import D, Messages, Q, R, durable
from tests.helpers.stores import Crash, StoreFactory

CRASHES = list(Crash)


def promise(store: Store, factory: StoreFactory) -> None:
    promised: list[bool] = []
    store.when_durable(lambda: promised.append(True))
    factory.settle()
    assert promised == [True]


def counts(store: Store, sequences: list[int]) -> list[int]:
    return [-1 if it is None else it.redelivery_counter for it in store.load(Q, sequences)]


def test_nothing_of_a_new_place_was_handed_out(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    store.append(messages.make(Q), [Q])
    assert factory.reopen().dispatched_up_to(Q) == 0


def test_what_was_handed_out_is_known_after_a_stop(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    for _ in range(3):
        store.append(messages.make(Q), [Q, R])
    store.mark_dispatched(Q, 2)
    store = factory.reopen()
    assert (store.dispatched_up_to(Q), store.dispatched_up_to(R)) == (2, 0)


@pytest.mark.parametrize("crash", CRASHES)
def test_what_was_handed_out_is_known_after_a_crash(
    durable_factory: StoreFactory, messages: Messages, crash: Crash
) -> None:
    store = durable_factory.open()
    store.append(messages.make(Q), [Q])
    store.mark_dispatched(Q, 1000)
    promise(store, durable_factory)
    assert durable_factory.crash(crash).dispatched_up_to(Q) == 1000


def test_no_new_message_gets_a_sequence_that_was_handed_out(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    store.append(messages.make(Q), [Q])
    store.mark_dispatched(Q, 1000)
    store.unmark_dispatched(Q, 1)
    store = factory.reopen()
    assert (store.dispatched_up_to(Q), store.last_sequence()) == (1, 1000)


def test_handing_out_less_than_before_changes_nothing(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    store.append(messages.make(Q), [Q])
    store.mark_dispatched(Q, 10)
    store.mark_dispatched(Q, 5)
    store.unmark_dispatched(Q, 20)
    assert factory.reopen().dispatched_up_to(Q) == 10


def test_a_deleted_place_takes_its_mark_along(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    store.append(messages.make(Q), [Q])
    store.mark_dispatched(Q, 10)
    store.remove_place(Q)
    store.append(messages.make(Q), [Q])
    assert factory.reopen().dispatched_up_to(Q) == 0


def test_durable_subscriptions_have_marks_of_their_own(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    store.add_durable(durable(D))
    store.append(messages.make(Q), [D, Q])
    store.mark_dispatched(D, 1)
    store = factory.reopen()
    assert (store.dispatched_up_to(D), store.dispatched_up_to(Q)) == (1, 0)


def test_what_was_handed_out_before_is_loaded_as_redelivered(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    if not store.pages:
        pytest.skip("it loads what was appended, and not a copy")
    for _ in range(3):
        store.append(messages.make(Q), [Q])
    store.mark_dispatched(Q, 2)
    promise(store, durable_factory)
    assert counts(store, [1, 2, 3]) == [0, 0, 0], "not in the same run: the broker knows better then"
    store = durable_factory.crash()
    store.append(messages.make(Q), [Q])
    promise(store, durable_factory)
    assert counts(store, [1, 2, 3, 4]) == [1, 1, 0, 0]


def test_a_count_that_was_stored_is_not_lowered(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    if not store.pages:
        pytest.skip("it loads what was appended, and not a copy")
    message = messages.make(Q)
    message.redelivery_counter = 3
    store.append(message, [Q])
    store.mark_dispatched(Q, 1)
    promise(store, durable_factory)
    assert counts(durable_factory.crash(), [1]) == [3]


# ---- who waits -------------------------------------------------------------------------------------------------


def test_a_store_says_whether_somebody_waits_for_it(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    steps: tuple[Callable[[], None], ...] = (
        lambda: store.append(messages.make(Q), [Q]),
        lambda: store.when_durable(lambda: None),
        durable_factory.settle,
    )
    assert [(step(), store.durability.has_waiters)[1] for step in steps] == [False, True, False]


def test_who_forgoes_an_answer_does_not_get_it(durable_factory: StoreFactory, messages: Messages) -> None:
    store, answered = durable_factory.open(), list[str]()
    callbacks: list[Callable[[], None]] = [lambda: answered.append("forgone"), lambda: answered.append("other")]
    store.append(messages.make(Q), [Q])
    for callback in callbacks:
        store.when_durable(callback, sync=Sync.BESIDE)
    assert store.cancel(callbacks[0])
    assert store.durability.has_waiters
    assert not store.cancel(callbacks[0])
    durable_factory.settle()
    assert answered == ["other"]
    assert not store.cancel(callbacks[1])
    assert not store.durability.has_waiters


def test_nobody_waits_when_all_have_forgone(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    message = messages.make(Q)

    def answer() -> None:
        raise AssertionError

    store.append(message, [Q])
    store.when_durable(answer, sync=Sync.BESIDE)
    assert store.cancel(answer)
    assert not store.durability.has_waiters
    durable_factory.settle()
    store.append(messages.make(Q), [Q])
    promise(store, durable_factory)
    assert durable_factory.crash().load(Q, [message.sequence])[0] is not None


def test_a_sequence_is_called_durable_when_it_is(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    first, second = messages.make(Q), messages.make(Q)
    store.append(first, [Q])
    store.mark_dispatched(Q, 1000)
    assert store.durability.durable_sequence < first.sequence
    promise(store, durable_factory)
    store.append(second, [Q])
    assert first.sequence <= store.durability.durable_sequence < second.sequence
    promise(store, durable_factory)
    assert store.durability.durable_sequence >= second.sequence
