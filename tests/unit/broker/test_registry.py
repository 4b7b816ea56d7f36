"""Destinations and who owns them (SEMANTICS A8)."""

import pytest

from ackwire.broker.session import Login, Producer
from ackwire.errors import (
    BrokerError,
    InvalidClientId,
    InvalidDestination,
    NotAuthorised,
    ResourceLimit,
    UnknownResource,
)
from tests.helpers.broker_rig import BrokerRig, FakeClientPort, logged_in, named
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def test_A8_only_the_owner_consumes_from_a_temporary_queue_and_anyone_sends(rig: BrokerRig) -> None:
    owner, other = rig.connect(), rig.connect()
    temporary = owner.temporary_queue()
    other.send(temporary, "answer")
    with pytest.raises(NotAuthorised):
        other.consumer(temporary)
    assert owner.consumer(temporary).texts == ["answer"]


def test_A8_a_temporary_queue_dies_with_its_connection(rig: BrokerRig) -> None:
    owner, other = rig.connect(), rig.connect()
    temporary = owner.temporary_queue()
    owner.consumer(temporary)
    other.send(temporary)
    owner.disconnect()
    with pytest.raises(InvalidDestination):
        other.send(temporary)
    with pytest.raises(InvalidDestination):
        other.consumer(temporary)
    assert rig.broker.flow.used_bytes == 0
    audit(rig.broker, rig.store)


def test_A8_only_the_owner_removes_a_temporary_queue(rig: BrokerRig) -> None:
    owner, other = rig.connect(), rig.connect()
    temporary = owner.temporary_queue()
    with pytest.raises(NotAuthorised):
        rig.broker.remove_destination(other.connection, temporary)
    rig.broker.remove_destination(owner.connection, temporary)
    with pytest.raises(InvalidDestination):
        other.send(temporary)


def test_A8_a_destination_in_use_is_not_removed(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q")
    with pytest.raises(BrokerError, match="1 consumer"):
        rig.broker.remove_destination(consumer.client.connection, named("queue://q"))
    consumer.close()
    rig.connect().send("queue://q")
    rig.broker.remove_destination(consumer.client.connection, named("queue://q"))
    assert rig.broker.flow.used_bytes == 0
    rig.broker.remove_destination(consumer.client.connection, named("queue://q"))  # again: it is gone already


def test_G1_a_transaction_outlives_the_queue_whose_messages_it_acknowledged(rig: BrokerRig) -> None:
    """And what it held does not turn up in a queue of the same name that was made since."""
    for commits in (False, True):
        consumer = rig.consumer("queue://q")
        client = consumer.client
        rig.connect().send("queue://q")
        transaction = client.begin()
        consumer.ack(transaction=transaction)
        consumer.close()
        rig.broker.remove_destination(client.connection, named("queue://q"))
        again = rig.consumer("queue://q")
        if commits:
            client.commit(transaction)
        else:
            client.roll_back(transaction)
        assert again.delivered == []
        assert rig.broker.flow.used_bytes == 0
        audit(rig.broker, rig.store)
        again.client.disconnect()
        client.disconnect()


def test_a_stated_limit_of_destinations() -> None:
    limited = BrokerRig(settings={"destinations": {"count_max": 2}})
    producer = limited.connect()
    producer.send("queue://a")
    producer.send("queue://b")
    with pytest.raises(ResourceLimit):
        producer.send("queue://c")
    producer.send("queue://a")


def test_a_client_id_belongs_to_one_connection(rig: BrokerRig) -> None:
    rig.connect("c")
    with pytest.raises(InvalidClientId):
        rig.broker.connect(Login("ID:another", "c"), FakeClientPort())
    with pytest.raises(InvalidClientId):
        rig.broker.connect(Login("ID:x", None), FakeClientPort())


def test_the_same_connection_id_replaces_the_old_connection(rig: BrokerRig) -> None:
    client = rig.connect("c")
    consumer = client.consumer("queue://q")
    rig.connect().send("queue://q")
    logged_in(rig.broker, Login("ID:c", "c"), FakeClientPort())
    assert client.port.closed is not None
    assert rig.pending("queue://q") == 1
    assert consumer.delivered[0].redelivery_counter == 1


def test_consumers_and_producers_need_a_session_that_was_announced(rig: BrokerRig) -> None:
    client = rig.connect()
    rig.broker.remove_session(client.connection, 1)
    with pytest.raises(UnknownResource):
        client.consumer("queue://q")
    with pytest.raises(UnknownResource):
        rig.broker.add_producer(client.connection, Producer("x:1:1", 1, None))
    with pytest.raises(UnknownResource):
        rig.broker.remove_session(client.connection, 1)
    with pytest.raises(UnknownResource):
        rig.broker.remove_producer(client.connection, "nobody:1:1")
    with pytest.raises(UnknownResource):
        rig.broker.subscription(client.connection, "nobody:1:1")


def test_disconnecting_twice_is_harmless(rig: BrokerRig) -> None:
    client = rig.connect()
    client.disconnect()
    client.disconnect()
    assert rig.broker.connections() == []


def test_J4_a_client_that_comes_back_and_repeats_a_send_is_understood(rig: BrokerRig) -> None:
    client = rig.connect("c")
    message = client.message("queue://q")
    client.send_message(message)
    client.disconnect()
    back = logged_in(rig.broker, Login("ID:c", "c", is_reconnect=True), FakeClientPort())
    answers: list[str] = []
    rig.broker.send(back, message.copy(), lambda: answers.append("stored"))
    assert answers == ["stored"]
    assert rig.pending("queue://q") == 1


def test_J4_a_repetition_needs_no_space() -> None:
    """It is stored already: refusing it would make the client send it once more."""
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 1, "when_full": "fail"}})
    client = rig.connect("c")
    message = client.message("queue://q")
    client.send_message(message)
    client.disconnect()
    back = logged_in(rig.broker, Login("ID:c", "c", is_reconnect=True), FakeClientPort())
    answers: list[str] = []
    rig.broker.send(back, message.copy(), lambda: answers.append("stored"))
    assert answers == ["stored"]
