"""A running broker goes by other limits and policies."""

from dataclasses import replace

from ackwire.broker.queue import Queue
from ackwire.config import Settings
from ackwire.config.policy import DestinationPolicy, Policies
from tests.helpers.broker_rig import BrokerRig, named


def reload(rig: BrokerRig, *policies: DestinationPolicy, settings: Settings | None = None) -> None:
    rig.broker.reload(settings or rig.settings, Policies(policies))


def queue_of(rig: BrokerRig, name: str) -> Queue:
    made = rig.broker.registry.get_or_make(named(f"queue://{name}"))
    assert isinstance(made, Queue)
    return made


def test_more_memory_lets_blocked_sends_go_on() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 1000}})
    producer = rig.connect("producer")
    producer.send("queue://q", "x" * 2000)
    producer.send("queue://q")
    assert rig.pending("queue://q") == 1
    limits = replace(rig.settings.limits, memory_bytes_max=100_000)
    reload(rig, settings=replace(rig.settings, limits=limits))
    rig.clock.advance(0)
    assert rig.pending("queue://q") == 2
    assert rig.broker.settings.limits.memory_bytes_max == 100_000


def test_policies_apply_to_destinations_that_exist_and_to_new_ones() -> None:
    rig = BrokerRig()
    rig.broker.slices._units = 10
    producer = rig.connect("producer")
    for number in range(30):
        producer.send(f"queue://old.{number}")
    producer.send("topic://news")
    rig.consumer("topic://news", subscription_name="d")
    policy = DestinationPolicy(match=">", redeliveries_max=3, retained_messages_max=2, advise_delivered=True)
    reload(rig, policy)
    assert {queue.policy.redeliveries_max for queue in rig.broker.registry.queues()} == {3, 6}, "not all at once"
    for _ in range(5):
        rig.clock.advance(0)
    assert {queue.policy.redeliveries_max for queue in rig.broker.registry.queues()} == {3}
    assert queue_of(rig, "old.7").advises_arrivals
    producer.send("queue://new")
    assert queue_of(rig, "new").policy is policy
    for text in "abc":
        producer.send("topic://news", text)
    assert rig.consumer("topic://news", retroactive=True).texts == ["b", "c"]


def test_the_last_policies_win_while_earlier_ones_are_being_applied() -> None:
    rig = BrokerRig()
    rig.broker.slices._units = 10
    producer = rig.connect("producer")
    for number in range(30):
        producer.send(f"queue://old.{number}")
    reload(rig, DestinationPolicy(match=">", redeliveries_max=3))
    reload(rig, DestinationPolicy(match=">", redeliveries_max=4))
    for _ in range(5):
        rig.clock.advance(0)
    assert {queue.policy.redeliveries_max for queue in rig.broker.registry.queues()} == {4}
    assert rig.broker.registry.policy_for(named("queue://x")).redeliveries_max == 4
