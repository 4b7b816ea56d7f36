"""Sending: what waits for the broker and what does not (B1, B2), refusals (B3), the window (B4), callbacks (B5)."""

import asyncio
import itertools
import threading
from typing import Any, Final

import pytest

import ackwire
from ackwire import DeliveryMode, Message, TextMessage
from ackwire.client.errors import (
    ConnectionFailedError,
    DestinationGoneError,
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
    RequestTimedOutError,
    UnsupportedError,
)
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.wire.openwire import commands
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import LOOSE, RecordingProxy
from tests.client.work import (
    NON_PERSISTENT,
    PERSISTENT,
    InThread,
    await_processed,
    await_that,
    drain,
    receive,
    receive_one,
    text_of,
    texts_of,
)
from tests.conformance.jms import Jms, text

SWITCHES: Final = [
    {"jms__sendTimeout": timeout, "jms__alwaysSyncSend": always, "jms__useAsyncSend": use_async}
    for timeout, always, use_async in itertools.product((0, 20_000), (False, True), (False, True))
]


def _is_sync(switches: dict[str, Any], mode: DeliveryMode, *, transacted: bool, callback: bool) -> bool:
    """B1, word for word."""
    is_async = (
        not callback
        and switches["jms__sendTimeout"] <= 0
        and not switches["jms__alwaysSyncSend"]
        and (mode is NON_PERSISTENT or switches["jms__useAsyncSend"] or transacted)
    )
    return not is_async


def _asked_for_answers(recording: RecordingProxy) -> dict[str, bool]:
    """By the body of each message that was sent: whether the broker had to answer."""
    return {str(message.type): message.response_required for message in recording.sent(commands.ActiveMQTextMessage)}


# ---- B1: the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda s: "-".join(str(value) for value in s.values()))
def test_B1_whether_a_send_waits_is_what_the_wire_says(
    connect: Connect, recording: RecordingProxy, queue: str, switches: dict[str, Any]
) -> None:
    expected: dict[str, bool] = {}
    with connect(recording.url_with(**switches)) as connection:
        for transacted in (False, True):
            session = connection.session(transacted=transacted)
            producer = session.producer(queue)
            for mode, callback in itertools.product((PERSISTENT, NON_PERSISTENT), (False, True)):
                name = f"{mode.name} transacted={transacted} callback={callback}"
                on_completion = (lambda *_: None) if callback else None
                producer.send(name, type=name, delivery_mode=mode, on_completion=on_completion)
                expected[name] = _is_sync(switches, mode, transacted=transacted, callback=callback)
            if transacted:
                session.commit()
    assert _asked_for_answers(recording) == expected


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda s: "-".join(str(value) for value in s.values()))
def test_B1_the_java_client_decides_the_same(
    java: Jms, recording: RecordingProxy, queue: str, switches: dict[str, Any]
) -> None:
    expected: dict[str, bool] = {}
    with java.connect(recording.url_with(**switches, **LOOSE)) as connection:
        for transacted in (False, True):
            session = connection.transacted_session() if transacted else connection.session()
            producer = session.producer(queue)
            for mode in (PERSISTENT, NON_PERSISTENT):
                name = f"{mode.name} transacted={transacted}"
                producer.send(text(name, type=name), delivery_mode=int(mode))
                expected[name] = _is_sync(switches, mode, transacted=transacted, callback=False)
            if transacted:
                session.commit()
    assert _asked_for_answers(recording) == expected


