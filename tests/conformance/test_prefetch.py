"""How many messages the broker pushes ahead of the application (C2 to C4, D3)."""

import pytest

from tests.conformance.jms import AckMode, Jms, bodies, redelivered, text, texts, with_options


def test_C2_a_consumer_holds_at_most_its_prefetch_and_another_gets_the_rest(jms: Jms, url: str, queue: str) -> None:
    """C2: the limit set by the URI option jms.prefetchPolicy.all."""
    limited = with_options(url, jms__prefetchPolicy__all=5)
    slow = jms.connect(limited).session(AckMode.CLIENT).consumer(queue)
    jms.send(url, queue, *texts(20))
    slow.await_waiting(5)
    other = jms.connect(url).session().consumer(queue)
    assert bodies(other.receive_expected(15)) == [f"m{number}" for number in range(5, 20)]
    assert other.receive_no_wait() is None
    assert bodies(slow.receive_expected(5)) == [f"m{number}" for number in range(5)]
    assert slow.receive_no_wait() is None


def test_C2_the_destination_option_wins_over_the_uri(jms: Jms, url: str, queue: str) -> None:
    """C2: ?consumer.prefetchSize on the destination."""
    limited = with_options(url, jms__prefetchPolicy__queuePrefetch=500)
    slow = jms.connect(limited).session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=1")
    jms.send(url, queue, *texts(10))
    slow.await_waiting(1)
    other = jms.connect(url).session().consumer(queue)
    assert bodies(other.receive_expected(9)) == [f"m{number}" for number in range(1, 10)]
    assert slow.receive_one().body == "m0"


def test_C2_auto_acknowledged_messages_make_room_for_more(jms: Jms, url: str, queue: str) -> None:
    """C2, D1: a prefetch of one is enough for any number of messages."""
    consumer = jms.connect(url).session().consumer(f"{queue}?consumer.prefetchSize=1")
    jms.send(url, queue, *texts(50))
    assert bodies(consumer.receive_expected(50)) == [f"m{number}" for number in range(50)]


def test_D3_below_half_the_prefetch_no_further_message_is_pushed(jms: Jms, url: str, queue: str) -> None:
    """C4, D3: four of ten received and not acknowledged: the consumer still counts as holding ten."""
    slow = jms.connect(url).session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=10")
    jms.send(url, queue, *texts(40))
    slow.receive_expected(4)
    slow.await_waiting(6)
    other = jms.connect(url).session().consumer(queue)
    assert bodies(other.receive_expected(30)) == [f"m{number}" for number in range(10, 40)]
    slow.await_waiting(6)


@pytest.mark.parametrize("acknowledged", [False, True], ids=["unacknowledged", "acknowledged"])
@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_C4_D3_delivered_acks_extend_the_window_by_what_was_received(
    jms: Jms, url: str, queue: str, mode: AckMode, acknowledged: bool
) -> None:
    """C4, D3: at half the prefetch a DELIVERED ack lets a full prefetch be ahead again.

    Acknowledging afterwards gives that extension back, so it lets nothing more through.
    """
    session = jms.connect(url).session(mode)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=10")
    jms.send(url, queue, *texts(40))
    consumer.await_waiting(10)
    received = consumer.receive_expected(5)
    consumer.await_waiting(10)
    for message in received if acknowledged else []:
        session.acknowledge(message)
    other = jms.connect(url).session().consumer(queue)
    assert bodies(other.receive_expected(25)) == [f"m{number}" for number in range(15, 40)]
    assert other.receive_no_wait() is None
    consumer.await_waiting(10)


@pytest.mark.parametrize("prefetch", [1, 2, 5, 10])
@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_D3_a_consumer_that_never_acknowledges_is_still_given_every_message(
    jms: Jms, tcp: str, queue: str, mode: AckMode, prefetch: int
) -> None:
    """C4, D3, D7: the window moves with each DELIVERED ack, without limit; at the end all come back."""
    with jms.connect(tcp) as connection:
        consumer = connection.session(mode).consumer(f"{queue}?consumer.prefetchSize={prefetch}")
        jms.send(tcp, queue, *texts(60))
        assert bodies(consumer.receive_expected(60)) == [f"m{number}" for number in range(60)]
    with jms.connect(tcp) as connection:
        returned = connection.session().consumer(queue).receive_expected(60)
    assert bodies(returned) == [f"m{number}" for number in range(60)]
    assert all(redelivered(returned))


@pytest.mark.parametrize("mode", AckMode)
def test_C2_a_topic_subscriber_holds_at_most_its_prefetch_and_misses_nothing(
    jms: Jms, url: str, topic: str, mode: AckMode
) -> None:
    """C2, D4: what exceeds the prefetch waits in the broker until the subscriber catches up."""
    subscriber = jms.connect(url).session(mode).consumer(f"{topic}?consumer.prefetchSize=5")
    jms.send(url, topic, *texts(60))
    subscriber.await_waiting(5)
    assert bodies(subscriber.receive_expected(60)) == [f"m{number}" for number in range(60)]


def test_D3_acknowledging_reopens_the_window(jms: Jms, url: str, queue: str) -> None:
    """D3: a client that stopped for want of acks goes on after one."""
    session = jms.connect(url).session(AckMode.CLIENT)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=10")
    jms.send(url, queue, *texts(100))
    bodies_seen: list[str] = []
    while len(bodies_seen) < 100:
        batch = consumer.receive_expected(10)
        bodies_seen += bodies(batch)
        session.acknowledge(batch[-1])
    assert bodies_seen == [f"m{number}" for number in range(100)]


@pytest.mark.pull
def test_C3_with_prefetch_zero_each_receive_pulls_one_message(jms: Jms, url: str, queue: str) -> None:
    """C3: nothing is pushed, so another consumer finds all that was not asked for."""
    pulling = jms.connect(url).session().consumer(f"{queue}?consumer.prefetchSize=0")
    assert pulling.receive_no_wait() is None
    assert pulling.receive(timeout_ms=50) is None
    jms.send(url, queue, *texts(4))
    assert pulling.receive_one().body == "m0"
    assert pulling.waiting() == 0
    other = jms.connect(url).session().consumer(queue)
    assert bodies(other.receive_expected(3)) == ["m1", "m2", "m3"]
    jms.send(url, queue, text("last"))
    assert other.receive_one().body == "last"
