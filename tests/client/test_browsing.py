"""Queue browsers: a look at what waits, in order, that takes nothing (A1)."""

import threading

import pytest

import ackwire
from ackwire import AckMode, Connection, ConnectionFactory
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import counts, drain, flags, numbered, receive, receive_all, send, texts, with_redelivery


def test_A1_a_browser_shows_everything_in_order_and_takes_nothing(connection: Connection, queue: str) -> None:
    """A1: as often as one likes; consumers get it all afterwards, unflagged."""
    send(connection, queue, *numbered(range(20)))
    session = connection.session()
    with session.browser(queue) as browser:
        assert repr(browser.destination) == queue
        for _ in range(3):
            browsed = list(browser)
            assert texts(browsed) == numbered(range(20))
            assert not any(flags(browsed))
    received = drain(connection, queue)
    assert texts(received) == numbered(range(20))
    assert counts(received) == [1] * 20


def test_A1_a_browser_of_an_empty_or_unknown_queue_ends(connection: Connection, queue: str) -> None:
    """A1: at once."""
    session = connection.session()
    assert list(session.browser(queue)) == []
    session.consumer(queue)
    assert list(session.browser(queue)) == []


@pytest.mark.parametrize("prefetch", [None, 1, 5])
def test_A1_C2_a_browser_sees_more_messages_than_its_prefetch(
    broker: Broker, connect: Connect, queue: str, prefetch: int | None
) -> None:
    """A1, C2: queueBrowserPrefetch is 500 unless set."""
    count = 1200 if prefetch is None else 50
    options = {} if prefetch is None else {"jms__prefetchPolicy__queueBrowserPrefetch": prefetch}
    connection = connect(broker.url_with(jms__useAsyncSend=True, **options))
    send(connection, queue, *numbered(range(count)))
    assert texts(connection.session().browser(queue)) == numbered(range(count))


def test_A7_a_browser_may_have_a_selector(connection: Connection, queue: str) -> None:
    """A7: shows what matches; a bad one is refused."""
    session = connection.session()
    producer = session.producer(queue)
    for number in range(30):
        producer.send(f"m{number}", properties={"n": number})
    assert texts(session.browser(queue, "n >= 10 AND n < 15")) == numbered(range(10, 15))
    assert list(session.browser(queue, "n > 100")) == []
    with pytest.raises(ackwire.InvalidSelectorError):
        list(session.browser(queue, "n >"))


def test_A1_a_browser_shows_messages_in_flight_too(connect: Connect, queue: str) -> None:
    """A1: what another consumer holds and has not acknowledged is still in the queue."""
    holding = connect().session(AckMode.CLIENT)
    consumer = holding.consumer(f"{queue}?consumer.prefetchSize=4")
    connection = connect()
    send(connection, queue, *numbered(range(8)))
    receive(consumer)
    assert texts(connection.session().browser(queue)) == numbered(range(8))
    holding.acknowledge()


def test_A1_a_browser_shows_redelivered_messages_flagged_and_in_their_place(connection: Connection, queue: str) -> None:
    """A1, H1."""
    send(connection, queue, *numbered(range(4)))
    with connection.session(AckMode.CLIENT) as session:
        receive_all(session.consumer(queue), 2)
    browsed = list(connection.session().browser(queue))
    assert (texts(browsed), flags(browsed)) == (numbered(range(4)), [True, True, False, False])


@pytest.mark.parametrize("mode", list(AckMode))
def test_A1_browsing_while_consuming_in_the_same_session(
    broker: Broker, connect: Connect, queue: str, mode: AckMode
) -> None:
    """A1, D: whatever the session's mode; what was browsed is neither acknowledged nor in a transaction."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(6)))
    session = connection.session(mode)
    consumer = session.consumer(queue)
    receive_all(consumer, 2)
    assert texts(session.browser(queue))[-4:] == numbered(range(2, 6))
    receive_all(consumer, 1)
    if mode is AckMode.SESSION_TRANSACTED:
        session.commit()
    elif mode is AckMode.CLIENT:
        session.acknowledge()
    if mode is not AckMode.INDIVIDUAL:
        session.close()
        assert texts(drain(connection, queue)) == ["m3", "m4", "m5"]
        return
    session.close()
    assert texts(drain(connection, queue)) == numbered(range(6))


def test_A1_a_browser_does_not_show_what_is_not_committed(connection: Connection, queue: str) -> None:
    """A1, G1: sends of an open transaction are invisible, to its own session too; its acks are provisional."""
    send(connection, queue, "received")
    session = connection.session(transacted=True)
    receive(session.consumer(queue))
    session.send(queue, "sent")
    for looking in (connection.session(), session):
        assert texts(looking.browser(queue)) == ["received"]
    session.commit()
    assert texts(connection.session().browser(queue)) == ["sent"]


def test_A1_a_look_may_end_early_and_others_go_on(connection: Connection, queue: str) -> None:
    """A1: two looks at the same time see the same; leaving one frees its consumer."""
    send(connection, queue, *numbered(range(10)))
    browser = connection.session().browser(queue)
    first, second = iter(browser), iter(browser)
    assert texts([next(first), next(first)]) == numbered(range(2))
    assert texts(second) == numbered(range(10))
    first.close()  # type: ignore[attr-defined]
    assert texts(browser) == numbered(range(10))
    assert texts(drain(connection, queue)) == numbered(range(10))


def test_A1_closing_a_browser_ends_the_looks_that_are_going_on(connection: Connection, queue: str) -> None:
    """A1: from another thread as well."""
    send(connection, queue, *numbered(range(3)))
    browser = connection.session().browser(f"{queue}?consumer.prefetchSize=1")
    look = iter(browser)
    next(look)
    closing = threading.Thread(target=browser.close)
    closing.start()
    closing.join(10)
    assert len(list(look)) <= 2
    assert texts(drain(connection, queue)) == numbered(range(3))


def test_A1_only_queues_can_be_browsed(connection: Connection, topic: str) -> None:
    """A1."""
    with pytest.raises(ackwire.InvalidDestinationError, match="only queues"):
        connection.session().browser(topic)


def test_A1_a_browser_needs_a_started_connection(broker: Broker, connect: Connect, queue: str) -> None:
    """A1: as JMS says, nothing is delivered before; it goes on when the connection is started."""
    send(connect(), queue, "m")
    with ConnectionFactory(broker.url).create_connection() as connection:
        browser = connection.session().browser(queue)
        later = threading.Timer(0.1, connection.start)
        later.start()
        assert texts(browser) == ["m"]
        later.join()
