"""Synchronous, asynchronous, windowed and called-back sends (B1, B2, B4, B5)."""

import pytest

from tests.conformance.jms import (
    NON_PERSISTENT,
    PERSISTENT,
    ConnectionFacts,
    Jms,
    bodies,
    text,
    texts,
    with_options,
)


def send_all(jms: Jms, url: str, queue: str, *, count: int, **how: int) -> tuple[ConnectionFacts, list[str]]:
    """Send *count* messages over *url*; returns the connection's facts and the bodies that arrived."""
    with jms.connect(url) as connection:
        facts = connection.facts()
        connection.session().producer(queue).send(*texts(count), **how)
    with jms.connect(url) as connection:
        return facts, bodies(connection.session().consumer(queue).receive_expected(count))


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
@pytest.mark.parametrize(
    "options",
    [{}, {"jms__useAsyncSend": True}, {"jms__alwaysSyncSend": True}, {"jms__sendTimeout": 10_000}],
    ids=["default", "async", "sync", "timeout"],
)
def test_B1_B2_every_way_of_sending_delivers_everything_in_order(
    jms: Jms, url: str, queue: str, options: dict[str, object], delivery_mode: int
) -> None:
    """B1, B2: sends with and without a response; closing the connection loses none of them."""
    facts, arrived = send_all(jms, with_options(url, **options), queue, count=100, delivery_mode=delivery_mode)
    assert arrived == [f"m{number}" for number in range(100)]
    assert facts.async_send == bool(options.get("jms__useAsyncSend", False))
    assert facts.always_sync_send == bool(options.get("jms__alwaysSyncSend", False))


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
def test_B4_a_producer_window_is_given_back_as_messages_arrive(
    jms: Jms, url: str, queue: str, delivery_mode: int
) -> None:
    """B4: far more than the window of jms.producerWindowSize goes through, so ProducerAcks come back."""
    windowed = with_options(url, jms__useAsyncSend=True, jms__producerWindowSize=8192)
    facts, arrived = send_all(jms, windowed, queue, count=200, delivery_mode=delivery_mode)
    assert facts.producer_window_bytes == 8192
    assert arrived == [f"m{number}" for number in range(200)]


def test_B4_the_destination_option_sets_the_window_too(jms: Jms, url: str, queue: str) -> None:
    """B4: ?producer.windowSize on the destination; each message here is larger than the window."""
    with jms.connect(with_options(url, jms__useAsyncSend=True)) as connection:
        session = connection.session()
        large = text("x" * 3000)
        session.producer(f"{queue}?producer.windowSize=2048").send(*[large] * 50)
        assert len(session.consumer(queue).receive_expected(50)) == 50


def test_B5_each_message_sent_with_a_callback_is_reported(jms: Jms, url: str, queue: str) -> None:
    """B5: success comes back for each one."""
    with jms.connect(url) as connection:
        session = connection.session()
        assert session.producer(queue).send_with_callback(*texts(50)) == 50
        assert bodies(session.consumer(queue).receive_expected(50)) == [f"m{number}" for number in range(50)]
