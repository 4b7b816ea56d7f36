"""What waits for space is bounded for the whole broker, and so is what is taken from clients that leave (B6, N2)."""

import logging
from typing import Any

import pytest

from ackwire.broker.auditing import Event
from ackwire.broker.transactions import TransactionError
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import ResourceLimit
from tests.helpers.broker_rig import BrokerRig, RigClient
from tests.simulation.audit import audit

BODY = "x" * 400
BOUND_BYTES = 3000


def _rig(policies: tuple[DestinationPolicy, ...] = (), **limits: Any) -> BrokerRig:
    given = {"memory_bytes_max": 2000, "blocked_bytes_max": BOUND_BYTES, "held_bytes_max": 100_000, **limits}
    return BrokerRig(settings={"limits": given}, policies=policies)


def _fill(rig: BrokerRig, where: str = "queue://q") -> RigClient:
    """Send until one send waits."""
    client = rig.connect()
    sent = 0
    while client.stored == sent:
        client.send(where, BODY)
        sent += 1
    return client


def _send_until_held(client: RigClient, where: str = "queue://q", **options: Any) -> int:
    """Send until the broker reads no more; the answer is how many were sent."""
    sent = 0
    while not client.port.is_held:
        client.send(where, BODY, **options)
        sent += 1
    return sent


def test_B6_once_sends_that_wait_reach_their_bound_no_producer_is_read_from() -> None:
    rig = _rig()
    _fill(rig)
    greedy, late = rig.connect(), rig.connect()
    assert _send_until_held(greedy) > 1
    assert _send_until_held(late) == 1, "its first send waits, and nothing more is read"
    assert rig.broker.flow.blocked_bytes < 2 * BOUND_BYTES


def test_B6_those_who_were_not_read_go_on_when_there_is_space() -> None:
    rig = _rig()
    first = _fill(rig)
    clients = [rig.connect() for _ in range(3)]
    for client in clients:
        _send_until_held(client)
    consumer = rig.consumer("queue://q")
    while consumer.subscription.dispatched:
        consumer.ack_each()
    assert not any(client.port.is_held for client in (first, *clients))
    assert rig.broker.flow.blocked_bytes == 0
    assert not any(client.refused for client in clients)
    audit(rig.broker, rig.store)


def test_B6_sends_are_refused_at_twice_the_bound() -> None:
    rig = _rig()
    _fill(rig)
    while rig.broker.flow.blocked_bytes < 2 * BOUND_BYTES:
        rig.connect().send("queue://q", BODY)  # each of them is read once, and not again
    with pytest.raises(ResourceLimit, match=r"twice limits\.blocked_bytes_max"):
        rig.connect().send("queue://q", BODY)
    assert rig.broker.flow.blocked_bytes < 2 * BOUND_BYTES + 1000


def test_B6_no_large_frame_is_received_while_the_bound_is_reached() -> None:
    rig = _rig()
    _fill(rig)
    room = rig.broker.receive_room

    class User:
        goes_on = 0

        def go_on(self) -> None:
            self.goes_on += 1

        def give_room_up(self, reason: str) -> None:
            raise AssertionError(reason)

    before, after = User(), User()
    assert room.ask(before, 5_000_000)
    _send_until_held(rig.connect())
    assert not room.ask(after, 5_000_000)
    consumer = rig.consumer("queue://q")
    while consumer.subscription.dispatched:
        consumer.ack_each()
    assert after.goes_on == 1


def test_B6_a_full_queue_holds_up_its_own_producers_only() -> None:
    rig = _rig((DestinationPolicy("queue://q", memory_bytes_max=1000),), memory_bytes_max=100_000)
    _fill(rig)
    _send_until_held(rig.connect())
    assert rig.broker.receive_room.ask(_Nobody(), 5_000_000)
    other = rig.connect()
    other.send("queue://other", BODY)
    assert other.stored == 1


class _Nobody:
    def go_on(self) -> None: ...
    def give_room_up(self, reason: str) -> None: ...