def test_B1_submit_always_asks_for_an_answer(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    with connect(recording.url_with(jms__useAsyncSend=True)) as connection:
        producer = connection.session().producer(queue)
        producer.submit("one", type="one", delivery_mode=NON_PERSISTENT).result(10)
    assert _asked_for_answers(recording) == {"one": True}


def test_B1_a_synchronous_send_returns_when_the_broker_has_answered(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    producer = connect(recording.url).session().producer(queue)
    recording.hold_answers()
    sending = InThread(lambda: producer.send("waits"))
    recording.await_sent(commands.ActiveMQTextMessage)
    sending.assert_waits()
    recording.release()
    assert sending.result().message_id is not None


def test_B1_an_asynchronous_send_does_not_wait(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    producer = connect(recording.url).session().producer(queue)
    recording.hold_answers()
    for number in range(10):
        producer.send(str(number), delivery_mode=NON_PERSISTENT)
    recording.await_sent(commands.ActiveMQTextMessage, 10)
    recording.release()


def test_B1_sendTimeout_ends_the_wait_and_says_so(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    producer = connect(recording.url_with(jms__sendTimeout=100)).session().producer(queue)
    recording.hold_answers()
    with pytest.raises(RequestTimedOutError) as caught:
        producer.send("slow")
    for part in ("127.0.0.1", queue, "0.1 s", "jms.sendTimeout"):
        assert part in str(caught.value)
    recording.release()  # an answer that comes late hurts nobody
    assert texts_of(receive(connect().session().consumer(queue), 1)) == ["slow"]


def test_B1_a_send_that_the_broker_refuses_raises(connect: Connect, broker: Broker) -> None:
    gone = _temporary_of_another(connect)
    producer = connect(broker.url_with(jms__watchTopicAdvisories=False)).session().producer()
    with pytest.raises(InvalidDestinationError) as caught:
        producer.send("nobody", destination=gone)
    assert caught.value.java_class is not None


def _temporary_of_another(connect: Connect) -> Destination:
    """A temporary queue that is gone."""
    with connect() as owner:
        return owner.session().temporary_queue()


# ---- B2: the nearer one wins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("in_url", [None, False, True])
@pytest.mark.parametrize("on_factory", [None, False, True])
@pytest.mark.parametrize("on_connection", [None, False, True])
def test_B2_useAsyncSend_in_the_url_on_the_factory_on_the_connection(
    recording: RecordingProxy, queue: str, in_url: bool | None, on_factory: bool | None, on_connection: bool | None
) -> None:
    url = recording.url if in_url is None else recording.url_with(jms__useAsyncSend=in_url)
    given: dict[str, Any] = {} if on_factory is None else {"use_async_send": on_factory}
    factory = ackwire.ConnectionFactory(url, **given)
    with factory.create_connection() as connection:
        if on_connection is not None:
            connection.use_async_send = on_connection
        connection.session().producer(queue).send("body", type="it")
    nearest = next((word for word in (on_connection, on_factory, in_url) if word is not None), False)
    assert _asked_for_answers(recording) == {"it": not nearest}


def test_B2_the_connection_may_change_its_mind(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    with connect(recording.url) as connection:
        producer = connection.session().producer(queue)
        for word in (True, False):
            connection.use_async_send = word
            producer.send("body", type=str(word))
    assert _asked_for_answers(recording) == {"True": False, "False": True}


# ---- B3: refusals, order, copies -------------------------------------------------------------------------------


def test_B3_a_closed_producer_refuses(connection: ackwire.Connection, queue: str) -> None:
    producer = connection.session().producer(queue)
    producer.close()
    producer.close()
    assert producer.is_closed
    for attempt in (producer.send, producer.submit):
        with pytest.raises(IllegalStateError, match="closed"):
            attempt("late")


def test_B3_a_producer_of_a_closed_session_refuses(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    producer = session.producer(queue)
    session.close()
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("late")


def test_B3_a_producer_of_a_closed_connection_refuses(connect: Connect, queue: str) -> None:
    connection = connect()
    producer = connection.session().producer(queue)
    connection.close()
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("late")


def test_B3_without_any_destination_a_send_is_unsupported(connection: ackwire.Connection) -> None:
    producer = connection.session().producer()
    with pytest.raises(UnsupportedError):
        producer.send("where")
    with pytest.raises(UnsupportedError):
        producer.send("where", destination=None)


def test_B3_a_null_destination_where_one_is_set_is_invalid(connection: ackwire.Connection, queue: str) -> None:
    producer = connection.session().producer(queue)
    with pytest.raises(InvalidDestinationError):
        producer.send("nowhere", destination=None)


def test_B3_a_destination_other_than_the_producers_own_is_unsupported(
    connection: ackwire.Connection, queue: str, topic: str
) -> None:
    session = connection.session()
    producer = session.producer(queue)
    for other in (f"{queue}.other", topic, queue.replace("queue://", "topic://")):
        with pytest.raises(UnsupportedError):
            producer.send("elsewhere", destination=other)
    producer.send("here", destination=queue)
    assert text_of(receive_one(session.consumer(queue))) == "here"


@pytest.mark.parametrize("name", ["", "queue://", 5], ids=repr)
def test_B3_what_is_no_destination_is_invalid(connection: ackwire.Connection, name: Any) -> None:
    session = connection.session()
    with pytest.raises(InvalidDestinationError):
        session.producer().send("nowhere", destination=name)
    with pytest.raises(InvalidDestinationError):
        session.producer(name)


@pytest.mark.parametrize("kind", [Kind.TEMP_QUEUE, Kind.TEMP_TOPIC])
def test_B3_a_deleted_temporary_destination_is_invalid(connection: ackwire.Connection, kind: Kind) -> None:
    session = connection.session()
    where = session.temporary_queue() if kind is Kind.TEMP_QUEUE else session.temporary_topic()
    own, free = session.producer(where), session.producer()
    own.send("while it is there")
    connection.delete_temporary(where)
    with pytest.raises(InvalidDestinationError, match="deleted"):
        own.send("late")
    with pytest.raises(InvalidDestinationError, match="deleted"):
        free.send("late", destination=where)


def test_B3_a_temporary_destination_that_its_owner_deleted_is_invalid(connect: Connect) -> None:
    owner, other = connect(), connect()
    where = owner.session().temporary_queue()
    producer = other.session().producer(where)
    producer.send("while it is there")
    owner.delete_temporary(where)

    def is_refused() -> bool:
        try:
            producer.send("late", delivery_mode=NON_PERSISTENT)
        except InvalidDestinationError:
            return True
        return False

    other.on_error = lambda _: None  # the broker may report what was sent before the news came
    await_that(is_refused, "the news of the deletion has come")


def test_B3_refusals_cost_nothing(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    with connect(recording.url) as connection:
        producer = connection.session().producer(queue)
        with pytest.raises(UnsupportedError):
            producer.send("elsewhere", destination="another")
        producer.send("first")
    (message,) = recording.sent(commands.ActiveMQTextMessage)
    assert message.message_id is not None
    assert message.message_id.producer_sequence_id == 1


def test_B3_a_transformer_sees_each_message_before_it_is_sent(connection: ackwire.Connection, queue: str) -> None:
    class Transformer:
        def producer_transform(self, session: object, producer: object, message: Message) -> Message | None:
            assert session is sender
            assert producer is the_producer
            return TextMessage(f"<{text_of(message)}>") if text_of(message) != "leave" else None

        def consumer_transform(self, session: object, consumer: object, message: Message) -> Message | None:
            raise AssertionError(session, consumer, message)

    sender = connection.session()
    the_producer = sender.producer(queue)
    the_producer.transformer = Transformer()
    the_producer.send("change")
    the_producer.send("leave")
    assert texts_of(receive(connection.session().consumer(queue), 2)) == ["<change>", "leave"]


def test_B3_a_connections_transformer_serves_producers_and_consumers(connect: Connect, queue: str) -> None:
    class Transformer:
        def producer_transform(self, session: object, producer: object, message: Message) -> Message | None:
            del session, producer
            return TextMessage(f"<{text_of(message)}>")

        def consumer_transform(self, session: object, consumer: object, message: Message) -> Message | None:
            del session, consumer
            return TextMessage(f"[{text_of(message)}]")

    connection = connect()
    connection.transformer = Transformer()
    session = connection.session()
    session.producer(queue).send("body")
    assert text_of(receive_one(session.consumer(queue))) == "[<body>]"


@pytest.mark.parametrize("mode", [PERSISTENT, NON_PERSISTENT])
def test_B3_a_body_is_frozen_when_it_is_sent(connection: ackwire.Connection, queue: str, mode: DeliveryMode) -> None:
    session = connection.session()
    producer = session.producer(queue)
    message = TextMessage()
    for number in range(5):
        message.text = f"body {number}"
        message.properties["number"] = number
        producer.send(message, delivery_mode=mode)
        message.text = "changed"
        message.properties["number"] = -1
    received = receive(session.consumer(queue), 5)
    assert texts_of(received) == [f"body {number}" for number in range(5)]
    assert [message.properties["number"] for message in received] == list(range(5))
    assert len({message.message_id for message in received}) == 5


def test_B3_one_send_at_a_time_per_session_so_order_holds(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    producers = [session.producer(queue) for _ in range(2)]

    def send(sender: int) -> None:
        for number in range(50):
            producers[sender % 2].send(f"{sender} {number}", delivery_mode=NON_PERSISTENT)

    threads = [InThread(lambda sender=sender: send(sender)) for sender in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.result()
    received = [str(body).split() for body in texts_of(receive(connection.session().consumer(queue), 200))]
    for sender in range(4):
        assert [number for who, number in received if who == str(sender)] == [str(number) for number in range(50)]


def test_B3_a_composite_destination_reaches_all_its_parts(connection: ackwire.Connection, queue: str) -> None:
    session = connection.session()
    other = f"{queue}.other"
    session.producer(f"{queue},{other}").send("both")
    assert text_of(receive_one(session.consumer(queue))) == "both"
    assert text_of(receive_one(session.consumer(other))) == "both"


# ---- B4: the window --------------------------------------------------------------------------------------------


def _hold_window(recording: RecordingProxy) -> None:
    recording.hold(lambda command: isinstance(command, commands.ProducerAck))


@pytest.mark.parametrize("where", ["url", "destination"])
def test_B4_at_its_limit_the_producer_waits_until_the_broker_gives_space_back(
    connect: Connect, recording: RecordingProxy, queue: str, where: str
) -> None:
    options: dict[str, object] = {"jms__useAsyncSend": True}
    if where == "url":
        options["jms__producerWindowSize"] = 10_000
    else:
        options["jms__producerWindowSize"] = 1  # the destination's wins
        queue += "?producer.windowSize=10000"
    producer = connect(recording.url_with(**options)).session().producer(queue)
    assert recording.sent(commands.ProducerInfo)[-1].window_size == 10_000
    _hold_window(recording)
    sending = InThread(lambda: [producer.send("x" * 3000) for _ in range(12)])
    recording.await_sent(commands.ActiveMQTextMessage, 3)  # two leave room, the third fills it
    sending.assert_waits()
    assert len(recording.sent(commands.ActiveMQTextMessage)) == 3
    recording.release()
    sending.result()
    recording.await_received(commands.ProducerAck, 12)


def test_B4_one_ProducerAck_lets_one_more_through(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    url = recording.url_with(jms__useAsyncSend=True, jms__producerWindowSize=2500)
    producer = connect(url).session().producer(queue)
    _hold_window(recording)
    sending = InThread(lambda: [producer.send("x" * 3000) for _ in range(3)])
    for number in (1, 2, 3):
        recording.await_sent(commands.ActiveMQTextMessage, number)
        recording.await_received(commands.ProducerAck, number)
        assert len(recording.sent(commands.ActiveMQTextMessage)) == number
        recording.release_held()
    sending.result()
    recording.release()


def test_B4_what_the_broker_gives_back_is_what_was_taken(connect: Connect, broker: Broker, queue: str) -> None:
    """Otherwise a window would shrink with each message, until nothing can be sent."""
    connection = connect(broker.url_with(jms__useAsyncSend=True, jms__producerWindowSize=4096))
    session = connection.session()
    producer = session.producer(queue)
    bodies: list[Any] = ["text", b"bytes" * 100, {"a": 1, "b": "two"}, None, "x" * 5000]
    for number in range(500):
        body = bodies[number % len(bodies)]
        headers: dict[str, Any] = {"correlation_id": "c" * (number % 50), "reply_to": "queue://answers", "type": "t"}
        producer.send(body, properties={"number": number}, **(headers if number % 3 else {}))
    await_that(lambda: producer._core._window_used == 0, "all of the window was given back")
    assert len(receive(session.consumer(queue), 500)) == 500


def test_B4_synchronous_sends_take_nothing_of_the_window(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    with connect(recording.url_with(jms__producerWindowSize=100)) as connection:
        producer = connection.session().producer(queue)
        for _ in range(5):
            producer.send("x" * 3000)
    assert recording.received(commands.ProducerAck) == []


@pytest.mark.parametrize("hangs_up_first", ["we", "the broker"])
def test_B4_closing_ends_the_wait_for_a_full_window(
    connect: Connect,
    recording: RecordingProxy,
    queue: str,
    hangs_up_first: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = connect(recording.url_with(jms__useAsyncSend=True, jms__producerWindowSize=1000))
    producer = connection.session().producer(queue)
    _hold_window(recording)
    producer.send("x" * 3000)
    waiting = InThread(lambda: producer.send("waits"))
    waiting.assert_waits()
    hang_up = connection._engine.close

    async def later(timeout_seconds: float) -> None:
        while connection._core.is_up:
            await asyncio.sleep(0.002)
        await hang_up(timeout_seconds)

    if hangs_up_first == "the broker":
        monkeypatch.setattr(connection._engine, "close", later)
    connection.close()
    with pytest.raises(IllegalStateError, match="closed"):
        waiting.result()


def test_B4_the_java_client_waits_at_the_same_message(java: Jms, recording: RecordingProxy, queue: str) -> None:
    connection = java.connect(recording.url_with(jms__useAsyncSend=True, jms__producerWindowSize=10_000, **LOOSE))
    producer = connection.session().producer(queue)
    _hold_window(recording)
    sending = producer.begin_send(*[text("x" * 3000)] * 12)
    recording.await_sent(commands.ActiveMQTextMessage, 3)
    assert not sending.is_done(100)
    assert len(recording.sent(commands.ActiveMQTextMessage)) == 3
    recording.release()
    sending.result()


# ---- B5: callbacks and receipts --------------------------------------------------------------------------------

Outcome = tuple[Message, JMSError | None]


def test_B5_each_message_is_reported_once_and_in_order(connection: ackwire.Connection, queue: str) -> None:
    reported: list[Outcome] = []
    producer = connection.session().producer(queue)
    sent = [
        producer.send(f"m{number}", on_completion=lambda *outcome: reported.append(outcome)) for number in range(100)
    ]
    await_that(lambda: len(reported) == 100, "all were reported")
    assert [message for message, _ in reported] == sent
    assert {error for _, error in reported} == {None}
    connection.close()
    assert len(reported) == 100


def test_B5_a_callback_comes_when_the_broker_has_answered(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    reported: list[Outcome] = []
    producer = connect(recording.url).session().producer(queue)
    recording.hold_answers()
    producer.send("body", on_completion=lambda *outcome: reported.append(outcome))
    recording.await_received(commands.Response)
    assert reported == []
    recording.release()
    await_that(lambda: len(reported) == 1, "it was reported")


def test_B5_a_refusal_is_reported_to_the_callback(connect: Connect, broker: Broker) -> None:
    reported: list[Outcome] = []
    gone = _temporary_of_another(connect)
    connection = connect(broker.url_with(jms__watchTopicAdvisories=False))
    producer = connection.session().producer()
    message = producer.send("x", destination=gone, on_completion=lambda *outcome: reported.append(outcome))
    await_that(lambda: len(reported) == 1, "it was reported")
    ((about, error),) = reported
    assert about is message
    assert isinstance(error, InvalidDestinationError)


def test_B5_a_lost_connection_is_reported_for_each_message(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    reported: list[Outcome] = []
    connection = connect(recording.url)
    connection.on_error = lambda _: None
    producer = connection.session().producer(queue)
    recording.hold_answers()
    sent = [producer.send("x", on_completion=lambda *outcome: reported.append(outcome)) for _ in range(5)]
    receipt = producer.submit("y")
    recording.await_sent(commands.ActiveMQTextMessage, 6)
    recording.cut()
    await_that(lambda: len(reported) == 5, "all were reported")
    assert [message for message, _ in reported] == sent
    assert all(isinstance(error, ConnectionFailedError) for _, error in reported)
    with pytest.raises(ConnectionFailedError):
        receipt.result(10)


def test_B5_a_callback_may_take_its_time_and_use_the_connection(connection: ackwire.Connection, queue: str) -> None:
    """It does not run on the thread that reads from the socket."""
    done = threading.Event()
    answers: list[Message] = []

    def on_completion(message: Message, error: JMSError | None) -> None:
        assert error is None
        with connection.session() as session:
            session.producer(f"{queue}.log").send(f"sent {message.message_id}")  # waits for an answer itself
            answers.append(receive_one(session.consumer(f"{queue}.log")))
        done.set()

    sent = connection.session().producer(queue).send("body", on_completion=on_completion)
    assert done.wait(10)
    assert texts_of(answers) == [f"sent {sent.message_id}"]


def test_B5_a_callback_that_raises_harms_no_other(
    connection: ackwire.Connection, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[Outcome] = []

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    producer = connection.session().producer(queue)
    producer.send("first", on_completion=fail)
    producer.send("second", on_completion=lambda *outcome: reported.append(outcome))
    await_that(lambda: len(reported) == 1, "the second was reported")
    assert "on purpose" in caplog.text


def test_B5_callbacks_in_a_transaction_report_too(connection: ackwire.Connection, queue: str) -> None:
    reported: list[Outcome] = []
    session = connection.session(transacted=True)
    producer = session.producer(queue)
    producer.send("body", on_completion=lambda *outcome: reported.append(outcome))
    await_that(lambda: len(reported) == 1, "it was reported")
    assert reported[0][1] is None
    assert drain(connection, queue) == []  # arrived, and not visible
    session.commit()
    assert texts_of(drain(connection, queue)) == ["body"]


def test_B5_a_receipt_is_done_when_the_broker_has_confirmed(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    producer = connect(recording.url).session().producer(queue)
    recording.hold_answers()
    receipts = [producer.submit(f"m{number}") for number in range(20)]
    recording.await_received(commands.Response, 20)
    assert not any(receipt.done() for receipt in receipts)
    recording.release()
    assert texts_of(receipt.result(10) for receipt in receipts) == [f"m{number}" for number in range(20)]


def test_B5_a_refused_receipt_raises(connect: Connect, broker: Broker) -> None:
    gone = _temporary_of_another(connect)
    connection = connect(broker.url_with(jms__watchTopicAdvisories=False))
    receipt = connection.session().producer().submit("x", destination=gone)
    with pytest.raises(InvalidDestinationError):
        receipt.result(10)


def test_B5_closing_confirms_what_was_sent_before(connect: Connect, queue: str) -> None:
    """The broker takes commands in order: what was sent is confirmed before it says goodbye."""
    with connect() as connection:
        producer = connection.session().producer(queue)
        receipts = [producer.submit("body") for _ in range(50)]
        connection.close()
        assert all(receipt.result(10).message_id for receipt in receipts)


def test_B5_an_error_that_nobody_waits_for_goes_to_on_error(connect: Connect, broker: Broker, queue: str) -> None:
    errors: list[JMSError] = []
    gone = _temporary_of_another(connect)
    connection = connect(broker.url_with(jms__watchTopicAdvisories=False))
    connection.on_error = errors.append
    session = connection.session()
    session.producer().send("x", destination=gone, delivery_mode=NON_PERSISTENT)
    await_processed(connection, queue)
    await_that(lambda: len(errors) == 1, "it was reported")
    session.producer(queue).send("the connection lives on")


def test_B3_the_name_of_a_temporary_destination_that_never_was_is_refused(connect: Connect, broker: Broker) -> None:
    never = destination(Kind.TEMP_QUEUE, "ID:nobody-1-2-3:1:1")
    producer = connect(broker.url).session().producer()
    with pytest.raises(DestinationGoneError):
        producer.send("x", destination=never)
