"""What was promised is kept: marks, prepared transactions, sends that waited, the way to the dead letters."""

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.transactions import XA_OK, TransactionError
from ackwire.config.policy import DestinationPolicy
from ackwire.wire.openwire.commands import XATransactionId
from tests.helpers.broker_rig import BrokerRig, text_of

XID = XATransactionId(1, b"global", b"branch")


def test_D7_what_was_seen_is_marked_by_order_of_dispatch_not_of_arrival() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="q", prioritized=True),))
    producer = rig.connect()
    first = producer.send("queue://q", "low", priority=1)
    producer.send("queue://q", "high", priority=9)
    consumer = rig.consumer("queue://q")
    assert consumer.texts == ["high", "low"]
    rig.broker.unsubscribe(consumer.subscription, last_delivered=first.sequence)
    again = rig.consumer("queue://q")
    assert [(text_of(m), m.redelivery_counter) for m in again.delivered] == [("high", 1), ("low", 1)]


def test_G3_a_prepared_commit_is_not_undone_by_a_destination_that_went() -> None:
    rig = BrokerRig()
    asker, client = rig.connect("asker"), rig.connect("client")
    gone = asker.temporary_queue()
    rig.broker.transaction_manager.begin(client.connection, XID, is_xa=True)
    client.send("queue://pay", "paid", transaction=XID)
    client.send(gone, "reply", transaction=XID)
    assert client.prepare(XID) == XA_OK
    asker.disconnect()
    rig.broker.transaction_manager.commit(client.connection, XID, lambda: None, one_phase=False)
    assert rig.consumer("queue://pay").texts == ["paid"]
    assert rig.consumer("queue://ActiveMQ.DLQ").texts == ["reply"]


def test_K1_messages_of_temporary_queues_do_not_stop_the_next_start() -> None:
    rig = BrokerRig()
    asker = rig.connect("asker")
    rig.connect().send(asker.temporary_queue(), "reply")
    assert rig.restarted().broker.registry.queues() == []


def test_F4_two_copies_of_one_message_in_a_queue_are_two_for_the_store() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", dead_letter_once=False),))
    for name in ("a", "b"):
        rig.connect(name).consumer("topic://t", subscription_name="s").close()
    rig.connect().send("topic://t", "poison")
    for name in ("a", "b"):
        client = next(c for c in rig.broker.connections() if c.client_id == name)
        rig.broker.disconnect(client)
        consumer = rig.connect(name).consumer("topic://t", subscription_name="s")
        [message] = consumer.delivered
        consumer.ack(message, kind=AckKind.POISON)
    dead = rig.consumer("queue://ActiveMQ.DLQ", prefetch=1)
    dead.ack()
    assert len(rig.restarted().consumer("queue://ActiveMQ.DLQ").delivered) == 1


def test_A8_a_listener_to_advisories_harms_no_pattern_consumer() -> None:
    rig = BrokerRig()
    rig.consumer("topic://ActiveMQ.Advisory.>")
    consumer = rig.consumer("queue://orders.>")
    rig.connect().send("queue://orders.new", "m")
    assert consumer.texts == ["m"]
    consumer.client.disconnect()
    assert rig.consumer("queue://orders.new").texts == ["m"]


def test_A8_a_transaction_cannot_speak_for_the_broker() -> None:
    rig = BrokerRig()
    client = rig.connect()
    transaction = client.begin()
    client.send("queue://q", "m", transaction=transaction)
    client.send("topic://ActiveMQ.Advisory.TempQueue", "forged", transaction=transaction)
    with pytest.raises(TransactionError, match="broker's own"):
        client.commit(transaction)
    assert rig.pending("queue://q") == 0
