"""A quick consumer spares its senders the disk: when that is tried, and when it is given up (ADR 16)."""

from typing import Any, cast

import pytest

from ackwire.broker.early_dispatch import AckOdds
from ackwire.store.contract import Sync
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.helpers.journal import JournalFactory
from tests.helpers.slow_store import SlowStore
from tests.helpers.stores import Crash

Q = "queue://q"
FIRST_TRY = 16
"""The messages of a connection up to here are stored first."""
SURE_AFTER = 20
"""Then the disk is left alone."""


def tries(odds: AckOdds) -> int:
    """How many messages it takes until one is tried."""
    return next(number for number in range(1, 10_000) if odds.may_try())


def winning(times: int) -> AckOdds:
    odds = AckOdds()
    for _ in range(times):
        odds.won()
    return odds


# ---- the odds --------------------------------------------------------------------------------------------------------


def test_one_is_tried_after_a_while() -> None:
    odds = AckOdds()
    assert tries(odds) == FIRST_TRY
    assert odds.may_try(), "until it is known how one went"
    assert not odds.are_good


def test_who_loses_sits_out_for_longer_each_time() -> None:
    odds = AckOdds()
    seen = []
    for _ in range(11):
        odds.lost()
        seen.append(tries(odds))
    assert seen == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]


def test_who_wins_goes_on_and_is_sure_in_the_end() -> None:
    seen = []
    for times in (1, SURE_AFTER - 1, SURE_AFTER):
        odds = winning(times)
        seen.append((tries(odds), odds.are_good))
    assert seen == [(1, False), (1, False), (1, True)]


def test_one_loss_among_many_wins_changes_nothing_and_two_end_it() -> None:
    odds = winning(100)
    odds.lost()
    assert (odds.may_try(), odds.are_good) == (True, True)
    odds.lost()
    assert (tries(odds), odds.are_good) == (FIRST_TRY, False)


def test_a_long_row_of_wins_makes_up_for_old_losses() -> None:
    odds = AckOdds()
    for _ in range(5):
        odds.lost()
    for _ in range(2 * SURE_AFTER):
        odds.won()
    odds.lost()
    odds.lost()
    assert tries(odds) == FIRST_TRY


# ---- between a sender in a hurry and its consumer --------------------------------------------------------------------


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def rig(store: SlowStore) -> BrokerRig:
    return BrokerRig(store=store, is_audited=False)


Ends = tuple[RigClient, RigConsumer]


@pytest.fixture
def ends(rig: BrokerRig) -> Ends:
    producer, consumer = rig.connect(), rig.consumer(Q)
    producer.port.has_received_all = True
    return producer, consumer


def pass_on(ends: Ends, store: SlowStore, count: int) -> None:
    """Messages that are stored before they leave."""
    producer, consumer = ends
    for number in range(count):
        producer.send(Q, f"stored {number}")
        store.sync()
        consumer.ack()
        store.sync()


def be_quick(ends: Ends, count: int) -> None:
    """Messages that are consumed while the disk does nothing."""
    producer, consumer = ends
    before = producer.stored
    for number in range(count):
        producer.send(Q, f"quick {number}")
        consumer.ack()
    assert producer.stored == before + count


