"""Redelivery and dead letters (SEMANTICS F)."""

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.config.policy import DeadLetterPolicy, DestinationPolicy
from ackwire.jms.types import Long
from tests.helpers.broker_rig import BrokerRig, RigConsumer, command_of, named
from tests.simulation.audit import audit


def _poisoned(rig: BrokerRig, where: str = "queue://q", **options: object) -> RigConsumer:
    consumer = rig.consumer(where)
    rig.connect().send(where, "bad", **options)
    consumer.ack(kind=AckKind.POISON, cause="too bad")
    return consumer


def test_F4_a_dead_letter_carries_where_it_was_and_why() -> None:
    rig = BrokerRig()
    _poisoned(rig, expiration=rig.clock.now_ms() + 9000)
    dead = rig.consumer("queue://ActiveMQ.DLQ")
    original = command_of(dead.delivered[0]).original_destination
    assert original is not None
    assert original.physical_name == "q"
    assert dead.properties()["dlqDeliveryFailureCause"] == "too bad"
    assert isinstance(dead.properties()["originalExpiration"], Long)
    assert dead.delivered[0].expiration == 0
    assert dead.delivered[0].redelivery_counter == 0
    audit(rig.broker, rig.store)


def test_F4_one_dead_letter_queue_for_each_destination() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", dead_letters=DeadLetterPolicy.INDIVIDUAL),))
    _poisoned(rig)
    assert rig.pending("queue://ActiveMQ.DLQ.Queue.q") == 1


def test_F4_discard() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", dead_letters=DeadLetterPolicy.DISCARD),))
    _poisoned(rig)
    assert rig.broker.flow.used_bytes == 0


@pytest.mark.parametrize("wanted", [False, True])
def test_F4_non_persistent_ones_by_switch(wanted: bool) -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", dead_letter_non_persistent=wanted),))
    _poisoned(rig, persistent=False)
    assert rig.pending("queue://ActiveMQ.DLQ") == (1 if wanted else 0)


@pytest.mark.parametrize("wanted", [False, True])
def test_F4_expired_ones_by_switch(wanted: bool) -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", dead_letter_expired=wanted),))
    rig.connect().send("queue://q", expiration=rig.clock.now_ms() + 100)
    rig.clock.advance(60)
    assert rig.pending("queue://ActiveMQ.DLQ") == (1 if wanted else 0)


def test_F4_poison_among_the_dead_letters_ends_there() -> None:
    rig = BrokerRig()
    _poisoned(rig)
    rig.consumer("queue://ActiveMQ.DLQ").ack(kind=AckKind.POISON)
    assert rig.broker.flow.used_bytes == 0
    audit(rig.broker, rig.store)


def test_F4_a_dead_letter_finds_its_queue_even_where_no_more_can_be_made() -> None:
    rig = BrokerRig(settings={"destinations": {"count_max": 1}})
    _poisoned(rig)
    assert rig.pending("queue://ActiveMQ.DLQ") == 1


def test_F3_redelivery_by_the_broker_waits_backs_off_and_ends_among_the_dead() -> None:
    policy = DestinationPolicy(
        match="q",
        broker_redelivery=True,
        redeliveries_max=2,
        redelivery_delay_seconds=1,
        redelivery_back_off_multiplier=3,
    )
    rig = BrokerRig(policies=(policy,))
    consumer = _poisoned(rig)
    assert len(consumer.delivered) == 1
    rig.clock.advance(1)
    consumer.ack(kind=AckKind.POISON)
    rig.clock.advance(2.9)
    assert len(consumer.delivered) == 2
    rig.clock.advance(0.2)
    assert len(consumer.delivered) == 3
    assert consumer.delivered[-1].redelivery_counter == 2
    consumer.ack(kind=AckKind.POISON)
    assert rig.pending("queue://ActiveMQ.DLQ") == 1
    audit(rig.broker, rig.store)


def test_F3_a_queue_that_is_deleted_meanwhile_takes_its_redelivery_with_it() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="q", broker_redelivery=True),))
    consumer = _poisoned(rig)
    consumer.close()
    rig.broker.remove_destination(consumer.client.connection, named("queue://q"))
    rig.clock.advance(10)
    assert rig.broker.flow.used_bytes == 0
    assert rig.consumer("queue://q").delivered == []
    audit(rig.broker, rig.store)


def test_F1_each_loss_of_a_consumer_counts_once() -> None:
    rig = BrokerRig()
    rig.connect().send("queue://q")
    for lost in range(4):
        consumer = rig.consumer("queue://q")
        assert consumer.delivered[0].redelivery_counter == lost
        consumer.client.disconnect()
