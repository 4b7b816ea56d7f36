"""`failover:` and hand-made reconnecting, over a connection that is cut (J4, D7, G1)."""

import time

import pytest

from tests.conformance.jms import (
    ABSENCE_MS,
    ARRIVAL_TIMEOUT_MS,
    AckMode,
    Jms,
    Received,
    bodies,
    text,
    texts,
    with_options,
)
from tests.conformance.proxy import CuttableProxy
from tests.conformance.scenarios import client_id, drain, left_behind, numbered
from tests.helpers.java import JavaError


def failover(proxy: CuttableProxy, **options: object) -> str:
    """Reconnects through the proxy, ten times a second at first."""
    url = f"failover:(tcp://127.0.0.1:{proxy.port})"
    return with_options(url, initialReconnectDelay=100, maxReconnectDelay=200, **options)


def await_browsed(jms: Jms, url: str, queue: str, count: int) -> None:
    """Return once the queue shows *count* messages."""
    with jms.connect(url) as connection:
        session = connection.session()
        deadline = time.monotonic() + ARRIVAL_TIMEOUT_MS / 1000
        while len(messages := session.browse(queue)) != count:
            assert time.monotonic() < deadline, bodies(messages)
            time.sleep(0.01)


def test_J4_consumers_are_restored_after_a_cut(
    proxy: CuttableProxy, jms: Jms, tcp: str, queue: str, topic: str
) -> None:
    """J4: queue consumer and topic subscriber, with selector, go on as if nothing had been."""
    session = jms.connect(failover(proxy)).session()
    consumer = session.consumer(queue)
    subscriber = session.consumer(topic, selector="JMSType = 'a'")
    jms.send(tcp, queue, text("before"))
    assert consumer.receive_one().body == "before"
    proxy.cut_once()
    jms.send(tcp, queue, *texts(5))
    assert bodies(consumer.receive_expected(5)) == numbered(range(5))
    assert proxy.connections == 2
    jms.send(tcp, topic, text("no", type="b"), text("yes", type="a"))
    assert subscriber.receive_one().body == "yes"


def test_J4_a_durable_subscriber_misses_nothing_during_an_outage(
    proxy: CuttableProxy, jms: Jms, tcp: str, topic: str
) -> None:
    """J4, A3."""
    session = jms.connect(failover(proxy, jms__clientID=client_id(topic))).session()
    subscriber = session.durable(topic, "durable")
    proxy.cut()
    jms.send(tcp, topic, *texts(5))
    assert subscriber.receive(ABSENCE_MS) is None
    proxy.mend()
    assert bodies(subscriber.receive_expected(5)) == numbered(range(5))


def test_J4_sends_during_an_outage_wait_and_arrive(proxy: CuttableProxy, jms: Jms, tcp: str, queue: str) -> None:
    """J4: the producer blocks and goes on."""
    producer = jms.connect(failover(proxy)).session().producer(queue)
    proxy.cut()
    sending = producer.begin_send(*texts(5))
    assert not sending.is_done(ABSENCE_MS)
    proxy.mend()
    sending.result()
    assert bodies(drain(jms, tcp, queue)) == numbered(range(5))


def test_J4_a_send_whose_answer_was_lost_is_not_duplicated(
    proxy: CuttableProxy, jms: Jms, tcp: str, queue: str
) -> None:
    """J4: the broker had stored it; the client sends it again after reconnecting, and it is there once."""
    producer = jms.connect(failover(proxy)).session().producer(queue)
    producer.send(text("first"))
    proxy.mute_broker()
    sending = producer.begin_send(text("second"))
    await_browsed(jms, tcp, queue, 2)
    assert not sending.is_done()
    proxy.cut_once()
    sending.result()
    producer.send(text("third"))
    assert bodies(drain(jms, tcp, queue)) == ["first", "second", "third"]


def test_J4_a_stream_of_sends_survives_cut_after_cut(proxy: CuttableProxy, jms: Jms, tcp: str, queue: str) -> None:
    """J4: each message arrives exactly once and in order."""
    producer = jms.connect(failover(proxy)).session().producer(queue)
    sending = producer.begin_send(*texts(400))
    for _ in range(3):
        time.sleep(0.05)  # somewhere in the stream
        proxy.cut_once()
    assert len(sending.result()) == 400
    assert bodies(drain(jms, tcp, queue)) == numbered(range(400))


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT], ids=["AUTO", "CLIENT"])
def test_J4_prefetched_messages_come_once_after_a_cut(
    proxy: CuttableProxy, jms: Jms, tcp: str, queue: str, mode: AckMode
) -> None:
    """J4, D7: what was received and acknowledged before the cut does not come again, the rest does, once."""
    jms.send(tcp, queue, *texts(10))
    connection = jms.connect(failover(proxy))
    session = connection.session(mode)
    consumer = session.consumer(queue)
    consumer.await_waiting(10)
    received = consumer.receive_expected(4)
    if mode == AckMode.CLIENT:
        session.acknowledge(received[-1])
    connection.await_processed(queue)
    proxy.cut_once()
    proxy.await_connections(2)
    connection.await_processed(queue)  # the client has restored all it had
    assert bodies(consumer.receive_expected(6)) == numbered(range(4, 10))
    consumer.assert_nothing_comes()


