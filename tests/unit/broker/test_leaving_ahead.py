"""One message may leave before it is on disk, and says so if it comes again after a crash (ADR 16)."""

from typing import Any, cast

import pytest

from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.helpers.journal import JournalFactory
from tests.helpers.slow_store import SlowStore
from tests.helpers.stores import Crash

Q = "queue://q"
HOUR_SECONDS = 3600


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def rig(store: SlowStore) -> BrokerRig:
    made = BrokerRig(store=store)
    made.broker.turns.after_pause = True
    return made


@pytest.fixture
def ends(rig: BrokerRig, store: SlowStore) -> tuple[RigClient, RigConsumer]:
    """A client and a consumer, and a mark that is durable."""
    producer, consumer = rig.connect(), rig.consumer(Q)
    producer.send(Q, "first")
    assert consumer.texts == [], "nothing leaves before its mark is durable"
    store.sync()
    return producer, consumer


Ends = tuple[RigClient, RigConsumer]


def test_J4_after_a_pause_a_message_leaves_before_its_sender_is_answered(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    producer.send(Q, "second")
    assert (consumer.texts, producer.stored) == (["first", "second"], 1)
    store.sync()
    assert (consumer.texts, producer.stored) == (["first", "second"], 2)


def test_no_message_leaves_ahead_while_another_sender_waits(ends: Ends, rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = ends
    producer.send(Q, "second")
    rig.connect().send(Q, "third")
    assert consumer.texts == ["first", "second"]
    store.sync()
    assert consumer.texts == ["first", "second", "third"]
    rig.connect().send(Q, "fourth")
    assert consumer.texts[3:] == ["fourth"]


def test_what_nobody_waits_for_does_not_follow_it(ends: Ends, rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = ends
    producer.send(Q, "second")
    rig.broker.send(producer.connection, producer.message(Q, "third"))
    assert consumer.texts == ["first", "second"]
    store.sync()
    assert consumer.texts == ["first", "second", "third"]


def test_copies_do_not_leave_ahead(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    producer.send("queue://q,other", "second")
    assert consumer.texts == ["first"]
    store.sync()
    assert consumer.texts == ["first", "second"]


def test_what_is_published_does_not_leave_ahead(ends: Ends, rig: BrokerRig, store: SlowStore) -> None:
    producer, _ = ends
    subscriber = rig.consumer("topic://t", subscription_name="s")
    producer.send("topic://t", "first")
    store.sync()
    producer.send("topic://t", "second")
    assert subscriber.texts == ["first"]
    store.sync()
    assert subscriber.texts == ["first", "second"]


# ---- through a crash -------------------------------------------------------------------------------------------


def journal_rig(factory: JournalFactory) -> BrokerRig:
    return BrokerRig(store=cast(Any, factory.open()))


def seen_and_lost(factory: JournalFactory) -> None:
    """The second message of "sender" has reached a consumer, and the disk has not heard of it."""
    rig = journal_rig(factory)
    rig.broker.turns.after_pause = True
    sender, consumer = rig.connect("sender"), rig.consumer(Q)
    sender.send(Q, "first")
    factory.settle()
    consumer.ack()
    factory.settle()
    sender.send(Q, "second")
    assert (consumer.texts, sender.stored) == (["first", "second"], 1)
    factory.stop(Crash.POWER_CUT)


def repeated(factory: JournalFactory, rig: BrokerRig, *, is_reconnect: bool = True) -> RigClient:
    """The sender has come back and repeats its second message."""
    sender = rig.connect("sender", is_reconnect=is_reconnect)
    sender.message(Q, "first")
    sender.send(Q, "second")
    factory.settle()
    assert sender.stored == 1
    return sender


def counters(factory: JournalFactory, rig: BrokerRig) -> list[int]:
    """How often what waits was delivered before, by what a consumer is told."""
    consumer = rig.consumer(Q)
    factory.settle()
    return [it.redelivery_counter for it in consumer.delivered]


def stopped(factory: JournalFactory, rig: BrokerRig) -> None:
    rig.broker.stop()
    factory.close()


def test_A2_what_has_left_ahead_of_a_crash_is_redelivered_when_it_is_repeated() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    rig = journal_rig(factory)
    sender = repeated(factory, rig)
    sender.send(Q, "new")
    assert counters(factory, rig) == [1, 0]


def test_A2_also_if_the_next_crash_comes_before_a_consumer() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    repeated(factory, journal_rig(factory))
    factory.stop(Crash.POWER_CUT)
    assert counters(factory, journal_rig(factory)) == [1]


def test_A2_also_if_the_broker_was_stopped_before_the_sender_came_back() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    stopped(factory, journal_rig(factory))
    rig = journal_rig(factory)
    repeated(factory, rig)
    assert counters(factory, rig) == [1]


@pytest.mark.parametrize(("seconds", "expected"), [(HOUR_SECONDS, [1]), (HOUR_SECONDS + 1, [0])])
def test_an_hour_after_a_crash_clients_that_come_back_are_from_later(seconds: int, expected: list[int]) -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    stopped(factory, journal_rig(factory))
    factory.clock.advance(seconds)
    rig = journal_rig(factory)
    repeated(factory, rig)
    assert counters(factory, rig) == expected


def test_A2_other_messages_of_its_producer_do_not_stand_for_it() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    rig = journal_rig(factory)
    sender = rig.connect("sender", is_reconnect=True)
    again = [sender.message(Q, text) for text in ("first", "second")][1]
    sender.send("topic://t", "published")
    sender.send(Q, "not kept", persistent=False)
    rig.broker.send(sender.connection, sender.message(Q, "not awaited"))
    again.producer_count += 10  # the others were sent before it
    sender.send_message(again)
    factory.settle()
    assert counters(factory, rig) == [0, 0, 1]


def test_only_producers_that_were_there_before_the_first_repetition_can_have_sent_it() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    rig = journal_rig(factory)
    sender = repeated(factory, rig)
    for number in range(2, 5):
        sender.use_another_producer(number)
        sender.send(Q, "new")
    assert counters(factory, rig) == [1, 0, 0, 0]


def test_a_client_that_was_not_here_before_repeats_nothing() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    rig = journal_rig(factory)
    repeated(factory, rig, is_reconnect=False)
    assert counters(factory, rig) == [0]


def test_after_a_stop_nothing_that_is_repeated_can_have_been_seen() -> None:
    factory = JournalFactory()
    rig = journal_rig(factory)
    consumer = rig.consumer(Q)
    rig.connect("sender").send(Q, "first")
    factory.settle()
    consumer.ack()
    factory.settle()
    for connection in rig.broker.connections():
        rig.broker.disconnect(connection)
    stopped(factory, rig)
    rig = journal_rig(factory)
    repeated(factory, rig)
    assert counters(factory, rig) == [0]


def test_a_sender_that_lost_only_its_connection_repeats_what_nobody_has_seen() -> None:
    factory = JournalFactory()
    seen_and_lost(factory)
    rig = journal_rig(factory)
    sender = repeated(factory, rig)
    rig.broker.disconnect(sender.connection)
    back = rig.connect("sender", is_reconnect=True)
    for _ in range(2):
        back.message(Q)
    back.send(Q, "third")
    assert counters(factory, rig) == [1, 0]


# ---- whether a run has ended well ------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", list(Crash))
def test_the_journal_knows_how_earlier_runs_have_ended(crash: Crash) -> None:
    factory, known = JournalFactory(), list[bool]()
    for name in ("a new one", "after a stop", "after a crash", "and a stop"):
        rig = journal_rig(factory)
        known.append(rig.store.has_crashed(0 if name == "after a crash" else HOUR_SECONDS))
        rig.connect(name).send(Q)
        factory.settle()
        if name == "after a stop":
            factory.stop(crash)
        else:
            stopped(factory, rig)
    assert known == [False, False, True, True]


def test_a_seal_that_a_power_cut_has_brought_back_does_not_count() -> None:
    factory = JournalFactory()
    stopped(factory, journal_rig(factory))
    journal_rig(factory).connect().send(Q)
    factory.settle()
    factory.stop(Crash.POWER_CUT)
    factory.medium.is_sealed = True
    assert factory.open().has_crashed(0)
