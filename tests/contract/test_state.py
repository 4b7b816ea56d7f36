"""What a store keeps besides messages: subscriptions, jobs, transactions, and what recognises repetitions."""

from dataclasses import replace

import pytest

from ackwire.store.contract import CursorRecord, DurableKey, PreparedTransaction, StateRecord
from ackwire.util.lru import COMMITS_REMEMBERED
from tests.helpers.store_history import NOTES
from tests.helpers.stored import (
    D,
    E,
    Messages,
    Q,
    R,
    T,
    durable,
    job_facts,
    kept,
    local_id,
    prepared_facts,
    xa_id,
)
from tests.helpers.stores import StoreFactory

# ---- durable subscriptions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", [None, "", "n = 1", "name = 'ä€😀'"])
@pytest.mark.parametrize("no_local", [True, False])
def test_durable_subscription_is_kept_with_its_terms(factory: StoreFactory, selector: str, no_local: bool) -> None:
    """K1, A3."""
    store = factory.open()
    record = durable(DurableKey("ä client", "a:name"), selector, no_local=no_local)
    store.add_durable(record)
    assert list(factory.reopen().durables()) == [record]


def test_durable_subscription_takes_new_terms(factory: StoreFactory, messages: Messages) -> None:
    """K1, A3: the messages are another matter."""
    store = factory.open()
    store.add_durable(durable(D))
    store.append(messages.make(T), [D])
    store.add_durable(durable(D, "n = 1", no_local=True))
    found = kept(factory.reopen())
    assert found.durables == {D: durable(D, "n = 1", no_local=True)}
    assert list(found.waiting) == [D]


def test_ended_subscription_is_gone_with_its_messages(factory: StoreFactory, messages: Messages) -> None:
    """K1, A3: and comes back empty."""
    store = factory.open()
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    store.append(messages.make(T), [D, E])
    store.remove_place(D)
    store = factory.reopen()
    found = kept(store)
    assert (found.durables, list(found.waiting)) == ({E: durable(E)}, [E])
    store.add_durable(durable(D))
    found = kept(factory.reopen())
    assert (set(found.durables), list(found.waiting)) == ({D, E}, [E])


# ---- scheduled jobs --------------------------------------------------------------------------------------------


def test_job_is_kept_as_it_is(factory: StoreFactory, messages: Messages) -> None:
    """I2."""
    store = factory.open()
    jobs = [
        messages.job("one"),
        messages.job("ID:ä:1", repeats_left=-1, cron="0 * * * *", fresh_ids=False),
        messages.job("far", due_ms=2**62, delay_ms=-1, period_ms=0, repeats_left=0),
    ]
    for job in jobs:
        store.add_job(job)
    assert {it.job_id: job_facts(it) for it in factory.reopen().jobs()} == {it.job_id: job_facts(it) for it in jobs}


def test_job_is_due_at_another_time(factory: StoreFactory, messages: Messages) -> None:
    """I2: the message is the same one."""
    store = factory.open()
    job = messages.job()
    store.add_job(job)
    store.add_job(replace(job, due_ms=3000, repeats_left=2))
    store = factory.reopen()
    later = replace(job, due_ms=4000, repeats_left=1)
    store.add_job(later)
    assert [job_facts(it) for it in factory.reopen().jobs()] == [job_facts(later)]


def test_ended_job_is_gone(factory: StoreFactory, messages: Messages) -> None:
    """I2: and its id can be used again."""
    store = factory.open()
    store.add_job(messages.job("a"))
    store.add_job(messages.job("b"))
    store.remove_job("a")
    store.remove_job("nobody's")
    store = factory.reopen()
    assert [it.job_id for it in store.jobs()] == ["b"]
    again = messages.job("a", due_ms=9)
    store.add_job(again)
    assert {it.job_id: job_facts(it) for it in factory.reopen().jobs()}["a"] == job_facts(again)


# ---- transactions ----------------------------------------------------------------------------------------------


def test_prepared_transaction_is_kept_until_it_is_decided(factory: StoreFactory, messages: Messages) -> None:
    """G3: with what it will send, which is nowhere else, and what it will acknowledge, which still waits."""
    store = factory.open()
    store.add_durable(durable(D))
    first, second = messages.make(Q), messages.make(T)
    store.append(first, [Q])
    store.append(second, [D])
    sends = tuple(messages.unstamped(where, transaction=xa_id(1)) for where in (Q, T))
    transaction = PreparedTransaction(xa_id(1), sends, ((Q, first), (D, second)))
    store.prepare(transaction)
    for _ in range(2):
        store = factory.reopen()
        found = kept(store)
        assert found.prepared == {xa_id(1): prepared_facts(transaction)}
        assert {place: len(there) for place, there in found.waiting.items()} == {Q: 1, D: 1}
    store.decide(xa_id(1))
    found = kept(factory.reopen())
    assert found.prepared == {}
    assert {place: len(there) for place, there in found.waiting.items()} == {Q: 1, D: 1}


