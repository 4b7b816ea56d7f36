"""What ActiveMQ has plugins for: time stamps and ceilings, and redelivery by the broker (A5, F3, N1)."""

import time

import pytest

from tests.conformance.jms import Jms, bodies, text
from tests.conformance.scenarios import dead_letters, drain, marked, with_redelivery

BROKER_VARIANT = "plugins"


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(0, 30_000), (10_000, 10_000), (3_600_000, 60_000)], ids=["never", "short", "long"]
)
def test_N1_the_broker_may_limit_how_long_messages_live(
    jms: Jms, tcp: str, queue: str, asked_ms: int, given_ms: int
) -> None:
    """N1, A5: a ceiling, and a time to live for messages without one; the time stamp is the broker's."""
    before_ms = int(time.time() * 1000)
    jms.send(tcp, queue, text("m"), time_to_live_ms=asked_ms)
    [message] = drain(jms, tcp, queue)
    assert message.expiration - message.timestamp == given_ms
    assert before_ms <= message.timestamp <= time.time() * 1000


def test_F3_the_broker_redelivers_what_a_client_gave_up(jms: Jms, tcp: str, queue: str) -> None:
    """F3: twice, after a delay each, to any consumer; then it is a dead letter."""
    jms.send(tcp, queue, *marked(queue))
    for attempt in (1, 2, 3):
        with jms.connect(with_redelivery(tcp, maximumRedeliveries=0)) as connection:
            session = connection.transacted_session()
            message = session.consumer(queue).receive_one()
            assert (message.body, message.delivery_count) == ("m0", attempt)
            session.rollback()
    assert bodies(dead_letters(jms, tcp, queue, 1)) == ["m0"]
    assert drain(jms, tcp, queue) == []


def test_F3_other_messages_pass_while_one_waits_for_the_broker_to_redeliver_it(jms: Jms, tcp: str, queue: str) -> None:
    """F3: the order changes, and nothing waits for it."""
    jms.send(tcp, queue, *marked(queue, 2))
    session = jms.connect(with_redelivery(tcp, maximumRedeliveries=0)).transacted_session()
    consumer = session.consumer(queue)
    assert consumer.receive_one().body == "m0"
    session.rollback()
    assert consumer.receive_one().body == "m1"
    session.commit()
    again = consumer.receive_one()
    assert (again.body, again.redelivered) == ("m0", True)
    session.commit()
