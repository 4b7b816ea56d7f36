"""Receiving: styles (C1), prefetch (C2), pulling (C3), the room that is left (C4), the local channel (C6)."""

import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import ackwire
from ackwire import AckMode, Message
from ackwire.client.errors import IllegalStateError, InvalidSelectorError, JMSError, RequestTimedOutError
from ackwire.client.sync import consumer as consumer_module
from ackwire.wire.openwire import commands
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import LOOSE, RecordingProxy
from tests.client.work import (
    InThread,
    await_processed,
    await_that,
    await_waiting,
    browse,
    fill,
    receive,
    receive_one,
    text_of,
    texts_of,
)
from tests.conformance.jms import AckMode as JavaAckMode
from tests.conformance.jms import Jms

# ---- C1: styles ------------------------------------------------------------------------------------------------


def test_C1_receive_waits_for_a_message(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    receiving = InThread(consumer.receive)
    receiving.assert_waits()
    fill(connection, queue, 1)
    assert text_of(receiving.result()) == "m0"


def test_C1_receive_with_a_time_limit_returns_nothing_after_it(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    begin = time.monotonic()
    assert consumer.receive(0.05) is None
    assert time.monotonic() - begin >= 0.05
    fill(connection, queue, 1)
    assert text_of(consumer.receive(10)) == "m0"


def test_C1_receive_no_wait_takes_what_is_here(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    assert consumer.receive_no_wait() is None
    fill(connection, queue, 2)
    await_waiting(consumer, 2)
    assert text_of(consumer.receive_no_wait()) == "m0"
    assert text_of(consumer.receive(0)) == "m1"
    assert consumer.receive_no_wait() is None


def test_C1_receive_without_a_limit_has_one_and_says_so(
    connection: ackwire.Connection, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "RECEIVE_TIMEOUT_SECONDS", 0.05)
    consumer = connection.session().consumer(queue)
    with pytest.raises(RequestTimedOutError) as caught:
        consumer.receive()
    for part in (queue, "0.05 s", "receive()", "receive(None)", "receive(seconds)"):
        assert part in str(caught.value)
    fill(connection, queue, 1)
    assert text_of(receive_one(consumer)) == "m0"


def test_C1_iteration_gives_every_message_and_ends_when_the_consumer_is_closed(
    connection: ackwire.Connection, queue: str
) -> None:
    consumer = connection.session().consumer(queue)
    heard: list[str | None] = []
    iterating = InThread(lambda: heard.extend(text_of(message) for message in consumer))
    fill(connection, queue, 20)
    await_that(lambda: len(heard) == 20, "all came")
    iterating.assert_waits()
    consumer.close()
    iterating.result()
    assert heard == [f"m{number}" for number in range(20)]
    assert list(consumer) == []


def test_C1_a_loop_may_be_left_and_entered_again(connection: ackwire.Connection, queue: str) -> None:
    fill(connection, queue, 4)
    consumer = connection.session().consumer(queue)
    first = [text_of(message) for message, _ in zip(consumer, range(1), strict=False)]
    assert first == ["m0"]
    # zip took one more to find out that the range was over: a loop that breaks does not.
    for message in consumer:
        assert text_of(message) == "m2"
        break
    assert text_of(receive_one(consumer)) == "m3"


def test_C1_a_listener_is_called_with_each_message_in_order(connection: ackwire.Connection, queue: str) -> None:
    heard: list[str | None] = []
    consumer = connection.session().consumer(queue)
    consumer.listener = lambda message: heard.append(text_of(message))
    bodies = fill(connection, queue, 200)
    await_that(lambda: len(heard) == 200, "all were heard")
    assert heard == bodies


def test_C1_a_listener_that_is_set_late_hears_what_waited(connection: ackwire.Connection, queue: str) -> None:
    heard: list[str | None] = []
    consumer = connection.session().consumer(queue)
    fill(connection, queue, 3)
    await_waiting(consumer, 3)
    assert text_of(receive_one(consumer)) == "m0"
    consumer.listener = lambda message: heard.append(text_of(message))
    await_that(lambda: heard == ["m1", "m2"], "both were heard")


def test_C1_receiving_is_refused_while_a_listener_is_set(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    consumer.listener = lambda _: None
    for attempt in (
        consumer.receive,
        consumer.receive_no_wait,
        lambda: consumer.receive(0.01),
        lambda: next(iter(consumer)),
    ):
        with pytest.raises(IllegalStateError, match="listener"):
            attempt()
    consumer.listener = None
    fill(connection, queue, 1)
    assert text_of(receive_one(consumer)) == "m0"


def test_C1_listeners_of_one_session_never_run_at_the_same_time(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    at_work = threading.Lock()
    heard: list[str | None] = []
    overlaps: list[str] = []

    def listener(message: Message) -> None:
        if not at_work.acquire(blocking=False):
            overlaps.append(repr(message))
            return
        time.sleep(0.0005)  # long enough for another to come in
        heard.append(text_of(message))
        at_work.release()

    for part in range(4):
        session.consumer(f"{queue}.{part}").listener = listener
    for part in range(4):
        fill(connection, f"{queue}.{part}", 50, prefix=f"{part}-")
    await_that(lambda: len(heard) + len(overlaps) == 200, "all were heard")
    assert overlaps == []
    for part in range(4):
        assert [body for body in heard if str(body).startswith(f"{part}-")] == [f"{part}-{n}" for n in range(50)]


def test_C1_listeners_of_two_sessions_do_run_at_the_same_time(connection: ackwire.Connection, queue: str) -> None:
    together = threading.Barrier(2)
    arrived: list[int] = []

    def listener(_: Message) -> None:
        arrived.append(together.wait(10))

    for part in range(2):
        connection.session().consumer(f"{queue}.{part}").listener = listener
        fill(connection, f"{queue}.{part}", 1)
    await_that(lambda: len(arrived) == 2, "both were at work together")


def test_C1_every_consumer_of_a_session_has_its_turn(connection: ackwire.Connection, queue: str) -> None:
    """A busy one does not starve the others."""
    session = connection.session()
    connection.stop()
    heard: list[str | None] = []
    consumers = [session.consumer(f"{queue}.{part}") for part in range(2)]
    for part, consumer in enumerate(consumers):
        consumer.listener = lambda message: heard.append(text_of(message))
        fill(connection, f"{queue}.{part}", 20, prefix=f"{part}-")
        await_waiting(consumer, 20)
    connection.start()
    await_that(lambda: len(heard) == 40, "all were heard")
    assert {str(body)[0] for body in heard[:4]} == {"0", "1"}


def test_C1_a_listener_may_send_and_receive_with_its_session(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    answers = session.producer(f"{queue}.answers")
    answered: list[str | None] = []

    def listener(message: Message) -> None:
        answers.send(f"answer to {text_of(message)}")

    session.consumer(queue).listener = listener
    fill(connection, queue, 3)
    answered = texts_of(receive(connection.session().consumer(f"{queue}.answers"), 3))
    assert answered == [f"answer to m{number}" for number in range(3)]


def test_C1_two_threads_may_receive_from_one_consumer(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(queue)
    fill(connection, queue, 100)
    threads = [InThread(lambda: texts_of(receive(consumer, 50))) for _ in range(2)]
    received = [body for thread in threads for body in thread.result()]
    assert sorted(received) == sorted(f"m{number}" for number in range(100))


def test_C1_a_bad_selector_is_refused_and_leaves_nothing_behind(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    with pytest.raises(InvalidSelectorError):
        session.consumer(queue, "this is ! no selector")
    fill(connection, queue, 1)
    assert text_of(receive_one(session.consumer(queue))) == "m0"


# ---- C2: prefetch ----------------------------------------------------------------------------------------------


def _prefetches(recording: RecordingProxy) -> list[int]:
    return [info.prefetch_size for info in _consumers(recording)]


def _consumers(recording: RecordingProxy) -> list[commands.ConsumerInfo]:
    """Those of the application; a client watches advisories for its own use."""
    infos = recording.sent(commands.ConsumerInfo)
    return [info for info in infos if "Advisory" not in str(info.destination and info.destination.physical_name)]


def _open_each_kind(connect: Connect, url: str, queue: str, topic: str, mode: AckMode = AckMode.AUTO) -> None:
    """A consumer, a subscriber, a durable subscriber and a browser."""
    with connect(url, client_id=f"client of {queue}") as connection:
        session = connection.session(mode)
        session.consumer(queue)
        session.consumer(topic)
        session.durable_subscriber(topic, "name").close()
        session.unsubscribe("name")
        assert list(session.browser(queue)) == []


ALL: dict[str, object] = {"jms__prefetchPolicy__all": 7}
EACH: dict[str, object] = {
    "jms__prefetchPolicy__queuePrefetch": 1,
    "jms__prefetchPolicy__topicPrefetch": 2,
    "jms__prefetchPolicy__durableTopicPrefetch": 3,
    "jms__prefetchPolicy__queueBrowserPrefetch": 4,
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1000, 32_767, 100, 500]),
        (ALL, [7, 7, 7, 7]),
        (EACH, [1, 2, 3, 4]),
        (ALL | {"jms__prefetchPolicy__topicPrefetch": 2}, [7, 2, 7, 7]),
        ({"jms__optimizeAcknowledge": True}, [1000, 32_767, 1000, 500]),
    ],
    ids=["default", "all", "each", "all-but-one", "optimized"],
)
def test_C2_prefetch_as_the_broker_is_told(
    connect: Connect,
    recording: RecordingProxy,
    queue: str,
    topic: str,
    options: dict[str, object],
    expected: list[int],
) -> None:
    _open_each_kind(connect, recording.url_with(**options), queue, topic)
    assert _prefetches(recording) == expected


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, AckMode.CLIENT),  # in AUTO mode it has a prefetch of 1000 for durable subscribers: see the differences
        (ALL, AckMode.AUTO),
        (EACH, AckMode.CLIENT),
        ({"jms__optimizeAcknowledge": True}, AckMode.AUTO),
        ({"jms__optimizeAcknowledge": True}, AckMode.CLIENT),
    ],
)
def test_C2_the_java_client_tells_the_same(
    connect: Connect,
    java: Jms,
    recording: RecordingProxy,
    queue: str,
    topic: str,
    options: dict[str, object],
    mode: AckMode,
) -> None:
    with java.connect(recording.url_with(**options, **LOOSE, jms__clientID="java")) as connection:
        session = connection.session(JavaAckMode(mode))
        session.consumer(queue)
        session.consumer(topic)
        session.durable(topic, "name").close()
        session.unsubscribe("name")
        session.browse(queue)
    javas = _told(recording)
    recording.forget()
    _open_each_kind(connect, recording.url_with(**options), queue, topic, mode)
    assert _told(recording) == javas


def _told(recording: RecordingProxy) -> list[dict[str, Any]]:
    """What a ConsumerInfo says, without identities."""
    ours = ("command_id", "consumer_id", "client_id")
    return [
        {name: getattr(info, name) for name in (field.name for field in fields(info)) if name not in ours}
        for info in _consumers(recording)
    ]


def test_C2_the_destinations_option_wins(connect: Connect, recording: RecordingProxy, queue: str, topic: str) -> None:
    with connect(recording.url_with(jms__prefetchPolicy__all=7)) as connection:
        session = connection.session()
        for where in (queue, topic):
            session.consumer(f"{where}?consumer.prefetchSize=3")
            session.consumer(where)
        assert list(session.browser(f"{queue}?consumer.prefetchSize=2")) == []
    assert _prefetches(recording) == [3, 7, 3, 7, 2]


@pytest.mark.parametrize("prefetch", [1, 5])
def test_C2_the_broker_pushes_so_many_and_no_more(
    connect: Connect, recording: RecordingProxy, queue: str, prefetch: int
) -> None:
    connection = connect(recording.url)
    fill(connection, queue, 20)
    consumer = connection.session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize={prefetch}")
    await_waiting(consumer, prefetch)
    await_processed(connection, queue)
    assert len(recording.received(commands.MessageDispatch)) == prefetch


def test_C2_other_options_of_a_destination_reach_the_broker(
    connect: Connect, recording: RecordingProxy, queue: str, topic: str
) -> None:
    options = "consumer.exclusive=true&consumer.priority=5&consumer.noLocal=true&consumer.retroactive=true"
    with connect(recording.url) as connection:
        session = connection.session()
        session.consumer(f"{queue}?{options}&consumer.maximumPendingMessageLimit=9&consumer.dispatchAsync=false")
        session.consumer(topic, "a = 1", no_local=True)
    first, second = _consumers(recording)
    assert (first.exclusive, first.priority, first.no_local, first.retroactive) == (True, 5, True, True)
    assert (first.maximum_pending_message_limit, first.dispatch_async, first.selector) == (9, False, None)
    assert (second.exclusive, second.priority, second.no_local, second.retroactive) == (False, 0, True, False)
    assert (second.selector, second.dispatch_async) == ("a = 1", True)


# ---- C3: pulling -----------------------------------------------------------------------------------------------


def _pulls(recording: RecordingProxy) -> list[int]:
    return [pull.timeout for pull in recording.sent(commands.MessagePull)]


def test_C3_each_receive_asks_for_one_message(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    connection = connect(recording.url_with(jms__prefetchPolicy__queuePrefetch=0))
    fill(connection, queue, 3)
    consumer = connection.session().consumer(queue)
    await_processed(connection, queue)
    assert recording.received(commands.MessageDispatch) == []
    assert text_of(consumer.receive(10)) == "m0"
    assert text_of(consumer.receive_no_wait()) == "m1"
    assert text_of(consumer.receive(None)) == "m2"
    assert consumer.receive_no_wait() is None
    timed, *others = _pulls(recording)
    assert 0 < timed <= 10_000
    assert others == [-1, 0, -1]
    assert len(recording.received(commands.MessageDispatch)) == 4  # the last one without a message


def test_C3_the_java_client_asks_the_same(java: Jms, recording: RecordingProxy, connect: Connect, queue: str) -> None:
    fill(connect(), queue, 3)
    with java.connect(recording.url_with(jms__prefetchPolicy__queuePrefetch=0, **LOOSE)) as connection:
        consumer = connection.session().consumer(queue)
        assert consumer.receive(10_000) is not None
        assert consumer.receive_no_wait() is not None
        assert consumer.receive_blocking() is not None
        assert consumer.receive_no_wait() is None
    assert _pulls(recording) == [10_000, -1, 0, -1]


def test_C3_a_pull_waits_at_the_broker(connect: Connect, connection: ackwire.Connection, queue: str) -> None:
    consumer = connect().session().consumer(f"{queue}?consumer.prefetchSize=0")
    receiving = InThread(lambda: consumer.receive(None))
    receiving.assert_waits()
    fill(connection, queue, 1)
    assert text_of(receiving.result()) == "m0"


def test_C3_a_pull_that_times_out_takes_nothing(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(f"{queue}?consumer.prefetchSize=0")
    assert consumer.receive(0.05) is None
    fill(connection, queue, 1)
    await_processed(connection, queue)
    assert len(consumer._core) == 0
    assert text_of(receive_one(connection.session().consumer(queue))) == "m0"


def test_C3_a_listener_is_refused(connection: ackwire.Connection, queue: str) -> None:
    consumer = connection.session().consumer(f"{queue}?consumer.prefetchSize=0")
    with pytest.raises(JMSError, match="prefetch 0"):
        consumer.listener = lambda _: None
    fill(connection, queue, 1)
    assert text_of(receive_one(consumer)) == "m0"


def test_C3_iteration_pulls_too(connection: ackwire.Connection, queue: str) -> None:
    fill(connection, queue, 3)
    consumer = connection.session().consumer(f"{queue}?consumer.prefetchSize=0")
    heard = [text_of(message) for _, message in zip(range(3), consumer, strict=False)]
    assert heard == ["m0", "m1", "m2"]


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL])
def test_C3_pulling_works_in_every_mode(connection: ackwire.Connection, queue: str, mode: AckMode) -> None:
    fill(connection, queue, 5)
    session = connection.session(mode)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    for number in range(5):
        message = receive_one(consumer)
        assert text_of(message) == f"m{number}"
        message.acknowledge()
    assert consumer.receive_no_wait() is None
    session.close()
    assert texts_of(connection.session().browser(queue)) == []


@pytest.mark.parametrize("transacted", [False, True])
def test_C3_no_more_is_asked_for_between_pulls(
    connect: Connect, recording: RecordingProxy, queue: str, transacted: bool
) -> None:
    """A DELIVERED ack asks a broker to push (C4). ActiveMQ deals with it beside the next pull, and may answer that
    twice."""
    connection = connect(recording.url)
    fill(connection, queue, 3)
    session = connection.session(AckMode.SESSION_TRANSACTED if transacted else AckMode.CLIENT)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    assert [text_of(receive_one(consumer)) for _ in range(3)] == ["m0", "m1", "m2"]
    session.commit() if transacted else session.acknowledge()
    await_processed(connection, queue)
    assert [(ack.ack_type, ack.message_count) for ack in recording.sent(commands.MessageAck)] == [
        (commands.AckType.STANDARD, 3)
    ]


# ---- C4: room --------------------------------------------------------------------------------------------------


def test_C4_the_window_moves_with_what_is_received_and_not_acknowledged(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """At each half of the prefetch a DELIVERED ack asks for as many again (D3), without an end."""
    connection = connect(recording.url)
    fill(connection, queue, 60)
    consumer = connection.session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=10")
    for received in range(1, 61):
        receive_one(consumer)
        told = received // 5 * 5
        expected = min(60, 10 + told)
        recording.await_received(commands.MessageDispatch, expected)
        await_processed(connection, queue)
        assert len(recording.received(commands.MessageDispatch)) == expected


def test_C4_the_java_client_has_the_same_window(
    java: Jms, connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    fill(connect(), queue, 60)
    with java.connect(recording.url_with(**LOOSE)) as connection:
        consumer = connection.session(JavaAckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=10")
        for received in (4, 1, 4, 1):
            consumer.receive_expected(received)
            recording.await_received(commands.MessageDispatch, 10)
            connection.await_processed(queue)
        recording.await_received(commands.MessageDispatch, 20)
        connection.await_processed(queue)
        assert len(recording.received(commands.MessageDispatch)) == 20


def test_C4_acknowledged_messages_make_room(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    connection = connect(recording.url)
    fill(connection, queue, 50)
    consumer = connection.session().consumer(f"{queue}?consumer.prefetchSize=5")
    for number in range(50):
        assert text_of(receive_one(consumer)) == f"m{number}"
        in_flight = len(recording.received(commands.MessageDispatch)) - len(recording.sent(commands.MessageAck))
        assert in_flight <= 5


# ---- C6: the local channel -------------------------------------------------------------------------------------


def _send_with_priorities(connection: ackwire.Connection, queue: str, priorities: list[int]) -> None:
    producer = connection.session().producer(queue)
    for number, priority in enumerate(priorities):
        producer.send(f"{priority}-{number}", priority=priority)


PRIORITIES = [4, 0, 9, 4, 9, 1, 5]


@pytest.mark.parametrize("supported", [False, True])
def test_C6_the_local_channel_is_first_in_first_out_or_by_priority(
    connect: Connect, connection: ackwire.Connection, broker: Broker, queue: str, supported: bool
) -> None:
    late = connect(broker.url_with(jms__messagePrioritySupported=supported), start=False)
    consumer = late.session().consumer(queue)
    _send_with_priorities(connection, queue, PRIORITIES)
    await_waiting(consumer, len(PRIORITIES))
    late.start()
    sent = [f"{priority}-{number}" for number, priority in enumerate(PRIORITIES)]
    expected = sorted(sent, key=lambda body: -int(body[0])) if supported else sent
    assert texts_of(receive(consumer, len(PRIORITIES))) == expected
    late.close()
    assert texts_of(connection.session().browser(queue)) == []


def test_C6_by_priority_messages_are_acknowledged_one_by_one(
    connect: Connect, connection: ackwire.Connection, recording: RecordingProxy, queue: str
) -> None:
    """Between two of them others may lie, which nobody has seen: no range may cover those."""
    late = connect(recording.url_with(jms__messagePrioritySupported=True), start=False)
    session = late.session(AckMode.CLIENT)
    consumer = session.consumer(queue)
    _send_with_priorities(connection, queue, PRIORITIES)
    await_waiting(consumer, len(PRIORITIES))
    late.start()
    assert texts_of(receive(consumer, 3)) == ["9-2", "9-4", "5-6"]
    session.acknowledge()
    late.close()
    assert texts_of(connection.session().browser(queue)) == ["4-0", "0-1", "4-3", "1-5"]


# ---- closing ---------------------------------------------------------------------------------------------------


def _closers(connection: ackwire.Connection, session: ackwire.Session, consumer: ackwire.Consumer) -> dict[str, Any]:
    return {"consumer": consumer.close, "session": session.close, "connection": connection.close}


WHAT = ["consumer", "session", "connection"]


@pytest.mark.parametrize("what", WHAT)
def test_C1_closing_from_another_thread_ends_a_receive(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer(queue)
    receiving = InThread(lambda: consumer.receive(None))
    receiving.assert_waits()
    _closers(connection, session, consumer)[what]()
    assert receiving.result() is None


@pytest.mark.parametrize("what", WHAT)
def test_C1_closing_from_another_thread_ends_a_pull(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    receiving = InThread(lambda: consumer.receive(None))
    receiving.assert_waits()
    _closers(connection, session, consumer)[what]()
    assert receiving.result() is None


@pytest.mark.parametrize("what", WHAT)
def test_C1_closing_twice_or_in_any_order_is_fine(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer(queue)
    closers = _closers(connection, session, consumer)
    for name in (what, *WHAT, *reversed(WHAT), what):
        closers[name]()
    assert consumer.is_closed or what != "consumer"
    assert session.is_closed
    assert connection.is_closed


@pytest.mark.parametrize("what", WHAT)
def test_C1_closing_from_many_threads_at_once_is_fine(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer(queue)
    close = _closers(connection, session, consumer)[what]
    for closing in [InThread(close) for _ in range(5)]:
        closing.result()


@pytest.mark.parametrize("what", WHAT)
def test_C1_receiving_from_what_is_closed_is_refused(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer(queue)
    _closers(connection, session, consumer)[what]()
    attempts: list[Callable[[], object]] = [consumer.receive_no_wait, consumer.receive, lambda: consumer.receive(None)]
    for attempt in attempts:
        with pytest.raises(IllegalStateError, match="closed"):
            attempt()


@pytest.mark.parametrize("what", ["session", "connection"])
def test_C1_nothing_can_be_made_from_what_is_closed(connect: Connect, queue: str, what: str) -> None:
    connection = connect()
    session = connection.session()
    _closers(connection, session, session.consumer(queue))[what]()
    attempts: list[Any] = [
        lambda: session.consumer(queue),
        lambda: session.producer(queue),
        lambda: session.browser(queue),
        session.temporary_queue,
        session.recover,
        session.acknowledge,
        session.commit,
    ]
    if what == "connection":
        attempts += [connection.session, connection.start, connection.stop]
    for attempt in attempts:
        with pytest.raises(IllegalStateError, match="closed"):
            attempt()


@pytest.mark.parametrize("what", WHAT)
def test_C1_closing_waits_for_the_listener_at_work(
    connect: Connect, recording: RecordingProxy, queue: str, what: str
) -> None:
    """In AUTO mode its message is acknowledged then, and not delivered again (D1)."""
    connection = connect(recording.url)
    session = connection.session()
    consumer = session.consumer(queue)
    at_work, may_return = threading.Event(), threading.Event()
    heard: list[str | None] = []

    def listener(message: Message) -> None:
        at_work.set()
        may_return.wait(10)
        heard.append(text_of(message))

    consumer.listener = listener
    fill(connection, queue, 1)
    assert at_work.wait(10)
    closing = InThread(_closers(connection, session, consumer)[what])
    closing.assert_waits()
    may_return.set()
    closing.result()
    assert heard == ["m0"]
    with connect() as other:  # the acknowledgement is on its way, and the message stays if it is not
        await_that(lambda: browse(other, queue) == [], "the message is acknowledged")


@pytest.mark.parametrize("what", WHAT)
def test_C1_a_listener_may_close_what_it_hears_from(
    connect: Connect, recording: RecordingProxy, queue: str, what: str
) -> None:
    connection = connect(recording.url)
    session = connection.session()
    consumer = session.consumer(queue)
    heard: list[str | None] = []
    returned = threading.Event()

    def listener(message: Message) -> None:
        heard.append(text_of(message))
        _closers(connection, session, consumer)[what]()
        returned.set()

    fill(connection, queue, 3)
    consumer.listener = listener
    assert returned.wait(10)
    gone = {"consumer": commands.ConsumerId, "session": commands.SessionId, "connection": commands.ConnectionId}[what]
    await_that(lambda: any(isinstance(r.object_id, gone) for r in recording.sent(commands.RemoveInfo)), "it has left")
    connection.close()
    assert heard == ["m0"]
    # A consumer leaves when its listener has returned, and its message is done then. With session or connection
    # closed there is nobody left to acknowledge it: it comes again.
    left = ["m1", "m2"] if what == "consumer" else ["m0", "m1", "m2"]
    with connect() as other:
        await_that(lambda: texts_of(other.session().browser(queue)) == left, f"{left} are left")
    acks = [record.command for record in recording.records if isinstance(record.command, commands.MessageAck)]
    assert len(acks) == (1 if what == "consumer" else 0)


def test_C1_a_listener_may_close_another_consumer_of_its_session(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    connection = connect(recording.url)
    session = connection.session()
    first, second = session.consumer(f"{queue}.1"), session.consumer(f"{queue}.2")
    heard: list[str | None] = []
    returned = threading.Event()

    def listener(message: Message) -> None:
        heard.append(text_of(message))
        second.close()
        returned.set()

    first.listener = listener
    second.listener = lambda message: heard.append(text_of(message))
    fill(connection, f"{queue}.1", 1)
    assert returned.wait(10)
    recording.await_sent(commands.RemoveInfo)
    await_that(lambda: second.is_closed, "the other is closed")
    fill(connection, f"{queue}.2", 1, prefix="other")
    with connect() as other:
        assert text_of(receive_one(other.session().consumer(f"{queue}.2"))) == "other0"
    assert heard == ["m0"]


def test_C1_a_listener_may_close_a_consumer_of_another_session(connect: Connect, queue: str) -> None:
    connection = connect()
    other = connection.session().consumer(f"{queue}.other")
    other.listener = lambda _: None
    consumer = connection.session().consumer(queue)
    consumer.listener = lambda _: other.close()
    fill(connection, queue, 1)
    await_that(lambda: other.is_closed, "the other is closed")


def test_C1_the_connection_fails_and_whoever_waits_is_told(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    errors: list[JMSError] = []
    connection = connect(recording.url)
    connection.on_error = errors.append
    session = connection.session()
    consumer = session.consumer(queue)
    receiving = InThread(lambda: consumer.receive(None))
    receiving.assert_waits()
    recording.cut()
    with pytest.raises(ackwire.ConnectionFailedError):
        receiving.result()
    for attempt in (consumer.receive, session.recover, lambda: session.producer(queue), connection.session):
        with pytest.raises(ackwire.ConnectionFailedError):
            attempt()
    await_that(lambda: len(errors) == 1, "the application was told")
    connection.close()
    with pytest.raises(IllegalStateError, match="closed"):
        connection.session()


def test_C1_what_nobody_took_goes_back_when_the_consumer_is_closed(connect: Connect, queue: str) -> None:
    connection = connect()
    bodies = fill(connection, queue, 200)
    consumer = connection.session().consumer(queue)
    await_waiting(consumer, 200)
    consumer.close()
    received = receive(connection.session().consumer(queue), 200)
    assert texts_of(received) == bodies
    assert not any(message.redelivered for message in received)  # nobody has seen them
