"""Transactions, local and XA (SEMANTICS G)."""

from collections.abc import Callable

import pytest

from ackwire.broker.transactions import XA_OK, XA_READ_ONLY, TransactionError
from ackwire.errors import BrokerError
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def _xa(name: str = "x") -> commands.XATransactionId:
    return commands.XATransactionId(1, name.encode(), b"b")


def _begin_xa(rig: BrokerRig, client: RigClient, name: str = "x") -> commands.XATransactionId:
    transaction = _xa(name)
    rig.broker.transaction_manager.begin(client.connection, transaction, is_xa=True)
    return transaction


def _commit_prepared(rig: BrokerRig, transaction: commands.TransactionId) -> None:
    rig.broker.transaction_manager.commit(rig.connect().connection, transaction, lambda: None, one_phase=False)


def test_G1_sends_are_visible_at_the_commit_in_order(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    transaction = client.begin()
    for n in range(3):
        client.send("queue://q", f"{n}", transaction=transaction)
    assert (consumer.texts, rig.pending("queue://q")) == ([], 0)
    client.commit(transaction)
    assert consumer.texts == ["0", "1", "2"]
    audit(rig.broker, rig.store)


def test_G1_rollback_leaves_no_trace_of_sends(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    transaction = client.begin()
    client.send("queue://q", transaction=transaction)
    client.roll_back(transaction)
    assert consumer.delivered == []
    assert rig.broker.flow.used_bytes == rig.broker.flow.uncommitted_bytes == 0


def test_G1_rolled_back_acks_leave_the_messages_with_the_consumer(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=2)
    producer = rig.connect()
    messages = [producer.send("queue://q", f"{n}") for n in range(4)]
    transaction = consumer.client.begin()
    consumer.ack(messages[0], transaction=transaction)
    consumer.ack(messages[1], transaction=transaction)
    assert consumer.texts == ["0", "1", "2", "3"]
    consumer.client.roll_back(transaction)
    consumer.ack(messages[3], first=messages[0], count=4)
    assert rig.broker.flow.used_bytes == 0


def test_G1_rolled_back_acks_of_a_consumer_that_has_gone_return_to_their_place(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=2)
    producer = rig.connect()
    for n in range(4):
        producer.send("queue://q", f"{n}")
    transaction = consumer.client.begin()
    consumer.ack(consumer.delivered[1], count=2, transaction=transaction)
    consumer.close(-1)
    consumer.client.roll_back(transaction)
    again = rig.consumer("queue://q")
    assert again.texts == ["0", "1", "2", "3"]
    assert [message.redelivery_counter for message in again.delivered] == [1, 1, 0, 0]
    audit(rig.broker, rig.store)


def test_G1_a_lost_connection_rolls_back(rig: BrokerRig) -> None:
    client, other = rig.connect(), rig.consumer("queue://out")
    rig.connect().send("queue://in")
    consumer = client.consumer("queue://in")
    transaction = client.begin()
    consumer.ack(transaction=transaction)
    client.send("queue://out", transaction=transaction)
    client.disconnect()
    assert other.delivered == []
    assert rig.pending("queue://in") == 1
    assert list(rig.broker.transaction_manager.transactions) == []
    audit(rig.broker, rig.store)


def test_G1_a_commit_that_cannot_be_carried_out_does_nothing_and_says_so(rig: BrokerRig) -> None:
    owner, client = rig.connect(), rig.connect()
    temporary = owner.temporary_queue()
    rig.connect().send("queue://in")
    consumer = client.consumer("queue://in")
    transaction = client.begin()
    consumer.ack(transaction=transaction)
    client.send("queue://q", transaction=transaction)
    client.send(temporary, transaction=transaction)
    owner.disconnect()
    with pytest.raises(TransactionError, match="rolled back"):
        client.commit(transaction)
    assert rig.pending("queue://q") == 0
    assert consumer.subscription.dispatched == 1
    audit(rig.broker, rig.store)


def test_G1_what_failed_unheard_fails_the_commit(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = client.begin()
    client.send("queue://q", transaction=transaction)
    rig.broker.transaction_manager.fail(client.connection, transaction, "something went wrong")
    with pytest.raises(TransactionError, match="something went wrong"):
        client.commit(transaction)
    assert rig.pending("queue://q") == 0


def test_J4_a_repeated_local_commit_is_answered_and_applied_once(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = client.begin()
    client.send("queue://q", transaction=transaction)
    client.commit(transaction)
    answers: list[bool] = []
    client.connection.is_reconnect = True
    client.begin()  # the same id: a client that came back repeats everything
    client.send("queue://q", transaction=transaction)
    rig.broker.transaction_manager.commit(client.connection, transaction, lambda: answers.append(True), one_phase=True)
    assert answers == [True]
    assert rig.pending("queue://q") == 1
    assert rig.broker.flow.uncommitted_bytes == 0


def test_G1_a_repeated_rollback_is_harmless(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = client.begin()
    client.roll_back(transaction)
    client.roll_back(transaction)


@pytest.mark.parametrize(
    "verb",
    [
        lambda rig, xid: rig.broker.transaction_manager.commit(
            rig.connect().connection, xid, lambda: None, one_phase=True
        ),
        lambda rig, xid: rig.broker.transaction_manager.commit(
            rig.connect().connection, xid, lambda: None, one_phase=False
        ),
        lambda rig, xid: rig.broker.transaction_manager.roll_back(rig.connect().connection, xid),
        lambda rig, xid: rig.connect().prepare(xid),
    ],
)
def test_G_unknown_transactions_are_refused(
    rig: BrokerRig, verb: Callable[[BrokerRig, commands.XATransactionId], object]
) -> None:
    with pytest.raises(BrokerError):
        verb(rig, _xa("unknown"))


def test_G_a_send_in_an_unknown_transaction_is_refused(rig: BrokerRig) -> None:
    with pytest.raises(TransactionError):
        rig.connect().send("queue://q", transaction=_xa("unknown"))
    assert rig.broker.flow.used_bytes == 0


def test_G3_two_phases(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = _begin_xa(rig, client)
    client.send("queue://q", transaction=transaction)
    with pytest.raises(TransactionError, match="not prepared"):
        _commit_prepared(rig, transaction)
    assert rig.connect().prepare(transaction) == XA_OK
    assert rig.connect().prepare(transaction) == XA_OK
    with pytest.raises(TransactionError, match="no more work"):
        client.send("queue://q", transaction=transaction)
    assert rig.pending("queue://q") == 0
    _commit_prepared(rig, transaction)
    assert rig.pending("queue://q") == 1


def test_G3_nothing_to_commit_is_read_only(rig: BrokerRig) -> None:
    client = rig.connect()
    assert rig.connect().prepare(_begin_xa(rig, client)) == XA_READ_ONLY
    assert rig.broker.transaction_manager.prepared(rig.connect().connection) == []


@pytest.mark.parametrize("commits", [True, False])
def test_G3_a_prepared_transaction_outlives_its_connection(rig: BrokerRig, commits: bool) -> None:
    client = rig.connect()
    rig.connect().send("queue://in")
    consumer = client.consumer("queue://in")
    transaction = _begin_xa(rig, client)
    consumer.ack(transaction=transaction)
    client.send("queue://out", transaction=transaction)
    rig.connect().prepare(transaction)
    client.disconnect()
    assert rig.broker.transaction_manager.prepared(rig.connect().connection) == [transaction]
    assert (rig.pending("queue://in"), rig.pending("queue://out")) == (0, 0)
    audit(rig.broker, rig.store)
    if commits:
        _commit_prepared(rig, transaction)
    else:
        rig.broker.transaction_manager.roll_back(rig.connect().connection, transaction)
    assert (rig.pending("queue://in"), rig.pending("queue://out")) == ((0, 1) if commits else (1, 0))
    assert rig.broker.transaction_manager.prepared(rig.connect().connection) == []
    audit(rig.broker, rig.store)


def test_G3_an_unprepared_xa_transaction_dies_with_its_connection(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = _begin_xa(rig, client)
    client.send("queue://q", transaction=transaction)
    client.disconnect()
    with pytest.raises(BrokerError):
        rig.connect().prepare(transaction)
    assert rig.broker.flow.used_bytes == 0


def test_G3_two_transactions_of_one_consumer_are_decided_apart(rig: BrokerRig) -> None:
    client = rig.connect()
    consumer = client.consumer("queue://q")
    producer = rig.connect()
    messages = [producer.send("queue://q", f"{n}") for n in range(3)]
    first, second = _begin_xa(rig, client, "1"), _begin_xa(rig, client, "2")
    consumer.ack(messages[0], transaction=first)
    consumer.ack(messages[1], transaction=second)
    rig.broker.transaction_manager.commit(client.connection, second, lambda: None, one_phase=True)
    rig.broker.transaction_manager.roll_back(client.connection, first)
    client.disconnect()
    assert rig.consumer("queue://q").texts == ["0", "2"]
    audit(rig.broker, rig.store)


def test_A3_a_transacted_publication_reaches_subscribers_at_the_commit(rig: BrokerRig) -> None:
    client, subscriber = rig.connect(), rig.consumer("topic://t")
    transaction = client.begin()
    client.send("topic://t", transaction=transaction)
    assert subscriber.delivered == []
    client.commit(transaction)
    assert len(subscriber.delivered) == 1
    assert rig.broker.flow.used_bytes == 0
