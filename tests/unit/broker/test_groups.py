"""Message groups (SEMANTICS H3)."""

import pytest

from ackwire.config.policy import DestinationPolicy
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig, RigClient
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def _send(producer: RigClient, text: str, group: str = "g", **options: object) -> None:
    producer.send("queue://q", text, group_id=group, **options)


def test_H3_a_group_stays_with_one_consumer(rig: BrokerRig) -> None:
    first, second = rig.consumer("queue://q"), rig.consumer("queue://q")
    producer = rig.connect()
    for n in range(6):
        _send(producer, f"{n}", "even" if n % 2 == 0 else "odd")
    assert (first.texts, second.texts) == (["0", "2", "4"], ["1", "3", "5"])


def _open_groups(producer: RigClient, numbers: range) -> None:
    for n in numbers:
        _send(producer, f"{n}", f"g{n}")


def test_H3_a_new_group_goes_to_the_consumer_that_owns_the_fewest(rig: BrokerRig) -> None:
    first, producer = rig.consumer("queue://q"), rig.connect()
    _open_groups(producer, range(10))
    late = rig.consumer("queue://q")
    _open_groups(producer, range(10, 20))
    assert (len(first.texts), len(late.texts)) == (10, 10), "until it has its share"
    _open_groups(producer, range(20, 26))
    assert (len(first.texts), len(late.texts)) == (13, 13), "then they take turns"


def test_H3_groups_that_end_no_longer_count_for_their_owner(rig: BrokerRig) -> None:
    first, second, producer = rig.consumer("queue://q"), rig.consumer("queue://q"), rig.connect()
    _open_groups(producer, range(6))
    for n in (0, 2, 4):
        _send(producer, "end", f"g{n}", group_sequence=-1)
    before = len(second.texts)
    _open_groups(producer, range(10, 13))
    assert first.texts[-3:] == ["10", "11", "12"]
    assert len(second.texts) == before


def test_H3_the_groups_of_one_that_leaves_are_shared_by_those_that_stay(rig: BrokerRig) -> None:
    leaving, producer = rig.consumer("queue://q"), rig.connect()
    _open_groups(producer, range(4))
    leaving.ack_each()
    staying = [rig.consumer("queue://q") for _ in range(2)]
    leaving.client.disconnect()
    _open_groups(producer, range(4))
    assert [len(consumer.texts) for consumer in staying] == [2, 2]
    audit(rig.broker, rig.store)


def test_H3_a_consumer_without_room_or_of_lower_priority_gets_no_new_group(rig: BrokerRig) -> None:
    full, low, busy = (
        rig.consumer("queue://q", prefetch=0),
        rig.consumer("queue://q", priority=-1),
        rig.consumer("queue://q"),
    )
    _open_groups(rig.connect(), range(5))
    assert (full.texts, low.texts, len(busy.texts)) == ([], [], 5)


def test_H3_the_first_of_a_new_assignment_says_so(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q")
    producer = rig.connect()
    for n in range(3):
        _send(producer, f"{n}")
    assert consumer.port.group_firsts == [True, False, False]


def test_H3_when_the_owner_leaves_another_takes_the_group_from_where_it_was(rig: BrokerRig) -> None:
    first, second = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q")
    producer = rig.connect()
    for n in range(3):
        _send(producer, f"{n}")
    assert (first.texts, second.texts) == (["0"], [])
    first.client.disconnect()
    assert second.texts == ["0", "1", "2"]
    assert second.port.group_firsts == [True, False, False]
    audit(rig.broker, rig.store)


def test_H3_a_negative_sequence_closes_the_group(rig: BrokerRig) -> None:
    first, second = rig.consumer("queue://q"), rig.consumer("queue://q")
    producer = rig.connect()
    _send(producer, "0")
    _send(producer, "1", group_sequence=-1)
    _send(producer, "2")
    flags = {
        text: flag
        for consumer in (first, second)
        for text, flag in zip(consumer.texts, consumer.port.group_firsts, strict=True)
    }
    assert flags == {"0": True, "1": False, "2": True}, "what follows is a new assignment, to whose turn it is"


def test_H3_messages_for_a_full_owner_wait_and_others_go_on(rig: BrokerRig) -> None:
    owner, other = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q")
    producer = rig.connect()
    for n in range(3):
        _send(producer, f"{n}")
    producer.send("queue://q", "free")
    assert (owner.texts, other.texts) == (["0"], ["free"])
    assert rig.pending("queue://q") == 2
    owner.ack()
    owner.ack()
    assert owner.texts == ["0", "1", "2"]


def test_H3_a_group_that_is_closed_while_more_of_it_waits_begins_again(rig: BrokerRig) -> None:
    owner, _ = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q", prefetch=1)
    producer = rig.connect()
    _send(producer, "0")
    _send(producer, "1", group_sequence=-1)
    _send(producer, "2")
    for _ in range(2):
        owner.ack()
    assert owner.texts == ["0", "1", "2"]
    assert owner.port.group_firsts == [True, False, True]


def test_H3_a_closed_group_is_free_for_consumers_with_other_selectors(rig: BrokerRig) -> None:
    """What they had passed over because it was another's is looked at again."""
    ones, twos = rig.consumer("queue://q", selector="n = 1"), rig.consumer("queue://q", selector="n = 2")
    producer = rig.connect()
    _send(producer, "mine", properties={"n": Int(1)})
    _send(producer, "yours", properties={"n": Int(2)})
    assert (ones.texts, twos.texts) == (["mine"], [])
    _send(producer, "last", group_sequence=-1, properties={"n": Int(1)})
    rig.connect().send("queue://q", "anything")
    assert twos.texts == ["yours"]
    audit(rig.broker, rig.store)


def test_H3_only_so_many_owners_are_remembered() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", groups_max=2),))
    rig.consumer("queue://q")
    producer = rig.connect()
    for n in range(10):
        _send(producer, "x", f"g{n}")
    assert rig.broker.registry.queues()[0].view.group_count == 2
    audit(rig.broker, rig.store)


def test_H3_copies_of_one_message_in_two_queues_keep_their_groups_apart(rig: BrokerRig) -> None:
    first, second = rig.consumer("queue://q.*"), rig.consumer("queue://q.*")
    producer = rig.connect()
    for n in range(4):
        producer.send("queue://q.a,q.b", f"{n}", group_id="g")
    for _ in range(8):
        first.ack_each()
        second.ack_each()
    for where in ("queue://q.a", "queue://q.b"):
        got = [[text for text, m in zip(c.texts, c.delivered, strict=True) if repr(m.destination) == where]
               for c in (first, second)]  # fmt: skip
        assert sorted(got) == [[], ["0", "1", "2", "3"]]
    audit(rig.broker, rig.store)
