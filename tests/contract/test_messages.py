"""Messages in a store: what waits where after a restart, and what can be loaded while it runs (K1)."""

import pytest

from ackwire.jms.message import Message
from ackwire.store.contract import Place, Store, WaitingMessage
from tests.helpers.stored import D, E, Messages, Q, R, T, durable, facts, kept, waiting_facts
from tests.helpers.stores import StoreFactory


def sequences(store: Store, place: Place) -> list[int]:
    return [it.sequence for it in store.waiting(place)]


def loaded(store: Store, place: Place, wanted: list[Message]) -> list[object]:
    """The facts of what `load` gives for *wanted*."""
    return [it and facts(it) for it in store.load(place, [message.sequence for message in wanted])]


def test_new_store_is_empty(factory: StoreFactory) -> None:
    """K1."""
    found = kept(factory.open())
    assert (found.waiting, found.durables, found.jobs, found.prepared) == ({}, {}, {}, {})
    assert (found.last_counts, found.commits, found.last_sequence) == ([], [], 0)


def test_K1_K6_message_waits_where_it_was_put(factory: StoreFactory, messages: Messages) -> None:
    """K1: what is unacknowledged at start-up is there, byte for byte."""
    store = factory.open()
    message = messages.make(Q, "hello", priority=7, expiration=1_900_000_000_000, properties={"n": "1"}, group_id="g")
    store.append(message, [Q])
    store = factory.reopen()
    assert list(store.places()) == [Q]
    assert list(store.waiting(Q)) == [waiting_facts(message)]
    assert loaded(store, Q, [message]) == [facts(message)]


def test_waiting_says_expiration_priority_and_size(factory: StoreFactory, messages: Messages) -> None:
    """K1: a restart knows these without reading the message."""
    store = factory.open()
    plain = messages.make(Q)
    urgent = messages.make(Q, "x" * 3000, priority=9, expiration=1_900_000_000_000)
    strange = messages.make(Q, priority=-128, expiration=-1)
    for message in (plain, urgent, strange):
        store.append(message, [Q])
    assert list(factory.reopen().waiting(Q)) == [
        WaitingMessage(1, 0, 4, len(plain.frame)),
        WaitingMessage(2, 1_900_000_000_000, 9, len(urgent.frame)),
        WaitingMessage(3, -1, -128, len(strange.frame)),
    ]


def test_waiting_is_in_the_order_of_sequences_whatever_the_order_of_appends(
    factory: StoreFactory, messages: Messages
) -> None:
    """K1, H1: a transaction's messages had their places before it committed."""
    store = factory.open()
    made = [messages.make(Q) for _ in range(5)]
    for index in (3, 0, 4, 2, 1):
        store.append(made[index], [Q])
    assert sequences(factory.reopen(), Q) == [1, 2, 3, 4, 5]


def test_one_message_in_several_places_leaves_each_on_its_own(factory: StoreFactory, messages: Messages) -> None:
    """K1, A3: durable subscriptions share what is stored."""
    store = factory.open()
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    message = messages.make(T)
    store.append(message, [D, E])
    store.remove(D, message)
    store = factory.reopen()
    assert (sequences(store, D), sequences(store, E)) == ([], [1])
    assert loaded(store, E, [message]) == [facts(message)]
    store.remove(E, message)
    assert kept(factory.reopen()).waiting == {}


def test_removed_message_is_gone(factory: StoreFactory, messages: Messages) -> None:
    """K1: deleted when acknowledged, whether the append is old or new."""
    store = factory.open()
    old, kept_one = messages.make(Q), messages.make(Q)
    store.append(old, [Q])
    store.append(kept_one, [Q])
    store = factory.reopen()
    store.remove(Q, old)
    new = messages.make(Q)
    store.append(new, [Q])
    store.remove(Q, new)
    assert loaded(store, Q, [old, kept_one, new]) == [None, facts(kept_one), None]
    assert sequences(factory.reopen(), Q) == [kept_one.sequence]


