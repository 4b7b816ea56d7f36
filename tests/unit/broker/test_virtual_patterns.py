"""Queues that name virtual topics by a pattern: `Consumer.A.VirtualTopic.X.>` (SEMANTICS A8)."""

import pytest

from ackwire.errors import InvalidDestination
from ackwire.jms.destinations import Kind, destination
from tests.helpers.broker_rig import BrokerRig
from tests.simulation.audit import audit

PATTERN = "queue://Consumer.1.VirtualTopic.X.>"


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def _publish(rig: BrokerRig, *names: str) -> None:
    producer = rig.connect()
    for name in names:
        producer.send(f"topic://{name}", name)


def test_A8_a_pattern_of_virtual_topics_has_a_queue_of_its_own(rig: BrokerRig) -> None:
    consumer = rig.consumer(PATTERN)
    _publish(rig, "VirtualTopic.X", "VirtualTopic.X.A", "VirtualTopic.Y", "VirtualTopic.X.A.B", "X.A")
    assert consumer.texts == ["VirtualTopic.X", "VirtualTopic.X.A", "VirtualTopic.X.A.B"]
    assert {repr(message.destination) for message in consumer.delivered} == {PATTERN}
    audit(rig.broker, rig.store)


def test_A8_it_keeps_what_is_published_while_its_consumers_are_away_and_over_a_restart(rig: BrokerRig) -> None:
    rig.consumer(PATTERN).client.disconnect()
    _publish(rig, "VirtualTopic.X.A")
    again = rig.restarted()
    _publish(again, "VirtualTopic.X.B")
    consumer = again.consumer(PATTERN)
    assert consumer.texts == ["VirtualTopic.X.A", "VirtualTopic.X.B"]
    audit(again.broker, again.store)


def test_A8_a_plain_queue_beside_it_has_its_own_copy(rig: BrokerRig) -> None:
    rig.consumer(PATTERN).client.disconnect()
    plain = rig.consumer("queue://Consumer.1.VirtualTopic.X.A")
    _publish(rig, "VirtualTopic.X.A")
    assert plain.texts == ["VirtualTopic.X.A"]
    plain.ack_each()
    assert rig.consumer(PATTERN).texts == ["VirtualTopic.X.A"]


def test_A8_a_consumer_of_the_pattern_takes_from_matching_queues_too(rig: BrokerRig) -> None:
    consumer = rig.consumer(PATTERN)
    rig.connect().send("queue://Consumer.1.VirtualTopic.X.A", "sent to the plain queue")
    assert consumer.texts == ["sent to the plain queue"]


def test_A8_consumers_of_other_patterns_do_not_take_from_it(rig: BrokerRig) -> None:
    rig.consumer(PATTERN).client.disconnect()
    _publish(rig, "VirtualTopic.X.A")
    others = [rig.consumer(name) for name in ("queue://>", "queue://Consumer.1.VirtualTopic.>", "queue://*.1.>")]
    assert [other.texts for other in others] == [[], [], []]
    assert rig.consumer(PATTERN).texts == ["VirtualTopic.X.A"]


@pytest.mark.parametrize(
    ("pattern", "hears"),
    [
        ("Consumer.*.VirtualTopic.X", True),
        ("Consumer.1.>", True),
        ("Consumer.>", True),
        ("Consumer.1.*.X", True),
        ("Consumer.1.VirtualTopic.*", True),
        ("Consumer.1.VirtualTopic.Y.>", False),
        ("Consumer.1.VirtualTopic.*.X", False),
        ("Consumer.1.orders.>", False),
        ("*.1.VirtualTopic.X", False),
        (">", False),
    ],
)
def test_A8_which_patterns_stand_for_virtual_topics(rig: BrokerRig, pattern: str, hears: bool) -> None:
    consumer = rig.consumer(f"queue://{pattern}")
    _publish(rig, "VirtualTopic.X")
    assert consumer.texts == (["VirtualTopic.X"] if hears else [])
    audit(rig.broker, rig.store)


def test_A8_the_shortest_virtual_topic_has_queues_too(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://Consumer.1.VirtualTopic")
    _publish(rig, "VirtualTopic", "VirtualTopics")
    assert consumer.texts == ["VirtualTopic"]


def test_A8_it_can_be_removed_and_gets_no_more(rig: BrokerRig) -> None:
    client = rig.connect()
    client.consumer(PATTERN).close()
    where = destination(Kind.QUEUE, PATTERN.removeprefix("queue://"))
    rig.broker.remove_destination(client.connection, where)
    _publish(rig, "VirtualTopic.X.A")
    assert rig.broker.flow.used_bytes == 0
    assert rig.broker.registry.router.get(where) is None
    audit(rig.broker, rig.store)


def test_A8_other_patterns_are_no_destinations(rig: BrokerRig) -> None:
    with pytest.raises(InvalidDestination):
        rig.connect().send("queue://Consumer.1.orders.>")


def test_A8_a_restart_keeps_it_though_it_never_held_a_message(rig: BrokerRig) -> None:
    rig.consumer(PATTERN).client.disconnect()
    again = rig.restarted()
    _publish(again, "VirtualTopic.X.A")
    assert again.consumer(PATTERN).texts == ["VirtualTopic.X.A"]
    audit(again.broker, again.store)
