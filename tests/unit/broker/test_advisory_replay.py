"""Advisories for late joiners: in slices, as far as they read, in an order that leaves them with the truth."""

from ackwire.broker.subscription import TopicSubscription
from ackwire.jms.destinations import Destination, parse_destination
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, command_of

MANY = 600
"""More advisories than fit into a slice."""


def _queues(rig: BrokerRig, client: RigClient, count: int) -> list[Destination]:
    names = [parse_destination(f"queue://q{number}") for number in range(count)]
    for name in names:
        rig.broker.add_destination(client.connection, name)
    return names


def _told(consumer: RigConsumer) -> list[tuple[str, str]]:
    """What it heard of destinations: + or -, and the name."""
    events = []
    for message in consumer.delivered:
        info = command_of(message).data_structure
        assert isinstance(info, commands.DestinationInfo)
        assert info.destination is not None
        sign = "+" if info.operation_type == commands.DestinationOperation.ADD else "-"
        events.append((sign, str(info.destination.physical_name)))
    return events


def _finish(rig: BrokerRig) -> None:
    while len(rig.broker.slices):
        rig.clock.advance(0)


def test_a_replay_is_cut_into_slices_and_complete() -> None:
    rig = BrokerRig()
    names = _queues(rig, rig.connect(), MANY)
    late = rig.consumer("topic://ActiveMQ.Advisory.Queue", prefetch=10_000)
    assert 0 < len(late.delivered) < MANY
    _finish(rig)
    assert _told(late) == [("+", name.name) for name in names]


def test_the_last_word_about_each_queue_is_the_true_one() -> None:
    rig = BrokerRig()
    client = rig.connect()
    names = _queues(rig, client, MANY)
    late = rig.consumer("topic://ActiveMQ.Advisory.Queue", prefetch=10_000)
    shown = {name for _, name in _told(late)}
    waiting = [name for name in names if name.name not in shown]
    removed, again = waiting[0], waiting[1]
    rig.broker.remove_destination(client.connection, removed)
    rig.broker.remove_destination(client.connection, again)
    rig.broker.add_destination(client.connection, again)
    rig.broker.add_destination(client.connection, parse_destination("queue://new"))
    _finish(rig)
    told = _told(late)
    assert [sign for sign, name in told if name == removed.name] == ["-"]
    assert [sign for sign, name in told if name == again.name] == ["-", "+"]
    assert [sign for sign, name in told if name == "new"] == ["+"]
    assert sorted(name for sign, name in told if sign == "+") == sorted(
        {it.name for it in names} - {removed.name} | {"new"}
    )


def test_nothing_is_kept_for_a_late_joiner_that_does_not_read() -> None:
    rig = BrokerRig()
    _queues(rig, rig.connect(), 50)
    late = rig.consumer("topic://ActiveMQ.Advisory.Queue", prefetch=5)
    subscription = late.subscription
    assert isinstance(subscription, TopicSubscription)
    assert (len(late.delivered), len(subscription.pending)) == (5, 0)
    while len(late.delivered) < 50:
        late.ack(count=5)
    assert len(_told(late)) == 50
    late.ack(count=5)
    assert subscription.replay is None


def test_a_late_joiner_that_leaves_is_shown_nothing_more() -> None:
    rig = BrokerRig()
    _queues(rig, rig.connect(), MANY)
    late = rig.consumer("topic://ActiveMQ.Advisory.Queue", prefetch=10_000)
    shown = len(late.delivered)
    late.close()
    _finish(rig)
    assert len(late.delivered) == shown


def test_consumers_producers_and_connections_are_shown_with_their_counts() -> None:
    rig = BrokerRig()
    client = rig.connect("c")
    consumers = [client.consumer("queue://q,other") for _ in range(3)]
    consumers[1].close()
    late = rig.consumer("topic://ActiveMQ.Advisory.Consumer.Queue.q")
    assert [late.properties(index)["consumerCount"] for index in range(2)] == [2, 2]
    assert len(late.delivered) == 2
    assert len(rig.consumer("topic://ActiveMQ.Advisory.Consumer.>").delivered) == 4
    assert len(rig.consumer("topic://ActiveMQ.Advisory.Producer.>").delivered) == 0
    connections = rig.consumer("topic://ActiveMQ.Advisory.Connection")
    assert len(connections.delivered) == len(rig.broker.connections())
