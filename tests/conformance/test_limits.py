"""Full destinations: producers wait or fail, consumers always drain (B4, B6)."""

import time

import pytest

from tests.conformance.jms import ABSENCE_MS, NON_PERSISTENT, PERSISTENT, Jms, Outgoing, bodies, text, with_options
from tests.conformance.scenarios import drain, numbered, under
from tests.helpers.java import JavaError

BROKER_VARIANT = "policies"
DELIVERY_MODES = pytest.mark.parametrize(
    "delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"]
)


def large(count: int) -> list[Outgoing]:
    """Messages of 8 kB each, of which a limit of 20 kB takes two or three."""
    return [text(f"m{number}" + " " * 8000) for number in range(count)]


def stripped(messages: list[str]) -> list[str]:
    return [body.strip() for body in messages]


@DELIVERY_MODES
def test_B6_a_producer_waits_while_its_queue_is_full(jms: Jms, tcp: str, queue: str, delivery_mode: int) -> None:
    """B6: with responses to wait for; it goes on as consumers make room, nothing is lost or out of order."""
    queue = under("small", queue)
    producer = jms.connect(with_options(tcp, jms__alwaysSyncSend=True)).session().producer(queue)
    sending = producer.begin_send(*large(10), delivery_mode=delivery_mode)
    assert not sending.is_done(ABSENCE_MS)
    received = jms.connect(tcp).session().consumer(queue).receive_expected(10)
    assert stripped(bodies(received)) == numbered(range(10))
    assert len(sending.result()) == 10


def test_B6_a_full_queue_stops_only_its_own_producers(jms: Jms, tcp: str, queue: str) -> None:
    """B6: another queue takes messages, over another connection."""
    full = under("small", queue)
    sending = jms.connect(tcp).session().producer(full).begin_send(*large(5))
    assert not sending.is_done(ABSENCE_MS)
    jms.send(tcp, queue, text("passes"))
    assert bodies(drain(jms, tcp, queue)) == ["passes"]
    jms.connect(tcp).session().consumer(full).receive_expected(5)
    sending.result()


def test_B6_a_browser_can_look_into_a_full_queue(jms: Jms, tcp: str, queue: str) -> None:
    """B6: and the waiting producer's message is not in it yet."""
    queue = under("small", queue)
    sending = jms.connect(tcp).session().producer(queue).begin_send(*large(6))
    assert not sending.is_done(ABSENCE_MS)
    shown = stripped(bodies(jms.connect(tcp).session().browse(queue)))
    assert shown == numbered(range(len(shown)))
    assert 1 <= len(shown) < 6
    jms.connect(tcp).session().consumer(queue).receive_expected(6)
    sending.result()


def test_B4_a_producer_with_a_window_waits_in_the_client(jms: Jms, tcp: str, queue: str) -> None:
    """B4, B6: the connection stays free: its other sessions go on sending and receiving."""
    full = under("small", queue)
    connection = jms.connect(with_options(tcp, jms__useAsyncSend=True, jms__producerWindowSize=10_000))
    sending = connection.session().producer(full).begin_send(*large(8))
    assert not sending.is_done(ABSENCE_MS)
    session = connection.session()
    session.producer(queue).send(text("m"))
    assert session.consumer(queue).receive_one().body == "m"
    received = connection.session().consumer(full).receive_expected(8)
    assert stripped(bodies(received)) == numbered(range(8))
    sending.result()


@pytest.mark.parametrize(("policy", "waits_ms"), [("small-failing", 0), ("small-failing-later", 200)])
@DELIVERY_MODES
def test_B6_sends_to_a_full_queue_may_fail_instead(
    jms: Jms, tcp: str, queue: str, policy: str, waits_ms: int, delivery_mode: int
) -> None:
    """B6: sendFailIfNoSpace at once, sendFailIfNoSpaceAfterTimeout after a while: ResourceAllocationException."""
    queue = under(policy, queue)
    producer = jms.connect(with_options(tcp, jms__alwaysSyncSend=True)).session().producer(queue)
    sent, started = 0, 0.0
    with pytest.raises(JavaError) as refused:  # noqa: PT012 - which of them fails is not the point
        for message in large(10):
            started = time.monotonic()
            producer.send(message, delivery_mode=delivery_mode)
            sent += 1
    assert refused.value.class_name == "javax.jms.ResourceAllocationException"
    assert time.monotonic() - started >= waits_ms / 1000
    assert 1 <= sent < 10
    with jms.connect(tcp) as connection:
        received = connection.session().consumer(queue).receive_expected(sent)
    assert stripped(bodies(received)) == numbered(range(sent))
    producer.send(text("goes again"), delivery_mode=delivery_mode)


def test_B6_a_waiting_producer_whose_connection_closes_is_forgotten(jms: Jms, tcp: str, queue: str) -> None:
    """B6: its message was never accepted; the queue works on."""
    queue = under("small", queue)
    connection = jms.connect(with_options(tcp, jms__closeTimeout=100))
    sending = connection.session().producer(queue).begin_send(*large(6))
    assert not sending.is_done(ABSENCE_MS)
    connection.close()
    with pytest.raises(JavaError):
        sending.result()
    received = jms.connect(tcp).session().consumer(queue).receive_up_to(6)
    assert stripped(bodies(received))[:2] == ["m0", "m1"]


def test_B6_a_send_timeout_gives_up_on_a_full_queue(jms: Jms, tcp: str, queue: str) -> None:
    """B1, B6: jms.sendTimeout."""
    queue = under("small", queue)
    producer = jms.connect(with_options(tcp, jms__sendTimeout=300)).session().producer(queue)
    with pytest.raises(JavaError) as refused:
        producer.send(*large(6))
    assert refused.value.class_name == "org.apache.activemq.transport.RequestTimedOutIOException" or (
        "RequestTimedOut" in str(refused.value)
    )
    jms.connect(tcp).session().consumer(queue).receive_up_to(6)
