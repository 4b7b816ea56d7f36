"""Staged batches: visible together, once, whatever is repeated (ADR 6)."""

import pytest

from ackwire.errors import BrokerError, Conflict, InvalidDestination, ResourceLimit, UnknownResource
from tests.helpers.broker_rig import BrokerRig, named, paging_rig
from tests.helpers.bulk import Reader, Writer, raise_it
from tests.helpers.operating import purged

Q = "queue://q"


@pytest.fixture(params=["memory", "paging"])
def rig(request: pytest.FixtureRequest) -> BrokerRig:
    return BrokerRig() if request.param == "memory" else paging_rig(1 << 30)[0]


def _restarted(rig: BrokerRig) -> BrokerRig:
    """A new broker on the same store and clock; the old one does nothing more."""
    rig.broker.staging.stop()
    return BrokerRig(clock=rig.clock, store=rig.store)


def test_nobody_sees_a_batch_before_it_is_committed(rig: BrokerRig) -> None:
    consumer, writer = rig.consumer(Q), Writer(rig)
    writer.stage(["a", "b"])
    assert consumer.texts == []
    assert writer.commit()
    assert consumer.texts == ["a", "b"]


def test_parts_of_a_batch_become_visible_together(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["a"], "one")
    writer.stage(["b"], "two")
    writer.stage(["c"], "one")
    writer.commit(0, ["two", "one"])
    assert rig.consumer(Q).texts == ["a", "b", "c"]


def test_batch_that_is_committed_again_changes_nothing(rig: BrokerRig) -> None:
    consumer, writer = rig.consumer(Q), Writer(rig)
    writer.stage(["a"])
    assert [writer.commit(), writer.commit()] == [True, False]
    assert consumer.texts == ["a"]
    with pytest.raises(Conflict, match="batch 0 of producer w is committed already"):
        writer.stage(["again"], "p2")


def test_K1_what_was_committed_is_known_after_a_restart(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["a"], batch=7)
    writer.commit(7)
    again = _restarted(rig)
    assert again.broker.staging.info("w").last_batch == 7
    assert not Writer(again).commit(7)
    assert again.consumer(Q).texts == ["a"]


def test_K1_what_was_staged_can_be_committed_after_a_restart(rig: BrokerRig) -> None:
    Writer(rig).stage(["a", "b"])
    again = _restarted(rig)
    consumer = again.consumer(Q)
    assert consumer.texts == []
    assert Writer(again).commit()
    assert consumer.texts == ["a", "b"]


def test_unknown_part_refuses_the_whole_batch(rig: BrokerRig) -> None:
    consumer, writer = rig.consumer(Q), Writer(rig)
    writer.stage(["a"])
    with pytest.raises(Conflict, match="part other of producer w is not here"):
        writer.commit(0, ["p", "other"])
    assert consumer.texts == []
    assert writer.commit()


def test_parts_that_were_not_committed_go_with_their_batch(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["failed attempt"], "one")
    writer.stage(["good"], "two")
    writer.commit(0, ["two"])
    assert rig.broker.staging.count == 0
    assert len(list(rig.store.waiting(named(Q)))) == 1
    assert rig.consumer(Q).texts == ["good"]


def test_other_producers_and_later_batches_are_left_alone(rig: BrokerRig) -> None:
    one, two = Writer(rig, "one"), Writer(rig, "two")
    one.stage(["a"], batch=1)
    one.stage(["later"], "p2", batch=2)
    two.stage(["b"])
    one.commit(1)
    two.commit()
    one.commit(2, ["p2"])
    assert sorted(rig.consumer(Q).texts, key=str) == ["a", "b", "later"]


def test_empty_batch_is_remembered(rig: BrokerRig) -> None:
    writer = Writer(rig)
    assert [writer.commit(3, []), writer.commit(3, [])] == [True, False]


def test_orphans_are_dropped_after_a_while(rig: BrokerRig) -> None:
    Writer(rig).stage(["left behind"])
    again = _restarted(rig)
    again.clock.advance(3700)
    assert again.broker.staging.count == 0
    assert list(again.store.waiting(named(Q))) == []
    with pytest.raises(Conflict, match=r"limits.staged_seconds_max"):
        Writer(again).commit()


def test_dropped_part_is_gone(rig: BrokerRig) -> None:
    Writer(rig).stage(["a"])
    rig.broker.staging.drop("w", "p")
    assert list(rig.store.waiting(named(Q))) == []
    with pytest.raises(UnknownResource):
        rig.broker.staging.drop("w", "p")


def test_order_is_that_of_staging_among_messages_sent_meanwhile(rig: BrokerRig) -> None:
    writer, producer = Writer(rig), rig.connect()
    producer.send(Q, "1")
    writer.stage(["2", "3"])
    producer.send(Q, "4")
    writer.commit()
    producer.send(Q, "5")
    assert rig.consumer(Q).texts == ["1", "2", "3", "4", "5"]