def test_B1_messages_of_one_in_a_hurry_leave_first_if_their_consumer_is_quick(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    pass_on(ends, store, FIRST_TRY - 2)
    producer.send(Q, "the last that waits")
    assert consumer.texts[-1] != "the last that waits"
    store.sync()
    consumer.ack()
    store.sync()
    be_quick(ends, 3)


def test_the_disk_is_left_alone_for_those_who_win_on_and_on(ends: Ends, store: SlowStore) -> None:
    pass_on(ends, store, FIRST_TRY - 1)
    be_quick(ends, SURE_AFTER + 1)
    assert store.syncs[-SURE_AFTER - 1 :] == [Sync.BESIDE] * SURE_AFTER + [Sync.DELAYED]


def test_two_slow_acks_end_it(ends: Ends, store: SlowStore) -> None:
    producer, consumer = ends
    pass_on(ends, store, FIRST_TRY - 1)
    be_quick(ends, 2 * SURE_AFTER)
    for text in ("slow", "slow again"):
        producer.send(Q, text)
        assert consumer.texts[-1] == text
        store.sync()
        consumer.ack()
        store.sync()
    producer.send(Q, "stored first")
    assert consumer.texts[-1] == "slow again"


@pytest.mark.parametrize("is_audited", [True, False])
def test_where_acks_do_not_answer_nothing_is_tried(store: SlowStore, is_audited: bool) -> None:
    """With an audit, and for a connection that does not only send and wait."""
    rig = BrokerRig(store=store, is_audited=is_audited)
    ends = producer, consumer = rig.connect(), rig.consumer(Q)
    producer.port.has_received_all = True
    if not is_audited:
        producer.consumer("queue://other")
    pass_on(ends, store, FIRST_TRY + 1)
    producer.send(Q, "last")
    assert consumer.texts[-1] != "last"


@pytest.mark.parametrize("reason", ["after a pause", "while a sync is under way"])
def test_what_leaves_for_another_reason_and_is_slow_is_no_lost_bet(
    ends: Ends, rig: BrokerRig, store: SlowStore, reason: str
) -> None:
    producer, consumer = ends
    pass_on(ends, store, FIRST_TRY - 1)
    rig.broker.turns.after_pause = reason == "after a pause"
    store.durability.is_syncing = reason != "after a pause"
    for number in range(3):
        producer.send(Q, f"slow {number}")
        assert consumer.texts[-1] == f"slow {number}"
        store.sync()
        consumer.ack()
        store.sync()
    rig.broker.turns.after_pause = store.durability.is_syncing = False
    be_quick(ends, 1)


def test_one_that_is_sure_can_be_lost_after_a_pause_too(ends: Ends, rig: BrokerRig, store: SlowStore) -> None:
    producer, consumer = ends
    pass_on(ends, store, FIRST_TRY - 1)
    be_quick(ends, SURE_AFTER)
    rig.broker.turns.after_pause = True
    producer.send(Q, "slow")
    store.sync()
    consumer.ack()
    store.sync()
    rig.broker.turns.after_pause = False
    producer.send(Q, "stored first")
    assert consumer.texts[-1] == "slow"


def test_an_ack_that_answers_lets_the_next_message_go_without_a_sync(rig: BrokerRig, store: SlowStore) -> None:
    """It waits for the consumer, and not for the disk, although it is not there yet."""
    ends = producer, consumer = rig.connect(), rig.consumer(Q, prefetch=1)
    producer.port.has_received_all = True
    pass_on(ends, store, FIRST_TRY - 1)
    producer.send(Q, "quick")
    other = rig.connect()
    rig.broker.send(other.connection, other.message(Q, "not awaited"))
    consumer.ack()
    assert (producer.stored, consumer.texts[-1]) == (FIRST_TRY, "not awaited")


def test_with_early_dispatch_off_nothing_leaves_ahead_after_a_pause_or_later(store: SlowStore) -> None:
    rig = BrokerRig(store=store, is_audited=False, settings={"store": {"early_dispatch": "off"}})
    rig.broker.turns.after_pause = True
    ends = producer, consumer = rig.connect(), rig.consumer(Q)
    producer.port.has_received_all = True
    pass_on(ends, store, FIRST_TRY + 1)
    producer.send(Q, "last")
    assert consumer.texts[-1] != "last"
    store.sync()
    assert consumer.texts[-1] == "last"


def test_a_message_without_a_consumer_is_no_bet(ends: Ends, store: SlowStore) -> None:
    producer, _ = ends
    pass_on(ends, store, FIRST_TRY - 1)
    for number in range(3):
        producer.send("queue://lonely", f"message {number}")
        store.sync()
    be_quick(ends, 1)


# ---- on a journal ----------------------------------------------------------------------------------------------------


def make_sure(rig: BrokerRig, factory: JournalFactory) -> Ends:
    """A sender whose consumer has been quick for long."""
    factory.settle()
    ends = producer, consumer = rig.connect("sender"), rig.consumer(Q)
    producer.port.has_received_all = True
    for number in range(FIRST_TRY - 1):
        producer.send(Q, f"stored {number}")
        factory.settle()
        consumer.ack()
        factory.settle()
    be_quick(ends, SURE_AFTER)
    factory.clock.advance(1)
    factory.settle()
    return ends


def rig_on(factory: JournalFactory) -> BrokerRig:
    return BrokerRig(store=cast(Any, factory.open()), is_audited=False)


def come_back(rig: BrokerRig, count: int) -> RigClient:
    """The sender, which has sent *count* messages and goes on behind them."""
    back = rig.connect("sender", is_reconnect=True)
    for _ in range(count):
        back.message(Q, "sent before")
    return back


def test_K1_what_is_consumed_within_a_moment_never_reaches_the_disk() -> None:
    factory = JournalFactory()
    ends = make_sure(rig_on(factory), factory)
    store = factory.store
    assert store is not None
    before = store._writer.last_number
    for _ in range(5):
        be_quick(ends, 3)
        factory.clock.advance(0.001)
    assert (store._writer.last_number, factory.writing.is_idle) == (before, True)


def test_K1_nor_do_big_ones_however_slow_the_disk_is() -> None:
    """What is consumed does not count as bytes that wait to be written."""
    factory = JournalFactory()
    ends = producer, consumer = make_sure(rig_on(factory), factory)
    store = factory.store
    assert store is not None
    before = store._writer.last_number
    for _ in range(400):
        producer.send(Q, "x" * 100_000)
        consumer.ack()
        factory.clock.advance(0)
    assert (store.full(), store._writer.last_number) == (None, before)
    assert len(store.buffer.records) == 1, "one record of counts"
    be_quick(ends, 1)


def test_a_checkpoint_beside_its_sync_does_not_make_a_sender_look_hasty() -> None:
    factory = JournalFactory()
    rig = rig_on(factory)
    producer, _ = make_sure(rig, factory)
    before = producer.stored
    store = factory.store
    assert store is not None
    producer.send(Q, "slow")
    factory.clock.advance(0.001)
    assert store.durability.is_syncing
    rig.connect().send("queue://other", "written by the checkpoint")
    store.checkpoint()
    while producer.stored == before:
        factory.step()
    producer.send(Q, "next")
    assert producer.connection.sender.only_sends


def test_K1_what_is_not_is_stored_after_it() -> None:
    factory = JournalFactory()
    producer, consumer = make_sure(rig_on(factory), factory)
    before = producer.stored
    producer.send(Q, "slow")
    assert consumer.texts[-1] == "slow"
    factory.clock.advance(0.001)
    factory.settle()
    assert producer.stored == before + 1
    factory.stop(Crash.POWER_CUT)
    again = rig_on(factory).consumer(Q)
    factory.settle()
    assert (again.texts, again.delivered[0].redelivery_counter) == (["slow"], 1)


@pytest.mark.parametrize("crash", [Crash.PROCESS_KILL, Crash.POWER_CUT])
def test_A2_J4_what_never_reached_it_and_is_repeated_after_a_crash_is_redelivered(crash: Crash) -> None:
    factory = JournalFactory()
    producer, consumer = make_sure(rig_on(factory), factory)
    count = producer.stored
    producer.send(Q, "seen")
    consumer.ack()
    assert producer.stored == count + 1, "it has its answer, but its client may not"
    factory.stop(crash)
    rig = rig_on(factory)
    back = come_back(rig, count)
    for text in ("seen", "new"):
        back.send(Q, text)
    again = rig.consumer(Q)
    factory.settle()
    assert [(it, one.redelivery_counter) for it, one in zip(again.texts, again.delivered, strict=True)] == [
        ("seen", 1),
        ("new", 0),
    ]


def test_J4_after_a_clean_stop_its_repetition_is_recognised() -> None:
    factory = JournalFactory()
    rig = rig_on(factory)
    producer, consumer = make_sure(rig, factory)
    count = producer.stored
    producer.send(Q, "seen")
    consumer.ack()
    factory.close()
    rig = rig_on(factory)
    back = come_back(rig, count)
    back.send(Q, "seen")
    again = rig.consumer(Q)
    factory.settle()
    assert (back.stored, again.texts) == (1, [])


def test_with_early_dispatch_idle_messages_leave_after_a_pause_only(store: SlowStore) -> None:
    rig = BrokerRig(store=store, is_audited=False, settings={"store": {"early_dispatch": "idle"}})
    ends = producer, consumer = rig.connect(), rig.consumer(Q)
    producer.port.has_received_all = True
    pass_on(ends, store, FIRST_TRY + 1)
    producer.send(Q, "in a hurry")
    assert consumer.texts[-1] != "in a hurry"
    store.sync()
    consumer.ack()
    store.sync()
    rig.broker.turns.after_pause = True
    be_quick(ends, 2 * SURE_AFTER)
    assert Sync.DELAYED not in store.syncs, "the disk is never left alone"