@pytest.mark.parametrize("restart", [True, False])
def test_prepared_transaction_comes_to_what_it_said(factory: StoreFactory, messages: Messages, restart: bool) -> None:
    """G2, G3."""
    store = factory.open()
    message = messages.make(Q)
    store.append(message, [Q])
    send = messages.unstamped(R)
    store.prepare(PreparedTransaction(xa_id(1), (send,), ((Q, message),)))
    if restart:
        store = factory.reopen()
    with store.atomically():
        store.decide(xa_id(1))
        store.remove(Q, message)
        messages.stamp(send)
        store.append(send, [R])
    found = kept(factory.reopen())
    assert found.prepared == {}
    assert {place: [it.sequence for it in there] for place, there in found.waiting.items()} == {R: [send.sequence]}


@pytest.mark.parametrize("user", ["", "alice", "\u00fc \U0001f600"])
def test_G3_prepared_transaction_keeps_its_user(factory: StoreFactory, user: str) -> None:
    store = factory.open()
    store.prepare(PreparedTransaction(xa_id(1), (), (), user))
    assert [it.user for it in factory.reopen().prepared()] == [user]


def test_empty_prepared_transaction_is_one(factory: StoreFactory) -> None:
    """G3: its work may all have been non-persistent."""
    store = factory.open()
    store.prepare(PreparedTransaction(xa_id(1), (), ()))
    store.prepare(PreparedTransaction(xa_id(2), (), ()))
    store.decide(xa_id(1))
    store.decide(xa_id(3))
    assert list(factory.reopen().prepared()) == [PreparedTransaction(xa_id(2), (), ())]


def test_prepared_transaction_outlives_the_queue_it_acknowledges(factory: StoreFactory, messages: Messages) -> None:
    """G3: a queue may be deleted meanwhile; what it had acknowledged there may be forgotten, the rest may not."""
    store = factory.open()
    gone, there = messages.make(Q), messages.make(R)
    store.append(gone, [Q])
    store.append(there, [R])
    send = messages.unstamped(R)
    store.prepare(PreparedTransaction(xa_id(1), (send,), ((Q, gone), (R, there))))
    store.remove_place(Q)
    found = kept(factory.reopen())
    assert found.prepared == {xa_id(1): prepared_facts(PreparedTransaction(xa_id(1), (send,), ((R, there),)))}
    assert list(found.waiting) == [R]


def test_commits_are_remembered_oldest_first(factory: StoreFactory) -> None:
    """J4: a commit repeated after a failover is recognised; one heard of again is new again."""
    store = factory.open()
    for number in (1, 2, 3, 1):
        store.committed(local_id(number))
    store = factory.reopen()
    assert list(store.commits()) == [local_id(2), local_id(3), local_id(1)]
    store.committed(local_id(4))
    assert list(factory.reopen().commits()) == [local_id(2), local_id(3), local_id(1), local_id(4)]


def test_commits_that_are_long_gone_are_forgotten(factory: StoreFactory) -> None:
    """J4."""
    store = factory.open()
    for number in range(COMMITS_REMEMBERED + 5):
        store.committed(local_id(number))
    found = list(factory.reopen().commits())
    assert len(found) == COMMITS_REMEMBERED
    assert found[0] == local_id(5)


# ---- what recognises repetitions -------------------------------------------------------------------------------


def test_last_count_of_each_producer_longest_unheard_first(factory: StoreFactory, messages: Messages) -> None:
    """J4."""
    store = factory.open()
    made = [messages.make(Q, producer=name) for name in "abcab"]
    for message in made:
        store.append(message, [Q])
    expected = [(made[2].origin.producer_key, 1), (made[3].origin.producer_key, 2), (made[4].origin.producer_key, 2)]
    assert list(factory.reopen().last_counts()) == expected


def test_count_without_a_message_is_kept(factory: StoreFactory) -> None:
    """J4."""
    store = factory.open()
    store.remember_count(b"somebody", 5)
    store.remember_count(b"another", 1)
    store.remember_count(b"somebody", 3)  # less than is known
    assert dict(factory.reopen().last_counts()) == {b"somebody": 5, b"another": 1}


