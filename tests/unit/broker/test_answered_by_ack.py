"""A sender whose message has left ahead of its sync is answered by the ack, if that comes first (ADR 16)."""

from typing import Any, cast

import pytest

from ackwire.broker.in_flight import AckKind
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.helpers.journal import JournalFactory
from tests.helpers.slow_store import SlowStore
from tests.helpers.stores import Crash

Q = "queue://q"


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def rig(store: SlowStore) -> BrokerRig:
    made = BrokerRig(store=store, is_audited=False)
    made.broker.turns.after_pause = True
    return made


Ends = tuple[RigClient, RigConsumer]


@pytest.fixture
def ends(rig: BrokerRig, store: SlowStore) -> Ends:
    """A sender and a consumer, and a message that has left ahead of its sync."""
    producer, consumer = rig.connect(), rig.consumer(Q)
    producer.send(Q, "first")
    store.sync()
    consumer.ack()
    store.sync()
    producer.send(Q, "second")
    assert (consumer.texts, producer.stored) == (["first", "second"], 1)
    return producer, consumer


def test_B1_an_acked_message_need_not_be_on_disk(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    consumer.ack()
    assert (producer.stored, store.durability.has_waiters) == (2, False)
    store.sync()
    assert producer.stored == 2, "answered once"


def test_B1_in_a_range_and_individually(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    store.sync()
    producer.send(Q, "third")
    consumer.ack(first=consumer.delivered[1], count=2)
    assert producer.stored == 3
    store.sync()
    producer.send(Q, "fourth")
    consumer.ack(kind=AckKind.INDIVIDUAL)
    assert producer.stored == 4


def test_what_was_on_disk_before_its_ack_is_not_answered_again(rig: BrokerRig, ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    store.sync()
    assert rig.broker.early_dispatch._pending is None, "it is not kept"
    consumer.ack()
    assert producer.stored == 2


def test_an_ack_in_a_transaction_decides_nothing(ends: Ends) -> None:
    producer, consumer = ends
    consumer.ack(transaction=consumer.client.begin())
    assert producer.stored == 1


def test_E_a_dead_letter_has_to_be_on_disk(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    consumer.ack(kind=AckKind.POISON, cause="bad")
    assert producer.stored == 1
    store.sync()
    assert producer.stored == 2


def test_J4_the_next_one_leaves_only_if_its_sender_has_heard_the_answer(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    consumer.ack()
    producer.send(Q, "third")
    assert consumer.texts == ["first", "second"], "both could be repeated after a crash, and only one called so"
    store.sync()
    assert consumer.texts == ["first", "second", "third"]
    consumer.ack()
    store.sync()
    producer.port.has_received_all = True
    for number in range(3):
        producer.send(Q, f"more {number}")
        consumer.ack()
    assert consumer.texts[3:] == ["more 0", "more 1", "more 2"]
    assert producer.stored == 6, "and all that while the disk does nothing"


def test_J4_or_once_the_disk_has_what_was_answered_for(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    consumer.ack()
    store.durability.durable_sequence = consumer.delivered[-1].sequence
    producer.send(Q, "third")
    assert consumer.texts == ["first", "second", "third"]


def test_J4_others_need_not_have_heard(rig: BrokerRig, ends: Ends) -> None:
    consumer = ends[1]
    consumer.ack()
    rig.connect().send(Q, "third")
    assert consumer.texts == ["first", "second", "third"], "each sender repeats one"


def test_one_in_a_hurry_leaves_ahead_while_a_sync_is_under_way(rig: BrokerRig, ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    store.sync()
    consumer.ack()
    store.sync()
    rig.broker.turns.after_pause = False
    producer.send(Q, "third")
    assert consumer.texts == ["first", "second"]
    store.sync()
    consumer.ack()
    store.sync()
    store.durability.is_syncing = True
    producer.send(Q, "fourth")
    assert consumer.texts == ["first", "second", "third", "fourth"]


def test_who_has_sent_without_waiting_takes_the_next_answer_for_all_of_it(
    rig: BrokerRig, ends: Ends, store: SlowStore
) -> None:
    producer, consumer = ends
    store.sync()
    rig.broker.send(producer.connection, producer.message(Q, "not awaited"))
    producer.send(Q, "third")
    assert consumer.texts[-1] == "third"
    consumer.ack(count=3, first=consumer.delivered[1])
    assert producer.stored == 2
    store.sync()
    assert producer.stored == 3


def test_J4_who_sends_on_before_it_is_answered_has_not_heard_the_answer(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    producer.send(Q, "third")
    store.sync()
    producer.port.has_received_all = True
    producer.send(Q, "fourth")
    consumer.ack(first=consumer.delivered[1], count=3)
    assert (consumer.texts[-1], producer.stored) == ("fourth", 3), "it is seen, and its sender waits for the disk"


@pytest.mark.parametrize(("options", "stored"), [({}, 2), ({"subscription_name": "s"}, 2), ({"browser": True}, 3)])
def test_who_consumes_takes_the_next_answer_for_its_acks(
    ends: Ends, store: SlowStore, options: dict[str, Any], stored: int
) -> None:
    producer, consumer = ends
    store.sync()
    consumer.ack()
    producer.consumer("topic://t" if "subscription_name" in options else "queue://other", **options)
    producer.consumer("topic://ActiveMQ.Advisory.TempQueue")
    store.sync()
    producer.send(Q, "third")
    assert consumer.texts[-1] == "third"
    consumer.ack()
    assert producer.stored == stored


def test_with_an_audit_everything_answered_for_is_on_disk(store: SlowStore) -> None:
    rig = BrokerRig(store=store)
    rig.broker.turns.after_pause = True
    producer, consumer = rig.connect(), rig.consumer(Q)
    producer.send(Q, "first")
    store.sync()
    producer.send(Q, "second")
    assert consumer.texts == ["first", "second"]
    consumer.ack()
    assert producer.stored == 1


# ---- through a crash -------------------------------------------------------------------------------------------


def test_A2_J4_what_was_answered_by_an_ack_and_is_repeated_is_redelivered() -> None:
    """The answer was lost with the broker, and the disk knows nothing of the message."""
    factory = JournalFactory()
    rig = BrokerRig(store=cast(Any, factory.open()), is_audited=False)
    rig.broker.turns.after_pause = True
    sender, consumer = rig.connect("sender"), rig.consumer(Q)
    sender.send(Q, "first")
    factory.settle()
    consumer.ack()
    factory.settle()
    sender.send(Q, "second")
    consumer.ack()
    assert sender.stored == 2
    sender.send(Q, "third")
    assert consumer.texts == ["first", "second"]
    factory.stop(Crash.POWER_CUT)
    rig = BrokerRig(store=cast(Any, factory.open()), is_audited=False)
    back = rig.connect("sender", is_reconnect=True)
    back.message(Q, "first")
    for text in ("second", "third"):
        back.send(Q, text)
    consumer = rig.consumer(Q)
    factory.settle()
    assert [(it, one.redelivery_counter) for it, one in zip(consumer.texts, consumer.delivered, strict=True)] == [
        ("second", 1),
        ("third", 0),
    ]


def test_J4_a_connection_that_breaks_has_its_repetition_recognised(
    rig: BrokerRig, ends: Ends, store: SlowStore
) -> None:
    producer, consumer = ends
    consumer.ack()
    name = producer.connection.client_id
    producer.disconnect()
    back = rig.connect(name, is_reconnect=True)
    back.message(Q, "first")
    back.send(Q, "second")
    assert back.stored == 0, "now the disk has to have it"
    store.sync()
    assert (back.stored, consumer.texts) == (1, ["first", "second"])


def test_the_loop_is_free_while_the_sync_can_be_forgone() -> None:
    """The thread syncs for a message that has left ahead; for others the loop does, where that is quick."""
    factory = JournalFactory()
    made = BrokerRig(store=cast(Any, factory.open()), is_audited=False)
    sender, consumer = made.connect(), made.consumer(Q)
    sender.send(Q, "first")
    factory.settle()
    consumer.ack()
    factory.settle()
    sender.send(Q, "in a hurry")
    factory.clock.advance(0)
    assert (sender.stored, factory.writing.is_idle) == (2, True)
    made.broker.turns.after_pause = True
    sender.send(Q, "after a pause")
    factory.clock.advance(0)
    assert (sender.stored, factory.writing.is_idle) == (2, False)
    assert made.store.durability.is_syncing
    consumer.ack()
    assert sender.stored == 3
    factory.settle()
    assert sender.stored == 3
    assert not made.store.durability.has_waiters