def test_J4_a_transaction_of_sends_survives_a_cut(proxy: CuttableProxy, jms: Jms, tcp: str, queue: str) -> None:
    """J4, G1: the client replays what it had sent, and the commit applies once."""
    session = jms.connect(failover(proxy)).transacted_session()
    producer = session.producer(queue)
    producer.send(*texts(3))
    proxy.cut_once()
    proxy.await_connections(2)  # a commit sent into the cut is "in doubt" for the client, and rolled back by it
    producer.send(text("after"))
    session.commit()
    assert bodies(drain(jms, tcp, queue)) == [*numbered(range(3)), "after"]


def test_J4_a_transaction_with_received_messages_is_rolled_back_by_a_cut(
    proxy: CuttableProxy, jms: Jms, tcp: str, queue: str
) -> None:
    """J4, G1: commit raises; the messages come again, and the second attempt does the work once."""
    jms.send(tcp, queue, *texts(3))
    options = {"jms__redeliveryPolicy__initialRedeliveryDelay": 0, "jms__redeliveryPolicy__redeliveryDelay": 0}
    session = jms.connect(failover(proxy, **options)).transacted_session()
    consumer, producer = session.consumer(queue), session.producer(f"{queue}.out")
    consumer.receive_expected(3)
    producer.send(text("lost"))
    proxy.cut_once()
    proxy.await_connections(2)
    with pytest.raises(JavaError) as refused:
        session.commit()
    assert refused.value.class_name == "javax.jms.TransactionRolledBackException"
    again = consumer.receive_expected(3)
    assert bodies(again) == numbered(range(3))
    assert all(message.redelivered for message in again)
    producer.send(text("kept"))
    session.commit()
    assert bodies(left_behind(jms, tcp, f"{queue}.out")) == ["kept"]
    assert drain(jms, tcp, queue) == []


def test_J4_a_commit_whose_answer_was_lost_applies_once(proxy: CuttableProxy, jms: Jms, tcp: str, queue: str) -> None:
    """J4, G1: whether the client is told of success or of a rollback in doubt, nothing is there twice."""
    session = jms.connect(failover(proxy)).transacted_session()
    session.producer(queue).send(*texts(3))
    proxy.mute_broker()
    committing = session.begin_commit()
    await_browsed(jms, tcp, queue, 3)
    proxy.cut_once()
    try:
        committing.result()
    except JavaError as error:
        assert error.class_name == "javax.jms.TransactionRolledBackException"  # noqa: PT017 - either is right
    assert bodies(drain(jms, tcp, queue)) == numbered(range(3))


@pytest.mark.temporary_destinations
def test_J4_temporary_queues_are_restored(proxy: CuttableProxy, jms: Jms, tcp: str) -> None:
    """J4, A8: under their names, with their consumers."""
    session = jms.connect(failover(proxy)).session()
    name = session.temporary_queue()
    consumer = session.consumer(name)
    session.producer(name).send(text("before"))
    assert consumer.receive_one().body == "before"
    proxy.cut_once()
    session.producer(name).send(text("after"))
    assert consumer.receive_one().body == "after"
    jms.send(tcp, name, text("from another"))
    assert consumer.receive_one().body == "from another"


def test_J4_a_client_that_may_not_retry_reports_the_failure(proxy: CuttableProxy, jms: Jms, queue: str) -> None:
    """J4: maxReconnectAttempts; the exception listener hears of it."""
    connection = jms.connect(failover(proxy, maxReconnectAttempts=2))
    producer = connection.session().producer(queue)
    proxy.cut()
    with pytest.raises(JavaError):
        producer.send(text("m"))
    assert jms.reset() != []


def test_D7_a_listener_container_reconnects_by_itself(proxy: CuttableProxy, jms: Jms, tcp: str, queue: str) -> None:
    """D7, G1, M9: a loop of transacted receives that starts over after any exception, as Spring's does.

    Without failover. Each message is processed; one whose commit was cut may come twice, and says so.
    """
    url = with_options(f"tcp://127.0.0.1:{proxy.port}", jms__redeliveryPolicy__initialRedeliveryDelay=0)
    jms.send(tcp, queue, *texts(30))
    processed: list[Received] = []
    connects = 0
    while len({message.body for message in processed}) < 30:
        connects += 1
        assert connects < 10
        try:
            session = jms.connect(url).transacted_session()
            consumer = session.consumer(f"{queue}?consumer.prefetchSize=4")
            while (message := consumer.receive(1000)) is not None:
                if len(processed) in (7, 18):
                    proxy.cut_once()
                processed.append(message)
                session.commit()
        except JavaError as error:
            assert "jms" in error.class_name  # noqa: PT017 - the loop is what is tested
    jms.reset()  # with errors: two connections were cut
    assert sorted({message.body for message in processed}) == sorted(numbered(range(30)))
    repeated = [message for number, message in enumerate(processed) if message.body in bodies(processed[:number])]
    assert all(message.redelivered for message in repeated)
    assert connects >= 3
    assert drain(jms, tcp, queue) == []


def test_D7_a_cut_connection_without_failover_is_reported_and_its_messages_return(
    proxy: CuttableProxy, jms: Jms, tcp: str, queue: str
) -> None:
    """D7, A2: the exception listener is told; another consumer gets the messages, flagged."""
    jms.send(tcp, queue, *texts(3))
    consumer = jms.connect(f"tcp://127.0.0.1:{proxy.port}").session(AckMode.CLIENT).consumer(queue)
    consumer.receive_expected(2)
    other = jms.connect(tcp).session().consumer(queue)
    proxy.cut()
    received = other.receive_expected(3)
    assert bodies(received) == numbered(range(3))
    assert all(message.redelivered for message in received)
    errors = jms.reset()
    assert any("EOFException" in error or "SocketException" in error for error in errors), errors
