"""From the queue to the consumer: what leaves is remembered through a crash, and nothing waits without need."""

from typing import Any, cast

import pytest

from ackwire.broker.dispatch_gate import BLOCK_SEQUENCES
from ackwire.broker.in_flight import AckKind
from ackwire.errors import StoreFailed
from ackwire.store.contract import Place
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, named
from tests.helpers.journal import DATA, JournalFactory
from tests.helpers.slow_store import SlowStore
from tests.helpers.stores import Crash

Q = "queue://q"


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def rig(store: SlowStore) -> BrokerRig:
    return BrokerRig(store=store)


def open_the_way(rig: BrokerRig, store: SlowStore) -> tuple[RigClient, RigConsumer]:
    """A client and a consumer, and a mark that is durable: what waits now, waits for itself."""
    producer, consumer = rig.connect(), rig.consumer(Q)
    producer.send(Q, "first")
    store.sync()
    assert consumer.texts == ["first"]
    return producer, consumer


def send_unconfirmed(rig: BrokerRig, client: RigClient, text: str) -> None:
    rig.broker.send(client.connection, client.message(Q, text))


def test_J4_a_message_leaves_when_its_sender_can_be_answered(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    producer.send(Q, "second")
    assert (consumer.texts, producer.stored) == (["first"], 1)
    store.sync()
    assert (consumer.texts, producer.stored) == (["first", "second"], 2)


def test_A2_a_scheduled_message_leaves_when_its_job_is_known_to_have_run(rig: BrokerRig, store: SlowStore) -> None:
    """After a crash the job would run again, and what the consumer had would come as new."""
    producer, consumer = open_the_way(rig, store)
    producer.send(Q, "later", properties={"AMQ_SCHEDULED_DELAY": 1000})
    store.sync()
    rig.clock.advance(1)
    assert consumer.texts == ["first"]
    store.sync()
    assert consumer.texts == ["first", "later"]


def test_what_nobody_waits_for_leaves_at_once(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    send_unconfirmed(rig, producer, "second")
    assert consumer.texts == ["first", "second"]


def test_what_is_durable_already_leaves_while_others_wait(rig: BrokerRig, store: SlowStore) -> None:
    producer = rig.connect()
    for text in ("a", "b"):
        producer.send(Q, text)
    consumer = rig.consumer(Q, prefetch=1)
    store.sync()
    producer.send("queue://other", "waits")
    consumer.ack()
    assert consumer.texts == ["a", "b"]


@pytest.mark.parametrize("after_pause", [False, True])
def test_G1_what_a_commit_sends_leaves_when_it_can_be_answered(
    rig: BrokerRig, store: SlowStore, after_pause: bool
) -> None:
    producer, consumer = open_the_way(rig, store)
    rig.broker.turns.after_pause = after_pause
    transaction = producer.begin()
    producer.send(Q, "second", transaction=transaction)
    producer.commit(transaction)
    assert consumer.texts == ["first"]
    store.sync()
    assert consumer.texts == ["first", "second"]


def test_H1_others_do_not_overtake_a_message_that_waits(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    producer.send(Q, "second")
    producer.send(Q, "third", persistent=False)
    store.sync()
    producer.send(Q, "fourth", persistent=False)
    assert consumer.texts == ["first", "second", "third", "fourth"]


def test_other_consumers_need_not_wait(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    other = rig.consumer("queue://other")
    producer.send(Q, "second")
    producer.send("queue://other", "at once", persistent=False)
    assert (consumer.texts, other.texts) == (["first"], ["at once"])


def test_D7_what_waits_for_a_consumer_that_leaves_goes_to_another(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    consumer.ack()
    producer.send(Q, "second")
    consumer.close()
    other = rig.consumer(Q)
    store.sync()
    assert (consumer.texts, other.texts) == (["first"], ["second"])


def test_C3_a_pull_is_answered_once_by_a_message_that_waits(rig: BrokerRig, store: SlowStore) -> None:
    producer = rig.connect()
    consumer = rig.consumer(Q, prefetch=0)
    consumer.pull(50)
    for text in ("a", "b"):
        producer.send(Q, text)
    rig.clock.advance(1)
    store.sync()
    assert (consumer.texts, consumer.port.ends) == (["a"], 0)


def test_K7_nothing_leaves_after_the_store_has_failed(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = rig.connect(), rig.consumer(Q)
    store.failure = StoreFailed("broken")
    send_unconfirmed(rig, producer, "x")
    assert consumer.texts == []


# ---- marks -----------------------------------------------------------------------------------------------------


def test_nothing_leaves_before_its_mark_is_durable(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = rig.connect(), rig.consumer(Q)
    send_unconfirmed(rig, producer, "first")
    assert (consumer.texts, store.marks) == ([], [1 + BLOCK_SEQUENCES])
    store.sync()
    assert consumer.texts == ["first"]


def test_a_mark_is_renewed_in_time_and_seldom(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = open_the_way(rig, store)
    held_up = 0
    for number in range(4 * BLOCK_SEQUENCES):
        send_unconfirmed(rig, producer, "x")
        if len(consumer.delivered) < number + 2:
            held_up += 1
            store.sync()
        consumer.ack(kind=AckKind.INDIVIDUAL)
    assert (held_up, len(store.marks)) == (7, 8)


def test_messages_that_are_not_kept_need_no_mark(rig: BrokerRig, store: SlowStore) -> None:
    consumer = rig.consumer(Q)
    rig.connect().send(Q, "x", persistent=False)
    client = rig.connect()
    temporary = client.temporary_queue()
    replies = client.consumer(temporary)
    rig.connect().send(temporary, "reply")
    assert (consumer.texts, replies.texts, store.marks) == (["x"], ["reply"], [])


def test_a_clean_stop_says_how_far_messages_really_came(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = rig.connect(), rig.consumer(Q, prefetch=2)
    for _ in range(5):
        producer.send(Q)
    store.sync()
    consumer.client.disconnect()
    rig.broker.stop()
    assert [store.dispatched_up_to(place) for place in store.places()] == [2]


def test_D7_a_clean_stop_does_not_mark_what_was_given_back_unseen(rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = rig.connect(), rig.consumer(Q)
    sent = [producer.send(Q) for _ in range(5)]
    store.sync()
    consumer.close(last_delivered=sent[1].sequence)
    rig.broker.stop()
    assert [store.dispatched_up_to(place) for place in store.places()] == [2]


def test_a_clean_stop_with_nothing_seen_leaves_no_mark(rig: BrokerRig, store: SlowStore) -> None:
    open_the_way(rig, store)[1].ack()
    rig.broker.stop()
    assert [store.dispatched_up_to(place) for place in store.places()] == [0]


# ---- through the end of a broker -------------------------------------------------------------------------------


def journal_rig(factory: JournalFactory) -> BrokerRig:
    return BrokerRig(store=cast(Any, factory.open()))


def deliver_two_of_three(factory: JournalFactory) -> BrokerRig:
    rig = journal_rig(factory)
    producer, consumer = rig.connect(), rig.consumer(Q, prefetch=2)
    for text in ("a", "b", "c"):
        producer.send(Q, text)
    factory.settle()
    assert consumer.texts == ["a", "b"]
    return rig


@pytest.mark.parametrize("seed", range(4))
def test_B1_a_sender_that_waits_is_answered_before_its_message_goes_out_to_many(seed: int) -> None:
    factory = JournalFactory(seed)
    rig = journal_rig(factory)
    consumers = [rig.connect(str(number)).consumer("topic://t", subscription_name="s") for number in range(5)]
    sender, told, refused = rig.connect(), list[list[int]](), list[object]()
    for _ in range(3):
        rig.broker.send(
            sender.connection,
            sender.message("topic://t", "x"),
            lambda: told.append([len(it.delivered) for it in consumers]),
            lambda _message, error: refused.append(error),
        )
        factory.settle()
    assert told == [[0] * 5, [1] * 5, [2] * 5]
    assert [len(it.delivered) for it in consumers] == [3] * 5


@pytest.mark.parametrize("crash", list(Crash))
def test_A2_what_a_consumer_had_is_redelivered_after_a_crash(crash: Crash) -> None:
    factory = JournalFactory()
    deliver_two_of_three(factory)
    factory.stop(crash)
    rig = journal_rig(factory)
    rig.connect("another").send(Q, "new")
    consumer = rig.consumer(Q)
    factory.settle()
    assert [it.redelivery_counter for it in consumer.delivered] == [1, 1, 1, 0], "the third lies in the same block"


def test_A2_what_a_consumer_had_is_redelivered_after_a_stop() -> None:
    factory = JournalFactory()
    rig = deliver_two_of_three(factory)
    for connection in rig.broker.connections():
        rig.broker.disconnect(connection)
    rig.broker.stop()
    factory.close()
    rig = journal_rig(factory)
    consumer = rig.consumer(Q)
    factory.settle()
    assert [it.redelivery_counter for it in consumer.delivered] == [1, 1, 0]


def test_A2_it_is_still_redelivered_when_nobody_came_for_all_of_it_in_between() -> None:
    factory = JournalFactory()
    deliver_two_of_three(factory)
    factory.stop(Crash.PROCESS_KILL)
    rig = journal_rig(factory)
    first = rig.consumer(Q, prefetch=1)
    factory.settle()
    first.client.disconnect()
    rig.broker.stop()
    factory.close()
    rig = journal_rig(factory)
    consumer = rig.consumer(Q, prefetch=2)
    factory.settle()
    assert [it.redelivery_counter for it in consumer.delivered] == [1, 1]


def test_A2_an_idle_queue_outlives_the_file_that_named_it_with_its_mark() -> None:
    factory = JournalFactory()
    rig = journal_rig(factory)
    producer, consumer = rig.connect(), rig.consumer(Q)
    filler, emptier = rig.connect(), rig.consumer("queue://other")
    producer.send(Q, "consumed")
    factory.settle()
    consumer.ack()
    named_by = min(_segments(factory))
    for _ in range(50):  # fills files, until the one that names the queue goes
        filler.send("queue://other", "x" * 3000)
        factory.settle()
        emptier.ack()
        factory.clock.advance(2)
        factory.settle()
    assert named_by not in _segments(factory)
    assert named(Q) in _places(factory)
    producer.send(Q, "seen")
    factory.settle()
    assert consumer.texts == ["consumed", "seen"]
    factory.stop(Crash.PROCESS_KILL)
    again = journal_rig(factory).consumer(Q)
    factory.settle()
    assert [it.redelivery_counter for it in again.delivered] == [1]


def _segments(factory: JournalFactory) -> list[str]:
    return [name for name in factory.disk.names(DATA / "journal") if name.endswith(".log")]


def _places(factory: JournalFactory) -> list[Place]:
    assert factory.store is not None
    return factory.store.places()
