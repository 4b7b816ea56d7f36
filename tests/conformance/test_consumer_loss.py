"""A client that dies without a word: SIGKILL of its JVM, by pid (A2, B1, D2, D7)."""

import pytest

from tests.conformance.jms import AckMode, Jms, bodies, redelivered, text, texts, with_options


def test_A2_D7_messages_in_flight_to_a_killed_consumer_go_to_another_flagged_redelivered(
    jms: Jms, doomed_jms: Jms, url: str, queue: str
) -> None:
    """A2, D7: how far a killed consumer came is unknown, so all it was sent counts as seen."""
    jms.send(url, queue, *texts(10))
    doomed_jms.connect(url).session(AckMode.CLIENT).consumer(queue).receive_expected(3)
    survivor = jms.connect(url).session().consumer(queue)
    doomed_jms.kill()
    received = survivor.receive_expected(10)
    assert bodies(received) == [f"m{number}" for number in range(10)]
    assert all(redelivered(received))
    assert survivor.receive_no_wait() is None


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_D7_what_a_killed_consumer_had_acknowledged_does_not_come_back(
    jms: Jms, doomed_jms: Jms, url: str, queue: str, mode: AckMode
) -> None:
    """D3, D6, D7: acks sent before the kill count."""
    jms.send(url, queue, *texts(6))
    session = doomed_jms.connect(url).session(mode)
    consumer = session.consumer(queue)
    for message in consumer.receive_expected(2):
        session.acknowledge(message)
    consumer.receive_expected(1)
    doomed_jms.kill()
    received = jms.connect(url).session().consumer(queue).receive_expected(4)
    assert bodies(received) == ["m2", "m3", "m4", "m5"]
    assert all(redelivered(received))


def test_D1_what_a_killed_auto_consumer_received_does_not_come_back(
    jms: Jms, doomed_jms: Jms, tcp: str, queue: str
) -> None:
    """D1: with receive the ack is out before the application has the message."""
    jms.send(tcp, queue, *texts(5))
    doomed_jms.connect(tcp).session(AckMode.AUTO).consumer(queue).receive_expected(3)
    doomed_jms.kill()
    received = jms.connect(tcp).session().consumer(queue).receive_expected(2)
    assert bodies(received) == ["m3", "m4"]


def test_D2_optimized_acknowledgement_covers_65_percent_of_the_prefetch_at_a_time(
    jms: Jms, doomed_jms: Jms, tcp: str, queue: str
) -> None:
    """D2: a range ack after 65 of 100; what was received later comes back after a kill."""
    jms.send(tcp, queue, *texts(100))
    options = {"jms__optimizeAcknowledgeTimeOut": 0, "jms__prefetchPolicy__all": 100}  # 0: only by count
    doomed_jms.connect(with_options(tcp, jms__optimizeAcknowledge=True, **options)).session().consumer(
        queue
    ).receive_expected(70)
    doomed_jms.kill()
    received = jms.connect(tcp).session().consumer(queue).receive_expected(35)
    assert bodies(received) == [f"m{number}" for number in range(65, 100)]


def test_B1_a_persistent_message_is_with_the_broker_when_send_returns(
    jms: Jms, doomed_jms: Jms, url: str, queue: str
) -> None:
    """B1: persistent sends are synchronous, so a kill right after loses nothing."""
    doomed_jms.connect(url).session().producer(queue).send(text("safe"))
    doomed_jms.kill()
    assert jms.connect(url).session().consumer(queue).receive_one().body == "safe"


def test_A3_a_killed_subscriber_does_not_disturb_the_others(jms: Jms, doomed_jms: Jms, tcp: str, topic: str) -> None:
    """A3: the survivors get everything, before and after."""
    survivor = jms.connect(tcp).session().consumer(topic)
    doomed = doomed_jms.connect(tcp).session().consumer(topic)
    jms.send(tcp, topic, *texts(20))
    doomed.receive_expected(1)
    doomed_jms.kill()
    jms.send(tcp, topic, text("after"))
    assert bodies(survivor.receive_expected(21)) == [*(f"m{number}" for number in range(20)), "after"]
