"""The ways to receive, and starting and stopping delivery (A1, C1)."""

import time

from tests.conformance.jms import ABSENCE_MS, Jms, bodies, text, texts


def test_C1_receive_waits_until_a_message_comes(jms: Jms, url: str, queue: str) -> None:
    """C1: receive() without a time limit."""
    consumer = jms.connect(url).session().consumer(queue)
    jms.send(url, queue, text("m"))
    message = consumer.receive_blocking()
    assert message is not None
    assert message.body == "m"


def test_C1_receive_with_a_timeout_gives_up_after_it(jms: Jms, url: str, queue: str) -> None:
    """C1: receive(timeout) returns nothing, neither early nor much later; a later message still comes."""
    consumer = jms.connect(url).session().consumer(queue)
    started = time.monotonic()
    assert consumer.receive(timeout_ms=200) is None
    assert 0.2 <= time.monotonic() - started < 5
    jms.send(url, queue, text("m"))
    assert consumer.receive_one().body == "m"


def test_C1_receive_no_wait_returns_at_once(jms: Jms, url: str, queue: str) -> None:
    """C1: receiveNoWait() takes what was pushed already, or nothing."""
    consumer = jms.connect(url).session().consumer(queue)
    assert consumer.receive_no_wait() is None
    jms.send(url, queue, text("m"))
    consumer.await_waiting(1)
    message = consumer.receive_no_wait()
    assert message is not None
    assert message.body == "m"
    assert consumer.receive_no_wait() is None


def test_C1_a_listener_is_given_every_message_in_order(jms: Jms, url: str, queue: str) -> None:
    """C1: messages that wait, and messages that come later."""
    jms.send(url, queue, *texts(20))
    listener = jms.connect(url).session().consumer(queue, listen=True)
    assert bodies(listener.hear_expected(20)) == [f"m{number}" for number in range(20)]
    jms.send(url, queue, text("later"))
    assert bodies(listener.hear_expected(1)) == ["later"]


def test_A1_delivery_begins_with_start(jms: Jms, url: str, queue: str) -> None:
    """A1: a consumer of a connection that was not started gets nothing, and everything afterwards."""
    connection = jms.connect(url, start=False)
    consumer = connection.session().consumer(queue)
    connection.session().producer(queue).send(*texts(3))
    consumer.assert_nothing_comes()
    connection.start()
    assert bodies(consumer.receive_expected(3)) == ["m0", "m1", "m2"]


def test_A1_stop_pauses_receive_and_start_resumes_it(jms: Jms, url: str, queue: str) -> None:
    """A1: stop() pauses delivery; the connection can still send."""
    connection = jms.connect(url)
    consumer = connection.session().consumer(queue)
    connection.stop()
    connection.session().producer(queue).send(*texts(3))
    consumer.assert_nothing_comes()
    assert consumer.receive_no_wait() is None
    connection.start()
    assert bodies(consumer.receive_expected(3)) == ["m0", "m1", "m2"]


def test_A1_stop_pauses_a_listener_and_start_resumes_it(jms: Jms, url: str, queue: str) -> None:
    """A1: the same for a listener; nothing is lost or out of order."""
    connection = jms.connect(url)
    listener = connection.session().consumer(queue, listen=True)
    jms.send(url, queue, text("before"))
    assert bodies(listener.hear_expected(1)) == ["before"]
    connection.stop()
    jms.send(url, queue, *texts(3))
    assert listener.hear(timeout_ms=ABSENCE_MS) == []
    connection.start()
    assert bodies(listener.hear_expected(3)) == ["m0", "m1", "m2"]


def test_A1_a_stopped_connection_does_not_hold_up_another(jms: Jms, url: str, topic: str) -> None:
    """A1, A3: pausing is each connection's own affair."""
    stopped, running = jms.connect(url), jms.connect(url)
    subscribers = [connection.session().consumer(topic) for connection in (stopped, running)]
    stopped.stop()
    jms.send(url, topic, *texts(5))
    assert len(subscribers[1].receive_expected(5)) == 5
    stopped.start()
    assert len(subscribers[0].receive_expected(5)) == 5