def test_N2_a_client_that_leaves_loses_nothing_that_fits() -> None:
    rig = _rig()
    _fill(rig)
    client = rig.connect()
    client.send("queue://q", BODY)
    before = rig.pending("queue://q")
    client.disconnect()
    assert rig.pending("queue://q") == before + 1
    assert rig.broker.flow.dropped_sends == 0


@pytest.mark.parametrize("persistent", [True, False])
def test_N2_sending_and_leaving_again_and_again_passes_the_limit_by_its_bound_and_no_more(persistent: bool) -> None:
    rig = _rig()
    _fill(rig)
    for _ in range(100):
        client = rig.connect()
        client.send("queue://q", BODY, persistent=persistent)
        client.disconnect()
    flow = rig.broker.flow
    assert 2000 + BOUND_BYTES <= flow.used_bytes < 2000 + BOUND_BYTES + 1000
    assert flow.dropped_sends > 80
    audit(rig.broker, rig.store)


def test_N2_a_queue_passes_its_own_limit_by_the_bound_and_no_more() -> None:
    rig = _rig((DestinationPolicy("queue://q", memory_bytes_max=1000),), memory_bytes_max=100_000)
    _fill(rig)
    for _ in range(100):
        client = rig.connect()
        client.send("queue://q", BODY)
        client.disconnect()
    assert rig.broker.flow.used_bytes < 1000 + BOUND_BYTES + 1000
    assert rig.broker.flow.dropped_sends > 80


def test_N2_what_is_dropped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rig = _rig()
    _fill(rig)
    refused: list[Exception] = []
    with caplog.at_level(logging.WARNING):
        while not rig.broker.flow.dropped_sends:
            client = rig.connect("leaver")
            client.send("queue://q", BODY)
            client.disconnect()
            refused += client.refused
    (line,) = [it for it in caplog.messages if "dropped" in it]
    assert "ID:leaver (client leaver) left while 1 of its sends" in line
    assert "queue://q" in line
    assert "limits.blocked_bytes_max" in line
    assert [type(it) for it in refused] == [ResourceLimit]
    dropped = [it for it in rig.audit.events if it.event is Event.DROPPED]
    assert [it.place for it in dropped] == ["queue://q"]
    assert rig.broker.flow.dropped_sends == 1


def test_N2_what_is_taken_from_a_client_that_leaves_has_no_gaps() -> None:
    rig = _rig(blocked_bytes_max=2000)
    _fill(rig)
    client = rig.connect()
    for number in range(4):
        client.send("queue://q", f"{number}" + "y" * (1200 if number == 1 else 10))
    client.disconnect()
    consumer = rig.consumer("queue://q")
    numbers = [text[0] for text in consumer.texts if text is not None and "y" in text]
    assert numbers == [f"{n}" for n in range(len(numbers))]


def test_N2_the_bound_is_there_again_after_the_excess_was_consumed() -> None:
    rig = _rig(blocked_bytes_max=1000)
    _fill(rig)
    for _ in range(10):
        client = rig.connect()
        client.send("queue://q", BODY)
        client.disconnect()
    dropped = rig.broker.flow.dropped_sends
    assert dropped
    consumer = rig.consumer("queue://q")
    while consumer.subscription.dispatched:
        consumer.ack_each()
    consumer.close()
    _fill(rig)
    client = rig.connect()
    client.send("queue://q", BODY)
    client.disconnect()
    assert rig.broker.flow.dropped_sends == dropped


def test_B6_transactions_pass_the_limit_by_the_bound_and_no_more() -> None:
    rig = _rig()
    _fill(rig)
    client = rig.connect()
    failed = 0
    for number in range(1, 30):
        transaction = client.begin(number)
        client.send("queue://q", BODY, transaction=transaction)
        try:
            client.commit(transaction)
        except TransactionError:
            failed += 1
    assert rig.broker.flow.used_bytes < 2000 + BOUND_BYTES + 1000
    assert failed
    audit(rig.broker, rig.store)
