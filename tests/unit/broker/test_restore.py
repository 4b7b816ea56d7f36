"""What comes back when a broker starts on the store of an earlier run."""

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.transactions import XA_OK
from ackwire.errors import ConfigError
from ackwire.store.contract import CursorRecord, DurableKey, DurableRecord
from ackwire.wire.openwire.commands import XATransactionId
from tests.helpers.broker_rig import BrokerRig, named

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
    again.broker.transaction_manager.commit(again.connect().connection, XID, lambda: None, one_phase=False)
    assert consumer.texts == ["sent"]


@pytest.mark.parametrize(("commit", "left"), [(True, []), (False, ["taken"])])
def test_G3_what_a_prepared_transaction_acknowledged_waits_for_its_end(
    rig: BrokerRig, commit: bool, left: list[str]
) -> None:
    again = _restarted_with_prepared(rig)
    consumer = again.consumer("queue://in")
    assert again.broker.transaction_manager.prepared(again.connect().connection) == [XID]
    assert consumer.texts == []
    if commit:
        again.broker.transaction_manager.commit(again.connect().connection, XID, lambda: None, one_phase=False)
    else:
        again.broker.transaction_manager.roll_back(again.connect().connection, XID)
    assert consumer.texts == left
    third = again.restarted()
    assert third.broker.transaction_manager.prepared(third.connect().connection) == []


def _restarted_with_prepared(rig: BrokerRig) -> BrokerRig:
    """A run that took one message and sent another in a transaction, prepared it, and ended."""
    client = rig.connect()
    client.send("queue://in", "taken")
    consumer = client.consumer("queue://in")
    rig.broker.transaction_manager.begin(client.connection, XID, is_xa=True)
    [message] = consumer.delivered
    rig.broker.acknowledge(consumer.subscription, AckKind.STANDARD, None, message.key, 1, transaction_id=XID)
    client.send("queue://out", "sent", transaction=XID)
    assert rig.connect().prepare(XID) == XA_OK
    return rig.restarted()


# ---- a start is silent (issue: a durable subscription to everything and the broker never started again) --------------


@pytest.mark.parametrize("pattern", [">", "ActiveMQ.Advisory.>", "ActiveMQ.Advisory.Queue", "*", "t"])
def test_A3_whatever_a_durable_subscription_listens_to_the_next_starts_succeed(pattern: str) -> None:
    rig = BrokerRig()
    rig.connect("everything").consumer(f"topic://{pattern}", subscription_name="s").client.disconnect()
    for number in range(3):
        producer = rig.connect(f"producer{number}")
        producer.send("topic://t", f"t{number}")
        for name in "abc":
            producer.send(f"queue://{name}{number}")
        rig = rig.restarted()
    texts = rig.connect("everything").consumer(f"topic://{pattern}", subscription_name="s").texts
    if pattern in (">", "*", "t"):
        assert [text for text in texts if text] == ["t0", "t1", "t2"]


def test_a_start_tells_of_nothing_that_it_brings_back() -> None:
    rig = BrokerRig()
    rig.connect("everything").consumer("topic://>", subscription_name="s").client.disconnect()
    rig.connect("another").consumer("topic://t", subscription_name="s").client.disconnect()
    rig.connect("producer").send("queue://q")
    sequence = rig.store.last_sequence()
    again = rig.restarted()
    assert all(queue.contents.enqueued == 0 for queue in again.broker.registry.queues())
    assert again.broker.publisher.take_sequences(1) == sequence + 1


def test_limits_that_were_lowered_since_do_not_stop_a_start() -> None:
    rig = BrokerRig()
    for number in range(3):
        rig.connect(f"c{number}").consumer(f"topic://t{number}", subscription_name="s").client.disconnect()
        rig.connect(f"p{number}").send(f"queue://q{number}")
    again = BrokerRig(store=rig.store, settings={"destinations": {"count_max": 1}})
    assert len(again.broker.registry.durables) == 3
    assert {again.pending(f"queue://q{number}") for number in range(3)} == {1}


def test_a_subscription_whose_selector_is_not_accepted_any_more_keeps_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = BrokerRig()
    record = DurableRecord(DurableKey("c", "s"), named("topic://t"), "this is (no selector", no_local=False)
    rig.store.add_durable(record)
    again = rig.restarted()
    again.connect().send("topic://t", "kept")
    assert again.broker.registry.durables[record.key].queue.view.pending_count == 1
    assert "its selector is not accepted any more" in caplog.text


def test_what_cannot_be_brought_back_is_named_and_what_to_do() -> None:
    rig = BrokerRig()
    rig.store.put_state_record(
        CursorRecord("lost", DurableKey("ackwire", "lost"), named("topic://t"), None, 0, 0, (), ())
    )
    with pytest.raises(ConfigError, match=r"cursor lost cannot be brought back .* `ackwire store repair`"):
        rig.restarted()
