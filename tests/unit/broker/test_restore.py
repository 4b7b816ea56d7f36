"""What comes back when a broker starts on the store of an earlier run."""

import pytest

from ackwire.broker.acks import AckKind
from ackwire.broker.transactions import XA_OK
from ackwire.wire.openwire.commands import XATransactionId
from tests.helpers.broker_rig import BrokerRig

XID = XATransactionId(1, b"global", b"branch")


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def test_A2_messages_of_a_queue_come_back_in_their_order_and_new_ones_follow(rig: BrokerRig) -> None:
    producer = rig.connect()
    for text in ("a", "b", "c"):
        producer.send("queue://q", text)
    again = rig.restarted()
    again.connect("another").send("queue://q", "d")
    assert again.consumer("queue://q").texts == ["a", "b", "c", "d"]


def test_A3_a_durable_subscription_comes_back_with_what_waited_for_it(rig: BrokerRig) -> None:
    subscriber = rig.connect("subscriber").consumer("topic://t", subscription_name="s")
    subscriber.close()
    rig.connect().send("topic://t", "kept")
    again = rig.restarted()
    again.connect("another").send("topic://t", "new")
    assert again.connect("subscriber").consumer("topic://t", subscription_name="s").texts == ["kept", "new"]


def test_G3_what_a_prepared_transaction_sends_is_visible_only_after_the_commit(rig: BrokerRig) -> None:
    again = _restarted_with_prepared(rig)
    consumer = again.consumer("queue://out")
    assert consumer.texts == []
    again.broker.transactor.commit(again.connect().connection, XID, lambda: None, one_phase=False)
    assert consumer.texts == ["sent"]


@pytest.mark.parametrize(("commit", "left"), [(True, []), (False, ["taken"])])
def test_G3_what_a_prepared_transaction_acknowledged_waits_for_its_end(
    rig: BrokerRig, commit: bool, left: list[str]
) -> None:
    again = _restarted_with_prepared(rig)
    consumer = again.consumer("queue://in")
    assert again.broker.transactor.prepared() == [XID]
    assert consumer.texts == []
    if commit:
        again.broker.transactor.commit(again.connect().connection, XID, lambda: None, one_phase=False)
    else:
        again.broker.transactor.roll_back(again.connect().connection, XID)
    assert consumer.texts == left
    assert again.restarted().broker.transactor.prepared() == []


def _restarted_with_prepared(rig: BrokerRig) -> BrokerRig:
    """A run that took one message and sent another in a transaction, prepared it, and ended."""
    client = rig.connect()
    client.send("queue://in", "taken")
    consumer = client.consumer("queue://in")
    rig.broker.transactor.begin(client.connection, XID, is_xa=True)
    [message] = consumer.delivered
    rig.broker.acknowledge(consumer.subscription, AckKind.STANDARD, None, message.key, 1, transaction_id=XID)
    client.send("queue://out", "sent", transaction=XID)
    assert rig.connect().prepare(XID) == XA_OK
    return rig.restarted()
