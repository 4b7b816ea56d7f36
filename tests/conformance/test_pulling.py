"""Consumers with prefetch 0: each receive asks the broker for one message (C3)."""

import pytest

from tests.conformance.jms import ABSENCE_MS, AckMode, Jms, bodies, text, texts, with_options
from tests.conformance.scenarios import named_client, numbered
from tests.helpers.java import JavaError

pytestmark = pytest.mark.pull


def test_C3_a_blocking_receive_waits_in_the_broker(jms: Jms, tcp: str, queue: str) -> None:
    """C3: receive() without a limit; the message that comes later ends it."""
    consumer = jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=0")
    receiving = consumer.begin_receive()
    assert not receiving.is_done(ABSENCE_MS)
    jms.send(tcp, queue, text("m"))
    message = receiving.result()
    assert message is not None
    assert message.body == "m"


def test_C3_a_blocking_receive_ends_when_its_consumer_is_closed(jms: Jms, tcp: str, queue: str) -> None:
    """C3, C1: with nothing; what comes later is for others."""
    consumer = jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=0")
    receiving = consumer.begin_receive()
    assert not receiving.is_done(50)
    consumer.close()
    assert receiving.result() is None
    jms.send(tcp, queue, text("m"))
    assert jms.connect(tcp).session().consumer(queue).receive_one().body == "m"


def test_C3_a_pull_that_timed_out_takes_no_message_later(jms: Jms, tcp: str, queue: str) -> None:
    """C3: the request is over in the broker too."""
    pulling = jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=0")
    assert pulling.receive(100) is None
    assert pulling.receive_no_wait() is None
    jms.send(tcp, queue, text("m"))
    other = jms.connect(tcp).session().consumer(queue)
    assert other.receive_one().body == "m"
    assert pulling.waiting() == 0


def test_C3_pulling_consumers_take_turns_as_they_ask(jms: Jms, tcp: str, queue: str) -> None:
    """C3, A2: each message goes to who asks for it; a third consumer that pushes gets the rest."""
    first, second = (jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=0") for _ in range(2))
    jms.send(tcp, queue, *texts(6))
    order = [consumer.receive_one().body for consumer in (first, first, second, first, second)]
    assert order == numbered(range(5))
    assert jms.connect(tcp).session().consumer(queue).receive_one().body == "m5"


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_C3_pulled_messages_are_acknowledged_like_others(jms: Jms, tcp: str, queue: str, mode: AckMode) -> None:
    """C3, D3, D6, D7: unacknowledged ones come back flagged."""
    jms.send(tcp, queue, *texts(4))
    with jms.connect(tcp) as connection:
        session = connection.session(mode)
        consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
        session.acknowledge(consumer.receive_one())
        consumer.receive_expected(2)
    with jms.connect(tcp) as connection:
        received = connection.session().consumer(queue).receive_expected(3)
    assert bodies(received) == ["m1", "m2", "m3"]
    assert [message.redelivered for message in received] == [True, True, False]


def test_C3_the_prefetch_of_the_whole_connection_may_be_zero(jms: Jms, tcp: str, queue: str) -> None:
    """C3, C2: jms.prefetchPolicy.queuePrefetch=0."""
    consumer = jms.connect(with_options(tcp, jms__prefetchPolicy__queuePrefetch=0)).session().consumer(queue)
    jms.send(tcp, queue, *texts(3))
    assert bodies(consumer.receive_expected(3)) == numbered(range(3))


def test_C3_a_listener_cannot_pull(jms: Jms, tcp: str, queue: str) -> None:
    """C3: refused by the client."""
    session = jms.connect(tcp).session()
    with pytest.raises(JavaError) as refused:
        session.consumer(f"{queue}?consumer.prefetchSize=0", listen=True)
    assert refused.value.class_name == "javax.jms.JMSException"
    assert "prefetch size of zero" in refused.value.message


def test_C3_a_durable_subscriber_may_pull(jms: Jms, tcp: str, topic: str) -> None:
    """C3, A3: what came while it was away, one at a time."""
    name = f"{topic}?consumer.prefetchSize=0"
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(name, "durable")
    jms.send(tcp, topic, *texts(3))
    with named_client(jms, tcp, topic) as connection:
        subscriber = connection.session().durable(name, "durable")
        assert bodies(subscriber.receive_expected(3)) == numbered(range(3))
        assert subscriber.receive_no_wait() is None


def test_C3_a_topic_subscriber_may_pull(jms: Jms, tcp: str, topic: str) -> None:
    """C3, A3."""
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.prefetchSize=0")
    jms.send(tcp, topic, *texts(3))
    assert subscriber.waiting() == 0
    assert bodies(subscriber.receive_expected(3)) == numbered(range(3))
    assert subscriber.receive(50) is None
