"""Queue browsers: a look at what waits, in order, that takes nothing (A1)."""

from tests.conformance.jms import AckMode, Jms, Value, bodies, redelivered, text, texts, with_options
from tests.conformance.scenarios import drain, numbered, with_redelivery


def test_A1_a_browser_shows_everything_in_order_and_takes_nothing(jms: Jms, tcp: str, queue: str) -> None:
    """A1: as often as one likes; consumers get it all afterwards, unflagged."""
    jms.send(tcp, queue, *texts(20))
    session = jms.connect(tcp).session()
    for _ in range(3):
        browsed = session.browse(queue)
        assert bodies(browsed) == numbered(range(20))
        assert not any(redelivered(browsed))
    received = drain(jms, tcp, queue)
    assert bodies(received) == numbered(range(20))
    assert not any(redelivered(received))
    assert [message.delivery_count for message in received] == [1] * 20


def test_A1_a_browser_of_an_empty_or_unknown_queue_ends(jms: Jms, tcp: str, queue: str) -> None:
    """A1: at once."""
    session = jms.connect(tcp).session()
    assert session.browse(queue) == []
    session.consumer(queue)
    assert session.browse(queue) == []


def test_A1_a_browser_has_no_hidden_cap(jms: Jms, tcp: str, queue: str) -> None:
    """A1: more than 400 messages, more than its prefetch of 500, more than a page of 200."""
    jms.send(tcp, queue, *texts(1200))
    session = jms.connect(tcp).session()
    assert bodies(session.browse(queue)) == numbered(range(1200))


def test_C2_a_browser_with_a_small_prefetch_sees_everything(jms: Jms, tcp: str, queue: str) -> None:
    """C2: jms.prefetchPolicy.queueBrowserPrefetch."""
    jms.send(tcp, queue, *texts(50))
    session = jms.connect(with_options(tcp, jms__prefetchPolicy__queueBrowserPrefetch=5)).session()
    assert bodies(session.browse(queue)) == numbered(range(50))


def test_A7_a_browser_may_have_a_selector(jms: Jms, tcp: str, queue: str) -> None:
    """A7: shows what matches."""
    messages = [text(f"m{number}", properties={"n": Value("int", number)}) for number in range(30)]
    jms.send(tcp, queue, *messages)
    session = jms.connect(tcp).session()
    assert bodies(session.browse(queue, "n >= 10 AND n < 15")) == numbered(range(10, 15))
    assert session.browse(queue, "n > 100") == []


def test_A1_a_browser_shows_messages_in_flight_too(jms: Jms, tcp: str, queue: str) -> None:
    """A1: what another consumer holds and has not acknowledged is still in the queue."""
    holding = jms.connect(tcp).session(AckMode.CLIENT)
    consumer = holding.consumer(f"{queue}?consumer.prefetchSize=4")
    jms.send(tcp, queue, *texts(8))
    received = consumer.receive_expected(1)
    session = jms.connect(tcp).session()
    assert bodies(session.browse(queue)) == numbered(range(8))
    holding.acknowledge(received[0])
    session.producer(f"{queue}.other").close()
    assert bodies(session.browse(queue))[-7:] == numbered(range(1, 8))


def test_A1_a_browser_does_not_show_what_is_not_committed(jms: Jms, tcp: str, queue: str) -> None:
    """A1, G1: sends of an open transaction are invisible; its acks are provisional, so those messages show."""
    jms.send(tcp, queue, text("received"))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    session.consumer(queue).receive_one()
    session.producer(queue).send(text("sent"))
    looking = jms.connect(tcp).session()
    assert bodies(looking.browse(queue)) == ["received"]
    session.commit()
    assert bodies(looking.browse(queue)) == ["sent"]


def test_A1_a_browser_shows_redelivered_messages_in_their_place(jms: Jms, tcp: str, queue: str) -> None:
    """A1, H1: flagged."""
    jms.send(tcp, queue, *texts(4))
    with jms.connect(tcp) as connection:
        connection.session(AckMode.CLIENT).consumer(queue).receive_expected(2)
    browsed = jms.connect(tcp).session().browse(queue)
    assert bodies(browsed) == numbered(range(4))
    assert redelivered(browsed) == [True, True, False, False]


def test_A1_browsing_does_not_keep_consumers_from_working(jms: Jms, tcp: str, queue: str) -> None:
    """A1: a consumer drains the queue between two looks."""
    jms.send(tcp, queue, *texts(10))
    connection = jms.connect(tcp)
    session = connection.session()
    assert len(session.browse(queue)) == 10
    with jms.connect(tcp) as other:
        other.session().consumer(queue).receive_expected(6)
    assert bodies(session.browse(queue)) == numbered(range(6, 10))


def test_A1_two_browsers_at_the_same_time_see_the_same(jms: Jms, tcp: str, queue: str) -> None:
    """A1: sessions of their own."""
    jms.send(tcp, queue, *texts(10))
    sessions = [jms.connect(tcp).session() for _ in range(2)]
    assert [bodies(session.browse(queue)) for session in sessions] == [numbered(range(10))] * 2
