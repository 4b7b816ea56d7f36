"""Ack kinds and ranges (SEMANTICS D, E)."""

import pytest

from ackwire.broker.in_flight import AckKind, UnmatchedAck
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def _filled(rig: BrokerRig, count: int, prefetch: int = 100) -> tuple[RigConsumer, list[Message]]:
    producer = rig.connect()
    consumer = rig.consumer("queue://q", prefetch=prefetch)
    messages = [producer.send("queue://q", f"{n}") for n in range(count)]
    return consumer, messages


def _left(rig: BrokerRig, consumer: RigConsumer) -> list[str | None]:
    """What the next consumer gets when this one is lost."""
    consumer.client.disconnect()
    audit(rig.broker, rig.store)
    return rig.consumer("queue://q").texts


def test_E_standard_finishes_the_range(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 5)
    consumer.ack(messages[3], first=messages[1], count=3)
    assert _left(rig, consumer) == ["0", "4"]


def test_E_a_range_without_a_first_id_starts_at_the_oldest(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 5)
    consumer.ack(messages[2], count=3)
    assert _left(rig, consumer) == ["3", "4"]


def test_D6_individual_finishes_one_whatever_stands_before_it(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 3)
    consumer.ack(messages[1], first=messages[0], count=2, kind=AckKind.INDIVIDUAL)
    assert _left(rig, consumer) == ["0", "2"]


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [(2, 1, 2), (1, 2, 5), (1, 2, 0), (1, 2, -1), (None, 2, 1_000_000), (0, None, 1), (None, None, 3)],
)
def test_E_ranges_that_make_no_sense_are_refused_and_change_nothing(
    rig: BrokerRig, first: int | None, last: int | None, count: int
) -> None:
    consumer, messages = _filled(rig, 4)
    stranger = rig.connect().message("queue://elsewhere")
    begin = None if first is None else messages[first]
    end = stranger if last is None else messages[last]
    for kind in (AckKind.STANDARD, AckKind.POISON, AckKind.EXPIRED):
        with pytest.raises(UnmatchedAck):
            consumer.ack(end, first=begin, count=count, kind=kind)
    assert consumer.subscription.dispatched == 4
    assert _left(rig, consumer) == ["0", "1", "2", "3"]


def test_E_an_ack_twice_is_refused(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 2)
    consumer.ack(messages[0])
    for kind in AckKind:
        with pytest.raises(UnmatchedAck):
            consumer.ack(messages[0], kind=kind)


def test_E_an_ack_for_what_another_consumer_holds_is_refused(rig: BrokerRig) -> None:
    _, messages = _filled(rig, 1)
    other = rig.consumer("queue://q")
    with pytest.raises(UnmatchedAck):
        other.ack(messages[0])


