"""No message passes for a repetition because of another client: by counts that leap, or under its ids (J4, ADR 15)."""

from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig, RigClient

Q = "queue://q"
HUGE = 10**12

Restart = Callable[[BrokerRig], BrokerRig]


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def perhaps_restarted(request: pytest.FixtureRequest) -> Restart:
    return lambda rig: rig.restarted() if request.param else rig


def numbered(client: RigClient, number: int) -> Message:
    """The message that its producer counts as *number*."""
    client._counts = count(number)
    return client.message(Q, f"{client.connection.client_id} {number}")


def send(client: RigClient, *numbers: int) -> None:
    for number in numbers:
        client.send_message(numbered(client, number))


def texts(rig: BrokerRig) -> list[str | None]:
    """All that is there, consumed: a message waits while another one with the same id is in flight."""
    consumer = rig.consumer(Q, prefetch=1)
    while rig.pending(Q):
        consumer.ack()
    return consumer.texts


def test_J4_a_count_that_leaps_hides_nothing_that_comes_after_it(perhaps_restarted: Restart) -> None:
    rig = BrokerRig()
    send(rig.connect("v"), 1, 2, 3)
    send(rig.connect("v", is_reconnect=True), HUGE)
    rig = perhaps_restarted(rig)
    victim = rig.connect("v", is_reconnect=True)
    send(victim, 4, 5, 6)
    assert victim.stored == 3
    assert texts(rig) == ["v 1", "v 2", "v 3", f"v {HUGE}", "v 4", "v 5", "v 6"]


def test_J4_nor_does_a_first_count_that_is_high(perhaps_restarted: Restart) -> None:
    rig = BrokerRig()
    send(rig.connect("v", is_reconnect=True), HUGE)
    rig = perhaps_restarted(rig)
    send(rig.connect("v", is_reconnect=True), 1, 2)
    assert texts(rig) == [f"v {HUGE}", "v 1", "v 2"]


def test_J4_nor_does_one_that_is_not_persistent_or_sent_in_a_transaction() -> None:
    rig = BrokerRig()
    thief = rig.connect("v", is_reconnect=True)
    thief._counts = count(HUGE)
    thief.send(Q, "not persistent", persistent=False)
    thief.send(Q, "persistent")
    other = rig.connect("w", is_reconnect=True)
    other._counts = count(HUGE)
    transaction = other.begin()
    other.send(Q, "in a transaction", transaction=transaction)
    other.commit(transaction)
    rig = rig.restarted()
    for name in ("v", "w"):
        send(rig.connect(name, is_reconnect=True), 1, 2)
    assert texts(rig)[-4:] == ["v 1", "v 2", "w 1", "w 2"]


def test_J4_repetitions_behind_a_leap_are_recognised(perhaps_restarted: Restart) -> None:
    """As after sends without an answer that a lost connection has swallowed."""
    rig = BrokerRig()
    send(rig.connect("v"), 1, 2, 7, 8)
    rig = perhaps_restarted(rig)
    send(rig.connect("v", is_reconnect=True), 7, 8, 9)
    assert texts(rig) == ["v 1", "v 2", "v 7", "v 8", "v 9"]


def test_J4_producer_of_transactions_has_no_gaps() -> None:
    rig = BrokerRig()
    client = rig.connect("v")
    for number in range(1, 4):
        transaction = client.begin(number)
        client.send(Q, transaction=transaction)
        client.commit(transaction)
    assert not [key for key, _ in rig.store.last_counts() if key.startswith((b"from ", b"gap "))]


@pytest.mark.parametrize("lie", [{"client_id": "thief"}, {"user": "thief"}], ids=str)
def test_J4_counts_of_another_client_under_the_same_ids_say_nothing(
    perhaps_restarted: Restart, lie: dict[str, str]
) -> None:
    rig = BrokerRig()
    victim = rig.connect("v")
    send(victim, 1, 2)
    victim.disconnect()
    thief = rig.connect("v", is_reconnect=True, **lie)
    send(thief, 3, 4)
    thief.disconnect()
    rig = perhaps_restarted(rig)
    victim = rig.connect("v", is_reconnect=True)
    send(victim, 3, 4, 5)
    send(rig.connect("v", is_reconnect=True), 5, 6)
    rig = rig.restarted()
    send(rig.connect("v", is_reconnect=True), 6, 7)
    assert texts(rig)[4:] == ["v 3", "v 4", "v 5", "v 6", "v 7"], "the owner's own are recognised again"


def test_J4_counts_are_believed_again_for_each_producer_on_its_own() -> None:
    """The owner comes back twice, and repeats of its second producer only the second time."""
    rig = BrokerRig()
    victim = rig.connect("v")
    victim.use_another_producer(2)
    send(victim, 1)
    victim.disconnect()
    thief = rig.connect("v", is_reconnect=True, client_id="thief")
    thief.use_another_producer(2)
    send(thief, 2)
    thief.disconnect()
    first = rig.connect("v", is_reconnect=True)
    send(first, 1)
    first.disconnect()
    rig = rig.restarted()
    second = rig.connect("v", is_reconnect=True)
    second.use_another_producer(2)
    send(second, 2)
    assert texts(rig)[-1] == "v 2"


def test_J4_gap_is_remembered_as_long_as_the_count_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other producers push out what was not heard of for long; the gap of one that goes on is not among it."""
    rig = BrokerRig(is_audited=False)
    monkeypatch.setattr(rig.broker.sending._duplicates, "_refresh_changes", 50)
    for counts in (rig.store._last_counts, rig.broker.sending._duplicates._counts):
        monkeypatch.setattr(counts, "_limit", 200)
    client, other = rig.connect("v"), rig.connect("other")
    send(client, HUGE)
    for number in range(1, 500):
        other.use_another_producer(number + 1)
        send(other, 1)
        if number % 20 == 0:
            send(client, HUGE + number // 20)
    pending = rig.pending(Q)
    rig = rig.restarted()
    send(rig.connect("v", is_reconnect=True), 1)
    assert rig.pending(Q) == pending + 1


@pytest.mark.parametrize("seed", range(20))
def test_J4_any_order_of_counts_is_taken_once_each(seed: int) -> None:
    """With leaps, repetitions, what was left out coming late, and restarts in between."""
    random = Random(seed)
    rig = BrokerRig(is_audited=False)
    taken: set[int] = set()
    for _ in range(60):
        client = rig.connect("v", is_reconnect=True)
        number = random.choice([max(taken, default=0) + 1, random.randint(1, 40), *list(taken)[:1]])
        before = rig.pending(Q)
        send(client, number)
        assert rig.pending(Q) - before == (number not in taken), (number, sorted(taken))
        taken.add(number)
        if random.random() < 0.1:
            rig = rig.restarted()