def test_removing_what_is_not_there_changes_nothing(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    message, stranger = messages.make(Q), messages.make(R)
    store.append(message, [Q])
    store.remove(R, message)
    store.remove(Q, stranger)
    store.remove(D, stranger)
    assert sequences(factory.reopen(), Q) == [1]


def test_message_replaced_in_its_place_has_its_new_bytes(factory: StoreFactory, messages: Messages) -> None:
    """F3: a message that is offered again later is marked, and keeps its place in the order."""
    store = factory.open()
    first, message = messages.make(Q), messages.make(Q)
    store.append(first, [Q])
    store.append(message, [Q])
    again = messages.replacement(message)
    with store.atomically():
        store.remove(Q, message)
        store.append(again, [Q])
    assert loaded(store, Q, [again]) == [facts(again)]
    store = factory.reopen()
    assert list(store.waiting(Q)) == [waiting_facts(first), waiting_facts(again)]
    assert loaded(store, Q, [again]) == [facts(again)]
    store.remove(Q, again)
    assert sequences(factory.reopen(), Q) == [first.sequence]


def test_purge_removes_up_to_a_sequence_all_but_what_is_kept(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    made = [messages.make(Q) for _ in range(6)]
    elsewhere = messages.make(R)
    for message in made:
        store.append(message, [Q, R])
    store.append(elsewhere, [R])
    store.purge(Q, 5, [2, 4])
    assert loaded(store, Q, made) == [None, facts(made[1]), None, facts(made[3]), None, facts(made[5])]
    store = factory.reopen()
    assert sequences(store, Q) == [2, 4, 6]
    assert sequences(store, R) == [1, 2, 3, 4, 5, 6, 7]


def test_purged_place_takes_new_messages(factory: StoreFactory, messages: Messages) -> None:
    """K1: what is appended after a purge stays, even with a sequence that the purge would have taken."""
    store = factory.open()
    early, late = messages.make(Q), messages.make(Q)
    store.append(late, [Q])
    store.purge(Q, 10, [])
    store.append(early, [Q])
    assert sequences(factory.reopen(), Q) == [early.sequence]


def test_purge_of_a_place_that_nobody_knows(factory: StoreFactory) -> None:
    """K1."""
    store = factory.open()
    store.purge(Q, 10, [3])
    assert kept(factory.reopen()).waiting == {}


def test_removed_place_is_gone_with_all_that_is_in_it(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    made = [messages.make(Q) for _ in range(3)]
    for message in made:
        store.append(message, [Q, R])
    store.remove_place(Q)
    store.remove_place(D)
    assert loaded(store, Q, made) == [None, None, None]
    store = factory.reopen()
    assert list(store.places()) == [R]
    assert sequences(store, R) == [1, 2, 3]


def test_place_that_was_removed_can_be_used_again(factory: StoreFactory, messages: Messages) -> None:
    """K1: and nothing of before comes back."""
    store = factory.open()
    old, new = messages.make(Q), messages.make(Q)
    store.append(old, [Q])
    store.remove_place(Q)
    store.append(new, [Q])
    store.remove(Q, old)
    assert loaded(store, Q, [old, new]) == [None, facts(new)]
    assert sequences(factory.reopen(), Q) == [new.sequence]


def test_load_answers_in_the_order_of_the_question(factory: StoreFactory, messages: Messages) -> None:
    """K1: None for what is not in this place."""
    store = factory.open()
    made = [messages.make(Q, f"{n}") for n in range(5)]
    elsewhere = messages.make(R)
    for message in made:
        store.append(message, [Q])
    store.append(elsewhere, [R])
    for _ in range(2):
        wanted = [made[4], elsewhere, made[0], made[2], made[2]]
        assert loaded(store, Q, wanted) == [facts(made[4]), None, facts(made[0]), facts(made[2]), facts(made[2])]
        assert store.load(Q, [99]) == [None]
        assert store.load(D, [1]) == [None]
        assert store.load(Q, []) == []
        store = factory.reopen()


def test_messages_can_be_loaded_before_and_after_they_are_durable(factory: StoreFactory, messages: Messages) -> None:
    """K1: recorded and not removed is enough."""
    store = factory.open()
    message = messages.make(Q, "x" * 5000)
    store.append(message, [Q])
    assert loaded(store, Q, [message]) == [facts(message)]
    store.when_durable(lambda: None)
    assert loaded(store, Q, [message]) == [facts(message)]
    factory.step()
    assert loaded(store, Q, [message]) == [facts(message)]
    factory.settle()
    assert loaded(store, Q, [message]) == [facts(message)]


def test_messages_of_any_size_come_back(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    made = [messages.make(Q, "x" * size) for size in (0, 1, 511, 4096, 70_000, 1_500_000)]
    for message in made:
        store.append(message, [Q])
    store = factory.reopen()
    assert loaded(store, Q, made) == [facts(it) for it in made]


def test_many_places_with_any_name(factory: StoreFactory, messages: Messages) -> None:
    """K1, A8."""
    names = ["queue://a", "queue://A", "queue://a.b", "queue://ä€😀", "queue://a/../b", "queue://" + "x" * 4000]
    store = factory.open()
    expected: dict[Place, list[WaitingMessage]] = {}
    for name in names:
        message = messages.make(name)
        store.append(message, [message.destination])
        expected[message.destination] = [waiting_facts(message)]
    assert kept(factory.reopen()).waiting == expected


def test_store_has_room(factory: StoreFactory) -> None:
    """B6."""
    store = factory.open()
    store.on_room(lambda: None)
    assert store.full() is None


# ---- reading beside the loop ---------------------------------------------------------------------------------------


def test_fetch_gives_what_load_gives(factory: StoreFactory, messages: Messages) -> None:
    store = factory.open()
    made = [messages.make(Q, "x" * (1000 * number)) for number in range(5)]
    for message in made:
        store.append(message, [Q])
    factory.settle()
    store = factory.reopen()
    wanted = [made[3].sequence, 99, made[0].sequence]
    results: list[list[Message | None]] = []
    store.fetch(Q, wanted, results.append)
    factory.settle()
    [result] = results
    assert [it and facts(it) for it in result] == [facts(made[3]), None, facts(made[0])]


def test_fetch_of_a_place_that_is_not_known(factory: StoreFactory) -> None:
    results: list[list[Message | None]] = []
    factory.open().fetch(Q, [1, 2], results.append)
    factory.settle()
    assert results == [[None, None]]


def test_what_leaves_while_it_is_fetched_is_not_given(durable_factory: StoreFactory, messages: Messages) -> None:
    """Acknowledged, purged, or replaced in its place: what is given is what is there when it is given."""
    store = durable_factory.open()
    made = [messages.make(Q, f"message {number}") for number in range(5)]
    for message in made:
        store.append(message, [Q])
    store.when_durable(lambda: None)
    durable_factory.settle()
    results: list[list[Message | None]] = []
    store.fetch(Q, [it.sequence for it in made], results.append)
    if results:
        pytest.skip("it has all messages in memory")
    store.purge(Q, made[1].sequence, [made[0].sequence])
    store.remove(Q, made[2])
    again = messages.replacement(made[3])
    store.remove(Q, made[3])
    store.append(again, [Q])
    durable_factory.settle()
    [result] = results
    assert [it and facts(it) for it in result] == [facts(made[0]), None, None, facts(again), facts(made[4])]


def test_a_place_that_goes_while_it_is_fetched_gives_nothing(durable_factory: StoreFactory, messages: Messages) -> None:
    store = durable_factory.open()
    message = messages.make(Q)
    store.append(message, [Q])
    store.when_durable(lambda: None)
    durable_factory.settle()
    results: list[list[Message | None]] = []
    store.fetch(Q, [message.sequence], results.append)
    if results:
        pytest.skip("it has all messages in memory")
    store.remove_place(Q)
    later = messages.make(Q)
    store.append(later, [Q])
    durable_factory.settle()
    assert results == [[None]]


@pytest.mark.parametrize("is_durable", [True, False])
def test_what_is_written_while_it_is_fetched_is_given(
    durable_factory: StoreFactory, messages: Messages, *, is_durable: bool
) -> None:
    store = durable_factory.open()
    message = messages.make(Q, "just sent")
    store.append(message, [Q])
    results: list[list[Message | None]] = []
    store.fetch(Q, [message.sequence], results.append)
    if is_durable:
        store.when_durable(lambda: None)
    durable_factory.settle()
    assert [[it and facts(it) for it in result] for result in results] == [[facts(message)]]