def test_messages_can_go_to_several_queues(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["a"], where="queue://one")
    writer.stage(["b"], where="queue://two")
    writer.commit()
    assert (rig.consumer("queue://one").texts, rig.consumer("queue://two").texts) == (["a"], ["b"])


def test_A3_batch_for_a_topic_is_published_at_its_commit(rig: BrokerRig) -> None:
    rig.connect("d").consumer("topic://t", subscription_name="s").close()
    consumer, writer = rig.consumer("topic://t"), Writer(rig)
    writer.stage([str(number) for number in range(500)], where="topic://t")
    assert consumer.texts == []
    writer.commit()
    for _ in range(5):
        rig.clock.advance(0)
    expected = [str(number) for number in range(500)]
    assert consumer.texts == expected
    assert rig.connect("d").consumer("topic://t", subscription_name="s").texts == expected
    assert rig.broker.staging.part_count == 0


def test_A3_publishing_goes_on_after_a_restart_with_what_is_left(rig: BrokerRig) -> None:
    rig.connect("d").consumer("topic://t", subscription_name="s").close()
    writer = Writer(rig)
    writer.stage([str(number) for number in range(500)], where="topic://t")
    writer.commit()  # the first 200 are published
    again = _restarted(rig)
    for _ in range(5):
        again.clock.advance(0)
    assert again.connect("d").consumer("topic://t", subscription_name="s").texts == [str(n) for n in range(500)]
    assert list(again.store.waiting(named("topic://t"))) == []


@pytest.mark.parametrize("where", ["queue://a,b", "queue://a.>", "topic://ActiveMQ.Advisory.Connection"])
def test_only_single_lasting_destinations(rig: BrokerRig, where: str) -> None:
    with pytest.raises(InvalidDestination):
        Writer(rig).stage(["a"], where=where)
    assert rig.broker.staging.count == 0


def test_scheduled_messages_are_refused(rig: BrokerRig) -> None:
    writer = Writer(rig)
    messages = writer.messages(["a"], properties={"AMQ_SCHEDULED_DELAY": 1000})
    with pytest.raises(Conflict, match="AMQ_SCHEDULED_"):
        rig.broker.staging.stage("w", 0, "p", messages, lambda: None, raise_it)


def test_number_of_staged_messages_is_limited() -> None:
    rig = BrokerRig(settings={"limits": {"staged_messages_max": 2}})
    writer = Writer(rig)
    writer.stage(["a", "b"])
    with pytest.raises(ResourceLimit, match=r"limits.staged_messages_max"):
        writer.stage(["c"])
    writer.commit()
    writer.stage(["c"], batch=1)


def test_full_store_refuses_with_its_own_words() -> None:
    rig, store, _ = paging_rig(1 << 30)
    store.set_full("the disk is full")
    with pytest.raises(ResourceLimit, match="the disk is full"):
        Writer(rig).stage(["a"])


def test_purge_leaves_what_is_staged(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["staged"])
    rig.connect().send(Q, "purged")
    purged(rig.broker.registry.needed_queue(named(Q)))
    writer.commit()
    assert _restarted(rig).consumer(Q).texts == ["staged"]


def test_queue_with_staged_messages_cannot_be_removed(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["a"])
    with pytest.raises(BrokerError, match="belong to part p of batch 0 of producer w"):
        rig.broker.remove_destination(rig.connect().connection, named(Q))


def test_cursor_reads_what_a_batch_wrote(rig: BrokerRig) -> None:
    writer, reader = Writer(rig), Reader(rig)
    writer.stage(["a", "b"])
    assert reader.read() == []
    writer.commit()
    assert reader.read() == ["a", "b"]


def test_space_is_given_back_when_all_is_consumed(rig: BrokerRig) -> None:
    writer = Writer(rig)
    writer.stage(["a", "b"])
    writer.stage(["dropped"], "other")
    writer.commit()
    consumer = rig.consumer(Q)
    consumer.ack_each()
    assert rig.broker.flow.used_bytes == 0
    assert rig.broker.registry.needed_queue(named(Q)).size_bytes == 0
    assert list(rig.store.waiting(named(Q))) == []


def test_A8_batch_for_a_virtual_topic_reaches_the_queues_behind_it(rig: BrokerRig) -> None:
    plain, pattern = (
        rig.consumer("queue://Consumer.1.VirtualTopic.t"),
        rig.consumer("queue://Consumer.2.VirtualTopic.>"),
    )
    writer = Writer(rig)
    writer.stage(["a", "b"], where="topic://VirtualTopic.t")
    writer.commit()
    rig.clock.advance(0)
    assert (plain.texts, pattern.texts) == (["a", "b"], ["a", "b"])
