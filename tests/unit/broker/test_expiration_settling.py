"""When a message expires whose producer has another clock, or that may not live as long as it wants (A5, N1)."""

from typing import Final

import pytest

from ackwire.config.policy import DestinationPolicy
from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig, RigClient, command_of

QUEUE: Final = "queue://a"
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


def rig_with(**clocks: object) -> tuple[BrokerRig, RigClient]:
    rig = BrokerRig(settings={"clocks": clocks})
    return rig, rig.connect("producer")


def send(rig: BrokerRig, client: RigClient, *, clock_ms: int, time_to_live_ms: int = MINUTE_MS) -> Message:
    """Send from a client whose clock is off by *clock_ms*."""
    timestamp = rig.clock.now_ms() + clock_ms
    return client.send(QUEUE, timestamp=timestamp, expiration=timestamp + time_to_live_ms)


def times(rig: BrokerRig, message: Message) -> tuple[int, int]:
    """Timestamp and expiration, seen from the broker's time; the bytes say the same."""
    command = command_of(message)
    assert (command.timestamp, command.expiration) == (message.timestamp, message.expiration)
    return message.timestamp - rig.clock.now_ms(), message.expiration - rig.clock.now_ms()


@pytest.mark.parametrize("correction", ["extend", "both"])
@pytest.mark.parametrize("clock_ms", [-HOUR_MS, -MINUTE_MS, -1001])
def test_N1_message_from_a_clock_that_is_behind_lives_its_whole_time(correction: str, clock_ms: int) -> None:
    rig, producer = rig_with(correction=correction)
    assert times(rig, send(rig, producer, clock_ms=clock_ms)) == (0, MINUTE_MS)


def test_N1_good_message_from_a_clock_that_is_behind_is_delivered_by_default() -> None:
    rig = BrokerRig()
    send(rig, rig.connect("producer"), clock_ms=-HOUR_MS)
    assert rig.consumer(QUEUE).texts == ["x"]


def test_message_whose_time_is_over_by_our_clock_expires_if_clocks_are_not_corrected() -> None:
    rig, producer = rig_with(correction="off")
    message = send(rig, producer, clock_ms=-HOUR_MS)
    assert times(rig, message) == (-HOUR_MS, MINUTE_MS - HOUR_MS)
    assert rig.consumer(QUEUE).texts == []
    assert rig.pending("queue://ActiveMQ.DLQ") == 1


def test_corrected_message_still_expires_in_the_end() -> None:
    rig, producer = rig_with()
    send(rig, producer, clock_ms=-HOUR_MS)
    rig.clock.advance(61)
    assert rig.consumer(QUEUE).texts == []


@pytest.mark.parametrize("clock_ms", [-1000, -1, 0, 1, 1000])
@pytest.mark.parametrize("correction", ["extend", "both"])
def test_small_difference_changes_nothing(correction: str, clock_ms: int) -> None:
    rig, producer = rig_with(correction=correction)
    assert times(rig, send(rig, producer, clock_ms=clock_ms)) == (clock_ms, clock_ms + MINUTE_MS)


@pytest.mark.parametrize(("clock_ms", "expected"), [(-50, (-50, 450)), (-51, (0, 500)), (-800, (0, 500))])
def test_short_life_loses_at_most_a_tenth(clock_ms: int, expected: tuple[int, int]) -> None:
    rig, producer = rig_with()
    assert times(rig, send(rig, producer, clock_ms=clock_ms, time_to_live_ms=500)) == expected


def test_tolerance_can_be_set() -> None:
    rig, producer = rig_with(tolerance_seconds=0.0)
    assert times(rig, send(rig, producer, clock_ms=-1)) == (0, MINUTE_MS)


def test_message_from_a_clock_that_is_ahead_keeps_its_times_by_default() -> None:
    rig, producer = rig_with()
    assert times(rig, send(rig, producer, clock_ms=HOUR_MS)) == (HOUR_MS, HOUR_MS + MINUTE_MS)


def test_message_from_a_clock_that_is_ahead_does_not_live_too_long_if_both_are_corrected() -> None:
    rig, producer = rig_with(correction="both")
    assert times(rig, send(rig, producer, clock_ms=HOUR_MS)) == (0, MINUTE_MS)


@pytest.mark.parametrize("timestamp", [0, 1, -5])
def test_message_that_never_expires_keeps_its_timestamp(timestamp: int) -> None:
    _, producer = rig_with()
    message = producer.send(QUEUE, timestamp=timestamp, expiration=0)
    assert (message.timestamp, message.expiration) == (timestamp, 0)


@pytest.mark.parametrize(("timestamp", "expiration"), [(0, 5), (-7, 5), (10, 10), (10, 5), (10, -5)])
def test_times_that_give_no_time_to_live_are_left_as_they_are(timestamp: int, expiration: int) -> None:
    _, producer = rig_with()
    message = producer.send(QUEUE, timestamp=timestamp, expiration=expiration)
    assert (message.timestamp, message.expiration) == (timestamp, expiration)


def test_time_to_live_beyond_the_end_of_time_does_no_harm() -> None:
    rig, producer = rig_with()
    message = producer.send(QUEUE, timestamp=1, expiration=2**63 - 1)
    assert (message.timestamp, message.expiration) == (rig.clock.now_ms(), 2**63 - 1)


def test_time_in_a_transaction_is_the_messages_own() -> None:
    rig, producer = rig_with()
    transaction = producer.begin()
    now_ms = rig.clock.now_ms()
    message = producer.send(QUEUE, transaction=transaction, expiration=now_ms + MINUTE_MS)
    rig.clock.advance(50)
    producer.commit(transaction)
    assert (message.timestamp, message.expiration) == (now_ms, now_ms + MINUTE_MS)


@pytest.mark.parametrize(
    ("time_to_live_ms", "clock_ms", "expected_ms"),
    [
        (2 * HOUR_MS, 0, HOUR_MS),
        (MINUTE_MS, 0, MINUTE_MS),
        (2 * HOUR_MS, -HOUR_MS, HOUR_MS),
        (MINUTE_MS, HOUR_MS, HOUR_MS),
    ],
)
def test_ceiling_applies_after_the_correction(time_to_live_ms: int, clock_ms: int, expected_ms: int) -> None:
    rig = BrokerRig(policies=(DestinationPolicy(expiration_ceiling_seconds=3600.0),))
    message = send(rig, rig.connect("producer"), clock_ms=clock_ms, time_to_live_ms=time_to_live_ms)
    assert times(rig, message)[1] == expected_ms


def test_ceiling_gives_an_end_to_what_would_live_for_ever() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(expiration_ceiling_seconds=3600.0),))
    assert times(rig, rig.connect("producer").send(QUEUE)) == (0, HOUR_MS)


def test_A5_each_destination_has_its_own_policy_in_whatever_order_messages_come() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="queue://short", expiration_default_seconds=60),))
    producer = rig.connect("producer")
    sent = [producer.send(where) for where in (QUEUE, "queue://short", "queue://short", QUEUE, "queue://short")]
    now_ms = rig.clock.now_ms()
    assert [it.expiration and it.expiration - now_ms for it in sent] == [0, MINUTE_MS, MINUTE_MS, 0, MINUTE_MS]
