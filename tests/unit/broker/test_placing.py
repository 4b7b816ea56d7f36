"""Nothing is published between a message's sequence and its places: places take messages in order of sequence."""

import pytest

from ackwire.broker.placing import Placing
from ackwire.config.policy import DestinationPolicy
from tests.helpers.broker_rig import BrokerRig, RigConsumer
from tests.simulation.audit import audit

EVERYTHING = "topic://>"


def _listeners(rig: BrokerRig, count: int = 3) -> list[RigConsumer]:
    """Durable subscribers to everything, and one that is not durable."""
    durable = [rig.connect(f"d{number}").consumer(EVERYTHING, subscription_name="s") for number in range(count)]
    return [*durable, rig.consumer(EVERYTHING)]


def _in_order(listeners: list[RigConsumer]) -> bool:
    sequences = [[message.sequence for message in it.delivered] for it in listeners]
    return all(it == sorted(it) and len(set(it)) == len(it) for it in sequences)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("where", ["topic://t", "topic://VirtualTopic.v"])
def test_A6_a_message_that_is_expired_on_arrival_reaches_its_places_before_its_advisory(
    where: str, persistent: bool
) -> None:
    rig = BrokerRig()
    listeners = _listeners(rig)
    rig.consumer("queue://Consumer.a.VirtualTopic.v")
    rig.connect("offline").consumer(EVERYTHING, subscription_name="s").client.disconnect()
    producer = rig.connect()
    for _ in range(2):
        producer.send(where, persistent=persistent, expiration=rig.clock.now_ms() - 1, timestamp=0)
        producer.send(where, "good", persistent=persistent)
    assert producer.stored == 4
    assert _in_order(listeners)
    assert all(it.texts.count("good") == 2 for it in listeners)
    audit(rig.broker, rig.store)


def test_A3_a_message_that_a_slow_subscriber_loses_is_told_of_behind_the_one_that_pushed_it_out() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="topic://t", topic_pending_messages_max=1),))
    slow = rig.consumer("topic://t", prefetch=1)
    listeners = _listeners(rig)
    producer = rig.connect()
    for number in range(5):
        producer.send("topic://t", str(number))
    assert len(slow.delivered) == 1
    assert _in_order(listeners)


def test_B6_a_send_that_waited_for_space_does_not_overtake_the_message_that_makes_it() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 40_000}})
    busy = rig.connect("busy").consumer("topic://t", subscription_name="s", prefetch=1)
    producer = rig.connect("producer")
    producer.send("topic://t", "in flight")
    transaction = producer.begin()
    producer.send("topic://t", "makes space", transaction=transaction)
    producer.send("topic://t", "x" * 50_000, persistent=False, expiration=rig.clock.now_ms() + 1000)
    late = rig.connect("late").consumer("topic://t", subscription_name="s")
    waiting = rig.connect("waiting")
    waiting.send("topic://t", "waited")
    assert waiting.stored == 0, "memory is full"
    rig.clock.advance(2)
    producer.commit(transaction)  # in the middle of it, `busy` loses what has expired
    assert waiting.stored == 1
    assert late.texts == ["makes space", "waited"]
    busy.ack()
    assert busy.texts == ["in flight", "makes space"]
    audit(rig.broker, rig.store)


def test_what_is_deferred_happens_in_order_and_once() -> None:
    placing, done = Placing(), list[str]()

    def first() -> None:
        done.append("first")
        placing.begin()
        placing.defer(lambda: done.append("of the first"))
        placing.end()

    placing.begin()
    placing.begin()
    placing.defer(first)
    placing.defer(lambda: done.append("second"))
    placing.end()
    assert done == []
    placing.end()
    assert done == ["first", "second", "of the first"]
    assert not placing.is_under_way
