"""A broker whose memory is full: producers wait, and all recovers by itself (B6)."""

import pytest

from tests.conformance.jms import ABSENCE_MS, NON_PERSISTENT, PERSISTENT, Jms, Outgoing, bodies, text, with_options
from tests.conformance.scenarios import numbered

BROKER_VARIANT = "full"


def large(count: int) -> list[Outgoing]:
    """Messages of 10 kB each; the limit is 60 kB for all queues together."""
    return [text(f"m{number}" + " " * 10_000) for number in range(count)]


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
def test_B6_producers_wait_while_memory_is_full_and_go_on_when_it_is_not(
    jms: Jms, tcp: str, queue: str, delivery_mode: int
) -> None:
    """B6: two queues, both of whose producers wait; consumers can always drain."""
    names = [f"{queue}.a", f"{queue}.b"]
    synchronous = with_options(tcp, jms__alwaysSyncSend=True)
    producers = [jms.connect(synchronous).session().producer(name) for name in names]
    sendings = [producer.begin_send(*large(20), delivery_mode=delivery_mode) for producer in producers]
    assert not any(sending.is_done(ABSENCE_MS) for sending in sendings)
    consumers = [jms.connect(tcp).session().consumer(name, listen=True) for name in names]
    for consumer in consumers:
        assert [body.strip() for body in bodies(consumer.hear_expected(20))] == numbered(range(20))
    for sending in sendings:
        sending.result()


def test_B6_transactions_wait_too(jms: Jms, tcp: str, queue: str) -> None:
    """B6, G1: a transaction with more than fits is committed once there is room."""
    filler = jms.connect(tcp).session().producer(f"{queue}.filler").begin_send(*large(10))
    assert not filler.is_done(ABSENCE_MS)
    session = jms.connect(tcp).transacted_session()
    sending = session.producer(queue).begin_send(*large(2))
    jms.connect(tcp).session().consumer(f"{queue}.filler").receive_expected(10)
    filler.result()
    sending.result()
    session.commit()
    received = jms.connect(tcp).session().consumer(queue).receive_expected(2)
    assert [body.strip() for body in bodies(received)] == ["m0", "m1"]
