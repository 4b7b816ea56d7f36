"""A message is one dead letter, however many durable subscribers it expires or fails for (SEMANTICS F4)."""

import random

import pytest

from ackwire.broker.dead_letter_memory import Counts
from ackwire.broker.in_flight import AckKind
from ackwire.config.policy import DeadLetterPolicy, DestinationPolicy
from tests.helpers.broker_rig import BrokerRig

SUBSCRIBERS = 5


def _rig(**policy: object) -> BrokerRig:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", **policy),))  # type: ignore[arg-type]
    for number in range(SUBSCRIBERS):
        client = rig.connect(f"s{number}")
        client.consumer("topic://t", subscription_name="d")
        client.disconnect()
    return rig


def _expire(rig: BrokerRig, where: str = "topic://t", count: int = 3) -> None:
    producer = rig.connect()
    for number in range(count):
        producer.send(where, f"{number}", expiration=rig.clock.now_ms() + 1000)
    rig.clock.advance(100)


def test_F4_what_expires_for_many_durable_subscribers_is_one_dead_letter() -> None:
    rig = _rig()
    _expire(rig)
    assert rig.consumer("queue://ActiveMQ.DLQ").texts == ["0", "1", "2"]
    assert sum(queue.view.pending_count for queue in rig.broker.registry.queues()) == 0


def test_F4_what_is_poison_for_many_durable_subscribers_is_one_dead_letter() -> None:
    rig = _rig()
    rig.connect().send("topic://t", "poison")
    for number in range(SUBSCRIBERS):
        consumer = rig.connect(f"s{number}").consumer("topic://t", subscription_name="d")
        consumer.ack(kind=AckKind.POISON, cause="why")
    assert rig.pending("queue://ActiveMQ.DLQ") == 1, "not asked of a consumer: it gets copies of one message one by one"
    assert rig.consumer("queue://ActiveMQ.DLQ").texts == ["poison"]


def test_F4_a_policy_may_ask_for_a_dead_letter_from_each() -> None:
    rig = _rig(dead_letter_once=False)
    _expire(rig)
    assert rig.pending("queue://ActiveMQ.DLQ") == 3 * SUBSCRIBERS


def test_F4_the_queues_of_a_virtual_topic_have_one_dead_letter_or_one_each_if_theirs_are_individual() -> None:
    for kind, names in (
        (DeadLetterPolicy.SHARED, {"ActiveMQ.DLQ": 1}),
        (
            DeadLetterPolicy.INDIVIDUAL,
            {f"ActiveMQ.DLQ.Queue.Consumer.{name}.VirtualTopic.x": 1 for name in ("a", "b")},
        ),
    ):
        rig = _rig(dead_letters=kind)
        for name in ("a", "b"):
            rig.consumer(f"queue://Consumer.{name}.VirtualTopic.x").client.disconnect()
        _expire(rig, "topic://VirtualTopic.x", 1)
        assert {name: rig.pending(f"queue://{name}") for name in names} == names


def test_F4_messages_of_several_producers_are_not_taken_for_each_other() -> None:
    rig = _rig()
    for _ in range(3):
        rig.connect().send("topic://t", "same count", expiration=rig.clock.now_ms() + 1000)
    rig.clock.advance(100)
    assert rig.pending("queue://ActiveMQ.DLQ") == 3


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_a_set(seed: int) -> None:
    rng = random.Random(seed)
    counts, model = Counts(), set[int]()
    for _ in range(3000):
        number = rng.randrange(1000)
        assert counts.add(number) == (number not in model)
        model.add(number)


def test_counts_are_bounded() -> None:
    counts = Counts()
    for number in range(0, 20_000, 2):
        assert counts.add(number)
    assert len(counts._firsts) <= 2048
    assert not counts.add(19_998)


def test_A6_a_sweep_lets_others_have_their_turn() -> None:
    rig = BrokerRig(is_audited=False)
    producer = rig.connect()
    for number in range(600):
        producer.send("queue://q", f"{number}", expiration=rig.clock.now_ms() + 1000)
    queue = next(it for it in rig.broker.registry.queues())
    begun: list[int] = []

    def look() -> None:
        rig.clock.call_later(0, lambda: begun.append(queue.contents.expired))

    rig.clock.call_later(30, look)
    rig.clock.advance(40)
    assert 0 < begun[0] < 600
    assert queue.contents.expired == 600
