"""Names: patterns, composites, virtual topics (SEMANTICS A8)."""

import pytest

from ackwire.broker.router import Router
from ackwire.errors import InvalidDestination
from ackwire.jms.destinations import parse_destination
from tests.helpers.broker_rig import BrokerRig
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def test_A8_a_composite_goes_to_each_part_once(rig: BrokerRig) -> None:
    topic = rig.consumer("topic://c")
    rig.connect().send("queue://a,b,a,queue://a,topic://c", "x")
    assert (rig.pending("queue://a"), rig.pending("queue://b"), topic.texts) == (1, 1, ["x"])


def test_A8_a_composite_of_too_many_parts_is_refused_whole(rig: BrokerRig) -> None:
    name = ",".join(f"q{n}" for n in range(300))
    with pytest.raises(InvalidDestination, match="300"):
        rig.connect().send(f"queue://{name}")
    assert rig.broker.flow.used_bytes == 0
    assert rig.broker.registry.queues() == []


def test_A8_a_wildcard_consumer_serves_queues_that_are_and_that_will_be(rig: BrokerRig) -> None:
    producer = rig.connect()
    producer.send("queue://o.a", "a")
    consumer = rig.consumer("queue://o.*")
    for name in ("o.b", "o.b.c", "p"):
        producer.send(f"queue://{name}", name)
    assert consumer.texts == ["a", "o.b"]
    consumer.ack_each()
    consumer.close()
    producer.send("queue://o.a", "later")
    assert rig.pending("queue://o.a") == 1
    audit(rig.broker, rig.store)


def test_A8_what_a_wildcard_consumer_held_goes_back_to_each_queue(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://o.>")
    producer = rig.connect()
    for name in ("o.a", "o.b", "o.a"):
        producer.send(f"queue://{name}")
    consumer.client.disconnect()
    assert (rig.pending("queue://o.a"), rig.pending("queue://o.b")) == (2, 1)
    audit(rig.broker, rig.store)


def test_A8_nobody_sends_to_a_pattern(rig: BrokerRig) -> None:
    with pytest.raises(InvalidDestination):
        rig.connect().send("queue://o.*")


def test_A8_a_virtual_topic_fills_the_queue_of_every_consumer_name(rig: BrokerRig) -> None:
    producer, plain = rig.connect(), rig.consumer("topic://VirtualTopic.orders")
    first = [rig.consumer("queue://Consumer.a.VirtualTopic.orders") for _ in range(2)]
    rig.consumer("queue://Consumer.b.VirtualTopic.orders").close()
    rig.consumer("queue://Consumer.b.VirtualTopic.other").close()
    for n in range(4):
        producer.send("topic://VirtualTopic.orders", f"{n}")
    assert [consumer.texts for consumer in first] == [["0", "2"], ["1", "3"]]
    assert rig.pending("queue://Consumer.b.VirtualTopic.orders") == 4
    assert rig.pending("queue://Consumer.b.VirtualTopic.other") == 0
    assert len(plain.delivered) == 4


def test_A8_a_consumer_cannot_mix_queues_and_topics(rig: BrokerRig) -> None:
    with pytest.raises(InvalidDestination):
        rig.consumer("queue://a,topic://b")


def _router(*names: str) -> Router[str]:
    router: Router[str] = Router()
    for name in names:
        router.add(parse_destination(name), name)
    return router


def test_A8_a_search_finds_what_a_pattern_stands_for_in_the_order_of_making() -> None:
    router = _router("queue://o.b", "topic://o.c", "queue://p", "queue://Consumer.a.VirtualTopic.>", "queue://o.a")
    found = [it[1] for it in router.matching(parse_destination("queue://>")) if it is not None]
    assert found == ["queue://o.b", "queue://p", "queue://o.a"]
    found = [it[1] for it in router.matching(parse_destination("topic://o.>")) if it is not None]
    assert found == ["topic://o.c"]


def test_A8_a_search_does_not_find_what_was_made_or_removed_while_it_waited() -> None:
    router = _router(*(f"queue://o.{number}" for number in range(20)))
    search = router.matching(parse_destination("queue://o.*"))
    assert next(search) == (parse_destination("queue://o.0"), "queue://o.0")
    for number in (3, 12, 13):
        router.remove(parse_destination(f"queue://o.{number}"))
    router.add(parse_destination("queue://o.13"), "made again")
    router.add(parse_destination("queue://o.20"), "made meanwhile")
    found = [it[1] for it in search if it is not None]
    assert found == [f"queue://o.{number}" for number in range(1, 20) if number not in (3, 12, 13)]


def test_A8_a_search_stops_now_and_then_however_little_it_finds() -> None:
    router = _router(*(f"queue://p.{number}" for number in range(100)))
    assert len([it for it in router.matching(parse_destination("queue://o.>")) if it is None]) > 10
