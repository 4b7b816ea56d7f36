"""Durable subscriptions (SEMANTICS A3); `tests/model/test_durable_model.py` mixes all of this."""

import pytest

from ackwire.errors import BrokerError, InvalidDestination
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def test_A3_what_is_published_while_it_is_away_waits(rig: BrokerRig) -> None:
    client, producer = rig.connect("c"), rig.connect()
    client.consumer("topic://t", subscription_name="s")
    client.disconnect()
    for n in range(3):
        producer.send("topic://t", f"{n}", persistent=n != 1)
    assert rig.connect("c").consumer("topic://t", subscription_name="s").texts == ["0", "1", "2"]
    audit(rig.broker, rig.store)


def test_A3_what_was_published_before_it_subscribed_is_not_for_it(rig: BrokerRig) -> None:
    rig.connect().send("topic://t")
    assert rig.connect("c").consumer("topic://t", subscription_name="s").delivered == []


def test_A3_what_was_not_acknowledged_comes_back_flagged(rig: BrokerRig) -> None:
    client = rig.connect("c")
    consumer = client.consumer("topic://t", subscription_name="s")
    producer = rig.connect()
    for n in range(3):
        producer.send("topic://t", f"{n}")
    consumer.ack(consumer.delivered[0])
    client.disconnect()
    again = rig.connect("c").consumer("topic://t", subscription_name="s")
    assert again.texts == ["1", "2"]
    assert [message.redelivery_counter for message in again.delivered] == [1, 1]


def test_A3_one_consumer_at_a_time(rig: BrokerRig) -> None:
    client = rig.connect("c")
    client.consumer("topic://t", subscription_name="s")
    with pytest.raises(BrokerError, match="in use"):
        client.consumer("topic://t", subscription_name="s")


@pytest.mark.parametrize(("where", "selector"), [("topic://u", None), ("topic://t", "n = 1")])
def test_A3_other_terms_make_it_a_new_one(rig: BrokerRig, where: str, selector: str | None) -> None:
    client, producer = rig.connect("c"), rig.connect()
    client.consumer("topic://t", subscription_name="s").close()
    producer.send("topic://t", properties={"n": Int(1)})
    consumer = client.consumer(where, subscription_name="s", selector=selector)
    assert consumer.delivered == []
    assert rig.broker.flow.used_bytes == 0
    audit(rig.broker, rig.store)


def test_A3_unsubscribe_drops_what_waits_and_is_refused_while_in_use(rig: BrokerRig) -> None:
    client = rig.connect("c")
    consumer = client.consumer("topic://t", subscription_name="s")
    with pytest.raises(BrokerError):
        rig.broker.remove_durable("c", "s")
    consumer.close()
    rig.connect().send("topic://t")
    rig.broker.remove_durable("c", "s")
    assert rig.broker.flow.used_bytes == 0
    assert rig.store.durables() == []
    with pytest.raises(InvalidDestination):
        rig.broker.remove_durable("c", "s")


def test_A3_selector_and_no_local_apply_while_it_is_away(rig: BrokerRig) -> None:
    client, producer = rig.connect("c"), rig.connect()
    client.consumer("topic://t", subscription_name="s", selector="n = 1", no_local=True).close()
    for n in (0, 1):
        client.send("topic://t", "own", properties={"n": Int(n)})
        producer.send("topic://t", f"{n}", properties={"n": Int(n)})
    consumer = client.consumer("topic://t", subscription_name="s", selector="n = 1", no_local=True)
    assert consumer.texts == ["1"]


def test_A3_no_local_leaves_out_the_consumers_connection_and_not_its_client_id(rig: BrokerRig) -> None:
    """Another connection of the same client is heard; the last consumer's connection is left out while it is away."""
    first = rig.connect("c")
    first.consumer("topic://t", subscription_name="s", no_local=True).close()
    first.send("topic://t", "own, away")
    first.disconnect()
    second = rig.connect("c", connection_id="ID:second")
    second.send("topic://t", "of the same client id")
    second.disconnect()
    third = rig.connect("c", connection_id="ID:third")
    third.send("topic://t", "before it subscribed")
    consumer = third.consumer("topic://t", subscription_name="s", no_local=True)
    third.send("topic://t", "own")
    assert consumer.texts == ["of the same client id", "before it subscribed"]


def test_A3_no_local_hears_everything_after_a_restart_until_its_consumer_is_back(rig: BrokerRig) -> None:
    client = rig.connect("c")
    client.consumer("topic://t", subscription_name="s", no_local=True).close()
    again = rig.restarted()
    client = again.connect("c")
    client.send("topic://t", "published while it is away")
    consumer = client.consumer("topic://t", subscription_name="s", no_local=True)
    client.send("topic://t", "own")
    assert consumer.texts == ["published while it is away"]


def test_A3_each_durable_counts_redeliveries_for_itself(rig: BrokerRig) -> None:
    clients = [rig.connect(name) for name in ("c", "d")]
    consumers = [client.consumer("topic://t", subscription_name="s") for client in clients]
    rig.connect().send("topic://t")
    consumers[0].close()
    again = clients[0].consumer("topic://t", subscription_name="s")
    assert [message.redelivery_counter for message in again.delivered] == [1]
    assert [message.redelivery_counter for message in consumers[1].delivered] == [0]


@pytest.mark.parametrize("where", ["queue://q", "topic://a,b"])
def test_A3_only_a_topic_can_be_durable(rig: BrokerRig, where: str) -> None:
    with pytest.raises(InvalidDestination):
        rig.connect("c").consumer(where, subscription_name="s")


def test_G1_a_transaction_outlives_the_subscription_whose_messages_it_acknowledged(rig: BrokerRig) -> None:
    client = rig.connect("c")
    consumer = client.consumer("topic://t", subscription_name="s")
    rig.connect().send("topic://t")
    transaction = client.begin()
    consumer.ack(transaction=transaction)
    consumer.close()
    rig.broker.remove_durable("c", "s")
    client.roll_back(transaction)
    assert rig.broker.flow.used_bytes == 0
    audit(rig.broker, rig.store)
