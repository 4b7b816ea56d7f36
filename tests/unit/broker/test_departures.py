"""Clients that leave with very much: in slices, and who comes back meanwhile finds everything as if all were gone."""

import pytest

from ackwire.broker.session import Producer
from ackwire.broker.subscription import SubscriptionRequest
from ackwire.errors import DestinationGone
from ackwire.jms.destinations import Destination, Kind, destination, parse_destination
from ackwire.util.clock import Turns
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import SESSION, BrokerRig, FakeConsumerPort, RigClient, command_of
from tests.simulation.audit import audit

MANY = 700
"""More than are removed in a slice."""


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig(is_audited=False)


def _finish(rig: BrokerRig) -> None:
    while len(rig.broker.slices):
        rig.clock.advance(0)


def _temporary(rig: BrokerRig, client: RigClient, count: int) -> list[Destination]:
    names = [destination(Kind.TEMP_QUEUE, f"{client.connection.connection_id}:{number}") for number in range(count)]
    for name in names:
        rig.broker.add_destination(client.connection, name)
    return names


def test_D7_a_client_with_many_temporary_queues_leaves_in_slices(rig: BrokerRig) -> None:
    client = rig.connect("c")
    names = _temporary(rig, client, MANY)
    client.disconnect()
    left = [name for name in names if rig.broker.registry.router.get(name) is not None]
    assert 0 < len(left) < MANY
    with pytest.raises(DestinationGone):
        rig.connect().send(left[0])
    _finish(rig)
    assert all(rig.broker.registry.router.get(name) is None for name in names)
    assert not rig.broker.registry.leaving_owners


def test_D7_clients_that_leave_in_the_same_turn_share_one_slice() -> None:
    turns = Turns()
    rig = BrokerRig(is_audited=False, turns=turns)
    clients = [rig.connect() for _ in range(5)]
    for client in clients:
        for _ in range(MANY):
            client.consumer("queue://q")

    def left() -> int:
        return rig.broker.consumer_count(parse_destination("queue://q"))

    clients[0].disconnect()
    removed_for_one = 5 * MANY - left()
    for client in clients[1:4]:
        client.disconnect()
    assert 5 * MANY - left() == removed_for_one, "what the first has left of the slice is nothing"
    turns.number += 1
    clients[4].disconnect()
    assert 5 * MANY - left() == 2 * removed_for_one, "the next turn has a slice of its own"
    _finish(rig)
    assert left() == 0


def test_D7_a_client_that_comes_back_has_its_temporary_queues_again(rig: BrokerRig) -> None:
    heard = rig.consumer("topic://ActiveMQ.Advisory.TempQueue", prefetch=10_000)
    client = rig.connect("c")
    names = _temporary(rig, client, MANY)
    client.disconnect()
    again = rig.connect("c", is_reconnect=True)
    _temporary(rig, again, MANY)
    _finish(rig)
    rig.connect().send(names[-1], "kept")
    assert again.consumer(names[-1]).texts == ["kept"]
    last: dict[str, int] = {}
    for message in heard.delivered:
        info = command_of(message).data_structure
        assert isinstance(info, commands.DestinationInfo)
        assert info.destination is not None
        last[str(info.destination.physical_name)] = info.operation_type
    assert set(last.values()) == {commands.DestinationOperation.ADD}


def test_D7_many_consumers_of_one_queue_leave_and_their_messages_go_on_in_order(rig: BrokerRig) -> None:
    leaving, producer = rig.connect(), rig.connect()
    consumers = [leaving.consumer("queue://q", prefetch=2) for _ in range(MANY)]
    for number in range(MANY * 2):
        producer.send("queue://q", f"{number}")
    assert all(len(it.delivered) == 2 for it in consumers)
    other = rig.consumer("queue://q", prefetch=10_000)
    leaving.disconnect()
    assert len(rig.broker.slices) == 1
    _finish(rig)
    assert other.texts == [f"{number}" for number in range(MANY * 2)]
    assert rig.broker.consumer_count(parse_destination("queue://q")) == 1
    audit(rig.broker, rig.store)


def test_D7_who_stops_meanwhile_finds_all_of_it_back(rig: BrokerRig) -> None:
    leaving, producer = rig.connect(), rig.connect()
    for _ in range(MANY):
        leaving.consumer("queue://q", prefetch=1)
    for _ in range(MANY):
        producer.send("queue://q")
    leaving.disconnect()
    producer.disconnect()
    rig.broker.stop()
    assert rig.pending("queue://q") == MANY


def test_A3_a_durable_subscription_is_taken_up_again_while_its_client_leaves(rig: BrokerRig) -> None:
    client = rig.connect("c")
    for number in range(MANY):
        client.consumer("topic://t", subscription_name=f"d{number}")
    client.disconnect()
    again = rig.connect("c")
    consumers = [again.consumer("topic://t", subscription_name=f"d{number}") for number in range(MANY)]
    rig.connect().send("topic://t", "x")
    _finish(rig)
    assert all(it.texts == ["x"] for it in consumers)


def test_D7_a_queue_is_deleted_although_its_consumers_are_still_leaving(rig: BrokerRig) -> None:
    client, other = rig.connect(), rig.connect()
    for number in range(MANY):
        client.consumer(f"queue://q{number}")
    client.disconnect()
    for number in range(MANY):
        rig.broker.remove_destination(other.connection, parse_destination(f"queue://q{number}"))
    _finish(rig)


def test_D7_who_listens_hears_of_an_end_before_the_return(rig: BrokerRig) -> None:
    heard = rig.consumer("topic://ActiveMQ.Advisory.*.Queue.q", prefetch=10_000)
    connection_heard = rig.consumer("topic://ActiveMQ.Advisory.Connection")
    where = parse_destination("queue://q")

    def announce(client: RigClient) -> None:
        for number in range(MANY):
            request = SubscriptionRequest(f"ID:c:{SESSION}:{number}", SESSION, where, 1)
            rig.broker.subscribe(client.connection, request, FakeConsumerPort())
            rig.broker.add_producer(client.connection, Producer(f"ID:c:{SESSION}:{10_000 + number}", SESSION, where))

    client = rig.connect("c")
    announce(client)
    client.disconnect()
    announce(rig.connect("c", is_reconnect=True))
    _finish(rig)
    last: dict[str, bool] = {}
    for message in heard.delivered:
        about = command_of(message).data_structure
        if isinstance(about, commands.RemoveInfo):
            last[str(about.object_id)] = False
        elif isinstance(about, commands.ConsumerInfo):
            last[str(about.consumer_id)] = True
        elif isinstance(about, commands.ProducerInfo):
            last[str(about.producer_id)] = True
    assert len(last) == 2 * MANY
    assert all(last.values())
    about_connection = command_of(connection_heard.delivered[-1]).data_structure
    assert isinstance(about_connection, commands.ConnectionInfo)


def test_D7_a_session_with_many_consumers_closes_in_slices(rig: BrokerRig) -> None:
    client = rig.connect()
    for _ in range(MANY):
        client.consumer("queue://q")
    rig.broker.remove_session(client.connection, SESSION)
    rig.connect().send("queue://q")
    _finish(rig)
    assert rig.pending("queue://q") == 1
    assert not client.connection.subscriptions