def test_counts_and_sequence_outlive_the_messages_that_showed_them(factory: StoreFactory, messages: Messages) -> None:
    """J4, K1: a repeated send is recognised though the message was consumed, and no sequence is given twice."""
    store = factory.open()
    made = [messages.make(Q, producer=name) for name in "aba"]
    for message in made:
        store.append(message, [Q])
        store.remove(Q, message)
    expected = [(made[1].origin.producer_key, 1), (made[2].origin.producer_key, 2)]
    for _ in range(3):
        store = factory.reopen()
        assert list(store.last_counts()) == expected
        assert store.last_sequence() >= 3
        assert kept(store).waiting == {}


def test_count_does_not_go_back_when_an_earlier_message_is_consumed_later(
    factory: StoreFactory, messages: Messages
) -> None:
    """J4."""
    store = factory.open()
    first, second = messages.make(Q), messages.make(Q)
    store.append(first, [Q])
    store.append(second, [Q])
    store.remove(Q, first)
    for _ in range(2):
        store = factory.reopen()
        assert list(store.last_counts()) == [(second.origin.producer_key, 2)]


def test_count_does_not_go_back_when_an_older_message_is_written_again(
    factory: StoreFactory, messages: Messages
) -> None:
    """J4, F3."""
    store = factory.open()
    first, second = messages.make(Q), messages.make(Q)
    store.append(first, [Q])
    store.append(second, [Q])
    with store.atomically():
        store.remove(Q, first)
        store.append(messages.replacement(first), [Q])
    assert list(factory.reopen().last_counts()) == [(second.origin.producer_key, 2)]


def test_promised_sequence_is_not_given_again_though_its_message_was_never_written(
    durable_factory: StoreFactory, messages: Messages
) -> None:
    """K1: consumed at once, and remembered all the same."""
    store = durable_factory.open()
    message = messages.make(Q)
    store.append(message, [Q])
    store.remove(Q, message)
    store.when_durable(lambda: None)
    durable_factory.settle()
    store = durable_factory.crash()
    assert store.last_sequence() >= message.sequence
    assert list(store.last_counts()) == [(message.origin.producer_key, 1)]


def test_sequence_never_goes_back(factory: StoreFactory, messages: Messages) -> None:
    """K1: messages may be appended in another order than they got their sequences, and places may go."""
    store = factory.open()
    made = [messages.make(Q) for _ in range(5)]
    store.append(made[4], [Q])
    store.append(made[0], [Q])
    store.remove_place(Q)
    store = factory.reopen()
    assert store.last_sequence() >= 5
    store.append(made[1], [R])
    assert factory.reopen().last_sequence() >= 5


# ---- notes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.key)
def test_note_is_kept_as_it_is(factory: StoreFactory, note: StateRecord) -> None:
    """K1."""
    store = factory.open()
    for each in NOTES:
        store.put_state_record(each)
    store.drop_state_record(NOTES[0].key if note is not NOTES[0] else NOTES[1].key)
    assert note in list(factory.reopen().state_records())


def test_note_takes_the_place_of_the_one_before_it(factory: StoreFactory) -> None:
    """K1."""
    store = factory.open()
    cursor = CursorRecord("c", Q, Q, None, 0, 0, (), ())
    store.put_state_record(cursor)
    store = factory.reopen()
    later = replace(cursor, committed=10, held=(11, 200_000))
    store.put_state_record(later)
    assert list(factory.reopen().state_records()) == [later]


def test_dropped_note_is_gone(factory: StoreFactory) -> None:
    """K1."""
    store = factory.open()
    for note in NOTES:
        store.put_state_record(note)
    for note in NOTES[1:]:
        store.drop_state_record(note.key)
    store.drop_state_record("nobody's")
    assert list(factory.reopen().state_records()) == [NOTES[0]]


def test_messages_are_removed_by_their_sequences(factory: StoreFactory, messages: Messages) -> None:
    """K1: and one that is not there changes nothing."""
    store = factory.open()
    made = [messages.make(Q) for _ in range(5)]
    for message in made:
        store.append(message, [Q])
    store.remove_many(Q, [made[0].sequence, made[3].sequence, 999])
    store.remove_many(R, [made[1].sequence])
    left = [made[1].sequence, made[2].sequence, made[4].sequence]
    assert [it.sequence for it in factory.reopen().waiting(Q)] == left


def test_stored_bytes_can_be_read_in_any_order(factory: StoreFactory, messages: Messages) -> None:
    """K1."""
    store = factory.open()
    made = [messages.make(Q, text=str(number)) for number in range(3)]
    for message in made:
        store.append(message, [Q])
    wanted = [made[2].sequence, 999, made[0].sequence]
    for _ in range(2):
        found = store.read(Q, wanted)
        assert [it and it[0] for it in found] == [made[2].frame, None, made[0].frame]
        store = factory.reopen()
