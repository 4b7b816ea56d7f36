"""Consumers with and without selectors share a queue."""

from tests.helpers.broker_rig import BrokerRig


def test_A2_consumers_with_a_selector_and_without_take_turns() -> None:
    rig = BrokerRig()
    plain, selecting = rig.consumer("queue://q"), rig.consumer("queue://q", selector="colour = 'red'")
    producer = rig.connect()
    for number in range(6):
        producer.send("queue://q", str(number), properties={"colour": "red"})
    assert (len(plain.delivered), len(selecting.delivered)) == (3, 3)


def test_H2_priority_counts_between_consumers_of_different_selectors() -> None:
    rig = BrokerRig()
    rig.consumer("queue://q")
    important = rig.consumer("queue://q", selector="colour = 'red'", priority=10)
    producer = rig.connect()
    for number in range(4):
        producer.send("queue://q", str(number), properties={"colour": "red"})
    assert important.texts == ["0", "1", "2", "3"]


def test_H2_an_exclusive_consumer_gets_the_groups_of_others_too() -> None:
    rig = BrokerRig()
    owner, producer = rig.consumer("queue://q"), rig.connect()
    producer.send("queue://q", "0", group_id="g")
    exclusive = rig.consumer("queue://q", exclusive=True)
    producer.send("queue://q", "1", group_id="g")
    assert (owner.texts, exclusive.texts) == (["0"], ["1"])
