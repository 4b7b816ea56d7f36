"""Exclusive consumers (SEMANTICS H2)."""

from ackwire.config.policy import DestinationPolicy
from tests.helpers.broker_rig import BrokerRig
from tests.simulation.audit import audit


def _send(rig: BrokerRig, count: int) -> None:
    producer = rig.connect()
    for n in range(count):
        producer.send("queue://q", f"{n}")


def test_H2_one_consumer_gets_the_whole_queue() -> None:
    rig = BrokerRig()
    first, second = (rig.consumer("queue://q", exclusive=True) for _ in range(2))
    ordinary = rig.consumer("queue://q")
    _send(rig, 3)
    assert (len(first.delivered), second.delivered, ordinary.delivered) == (3, [], [])


def test_H2_an_exclusive_consumer_takes_over_from_ordinary_ones() -> None:
    rig = BrokerRig()
    ordinary = rig.consumer("queue://q")
    exclusive = rig.consumer("queue://q", exclusive=True)
    _send(rig, 2)
    assert (ordinary.delivered, len(exclusive.delivered)) == ([], 2)


def test_H2_when_it_goes_the_next_takes_over_all_that_is_left_in_order() -> None:
    rig = BrokerRig()
    first, second = (rig.consumer("queue://q", exclusive=True, prefetch=2) for _ in range(2))
    _send(rig, 4)
    first.ack(first.delivered[0])
    first.client.disconnect()
    assert second.texts == ["1", "2"]
    second.ack(second.delivered[1], count=2)
    assert second.texts == ["1", "2", "3"]
    audit(rig.broker, rig.store)


def test_H2_nobody_else_gets_anything_while_it_is_full() -> None:
    rig = BrokerRig()
    exclusive, other = rig.consumer("queue://q", exclusive=True, prefetch=1), rig.consumer("queue://q")
    _send(rig, 3)
    assert (len(exclusive.delivered), other.delivered) == (1, [])
    exclusive.ack()
    assert len(exclusive.delivered) == 2


def test_H2_the_higher_priority_wins_even_if_it_comes_later() -> None:
    rig = BrokerRig()
    first = rig.consumer("queue://q", exclusive=True)
    second = rig.consumer("queue://q", exclusive=True, priority=10)
    _send(rig, 2)
    assert (first.delivered, len(second.delivered)) == ([], 2)


def test_H2_when_the_last_exclusive_one_goes_all_share_again() -> None:
    rig = BrokerRig()
    exclusive = rig.consumer("queue://q", exclusive=True)
    others = [rig.consumer("queue://q") for _ in range(2)]
    exclusive.close()
    _send(rig, 4)
    assert [len(other.delivered) for other in others] == [2, 2]


def test_H2_a_policy_can_make_every_consumer_exclusive() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="q", exclusive_by_default=True),))
    first, second = rig.consumer("queue://q"), rig.consumer("queue://q")
    _send(rig, 2)
    assert (len(first.delivered), second.delivered) == (2, [])
