"""What is acknowledged when, and what comes back (D1 to D7, E)."""

import threading
from collections.abc import Callable
from typing import Final

import pytest

import ackwire
from ackwire import AckMode, Message
from ackwire.client.errors import IllegalStateError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.client.acks import NO_DELAY, Line, in_ranges, lines_of, one_by_one
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.work import (
    InThread,
    await_processed,
    await_that,
    await_waiting,
    browse,
    drain,
    fill,
    receive,
    receive_one,
    text_of,
    texts_of,
)

STANDARD, INDIVIDUAL, DELIVERED = AckType.STANDARD, AckType.INDIVIDUAL, AckType.DELIVERED
MODES: Final = list(AckMode)


def _left(connection: ackwire.Connection, queue: str) -> list[str | None]:
    return texts_of(browse(connection, queue))


def _close(what: str, connection: ackwire.Connection, session: ackwire.Session, consumer: ackwire.Consumer) -> None:
    close: dict[str, Callable[[], None]] = {
        "consumer": consumer.close,
        "session": session.close,
        "connection": connection.close,
    }
    close[what]()


# ---- D1: AUTO --------------------------------------------------------------------------------------------------


def test_D1_a_received_message_is_acknowledged_by_itself(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    fill(connection, queue, 1)
    receive_one(connection.session().consumer(queue))
    recording.await_sent(commands.MessageAck)  # nothing else is done


def test_D1_a_listeners_message_is_acknowledged_after_it_returned(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    before: list[int] = []

    def listener(_: Message) -> None:
        await_processed(connection, queue)  # all that was said before has passed the proxy then
        before.append(len(lines_of(recording, queue)))

    connection.session().consumer(queue).listener = listener
    fill(connection, queue, 3)
    await_that(lambda: len(lines_of(recording, queue)) == 3, "all are acknowledged")
    assert before == [0, 1, 2]


def test_D1_a_listener_that_fails_gets_its_message_again(connect: Connect, broker: Broker, queue: str) -> None:
    connection = connect(broker.url_with(**NO_DELAY))
    heard: list[tuple[str | None, bool, int]] = []

    def listener(message: Message) -> None:
        heard.append((text_of(message), message.redelivered, message.delivery_count))
        if len(heard) <= 2:
            raise RuntimeError("on purpose")

    session = connection.session()
    session.consumer(queue).listener = listener
    fill(connection, queue, 2)
    await_that(lambda: len(heard) == 4, "all were heard")
    assert heard == [("m0", False, 1), ("m0", True, 2), ("m0", True, 3), ("m1", False, 1)]
    session.close()
    assert _left(connection, queue) == []


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK, AckMode.SESSION_TRANSACTED])
def test_D1_where_the_session_acknowledges_the_applications_word_is_ignored(
    connect: Connect, recording: RecordingProxy, queue: str, mode: AckMode
) -> None:
    connection = connect(recording.url_with(jms__optimizeAcknowledgeTimeOut=1_000_000))
    fill(connection, queue, 2)
    session = connection.session(mode)
    consumer = session.consumer(queue)
    message = receive_one(consumer)
    await_processed(connection, queue)
    before = lines_of(recording, queue)
    message.acknowledge()
    message.acknowledge()
    await_processed(connection, queue)
    assert lines_of(recording, queue) == before