def test_E_an_ack_of_a_consumer_whose_pattern_matches_no_queue_is_refused(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://nothing.here.>")
    with pytest.raises(UnmatchedAck):
        consumer.ack(rig.connect().message("queue://q"))


def test_C4_delivered_extends_the_window_and_keeps_the_message(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 5, prefetch=2)
    assert len(consumer.delivered) == 2
    consumer.ack(messages[0], kind=AckKind.DELIVERED)
    assert len(consumer.delivered) == 3
    consumer.ack(messages[0], kind=AckKind.DELIVERED)
    assert len(consumer.delivered) == 3, "saying it again gives no more room"
    assert _left(rig, consumer) == ["0", "1", "2", "3", "4"]


def test_C4_the_extension_goes_with_the_messages_it_was_for(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 8, prefetch=2)
    consumer.ack(messages[1], kind=AckKind.DELIVERED)
    assert consumer.subscription.dispatched == 4
    consumer.ack(messages[1], count=2)
    assert consumer.subscription.dispatched == 2


def test_C4_an_ack_in_a_transaction_uses_up_its_extension_once(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 12, prefetch=4)
    consumer.ack(messages[3], kind=AckKind.DELIVERED)
    transaction = consumer.client.begin()
    consumer.ack(messages[1], count=2, transaction=transaction)
    consumer.client.commit(transaction)
    assert consumer.subscription.extension == 2


def test_E_redelivered_keeps_the_message_and_needs_it_in_flight(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 2)
    consumer.ack(messages[1], count=2, kind=AckKind.REDELIVERED)
    assert consumer.subscription.dispatched == 2
    with pytest.raises(UnmatchedAck):
        consumer.ack(rig.connect().message("queue://q"), kind=AckKind.REDELIVERED)


def test_E_poison_moves_the_range_to_the_dead_letters_with_the_cause(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 3)
    consumer.ack(messages[1], first=messages[0], count=2, kind=AckKind.POISON, cause="it is bad")
    dead = rig.consumer("queue://ActiveMQ.DLQ")
    assert dead.texts == ["0", "1"]
    assert dead.properties()["dlqDeliveryFailureCause"] == "it is bad"
    assert _left(rig, consumer) == ["2"]


def test_E_unmatched_finishes_on_behalf_of_a_durable_subscriber(rig: BrokerRig) -> None:
    client = rig.connect("client")
    consumer = client.consumer("topic://t", subscription_name="s")
    message = rig.connect().send("topic://t")
    consumer.ack(message, kind=AckKind.UNMATCHED)
    assert consumer.subscription.dispatched == 0
    consumer.close()
    assert client.consumer("topic://t", subscription_name="s").delivered == []


def test_E_expired_at_the_client_is_a_dead_letter_even_if_our_clock_says_otherwise(rig: BrokerRig) -> None:
    """N1: a client whose clock is ahead must not make good messages vanish."""
    producer = rig.connect()
    consumer = rig.consumer("queue://q")
    message = producer.send("queue://q", "good", expiration=rig.clock.now_ms() + 60_000)
    consumer.ack(message, kind=AckKind.EXPIRED)
    assert rig.consumer("queue://ActiveMQ.DLQ").texts == ["good"]
    assert _left(rig, consumer) == []


def test_E_acks_of_a_topic_consumer_only_move_its_window(rig: BrokerRig) -> None:
    producer = rig.connect()
    consumer = rig.consumer("topic://t", prefetch=2)
    for n in range(6):
        producer.send("topic://t", f"{n}")
    assert consumer.texts == ["0", "1"]
    consumer.ack(kind=AckKind.DELIVERED)
    assert len(consumer.delivered) == 3
    consumer.ack(count=-5)
    assert len(consumer.delivered) == 3
    consumer.ack(count=1_000_000)
    assert len(consumer.delivered) == 5


def test_D7_what_was_seen_comes_back_redelivered_and_the_rest_does_not(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 3)
    consumer.close(last_delivered=messages[1].sequence)
    again = rig.consumer("queue://q")
    assert [message.redelivery_counter for message in again.delivered] == [1, 1, 0]


@pytest.mark.parametrize(("last_delivered", "counters"), [(-1, [0, 0]), (-2, [1, 1]), (0, [0, 0])])
def test_D7_nothing_seen_and_nobody_knows(rig: BrokerRig, last_delivered: int, counters: list[int]) -> None:
    consumer, _ = _filled(rig, 2)
    consumer.close(last_delivered)
    assert [message.redelivery_counter for message in rig.consumer("queue://q").delivered] == counters


def test_D7_a_connection_that_closes_counts_each_message_once(rig: BrokerRig) -> None:
    """Its consumers leave together: none of them gets what another gives back."""
    producer, client = rig.connect(), rig.connect()
    consumers = [client.consumer("queue://q", prefetch=2) for _ in range(3)]
    for n in range(9):
        producer.send("queue://q", f"{n}")
    client.disconnect()
    assert [len(consumer.delivered) for consumer in consumers] == [2, 2, 2]
    again = rig.consumer("queue://q")
    assert sorted(message.redelivery_counter for message in again.delivered) == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert again.texts == [f"{n}" for n in range(9)]


def test_D7_a_session_that_closes_counts_each_message_once(rig: BrokerRig) -> None:
    producer, client = rig.connect(), rig.connect()
    for _ in range(2):
        client.consumer("queue://q", prefetch=1)
    for n in range(2):
        producer.send("queue://q", f"{n}")
    rig.broker.remove_session(client.connection, 1)
    assert [message.redelivery_counter for message in rig.consumer("queue://q").delivered] == [1, 1]


def test_D7_a_pull_on_a_connection_that_is_lost_gets_nothing(rig: BrokerRig) -> None:
    producer, client = rig.connect(), rig.connect()
    client.consumer("queue://q", prefetch=1)
    pulling = client.consumer("queue://q", prefetch=0)
    producer.send("queue://q")
    pulling.pull()
    client.disconnect()
    assert pulling.delivered == []
    assert [message.redelivery_counter for message in rig.consumer("queue://q").delivered] == [1]


def test_D5_acks_wait_for_the_commit(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 2)
    transaction = consumer.client.begin()
    consumer.ack(messages[1], count=2, transaction=transaction)
    consumer.client.commit(transaction)
    assert _left(rig, consumer) == []


def _two_copies(rig: BrokerRig) -> tuple[RigClient, RigConsumer]:
    producer = rig.connect()
    consumer = rig.consumer("queue://q.*")
    producer.send("queue://q.a,q.b", "twin")
    return producer, consumer


def test_A8_a_wildcard_consumer_gets_two_copies_of_one_id_one_after_the_other(rig: BrokerRig) -> None:
    _, consumer = _two_copies(rig)
    assert consumer.texts == ["twin"]
    consumer.ack()
    assert consumer.texts == ["twin", "twin"]
    consumer.ack()
    audit(rig.broker, rig.store)
    assert rig.broker.flow.used_bytes == 0


def test_A8_a_copy_whose_twin_is_in_a_transaction_waits_for_its_end(rig: BrokerRig) -> None:
    producer, consumer = _two_copies(rig)
    transaction = consumer.client.begin()
    consumer.ack(transaction=transaction)
    assert consumer.texts == ["twin"]
    consumer.client.roll_back(transaction)
    assert consumer.subscription.dispatched == 1
    consumer.ack()
    assert consumer.texts == ["twin", "twin"]
    producer.send("queue://q.b", "next")
    consumer.ack_each()
    audit(rig.broker, rig.store)
    assert rig.broker.flow.used_bytes == 0


def test_H1_what_follows_a_waiting_copy_in_its_queue_waits_with_it(rig: BrokerRig) -> None:
    producer, consumer = _two_copies(rig)
    producer.send("queue://q.b", "next")
    assert consumer.texts == ["twin"]
    consumer.ack()
    assert consumer.texts == ["twin", "twin", "next"]


def test_unknown_transaction_in_an_ack_is_refused(rig: BrokerRig) -> None:
    consumer, messages = _filled(rig, 1)
    unknown = commands.LocalTransactionId(99, commands.ConnectionId("ID:nobody"))
    with pytest.raises(Exception, match="never started"):
        consumer.ack(messages[0], transaction=unknown)
    assert consumer.subscription.dispatched == 1
