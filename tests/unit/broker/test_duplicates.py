"""What a client repeats after a failover is recognised, also where some of it was refused (J4)."""

import pytest

from ackwire.broker.duplicates import REFUSED_MAX
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import ResourceLimit
from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig, RigClient

Q = "queue://q"
FULL = "queue://full"


@pytest.fixture
def rig() -> BrokerRig:
    """A broker with a queue that refuses what it has no space for: one message is enough."""
    policy = DestinationPolicy(match=FULL, memory_bytes_max=1)
    return BrokerRig(policies=(policy,), settings={"limits": {"when_full": "fail"}})


def make(client: RigClient, count: int) -> list[Message]:
    return [client.message(Q, f"{number}") for number in range(1, count + 1)]


def come_back(client: RigClient) -> None:
    client.connection.is_reconnect = True


def test_J4_what_was_taken_is_not_taken_again(rig: BrokerRig) -> None:
    client = rig.connect()
    messages = make(client, 3)
    for message in messages:
        client.send_message(message)
    come_back(client)
    for message in messages:
        client.send_message(message)
    assert rig.pending(Q) == 3


def test_J4_nor_after_a_restart(rig: BrokerRig) -> None:
    client = rig.connect("a")
    client.send_message(make(client, 1)[0])
    again = rig.restarted()
    client = again.connect("a", is_reconnect=True)
    for message in make(client, 2):
        client.send_message(message)
    assert again.pending(Q) == 2


def refused(client: RigClient, message: Message) -> None:
    with pytest.raises(ResourceLimit):
        client.send_message(message)


def a_gap(rig: BrokerRig, client: RigClient) -> Message:
    """A message that was refused while a later one was taken, and whose queue has space by now."""
    client.send(FULL, "fills it")
    early = client.message(FULL, "refused")
    refused(client, early)
    client.send(Q, "later")
    consumer = rig.consumer(FULL)
    consumer.ack()
    consumer.close()
    return early


def test_J4_what_was_refused_is_taken_when_it_is_repeated(rig: BrokerRig) -> None:
    """J4: the client had no answer, and must not be told that it is stored."""
    client = rig.connect()
    early = a_gap(rig, client)
    come_back(client)
    client.send_message(early)
    assert rig.pending(FULL) == 1


def test_J4_and_only_once(rig: BrokerRig) -> None:
    client = rig.connect()
    early = a_gap(rig, client)
    come_back(client)
    client.send_message(early)
    consumer = rig.consumer(FULL)
    consumer.ack()
    consumer.close()
    client.send_message(early)
    assert rig.pending(FULL) == 0


def test_J4_a_restart_does_not_forget_it(rig: BrokerRig) -> None:
    client = rig.connect("c")
    early = a_gap(rig, client)
    again = rig.restarted()
    back = again.connect("c")
    come_back(back)
    back.send_message(early)
    assert again.pending(FULL) == 1


def test_J4_a_restart_brings_back_no_more_gaps_than_were_remembered(rig: BrokerRig) -> None:
    """J4: each message of a producer is held against its gaps, so their number is bounded in every run."""
    client = rig.connect("c")
    for message in make(client, 100)[::2]:
        client.send_message(message)
    remembered = dict(gaps_of(rig))
    assert 0 < len(remembered) < 20
    again = rig.restarted()
    assert gaps_of(again) == remembered


def gaps_of(rig: BrokerRig) -> dict[int, int]:
    (gaps,) = rig.broker.sending._duplicates._gaps.values()
    return gaps


def test_J4_every_refused_message_is_taken_when_it_is_repeated_however_many_there_are(rig: BrokerRig) -> None:
    """J4: beyond REFUSED_MAX the oldest are not remembered one by one, but as a gap."""
    client = rig.connect()
    client.send(FULL, "fills it")
    early = [client.message(FULL, "refused") for _ in range(REFUSED_MAX + 2)]
    for message in early:
        refused(client, message)
    client.send(Q, "later")
    come_back(client)
    for message in early:  # one that passed for stored would be answered without an error
        refused(client, message)


def test_J4_nothing_is_written_for_refusals_alone(rig: BrokerRig) -> None:
    """B6, J4: a full store is not filled further by those that it refuses."""
    client = rig.connect()
    client.send(FULL, "fills it")
    before = list(rig.store.last_counts())
    for _ in range(10):
        refused(client, client.message(FULL, "refused"))
    assert list(rig.store.last_counts()) == before