def test_D5_acknowledging_a_transacted_session_changes_nothing(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    fill(connection, queue, 5)
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    receive(consumer, 3)
    session.acknowledge()
    consumer.acknowledge()
    session.commit()
    assert lines_of(recording, queue) == [Line(STANDARD, 3, 0, 2, in_transaction=True)]
    session.close()
    assert _left(connection, queue) == ["m3", "m4"]


# ---- D2: ranges ------------------------------------------------------------------------------------------------


def test_D2_after_the_time_out_the_next_message_ends_the_range(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    url = recording.url_with(jms__optimizeAcknowledge=True, jms__optimizeAcknowledgeTimeOut=60_000)
    connection = connect(url)
    fill(connection, queue, 5)
    consumer = connection.session().consumer(queue)
    receive(consumer, 2)
    await_processed(connection, queue)
    assert lines_of(recording, queue) == []
    ranges = consumer._core._ranges
    assert ranges is not None
    ranges.last_ack_at -= 60  # a minute has passed
    receive(consumer, 1)
    await_processed(connection, queue)
    assert lines_of(recording, queue) == [Line(STANDARD, 3, 0, 2)]
    receive(consumer, 2)
    await_processed(connection, queue)
    assert len(lines_of(recording, queue)) == 1


def test_D2_with_an_interval_a_range_ends_without_another_message(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    url = recording.url_with(
        jms__optimizeAcknowledge=True,
        jms__optimizeAcknowledgeTimeOut=1_000_000,
        jms__optimizedAckScheduledAckInterval=30,
    )
    connection = connect(url)
    fill(connection, queue, 5)
    consumer = connection.session().consumer(queue)
    receive(consumer, 3)
    await_that(lambda: sum(line.count for line in lines_of(recording, queue)) == 3, "three are acknowledged")
    receive(consumer, 2)
    await_that(lambda: sum(line.count for line in lines_of(recording, queue)) == 5, "five are acknowledged")


def test_D2_the_broker_is_told_that_acks_come_in_ranges(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    with connect(recording.url_with(jms__optimizeAcknowledge=True)) as connection:
        for mode in MODES:
            connection.session(mode).consumer(queue)
    infos = recording.sent(commands.ConsumerInfo)
    told = [
        info.optimized_acknowledge
        for info in infos
        if str(info.destination and info.destination.physical_name) in queue
    ]
    assert told == [mode is AckMode.AUTO for mode in MODES]


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK])
def test_D2_D4_a_range_that_waits_goes_out_on_closing(
    connect: Connect, broker: Broker, queue: str, mode: AckMode, what: str
) -> None:
    url = broker.url_with(jms__optimizeAcknowledge=True, jms__optimizeAcknowledgeTimeOut=1_000_000)
    connection = connect(url)
    fill(connection, queue, 5)
    session = connection.session(mode)
    consumer = session.consumer(queue)
    receive(consumer, 3)
    _close(what, connection, session, consumer)
    with connect() as other:
        await_that(lambda: _left(other, queue) == ["m3", "m4"], "two are left")


def test_D2_a_listener_that_fails_keeps_its_message_out_of_the_range(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    options = {"jms__optimizeAcknowledge": True, "jms__optimizeAcknowledgeTimeOut": 1_000_000, **NO_DELAY}
    connection = connect(recording.url_with(**options))
    heard: list[str | None] = []

    def listener(message: Message) -> None:
        heard.append(text_of(message))
        if heard == ["m0", "m1", "m2"]:
            raise RuntimeError("on purpose")

    consumer = connection.session().consumer(queue)
    consumer.listener = listener
    fill(connection, queue, 4)
    await_that(lambda: len(heard) == 5, "all were heard")
    consumer.close()
    assert heard == ["m0", "m1", "m2", "m2", "m3"]
    assert lines_of(recording, queue) == [Line(STANDARD, 2, 0, 1), Line(STANDARD, 2, 2, 3)]


# ---- D3: CLIENT ------------------------------------------------------------------------------------------------


class _Pair:
    """Two consumers of one CLIENT session, and what they have been given."""

    def __init__(self, connection: ackwire.Connection, queue: str) -> None:
        self.queues = f"{queue}.1", f"{queue}.2"
        for name in self.queues:
            fill(connection, name, 5)
        self.session = connection.session(AckMode.CLIENT)
        self.first, self.second = (self.session.consumer(name) for name in self.queues)
        self.firsts = receive(self.first, 3)
        self.seconds = receive(self.second, 2)


WORDS: Final[dict[str, tuple[Callable[[_Pair], object], int, int]]] = {
    "session": (lambda pair: pair.session.acknowledge(), 3, 2),
    "message": (lambda pair: pair.firsts[-1].acknowledge(), 3, 2),
    "earlier message": (lambda pair: pair.firsts[0].acknowledge(), 3, 2),
    "message of the other": (lambda pair: pair.seconds[0].acknowledge(), 3, 2),
    "first consumer": (lambda pair: pair.first.acknowledge(), 3, 0),
    "second consumer": (lambda pair: pair.second.acknowledge(), 0, 2),
}
"""Who is asked to acknowledge, and how many messages of each consumer that covers."""


@pytest.mark.parametrize("who", WORDS)
def test_D3_what_an_acknowledgement_covers(connect: Connect, recording: RecordingProxy, queue: str, who: str) -> None:
    acknowledge, first, second = WORDS[who]
    connection = connect(recording.url)
    pair = _Pair(connection, queue)
    acknowledge(pair)
    pair.session.close()
    for name, count in zip(pair.queues, (first, second), strict=True):
        assert lines_of(recording, name) == (in_ranges(STANDARD, count, count) if count else [])
        assert _left(connection, name) == [f"m{number}" for number in range(count, 5)]


def test_D3_another_session_of_the_connection_is_not_covered(connection: ackwire.Connection, queue: str) -> None:
    pairs = [_Pair(connection, f"{queue}.{number}") for number in (1, 2)]
    pairs[0].session.acknowledge()
    for pair in pairs:
        pair.session.close()
    assert [len(_left(connection, pair.queues[0])) for pair in pairs] == [2, 5]


def test_D3_later_messages_are_not_covered(connection: ackwire.Connection, queue: str) -> None:
    fill(connection, queue, 5)
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    receive(consumer, 2)
    session.acknowledge()
    receive(consumer, 2)
    session.close()
    assert _left(connection, queue) == ["m2", "m3", "m4"]


def test_D3_a_listener_that_acknowledges_each_message_needs_no_DELIVERED(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    heard: list[Message] = []

    def listener(message: Message) -> None:
        message.acknowledge()
        heard.append(message)

    consumer = connection.session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=4")
    consumer.listener = listener
    fill(connection, queue, 20)
    await_that(lambda: len(heard) == 20, "all were heard")
    consumer.close()
    assert lines_of(recording, queue) == one_by_one(STANDARD, 20)


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_D3_D6_acknowledging_after_the_session_is_closed_is_refused(
    connection: ackwire.Connection, queue: str, mode: AckMode
) -> None:
    fill(connection, queue, 1)
    session = connection.session(mode)
    message = receive_one(session.consumer(queue))
    session.close()
    with pytest.raises(IllegalStateError, match="closed"):
        message.acknowledge()
    assert _left(connection, queue) == ["m0"]


def test_D3_after_its_consumer_is_closed_a_message_is_the_brokers_again(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """There is nobody left in whose name it could be acknowledged."""
    connection = connect(recording.url)
    fill(connection, queue, 2)
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    message = receive_one(consumer)
    consumer.close()
    message.acknowledge()
    session.close()
    assert lines_of(recording, queue) == []
    assert _left(connection, queue) == ["m0", "m1"]


# ---- D6: INDIVIDUAL --------------------------------------------------------------------------------------------


def test_D6_each_message_alone_in_any_order(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    connection = connect(recording.url)
    fill(connection, queue, 6)
    session = connection.session(AckMode.INDIVIDUAL)
    messages = receive(session.consumer(queue), 5)
    for number in (4, 0, 2, 2):
        messages[number].acknowledge()
    session.close()
    assert lines_of(recording, queue) == [Line(INDIVIDUAL, 1, number, number) for number in (4, 0, 2)]
    assert _left(connection, queue) == ["m1", "m3", "m5"]


def test_D6_a_rejected_message_comes_again_and_the_others_stay(connect: Connect, broker: Broker, queue: str) -> None:
    connection = connect(broker.url_with(**NO_DELAY))
    fill(connection, queue, 3)
    session = connection.session(AckMode.INDIVIDUAL)
    consumer = session.consumer(queue)
    first, second = receive(consumer, 2)
    first.reject(RuntimeError("not now"))
    again = receive_one(consumer)
    assert (text_of(again), again.delivery_count) == ("m0", 2)
    for message in (second, again):
        message.acknowledge()
    session.close()
    assert _left(connection, queue) == ["m2"]


def test_D6_only_individual_messages_can_be_rejected(connection: ackwire.Connection, queue: str) -> None:
    fill(connection, queue, 1)
    message = receive_one(connection.session(AckMode.CLIENT).consumer(queue))
    with pytest.raises(IllegalStateError, match="INDIVIDUAL"):
        message.reject(RuntimeError())


# ---- D7: what comes back ---------------------------------------------------------------------------------------

ENDS: Final = ["consumer", "session", "connection", "lost"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mode", MODES)
def test_D7_what_was_received_and_not_acknowledged_comes_back(
    connect: Connect, recording: RecordingProxy, queue: str, mode: AckMode, end: str
) -> None:
    connection = connect(recording.url_with(jms__optimizeAcknowledgeTimeOut=1_000_000))
    connection.on_error = lambda _: None
    sender = connect()
    bodies = fill(sender, queue, 5)
    session = connection.session(mode)
    consumer = session.consumer(queue)
    receive(consumer, 3)
    if end == "lost":
        await_processed(connection, queue)  # acks that are on their way arrive
        recording.cut()
    else:
        _close(end, connection, session, consumer)
        connection.close()
    acknowledged = mode is AckMode.AUTO or (mode is AckMode.DUPS_OK and end != "lost")
    expected = bodies[3:] if acknowledged else bodies
    await_that(lambda: _left(sender, queue) == expected, f"{expected} are left")
    again = receive(sender.session().consumer(queue), len(expected))
    assert texts_of(again) == expected
    seen = [message.redelivered for message in again if text_of(message) in bodies[:3]]
    assert all(seen)


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_D7_recover_gives_again_what_was_not_acknowledged(
    connect: Connect, broker: Broker, queue: str, mode: AckMode
) -> None:
    connection = connect(broker.url_with(**NO_DELAY))
    fill(connection, queue, 5)
    session = connection.session(mode)
    consumer = session.consumer(queue)
    receive_one(consumer).acknowledge()
    assert texts_of(receive(consumer, 2)) == ["m1", "m2"]
    session.recover()
    again = receive(consumer, 4)
    assert texts_of(again) == ["m1", "m2", "m3", "m4"]
    assert [message.delivery_count for message in again] == [2, 2, 1, 1]
    assert [message.redelivered for message in again] == [True, True, False, False]
    for message in again:
        message.acknowledge()
    session.close()
    assert _left(connection, queue) == []


def test_D7_recover_is_not_for_transactions(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session(transacted=True)
    session.consumer(queue)
    with pytest.raises(IllegalStateError):
        session.recover()


def test_D7_recovered_messages_keep_their_place_before_those_that_wait(
    connect: Connect, broker: Broker, queue: str
) -> None:
    connection = connect(broker.url_with(**NO_DELAY))
    fill(connection, queue, 6)
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    await_waiting(consumer, 6)
    receive(consumer, 4)
    session.recover()
    assert texts_of(receive(consumer, 6)) == [f"m{number}" for number in range(6)]


def test_D7_what_one_consumer_gave_back_goes_to_the_other(connection: ackwire.Connection, queue: str) -> None:
    first = connection.session(AckMode.CLIENT)
    fill(connection, queue, 4)
    receive(first.consumer(queue), 2)
    waiting = connection.session().consumer(queue)
    receiving = InThread(lambda: receive(waiting, 4))
    first.close()
    assert sorted(map(str, texts_of(receiving.result()))) == ["m0", "m1", "m2", "m3"]


def test_D7_a_listener_at_work_when_the_connection_is_lost_has_its_message_again(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    connection.on_error = lambda _: None
    at_work, may_return, returned = threading.Event(), threading.Event(), threading.Event()

    def listener(_: Message) -> None:
        at_work.set()
        may_return.wait(10)
        returned.set()

    connection.session().consumer(queue).listener = listener
    with connect() as other:
        fill(other, queue, 1)
        assert at_work.wait(10)
        recording.cut()
        may_return.set()
        assert returned.wait(10)
        again = receive_one(other.session().consumer(queue))
        assert (text_of(again), again.redelivered) == ("m0", True)


# ---- E ---------------------------------------------------------------------------------------------------------


def test_E_expired_messages_are_not_given_to_the_application(
    connect: Connect, connection: ackwire.Connection, queue: str
) -> None:
    late = connect(start=False)
    consumer = late.session().consumer(queue)
    producer = connection.session().producer(queue)
    short = producer.send("short", time_to_live_ms=400)
    producer.send("long")
    await_waiting(consumer, 2)
    await_that(lambda: 0 < short.expiration <= late._core.clock.now_ms(), "it has expired")
    late.start()
    assert text_of(receive_one(consumer)) == "long"
    late.close()
    assert _left(connection, queue) == []


def test_E_the_check_for_expiry_can_be_turned_off(
    connect: Connect, connection: ackwire.Connection, broker: Broker, queue: str
) -> None:
    late = connect(broker.url_with(jms__consumerExpiryCheckEnabled=False), start=False)
    consumer = late.session().consumer(queue)
    short = connection.session().producer(queue).send("short", time_to_live_ms=400)
    await_waiting(consumer, 1)
    await_that(lambda: 0 < short.expiration <= late._core.clock.now_ms(), "it has expired")
    late.start()
    assert text_of(receive_one(consumer)) == "short"


def test_E_nothing_is_left_after_all_was_consumed_in_every_mode(connection: ackwire.Connection, queue: str) -> None:
    for mode in MODES:
        fill(connection, queue, 30)
        session = connection.session(mode)
        consumer = session.consumer(f"{queue}?consumer.prefetchSize=10")
        for message in receive(consumer, 30):
            if mode is AckMode.INDIVIDUAL:
                message.acknowledge()
        if mode is AckMode.CLIENT:
            session.acknowledge()
        if mode is AckMode.SESSION_TRANSACTED:
            session.commit()
        session.close()
        assert drain(connection, queue) == []
