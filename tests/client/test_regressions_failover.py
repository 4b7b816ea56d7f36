"""Mistakes that a review found: what a reconnect must not change (J4)."""

import threading
from collections.abc import Callable

import pytest

import ackwire
from ackwire import AckMode, Consumer, Message
from ackwire.wire.openwire import commands
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.steps import (
    ARRIVAL_SECONDS,
    drain,
    numbered,
    receive,
    send,
    text_of,
    texts,
)
from tests.client.watched import Watched, failover
from tests.client.work import InThread
from tests.conformance.proxy import CuttableProxy

# ---- copies ----------------------------------------------------------------------------------------------------


def test_A3_J4_each_subscriber_of_one_failover_connection_gets_its_copy(
    connect: Connect, broker: Broker, topic: str
) -> None:
    """A3, J4: the same message for another consumer is no duplicate, in the same session or in another."""
    connection = connect(f"failover:({broker.url})")
    session = connection.session()
    subscribers = [session.consumer(topic), session.consumer(topic), connection.session().consumer(topic)]
    session.send(topic, "one")
    assert [text_of(receive(subscriber)) for subscriber in subscribers] == ["one"] * 3


def test_A3_J4_each_durable_of_one_failover_connection_gets_its_copy(
    connect: Connect, broker: Broker, topic: str
) -> None:
    """A3, J4: a copy that was taken for a duplicate would be acknowledged, and gone for good."""
    connection = connect(f"failover:({broker.url})", client_id=topic)
    session = connection.session()
    subscribers = [session.durable_subscriber(topic, name) for name in ("a", "b")]
    session.send(topic, "one")
    assert [text_of(receive(subscriber)) for subscriber in subscribers] == ["one", "one"]
    for subscriber, name in zip(subscribers, ("a", "b"), strict=True):
        subscriber.close()
        session.unsubscribe(name)


# ---- listeners that end while the link is down ------------------------------------------------------------------

OPTIMIZED = {"jms__optimizeAcknowledge": True, "jms__optimizeAcknowledgeTimeOut": 0}
acking = pytest.mark.parametrize(
    ("mode", "options"),
    [(AckMode.AUTO, {}), (AckMode.AUTO, OPTIMIZED), (AckMode.DUPS_OK, {})],
    ids=["auto", "optimized", "dups-ok"],
)


class Listening:
    """A listener whose first message arrives just before the link is lost, and which returns, or raises, before it is
    back."""

    def __init__(self, proxy: CuttableProxy, watched: Watched, last: str, on_message: Callable[[str], None]) -> None:
        self.seen: list[str | None] = []
        self._proxy = proxy
        self._watched = watched
        self._last = last
        self._on_message = on_message
        self._is_done = threading.Event()

    def __call__(self, message: Message) -> None:
        text = text_of(message)
        self.seen.append(text)
        if len(self.seen) == 1:
            self._proxy.cut()
            self._watched.await_loss()
        if text == self._last:
            self._is_done.set()
        self._on_message(text or "")

    def run(self, consumer: Consumer) -> list[str | None]:
        """Let it listen until it has the last message; returns what it was given."""
        consumer.listener = self
        self._watched.await_loss()
        self._watched.connection.stop()  # returns when the listener has
        self._proxy.mend()
        self._watched.connection.start()
        assert self._is_done.wait(ARRIVAL_SECONDS), self.seen
        return self.seen


class Failing:
    """Raises once, at the message *text*."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text

    def __call__(self, text: str) -> None:
        if text == self._text:
            self._text = None
            raise ValueError(f"{text} cannot be processed now")


def listening_to(
    connect: Connect, proxy: CuttableProxy, queue: str, mode: AckMode, options: dict[str, object]
) -> tuple[Watched, Consumer]:
    send(connect(), queue, *numbered(range(3)))
    policy = {"jms__redeliveryPolicy__initialRedeliveryDelay": 0, "jms__redeliveryPolicy__redeliveryDelay": 0}
    watched = Watched(connect(failover(proxy.port, **policy, **options)))
    return watched, watched.connection.session(mode).consumer(queue)


@acking
def test_J4_what_a_listener_finished_while_the_link_was_down_is_not_processed_again(
    connect: Connect, proxy: CuttableProxy, queue: str, mode: AckMode, options: dict[str, object]
) -> None:
    """J4, D1: the broker delivers it again, because it could not be told; the application is not bothered."""
    watched, consumer = listening_to(connect, proxy, queue, mode, options)
    assert Listening(proxy, watched, "m2", lambda _: None).run(consumer) == numbered(range(3))
    watched.connection.close()
    assert drain(connect(), queue) == []


@acking
def test_J4_what_a_listener_failed_at_while_the_link_was_down_comes_again(
    connect: Connect, proxy: CuttableProxy, queue: str, mode: AckMode, options: dict[str, object]
) -> None:
    """J4, F1: it was never processed, whatever became of the link."""
    watched, consumer = listening_to(connect, proxy, queue, mode, options)
    seen = Listening(proxy, watched, "m2", Failing("m0")).run(consumer)
    assert seen == ["m0", *numbered(range(3))]
    watched.connection.close()
    assert drain(connect(), queue) == []


@acking
def test_J4_a_failure_after_a_reconnect_is_not_acknowledged_in_place_of_what_came_before(
    connect: Connect, proxy: CuttableProxy, queue: str, mode: AckMode, options: dict[str, object]
) -> None:
    """J4, D2, F1: m0 is finished without a link, m1 fails with one: m1 comes again, and only m1."""
    watched, consumer = listening_to(connect, proxy, queue, mode, options)
    seen = Listening(proxy, watched, "m2", Failing("m1")).run(consumer)
    assert seen == ["m0", "m1", "m1", "m2"]
    watched.connection.close()
    assert drain(connect(), queue) == []


# ---- requests --------------------------------------------------------------------------------------------------


def test_J4_an_answer_that_has_come_is_returned_although_the_link_is_lost_while_cleaning_up(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """J4: what is left of a request goes with its connection; the answer does not."""
    watched = Watched(connect(failover(recording.port)))

    def answers_leaving_consumer(command: object) -> bool:
        leaving = {
            info.command_id
            for info in recording.sent(commands.RemoveInfo)
            if isinstance(info.object_id, commands.ConsumerId)
        }
        return isinstance(command, commands.Response) and command.correlation_id in leaving

    recording.hold(answers_leaving_consumer)
    session = watched.connection.session()
    asking = InThread(lambda: session.request(queue, "question"))
    with connect().session() as other:
        question = receive(other.consumer(queue))
        assert question.reply_to is not None
        other.send(question.reply_to, "answer")
    recording.await_received_by(answers_leaving_consumer)
    recording.cut()
    watched.await_loss()
    assert text_of(asking.result()) == "answer"
    recording.mend()
    recording.release()


def test_J4_timeout_limits_how_long_a_send_waits_for_a_new_connection(
    connect: Connect, proxy: CuttableProxy, queue: str
) -> None:
    """J4: failover's `timeout`; without it the send waits as long as any request does, which is a minute."""
    watched = Watched(connect(failover(proxy.port, timeout=100)))
    producer = watched.connection.session().producer(queue)
    proxy.cut()
    watched.await_loss()
    sending = InThread(lambda: producer.send("m"))
    with pytest.raises(ackwire.JMSError):
        sending.result()
    proxy.mend()
    watched.await_return()
    producer.send("after")
    assert "after" in texts(drain(connect(), queue))
