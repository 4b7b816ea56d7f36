"""Memory limits: producers wait, consumers drain, nothing hangs and nothing is lost (SEMANTICS B4, B6)."""

from collections.abc import Callable
from typing import Any

import pytest

from ackwire.broker.transactions import TransactionError
from ackwire.config import LimitSettings
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import ResourceLimit
from ackwire.util.clock import ManualClock, Timer
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.simulation.audit import audit


def _rig(**limits: Any) -> BrokerRig:
    return BrokerRig(settings={"limits": {"memory_bytes_max": 1000, **limits}})


def _fill(client: RigClient, where: str = "queue://q") -> int:
    """Send until one waits; the answer is how many are in."""
    sent = 0
    while client.stored == sent:
        client.send(where, f"{sent}")
        sent += 1
    return sent - 1


def _send_many(client: RigClient, count: int, **options: Any) -> None:
    for _ in range(count):
        client.send("queue://q", **options)


def _drain(consumer: RigConsumer) -> None:
    while consumer.subscription.dispatched:
        consumer.ack_each()


def test_B6_a_send_waits_for_space_and_goes_on_by_itself() -> None:
    rig = _rig()
    producer = rig.connect()
    stored = _fill(producer)
    assert rig.pending("queue://q") == stored
    consumer = rig.consumer("queue://q")
    _drain(consumer)
    assert producer.stored == stored + 1
    assert consumer.texts == [f"{n}" for n in range(stored + 1)]
    audit(rig.broker, rig.store)


def test_B6_the_order_of_a_connection_holds_while_it_waits() -> None:
    rig = _rig()
    producer = rig.connect()
    count = _fill(producer) + 1
    for _ in range(3):
        producer.send("queue://q", f"{count}")
        count += 1
    consumer = rig.consumer("queue://q", prefetch=1)
    _drain(consumer)
    assert consumer.texts == [f"{n}" for n in range(count)]


def test_B6_fail_refuses_at_once() -> None:
    rig = _rig(when_full="fail")
    producer = rig.connect()
    with pytest.raises(ResourceLimit, match="memory is full"):
        _fill(producer)
    assert rig.pending("queue://q") == producer.stored
    audit(rig.broker, rig.store)


def test_B6_a_send_that_waits_too_long_is_refused_and_those_behind_it_stay_in_order() -> None:
    rig = _rig(block_timeout_seconds=2)
    producer = rig.connect()
    stored = _fill(producer)
    rig.clock.advance(1)
    producer.send("queue://q", "later")
    rig.clock.advance(1.5)
    assert [type(error) for error in producer.refused] == [ResourceLimit]
    consumer = rig.consumer("queue://q")
    _drain(consumer)
    assert consumer.texts == [*(f"{n}" for n in range(stored)), "later"]
    audit(rig.broker, rig.store)


def test_B6_a_connection_that_sends_on_is_not_read_from_until_there_is_space() -> None:
    rig = _rig(held_bytes_max=300)
    producer = rig.connect()
    _fill(producer)
    producer.send("queue://q")
    assert producer.port.is_held
    _drain(rig.consumer("queue://q"))
    assert not producer.port.is_held


def test_B6_a_connection_that_holds_messages_is_read_from_and_its_sends_are_refused() -> None:
    """Its acks may be what everybody waits for."""
    rig = _rig(held_bytes_max=300)
    client = rig.connect()
    consumer = client.consumer("queue://q")
    _fill(client)
    with pytest.raises(ResourceLimit, match="not held up"):
        _send_many(client, 5)
    assert not client.port.is_held
    _drain(consumer)
    audit(rig.broker, rig.store)


def test_B6_a_connection_whose_acks_are_in_an_open_transaction_is_read_from() -> None:
    rig = _rig(held_bytes_max=0)
    client, producer = rig.connect(), rig.connect()
    consumer = client.consumer("queue://q")
    _fill(producer)
    transaction = client.begin()
    for message in list(consumer.delivered):
        consumer.ack(message, transaction=transaction)
    with pytest.raises(ResourceLimit):
        client.send("queue://other")
    assert not client.port.is_held
    client.commit(transaction)
    client.send("queue://other")
    audit(rig.broker, rig.store)


def test_B6_what_waits_is_not_lost_when_its_connection_goes() -> None:
    rig = _rig()
    producer = rig.connect()
    stored = _fill(producer)
    producer.disconnect()
    consumer = rig.consumer("queue://q")
    _drain(consumer)
    assert len(consumer.delivered) == stored + 1
    audit(rig.broker, rig.store)


def test_B6_expiry_makes_space() -> None:
    rig = _rig()
    producer = rig.connect()
    for _ in range(10):
        producer.send("queue://q", expiration=rig.clock.now_ms() + 1000, persistent=False)
    waiting = 10 - producer.stored
    assert waiting > 0
    rig.clock.advance(40)
    assert producer.stored == 10
    audit(rig.broker, rig.store)


def test_B6_connections_take_turns_when_there_is_space_again() -> None:
    rig = _rig()
    first, second = rig.connect(), rig.connect()
    _fill(first)
    for client in (first, second):
        for _ in range(3):
            client.send("queue://q")
    consumer = rig.consumer("queue://q", prefetch=1)
    consumer.ack_each()
    _drain(consumer)
    assert second.stored == 3


class TurnClock(ManualClock):
    """What is to be done without delay is done in the next turn."""

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        return super().call_later(max(delay_seconds, 1.0), callback)


