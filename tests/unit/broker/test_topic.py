"""Topics and their non-durable subscribers (SEMANTICS A3, C5)."""

from ackwire.config.policy import DestinationPolicy, Eviction
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig


def test_A3_every_subscriber_gets_a_copy_while_it_is_here() -> None:
    rig = BrokerRig()
    producer = rig.connect()
    first = rig.consumer("topic://t")
    producer.send("topic://t", "0")
    second = rig.consumer("topic://t")
    producer.send("topic://t", "1")
    first.close()
    producer.send("topic://t", "2")
    assert (first.texts, second.texts) == (["0", "1"], ["1", "2"])


def test_A3_no_local_leaves_out_what_the_same_connection_sent() -> None:
    rig = BrokerRig()
    client, other = rig.connect(), rig.connect()
    consumer = client.consumer("topic://t", no_local=True)
    client.send("topic://t", "own")
    other.send("topic://t", "other's")
    assert consumer.texts == ["other's"]


def test_A3_selectors_choose() -> None:
    rig = BrokerRig()
    consumer = rig.consumer("topic://t", selector="n > 1")
    producer = rig.connect()
    for n in range(4):
        producer.send("topic://t", f"{n}", properties={"n": Int(n)})
    assert consumer.texts == ["2", "3"]


def test_A3_a_retroactive_subscriber_gets_what_the_topic_kept() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="topic://t", retained_messages_max=2),))
    producer = rig.connect()
    for n in range(3):
        producer.send("topic://t", f"{n}")
    assert rig.consumer("topic://t", retroactive=True).texts == ["1", "2"]
    assert rig.consumer("topic://t").texts == []


def test_C5_a_slow_subscriber_loses_the_oldest_beyond_its_limit_and_stops_nobody() -> None:
    rig = BrokerRig()
    slow, quick = rig.consumer("topic://t", prefetch=1, pending_messages_max=2), rig.consumer("topic://t")
    producer = rig.connect()
    for n in range(6):
        producer.send("topic://t", f"{n}")
    assert producer.stored == 6
    assert len(quick.delivered) == 6
    for _ in range(3):
        slow.ack()
    assert slow.texts == ["0", "4", "5"]
    assert rig.broker.flow.used_bytes == 0


def test_C5_eviction_can_take_the_lowest_priority_first() -> None:
    policy = DestinationPolicy(match="topic://t", topic_pending_messages_max=2, eviction=Eviction.LOWEST_PRIORITY)
    rig = BrokerRig(policies=(policy,))
    slow = rig.consumer("topic://t", prefetch=1)
    producer = rig.connect()
    for priority in (4, 9, 1, 5):
        producer.send("topic://t", f"{priority}", priority=priority)
    for _ in range(3):
        slow.ack()
    assert slow.texts == ["4", "9", "5"]


def test_C5_what_waits_for_a_slow_subscriber_is_limited_in_bytes_too() -> None:
    rig = BrokerRig(settings={"destinations": {"topic_pending_bytes_max": 1000}})
    slow = rig.consumer("topic://t", prefetch=1)
    producer = rig.connect()
    for n in range(20):
        producer.send("topic://t", f"{n}" + "x" * 300)
    assert getattr(slow.subscription, "pending_bytes") <= 1000  # noqa: B009
    slow.ack()
    assert slow.texts[-1] is not None
    assert slow.texts[-1].startswith(("18", "19"))


def test_A8_a_pattern_hears_topics_that_come_later() -> None:
    rig = BrokerRig()
    consumer = rig.consumer("topic://t.>")
    producer = rig.connect()
    for name in ("t.a", "t.b.c", "u"):
        producer.send(f"topic://{name}", name)
    assert consumer.texts == ["t.a", "t.b.c"]


def test_A8_overlapping_names_give_one_copy() -> None:
    rig = BrokerRig()
    consumer = rig.consumer("topic://t.a,t.*,t.>")
    rig.connect().send("topic://t.a")
    assert len(consumer.delivered) == 1
