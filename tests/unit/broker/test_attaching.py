"""Consumers of patterns over many destinations: attached and taken off in slices; nothing is missed (SEMANTICS A8)."""

import pytest

from ackwire.broker.queue import Queue
from ackwire.jms.destinations import Destination, parse_destination
from tests.helpers.broker_rig import BrokerRig, RigClient
from tests.simulation.audit import audit

MANY = 2100
"""More than a slice."""


def _made(client: RigClient, rig: BrokerRig, kind: str) -> list[Destination]:
    names = [parse_destination(f"{kind}://w.{number}") for number in range(MANY)]
    for name in names:
        rig.broker.add_destination(client.connection, name)
    return names


def _finish(rig: BrokerRig) -> None:
    while len(rig.broker.slices):
        rig.clock.advance(0)


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig(is_audited=False)


def test_A8_a_consumer_of_many_queues_is_attached_in_slices(rig: BrokerRig) -> None:
    producer = rig.connect()
    names = _made(producer, rig, "queue")
    producer.send(names[-1], "was there")
    consumer = rig.consumer("queue://w.>")
    assert len(rig.broker.slices) == 1
    assert consumer.texts == []
    producer.send("queue://w.new", "is made meanwhile")
    _finish(rig)
    assert sorted(map(str, consumer.texts)) == ["is made meanwhile", "was there"]
    assert all(rig.broker.consumer_count(name) == 1 for name in names)


def test_A8_a_subscriber_of_many_topics_misses_nothing_while_it_is_attached(rig: BrokerRig) -> None:
    producer = rig.connect()
    names = _made(producer, rig, "topic")
    durable = producer.consumer("topic://w.>", subscription_name="d")
    plain = rig.consumer("topic://w.*")
    producer.send(names[-1], "early")
    assert plain.texts == durable.texts == ["early"]
    _finish(rig)
    producer.send(names[-1], "late")
    assert plain.texts == durable.texts == ["early", "late"]


def test_A8_a_consumer_that_leaves_while_it_is_attached_is_forgotten(rig: BrokerRig) -> None:
    producer = rig.connect()
    names = _made(producer, rig, "queue")
    consumer = rig.consumer("queue://w.>")
    consumer.close()
    _finish(rig)
    assert sum(map(rig.broker.consumer_count, names)) == 0


def test_A8_what_a_consumer_of_many_queues_held_is_back_at_once_and_its_queues_can_be_deleted(rig: BrokerRig) -> None:
    producer = rig.connect()
    names = _made(producer, rig, "queue")
    consumer = rig.consumer("queue://w.>")
    _finish(rig)
    producer.send(names[7])
    consumer.client.disconnect()
    assert len(rig.broker.slices) == 1
    assert rig.pending(names[7]) == 1
    for name in names:
        rig.broker.remove_destination(producer.connection, name)
    _finish(rig)
    audit(rig.broker, rig.store)


def test_A8_queues_of_a_full_consumer_take_turns(rig: BrokerRig) -> None:
    producer = rig.connect()
    consumer = rig.consumer("queue://o.*", prefetch=1)
    for number in range(3):
        for name in "abc":
            producer.send(f"queue://o.{name}", f"{name}{number}")
    for _ in range(8):
        consumer.ack()
    assert consumer.texts == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_A8_an_ack_asks_only_queues_that_had_something(rig: BrokerRig) -> None:
    producer = rig.connect()
    consumer = rig.consumer("queue://o.*", prefetch=2)
    for name in ("a", "b", "c", "d"):
        producer.send(f"queue://o.{name}", name)
    assert [repr(it) for it in consumer.subscription.passed_over] == ["queue://o.c", "queue://o.d"]  # type: ignore[attr-defined]
    consumer.ack_each()
    consumer.ack_each()
    assert consumer.texts == ["a", "b", "c", "d"]
    assert not consumer.subscription.passed_over  # type: ignore[attr-defined]
    producer.send("queue://o.a", "e")
    assert consumer.texts[-1] == "e"


def test_H3_a_group_of_a_consumer_of_several_queues_goes_on_when_it_has_room(rig: BrokerRig) -> None:
    producer = rig.connect()
    consumer = rig.consumer("queue://o.a,o.b", prefetch=1)
    for number in range(3):
        producer.send("queue://o.a", f"a{number}", group_id="g")
        producer.send("queue://o.b", f"b{number}", group_id="g")
    for _ in range(6):
        consumer.ack_each()
    assert sorted(map(str, consumer.texts)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [it for it in consumer.texts if str(it).startswith("a")] == ["a0", "a1", "a2"]


def test_C5_a_full_consumer_is_called_slow_once_until_it_gets_more(rig: BrokerRig) -> None:
    producer = rig.connect()
    consumers = [rig.consumer("queue://q", prefetch=1) for _ in range(2)]
    for _ in range(2):
        producer.send("queue://q")
    assert not any(it.subscription.is_slow for it in consumers)
    producer.send("queue://q")
    assert all(it.subscription.is_slow for it in consumers)
    consumers[0].ack()
    assert [it.subscription.is_slow for it in consumers] == [False, True]
    producer.send("queue://q")
    assert [it.subscription.is_slow for it in consumers] == [True, True]
    queue = rig.broker.registry.get_or_make(parse_destination("queue://q"))
    assert isinstance(queue, Queue)
    assert queue.view.pending_count == 1