@pytest.mark.parametrize("clients", [1, 40])
def test_B6_very_many_sends_go_on_in_slices_in_their_order(clients: int) -> None:
    limits = {"memory_bytes_max": 1000, "held_bytes_max": 1 << 30, "blocked_bytes_max": 1 << 30}
    rig = BrokerRig(settings={"limits": limits}, clock=TurnClock(), slice_units=50, is_audited=False)
    _fill(rig.connect(), "queue://full")
    producers = [rig.connect() for _ in range(clients)]
    for number in range(400):
        producers[number % clients].send("queue://q", f"{number}")
    released = 0
    rig.broker.flow.use(LimitSettings())
    while rig.broker.flow.held():
        before, released = released, sum(it.stored for it in producers)
        assert 0 < released - before <= 50
        late = rig.connect()
        late.send("queue://other")
        assert late.stored == 1, "others need not wait for them"
        if before == 0:
            producers[0].send("queue://q", "400")
        rig.clock.advance(1)
    assert sum(it.stored for it in producers) == 401
    texts = rig.consumer("queue://q").texts
    for first in range(clients):
        own = [f"{number}" for number in range(first, 400, clients)] + ["400"] * (first == 0)
        assert [it for it in texts if it in own] == own
    audit(rig.broker, rig.store)


def test_B6_space_that_comes_between_slices_is_used() -> None:
    """Those whose turn has been are looked at again."""
    limits = {"memory_bytes_max": 1 << 30, "held_bytes_max": 1 << 30, "blocked_bytes_max": 1 << 30}
    policies = tuple(DestinationPolicy(f"q.{it}", memory_bytes_max=10) for it in range(100))
    rig = BrokerRig(settings={"limits": limits}, policies=policies, clock=TurnClock(), slice_units=30, is_audited=False)
    producers = [rig.connect() for _ in range(100)]
    for number, producer in enumerate(producers):
        producer.send(f"queue://q.{number}")
        producer.send(f"queue://q.{number}")
    assert not any(it.stored > 1 for it in producers)
    rig.broker.flow.release()  # the first slice: none can go on
    consumer = rig.consumer("queue://q.0")
    consumer.ack()
    rig.clock.advance(20)
    assert [it.stored for it in producers] == [2] + [1] * 99
    assert len(rig.broker.flow.held()) == 99


def test_G1_a_commit_takes_sends_that_still_wait_for_space() -> None:
    """The transaction is whole: what waited was sent before the commit."""
    rig = _rig()
    client = rig.connect()
    filled = _fill(rig.connect())
    transaction = client.begin()
    for n in range(3):
        client.send("queue://q", f"tx {n}", transaction=transaction)
    client.commit(transaction)
    consumer = rig.consumer("queue://q")
    _drain(consumer)
    assert [text for text in consumer.texts if text and text.startswith("tx")] == ["tx 0", "tx 1", "tx 2"]
    assert len(consumer.delivered) == filled + 4
    audit(rig.broker, rig.store)


def test_G1_a_rollback_takes_sends_that_still_wait_with_it() -> None:
    rig = _rig()
    client = rig.connect()
    filled = _fill(rig.connect())
    transaction = client.begin()
    client.send("queue://q", transaction=transaction)
    client.roll_back(transaction)
    consumer = rig.consumer("queue://q")
    _drain(consumer)
    assert len(consumer.delivered) == filled + 1
    assert client.refused == []


def test_B6_a_transaction_is_not_held_up_by_itself() -> None:
    """Only its own end can make space: it goes on, up to a limit of its own, and then it fails."""
    rig = _rig(held_bytes_max=0)
    client = rig.connect()
    transaction = client.begin()
    with pytest.raises(ResourceLimit, match="commit more often"):
        _send_many(client, 20, transaction=transaction)
    assert not client.port.is_held
    rig.broker.transaction_manager.fail(client.connection, transaction, "a send was refused")
    with pytest.raises(TransactionError):
        client.commit(transaction)
    assert rig.broker.flow.used_bytes == 0


def test_B6_a_committed_publication_makes_space_for_those_who_wait() -> None:
    rig = _rig()
    client, producer = rig.connect(), rig.connect()
    transaction = client.begin()
    for _ in range(3):
        client.send("topic://t", transaction=transaction)
    stored = _fill(producer)
    client.commit(transaction)
    audit(rig.broker, rig.store)
    _drain(rig.consumer("queue://q"))
    assert producer.stored == stored + 1


def test_B6_a_full_queue_holds_up_its_producers_only() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="q", memory_bytes_max=500),))
    producer, other = rig.connect(), rig.connect()
    stored = _fill(producer)
    other.send("queue://other")
    assert other.stored == 1
    _drain(rig.consumer("queue://q"))
    assert producer.stored == stored + 1
    audit(rig.broker, rig.store)


def test_B6_when_one_gives_up_those_behind_it_for_other_queues_go_on() -> None:
    policy = DestinationPolicy(match="q", memory_bytes_max=500, block_timeout_seconds=2)
    rig = BrokerRig(policies=(policy,))
    producer = rig.connect()
    stored = _fill(producer)
    rig.clock.advance(1)
    producer.send("queue://other")
    assert producer.stored == stored
    rig.clock.advance(1.5)
    assert (len(producer.refused), producer.stored) == (1, stored + 1)
    audit(rig.broker, rig.store)
