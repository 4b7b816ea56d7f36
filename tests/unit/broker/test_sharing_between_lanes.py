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


def test_A2_consumers_of_one_selector_take_turns_whatever_others_get_in_between() -> None:
    rig = BrokerRig()
    reds = [rig.consumer("queue://q", selector="colour = 'red'") for _ in range(2)]
    blue, producer = rig.consumer("queue://q", selector="colour = 'blue'"), rig.connect()
    for number in range(6):
        producer.send("queue://q", str(number), properties={"colour": "blue" if number % 2 else "red"})
    assert [red.texts for red in reds] == [["0", "4"], ["2"]]
    assert blue.texts == ["1", "3", "5"]


def test_A7_a_message_waits_for_the_full_consumer_that_wants_it_and_others_get_theirs() -> None:
    rig = BrokerRig()
    red, blue = (rig.consumer("queue://q", selector=f"colour = '{it}'", prefetch=1) for it in ("red", "blue"))
    producer = rig.connect()
    for number, colour in enumerate(("red", "red", "blue", "green", "blue")):
        producer.send("queue://q", str(number), properties={"colour": colour})
    assert (red.texts, blue.texts) == (["0"], ["2"])
    red.ack()
    blue.ack()
    assert (red.texts, blue.texts) == (["0", "1"], ["2", "4"])
    assert rig.pending("queue://q") == 1
